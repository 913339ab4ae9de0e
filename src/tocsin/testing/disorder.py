"""Disorder of given events: how late they are, and ways to put them out of order, with duplicates and promises.

smallest_sufficient_slack(items)         how late anything comes
disordered(events, random)               given events in a random order, with duplicates and valid promises
with_withdrawals(events, random)         some of them are taken back
arrivals(events)                         the same as a Hypothesis strategy
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.errors import InputError
from tocsin.events import Event
from tocsin.items import Ints
from tocsin.testing.notation import Item, Promise, Withdrawal, events_of

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

Arrived: TypeAlias = Iterable[Item] | pa.Table


def lateness(arrived: Arrived) -> Ints:
    """By how much each event is behind the clock when it arrives, in order of arrival; 0 for one that is not late.

    >>> from tocsin.testing.notation import history
    >>> lateness(history("a1 b5 a3 @A>3 b5 a9")).tolist()
    [0, 0, 2, 0, 0]
    """
    if isinstance(arrived, pa.Table):
        ends = arrived.column("end" if "end" in arrived.column_names else "time").to_numpy().astype(np.int64)
    else:
        ends = np.array([event.end for event in events_of(arrived)], np.int64)
    behind: Ints = np.maximum.accumulate(ends) - ends if len(ends) else ends
    return behind


def share_late(arrived: Arrived, types: Iterable[str] | None = None, *, of_all: bool = False) -> float:
    """The share of events that come behind the clock: of some types only, among those types, or `of_all` events.

    The papers print both forms for negative types: late C among C, and late C among all.

    >>> from tocsin.testing.notation import history
    >>> share_late(history("a1 b5 a3 c9")), share_late(history("a1 b5 a3 c9"), "A")
    (0.25, 0.5)
    """
    items = arrived if isinstance(arrived, pa.Table) else events_of(arrived)
    late = lateness(items) > 0
    wanted = np.ones(len(late), np.bool_)
    if types is not None:
        shown = items.column("type").to_pylist() if isinstance(items, pa.Table) else [event.type for event in items]
        wanted = np.isin(np.array(shown, object), list(types))
    among = len(late) if of_all else int(wanted.sum())
    return float((late & wanted).sum() / among) if among else 0.0


def smallest_sufficient_slack(arrived: Arrived) -> int:
    """The smallest K with which no event, and no second delivery of one, is too late for `slack(K)`."""
    return int(lateness(arrived).max(initial=0))


# --- disorder for given events -------------------------------------------------------------------------------------


def shuffle_within(events: Sequence[Event], most: int, seed: int) -> list[Event]:
    """The events in an order in which none is behind the clock by more than `most`.

    >>> events = [Event("A", time, time, time) for time in range(100)]
    >>> 0 < smallest_sufficient_slack(shuffle_within(events, 5, seed=1)) <= 5
    True
    """
    if most < 0:
        raise InputError("events cannot be late by less than nothing", detail=f"most is {most}", hint="0 sorts them")
    return _within(events, most, Random(seed))  # noqa: S311 - not for secrets


def _within(events: Sequence[Event], most: int, random: Random) -> list[Event]:
    # equal arrivals are dealt at random too: otherwise ties in time would always keep the order of the list
    return sorted(events, key=lambda event: (event.end + random.randint(0, most), random.random()))


def disordered(
    events: Sequence[Event],
    random: Random,
    *,
    most: int | None = None,
    duplicates: float = 0.2,
    promises: float = 0.3,
) -> list[Item]:
    """The events in random order, some delivered again, with promises in between that later deliveries keep.

    `most` bounds how far an event may be behind the clock (None: any order); `duplicates` and `promises` are shares of
    the number of events. Promises are about one type, all types, or one source; half of them say as much as is true.
    """
    again = [event for event in events if random.random() < duplicates]
    arrived = _with_doubles(events, again, most, random)
    items: list[Item] = list(arrived)
    for _ in range(sum(random.random() < promises for _ in range(len(events)))):
        place = random.randint(0, len(items))
        about = random.choice(_subjects(events))
        bound, further = _latest_promise(items[place:], about), random.randint(0, 12)
        if bound is None:  # nothing of this comes any more
            time = max((event.end for event in events), default=0) + further - 6
        else:
            time = bound - random.choice((0, further))
        items.insert(place, Promise(about[0], time, about[1]))
    return items


def _with_doubles(events: Sequence[Event], again: list[Event], most: int | None, random: Random) -> list[Event]:
    """First and second deliveries, shuffled together: an event and its double are the same, so any order will do."""
    if most is not None:
        return _within([*events, *again], most, random)
    return random.sample([*events, *again], len(events) + len(again))


About: TypeAlias = tuple[str | None, str | None]  # type and source of a promise; None: every


def _subjects(events: Sequence[Event]) -> list[About]:
    """What promises can be about: all, each type, and each source, by itself and with each type."""
    types: list[str | None] = [None, *dict.fromkeys(event.type for event in events)]
    sources: list[str | None] = [None, *dict.fromkeys(event.source for event in events if event.source is not None)]
    return [(type, source) for type in types for source in sources]


def concerns(about: Promise | About, event: Event) -> bool:
    """Whether a promise speaks of an event."""
    type, source = (about.type, about.source) if isinstance(about, Promise) else about
    return type in (None, event.type) and source in (None, event.source)


def _latest_promise(later: Sequence[Item], about: About) -> int | None:
    """The largest time of a promise that all these respect; None if any time would do."""
    ends = [event.end for event in events_of(later) if concerns(about, event)]
    return min(ends) - 1 if ends else None


def with_withdrawals(
    events: Sequence[Event], random: Random, share: float = 0.4
) -> tuple[list[Event | Withdrawal], list[Event]]:
    """The events in their order, and a share of them taken back at any time after they came; with those that stay."""
    gone = [event for event in events if random.random() < share]
    items: list[Event | Withdrawal] = list(events)
    for event in gone:
        items.insert(random.randint(items.index(event) + 1, len(items)), Withdrawal(event))
    return items, [event for event in events if event not in gone]


def broken_promises(items: Sequence[Item]) -> list[tuple[int, int]]:
    """Every promise with the first later event that breaks it, as places in the list.

    >>> from tocsin.testing.notation import history
    >>> broken_promises(history("a1 @A>3 b2 a4 a3"))
    [(1, 4)]
    """
    found = []
    for place, item in enumerate(items):
        if isinstance(item, Promise):
            later = (at for at in range(place + 1, len(items)) if _breaks(items[at], item))
            found += [(place, at) for at in [next(later, None)] if at is not None]
    return found


def _breaks(item: Item, promise: Promise) -> bool:
    return isinstance(item, Event) and item.end <= promise.time and concerns(promise, item)


def arrivals(events: Sequence[Event], *, duplicates: bool = True, promises: bool = True) -> SearchStrategy[list[Item]]:
    """Every way in which these events can arrive: any order, some twice, valid promises anywhere; for Hypothesis.

    It shrinks to the order of the list, without duplicates and promises.
    """
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: DrawFn) -> list[Item]:
        items: list[Item] = list(draw(st.permutations(events)))
        if duplicates and events:
            for again in draw(st.lists(st.sampled_from(events), max_size=3)):
                items.insert(draw(st.integers(0, len(items))), again)
        count = draw(st.integers(0, 4)) if promises else 0
        for _ in range(count):
            place, about = draw(st.integers(0, len(items))), draw(st.sampled_from(_subjects(events)))
            bound, less = _latest_promise(items[place:], about), draw(st.integers(0, 12))
            last = max((event.end for event in events), default=0)
            items.insert(place, Promise(about[0], (last + 6 if bound is None else bound) - less, about[1]))
        return items

    return drawn()
