"""Rules that change while they run: what fits of the state goes on, what does not is named; judged by the oracle.

A change that loses nothing: from then on the answers are those that the new rule would have given from then on, had it
been there from the beginning, and those that the old one still waited with. So what is expected needs nothing of the
machinery under test: the oracle on all events, less what a session of the new rule alone has given by the change.
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tocsin
from tests.effort import examples, is_long
from tocsin.codec import unpack, within
from tocsin.engine.snapshot import kept_events
from tocsin.errors import StateError, TocsinWarning
from tocsin.events import END_OF_TIME, Event
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import end
from tocsin.lang.syntax import leaves_of
from tocsin.run.session import Session
from tocsin.select.rate_limit import RateLimit
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


def pushed(
    session: Session, events: list[Event], random: random.Random, later: Sequence[Event] = ()
) -> list[dict[str, Any]]:
    """Push in pieces; now and then it is promised what is true anyway, also of what comes `later`."""
    found: list[dict[str, Any]] = []
    left, soonest = rows(events), min((event.end for event in later), default=END_OF_TIME)
    while left:
        size = random.randint(1, 6)
        found += session.push(left[:size])
        left = left[size:]
        if random.random() < 0.3 and left:
            found += session.promise(random.choice("ABC"), min(soonest, *(row["time"] for row in left)) - 1)
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_a_change_that_loses_nothing(order: str) -> None:
    given = 0
    for seed in range(examples(120)):
        draw = random.Random(seed)
        rule = RULES[seed % len(RULES)]
        low, high = draw.randint(0, 4), draw.randint(6, 16)
        old = rule.format(t=low, w=high, s=draw.choice(SELECTS))
        new = rule.format(t=low + draw.choice((0, 0, 1, 2)), w=high - draw.choice((0, 0, 1, 4)), s="")
        events = drawn(draw, order)
        cut = draw.randint(1, len(events) - 1)
        before, alone = opened(old, order), opened(new, order)
        told = draw.getrandbits(32)
        pushed(before, events[:cut], random.Random(told), events[cut:])
        waiting, ripe = waiting_in(before), ripe_in(before)
        past = net(pushed(alone, events[:cut], random.Random(told), events[cut:]))
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
        told_as = {plain(match, new) for match in ripe}  # those answers are given, with the members that they had
        wanted = Counter({m: n for m, n in wanted.items() if m in ripe or plain(m, new) not in told_as})
        wanted.update({match: 1 for match in ripe if not wanted[match]})
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


def waiting_in(session: Session) -> set[frozenset[str]]:
    """The fixed events of the answers that the first query would give if the stream ended now, or to an open set."""
    if session._graph is None:
        return set()
    again = session._graph
    copy = QueryGraph(again.plans, again.schema, again.encoder.columns, jit=False, order=again.order)
    copy.restore(again.snapshot())
    found = {frozenset(debt["events"]) for debt in session.debts() if again.plans[0].alternatives[0].scopes}
    for batch in copy.stages[0].operator.push(end()):
        eids = batch.rows.shown["eid"].to_pylist()
        places = [batch.rows.at(column) for column in batch.fixed if len(column)]
        for row in range(len(batch)):
            found.add(frozenset(eids[column[row]] for column in places if column[row] >= 0))
    return found


def plain(match: Any, rule: str) -> tuple[Any, ...]:
    """The events of a match that are no members of a repetition."""
    sets = {leaf.var for leaf in leaves_of(tocsin.query(rule).queries[0].pattern) if leaf.repeat is not None}
    return tuple(each for each in match[1] if each[0] not in sets)


def was_waiting(match: Any, waiting: set[frozenset[str]]) -> bool:
    return any(debt <= {eid for _, eids in match[1] for eid in eids} for debt in waiting)


# --- files of queries ------------------------------------------------------------------------------------------------

ALPHA = "QUERY alpha EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 9"
BETA = "QUERY beta EVENT SEQ(B a, C b) WITHIN 6"
GAMMA = "QUERY gamma EVENT SEQ(A a, C b) WHERE [id] WITHIN 7"


@pytest.mark.parametrize("order", ["in-order", "slack(4)", "conservative(4)"])
def test_queries_are_added_and_removed(order: str) -> None:
    """One goes on as it was, one is changed, one is gone, and one begins with what comes."""
    for seed in range(examples(60)):
        draw = random.Random(f"{seed} of a file")
        events = drawn(draw, order)
        cut = draw.randint(5, 35)
        before = opened(f"{ALPHA}; {BETA}", order)
        given = net(pushed(before, events[:cut], draw, events[cut:]))
        unseen = unsorted(before)
        with pytest.warns(TocsinWarning, match="query 'beta' is gone: what was kept for it is dropped"):
            after = opened(f"{GAMMA}; {ALPHA}", order, state=before.save(), carry_over=True)
        found = net([*pushed(after, events[cut:], draw), *after.close()])
        given = Counter({match: count for match, count in given.items() if match[0] == "alpha"})
        mine = Counter({match: count for match, count in found.items() if match[0] == "alpha"})
        assert given + mine == truth(ALPHA, events), seed
        # what waits to be put into order is kept for those that read it; a new query sees it when its turn comes
        new = [event for event in events[:cut] if event.eid in unseen and event.type in "ABC"] + events[cut:]
        assert found - mine == truth(GAMMA, new), seed


PAIRS = "QUERY P EVENT SEQ(A a, B b) WHERE [id] AND a.v >= {t} WITHIN {w} SELECT a.id AS id{s}"
READS = "QUERY R EVENT SEQ(P p, C c) WHERE [id] WITHIN 12"


@pytest.mark.parametrize("order", ["in-order", "conservative(4)"])
def test_a_changed_query_that_others_read(order: str) -> None:
    """The matches that a later query has read stay what they were: events that it keeps."""
    given = 0
    for seed in range(examples(60)):
        draw = random.Random(f"{seed} of a chain")
        events = drawn(draw, order, 60)
        cut = draw.randint(10, 50)
        before = opened(f"{PAIRS.format(t=1, w=8, s='')}; {READS}", order)
        old = pushed(before, events[:cut], draw, events[cut:])
        after = opened(
            f"{PAIRS.format(t=3, w=6, s=', b.v AS v')}; {READS}", order, state=before.save(), carry_over=True
        )
        new = [*pushed(after, events[cut:], draw), *after.close()]
        pairs = [match for match in old + new if match["query"] == "P"]
        composites = [Event("P", m["start"], m["end"], f"p{at}", {"id": m["id"]}) for at, m in enumerate(pairs)]
        wanted = Counter(
            (p.start, p.end, c.eid)
            for p in composites
            for c in events
            if c.type == "C" and c.attrs["id"] == p.attrs["id"] and p.end < c.start and c.end - p.start <= 12
        )
        found = Counter((m["p"]["start"], m["p"]["end"], m["c"]["eid"]) for m in old + new if m["query"] == "R")
        assert found == wanted, (seed, cut)
        given += found.total()
    assert given


# --- what does not fit -----------------------------------------------------------------------------------------------


def carried(old: str, new: str, order: str = "in-order", **more: Any) -> Session:
    """A session of a changed rule with the state of the old one, which has seen a few events."""
    before = opened(old, order)
    before.push(rows(drawn(random.Random(3), "in-order", 20)))
    return opened(new, order, state=before.save(), carry_over=True, **more)


FITS = [
    ("SEQ(A a, B b) WHERE a.v > 2 WITHIN 9", "SEQ(A a, B b) WHERE a.v > 2 AND b.v = 1 WITHIN 9"),
    ("SEQ(A a, B b) WHERE a.v > 2 WITHIN 9", "SEQ(A x, B y) WHERE 3 <= x.v AND x.v > 2.5 WITHIN 8"),
    ("SEQ(A a, B b) WHERE a.v IN (1, 2, 3) WITHIN 9", "SEQ(A a, B b) WHERE a.v IN (1, 3) WITHIN 9"),
    ("SEQ(A a, B b) WHERE a.v BETWEEN 1 AND 5", "SEQ(A a, B b) WHERE a.v BETWEEN 2 AND 5 WITHIN 3"),
    ("SEQ(A a, B b) WHERE [id] WITHIN 9", "SEQ(A a, B b) WHERE [id] AND a.v = b.v WITHIN 9"),
    ("SEQ(A a, B+ b, C c) WHERE count(b) > 2 WITHIN 9", "SEQ(A a, B+ b, C c) WHERE count(b) > 1 WITHIN 9"),
    ("SEQ(A a, B{2} b, C c) WITHIN 9", "SEQ(A a, B{1,4} b, C c) WITHIN 9"),
    ("SEQ(A a, !(C c : c.v > 1), B b) WITHIN 9", "SEQ(A a, !(C c : c.v > 4), B b) WITHIN 9"),
]
LACKS = [
    ("SEQ(A a, B b) WITHIN 9", "SEQ(A a, B b) WITHIN 12", "more than 9 ticks back"),
    ("SEQ(A a, B b) WITHIN 9", "SEQ(A a, B b)", "all of them are needed now"),
    (
        "SEQ(A a, B b) WHERE a.v > 2 WITHIN 9",
        "SEQ(A a, B b) WHERE a.v >= 2 WITHIN 9",
        r"A a for which a\.v > 2",
    ),
    ("SEQ(A a, B b) WHERE a.v > 2 WITHIN 9", "SEQ(A a, B b) WHERE a.v <> 2 WITHIN 9", r"a\.v > 2"),
    (
        "SEQ(A a, B b) WHERE a.v IN (1, 2) WITHIN 9",
        "SEQ(A a, B b) WHERE a.v IN (1, 3) WITHIN 9",
        r"a\.v = 1 or a\.v = 2",
    ),
    ("SEQ(A a, B b) WHERE a.v < b.v WITHIN 9", "SEQ(A a, B b) WITHIN 9", r"met no other one for which a\.v < b\.v"),
    ("SEQ(A a, B b) WITHIN 9", "SEQ(A a, !C c, B b) WITHIN 9", "events of type C from before the change"),
    ("SEQ(A a, B b) WITHIN 9", "AND(A a, B b) WITHIN 9", "the old pattern had no use for"),
]


@pytest.mark.parametrize(("old", "new"), FITS)
def test_what_asks_for_less_fits(old: str, new: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        carried(f"EVENT {old}", f"EVENT {new}")


@pytest.mark.parametrize(("old", "new", "told"), LACKS)
def test_what_asks_for_more_is_refused_and_named(old: str, new: str, told: str) -> None:
    with pytest.raises(StateError, match=f"(?s)needs events that were not kept.*{told}.*accept_loss=True"):
        carried(f"EVENT {old}", f"EVENT {new}")
    with pytest.warns(TocsinWarning) as caught:
        carried(f"EVENT {old}", f"EVENT {new}", accept_loss=True)
    assert any(re.search(f"goes on without .*{told}", str(each.message)) for each in caught)


def test_conditions_between_events_cost_nothing_where_events_come_in_any_order() -> None:
    carried("EVENT SEQ(A a, B b) WHERE a.v < b.v WITHIN 9", "EVENT SEQ(A a, B b) WITHIN 9", "conservative(4)")


@pytest.mark.parametrize("asked", ["WHERE p.v > 1 WITHIN 9", "WITHIN 9 SELECT p.v AS v"])
def test_what_matches_so_far_lack_is_named_also_where_it_is_only_shown(asked: str) -> None:
    old, new = (f"QUERY P EVENT SEQ(A a, B b) WITHIN 9 SELECT a.id AS id{more}" for more in ("", ", b.v AS v"))
    with pytest.raises(StateError, match="v of the matches of P so far: it was not selected there"):
        carried(f"{old}; QUERY R EVENT SEQ(P p, C c) WITHIN 9", f"{new}; QUERY R EVENT SEQ(P p, C c) {asked}")


@pytest.mark.parametrize("new", ["WHERE [v]", "WHERE a.v = b.id", ""])
def test_another_key_is_refused(new: str) -> None:
    """Also where a loss would be accepted: what was kept was judged within the old key."""
    told = r"(?s)query 'r' has another key.*kept apart by id.*another name"
    for accept_loss in (False, True):
        with pytest.raises(StateError, match=told):
            carried(
                "QUERY r EVENT SEQ(A a, B b) WHERE [id] WITHIN 9", f"QUERY r EVENT SEQ(A a, B b) {new} WITHIN 9",
                accept_loss=accept_loss,
            )  # fmt: skip


def test_what_is_refused() -> None:
    with pytest.raises(StateError, match=r"(?s)none of them is here.*query 'r'.*known by its name"):
        carried("QUERY r EVENT SEQ(A a, B b) WITHIN 9", "QUERY s EVENT SEQ(A a, B b) WITHIN 9")
    before = opened(ALPHA, "in-order")
    before.push(rows(drawn(random.Random(3), "in-order", 20)))
    with pytest.raises(StateError, match=r"(?s)saved by other queries.*carry_over=True"):
        opened(ALPHA.replace("9", "8"), "in-order", state=before.save())
    with pytest.raises(StateError, match="order="):
        opened(ALPHA.replace("9", "8"), "slack(4)", state=before.save(), carry_over=True)


def test_with_a_loss_the_answers_are_those_on_the_events_kept() -> None:
    """A wider window and a looser condition: matches with an event that comes after the change, among kept ones."""
    old, new = ("QUERY r EVENT SEQ(A a, B b) WHERE a.v > {} WITHIN {}".format(*each) for each in ((3, 5), (1, 9)))
    given = 0
    for seed in range(examples(100)):
        events = drawn(random.Random(seed), "in-order")
        before = opened(old, "in-order")
        before.push(rows(events[:20]))
        state = before.save()
        with pytest.warns(TocsinWarning):
            after = opened(new, "in-order", state=state, carry_over=True, accept_loss=True)
        kept = {eid for part in kept_parts(state) for eid in part}
        assert kept <= {event.eid for event in events[:20] if event.type == "B" or event.attrs["v"] > 3}
        found = net([*after.push(rows(events[20:])), *after.close()])
        known = [event for event in events[:20] if event.eid in kept] + events[20:]
        late = {event.eid for event in events[20:]}
        wanted = Counter({m: n for m, n in truth(new, known).items() if any(eids[0] in late for _, eids in m[1])})
        assert found == wanted, seed
        given += found.total()
    assert given


def kept_parts(state: bytes) -> list[list[str]]:
    """The eids of the events that a state holds."""
    parts = within("graph/intake/inner/0/operator", unpack(state))
    return [each.rows.column("eid").to_pylist() for each in kept_events(parts).events]


# --- around the detectors --------------------------------------------------------------------------------------------


def test_events_without_eids_go_over() -> None:
    """They are known by their content, before the change and after it."""
    old, new = (f"QUERY r EVENT SEQ(A a, !C c, B b) WHERE [id] AND a.v > {t} WITHIN 9" for t in (1, 3))
    for seed in range(examples(60)):
        events = rows(drawn(random.Random(seed), "in-order"))
        unnamed = [{**{k: v for k, v in row.items() if k != "eid"}, "n": n} for n, row in enumerate(events)]
        before = tocsin.query(old).stream(jit=False)
        before.push(unnamed[:20])
        after = tocsin.query(new).stream(jit=False, state=before.save(), carry_over=True)
        found = Counter(match["match_id"] for match in [*after.push(unnamed[20:]), *after.close()])
        wanted = tocsin.query(new).detect(unnamed, jit=False)
        assert found == Counter(match["match_id"] for match in wanted if match["b"]["n"] >= 20), seed


def test_operators_around_a_rule_begin_anew_and_say_so() -> None:
    limit = RateLimit(1, 100, key=("id",))
    old, new = (tocsin.query(f"EVENT SEQ(A a, B b) WHERE [id] AND a.v > {t} WITHIN 9").around(limit) for t in (1, 3))
    before = old.stream(jit=False)
    before.push(rows(drawn(random.Random(3), "in-order", 20)))
    with pytest.raises(StateError, match="what the operators around it have counted"):
        new.stream(jit=False, state=before.save(), carry_over=True)
    with pytest.warns(TocsinWarning, match="goes on without what the operators around it have counted"):
        new.stream(jit=False, state=before.save(), carry_over=True, accept_loss=True)
    old.stream(jit=False, state=before.save(), carry_over=True)  # was not changed, and keeps all of it


def test_events_on_disk_do_not_go_over_and_say_so() -> None:
    texts = (f"EVENT SEQ(A a, B b) WHERE [id] AND a.v > {t} WITHIN 9" for t in (1, 3))
    old, new = (tocsin.query(text) for text in texts)
    options: dict[str, Any] = {"order": "aggressive", "memory_limit": 20_000, "jit": False}
    before = old.stream(**options)
    before.push([{"type": "AB"[n % 2], "time": n, "id": n % 3, "v": n % 7} for n in range(3000)])
    with pytest.raises(StateError, match="events that lie on disk"):
        new.stream(state=before.save(), carry_over=True, **options)
    with pytest.warns(TocsinWarning, match="goes on without events that lie on disk"):
        after = new.stream(state=before.save(), carry_over=True, accept_loss=True, **options)
    assert len(after.push({"type": "B", "time": 3000, "id": 0, "v": 1})) > 0


# --- rules that are statements, or definitions of intervals ---------------------------------------------------------

OWN_ROWS = (
    "INTERVALS Visit FROM A SESSION GAP 3 SELECT count(*) AS n",
    "INTERVALS Hot FROM A, B BY id AS High WHEN v > 3, Low WHEN v <= 3 END LAST",
    "INTERVALS Visit FROM A BY id SESSION GAP 3; QUERY r EVENT SEQ(Visit x, C c) WHERE [id] WITHIN 20",
    "CreateCE X Select A.v as v Event And(A<consume>, B<consume>)",
    "CreateCE X Event Sequence(A<consume>, B<consume>); QUERY r EVENT SEQ(X x, C c) WITHIN 20",
    "QUERY r EVENT SEQ(A a, B b) WHERE [id] WITHIN 20; CreateCE X Event And(r, C<consume>)",
    "CONSTRAINT c PARTITION BY id AS (A | B | C)* C?; QUERY r EVENT SEQ(A a, B b) WHERE [id] UNDER c",
)


@pytest.mark.parametrize("text", OWN_ROWS)
def test_rules_with_rows_of_their_own_go_on_where_nothing_was_changed(text: str) -> None:
    rows = [
        {"type": event.type, "time": event.end, "eid": event.eid, **event.attrs}
        for event in drawn(random.Random(text), "in-order", length=30)
    ]
    whole = opened(text, "in-order")
    expected = [*whole.push(rows), *whole.close()]
    assert expected
    for cut in (0, 7, 18, 29):
        first = opened(text, "in-order")
        found = list(first.push(rows[:cut]))
        again = opened(text, "in-order", state=first.save(), carry_over=True)
        found += [*again.push(rows[cut:]), *again.close()]
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), cut


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OWN_ROWS[0], OWN_ROWS[0].replace("GAP 3", "GAP 4")),
        (OWN_ROWS[3], OWN_ROWS[3].replace("B<consume>", "C<consume>")),
        ("QUERY X EVENT SEQ(A a, B b) WITHIN 9", OWN_ROWS[3]),
        (OWN_ROWS[0], "QUERY Visit EVENT SEQ(A a, B b) WITHIN 9"),
    ],
)
def test_a_changed_statement_starts_afresh_if_that_is_accepted(old: str, new: str) -> None:
    events = drawn(random.Random(old + new), "in-order", length=40)
    rows = [{"type": event.type, "time": event.end, "eid": event.eid, **event.attrs} for event in events]
    cut = next(at for at in range(20, 40) if rows[at]["time"] > rows[at - 1]["time"])
    first = opened(old, "in-order")
    first.push(rows[:cut])
    state = first.save()
    with pytest.raises(StateError, match="starts afresh"):
        opened(new, "in-order", state=state, carry_over=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TocsinWarning)
        again = opened(new, "in-order", state=state, carry_over=True, accept_loss=True)
    alone = opened(new, "in-order")
    assert [*again.push(rows[cut:]), *again.close()] == [*alone.push(rows[cut:]), *alone.close()]
