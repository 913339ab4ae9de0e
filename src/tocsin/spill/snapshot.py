"""The snapshot of a spilling detector: the parts of the live detector, the pieces by content, and a summary.

A saved state needs no file of the run that saved it. What was pending is pending again, and what was held is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from tocsin.codec import Part, as_number, as_numbers, as_numbers_by_name, decode, encode, only_part, reading
from tocsin.engine.partial_state import forget_before
from tocsin.engine.snapshot import add_to_ledger, ledger_arrays
from tocsin.events import BEGINNING
from tocsin.spill.files import unpacked
from tocsin.spill.frames import Frame
from tocsin.spill.state import Spilled, SplitState

KIND = "spill summary"
SUMMARY, PIECE = "spill", "spill."


def save(state: SplitState, changed_since: int) -> list[Part]:
    """The parts of the live detector, the summary, and the pieces that are new since a version."""
    store, pieces = state.runs.store, state.runs.pieces
    new = [piece for piece in pieces if piece.version > changed_since]
    return [
        *state.live.snapshot(changed_since),
        Part(SUMMARY, state.live.next, _summary(state)),
        *(Part(f"{PIECE}{piece.id}", piece.version, store.data(piece)) for piece in new),
    ]


def _summary(state: SplitState) -> bytes:
    words = {
        "cut": state.cut,
        "edge": state.edge,
        "frames": [frame.saved() for frame in state.frames],
        "pieces": [[piece.id, piece.level, piece.run] for piece in state.runs.pieces],
        "made": state.runs.store.next,
        "next": state.live.next,
        "counts": list(state.counts),
        "spilled": asdict(state.spill_counts),
    }
    return encode(KIND, words, arrays=ledger_arrays(state.ledger))


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


def load(state: SplitState, parts: list[Part]) -> None:
    """Take up a state, also one that was saved without spilling. All is read before anything is changed."""
    mine = [part for part in parts if part.id == SUMMARY or part.id.startswith(PIECE)]
    summary = _read(mine) if mine else None
    live = state.live
    live.ledger = state.ledger  # a state that was saved without spilling has its counts there
    try:
        live.restore([part for part in parts if part not in mine])
    finally:
        live.ledger = None
    state.counts = (live.seen, live.matches, live.retracted)
    if summary is not None:
        _resume(state, summary)


def _read(parts: list[Part]) -> SpillSummary:
    stored = decode(only_part(SUMMARY, parts).data, KIND)
    with reading():
        words = stored.words
        pieces = []
        for id, level, run in words["pieces"]:
            part = only_part(f"{PIECE}{id}", parts)
            table = pa.Table.from_batches([unpacked(part.data, f"part {part.id!r} of the saved state")])
            pieces.append((table, part.version, (id, level, run)))
        seen, matches, retracted = as_numbers(words["counts"])
        spilled = Spilled(**as_numbers_by_name(words["spilled"]))
        return SpillSummary(
            as_number(words["cut"]),
            as_number(words["edge"]),
            [Frame.restored(frame) for frame in words["frames"]],
            pieces,
            as_number(words["made"]),
            as_number(words["next"]),
            (seen, matches, retracted),
            spilled,
            stored.arrays,
        )


def _resume(state: SplitState, summary: SpillSummary) -> None:
    """Set what is known beside the live detector; what was on disk is written to disk again."""
    state.cut, state.edge, state.runs.store.next = summary.cut, summary.edge, summary.made
    state.frames.all = summary.frames
    state.counts, state.spill_counts = summary.counts, summary.spilled
    if state.ledger is not None:
        state.ledger.counts.clear()
        state.ledger.starts.clear()
        add_to_ledger(state.ledger, summary.ledger)
    for piece in summary.pieces:
        state.runs.take_up(*piece)
    state.live.next = max(state.live.next, summary.next)
    if state.cut > BEGINNING:
        forget_before(state.live, state.cut - state.frames.behind, answers_before=state.cut)
