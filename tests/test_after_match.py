"""After a match: what SKIP, DISTINCT and LIMIT leave is what their definition leaves, in every way of running."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples, is_long
from tocsin.engine.changes import ChangeBatch
from tocsin.errors import StateError, TocsinWarning
from tocsin.events import Event
from tocsin.lang.parser import parse, parse_all
from tocsin.lang.syntax import Query
from tocsin.order.strategy import Strategy
from tocsin.plan.facts import one_for_first
from tocsin.run import pace
from tocsin.run.query import plans_of
from tocsin.select import after_match, per_key, pieces, settled_matches
from tocsin.shards.routes import groups_of, needs_one_shard, units_of
from tocsin.shards.watermark import Slack
from tocsin.testing.agree import PLAIN, Bench, Trial
from tocsin.testing.draw_clauses import with_clauses
from tocsin.testing.harness import Limit
from tocsin.testing.modes import EVERY, Mode
from tocsin.testing.oracle import matches
from tocsin.testing.strategies import SCHEMA, history, pair

MORE = (
    Trial("spilled", Mode("aggressive", batch=1, limit=Limit(300), late=True), shuffle=20),
    Trial("spilled, held", Mode("conservative", batch=2, limit=Limit(300), promises=21), shuffle=21),
    Trial("spilled, restart", Mode("aggressive", batch=2, limit=Limit(300), late=True, restart=EVERY), shuffle=22),
    Trial("chosen by itself", Mode("auto", batch=1), shuffle=23),
    Trial("chosen by itself, restart", Mode("auto", batch=2, restart=EVERY, promises=24), shuffle=24),
)  # fmt: skip


def drawn(seed: str) -> tuple[Query, list[Event]]:
    """A query with clauses, and a history in which they have something to choose."""
    random = Random(seed)
    query, events = pair(random, leaves=3)
    query = with_clauses(random, query)
    number = bool(events) and isinstance(events[0].eid, int)
    more = [
        replace(event, eid=1000 + at if number else f"m{at}")
        for at, event in enumerate(history(random, query, most=10))
    ]
    return query, [*events, *more][:16]


@pytest.mark.filterwarnings("ignore:the memory limit")
def test_drawn_clauses_agree_with_the_oracle_in_every_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, sorted first, held, corrected, in parts; cut anywhere, restarted, on disk, without single passes."""
    monkeypatch.setattr(per_key, "FIRST_PIECE", 3)
    monkeypatch.setattr(pieces, "LEAST_PIECE", 1)
    monkeypatch.setattr(per_key, "MANY", 5)
    monkeypatch.setattr(after_match, "FEW", 2)
    seen: Counter[str] = Counter()
    for number in range(examples(400, least=20)):
        query, events = drawn(f"after {number}")
        bench = Bench(query, SCHEMA)
        random = Random(number)
        trials: Sequence[Trial] = (*PLAIN, *MORE)
        if not is_long():
            trials = random.sample(trials, 5)
        found = bench.disagreement(events, trials)
        assert found is None, (number, str(query), events, found)
        whole = matches(replace(query, skip=None, distinct=None, limit=None), events)
        kept = matches(query, events)
        seen["kept"] += len(kept)
        seen["dropped"] += len(whole) - len(kept)
        seen["with clauses"] += query.skip is not None or query.distinct is not None or query.limit is not None
    assert min(seen.values()) > 15, seen


# --- on shards -------------------------------------------------------------------------------------------------------

