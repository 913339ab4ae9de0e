"""The state of a spilling detector as parts: those of the live detector, the pieces by content, and a summary.

A saved state needs no file of the run that saved it. What was pending is pending again, and what was held is held.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import pyarrow as pa

from tocsin.codec import Part
from tocsin.engine.snapshot import opened, sealed
from tocsin.errors import StateError
from tocsin.events import BEGINNING
from tocsin.spill import internals as grip
from tocsin.spill.budget import Keeping, Spilled
from tocsin.spill.files import unpacked
from tocsin.spill.frames import Frame

SUMMARY, PIECE = "spill", "spill."


def save(keeping: Keeping, changed_since: int) -> list[Part]:
    version = keeping.live.next
    parts = [*keeping.live.snapshot(changed_since), Part(SUMMARY, version, sealed(_summary(keeping)))]
    for piece in keeping.shelf.pieces:
        if piece.version > changed_since:
            data = sealed(keeping.shelf.store.data(piece).to_pybytes())
            parts.append(Part(f"{PIECE}{piece.id}", piece.version, data))
    return parts


def _summary(keeping: Keeping) -> bytes:
    ledger = keeping.ledger
    state = {
        "cut": keeping.cut,
        "edge": keeping.edge,
        "frames": [frame.saved() for frame in keeping.frames],
        "pieces": [[piece.id, piece.level, piece.run] for piece in keeping.shelf.pieces],
        "made": keeping.shelf.store.next,
        "next": keeping.live.next,
        "counts": list(keeping.counts),
        "ledger": [] if ledger is None else [[*key, n, ledger.starts[key]] for key, n in ledger.counts.items()],
        "spilled": asdict(keeping.spill_counts),
    }
    return json.dumps(state).encode()


def load(keeping: Keeping, parts: list[Part]) -> None:
    mine = {part.id: part for part in parts if part.id == SUMMARY or part.id.startswith(PIECE)}
    live = keeping.live
    live.ledger = keeping.ledger  # a state that was saved without spilling has its counts there
    live.restore([part for part in parts if part.id not in mine])
    live.ledger = None
    keeping.counts = (live._seen, live._matches, live._retracted)
    if SUMMARY in mine:
        _resume(keeping, mine)
    keeping.measure()


def _resume(keeping: Keeping, mine: dict[str, Part]) -> None:
    """What is restored beside the live detector; what was on disk is written to disk again."""
    state = json.loads(opened(mine[SUMMARY]))
    missing = [id for id, _, _ in state["pieces"] if f"{PIECE}{id}" not in mine]
    if missing:
        raise StateError(
            "the saved state is not complete",
            detail=f"part {PIECE}{missing[0]} is missing",
            hint="save and restore all parts together",
        )
    keeping.cut, keeping.edge, keeping.shelf.store.next = state["cut"], state["edge"], state["made"]
    keeping.frames.all = [Frame.restored(frame) for frame in state["frames"]]
    seen, matches, retracted = state["counts"]
    keeping.counts, keeping.spill_counts = (seen, matches, retracted), Spilled(**state["spilled"])
    if keeping.ledger is not None:
        keeping.ledger.counts = {(high, low): count for high, low, count, _ in state["ledger"]}
        keeping.ledger.starts = {(high, low): start for high, low, _, start in state["ledger"]}
    for id, level, run in state["pieces"]:
        part = mine[f"{PIECE}{id}"]
        table = pa.Table.from_batches([unpacked(opened(part), f"part {part.id}")])
        keeping.shelf.take_up(table, part.version, (id, level, run))
    keeping.live.next = max(keeping.live.next, state["next"])
    if keeping.cut > BEGINNING:
        grip.forget(keeping.live, keeping.cut - keeping.frames.reach.behind, keeping.cut)
