"""Rules that change while they run: what fits of the state goes on, what does not is named; judged by the oracle.

A change that loses nothing: from then on the answers are those that the new rule would have given from then on, had it
been there from the beginning, and those that the old one still waited with. So what is expected needs nothing of the
machinery under test: the oracle on all events, less what a session of the new rule alone has given by the change.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tocsin
from tests.effort import examples, is_long
from tocsin.events import Event
from tocsin.run.session import Session
from tocsin.testing.oracle import matches_of_all

Net = Counter[tuple[str, tuple[Any, ...]]]

# {t} is a threshold that may grow, {w} a window that may shrink; {s} is SELECT
RULES = (
    "QUERY r EVENT SEQ(A a, B b) WHERE [id] AND a.v >= {t} WITHIN {w} {s}",
    "QUERY r EVENT SEQ(A a, B b, A c) WHERE a.v >= {t} AND a.id = c.id WITHIN {w} {s}",
    "QUERY r EVENT SEQ(A a, B b) WHERE a.v + 3 >= b.v AND b.v >= {t} WITHIN {w} {s}",
    "QUERY r EVENT SEQ(A a, !C c, B b) WHERE [id] AND c.v >= {t} WITHIN {w} {s}",
    "QUERY r EVENT SEQ(!C c, A a, B b) WHERE c.v >= {t} WITHIN {w} {s}",
    "QUERY r EVENT SEQ(A a, B b, !C c) WHERE [id] AND c.v >= {t} WITHIN {w} {s}",
    "QUERY r EVENT SEQ(A a, !(C c : c.v >= {t})) WITHIN {w} {s}",
    "QUERY r EVENT AND(A a, B b, !C c) WHERE c.v >= {t} WITHIN {w} {s}",
    "QUERY r EVENT SEQ(A a, B+ b, C c) WHERE [id] AND count(b) >= {t} / 2 WITHIN {w} {s}",
    "QUERY r EVENT SEQ(A a, B+ b) WHERE b.v >= {t} WITHIN {w} {s}",
    "QUERY r EVENT OR(SEQ(A a, B b), SEQ(B b, C c)) WHERE b.v >= {t} WITHIN {w} {s}",
    "QUERY r EVENT EXISTS c : SEQ(A a, C c, B b) WHERE b.v >= {t} WITHIN {w} {s}",
)
SELECTS = ("", "SELECT a.v AS v")
ORDERS = (
    "in-order", "slack(4)", "conservative(4)", "conservative(4, ordered)", "aggressive(4)",
    "aggressive(4, trailing=immediate)", "hybrid(C=conservative, 4)", "auto(4)",
)  # fmt: skip


def drawn(random: random.Random, order: str, length: int = 40) -> list[Event]:
    """A history in order of arrival: no event comes later than the order allows."""
    time, events = 0, []
    for number in range(length):
        time += random.choice((0, 1, 1, 2, 3))
        attrs = {"id": random.randrange(2), "v": random.randrange(8)}
        events.append(Event(random.choice("ABC"), time, time, f"e{number}", attrs))
    late = 0 if order == "in-order" else 4
    return sorted(events, key=lambda event: event.end + random.randint(0, late) * 0.99)


def opened(text: str, order: str, **more: Any) -> Session:
    return tocsin.query(text).stream(order=order, eid="eid", jit=is_long(), **more)


def rows(events: list[Event]) -> list[dict[str, Any]]:
    return [{"type": e.type, "time": e.end, "eid": e.eid, **e.attrs} for e in events]


def net(matches: Any) -> Net:
    """What was given and not withdrawn: the query, and the eids of each variable."""
    found: Net = Counter()
    for match in matches:
        found[match["query"], bound(match)] += match.get("op", 1)
    return found


def bound(match: dict[str, Any]) -> tuple[Any, ...]:
    several = {name: value if isinstance(value, list) else [value] for name, value in match.items()}
    events = {n: tuple(e["eid"] for e in value) for n, value in several.items() if value and isinstance(value[0], dict)}
    return tuple(sorted((name, eids) for name, eids in events.items() if eids))


def truth(text: str, events: list[Event]) -> Net:
    """The oracle's answers."""
    found: Net = Counter()
    for name, matches in matches_of_all(tocsin.query(text).queries, events).items():
        for match in matches:
            found[str(name), tuple(sorted((variable, eids) for variable, eids in match.binding if eids))] += 1
    return found


def pushed(session: Session, events: list[Event], random: random.Random) -> list[dict[str, Any]]:
    """Push in pieces; now and then it is promised what is true anyway."""
    found: list[dict[str, Any]] = []
    left = rows(events)
    while left:
        size = random.randint(1, 6)
        found += session.push(left[:size])
        left = left[size:]
        if random.random() < 0.3 and left:
            found += session.promise(random.choice("ABC"), min(row["time"] for row in left) - 1)
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_a_change_that_loses_nothing(order: str) -> None:
    given = 0
    for seed in range(examples(600)):
        draw = random.Random(seed)
        rule = RULES[seed % len(RULES)]
        low, high = draw.randint(0, 4), draw.randint(6, 16)
        old = rule.format(t=low, w=high, s=draw.choice(SELECTS))
        new = rule.format(t=low + draw.choice((0, 0, 1, 2)), w=high - draw.choice((0, 0, 1, 4)), s="")
        events = drawn(draw, order)
        cut = draw.randint(1, len(events) - 1)
        before, alone = opened(old, order), opened(new, order)
        told = draw.getrandbits(32)
        pushed(before, events[:cut], random.Random(told))
        waiting, ripe = {frozenset(debt["events"]) for debt in before.debts()}, ripe_in(before)
        past = net(pushed(alone, events[:cut], random.Random(told)))
        state = before.save()
        if draw.random() < 0.3:  # saved again before anything came, or by the same rule
            state = opened(old, order, state=state).save()
        after = opened(new, order, state=state, carry_over=True)
        if draw.random() < 0.3:
            after = opened(new, order, state=after.save())
        found = net([*pushed(after, events[cut:], draw), *after.close()])
        wanted = truth(new, events)
        wanted.subtract(past)
        there = {event.eid for event in events[:cut]} - unsorted(before)
        for match in wanted:
            if {eid for _, eids in match[1] for eid in eids} <= there and "EXISTS" not in rule:
                decided = wanted[match] == 1 and not was_waiting(match, waiting)
                owed = past[match] > 0 and wanted[match] == 0 and was_waiting(match, waiting)
                wanted[match] += owed - decided
        wanted.update(ripe - wanted)
        wanted, found = (Counter({m: n for m, n in each.items() if n}) for each in (wanted, found))
        assert found == wanted, (seed, old, new, cut, events, owed)
        given += found.total()
    assert given


def unsorted(session: Session) -> set[str]:
    """The eids of events that still wait to be put into order: no query has seen them."""
    assert session._graph is not None
    (inner,) = session._graph.intake.inner
    return {eid for items in getattr(inner, "held", ()) for eid in items.payload.column("eid").to_pylist()}


def ripe_in(session: Session) -> Net:
    """The answers that are certain and wait for their turn: they are given, whatever the new rule says."""
    assert session._graph is not None
    found: Net = Counter()
    for _, _, batch, row in getattr(session._graph.stages[0].operator, "waiting", ()):
        whole = replace(batch.pick(np.array([row])), plan=replace(batch.plan, outputs=()))
        found.update(net(whole.table().to_pylist()))
    return found


def was_waiting(match: Any, waiting: set[frozenset[str]]) -> bool:
    return any(debt <= {eid for _, eids in match[1] for eid in eids} for debt in waiting)