SHARDED = [
    # by the key; the planner's key has one attribute more than the query's
    "EVENT SEQ(A a, B b) WHERE [id] WITHIN 6 AFTER MATCH SKIP PAST LAST EVENT",
    "EVENT SEQ(A a, B b) WHERE [id] AND a.v = b.v WITHIN 9 AFTER MATCH SKIP TO NEXT EVENT LIMIT 2 PER id EVERY 7",
    "EVENT SEQ(A a, B+ b, C c) WHERE [id] WITHIN 9 AFTER MATCH SKIP TO LAST b",
    "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 6 DISTINCT BY a.v EVERY 4",
    "EVENT AND(A a, B b) WHERE [id] WITHIN 3 DISTINCT BY id EVERY 5 LIMIT 3 PER id",
    # in one shard
    "EVENT SEQ(A a, B b) WITHIN 5 AFTER MATCH SKIP PAST LAST EVENT",
    "EVENT SEQ(A a, B b) WHERE a.id = b.id WITHIN 6 AFTER MATCH SKIP PAST LAST EVENT",
    "EVENT SEQ(A a, B b) WHERE [id] WITHIN 6 LIMIT 2 EVERY 5",
    "EVENT SEQ(A a, B b) WHERE [id] WITHIN 6 LIMIT 2 PER b.v EVERY 9",
    # what remains is what later queries read
    """QUERY P EVENT SEQ(A a, B b) WHERE [id] WITHIN 3 AFTER MATCH SKIP PAST LAST EVENT SELECT a.id AS id;
    EVENT SEQ(P p, C c) WHERE [id] WITHIN 8""",
    """QUERY P HIDDEN EVENT SEQ(A a, B b) WHERE [id] WITHIN 4 LIMIT 1 PER id EVERY 6 SELECT a.id AS id;
    EVENT SEQ(A a, !P p, C c) WHERE [id] WITHIN 9 DISTINCT BY c.v EVERY 3""",
    """QUERY P EVENT SEQ(A a, B b) WITHIN 3 DISTINCT BY a.id EVERY 4 SELECT a.id AS id;
    EVENT SEQ(P p, C c) WITHIN 8 AFTER MATCH SKIP TO NEXT EVENT""",
    # ... also where that was decided by matches whose events are long gone
    """QUERY P HIDDEN EVENT B b WHERE [id] DISTINCT BY b.v SELECT b.id AS id;
    EVENT SEQ(P p, C c) WHERE [id] WITHIN 5""",
    """QUERY P HIDDEN EVENT SEQ(A a, B b) WHERE [id] WITHIN 2 LIMIT 2 PER id EVERY 40 SELECT b.id AS id;
    EVENT SEQ(P p, C c) WHERE [id] WITHIN 4""",
]


def numbered(random: Random) -> list[Event]:
    """Points and short intervals of three keys; no two end at once, so that matches as events have an order, too."""
    ends = random.sample(range(90), 60)
    return [
        Event(
            random.choice("AABBC"),
            at - random.choice((0, 0, 1)),
            at,
            f"e{at}",
            {"id": random.randint(0, 2), "v": at % 3},
        )
        for at in ends
    ]


