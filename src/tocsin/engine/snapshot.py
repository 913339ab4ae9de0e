"""The snapshot of a detector: its events as parts, cut by key range and time frame, and a summary.

A part holds events, nothing that depends on the plan's inner order; restoring feeds them again without answering. So
the same parts serve a restart, the splitting and merging of key ranges, and a plan that is optimised differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, as_number, as_numbers_by_name, decode, encode, reading
from tocsin.encode.batch import Encoder, one_batch
from tocsin.encode.content import Words, content_hash, mixed, words_of
from tocsin.encode.row_bases import without_dictionaries
from tocsin.encode.stored import RowReader, without_nulls
from tocsin.encode.times import ticks
from tocsin.engine.ledger import Ledger
from tocsin.engine.payload import Rows, whole
from tocsin.engine.replay import replay_events
from tocsin.errors import StateError, TocsinError
from tocsin.events import BEGINNING
from tocsin.items import EVERY, NO_SOURCE, Bools, Ints, ItemKind, Items, Strings, control, tick
from tocsin.items import end as end_of_stream

if TYPE_CHECKING:
    from tocsin.engine.branch import Branch
    from tocsin.engine.changes import ChangeBatch
    from tocsin.engine.detector import Detector

__all__ = [
    "Kept",
    "Part",
    "add_to_ledger",
    "answer_names",
    "held_names",
    "kept_events",
    "ledger_arrays",
    "load",
    "save",
]

SUMMARY, EVENTS = "detector summary", "detector events"  # kinds of containers
ID = "summary"
EVERYWHERE = -1  # the range of events that belong to every key


# --- saving ------------------------------------------------------------------------------------------------------


def save(detector: Detector, changed_since: int) -> list[Part]:
    """The summary, and those parts with events that changed since a version."""
    parts = [_summary(detector)]
    for (bucket, frame), numbers in _cut(detector).items():
        version = max(int(numbers.max()) + 1, detector.withdrawn)
        if version > changed_since:
            parts.append(Part(f"{bucket}.{frame}", version, _events(detector, numbers), bucket))
    return parts


def _summary(detector: Detector) -> Part:
    words = {
        "query": detector.plan.fingerprint,
        "clock": detector.time.clock,
        "ended": detector.time.ended,
        "promises": detector.time.guarantees,
        "next": detector.next,
        "eids": detector.eids,
        "seen": detector.seen,
        "matches": detector.matches,
        "retracted": detector.retracted,
    }
    waiting = {
        f"held/{number}": held_names(detector, branch)
        for number, branch in enumerate(detector.branches)
        if branch.purger.by_type or branch.program.waits
    }
    return Part(ID, detector.next, encode(SUMMARY, words, arrays=waiting | ledger_arrays(detector.ledger)))


def ledger_arrays(ledger: Ledger | None) -> dict[str, Any]:
    """The counts of a ledger as columns."""
    if ledger is None:
        return {}
    keys: Words = np.array(list(ledger.counts), np.uint64).reshape(-1, 2)
    counts = np.array(list(ledger.counts.values()), np.int64)
    starts = np.array([ledger.starts[key] for key in ledger.counts], np.int64)
    return {"ledger/keys": keys, "ledger/counts": counts, "ledger/starts": starts}


def add_to_ledger(ledger: Ledger, arrays: Mapping[str, Any]) -> None:
    """Count what a saved ledger has counted."""
    if "ledger/keys" in arrays:
        keys = [(high, low) for high, low in arrays["ledger/keys"].tolist()]
        ledger.counts.update(zip(keys, arrays["ledger/counts"].tolist(), strict=True))
        ledger.starts.update(zip(keys, arrays["ledger/starts"].tolist(), strict=True))


def held_names(detector: Detector, branch: Branch) -> Words:
    """A name for each answer that waits: what its events are called."""
    pairs = branch.waiting_rows()
    if not len(pairs):
        return np.zeros(0, np.uint64)
    numbers = pairs[:, 0::2]
    order = np.argsort([branch.block.fixed.index(branch.leaf(id)) for id in branch.program.nest])
    return _names(detector.payload.rows(np.unique(numbers)), [numbers[:, level] for level in order.tolist()])


def _names(rows: Rows, columns: list[Ints]) -> Words:
    """Names of answers, from the numbers of their events at each fixed leaf."""
    total: Words = np.zeros(len(columns[0]), np.uint64)
    high, low = (each.view(np.uint64) for each in rows.names)
    for column in columns:
        at = rows.at(column)
        total = mixed(total * np.uint64(31) + mixed(mixed(high[at]) + low[at]))
    return total


def _cut(detector: Detector) -> dict[tuple[int, int], Ints]:
    """Live events by (key range, time frame); an event that stands at leaves of two ranges is in both."""
    keys = dict(detector.plan.key)
    found: dict[tuple[int, int], list[Ints]] = {}
    for branch in detector.branches:
        by_leaf: dict[int, list[Ints]] = {}
        for leaf, begin, end in branch.live_places():
            by_leaf.setdefault(leaf, []).append(branch.H[begin:end, 1].copy())
        for leaf, latest in _latest(detector, branch):
            by_leaf.setdefault(leaf, []).append(latest)
        for leaf, pieces in by_leaf.items():
            numbers = np.unique(np.concatenate(pieces))
            rows = detector.payload.rows(numbers)
            buckets = _buckets(rows, keys.get(branch.program.leaf_ids[leaf], ()))
            frames = rows.end // (detector.plan.within or 2**40)
            for bucket, frame in {*zip(buckets.tolist(), frames.tolist(), strict=True)}:
                found.setdefault((bucket, frame), []).append(numbers[(buckets == bucket) & (frames == frame)])
    return {place: np.unique(np.concatenate(pieces)) for place, pieces in found.items()}


def _latest(detector: Detector, branch: Branch) -> Iterator[tuple[int, Ints]]:
    """By leaf, the events without eids at the last time of ordered input, stored or not: equal rows may follow them.

    The eid of a row counts the equal rows before it, so a restart must not forget these.
    """
    if not detector.ordered or detector.payload.has_eid:
        return
    numbers, types = detector.payload.ending_at(detector.time.clock)
    takes = detector.plan.schema.takes
    for leaf, id in enumerate(branch.program.leaf_ids) if len(numbers) else ():
        alts = branch.leaf(id).alts
        codes = [code for code, type in enumerate(detector.types) if any(takes(alt.type, type) for alt in alts)]
        if (mine := np.isin(types, codes)).any():
            yield leaf, numbers[mine]


def _buckets(rows: Rows, attrs: tuple[str, ...]) -> Ints:
    if not attrs:
        return np.full(len(rows.numbers), EVERYWHERE, np.int64)
    total: Words = np.zeros(len(rows.numbers), np.uint64)
    for attr in attrs:
        total = mixed(total * np.uint64(31) + words_of(whole(rows.table.column(attr))))
    return (mixed(total) >> np.uint64(58)).astype(np.int64)


def _events(detector: Detector, numbers: Ints) -> bytes:
    rows = detector.payload.rows(numbers)
    high, low = rows.names
    words = {"query": detector.plan.fingerprint, "eid": bool(detector.payload.has_eid)}
    return encode(EVENTS, words, {"rows": rows.table}, {"high": high, "low": low})


# --- loading -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Summary:
    """What a detector knew beside its events; `held` are the names of the answers that wait in each branch."""

    clock: int
    ended: bool
    promises: dict[str, int]
    next: int
    eids: bool | None
    seen: int
    matches: int
    retracted: int
    held: dict[int, Words]
    ledger: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SavedEvents:
    """The events of one part, and their eids as two numbers each."""

    rows: pa.Table
    high: Ints
    low: Ints
    has_eid: bool


def load(detector: Detector, parts: list[Part], answers: list[ChangeBatch] | None = None) -> None:
    """Feed the saved events; the answers to them were given before.

    With `answers` the detector may be of another strategy than the one that saved: it judges all events anew, and
    gives the answers that are due by its own rules. Everything is read before the detector changes, so a state that is
    refused leaves it as it was.
    """
    if detector.next:
        raise StateError("this detector has seen events already", hint="restore into a new detector")
    saved = kept_events(parts, detector.plan.fingerprint)
    reader = RowReader(detector.plan.schema, detector.types, detector.strings, Strings(), detector.reads)
    for each in saved.items(reader):
        if answers is None:
            replay_events(detector, each)
        else:
            answers += detector.push(each)
    _resume(detector, saved.summaries, answers)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a detector has kept, for whatever query: its events, and what it knew beside them."""

    events: list[SavedEvents]
    summaries: list[Summary]

    def items(self, reader: RowReader) -> list[Items]:
        """The events in canonical order, each once, as this reader reads them: one batch, or none."""
        return _fitting(reader, self.events) if self.events else []

    def times(self, types: Sequence[str]) -> Items:
        """What was known of time, to be pushed behind the events."""
        said = [(ItemKind.TICK, EVERY, NO_SOURCE, clock, clock) for clock in [max(s.clock for s in self.summaries)]]
        for code, type in enumerate(types):
            time = min(summary.promises.get(type, BEGINNING) for summary in self.summaries)
            if time > BEGINNING:
                said.insert(0, (ItemKind.GUARANTEE, code, NO_SOURCE, time, time))
        return control(*said)


