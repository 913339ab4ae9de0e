"""Events of a trace that have one time: the same event again, a violation, or any order will do (TIES ANY)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.constraint.loops import BEGUN, CLOSED, EXPECTED, NUMBER, QUIET, SAT_SEEN, STATE, TIED, TOUCHED
from tocsin.constraint.reasoning import Flag
from tocsin.constraint.rows import NOBODY
from tocsin.constraint.telling import TIE, UNEXPECTED, Moments, Telling
from tocsin.encode.merge import take
from tocsin.engine.payload import Payload
from tocsin.events import BEGINNING
from tocsin.items import Ints, Items

if TYPE_CHECKING:
    from tocsin.constraint.tracker import Tracker


def follow_tie(
    tracker: Tracker, telling: Telling, items: Items, code: int, every: Ints, letters: Ints, first: int,
    numbers: Ints, skipped: Any, marks: Any,
) -> None:  # fmt: skip
    """Follow the rows of one trace that have one time: together they are one step of the trace."""
    _Tie(tracker, telling, items, code, every, letters, first).follow(numbers, skipped, marks)


class _Tie:
    """The rows of one trace and time."""

    def __init__(
        self, tracker: Tracker, telling: Telling, items: Items, code: int, every: Ints, letters: Ints, first: int
    ) -> None:
        self.tracker, self.telling, self.tables = tracker, telling, tracker.tables
        self.items, self.code, self.every, self.letters, self.first = items, code, every, letters, first
        self.when = int(items.end[every[0]])
        self.marked: list[int] = []

    def follow(self, numbers: Ints, skipped: Any, marks: Any) -> None:
        tracker, code = self.tracker, self.code
        word = int(tracker.table.words[code]) & ~(TIED | TOUCHED)
        timeout = tracker.under.timeout
        if timeout is not None and word & BEGUN and int(tracker.table.last[code]) + timeout < self.when:
            word = self._ended(word, int(tracker.table.last[code]) + timeout)
        if tracker.under.divides:
            numbers[self.every] = word >> NUMBER
        rows = [row for row in self._distinct(self.every.tolist()) if self.letters[row] >= 0]
        if rows:
            word = self._step(word, rows, skipped)
        elif word & CLOSED:
            self._skip(skipped)
        marks[self.marked] = 1
        tracker.table.words[code] = word

    def _skip(self, skipped: Any) -> None:
        skipped[self.every] = 1
        self.tracker.skipped_now += len(self.every)

    def _moment(self, word: int, when: int, row: int | None) -> Moments:
        tracker = self.tracker
        begun = tracker.table.begun_at(self.code, word)
        event = NOBODY if row is None else self.first + row
        if row is not None:
            self.marked.append(row)
        return Moments(*(np.array([each], np.int64) for each in (self.code, word, when, begun, event)))

    def _ended(self, word: int, when: int) -> int:
        """End the trace, telling of it if it is cut short; return the word of the next trace of the key."""
        tracker = self.tracker
        tracker.counts.traces += 1
        if not word & CLOSED and tracker.tables.open[word & STATE]:
            self.telling.in_turn(list(self.telling.incomplete(self._moment(word, when, None))))
        return ((tracker.table.free(self.code, word) >> NUMBER) + 1) << NUMBER

    def _step(self, word: int, rows: list[int], skipped: Any) -> int:
        tracker, code = self.tracker, self.code
        flags = int(self.tables.flags[word & STATE]) if not word & CLOSED else 0
        if not word & BEGUN and tracker.trusted and flags & Flag.CLOSABLE:
            word = tracker.close(code, word, BEGINNING)
        letters = [int(self.letters[row]) for row in rows]
        if any(tracker.seen[letter] for letter in letters):
            if not word & BEGUN:
                tracker.table.begins(code, word, self.when)
            if tracker.under.timeout is not None:
                tracker.table.last[code] = self.when
            word |= BEGUN
        if word & CLOSED:
            self._skip(skipped)
        else:
            word = self._state_behind(word, rows, letters, skipped)
        if any(tracker.ender[letter] for letter in letters):
            word = self._ended(word, self.when)
        return word

    def _state_behind(self, word: int, rows: list[int], letters: list[int], skipped: Any) -> int:
        tracker, tables, state = self.tracker, self.tables, word & STATE
        strict, whole = 0, self._is_one_event(rows)
        for at, each in enumerate(tracker.under.constraints if not whole else ()):
            seeing = [letter for letter in letters if tracker.sees[letter] >> at & 1]
            if len(seeing) > 1 and not each.written.ties:
                strict |= 1 << at
        if whole:  # its start is before its end
            rows = sorted(rows, key=lambda row: -int(self.items.types[row]))
            after = tables.behind(state, [int(self.letters[row]) for row in rows])
        elif tracker.under.ties and not strict:
            after = tables.behind_tie(state, letters)
        else:
            in_turn = sorted(letters, key=lambda letter: bool(tracker.ender[letter]))  # nothing follows what ends it
            after = tables.mute(tables.behind(state, in_turn), strict)
        news = int(tables.dead[after]) & ~int(tables.dead[state])
        if news:
            ordered = self._canonical(rows)
            reason, at = (TIE, 1) if strict & news else (UNEXPECTED, 0)
            here = self._moment(word, self.when, ordered[min(at, len(rows) - 1)])
            self.telling.in_turn(list(self.telling.violated(here, np.array([after]), reason)))
            word = tracker.table.free(self.code, word) & ~EXPECTED
        flags = int(tables.flags[after])
        word = self._quiet(word, flags, skipped)
        if not news and whole:
            word = self._as_usual(word, rows[0], int(self.letters[rows[0]]), flags)
        word = word & ~STATE | after
        if flags & Flag.CLOSABLE and tracker.trusted and not tables.dead[after]:
            word = tracker.table.free(self.code, word)
            word = tracker.close(self.code, word, self.when)
        return word

    def _is_one_event(self, rows: list[int]) -> bool:
        """Whether some rows are one event, or the start and the end of one."""
        high, low = self.items.eid_high, self.items.eid_low
        if len(rows) == 1 or high is None or low is None:
            return len(rows) == 1
        names = {(int(high[row]), int(low[row]), self.tracker.type_of(int(self.items.types[row]))) for row in rows}
        return len(names) == 1 and len({int(self.items.types[row]) for row in rows}) == len(rows)

    def _quiet(self, word: int, after: int, skipped: Any) -> int:
        """Leave out what the trace had ruled out before this time; `after`: the flags of its next state."""
        tracker = self.tracker
        if not tracker.quiets:
            return word
        if word & QUIET or int(self.tables.flags[word & STATE]) & Flag.QUIET:
            gone = [row for row in self.every.tolist() if self.letters[row] >= 0 and tracker.ruled[self.letters[row]]]
            skipped[gone] = 1
            tracker.skipped_now += len(gone)
            return word if after & Flag.QUIET else word | QUIET
        if after & Flag.QUIET:
            tracker.quiets_down(self.code, self.when)
        return word

    def _as_usual(self, word: int, row: int, letter: int, flags: int) -> int:
        """Do what the loop does for an event without a tie: all rows are copies of one event."""
        tracker, code = self.tracker, self.code
        if tracker.timed and tracker.wanted[letter] and not word & SAT_SEEN:
            word = tracker.table.link(code, word, self.first + row)
            self.marked.append(row)
        if flags & Flag.SAT and word & BEGUN and not word & SAT_SEEN:
            word |= SAT_SEEN
            tracker.counts.decided += 1
            tracker.counts.latency += self.when - tracker.table.begun_at(code, word)
            if not flags & Flag.HELD:
                word |= EXPECTED
                members = tracker.table.chained(code, word)
                here = self._moment(word, self.when, row)
                told = self.telling.expected(here, np.array([len(members)]), members, tracker.told_before)
                self.telling.in_turn([(np.zeros(1, np.int64), told)])
            word = tracker.table.free(code, word)
        return word

    def _canonical(self, rows: list[int]) -> list[int]:
        """Rows of one time in canonical order, as far as starts and eids tell."""
        payload = Payload(ordered=False)
        payload.add(0, take(self.items, self.every), None, 0)
        places = np.searchsorted(self.every, np.array(rows))
        eids = payload.rows(np.unique(places)).eids.to_pylist()
        names = dict(zip(sorted(rows), map(str, eids), strict=True))
        return sorted(rows, key=lambda row: (int(self.items.start[row]), names[row]))

    def _distinct(self, rows: list[int]) -> list[int]:
        """Each event once: rows with one eid, type and start are one."""
        items = self.items
        if items.eid_high is None or items.eid_low is None:
            return rows
        found: dict[tuple[int, int, int, int], int] = {}
        for row in rows:
            name = int(items.eid_high[row]), int(items.eid_low[row]), int(items.types[row]), int(items.start[row])
            found.setdefault(name, row)
        return list(found.values())
