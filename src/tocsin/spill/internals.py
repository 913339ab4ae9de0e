"""A grip on the inside of a detector: the few things that spilling asks of it beyond its verbs, all in this module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tocsin.encode.batch import one_batch
from tocsin.engine import runtime as rt
from tocsin.engine.branch import Branch
from tocsin.engine.changes import ChangeBatch
from tocsin.engine.detector import Detector
from tocsin.engine.payload import Chunk, Payload, View, distinct
from tocsin.events import BEGINNING
from tocsin.items import Ints, Items
from tocsin.spill.files import record

SINGLE = 400  # bytes of a single row that is a dict, about
NO_WINDOW = -(1 << 61)  # a window in which nothing fits


def another(detector: Detector) -> Detector:
    """A new detector for the same query: what is too late was decided before."""
    made = Detector(
        detector.plan, detector.types, detector.strings, jit=detector.jit, ordered=False, hold=detector.time.hold,
        immediate=detector.time.immediate, functions=detector.functions,
    )  # fmt: skip
    made.ledger = None  # answers are counted where those of all detectors come together
    made.eids = detector.eids
    return made


def emptied(detector: Detector) -> Detector:
    """A detector without its state, to be used again."""
    detector.next = detector.withdrawn = 0
    detector.time.clock, detector.time.ended, detector.time.guarantees = BEGINNING, False, {}
    detector.payload = Payload(ordered=False)
    for branch in detector.branches:
        branch._ready = False
        branch._ranked = -1
        branch._drained, branch._args, branch.state = [], None, ()
        branch.H = np.zeros((0, 0), np.int64)  # the largest of its arrays; all are made anew
        branch.purger = type(branch.purger)(branch)
    return detector


# --- what it holds -------------------------------------------------------------------------------------------------


def used(detector: Detector) -> int:
    """Bytes of stored events, waiting answers and rows. The tables for keys and output come on top."""
    payload = detector.payload
    total = SINGLE * (len(payload.tail) - payload.head) + sum(_chunk_bytes(chunk) for chunk in payload.chunks)
    return total + stored(detector)


def stored(detector: Detector) -> int:
    """The same without the rows."""
    total = 0
    for branch in detector.branches:
        if branch._ready:
            total += 8 * int(branch.T[rt.TOP]) * branch.program.words + 8 * branch.waiting * branch.PD.shape[1]
    return total


def _chunk_bytes(chunk: Chunk) -> int:
    own = sum(array.nbytes for array in (chunk.high, chunk.low, chunk.kept) if array is not None)
    return int(chunk.rows.nbytes) + chunk.types.nbytes + own


def _places(branch: Branch) -> Ints:
    """The places in H that hold live events."""
    if not branch._ready:
        return np.zeros(0, np.int64)
    filled = np.flatnonzero(branch.D[:, 2] > branch.D[:, 1])
    begin = branch.D[filled, 1].astype(np.int64)
    counts = branch.D[filled, 2] - begin
    shift = np.repeat(begin - (np.cumsum(counts) - counts), counts)
    places: Ints = np.arange(len(shift)) + shift
    live: Ints = places[branch.H[places, 0] >= branch.horizon]
    return live


def events(detector: Detector) -> tuple[Ints, Ints]:
    """The numbers and ends of stored events; one that stands at several leaves is there several times."""
    places = [(branch, _places(branch)) for branch in detector.branches]
    numbers = np.concatenate([branch.H[at, 1] for branch, at in places] or [np.zeros(0, np.int64)])
    ends = np.concatenate([branch.H[at, 0] for branch, at in places] or [np.zeros(0, np.int64)])
    return numbers, ends


def rows(detector: Detector, numbers: Ints) -> pa.Table:
    """The rows of stored events in order of (end, number)."""
    numbers = distinct([numbers])
    kept = detector.payload.rows(numbers)
    order = np.argsort(kept.end, kind="stable")
    high, low = (column[order] for column in kept.names) if detector.payload.has_eid else (None, None)
    pieces = [pa.Table.from_batches([chunk.taken(at)]) for chunk, at in kept.pieces]
    table = pa.concat_tables(pieces, promote_options="permissive").take(pa.array(order))
    return record(one_batch(table), numbers[order], high, low)


@dataclass(frozen=True, slots=True)
class Held:
    """Answers that wait: the end of their first event, the time they wait for, of which type (None: any)."""

    first: Ints
    until: Ints
    types: tuple[str | None, ...]


def held(detector: Detector) -> Held:
    first, until, types = [], [], []
    for branch in detector.branches:
        if not detector.time.holds or not branch._ready or not branch.waiting:
            continue
        entries = branch.waiting_answers()
        first.append(branch.bound(entries)[:, 1::2].min(axis=1))
        until.append(entries[:, 0])
        known = branch.program.types
        types += [known[type] if type >= 0 else None for type in entries[:, 2].tolist()]
    none = [np.zeros(0, np.int64)]
    return Held(np.concatenate(first or none), np.concatenate(until or none), tuple(types))


def slim(changes: ChangeBatch) -> ChangeBatch:
    """The same changes without the rows that they do not show; equal rows without names need each other."""
    if not len(changes) or any(chunk.high is None for chunk in changes.payload.chunks):
        return changes
    numbers = distinct([*changes.fixed, *(members.events for members in changes.repeated.values())])
    kept = changes.payload.rows(numbers)
    return replace(changes, payload=View([_some(chunk, at) for chunk, at in kept.pieces]))


# --- forgetting ----------------------------------------------------------------------------------------------------


def forget(detector: Detector, before: int, owned: int) -> None:
    """Forget the events that end before a time, and the waiting answers whose first event ends before `owned`."""
    for branch in detector.branches:
        if branch._ready:
            _forget_answers(branch, owned)
            _forget_events(branch, before)
    payload = detector.payload
    payload._flush()
    payload.chunks = [kept for chunk in payload.chunks if (kept := _since(chunk, before)) is not None]
    last: Chunk | None = None
    for chunk in payload.chunks:
        chunk.run = last.run + 1 if last is not None and last.level == chunk.level else 1
        last = chunk


def _forget_answers(branch: Branch, owned: int) -> None:
    if not branch.program.waits or not branch.waiting:
        return
    entries = branch.waiting_answers()
    stay = branch.bound(entries)[:, 1::2].min(axis=1) >= owned
    if stay.all():
        return
    count = int(branch.T[rt.WAITING])
    heap, aside = entries[:count][stay[:count]], entries[count:][stay[count:]]
    branch.PD[: len(heap)] = heap[np.argsort(heap[:, 0], kind="stable")]  # what is sorted is a heap
    branch.PD[len(branch.PD) - len(aside) :] = aside
    branch.T[rt.WAITING], branch.T[rt.ASIDE] = len(heap), len(aside)


def _forget_events(branch: Branch, before: int) -> None:
    """Move the others into an array that is just large enough."""
    horizon = int(branch.T[rt.HORIZON])
    branch.T[rt.HORIZON] = max(horizon, before)
    size = max(64, 2 * branch._compact(branch.H, copy=False))
    smaller = np.zeros((size, branch.program.words), np.int64)
    branch._compact(smaller, copy=True)
    branch.H = smaller
    branch.T[rt.HORIZON] = horizon
    branch._lend()


def _since(chunk: Chunk, before: int) -> Chunk | None:
    """The rows of a chunk that end at or after a time."""
    stay = chunk.end >= before
    if stay.all():
        return chunk
    return _some(chunk, np.flatnonzero(stay)) if stay.any() else None


def _some(chunk: Chunk, at: Ints) -> Chunk:
    """Some rows of a chunk."""
    high, low = (None if array is None else array[at] for array in (chunk.high, chunk.low))
    kept = at if chunk.kept is None else chunk.kept[at]
    return Chunk(
        chunk.first, chunk.taken(at), chunk.types[at], chunk.start[at], chunk.end[at], high, low, kept,
        last_end=chunk.last_end, level=chunk.level,
    )  # fmt: skip


# --- feeding -------------------------------------------------------------------------------------------------------


def feed(detector: Detector, items: Items) -> None:
    """Push events whose answers were given before."""
    if detector.time.holds:  # what waits must be found again
        detector.push(items)
        return
    with _without_answers(detector, items):
        detector.push(items)


@contextmanager
def _without_answers(detector: Detector, items: Items) -> Iterator[None]:
    """The kernel looks for no answers where nothing fits into the window."""
    detector._open(items)
    windows = []
    for branch in detector.branches:
        branch.prepare()
        windows.append(int(branch.T[rt.PARAMS]))
        branch.T[rt.PARAMS] = NO_WINDOW
    try:
        yield
    finally:
        for branch, window in zip(detector.branches, windows, strict=True):
            branch.T[rt.PARAMS] = window