def kept_events(parts: Sequence[Part], query: str | None = None) -> Kept:
    """Read the parts of a detector: of this query, by its fingerprint, or (None) of whatever query."""
    summaries = [_read_summary(part, query) for part in parts if part.id == ID]
    if not summaries:
        raise StateError("the saved state has no summary part", hint="save and restore all parts together")
    return Kept([_read_events(part, query) for part in parts if part.id != ID], summaries)


def _read_summary(part: Part, query: str | None) -> Summary:
    place = f"part {part.id!r} of the saved state"
    stored = decode(part.data, SUMMARY, place)
    with reading(place):
        words = dict(stored.words)
        if words.pop("query") != query and query is not None:
            raise StateError(
                "the state was saved by another query",
                detail="only SELECT may differ between the query that saved a state and the one that restores it",
                hint="restore with the same EVENT, WHERE, WITHIN and PARTITION BY, or start afresh",
            )
        arrays = stored.arrays
        held = {int(name.removeprefix("held/")): array for name, array in arrays.items() if name.startswith("held/")}
        ledger = {name: array for name, array in arrays.items() if name.startswith("ledger/")}
        for name in ("clock", "next", "seen", "matches", "retracted"):
            as_number(words[name])
        as_numbers_by_name(words["promises"])
        return Summary(**words, held=held, ledger=ledger)


