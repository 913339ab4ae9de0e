"""Parts of a detector's state: what spilling must see of it, move away, and make it forget.

A detector that gives old events away needs no other interface than this: how many bytes it uses, which events it
stores, their rows, which answers it holds back; how to forget what lies before a time; and further detectors for the
same query, in which what was given away is judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tocsin.encode.batch import one_batch
from tocsin.engine.detector import Detector
from tocsin.engine.number_set import distinct
from tocsin.engine.payload import SINGLE, Payload
from tocsin.events import BEGINNING
from tocsin.items import Ints

NOTHING: Ints = np.zeros(0, np.int64)


# --- what is stored ------------------------------------------------------------------------------------------------


def bytes_used(detector: Detector) -> int:
    """Bytes of stored events, waiting answers and rows; tables for keys and output come on top."""
    return detector.payload.nbytes + sum(branch.stored_bytes for branch in detector.branches)


def words_of_an_event(detector: Detector) -> int:
    """Words that an event takes up in the state if it stands at a leaf of every branch."""
    return sum(branch.program.words for branch in detector.branches)


def bytes_of_a_row(detector: Detector) -> int:
    """Bytes that a single event takes up, about."""
    return SINGLE + 8 * words_of_an_event(detector)


def stored_events(detector: Detector) -> tuple[Ints, Ints]:
    """The numbers and ends of stored events; one that stands at several leaves is there several times."""
    numbers, ends = [NOTHING], [NOTHING]
    for branch in detector.branches:
        mine = branch.stored_events()
        numbers.append(mine[0])
        ends.append(mine[1])
    return np.concatenate(numbers), np.concatenate(ends)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of events as they came, with their numbers and, where they have one, the two numbers of their eid."""

    rows: pa.RecordBatch
    numbers: Ints
    eid_high: Ints | None
    eid_low: Ints | None


def stored_rows(detector: Detector, numbers: Ints) -> StoredRows:
    """The rows of stored events, each once, in order of (end, number)."""
    numbers = distinct([numbers])
    kept = detector.payload.rows(numbers)
    order = np.argsort(kept.end, kind="stable")
    high, low = (column[order] for column in kept.names) if detector.payload.has_eid else (None, None)
    pieces = [pa.Table.from_batches([chunk.taken(at)]) for chunk, at in kept.pieces]
    table = pa.concat_tables(pieces, promote_options="permissive").take(pa.array(order))
    return StoredRows(one_batch(table), numbers[order], high, low)


@dataclass(frozen=True, slots=True)
class HeldAnswers:
    """Answers that wait for guarantees: the end of their first event, and the time and type (None: any) awaited."""

    first_ends: Ints
    until: Ints
    types: tuple[str | None, ...]


def held_answers(detector: Detector) -> HeldAnswers:
    """The answers that wait for guarantees; none where answers wait for nothing but the clock."""
    first, until = [NOTHING], [NOTHING]
    types: list[str | None] = []
    for branch in detector.branches if detector.time.holds else ():
        entries = branch.waiting_answers()
        if len(entries):
            first.append(branch.first_ends(entries))
            until.append(entries[:, 0])
            known = branch.program.types
            types += [known[type] if type >= 0 else None for type in entries[:, 2].tolist()]
    return HeldAnswers(np.concatenate(first), np.concatenate(until), tuple(types))


# --- forgetting ----------------------------------------------------------------------------------------------------


def forget_before(detector: Detector, time: int, *, answers_before: int) -> None:
    """Forget the events that end before a time, and waiting answers whose first event ends before another one."""
    for branch in detector.branches:
        branch.forget_answers(answers_before)
        branch.forget_events(time)
    detector.payload.drop_rows_before(time)


def drop_rows_of_others(detector: Detector) -> None:
    """Drop the rows of events that are not stored any more."""
    detector.payload.keep(distinct([branch.live_numbers() for branch in detector.branches]))


# --- detectors for the same query ----------------------------------------------------------------------------------


def another(detector: Detector) -> Detector:
    """A new detector for the same query. It refuses no event: what is too late was decided before.

    It counts no hidden justifications either: that is done where the answers of all detectors come together.
    """
    made = Detector(
        detector.plan, detector.types, detector.strings, jit=detector.jit, ordered=False, hold=detector.time.hold,
        immediate=detector.time.immediate, functions=detector.functions, soon=detector.soon,
    )  # fmt: skip
    made.ledger = None
    made.eids = detector.eids
    return made


def reset(detector: Detector) -> None:
    """Empty a detector to use it again; its kernels stay compiled."""
    detector.next = detector.withdrawn = 0
    detector.time.clock, detector.time.ended, detector.time.guarantees = BEGINNING, False, {}
    detector.payload = Payload(ordered=False)
    for branch in detector.branches:
        branch.reset()
