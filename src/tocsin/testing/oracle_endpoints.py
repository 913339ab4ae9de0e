"""Constraints over the starts and ends of events, by definition: letters of endpoints, and what completions say.

A trace is a word of endpoints in order of time: of each event its end, and of the types whose starts a constraint names
(`A^-`) the start, too. A completion is one of histories: what is open must end, and nothing ends that has not begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tocsin.events import Event
from tocsin.lang.constraint_syntax import Constraint, Regex, is_start, start_of, whole_of

Kind: TypeAlias = tuple[str, Mapping[str, Any]]
Behind: TypeAlias = Callable[[Constraint, Regex, Event], Regex]  # what may follow on one more letter


def endpoints(constraints: Sequence[Constraint], events: Sequence[Event]) -> list[Event]:
    """The letters of some events in order of time; the end of an event is the event itself."""
    starts = {type for each in constraints for type in each.starts}
    found = list(events)
    found += [replace(event, type=start_of(event.type), end=event.start) for event in events if event.type in starts]
    return sorted(found, key=lambda each: (each.end, each.start, repr(each.eid), not is_start(each.type)))


def whole(letter: Event, events: Iterable[Event]) -> Event:
    """The event that a letter belongs to."""
    if not is_start(letter.type):
        return letter
    return next(e for e in events if (e.eid, e.type, e.start) == (letter.eid, whole_of(letter.type), letter.start))


def of_one_event(letters: Sequence[Event]) -> bool:
    """Whether some letters of one time are the start and the end of one event."""
    return len({(each.eid, whole_of(each.type), each.start) for each in letters}) == 1


def ended(word: Iterable[Event]) -> list[Event]:
    """The events of a word that have ended."""
    return [letter for letter in word if not is_start(letter.type)]


def unended(word: Sequence[Event]) -> list[Event]:
    """The starts of a word whose events have not ended."""
    over = {(event.eid, event.type, event.start) for event in ended(word)}
    return [each for each in word if is_start(each.type) and (each.eid, whole_of(each.type), each.start) not in over]


def completions(
    constraints: Sequence[Constraint], word: Sequence[Event], left: Sequence[Regex], behind: Behind,
    done: Callable[[Regex], bool], possible: Callable[[Regex], bool], kinds: Sequence[Kind], key: Mapping[str, Any],
    most: int,
) -> Iterator[list[Event]]:  # fmt: skip
    """The events that end behind a word in its completions of up to `most` letters, shorter ones first.

    left    what may follow on the word, for each constraint
    done, possible   whether nothing need follow on that, and whether anything can
    """
    starts = {type for each in constraints for type in each.starts}
    begins = max((letter.end for letter in word), default=0) + 1
    waiting = deque([(list[Event](), unended(word), list(left), 0)])
    while waiting:
        more, open, left_now, count = waiting.popleft()
        if not all(map(possible, left_now)):
            continue
        if all(map(done, left_now)) and not open:
            yield more
        if count == most:
            continue
        at = begins + count
        for letter, ends in _letters(starts, open, kinds, key, at):
            there = [behind(*each, letter) for each in zip(constraints, left_now, strict=True)]
            now = [*more, *ends]
            still = [each for each in open if not ends or each.eid != ends[0].eid]
            waiting.append((now, [*still, letter] if is_start(letter.type) else still, there, count + 1))


def _letters(
    starts: set[str], open: Sequence[Event], kinds: Sequence[Kind], key: Mapping[str, Any], at: int
) -> Iterator[tuple[Event, list[Event]]]:
    """What can come at a time: the end of what is open, a start, or an event whose start nobody sees."""
    for each in open:
        end = replace(each, type=whole_of(each.type), end=at)
        yield end, [end]
    for type, attrs in kinds:
        event = Event(type, at, at, f"more{at}", {**key, **attrs})
        if type in starts:
            yield replace(event, type=start_of(type)), []
        else:
            yield event, [event]
            long = replace(event, start=0)
            yield long, [long]
