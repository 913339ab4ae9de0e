"""Who a checkpoint belongs to: its queries, the columns stored for each, and the number of shards.

A query may change its SELECT as long as the stored events have what it reads, and queries may be added; everything else
is another query and needs another checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tocsin.codec import VERSION, check_version, reading
from tocsin.errors import StateError

PLACE = "the checkpoint"


@dataclass(slots=True)
class Known:
    """A unit as a state knows it: its queries, the first block it saw, and the columns that were kept for it."""

    queries: list[str]
    since: int
    columns: dict[str, str]


@dataclass(slots=True)
class Identity:
    """Everything that a later run is compared with; `layout` says for each group how many shards it has."""

    units: dict[str, Known] = field(default_factory=dict)
    layout: list[int] = field(default_factory=list)

    def data(self) -> bytes:
        return json.dumps({"format": VERSION, **asdict(self)}, indent=1).encode()

    @staticmethod
    def read(data: bytes) -> Identity:
        with reading("the checkpoint's description"):
            state = json.loads(data)
            check_version(state.pop("format"), PLACE)
            units = {name: Known(**each) for name, each in state.pop("units").items()}
            return Identity(units=units, **state)


def admit(known: Mapping[str, Known], here: Mapping[str, Known]) -> dict[str, Known]:
    """The units that go on, with what is known of them, and those that are new; raises if one was changed."""
    for name, old in known.items():
        if name not in here or here[name].queries != old.queries:
            raise StateError(
                f"the checkpoint belongs to another query: {name!r} has changed or is missing",
                detail=f"this job has {', '.join(sorted(here))}; only SELECT may change, and queries may be added",
                hint="go on with the queries that wrote the checkpoint, or start with a new checkpoint",
            )
        _fitting(name, old.columns, here[name].columns)
    return {**here, **known}


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


def check_layout(stored: list[int], here: list[int], *, sources: bool = False) -> None:
    """The number of shards is fixed in a checkpoint; further groups may come behind.

    New shards have not heard the clocks of sources that are slow just now, so with `sources` there may be none.
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