@pytest.mark.parametrize("name", ["slack", "conservative", "aggressive", "hybrid", "auto"])
def test_clauses_survive_every_accident_on_shards(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost workers and attempts, replayed logs, several shards: what stands is what the oracle leaves."""
    pytest.importorskip("pyspark")
    from tests import shard_support, test_shard_order

    for constant in ("TAIL", "MERGED", "KEPT_ALIVE"):
        monkeypatch.setattr(shard_support.module, constant, 2)
    strategy = test_shard_order.STRATEGIES.get(name, Strategy())
    for number in range(examples(40, least=3)):
        random = Random(f"clauses {name} {number}")
        text = SHARDED[(number * 5 + len(name)) % len(SHARDED)]
        events, frame = numbered(random), shard_support.frame_of(pa.string())
        asked = shard_support.ask(parse_all(text), frame, buckets=random.choice((1, 3)))
        asked = test_shard_order.with_strategy(asked, strategy)
        stream = shard_support.Stream(asked, Slack(4, strategy=strategy), random)
        for batch in shard_support.cuts(shard_support.arranged(events, 4, random), random):
            stream.batch([shard_support.row_of(event, frame) for event in batch])
        stream.close()
        standing, withdrawn, wrong = test_shard_order.net(stream.answers)
        assert wrong is None and not stream.answers.late
        assert not withdrawn or strategy.corrects
        found = shard_support.disagreement(asked, events, standing)
        assert found is None, (number, text, found)


def ways(text: str) -> list[set[str]]:
    """By what the shards of each group are chosen; nothing: one shard sees everything."""
    groups = groups_of(units_of(plans_of(parse_all(text), SCHEMA)))
    return [{name for way in group.ways.values() for attrs in way.keys for name in attrs} for group in groups]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("", {"id", "v"}),
        ("AFTER MATCH SKIP PAST LAST EVENT", {"id"}),
        ("DISTINCT BY b.v", {"id"}),
        ("LIMIT 1 PER id", {"id"}),
        ("LIMIT 1 PER a.id, b.w", {"id"}),
        ("AFTER MATCH SKIP TO NEXT EVENT LIMIT 1 PER id", {"id"}),
        ("AFTER MATCH SKIP TO NEXT EVENT LIMIT 1", set()),
        ("LIMIT 1 PER b.w", set()),
        ("LIMIT 1", set()),
    ],
)
def test_matches_that_a_clause_must_see_together_go_to_one_shard(clauses: str, expected: set[str]) -> None:
    """The planner divides by all equalities; a clause only by what it keeps apart."""
    text = f"EVENT SEQ(A a, B b) WHERE [id] AND a.v = b.v WITHIN 5 {clauses}"
    assert ways(text) == [expected]
    (unit,) = units_of(plans_of(parse_all(text), SCHEMA))
    assert (needs_one_shard(unit) is not None) == (not expected)


def test_a_clause_without_a_key_keeps_no_other_query_from_being_cut_in_time() -> None:
    text = "QUERY P EVENT SEQ(A a, B b) WITHIN 5 LIMIT 1; QUERY Q EVENT SEQ(A a, C c) WITHIN 5"
    assert ways(text) == [set(), set()]
    assert ways(text.replace("LIMIT 1", "")) == [set()]


# --- state, ids, notes -----------------------------------------------------------------------------------------------

TYPES = "AABBCABABBCAABBCAB" * 2
EVENTS = [{"type": kind, "time": time, "id": time % 2, "v": time % 3} for time, kind in enumerate(TYPES)]
KINDS = {"*": {"id": "int", "v": "int"}}
PLAIN_QUERY = "EVENT SEQ(A a, B b) WHERE [id] WITHIN 8"
CLAUSES = [
    "AFTER MATCH SKIP PAST LAST EVENT",
    "AFTER MATCH SKIP TO NEXT EVENT",
    "AFTER MATCH SKIP TO LAST b",
    "DISTINCT BY b.v EVERY 4",
    "LIMIT 1 PER id EVERY 6",
    "AFTER MATCH SKIP TO NEXT EVENT DISTINCT BY b.v EVERY 2 LIMIT 3 EVERY 9",
]


@pytest.mark.parametrize("clauses", CLAUSES)
def test_ids_stay_those_of_the_query_without_the_clauses(clauses: str) -> None:
    whole = {match["match_id"] for match in tocsin.query(PLAIN_QUERY).detect(EVENTS, jit=False)}
    kept = {match["match_id"] for match in tocsin.query(f"{PLAIN_QUERY} {clauses}").detect(EVENTS, jit=False)}
    assert kept < whole and kept


@pytest.mark.parametrize("number", range(len(CLAUSES)))
def test_state_stays_flat_with_ever_new_keys(number: int) -> None:
    """A key whose matches are long over takes no room."""
    order = ("in-order", "conservative(3)", "aggressive(3)")[number % 3]
    sizes = []
    with tocsin.query(f"{PLAIN_QUERY} {CLAUSES[number]}").stream(order=order, jit=False, schema=KINDS) as session:
        for first in range(0, 600, 60):
            times = range(first, first + 60)
            session.push([{"type": "AB"[time % 2], "time": time, "id": time // 2, "v": time // 2} for time in times])
            sizes.append(len(session.save()))
    assert max(sizes[6:]) < 1.3 * max(sizes[:5]), sizes


def test_a_state_fits_only_the_same_clauses() -> None:
    with tocsin.query(f"{PLAIN_QUERY} LIMIT 1 PER id EVERY 6").stream(jit=False, schema=KINDS) as session:
        session.push(EVENTS[:9])
        saved = session.save()
    for other in ("", "LIMIT 2 PER id EVERY 6", "DISTINCT BY id EVERY 6"):
        with pytest.raises(StateError, match="other queries"):
            tocsin.query(f"{PLAIN_QUERY} {other}").stream(jit=False, schema=KINDS, state=saved)
    tocsin.query(f"{PLAIN_QUERY} LIMIT 1 PER id EVERY 6 SELECT a.v").stream(jit=False, schema=KINDS, state=saved)


def test_changed_clauses_go_on_with_the_kept_events_and_say_what_is_lost() -> None:
    text = f"QUERY q {PLAIN_QUERY} LIMIT 1 PER id EVERY 100"
    with tocsin.query(text).stream(jit=False, schema=KINDS) as session:
        session.push(EVENTS[:9])
        saved = session.save()
    changed = tocsin.query(text.replace("LIMIT 1", "LIMIT 2"))
    with pytest.raises(StateError, match="needs events that were not kept") as caught:
        changed.stream(jit=False, schema=KINDS, state=saved, carry_over=True)
    assert "what its clauses after a match have taken" in str(caught.value)
    with pytest.warns(TocsinWarning, match="they begin anew"):
        going = changed.stream(jit=False, schema=KINDS, state=saved, carry_over=True, accept_loss=True)
    with going:
        assert going.push(EVENTS[9:20]) or going.close()
    plain = tocsin.query(f"QUERY q {PLAIN_QUERY}")
    with plain.stream(jit=False, schema=KINDS, state=saved, carry_over=True) as without:
        assert len(without.push(EVENTS[9:20])) > 2


def test_check_says_what_is_kept_for_ever() -> None:
    def notes(clauses: str) -> str:
        return " ".join(tocsin.query(f"{PLAIN_QUERY} {clauses}").check())

    assert "DISTINCT without EVERY remembers every value for ever" in notes("DISTINCT BY b.v")
    assert "LIMIT without EVERY counts for ever, for each value of PER" in notes("LIMIT 5 PER id")
    assert "after 5 matches no other comes" in notes("LIMIT 5")
    assert not any(notes(clauses) for clauses in CLAUSES)


def test_explain_shows_the_clauses_and_among_what_they_choose() -> None:
    text = tocsin.query(f"{PLAIN_QUERY} LIMIT 5 EVERY 10 DISTINCT BY b.v EVERY 3 AFTER MATCH SKIP TO LAST b").explain()
    lines = [line for line in text.splitlines() if line.startswith("after")]
    assert lines == [
        "after     AFTER MATCH SKIP TO LAST b  -- for each id",
        "after     DISTINCT BY b.v EVERY 3  -- for each id",
        "after     LIMIT 5 EVERY 10  -- over all matches, since there is no PER",
    ]
    keyless = tocsin.query("EVENT SEQ(A a, B b) WITHIN 5 AFTER MATCH SKIP TO LAST b").explain()
    assert "over all matches, since the query has no key" in keyless


def test_a_number_is_the_same_value_whatever_it_is_stored_as() -> None:
    """A column of whole numbers becomes one of floats in mid-stream; what was taken stays taken."""
    asked = tocsin.query("EVENT B b DISTINCT BY b.v")
    with asked.stream(jit=False) as session:
        values = (1, 2, 2.5, 1.0, 2, 3)
        said = [session.push({"type": "B", "time": time, "v": value}) for time, value in enumerate(values)]
        said.append(session.close())
    assert [match["b"]["v"] for some in said for match in some] == [1, 2, 2.5, 3]


def test_one_event_under_two_variables_gives_two_matches() -> None:
    """Matches of the same events are told apart by the variables that hold them."""
    asked = tocsin.query("EVENT OR(SEQ(A a, B b), SEQ(A c, B d)) LIMIT 2")
    found = asked.detect([{"type": "A", "time": 1}, {"type": "B", "time": 2}], jit=False)
    assert len(found) == 2


@pytest.mark.parametrize("clauses", [CLAUSES[0], "DISTINCT BY id EVERY 20", "LIMIT 1 PER id EVERY 30"])
def test_of_very_many_matches_few_are_ever_kept(clauses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the settled state of its key drops does not wait for its turn, and pushes become short."""
    kept, waiting = [], settled_matches.SettledMatches.__len__
    take = settled_matches.SettledMatches.take

    def counted(self: settled_matches.SettledMatches, batch: ChangeBatch) -> None:
        before = waiting(self)
        take(self, batch)
        kept.append(waiting(self) - before)

    monkeypatch.setattr(settled_matches.SettledMatches, "take", counted)
    monkeypatch.setattr(per_key, "MANY", 256)
    monkeypatch.setattr(per_key, "FIRST_PIECE", 32)
    random = Random(7)
    events = [{"type": random.choice("ABC"), "time": time, "id": 1} for time in range(400)]
    text = "EVENT SEQ(A a, B b, C c) WHERE [id] WITHIN 60"
    every = len(tocsin.query(text).detect(events, jit=False))
    found = tocsin.query(f"{text} {clauses}").detect(events, jit=False)
    assert 5 < len(found) < 100 < every / 100
    assert sum(kept) < every / 2 and max(kept) < every / 10, (every, sum(kept), max(kept))


# --- SKIP in detection: of the matches with one first and one last event, the first in order of completion is enough --

CHAINS = [
    "EVENT SEQ(A a, B b, C c) WITHIN 7",
    "EVENT SEQ(A a, B b, C c) WHERE [id] AND b.v >= a.v WITHIN 9",
    "EVENT SEQ(A a, B b, !D x, C c, B d) WHERE [id] AND c.v <> b.v WITHIN 12",
    "EVENT SEQ(!C x, A a, A b, A c) WHERE [id] WITHIN 8",
    "EVENT SEQ(OR(A a, D x), B b, OR(C c, B y)) WITHIN 6",
    "EVENT SEQ(A a, LAST B b, C c, A d) WHERE d.v >= b.v WITHIN 9",
]
SKIPS = ["PAST LAST EVENT", "TO NEXT EVENT", "TO FIRST b", "TO LAST b"]


def dense(random: Random, *, eids: bool, length: int = 1) -> list[Event]:
    """Many events of one tick, so that eids decide; `length`: up to so many ticks long."""
    found = []
    for number in range(random.randint(14, 30)):
        end = number // 2 + random.randint(0, 1)
        start = end - random.randint(0, length - 1)
        attrs = {"id": random.randint(0, 1), "v": random.randint(0, 3), "w": number}
        found.append(Event(random.choice("AABBCCD"), start, end, f"e{random.random()}" if eids else number, attrs))
    return sorted(found, key=lambda event: event.end)


@pytest.mark.parametrize("number", range(len(CHAINS)))
def test_matches_that_skip_would_drop_are_not_even_found(number: int) -> None:
    """With and without the loops that stop early the same is kept; that is what the oracle keeps."""
    kept = dropped = 0
    for at in range(examples(120, least=8)):
        random = Random(f"chain {number} {at}")
        query = parse(f"{CHAINS[number]} AFTER MATCH SKIP {SKIPS[(at + number) % len(SKIPS)]}")
        events = dense(random, eids=at % 2 == 0, length=random.choice((1, 1, 3)))
        bench = Bench(query, SCHEMA)
        found = bench.disagreement(events, PLAIN if is_long() else [PLAIN[0], *random.sample(PLAIN[1:], 1)])
        assert found is None, (number, at, str(query), events, found)
        mine, whole = matches(query, events), matches(replace(query, skip=None), events)
        kept, dropped = kept + len(mine), dropped + len(whole) - len(mine)
    assert kept and dropped


@pytest.mark.parametrize(("pattern", "stops"), [
    ("SEQ(A a, B b, C c)", "AFTER MATCH SKIP PAST LAST EVENT"), ("SEQ(A a, B b, C c)", "AFTER MATCH SKIP TO LAST b"),
    ("SEQ(OR(A a, D d), B b, C c)", "AFTER MATCH SKIP PAST LAST EVENT"),
    ("SEQ(A a, OR(B b, D d), C c)", None),  # a variable that is not bound comes first in order of completion
    ("SEQ(A a, B+ b, C c)", None), ("AND(A a, B b, C c)", None), ("SEQ(A a, B b)", None),
    ("SEQ(A a, B b, C c, !D d)", None), ("SEQ(A a, B? b, C c)", None),
])  # fmt: skip
def test_which_queries_stop_early(pattern: str, stops: str | None) -> None:
    (plan,) = plans_of([parse(f"EVENT {pattern} WITHIN 5 {stops or 'AFTER MATCH SKIP PAST LAST EVENT'}")], SCHEMA)
    chain = one_for_first(plan)
    assert (chain is not None) == (stops is not None)
    if chain is not None:
        assert plan.alternatives[0].nest == (chain[-1], *chain[:-1])
    (plain,) = plans_of([parse(f"EVENT {pattern} WITHIN 5")], SCHEMA)
    assert one_for_first(plain) is None


def peak(text: str, size: int) -> int:
    """Bytes at most while a stream is worked on that has so many events in a window."""
    random = Random(size)
    events = [{"type": random.choice("ABCD"), "time": time, "id": 1} for time in range(4 * size)]
    with tocsin.query(text.replace("$", str(size))).stream(jit=False, schema=KINDS) as session:
        session.push(events[:8])
        tracemalloc.start()
        try:
            found = len(session.push(events[8:])) + len(session.close())
            return tracemalloc.get_traced_memory()[1] if found else 0
        finally:
            tracemalloc.stop()


def test_memory_of_skip_and_first_is_linear_in_a_dense_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of n events has about (n / 4) ** 4 / 24 matches; with SKIP a few for each A are held at once."""
    every = "EVENT SEQ(A a, B b, C c, D d) WHERE [id] WITHIN $"
    first = "EVENT SEQ(A a, FIRST B b, FIRST C c, FIRST D d) WHERE [id] WITHIN $"
    monkeypatch.setattr(per_key, "FIRST_PIECE", 8)
    monkeypatch.setattr(per_key, "MANY", 64)
    assert peak(every, 48) > 5 * peak(every, 24)
    for text in (first, *(f"{every} AFTER MATCH SKIP {to}" for to in ("PAST LAST EVENT", "TO NEXT EVENT"))):
        small, large = peak(text, 40), peak(text, 160)
        assert 0 < large < 6 * small, (text, small, large)


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.jit)])
@pytest.mark.parametrize(
    "clause", ["AFTER MATCH SKIP PAST LAST EVENT", "LIMIT 2 PER [k] EVERY 30", "DISTINCT BY a.v EVERY 9"]
)
def test_the_order_of_matches_does_not_depend_on_how_rows_are_cut(clause, jit, monkeypatch):
    """Many keys at few times: how many rows are read at once follows the clock, and two runs gave two orders."""
    draw, count = Random(clause), 400
    table = pa.table(
        {
            "type": [draw.choice("AB") for _ in range(count)],
            "time": sorted(draw.randrange(60) for _ in range(count)),
            "k": [draw.randrange(12) for _ in range(count)],
            "v": [draw.randrange(9) for _ in range(count)],
        }
    )
    query = tocsin.query(f"EVENT SEQ(A a, B b) WHERE [k] WITHIN 9 {clause}")
    orders = set()
    for rows in (1, 7, 100, 1000):
        monkeypatch.setattr(pace, "ROWS_PER_CHUNK", rows)
        orders.add(tuple(match["match_id"] for match in query.detect(table, threads=1, jit=jit)))
    assert len(orders) == 1
