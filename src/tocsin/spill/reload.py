"""Reloading: frames are brought up to date in a detector of their own, which is filled with stored events.

Events that the frames knew are replayed without answers, those that they did not know are pushed in order of arrival.
Where every event of a query has a key and no answer is held, only the events of keys with an unknown event are read:
all others stay what they were, bytes on disk.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.encode.arrow import is_text
from tocsin.encode.batch import one_batch
from tocsin.encode.merge import take
from tocsin.engine.changes import ChangeBatch
from tocsin.engine.detector import Detector
from tocsin.engine.number_set import distinct
from tocsin.engine.partial_state import another, bytes_used, held_answers, reset, words_of_an_event
from tocsin.engine.payload import View
from tocsin.engine.replay import replay, replay_events
from tocsin.items import Ints, Items
from tocsin.plan.block import Plan
from tocsin.plan.rewrite import all_blocks
from tocsin.spill.files import EID, HIGH, LOW, NUMBER, SIGN, Piece, PieceReader, ints, joined
from tocsin.spill.frames import Frame, Frames, Knowledge, only, owned_by
from tocsin.spill.runs import SortedRuns, split_at

MOST_SPARE = 2


class FrameLoader:
    """Brings frames up to date in detectors that are used again, and learns what that costs."""

    def __init__(self, live: Detector, runs: SortedRuns, frames: Frames) -> None:
        self.live, self.runs, self.frames = live, runs, frames
        self.rows_read = 0
        self.drawn = 16.0  # how many known events an unknown one draws in by its key, lately
        self.weight = {False: 1.0, True: 2.0}  # bytes that were needed for each that lies on disk; selective: True
        self.peak = 0  # bytes that the last detector needed at most
        self.spare: list[Detector] = []
        self._reader = PieceReader(live.plan, live.types, live.reads)
        self._key = key_attribute(live.plan)

    def is_selective(self, group: list[Frame]) -> bool:
        """Whether some of the events suffice."""
        return self._key is not None and not any(frame.held for frame in group)

    def size(self, group: list[Frame], overlap: float) -> int:
        """Bytes that a detector for some frames will need, about; an event concerns `overlap` frames on average."""
        words = words_of_an_event(self.live)
        low, high = self.frames.region(group)
        size, count = self.runs.amount(low, high)
        selective = self.is_selective(group)
        whole = (size + 16 * words * count) * self.weight[selective]
        if not count or not selective:
            return int(whole)
        fed = self.drawn * sum(frame.pending for frame in group) / overlap
        return int(whole * min(1.0, fed / count))

    def learn(self, selective: bool, expected: int, used: int) -> None:
        """How much was needed where so much was expected."""
        if expected:
            self.weight[selective] *= max(0.5, 0.75 + 0.25 * used / expected)

    def update(self, group: list[Frame], now: Knowledge, next: int) -> tuple[list[ChangeBatch], Detector]:
        """Bring neighbouring frames up to date: their answers, and the detector that found them.

        Each frame joins where it stopped. What it would say to what came before, it has said.
        """
        detector = self.spare.pop() if self.spare else another(self.live)
        waiting = sorted(group, key=lambda frame: (frame.known, frame.at.order))
        pending = self._fill(detector, group, waiting[0].known)
        self.peak = bytes_used(detector)
        changes: list[ChangeBatch] = []
        told: list[Frame] = []
        at = waiting[0].at if self.live.time.holds else self._before(waiting)
        replay(detector, at.items(detector.types))
        for frame in [*waiting, None]:
            known, then = (next, now) if frame is None else (frame.known, frame.at if self.live.time.holds else at)
            some = pending.before(known)
            if some is not None:
                changes += [only(each, owned_by(told)) for each in detector.push(some)]
            if frame is None:
                self.peak = max(self.peak, bytes_used(detector))
            if then != at:
                changes += [only(each, owned_by(told)) for each in detector.push(then.items(detector.types))]
                at = then
            if frame is not None:
                told.append(frame)
        held = held_answers(detector)
        for frame in group:
            frame.known, frame.at, frame.pending = next, now, 0
            frame.hold(held)
        return [without_unshown_rows(each) for each in changes if len(each)], detector

    def _before(self, frames: list[Frame]) -> Knowledge:
        """If no answers are held: what the first frame was guaranteed, at a time when the windows of all had passed."""
        return Knowledge(max(frame.at.clock for frame in frames), frames[0].at.guarantees)

    def release(self, detector: Detector) -> None:
        """A detector is not needed any more."""
        if len(self.spare) < MOST_SPARE:
            reset(detector)
            self.spare.append(detector)

    def _fill(self, detector: Detector, group: list[Frame], before: int) -> Pending:
        """Feed what was known before a number; the rest comes back, in order of arrival."""
        low, high = self.frames.region(group)
        pieces = self.runs.within(low, high)
        parted = {piece.id: self._split(piece, group) for piece in pieces if piece.newest >= before}
        pending = _in_order_of_arrival([new for _, new in parted.values()])
        wanted = self._keys(pending) if self.is_selective(group) else None
        known = []
        for piece in pieces:
            rows = parted[piece.id][0] if piece.id in parted else self.runs.read(piece, low, high)
            known.append(rows if wanted is None else self._among(rows, wanted))
        if any(SIGN in rows.schema.names for rows in known):
            known = without_withdrawn(known)
        for table in joined(known, sort=self.live.time.holds):
            replay_events(detector, self._reader.items(one_batch(table), self.live.strings), settled=True)
        self.rows_read += sum(piece.count for piece in pieces)
        if pending is None:
            return Pending(np.zeros(0, np.int64), None)
        if wanted is not None:
            self.drawn = 0.75 * self.drawn + 0.25 * sum(map(len, known)) / len(pending)
        return Pending(ints(pending, NUMBER), self._reader.items(one_batch(pending), self.live.strings))

    def _keys(self, pending: pa.Table | None) -> pa.Array | None:
        """The keys of some rows; None if they cannot be compared as they are."""
        if pending is None or self._key not in pending.schema.names:
            return None
        column = pending.column(self._key)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.unique().drop_null() if _is_exact(column.type) else None

    def _split(self, piece: Piece, group: list[Frame]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows that every frame knows that depends on them, and the others."""
        rows = self.runs.read(piece, *self.frames.region(group))
        return split_at(rows, self.frames.known(group, ints(rows, "end")))

    def _among(self, rows: pa.RecordBatch, keys: pa.Array) -> pa.RecordBatch:
        """The rows with one of the keys; all of them if that cannot be seen."""
        if self._key not in rows.schema.names:
            return rows
        column = rows.column(self._key)
        if pa.types.is_dictionary(column.type):
            if column.type.value_type != keys.type:
                return rows
            inside = pc.is_in(column.dictionary, keys).take(column.indices)
        elif column.type != keys.type:
            return rows
        else:
            inside = pc.is_in(column, keys)
        return rows.filter(inside)


