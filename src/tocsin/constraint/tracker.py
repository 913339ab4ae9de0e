"""The tracker: settled events in, what is known of their traces out; one word of state for each trace.

It stands behind settled order (`order/settled`), so it sees all events of one end in one push, and each once or, in
ordered input, as often as it came. Where traces are divided, it hands the events on to the query with their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, damaged, decode, encode, nested, only_part, reading, within
from tocsin.constraint import loops
from tocsin.constraint.loops import BEGUN, CHAINED, CLOSED, JUST, NUMBER, QUIET, SAT_SEEN, STATE, loop
from tocsin.constraint.pattern_language import Abstracted
from tocsin.constraint.pattern_language import LetterSetting as Asked
from tocsin.constraint.reasoning import Flag, Reasoning, bounded
from tocsin.constraint.rows import NOBODY, TraceRows
from tocsin.constraint.state_tables import StateTables
from tocsin.constraint.telling import Moments, Telling, TraceCounts
from tocsin.constraint.ties import follow_tie
from tocsin.constraint.trace_table import TraceTable
from tocsin.encode.merge import runs, take
from tocsin.engine.changes import Changes
from tocsin.engine.number_set import distinct
from tocsin.engine.operator import Counters, Nesting, Operator, RemembersAll, Setting
from tocsin.engine.payload import Payload
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Bools, Column, Ints, Items
from tocsin.lang.constraint_syntax import start_of
from tocsin.order.keyed_events import has_key
from tocsin.plan.under import TRACE
from tocsin.schema import Kind
from tocsin.select.key_codes import KeyCodes
from tocsin.select.standing_columns import Standings

CODE = "#key"  # the code of the key of an event, where it was looked up before
MANY = 1 << 18  # rows of events that are worth dropping
MOST_BITS = 10  # conditions on one type of whose 2**n outcomes each has a place
NO_BITS: Ints = np.zeros(1, np.int64)


class Tracker(RemembersAll, Nesting):
    """Follows the traces of one query. `forward`: the query itself, where traces are divided."""

    def __init__(self, setting: Setting, reasoning: Reasoning, *, jit: bool, forward: Operator | None = None) -> None:
        plan, reader = setting.plan, setting.reader
        assert plan.under is not None
        self.inner: tuple[Operator, ...] = () if forward is None else (forward,)
        self.plan, self._setting, self._known, self.jit, self._next = plan, setting, reasoning, jit, forward
        self.under = plan.under
        self.trusted = not self.under.checked and bounded(plan)
        self.time = replace(setting.time, ordered=True, slack=0, guarantees={})
        self.counts = TraceCounts()
        self.keys = KeyCodes(self.under.key, reader.strings, jit=jit)
        self.tables = StateTables(reasoning)
        self.shut = np.zeros(3 * 1024, np.int64)  # traces that were closed in this push (code, state, when)
        self.shut_count = 0
        self.passed_over: list[Items] = []  # events that the query must not see, though it may have been given them
        self._followed: list[Ints] = []  # codes of traces that had events in this push, where some may be quiet
        self._quieted: list[Ints] = []  # (code, when) of those that became quiet in it
        self._corrects = not setting.time.ordered
        self.next = 0  # the number of the next row
        self.passed = BEGINNING
        self.timed = bool((reasoning.flags & Flag.SAT).any())
        self._whole = len(reader.types)  # types from here on are starts of events, which nobody else is given
        self._prepare((*reader.types, *map(start_of, self.under.starts)))
        self.table = TraceTable(timed=self.timed, pauses=plan.under.timeout is not None, jit=jit)
        self.payload = Payload(ordered=False)
        self.told_before: dict[tuple[int, int], tuple[str, ...]] = {}  # eids from before a restart, by trace
        self._sums: Ints = np.zeros(loops.SUMS, np.int64)
        self._records: Ints = np.zeros(loops.RECORD * (4096 if jit else 64), np.int64)
        self._members: Ints = np.zeros(1, np.int64)

    def _prepare(self, types: tuple[str, ...]) -> None:
        """Letters by the code of a type, and what letters mean."""
        letters, under = self._known.letters, self.under
        self._by_code: Ints = np.full(len(types) + 2, -1, np.int64)
        asked: list[list[tuple[int, Any]]] = [[] for _ in types]
        by_bits: list[int] = []  # the letters of types with conditions, by the bits of those that hold
        self._ranked: dict[int, Ints] = {}  # ... or, where these are many, by their places among those that can be
        for code, type in enumerate(types):
            if type in self.plan.schema.matches and type not in letters.of_type:
                continue
            mine = letters.of_type.get(letters.known(type), ())
            if len(mine) == 1:
                self._by_code[code] = mine[0]
            elif mine:
                asked[code] = [(1 << at, (test,)) for at, test in enumerate(letters.conditions[type])]
                self._by_code[code] = -2 - len(by_bits)
                bits_of = {letters.all[at].bits: at for at in mine}
                if len(letters.conditions[type]) <= MOST_BITS:
                    by_bits += [bits_of.get(bits, -1) for bits in range(1 << len(letters.conditions[type]))]
                else:
                    self._ranked[code] = np.array(sorted(bits_of), np.int64)
                    by_bits += [bits_of[bits] for bits in sorted(bits_of)]
        reader = self._setting.reader
        self._by_bits: Ints = np.array(by_bits or [0], np.int64)
        self._standing = None
        if by_bits:
            self._standing = Standings(asked, reader.strings, self._setting.functions, jit=self.jit)
        every = under.types is None
        self.sees = [
            sum(1 << k for k, each in enumerate(under.constraints) if each.sees(letter.type)) for letter in letters.all
        ]
        self.seen = np.array([bool(bits) or every for bits in self.sees], np.int8)
        self.ender = np.array([letter.type in under.ends for letter in letters.all], np.int8)
        positive = wanted_letters(self.plan, letters) if self.timed else ()
        self.wanted = np.array([at in positive for at in range(len(letters))], np.int8)
        self.quiets = self.trusted and bool((self._known.flags & Flag.QUIET).any())
        self.ruled = np.array([self.quiets and at in self._known.awaited for at in range(len(letters))], np.int8)
        ruled = {letter.type for letter, is_ruled in zip(letters.all, self.ruled, strict=True) if is_ruled}
        self._ruled_codes = np.array([letters.known(type) in ruled for type in types] + [False] * 2)

    def type_of(self, code: int) -> str:
        """The type of an event by the code of its end, or of its start."""
        return self._setting.reader.types[code] if code < self._whole else self.under.starts[code - self._whole]

    # --- what others ask -----------------------------------------------------------------------------------------

    def codes_of(self, items: Items) -> Ints:
        """The code of the key of each row; -1 where a row has none."""
        known = items.columns.get(CODE)
        if known is not None and known.valid is None:
            return known.values  # type: ignore[return-value]
        if _all_have(items, self.under.key):
            codes = self.keys.of(items, np.arange(len(items)))
        else:
            rows = np.flatnonzero(has_key(items, self.under.key))
            codes = np.full(len(items), -1, np.int64)
            codes[rows] = self.keys.of(items, rows)
        self.table.room_for(self.keys.count)
        return codes

    def is_closed(self, codes: Ints) -> Bools:
        """Whether the traces of some keys are closed."""
        found: Bools = (self.table.words[codes] & CLOSED != 0) & (codes >= 0)
        return found

    def is_behind(self, codes: Ints, ends: Ints) -> Bools:
        """Which rows come after the event that closed their trace in this push; of hopeless traces all rows."""
        words = self.table.words[codes]
        found: Bools = (codes >= 0) & (words & CLOSED != 0)
        just = np.flatnonzero(found & (words & loops.JUST != 0))
        found[just] = ends[just] > self.shut[3 * (words[just] & STATE) + 2]
        return found

    def _bits_of(self, items: Items) -> Ints:
        """Which conditions of its type hold for each row, as bits; one zero if there are none."""
        if self._standing is None:
            return NO_BITS
        _, bits = self._standing.of(items)
        for code, known in self._ranked.items():
            rows = np.flatnonzero(items.types == code)
            bits[rows] = np.searchsorted(known, bits[rows])
        return bits

    def _letters_of(self, items: Items, bits: Ints) -> Ints:
        """The letter of each row, -1 where nobody asks."""
        letters = self._by_code[items.types]
        rows = np.flatnonzero(letters < -1)
        letters[rows] = self._by_bits[bits[rows] - 2 - letters[rows]]
        return letters

    # --- the one verb --------------------------------------------------------------------------------------------

    def push(self, items: Items) -> Changes:
        said = Changes()
        for are_rows, run in runs(items):
            if are_rows:
                self._rows(run, said)
            else:
                self.time.hear(run)
                self._time_passes(said)
                if self._next is not None:
                    said.add(self._next.push(run))
        if self._next is None:
            said.frontier = self.passed
        return said

    def _rows(self, items: Items, said: Changes) -> None:
        """Follow settled rows, all of one end together."""
        codes = self.codes_of(items)
        numbers, skipped = self._follow(items, codes, self._bits_of(items), said)
        if self._next is None and (self._corrects or self.quiets) and skipped.any():
            self.passed_over.append(take(items, (skipped != 0) & (items.types < self._whole)))
        if self._next is not None:
            self.counts.skipped += int(np.count_nonzero(skipped))
            mine_too = (codes >= 0) | (not self.under.divides)
            keep = np.flatnonzero((skipped == 0) & mine_too & (items.types < self._whole))
            mine = take(items, keep)
            if self.under.divides:
                mine.columns = {**mine.columns, TRACE: Column(Kind.INT, numbers[keep])}
                mine.payload = _numbered(mine.payload, numbers[keep])
            if len(keep):
                said.add(self._next.push(mine))

    def _follow(self, items: Items, codes: Ints, bits: Ints, said: Changes) -> tuple[Ints, Any]:
        """Follow the rows; of each the number of its trace, where traces are divided, and whether that was closed."""
        self._trim()
        count, first = len(items), self.next
        self.next += count
        types, ends = np.ascontiguousarray(items.types), np.ascontiguousarray(items.end)
        numbers: Ints = np.zeros(count if self.under.divides else 1, np.int64)
        skipped, marks = np.zeros(count, np.int8), np.zeros(count, np.int8)
        records = self._records
        if self.timed and len(self._members) <= self.table.linked + count:
            self._members = np.zeros(2 * (self.table.linked + count) + 1, np.int64)
        members = self._members
        timeout = -1 if self.under.timeout is None else self.under.timeout
        telling = self.telling()
        at = 0
        letters: Ints | None = None
        while at < count:
            known, table = self.tables, self.table
            steps = known.steps(self.wanted != 0, self.ender != 0, trusted=self.trusted)
            arrays = (codes, types, self._by_code, self._by_bits, bits, ends, known.moves, steps, known.flags,
                      known.dead, known.open, self.ender, self.seen, self.wanted, table.words, table.last, table.since,
                      table.links, table.pool, numbers, skipped, marks, records, members, self.shut,
                      self._sums, self.ruled)  # fmt: skip
            views = table.views(*arrays)
            before = at
            at, told, _, self.shut_count = loop("follow", jit=self.jit)(
                at, count, *views[:8], known.width, *views[8:19], first, int(self.under.divides), timeout,
                int(self.trusted), *views[19:25], self.shut_count, self.fresh, *views[25:],
            )  # fmt: skip
            noted = records[: loops.RECORD * told]
            if told:
                kinds = noted[:: loops.RECORD]
                if letters is None and np.isin(kinds, (loops.TELL_UNEXPECTED, loops.TELL_TIE)).any():
                    letters = self._letters_of(items, bits)
                asked = NO_BITS if letters is None else letters  # of few records
                telling.records(noted, members, first, asked, self.told_before)
                if self.quiets:
                    news = noted.reshape(-1, loops.RECORD)
                    self._quieted.append(news[news[:, 0] == loops.TELL_QUIET][:, [1, 6]])
                for _, code, begin, stop, *_ in noted.reshape(-1, loops.RECORD)[kinds == loops.TELL_TIE].tolist():
                    rows = begin + np.flatnonzero(codes[begin:stop] == code)
                    follow_tie(self, telling, items, code, rows, asked, first, numbers, skipped, marks)
            if at == before:
                records = self._records = self._more_room(ends, at, records)
        self._counted()
        if self.quiets:
            self._followed.append(codes)
        if marks.any():
            self.payload.add(first, items, None, 0)
        self.say(telling, said)
        return numbers, skipped

    def _more_room(self, ends: Ints, at: int, records: Ints) -> Ints:
        """Make room for all that the rows with the end of the row `at` may bring: links, closings and records."""
        several = int(np.searchsorted(ends, ends[at], side="right")) - at if at < len(ends) else 1
        several = max(several, 1024 if self.jit else 8)
        self.table.room_to_link(several)
        if 3 * (self.shut_count + 2 * several) > len(self.shut):
            self.shut = np.concatenate([self.shut, np.zeros(len(self.shut) + 6 * several, np.int64)])
        needed = loops.RECORD * (loops.AT_ONCE * several + 1)
        return records if len(records) >= needed else np.zeros(needed, np.int64)

    def telling(self) -> Telling:
        return Telling(self.tables, len(self.under.constraints), self.counts, self.trusted)

    def say(self, telling: Telling, said: Changes) -> None:
        """Rows as batches, one for each run of a kind."""
        for told in telling.batches():
            view = self.payload.view([told.event, told.members.events])
            said.batches.append(TraceRows.of(self.plan, told, self.keys, view, self._setting.functions))

    def _counted(self) -> None:
        """Add up what the loop has counted."""
        counts, sums = self.counts, self._sums
        counts.unsat += int(sums[loops.UNSAT])
        counts.closed += int(sums[loops.SHUT])
        counts.decided += int(sums[loops.DECIDED])
        counts.latency += int(sums[loops.LATENCY])
        counts.traces += int(sums[loops.ENDED])
        self.skipped_now += int(sums[loops.SKIPPED])
        self.hopeless_now += int(sums[loops.HOPELESS])
        sums[:] = 0

    fresh = 0  # keys from this code on have no events in the query yet
    skipped_now = hopeless_now = 0  # in this push: events of closed traces, and traces closed without any match

    # --- closed traces -------------------------------------------------------------------------------------------

    def close(self, code: int, word: int, when: int) -> int:
        """Close a trace; its word."""
        state = word & STATE
        flags = int(self.tables.flags[state])
        self.counts.closed += 1
        if code >= self.fresh and flags & Flag.UNSAT and not flags & Flag.MATCHED:
            when = BEGINNING
        self.hopeless_now += when == BEGINNING
        if 3 * (self.shut_count + 1) > len(self.shut):
            self.shut = np.concatenate([self.shut, np.zeros(len(self.shut), np.int64)])
        self.shut_count += 1
        return loops.shut_at(self.shut, self.shut_count - 1, code, word, state, when, int(self.under.divides))

    def sift(self, items: Items, codes: Ints) -> Bools:
        """Which rows the query need not see: those after the closing of their trace, and all of hopeless traces."""
        if self.trusted and self.tables.flags[0] & Flag.CLOSABLE:  # every trace is closed before it begins
            return codes >= 0
        gone = np.zeros(len(items), np.bool_)
        begin = 0 if self.skipped_now or self.hopeless_now else int(np.searchsorted(items.end, self.passed, "right"))
        views = self.table.views(codes, np.ascontiguousarray(items.end), self.table.words, self.shut, gone)
        loop("sift", jit=self.jit)(begin, len(items), *views)
        return gone

    @property
    def hopeless(self) -> Bools:
        """Which of the traces closed in this push are hopeless: they hold no match, and never will."""
        found: Bools = self.shut[2 : 3 * self.shut_count : 3] == BEGINNING
        return found

    @property
    def closing_times(self) -> Ints:
        """When each of these traces was closed: the end of the event that did it; BEGINNING for the hopeless ones."""
        return self.shut[2 : 3 * self.shut_count : 3].copy()

    def settle(self) -> Ints:
        """The push is over; the keys whose traces it has closed."""
        count, self.shut_count = self.shut_count, 0
        self.skipped_now = self.hopeless_now = 0
        if count and not self.under.divides:
            loop("settle", jit=self.jit)(count, *self.table.views(self.shut, self.table.words))
        codes: Ints = self.shut[: 3 * count : 3].copy()
        return codes

    # --- quiet traces --------------------------------------------------------------------------------------------

    def quiets_down(self, code: int, when: int) -> None:
        """Note that no event will come to a trace any more that an answer waits for."""
        self._quieted.append(np.array([[code, when]], np.int64))

    @property
    def quiet_news(self) -> Ints:
        """The traces that became quiet in this push."""
        return np.concatenate([np.zeros((0, 2), np.int64), *self._quieted])[:, 0]

    def quieted(self) -> tuple[Ints, Ints]:
        """The quiet traces that had settled events in this push, and when they became quiet, if that was in it.

        Asked behind `settle`, which gives closed traces their states back.
        """
        if not self._followed:
            return NO_BITS[:0], NO_BITS[:0]
        codes, news = distinct(self._followed), np.concatenate([np.zeros((0, 2), np.int64), *self._quieted])
        self._followed, self._quieted = [], []
        codes = codes[(codes >= 0)]
        codes = codes[self._are_quiet(codes)]
        when: Ints = np.full(len(codes), BEGINNING, np.int64)
        place = np.searchsorted(codes, news[:, 0])
        known = np.flatnonzero(place < len(codes))
        known = known[codes[place[known]] == news[known, 0]]
        when[place[known]] = news[known, 1]
        return codes, when

    def _are_quiet(self, codes: Ints) -> Bools:
        words = self.table.words[codes]
        quiet = (words & QUIET != 0) | (self.tables.flags[np.where(words & JUST, 0, words & STATE)] & Flag.QUIET != 0)
        found: Bools = quiet & (words & CLOSED == 0)
        return found

    def are_ruled_out(self, items: Items, codes: Ints) -> Bools:
        """Which rows, all of times that are not settled, their traces have ruled out: the query must not see them."""
        found = self._ruled_codes[items.types] & (codes >= 0)
        rows = np.flatnonzero(found)
        found[rows] = self._are_quiet(codes[rows])
        if len(rows := np.flatnonzero(found)) and self._standing is not None:
            some = take(items, rows)
            found[rows] = self.ruled[self._letters_of(some, self._bits_of(some))] != 0
        return found

    # --- time ----------------------------------------------------------------------------------------------------

    def _time_passes(self, said: Changes) -> None:
        """Time is complete up to some point: traces that have paused too long have ended, at the end all have."""
        until = END_OF_TIME if self.time.ended else self.time.clock - 1
        if until <= self.passed:
            return
        self.passed = until
        telling = self.telling()
        timeout, count = self.under.timeout, self.keys.count
        words = self.table.words[:count]
        if timeout is not None:  # at the end of the stream, too: nothing comes before the pause is over
            due = np.flatnonzero((words & BEGUN != 0) & (self.table.last[:count] < until - timeout))
            due = due[np.argsort(self.table.last[due], kind="stable")]
            self._end(telling, due, self.table.last[due] + timeout)
            self.table.free_all(due)
            words[due] = ((words[due] >> NUMBER) + 1) << NUMBER
        elif self.time.ended:
            begun = np.flatnonzero(words & BEGUN)
            self._end(telling, begun, np.full(len(begun), END_OF_TIME))
        self.say(telling, said)

    def _end(self, telling: Telling, codes: Ints, when: Ints) -> None:
        """Tell of traces that have ended and that a constraint forbids to end there; closed ones need no look."""
        words = self.table.words[codes]
        self.counts.traces += len(codes)
        at = np.flatnonzero(words & CLOSED == 0)
        at = at[self.tables.open[words[at] & STATE] != 0]
        codes = codes[at]
        begun = self.table.begun_of(codes)
        moments = Moments(codes, words[at], when[at], begun, np.full(len(at), NOBODY))
        telling.in_turn(list(telling.incomplete(moments)))

    def _trim(self) -> None:
        """Drop rows that no trace needs any more, when most are such."""
        if self.payload.count >= max(MANY, 4 * self.table.linked):
            self.payload.keep(self.table.numbers())

    # --- state ---------------------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        return self._next.counters if self._next is not None else Counters(self.next, self.next)

    @property
    def texts_in_use(self) -> Ints:
        if self._next is None:
            return self.keys.texts
        return np.concatenate([self.keys.texts, self._next.texts_in_use])

    def snapshot(self, since: int = 0) -> list[Part]:
        count = self.keys.count
        words = {
            "keys": [list(key) for key in self.keys.plain()],
            "time": [self.time.clock, self.time.ended, self.passed],
            "counts": [getattr(self.counts, name) for name in TraceCounts.__slots__],
            "events": self._chains(count),
            "sets": [list(each) for each in self.tables.sets],
            "silent": [list(each) for each in self.tables.of_plain],
        }
        mine = [Part("tracker", 0, encode("tracker", words, {}, self.table.saved(count)))]
        return mine if self._next is None else [*mine, *nested("query", self._next.snapshot(since))]

    def _chains(self, count: int) -> dict[str, list[str]]:
        """For each key the eids of the events so far that an expected match would show, for a snapshot."""
        if not self.timed:
            return {}
        words = self.table.words[:count]
        open = (words & BEGUN != 0) & (words & (CLOSED | SAT_SEEN) == 0)
        chains = {code: self.table.chained(code, int(words[code])).tolist() for code in np.flatnonzero(open).tolist()}
        known: dict[int, Any] = {}
        if mine := sorted({number for chain in chains.values() for number in chain}):
            eids = self.payload.rows(np.array(mine, np.int64)).eids.to_pylist()
            known = dict(zip(mine, map(str, eids), strict=True))
        found = {}
        for code, chain in chains.items():
            before = self.told_before.get((code, int(words[code]) >> NUMBER), ())
            if before or chain:
                found[str(code)] = [*before, *(known[number] for number in chain)]
        return found

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        stored = decode(only_part("tracker", parts).data, "tracker")
        if self._next is not None:
            self._next.restore(within("query", parts))
        self._take_up(stored)

    def _take_up(self, stored: Any) -> None:
        """Restore what was saved of the traces."""
        with reading():
            keys = [tuple(key) for key in stored.words["keys"]]
            clock, ended, passed = stored.words["time"]
            counts = stored.words["counts"]
            events = {int(code): tuple(eids) for code, eids in stored.words["events"].items()}
            sets = [tuple(each) for each in stored.words["sets"]]
            silent = [tuple(each) for each in stored.words["silent"]]
        self.keys = KeyCodes(self.under.key, self._setting.reader.strings, jit=self.jit)
        self.keys.load(keys, passed)
        self.table.load(len(keys), stored.arrays)
        self.time.clock, self.time.ended, self.passed = clock, ended, passed
        for name, value in zip(TraceCounts.__slots__, counts, strict=True):
            setattr(self.counts, name, value)
        self.told_before = {(code, int(self.table.words[code]) >> NUMBER): eids for code, eids in events.items()}
        with reading():
            for each in silent:
                self.tables.silent(each)
            for each in sets:
                self.tables.set_state(each)
        self._check_words(len(keys))

    def _check_words(self, count: int) -> None:
        """Compiled loops look a trace up by its word, and check nothing."""
        words = self.table.words[:count]
        if (words < 0).any() or (words & (JUST | CHAINED)).any() or (words & STATE >= len(self.tables.flags)).any():
            raise damaged("the saved state", "a trace is in a state that its constraints do not have")


def _all_have(items: Items, key: tuple[str, ...]) -> bool:
    """Whether it is plain that no row lacks an attribute of the key."""
    columns = [items.columns.get(attr) for attr in key]
    return all(
        column is not None and column.valid is None and column.kind is not Kind.FLOAT
        and (column.kind is not Kind.TEXT or int(column.values.min(initial=0)) >= 0)
        for column in columns
    )  # fmt: skip


def _numbered(rows: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
    """Rows with the number of their trace: stored events keep it."""
    if TRACE in rows.schema.names:
        rows = rows.drop_columns([TRACE])
    return rows.append_column(TRACE, pa.array(numbers))


def wanted_letters(plan: Any, letters: Any) -> set[int]:
    """The letters that a positive leaf of a query takes: where the start of an event is a letter, that one."""
    setting = Asked(letters, (), {}, False, False, False, Abstracted())
    named = {(letter.type, letter.bits): at for at, letter in enumerate(letters.all)}
    begin = {at: named.get((start_of(letter.type), letter.bits), at) for at, letter in enumerate(letters.all)}
    found: set[int] = set()
    for block in plan.alternatives:
        for leaf in (*block.leaves, *block.gathered):
            found |= setting.letters_at(leaf, [])
    return {begin.get(at, at) for at in found}
