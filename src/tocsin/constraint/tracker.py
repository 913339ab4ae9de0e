"""The tracker: settled events in, what is known of their traces out; one word of state for each trace.

It stands behind settled order (`order/settled`), so it sees all events of one end in one push, and each once or, in
ordered input, as often as it came. Where traces are divided, it hands the events on to the query with their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, decode, encode, nested, only_part, reading, within
from tocsin.constraint import loops
from tocsin.constraint.loops import BEGUN, CLOSED, EXPECTED, NUMBER, SAT_SEEN, STATE, TIED, TOUCHED, loop
from tocsin.constraint.pattern_language import Abstracted
from tocsin.constraint.pattern_language import LetterSetting as Asked
from tocsin.constraint.reasoning import DEAD, Flag, Reasoning
from tocsin.constraint.rows import TraceRow, TraceRows
from tocsin.encode.merge import runs, take
from tocsin.engine.changes import Changes
from tocsin.engine.kinds import EXPECTED_MATCH, UNCONFIRMED, VIOLATED
from tocsin.engine.operator import Counters, Operator, RemembersAll, Setting
from tocsin.engine.payload import Payload
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Bools, Column, Ints, Items
from tocsin.order.keyed_events import has_key
from tocsin.plan.under import TRACE
from tocsin.schema import Kind
from tocsin.select.key_codes import KeyCodes
from tocsin.select.standing_columns import Standings

MANY = 1 << 16
MOST_TIED = 6  # events of one time whose orders are all looked at


@dataclass(slots=True)
class TraceCounts:
    """What was counted, over all traces: for metrics and the summary of a run.

    latency  the time from the first event of a trace to its verdict, summed over those that have one
    saved    the time from the verdict UNSAT, or from closing, to the last event that was looked at no more
    """

    traces: int = 0
    expected: int = 0
    unsat: int = 0
    closed: int = 0
    violated: int = 0
    unconfirmed: int = 0
    decided: int = 0
    latency: int = 0
    skipped: int = 0
    released: int = 0

    def add(self, more: TraceCounts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(more, name))


class Tracker(RemembersAll):
    """Follows the traces of one query. `forward`: the query itself, where traces are divided."""

    def __init__(self, setting: Setting, reasoning: Reasoning, *, jit: bool, forward: Operator | None = None) -> None:
        plan, reader = setting.plan, setting.reader
        assert plan.under is not None
        self.inner: tuple[Operator, ...] = () if forward is None else (forward,)
        self._plan, self._setting, self._known, self._jit, self._next = plan, setting, reasoning, jit, forward
        self._under = plan.under
        self.time = replace(setting.time, ordered=True, slack=0, guarantees={})
        self.counts = TraceCounts()
        self.keys = KeyCodes(self._under.key, reader.strings, jit=jit)
        self.newly: list[tuple[int, int]] = []  # keys whose traces were closed, and when
        self.passed_over: list[Items] = []  # events of closed traces that the query was given before
        self._corrects = not setting.time.ordered
        self.next = 0  # the number of the next row
        self.passed = BEGINNING
        self._prepare(reader.types)
        sat = bool((reasoning.flags & Flag.SAT).any())
        self.timed = sat
        self.tells = sat
        if not sat:
            self._wanted[:] = 0
        self._allocate(1024 if jit else 8)
        self._links: Ints = np.zeros(2, np.int64)
        self._used = 0
        self.payload = Payload(ordered=False)
        self.told_before: dict[int, tuple[str, ...]] = {}  # eids of events that came before a restart, by key
        self._kept = 0  # links that stayed when they were last looked at

    def _prepare(self, types: tuple[str, ...]) -> None:
        """Letters by the code of a type, and what letters mean."""
        letters, under = self._known.letters, self._under
        self._by_code: Ints = np.full(len(types) + 2, -1, np.int64)
        asked: list[list[tuple[int, Any]]] = [[] for _ in types]
        self._by_bits: dict[int, tuple[Ints, Ints]] = {}
        for code, type in enumerate(types):
            if type in self._plan.schema.matches and type not in letters.of_type:
                continue
            mine = letters.of_type.get(letters.known(type), ())
            if len(mine) == 1:
                self._by_code[code] = mine[0]
            elif mine:
                asked[code] = [(1 << at, (test,)) for at, test in enumerate(letters.conditions[type])]
                bits = np.array([letters.all[at].bits for at in mine], np.int64)
                order = np.argsort(bits)
                self._by_bits[code] = bits[order], np.array(mine, np.int64)[order]
        reader = self._setting.reader
        self._standing = None
        if self._by_bits:
            self._standing = Standings(asked, reader.strings, self._setting.functions, jit=self._jit)
        every = under.types is None
        self._sees = [
            sum(1 << k for k, each in enumerate(under.constraints) if each.sees(letter.type)) for letter in letters.all
        ]
        width = len(letters)
        self._seen = np.array([bool(bits) or every for bits in self._sees], np.int8)
        self._ender = np.array([letter.type in under.ends for letter in letters.all], np.int8)
        positive = wanted_letters(self._plan, letters)
        self._wanted = np.array([at in positive for at in range(width)], np.int8)
        self._moves = np.ascontiguousarray(self._known.moves.reshape(-1), np.int32)
        self._flags, self._dead, self._open = self._known.flags, self._known.dead, self._known.open
        self._sets: dict[tuple[int, ...], int] = {}  # states of which a trace may be in any
        self._members: dict[int, tuple[int, ...]] = {}
        self._plain: dict[int, tuple[int, ...]] = {}  # states in which the query is not looked at, and their names
        self._of_plain: dict[tuple[int, ...], int] = {}

    def _allocate(self, room: int) -> None:
        self.words: Ints = np.zeros(room, np.int64)
        self.last: Ints = np.full(1 if self._under.timeout is None else room, BEGINNING, np.int64)
        self.head: Ints = np.full(2 * room if self.timed else 1, -1, np.int64)

    @property
    def bytes_of_a_trace(self) -> int:
        """What a trace that is alive takes in the tables, beside its key."""
        return 8 + (16 if self.timed else 0) + (0 if self._under.timeout is None else 8)

    def room_for(self, count: int) -> None:
        """Make room for keys."""
        if count <= len(self.words):
            return
        old = self.words, self.last, self.head
        self._allocate(max(count, 2 * len(self.words)))
        for mine, before in zip((self.words, self.last, self.head), old, strict=True):
            if len(mine) > 1:
                mine[: len(before)] = before

    # --- what others ask -----------------------------------------------------------------------------------------

    def codes_of(self, items: Items) -> Ints:
        """The code of the key of each row; -1 where a row has none."""
        rows = np.flatnonzero(has_key(items, self._under.key)) if self._under.key else np.arange(len(items))
        codes: Ints = np.full(len(items), -1, np.int64)
        codes[rows] = self.keys.of(items, rows)
        self.room_for(self.keys.count)
        return codes

    def is_hopeless(self, codes: Ints) -> Bools:
        """Whether the traces of some keys hold no match, and never will."""
        flags = self._flags[self.words[codes] & STATE]
        found: Bools = (flags & Flag.UNSAT != 0) & (flags & Flag.MATCHED == 0)
        return found

    def is_closed(self, codes: Ints) -> Bools:
        """Whether the traces of some keys are closed."""
        found: Bools = (self.words[codes] & CLOSED != 0) & (codes >= 0)
        return found

    def letters_of(self, items: Items) -> Ints:
        """The letter of each row, -1 where nobody asks."""
        letters = self._by_code[items.types]
        if self._standing is not None:
            _, bits = self._standing.of(items)
            for code, (known, mine) in self._by_bits.items():
                rows = np.flatnonzero(items.types == code)
                letters[rows] = mine[np.searchsorted(known, bits[rows])]
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
        all_codes = self.codes_of(items)
        all_letters = self.letters_of(items)
        rows = np.flatnonzero((all_codes >= 0) & ((all_letters >= 0) | (self._next is not None)))
        numbers: Ints = np.zeros(len(items), np.int64)
        skipped = np.zeros(len(items), np.int8)
        if len(rows):
            codes, letters = all_codes[rows], all_letters[rows]
            found, left_out = self._follow(items, rows, codes, letters, said)
            numbers[rows], skipped[rows] = found, left_out
        if self._next is None and self._corrects and skipped.any():
            self.passed_over.append(take(items, skipped != 0))
        if self._next is not None:
            keep = np.flatnonzero((skipped == 0) & (all_codes >= 0))
            self.counts.skipped += int(np.count_nonzero(skipped))
            mine = take(items, keep)
            mine.columns = {**mine.columns, TRACE: Column(Kind.INT, numbers[keep])}
            mine.payload = _numbered(mine.payload, numbers[keep])
            if len(keep):
                said.add(self._next.push(mine))

    def _follow(self, items: Items, rows: Ints, codes: Ints, letters: Ints, said: Changes) -> tuple[Ints, Any]:
        count, first = len(rows), self.next
        self.next += count
        ends = np.ascontiguousarray(items.end[rows])
        numbers: Ints = np.zeros(count, np.int64)
        skipped = np.zeros(count, np.int8)
        records: Ints = np.zeros(6 * (8 * min(count, MANY) + 16), np.int64)
        if self.tells:
            wanted = np.zeros(len(items), np.bool_)
            wanted[rows[(letters >= 0) & (self._wanted[letters] != 0)]] = True
            self._keep(items, rows, first, wanted)
            if len(self._links) < 2 * (self._used + count + 1):
                grown = np.zeros(4 * (self._used + count + 1), np.int64)
                grown[: 2 * self._used] = self._links[: 2 * self._used]
                self._links = grown
        run = loop(jit=self._jit)
        at = 0
        found: list[TraceRow] = []
        telling = _Telling(self, items, rows, codes, letters, first, found)
        while at < count:
            arrays = (
                codes, letters, ends, self._moves, self._flags, self._dead, self._ender, self._seen, self._wanted,
                self.words, self.last, self.head, self._links, numbers, skipped, records,
            )  # fmt: skip
            views: tuple[Any, ...] = arrays if self._jit else tuple(each.data for each in arrays)
            at, told, self._used = run(
                at, count, *views[:4], len(self._known.letters), *views[4:13], self._used, first,
                int(self.timed), -1 if self._under.timeout is None else self._under.timeout,
                int(not self._under.checked), *views[13:],
            )  # fmt: skip
            telling.records(records[: 6 * told].reshape(-1, 6), numbers, skipped)
        telling.name_events()
        self._say(found, said)
        self._collect()
        return numbers, skipped

    def _say(self, found: list[TraceRow], said: Changes) -> None:
        """Rows as batches, one for each run of a kind."""
        at = 0
        while at < len(found):
            to = at
            while to < len(found) and found[to].kind == found[at].kind:
                to += 1
            said.batches.append(TraceRows.of(self._plan, found[at:to], self._setting.functions))
            at = to

    # --- time ----------------------------------------------------------------------------------------------------

    def _time_passes(self, said: Changes) -> None:
        """Time is complete up to some point: traces that have paused too long have ended, at the end all have."""
        until = END_OF_TIME if self.time.ended else self.time.clock - 1
        if until <= self.passed:
            return
        self.passed = until
        found: list[TraceRow] = []
        timeout, count = self._under.timeout, self.keys.count
        if timeout is not None and not self.time.ended:
            begun = self.words[:count] & BEGUN != 0
            due = np.flatnonzero(begun & (self.last[:count] < until - timeout))
            telling = _Telling(self, None, None, None, None, 0, found)
            for code in due[np.argsort(self.last[due], kind="stable")].tolist():
                word = int(self.words[code])
                telling.ended(code, word, int(self.last[code]) + timeout)
                self.words[code] = ((word >> NUMBER) + 1) << NUMBER
                self.unlink(code)
        elif self.time.ended:
            telling = _Telling(self, None, None, None, None, 0, found)
            begun = np.flatnonzero(self.words[:count] & BEGUN)
            word_flags = self.words[begun]
            asked = (word_flags & CLOSED == 0) & (self._open[word_flags & STATE] != 0)
            self.counts.traces += len(begun)
            for code in begun[asked].tolist():
                telling.ended(code, int(self.words[code]), END_OF_TIME, counted=False)
        self._say(found, said)

    # --- events of expected matches ------------------------------------------------------------------------------

    def _keep(self, items: Items, rows: Ints, first: int, wanted: Bools) -> None:
        """Keep the rows that an expected match may name, under the numbers that links have."""
        if wanted[rows].any():
            self.payload.add(first, take(items, rows), wanted[rows], 0)

    def link(self, code: int, number: int) -> None:
        """Note an event that a match of a trace may have."""
        if len(self._links) < 2 * (self._used + 1):
            self._links = np.concatenate([self._links, np.zeros(max(16, len(self._links)), np.int64)])
        self._links[2 * self._used : 2 * self._used + 2] = self.head[2 * code + 1], number
        self.head[2 * code + 1] = self._used
        self._used += 1

    def unlink(self, code: int) -> None:
        """A trace has ended: the events of the next one are others."""
        if self.timed:
            self.head[2 * code + 1] = -1

    def chained(self, at: int) -> list[int]:
        """The numbers of a chain of events that may stand in a match of a trace, in their order."""
        numbers = []
        while at >= 0:
            numbers.append(int(self._links[2 * at + 1]))
            at = int(self._links[2 * at])
        return numbers[::-1]

    def eids_of(self, numbers: list[int]) -> dict[int, Any]:
        """The eids of events that are kept for expected matches, by number."""
        if not numbers:
            return {}
        mine = np.unique(np.array(numbers, np.int64))
        return dict(zip(mine.tolist(), self.payload.rows(mine).eids.to_pylist(), strict=True))

    def _collect(self) -> None:
        """Drop links and rows that no trace needs any more, when most are such."""
        if self._used < max(MANY, 2 * self._kept):
            return
        count = self.keys.count
        links: list[int] = []
        numbers: list[int] = []
        for code in np.flatnonzero(self.words[:count] & BEGUN).tolist():
            chain = []
            at = int(self.head[2 * code + 1])
            if self.words[code] & (CLOSED | SAT_SEEN):
                at = -1
            while at >= 0:
                chain.append(int(self._links[2 * at + 1]))
                at = int(self._links[2 * at])
            before = -1
            for number in reversed(chain):
                links += [before, number]
                before = len(links) // 2 - 1
            numbers += chain
            self.head[2 * code + 1] = before
        self._links = np.array([*links, 0, 0], np.int64)
        self._used = self._kept = len(links) // 2
        self.payload.keep(np.array(sorted(numbers), np.int64))

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
        chains = {
            str(code): list(self._chain(code)) for code in np.flatnonzero(self.words[:count] & BEGUN).tolist()
            if self.tells and not self.words[code] & (CLOSED | SAT_SEEN)
        }  # fmt: skip
        words = {
            "keys": [list(key) for key in self.keys.plain()],
            "time": [self.time.clock, self.time.ended, self.passed],
            "counts": [getattr(self.counts, name) for name in TraceCounts.__slots__],
            "events": {code: chain for code, chain in chains.items() if chain},
            "sets": [list(each) for each in self._sets],
            "silent": [list(each) for each in self._of_plain],
        }
        arrays = {"words": self.words[:count].copy()}
        if self._under.timeout is not None:
            arrays["last"] = self.last[:count].copy()
        if self.timed:
            arrays["begun"] = self.head[0 : 2 * count : 2].copy()
        mine = [Part("tracker", 0, encode("tracker", words, {}, arrays))]
        return mine if self._next is None else [*mine, *nested("query", self._next.snapshot(since))]

    def _chain(self, code: int) -> Iterable[str]:
        numbers = self.chained(int(self.head[2 * code + 1]))
        known = self.eids_of(numbers)
        return (*self.told_before.get(code, ()), *(str(known[number]) for number in numbers))

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        stored = decode(only_part("tracker", parts).data, "tracker")
        if self._next is not None:
            self._next.restore(within("query", parts))
        self.take_up(stored)

    def take_up(self, stored: Any) -> None:
        """Go on from what was saved of the traces."""
        with reading():
            keys = [tuple(key) for key in stored.words["keys"]]
            clock, ended, passed = stored.words["time"]
            counts = stored.words["counts"]
            events = {int(code): tuple(eids) for code, eids in stored.words["events"].items()}
            sets = [tuple(each) for each in stored.words["sets"]]
            silent = [tuple(each) for each in stored.words["silent"]]
        self.keys = KeyCodes(self._under.key, self._setting.reader.strings, jit=self._jit)
        self.keys.load(keys, passed)
        self.room_for(max(len(keys), 1))
        self.words[: len(keys)] = stored.arrays["words"]
        if self._under.timeout is not None:
            self.last[: len(keys)] = stored.arrays["last"]
        if self.timed:
            self.head[0 : 2 * len(keys) : 2] = stored.arrays["begun"]
            self.head[1 : 2 * len(keys) : 2] = -1
        self.time.clock, self.time.ended, self.passed = clock, ended, passed
        for name, value in zip(TraceCounts.__slots__, counts, strict=True):
            setattr(self.counts, name, value)
        self.told_before = events
        for each in silent:
            self._silent(each)
        for each in sets:
            self.set_state(each)

    # --- ties -----------------------------------------------------------------------------------------------------

    def set_state(self, states: tuple[int, ...]) -> int:
        """The state of a trace that may be in any of several, because nobody knows how a tie was ordered."""
        if len(states) == 1:
            return states[0]
        known = self._sets.get(states)
        if known is None:
            known = self._sets[states] = len(self._flags)
            self._members[known] = states
            width = len(self._known.letters)
            self._flags = np.append(self._flags, self._joint_flags(states))
            dead = int(np.bitwise_and.reduce(self._dead[list(states)]))
            self._dead = np.append(self._dead, dead)
            self._open = np.append(self._open, int(np.bitwise_and.reduce(self._open[list(states)])))
            self._moves = np.append(self._moves, np.zeros(width, np.int32))
            for letter in range(width):
                there = self.several(int(self._moves[state * width + letter]) for state in states)
                self._moves[known * width + letter] = self.set_state(there)
        return known

    def several(self, states: Iterable[int]) -> tuple[int, ...]:
        """Some states, without those in which a constraint is violated that others of them keep."""
        found = sorted(set(states))
        least = int(np.bitwise_and.reduce(self._dead[found]))
        kept = [state for state in found if self._dead[state] == least]
        return tuple(kept or found[:1])

    def _joint_flags(self, states: tuple[int, ...]) -> int:
        every = int(np.bitwise_and.reduce(self._flags[list(states)]))
        some = int(np.bitwise_or.reduce(self._flags[list(states)]))
        return every & ~int(Flag.SAT) | some & int(Flag.COMPLETE | Flag.MATCHED)

    def mute(self, state: int, strict: int) -> int:
        """The state behind a tie: some constraints are violated by it, and of the query nothing can be said."""
        while state in self._members:  # one of those in which the trace may be
            state = self._members[state][0]
        cs = self._known.names[state] if state < len(self._known.names) else self._plain[state]
        return self._silent(tuple(DEAD if strict >> at & 1 else s for at, s in enumerate(cs)))

    def _silent(self, cs: tuple[int, ...]) -> int:
        """The state in which constraints stand so, and the query is not looked at."""
        known = self._of_plain.get(cs)
        if known is None:
            automata, width = self._known.automata, len(self._known.letters)
            known = self._of_plain[cs] = len(self._flags)
            self._plain[known] = cs
            complete = all(at in dfa.accepting for at, dfa in zip(cs, automata, strict=True))
            flags = Flag.VIOLATED if DEAD in cs else Flag.COMPLETE if complete else Flag(0)
            self._flags = np.append(self._flags, int(flags))
            self._dead = np.append(self._dead, sum(1 << k for k, s in enumerate(cs) if s == DEAD))
            ends = ((k, s not in dfa.accepting) for k, (s, dfa) in enumerate(zip(cs, automata, strict=True)))
            self._open = np.append(self._open, sum(1 << k for k, is_open in ends if is_open and cs[k] != DEAD))
            self._moves = np.append(self._moves, np.zeros(width, np.int32))
            for letter in range(width):
                there = tuple(
                    DEAD if s == DEAD else dfa.moves[s].get(letter, DEAD) for s, dfa in zip(cs, automata, strict=True)
                )
                target = self._silent(there)
                self._moves[known * width + letter] = target
        return known

    def behind_tie(self, state: int, letters: list[int]) -> int:
        """The state behind events of one time, where they may stand in any order."""
        orders = set(permutations(letters)) if len(letters) <= MOST_TIED else {tuple(letters)}
        return self.set_state(self.several(self.behind(state, order) for order in orders))

    def behind(self, state: int, letters: Iterable[int]) -> int:
        """The state behind some letters."""
        for letter in letters:
            state = int(self._moves[state * len(self._known.letters) + letter])
        return state


class _At(NamedTuple):
    """An event, as the row at hand that it is."""

    row: int


class _Number(NamedTuple):
    """An event that was kept, by its number."""

    number: int


class _Telling:
    """Makes rows of what the loop has noted."""

    def __init__(
        self, tracker: Tracker, items: Items | None, rows: Any, codes: Any, letters: Any, first: int,
        found: list[TraceRow],
    ) -> None:  # fmt: skip
        self.tracker, self.items, self.rows, self.codes, self.letters = tracker, items, rows, codes, letters
        self.first, self.found = first, found
        self._keys: list[Any] | None = None
        self._begun: int | None = None  # of the record at hand
        self._chain: int | None = None

    def key(self, code: int) -> tuple[Any, ...]:
        if self._keys is None or code >= len(self._keys):
            self._keys = self.tracker.keys.plain()
        return tuple(self._keys[code])

    def eids(self, rows: list[int]) -> list[Any]:
        """The eids of rows at hand."""
        assert self.items is not None
        payload = Payload(ordered=False)
        payload.add(0, take(self.items, self.rows), None, 0)
        found: list[Any] = payload.rows(np.array(rows, np.int64)).eids.to_pylist()
        return found

    def name_events(self) -> None:
        """Give the events of all rows their eids, together: one by one that would take most of the time."""
        rows = sorted({each.event.row for each in self.found if isinstance(each.event, _At)})
        if not rows:
            return
        here = dict(zip(rows, self.eids(rows), strict=True))
        several = (events for each in self.found if (events := each.events))
        kept = self.tracker.eids_of(
            [event.number for events in several for event in events if isinstance(event, _Number)]
        )
        for at, each in enumerate(self.found):
            events = None if each.events is None else tuple(
                kept[event.number] if isinstance(event, _Number) else event for event in each.events
            )  # fmt: skip
            event = here[each.event.row] if isinstance(each.event, _At) else each.event
            self.found[at] = replace(each, event=event, events=events)

    def end_of(self, row: int) -> int:
        assert self.items is not None
        return int(self.items.end[self.rows[row]])

    def begun(self, code: int, otherwise: int) -> int:
        """When the trace began that is told of."""
        if not self.tracker.timed:
            return otherwise
        return int(self.tracker.head[2 * code]) if self._begun is None else self._begun

    def chain(self, code: int) -> int:
        """The last of its events that a match may have."""
        return int(self.tracker.head[2 * code + 1]) if self._chain is None else self._chain

    def records(self, records: Ints, numbers: Ints, skipped: Any) -> None:
        tracker, counts = self.tracker, self.tracker.counts
        for kind, code, row, word, chain, begun in records.tolist():
            self._chain, self._begun = (chain, begun) if kind != loops.TELL_TIE else (None, None)
            match kind:
                case loops.TELL_TIE:
                    self._tie(code, row, word, numbers, skipped)
                case loops.TELL_UNEXPECTED:
                    after = self._state_after(word, row)
                    self.violated(code, word, after, row, "unexpected")
                case loops.TELL_EXPECTED:
                    self.expected(code, word, row)
                    self._decided(code, row)
                case loops.TELL_SAT:
                    self._decided(code, row)
                case loops.TELL_UNSAT:
                    counts.unsat += 1
                    self._decided(code, row)
                case loops.TELL_CLOSED:
                    counts.closed += 1
                    tracker.newly.append((code, BEGINNING if word == -1 else self.end_of(row)))
                case loops.TELL_ENDED:
                    self.ended(code, word, self.end_of(row))
                case loops.TELL_PAUSED:
                    self.ended(code, word, row)

    def _decided(self, code: int, row: int) -> None:
        counts = self.tracker.counts
        counts.decided += 1
        if self.tracker.timed:
            counts.latency += self.end_of(row) - self.begun(code, 0)

    def _state_after(self, word: int, row: int) -> int:
        width = len(self.tracker._known.letters)
        return int(self.tracker._moves[(word & STATE) * width + self.letters[row]])

    def expected(self, code: int, word: int, row: int) -> None:
        tracker = self.tracker
        tracker.counts.expected += 1
        names = ", ".join(each.name for each in tracker._under.constraints)
        end = self.end_of(row)
        events = (*tracker.told_before.pop(code, ()), *map(_Number, tracker.chained(self.chain(code))))
        self.found.append(
            TraceRow(EXPECTED_MATCH, names, self.key(code), word >> NUMBER, self.begun(code, end), end, end,
                     _At(row), events)
        )  # fmt: skip

    def violated(self, code: int, word: int, after: int, row: int | None, reason: str, when: int = 0) -> None:
        """The constraints that an event, or the end of the trace (row None), has violated."""
        tracker = self.tracker
        before = int(tracker._dead[word & STATE])
        news = int(tracker._dead[after]) & ~before if row is not None else int(tracker._open[word & STATE])
        event = None if row is None else _At(row)
        end = when if row is None else self.end_of(row)
        start = self.begun(code, end if row is not None else BEGINNING)
        for at, each in enumerate(tracker._under.constraints):
            if news >> at & 1:
                tracker.counts.violated += 1
                self.found.append(
                    TraceRow(VIOLATED, each.name, self.key(code), word >> NUMBER, start, end, end, event, None, reason)
                )
        known = int(tracker._flags[word & STATE])
        sure = Flag.MATCHED if row is None else Flag.DONE
        if before == 0 and word & EXPECTED and not known & sure:
            tracker.counts.unconfirmed += 1
            names = ", ".join(each.name for each in tracker._under.constraints)
            self.found.append(
                TraceRow(UNCONFIRMED, names, self.key(code), word >> NUMBER, start, end, end, event, None, reason)
            )

    def ended(self, code: int, word: int, when: int, *, counted: bool = True) -> None:
        """A trace has ended: where it is not closed, it must be a word."""
        tracker = self.tracker
        tracker.counts.traces += counted
        tracker.told_before.pop(code, None)
        if word & CLOSED or not tracker._open[word & STATE]:
            return
        self.violated(code, word, word & STATE, None, "incomplete", when)

    def _tie(self, code: int, begin: int, stop: int, numbers: Ints, skipped: Any) -> None:
        """Several events of a trace have one time: the same event again, a violation, or any order will do."""
        tracker = self.tracker
        word = int(tracker.words[code]) & ~(TIED | TOUCHED)
        mine = self._distinct([row for row in range(begin, stop) if self.codes[row] == code])
        end = self.end_of(begin)
        timeout = tracker._under.timeout
        if timeout is not None and word & BEGUN and int(tracker.last[code]) + timeout < end:
            self.ended(code, word, int(tracker.last[code]) + timeout)
            word = ((word >> NUMBER) + 1) << NUMBER
            tracker.unlink(code)
        every = [row for row in range(begin, stop) if self.codes[row] == code]
        numbers[every] = word >> NUMBER
        known = [row for row in mine if self.letters[row] >= 0]
        if known:
            word = self._step_tie(code, word, known, every, skipped)
        elif word & CLOSED:
            skipped[every] = 1
        tracker.words[code] = word

    def _step_tie(self, code: int, word: int, rows: list[int], every: list[int], skipped: Any) -> int:
        tracker = self.tracker
        trusted, end = not tracker._under.checked, self.end_of(rows[0])
        if not word & BEGUN and trusted and tracker._flags[word & STATE] & Flag.CLOSABLE and not word & CLOSED:
            word |= CLOSED
            tracker.counts.closed += 1
            tracker.newly.append((code, BEGINNING))
        if any(tracker._seen[self.letters[row]] for row in rows):
            if tracker.timed and not word & BEGUN:
                tracker.head[2 * code] = end
            if tracker._under.timeout is not None:
                tracker.last[code] = end
            word |= BEGUN
        letters = [int(self.letters[row]) for row in rows]
        if word & CLOSED:
            skipped[every] = 1
        else:
            word = self._tied_state(code, word, rows, letters)
        if any(tracker._ender[letter] for letter in letters):
            self.ended(code, word, end)
            word = ((word >> NUMBER) + 1) << NUMBER
            tracker.unlink(code)
        return word

    def _tied_state(self, code: int, word: int, rows: list[int], letters: list[int]) -> int:
        tracker = self.tracker
        state, strict = word & STATE, 0
        for at, each in enumerate(tracker._under.constraints):
            seeing = [row for row, letter in zip(rows, letters, strict=True) if tracker._sees[letter] >> at & 1]
            if len(seeing) > 1 and not each.written.ties:
                strict |= 1 << at
        if len(rows) == 1:
            after = int(tracker._moves[state * len(tracker._known.letters) + letters[0]])
        elif tracker._under.ties and not strict:
            after = tracker.behind_tie(state, letters)
        else:
            after = tracker.mute(tracker.behind(state, letters), strict)
        news = int(tracker._dead[after]) & ~int(tracker._dead[state])
        if news:
            ordered = self._canonical(rows)
            reason, at = ("tie", 1) if strict & news else ("unexpected", 0)
            self.violated(code, word, after, ordered[min(at, len(rows) - 1)], reason)
            word &= ~EXPECTED
        flags = int(tracker._flags[after])
        if not news and len(rows) == 1:
            word = self._as_usual(code, word, rows[0], letters[0], flags)
        elif flags & Flag.CLOSABLE and not tracker._under.checked and not tracker._dead[after]:
            word |= CLOSED
            tracker.counts.closed += 1
            tracker.newly.append((code, self.end_of(rows[0])))
        return word & ~STATE | after

    def _as_usual(self, code: int, word: int, row: int, letter: int, flags: int) -> int:
        """One event that came twice is one event."""
        tracker = self.tracker
        if tracker.timed and tracker._wanted[letter] and not word & SAT_SEEN:
            tracker.link(code, self.first + row)
        if flags & Flag.SAT and word & BEGUN and not word & SAT_SEEN:
            word |= SAT_SEEN
            if not flags & Flag.HELD:
                word |= EXPECTED
                self.expected(code, word, row)
            self._decided(code, row)
        if flags & Flag.CLOSABLE and not tracker._under.checked:
            word |= CLOSED
            tracker.counts.closed += 1
            tracker.newly.append((code, self.end_of(row)))
        return word

    def _canonical(self, rows: list[int]) -> list[int]:
        """Rows of one time in canonical order, as far as starts and eids tell."""
        assert self.items is not None
        names = dict(zip(sorted(rows), map(str, self.eids(sorted(rows))), strict=True))
        starts = self.items.start[self.rows]
        return sorted(rows, key=lambda row: (int(starts[row]), names[row]))

    def _distinct(self, rows: list[int]) -> list[int]:
        """Each event once: rows with one eid, type and start are one."""
        items = self.items
        assert items is not None
        if items.eid_high is None or items.eid_low is None:
            return rows
        found: dict[tuple[int, int, int, int], int] = {}
        for row in rows:
            at = self.rows[row]
            name = int(items.eid_high[at]), int(items.eid_low[at]), int(items.types[at]), int(items.start[at])
            found.setdefault(name, row)
        return list(found.values())


def _numbered(rows: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
    """Rows with the number of their trace: stored events keep it."""
    if TRACE in rows.schema.names:
        rows = rows.drop_columns([TRACE])
    return rows.append_column(TRACE, pa.array(numbers))


def wanted_letters(plan: Any, letters: Any) -> set[int]:
    """The letters that a positive leaf of a query takes."""
    setting = Asked(letters, (), {}, False, False, False, Abstracted())
    found: set[int] = set()
    for block in plan.alternatives:
        for leaf in (*block.leaves, *block.gathered):
            found |= setting.letters_at(leaf, [])
    return found