def _read_events(part: Part, query: str | None) -> SavedEvents:
    stored = decode(part.data, EVENTS, f"part {part.id!r} of the saved state")
    if stored.words["query"] != query and query is not None:
        raise StateError(f"part {part.id!r} belongs to another query", hint="restore the parts of one detector only")
    return SavedEvents(stored.tables["rows"], stored.arrays["high"], stored.arrays["low"], stored.words["eid"])


def _fitting(reader: RowReader, events: Sequence[SavedEvents]) -> list[Items]:
    """The saved events in canonical order, each once, as this reader reads them."""
    try:
        tables = [each.rows for each in events]
        if any(table.schema != tables[0].schema for table in tables):
            tables = list(map(without_dictionaries, tables))
        rows = one_batch(pa.concat_tables(tables, promote_options="permissive"))
        high, low = np.concatenate([each.high for each in events]), np.concatenate([each.low for each in events])
        at = _in_order(rows, high, low)
        rows = without_nulls(rows.take(pa.array(at)))
        encoder = Encoder.of_payload(reader.schema, reader.types, reader.strings, rows.schema, reader.wanted)
        items = encoder.encode(rows)
    except (TocsinError, pa.ArrowException) as error:
        raise StateError(
            "the saved events do not fit the query",
            detail=str(error),
            hint="restore with the schema that saved them, or start afresh",
        ) from error
    items.eid_high, items.eid_low = (high[at], low[at]) if events[0].has_eid else (None, None)
    return [items] if len(items) else []


def _in_order(rows: pa.RecordBatch, high: Ints, low: Ints) -> Ints:
    """The places of rows in canonical order; an event that is in several parts once."""
    types = rows.column("type")
    coded = types if pa.types.is_dictionary(types.type) else types.dictionary_encode()
    start, end = (ticks(rows.column(name), name)[0] for name in ("start", "end"))
    columns = (coded.indices.to_numpy(zero_copy_only=False), low, high, start, end)
    order, fresh = _ranked(columns)
    if not fresh.all():  # events of several keys may have one eid: their content tells them apart
        order, fresh = _ranked((content_hash(rows), *columns))
    kept: Ints = order[fresh]
    return kept


def _ranked(columns: Sequence[Any]) -> tuple[Ints, Bools]:
    """The order of rows by the last column, then the one before it, and so on; which differ from the row before."""
    order = np.lexsort(columns)
    fresh = np.zeros(len(order), np.bool_)
    fresh[:1] = True
    for column in columns:
        ranked = column[order]
        fresh[1:] |= ranked[1:] != ranked[:-1]
    return order, fresh


def _resume(detector: Detector, summaries: list[Summary], answers: list[ChangeBatch] | None) -> None:
    """Set clock and counts; answers that were due at the saved clock were given before it was saved."""
    newest = max(summaries, key=lambda state: state.next)
    detector.eids = newest.eids if detector.eids is None else detector.eids
    detector.time.clock = max(state.clock for state in summaries)
    for state in summaries:  # several states of one stream: what each was promised holds for its own events only
        for type, time in state.promises.items():
            detector.time.guarantees[type] = min(time, *(each.promises.get(type, BEGINNING) for each in summaries))
    due = detector.push(end_of_stream() if newest.ended else tick(detector.time.clock))
    if answers is not None:
        answers += due
    for number, branch in enumerate(detector.branches):
        held = [state.held[number] for state in summaries if number in state.held]
        if answers is None and len(held) == len(summaries):
            branch.hold_only(np.isin(held_names(detector, branch), np.concatenate(held)))
    detector.next = max(detector.next, newest.next)
    detector.seen = sum(state.seen for state in summaries)
    detector.matches = sum(state.matches for state in summaries)
    detector.retracted = sum(state.retracted for state in summaries)
    if detector.ledger is not None and answers is None:
        detector.ledger.counts.clear()
        detector.ledger.starts.clear()
        for state in summaries:
            add_to_ledger(detector.ledger, state.ledger)


def answer_names(changes: ChangeBatch) -> Words:
    """The names of answers: as `held_names` calls those that wait."""
    total: Words = np.zeros(len(changes), np.uint64)
    places = {variable.name: index for index, variable in enumerate(changes.plan.variables)}
    for block in changes.plan.alternatives if len(changes) else ():
        columns = [np.max([changes.fixed[places[alt.var]] for alt in leaf.alts], axis=0) for leaf in block.fixed]
        whole = np.all([column >= 0 for column in columns], axis=0)
        if whole.any():
            total[whole] = _names(changes.rows, [column[whole] for column in columns])
    return total
