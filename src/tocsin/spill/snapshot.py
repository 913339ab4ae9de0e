"""The snapshot of a spilling detector: the parts of the live detector, the pieces by content, and a summary.

A saved state needs no file of the run that saved it. What was pending is pending again, and what was held is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from tocsin.codec import Part, decode, encode, only_part, reading
from tocsin.engine.snapshot import add_to_ledger, ledger_arrays
from tocsin.events import BEGINNING
from tocsin.spill import internals as grip
from tocsin.spill.budget import Keeping, Spilled
from tocsin.spill.files import unpacked
from tocsin.spill.frames import Frame

KIND = "spill summary"
SUMMARY, PIECE = "spill", "spill."


def save(keeping: Keeping, changed_since: int) -> list[Part]:
    """The parts of the live detector, the summary, and the pieces that are new since a version."""
    store, pieces = keeping.shelf.store, keeping.shelf.pieces
    new = [piece for piece in pieces if piece.version > changed_since]
    return [
        *keeping.live.snapshot(changed_since),
        Part(SUMMARY, keeping.live.next, _summary(keeping)),
        *(Part(f"{PIECE}{piece.id}", piece.version, store.data(piece)) for piece in new),
    ]


def _summary(keeping: Keeping) -> bytes:
    words = {
        "cut": keeping.cut,
        "edge": keeping.edge,
        "frames": [frame.saved() for frame in keeping.frames],
        "pieces": [[piece.id, piece.level, piece.run] for piece in keeping.shelf.pieces],
        "made": keeping.shelf.store.next,
        "next": keeping.live.next,
        "counts": list(keeping.counts),
        "spilled": asdict(keeping.spill_counts),
    }
    return encode(KIND, words, arrays=ledger_arrays(keeping.ledger))


@dataclass(frozen=True, slots=True)
class SpillSummary:
    """What is known beside the live detector; `pieces` are tables with their version, id, level and run."""

    cut: int
    edge: int
    frames: list[Frame]
    pieces: list[tuple[pa.Table, int, tuple[int, int, int]]]
    made: int
    next: int
    counts: tuple[int, int, int]
    spilled: Spilled
    ledger: Mapping[str, Any]


def load(keeping: Keeping, parts: list[Part]) -> None:
    """Take up a state, also one that was saved without spilling. All is read before anything is changed."""
    mine = [part for part in parts if part.id == SUMMARY or part.id.startswith(PIECE)]
    summary = _read(mine) if mine else None
    live = keeping.live
    live.ledger = keeping.ledger  # a state that was saved without spilling has its counts there
    try:
        live.restore([part for part in parts if part not in mine])
    finally:
        live.ledger = None
    keeping.counts = (live._seen, live._matches, live._retracted)
    if summary is not None:
        _resume(keeping, summary)
    keeping.measure()


def _read(parts: list[Part]) -> SpillSummary:
    stored = decode(only_part(SUMMARY, parts).data, KIND)
    with reading():
        words = stored.words
        pieces = []
        for id, level, run in words["pieces"]:
            part = only_part(f"{PIECE}{id}", parts)
            table = pa.Table.from_batches([unpacked(part.data, f"part {part.id!r} of the saved state")])
            pieces.append((table, part.version, (id, level, run)))
        seen, matches, retracted = words["counts"]
        return SpillSummary(
            words["cut"], words["edge"], [Frame.restored(frame) for frame in words["frames"]], pieces,
            words["made"], words["next"], (seen, matches, retracted), Spilled(**words["spilled"]), stored.arrays,
        )  # fmt: skip


def _resume(keeping: Keeping, state: SpillSummary) -> None:
    """Set what is known beside the live detector; what was on disk is written to disk again."""
    keeping.cut, keeping.edge, keeping.shelf.store.next = state.cut, state.edge, state.made
    keeping.frames.all = state.frames
    keeping.counts, keeping.spill_counts = state.counts, state.spilled
    if keeping.ledger is not None:
        keeping.ledger.counts.clear()
        keeping.ledger.starts.clear()
        add_to_ledger(keeping.ledger, state.ledger)
    for piece in state.pieces:
        keeping.shelf.take_up(*piece)
    keeping.live.next = max(keeping.live.next, state.next)
    if keeping.cut > BEGINNING:
        grip.forget(keeping.live, keeping.cut - keeping.frames.reach.behind, keeping.cut)
