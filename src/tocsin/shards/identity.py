"""The identity of a checkpoint: its queries, the columns stored for each, and the number of shards.

A query may change its SELECT as long as the stored events have what it reads, and queries may be added; everything else
is another query and needs another checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from tocsin.codec import VERSION, as_record, check_version, reading
from tocsin.errors import StateError

PLACE = "the checkpoint"


@dataclass(slots=True)
class Known:
    """What a checkpoint knows of a unit: its queries, the first block it saw, and the columns stored for it.

    `queries` are fingerprints, `texts` the queries themselves, to compare changed ones with.
    """

    queries: list[str]
    since: int
    columns: dict[str, str]
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Identity:
    """All that a later run is compared with; `layout` is the number of shards of each group."""

    units: dict[str, Known]
    layout: list[int]
    clock: bool = False

    def data(self) -> bytes:
        return json.dumps({"format": VERSION, **asdict(self)}, indent=1).encode()

    @staticmethod
    def read(data: bytes) -> Identity:
        with reading("the checkpoint's description"):
            state = json.loads(data)
            check_version(state.pop("format"), PLACE)
            return as_record(Identity, state)


def admit(known: Mapping[str, Known], here: Mapping[str, Known]) -> dict[str, Known]:
    """Return all units, known and added ones; raises if a known query was changed or its columns were not stored."""
    for name, old in known.items():
        if name not in here or here[name].queries != old.queries:
            raise StateError(
                f"the checkpoint belongs to another query: {name!r} has changed or is missing",
                detail=f"this job has {', '.join(sorted(here))}; only SELECT may change, and queries may be added",
                hint="go on with the queries that wrote the checkpoint, or begin a new one with what fits of this one: "
                "detect(..., carry_over=OLD)",
            )
        _fitting(name, old.columns, here[name].columns)
    told = {name: replace(old, texts=old.texts or here[name].texts) for name, old in known.items()}
    return {**here, **told}


def _fitting(name: str, stored: Mapping[str, str], needed: Mapping[str, str]) -> None:
    for column, type in needed.items():
        if column not in stored:
            raise StateError(
                f"{name} now reads {column!r}, which the stored events do not have",
                detail=f"they were stored with {', '.join(sorted(stored)) or 'no attributes'}",
                hint="leave the column out, or start with a new checkpoint",
            )
        if stored[column] != type:
            raise StateError(
                f"column {column!r} is {type} now and was {stored[column]} in the stored events",
                hint="cast it to what it was, or start with a new checkpoint",
            )


def check_clock(stored: bool, here: bool) -> None:
    """Refuse a clock for a checkpoint without one, and none for a checkpoint with one."""
    if stored != here:
        raise StateError(
            f"the checkpoint was written {'with' if stored else 'without'} a clock",
            detail="Spark remembers for each source how far it was read, and the clock is one of them",
            hint=f"{'say clock=... again' if stored else 'leave the clock out'}, or begin a new checkpoint with this "
            "one's state: detect(..., carry_over=OLD)",
        )


def check_layout(stored: list[int], here: list[int], *, sources: bool = False) -> None:
    """Refuse another number of shards than that of the checkpoint; groups may be added at the end.

    Added shards have not heard the clocks of slow sources, so with `sources` no group may be added.
    """
    if sources and here != stored and here[: len(stored)] == stored:
        raise StateError(
            "a query with a key of its own cannot join a stream of several sources that runs already",
            detail="its shards would not know how far each source has come",
            hint="start it with a checkpoint of its own",
        )
    if here[: len(stored)] != stored:
        raise StateError(
            f"the checkpoint has {stored} shards by key, this job has {here}",
            detail="an event's shard is part of the stored state",
            hint=f"say buckets={max(stored, default=1)} and put new queries behind the old ones, or begin a new "
            "checkpoint with this one's state: detect(..., carry_over=OLD)",
        )