class Pending:
    """Events in order of arrival, given out piece by piece."""

    def __init__(self, numbers: Ints, items: Items | None) -> None:
        self.numbers, self.items, self.given = numbers, items, 0

    def before(self, number: int) -> Items | None:
        """Those that came before a number and were not given yet; None if there are none."""
        begin, self.given = self.given, max(self.given, int(np.searchsorted(self.numbers, number)))
        if self.items is None or begin == self.given:
            return None
        whole = self.given - begin == len(self.numbers)
        return self.items if whole else take(self.items, np.arange(begin, self.given))


def _is_exact(type: pa.DataType) -> bool:
    """Whether values are equal for the query where they are equal for Arrow."""
    return bool(pa.types.is_integer(type) or is_text(type))


def key_attribute(plan: Plan) -> str | None:
    """An attribute that all events of an answer have in common, and all that can spoil it."""
    keys = dict(plan.key)
    leaves = [leaf.id for block in all_blocks(plan) for leaf in block.leaves]
    names = {keys[id][0] if keys.get(id) else None for id in leaves}
    return names.pop() if len(names) == 1 else None


def _in_order_of_arrival(batches: list[pa.RecordBatch]) -> pa.Table | None:
    tables = joined(batches, sort=False)
    if not tables:
        return None
    whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
    return whole.take(pa.array(np.argsort(ints(whole, NUMBER), kind="stable"))).combine_chunks()


def without_withdrawn(several: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Rows without those that were taken back; the last word about an event counts."""
    said: dict[tuple[object, ...], tuple[int, int]] = {}
    keys = []
    for rows in several:
        signs = rows.column(SIGN).to_pylist() if SIGN in rows.schema.names else [1] * len(rows)
        named = (HIGH, LOW) if HIGH in rows.schema.names else (EID,)
        names = [rows.column(name).to_pylist() for name in ("type", "start", "end", *named)]
        keys.append(list(zip(*names, strict=True)))
        for key, number, sign in zip(keys[-1], ints(rows, NUMBER).tolist(), signs, strict=True):
            said[key] = max(said.get(key, (-1, 1)), (number, sign))
    kept = []
    for rows, mine in zip(several, keys, strict=True):
        stay = [said[key] == (number, 1) for key, number in zip(mine, ints(rows, NUMBER).tolist(), strict=True)]
        kept.append(rows.filter(pa.array(stay, pa.bool_())))
    return kept


def without_unshown_rows(changes: ChangeBatch) -> ChangeBatch:
    """Changes with only the rows that they show, so that they keep no others in memory.

    Equal rows without eids are told apart by each other, so those stay as they are.
    """
    if not len(changes) or any(chunk.high is None for chunk in changes.payload.chunks):
        return changes
    numbers = distinct([*changes.fixed, *(members.events for members in changes.repeated.values())])
    kept = changes.payload.rows(numbers)
    return replace(changes, payload=View([chunk.some(at) for chunk, at in kept.pieces]))
