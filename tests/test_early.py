"""EARLY: answers before an interval has ended, against the definition that tries every end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

import tocsin
from tests.effort import examples
from tests.test_begins import without_bad
from tocsin.errors import QueryError, TocsinError
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.lang.syntax import ALLEN
from tocsin.plan.bind import bind
from tocsin.testing.early import early
from tocsin.testing.harness import OPEN, Harness, Running
from tocsin.testing.notation import Begin, Item, Promise
from tocsin.testing.strategies import SCHEMA

LONGEST = {"A": 4, "H": 3}
CONDITIONS = (
    "a.id = h.id", "[id]", "end(h) - start(h) > 2", "end(h) < start(a) + 4 OR start(h) > end(a)", "NOT a OVERLAPS h",
    "end(h) - start(a) <> 3", "a DURING h OR h BEFORE a OR a.id = 1", "h.v = 0", "h.id = 0", "end(h) - end(a) >= a.id",
)  # fmt: skip


def drawn_query(random: Random) -> str:
    """A pattern over two or three events of which some may be open, with conditions over their ends."""
    comparisons = []
    for _ in range(random.choice((1, 1, 2))):
        one, other = random.sample("ah", 2)
        sides = random.choice(
            (("start", "start"), ("start", "end"), ("end", "start"), ("end", "end"), ("start", "end"))
        )
        comparisons.append(f"{sides[0]}({one}) {random.choice(('<', '<=', '<', '='))} {sides[1]}({other})")
    related = ", ".join(random.sample(ALLEN, random.choice((1, 5, 8, 11))))
    base = random.choice((f"ISEQ[{', '.join(comparisons)}](A a, H h)", f"REL[{related}](A a, H h)"))
    pattern = random.choice(
        (base, base, base, "SEQ(A a, H h)", "AND(A a, H h)", f"AND({base}, H k)", "SEQ(A a, !B b, H h)",
         "AND(A a, H h, !B b)", "SEQ(!B b, A a, H h)", "OR(SEQ(A a, H h), SEQ(B b, H h))")
    )  # fmt: skip
    chosen = random.sample(CONDITIONS, random.choice((0, 0, 0, 1, 2))) if "OR(" not in pattern else []
    where = f" WHERE {' AND '.join(f'({each})' if each[0] != '[' else each for each in chosen)}" if chosen else ""
    return f"EVENT {pattern}{where} WITHIN {random.randint(2, 5)} EARLY"


def drawn_items(random: Random) -> list[Item]:
    """Events about in order of time, most of them announced; some begins say more, or the wrong, or nothing follows."""
    timed: list[tuple[float, Item]] = []
    for number in range(random.randint(2, 4)):
        type, start = random.choice("AAHHHB"), random.randint(0, 5)
        attrs = {"id": random.choice((0, 0, 0, 1)), "v": 0}
        event = Event(type, start, start + random.choice((0, 1, 2, 3, 5)), f"e{number}", attrs)
        said = {"id": attrs["id"] if random.random() < 0.9 else 1 - attrs["id"]} | ({"v": 0} if number % 2 else {})
        begin = Begin(type, start + (random.random() < 0.1), f"e{number}", said)
        late = random.choice((0, 0, 0, 0, 1, 3))
        if random.random() < 0.85:
            timed.append((start + late - 0.4, begin))
        if random.random() < 0.9:
            timed.append((event.end + random.choice((0, 0, 0, 1, 2)), event))
    items = [item for _, item in sorted(timed, key=lambda pair: pair[0])]
    for _ in range(random.randint(0, 3)):
        at = random.randint(0, len(items))
        type = random.choice([None, "A", "B", "H"])
        mine = [item for item in items[at:] if isinstance(item, Event) and type in (None, item.type)]
        items.insert(at, Promise(type, min((event.end for event in mine), default=9) - 1, None))
    return items


def in_order(items: list[Item]) -> list[Item]:
    """The items as a stream in order has them: no event behind the clock."""
    kept, clock = list[Item](), -1
    for item in sorted(items, key=lambda each: getattr(each, "end", getattr(each, "start", 99))):
        if isinstance(item, Promise):
            continue
        kept.append(item)
        clock = max(clock, getattr(item, "end", clock))
    return kept


def told_by(run: Running) -> list[set[tuple[int, object]]]:
    """What the engine told early, item by item."""
    return [{change for batch in step if batch.kind == "early" for change in batch.bindings()} for step in run.answers]


@pytest.mark.parametrize("chunk", range(examples(30, least=5)))
def test_early_answers_are_those_of_the_definition(chunk: int) -> None:
    for number in range(4):
        random = Random(f"early {chunk} {number}")
        text, longest = drawn_query(random), LONGEST if random.random() < 0.3 else {}
        query, schema = parse(text), replace(SCHEMA, longest=longest)
        try:
            bind(query, schema)
        except TocsinError:
            continue
        items = without_bad(drawn_items(random), longest)
        order = random.choice(("aggressive", "conservative", "in-order"))
        if order == "in-order":
            items = without_bad(in_order(items), longest)
        told = early(
            query, items, held=() if order == "aggressive" else None, delay=0 if order == "in-order" else None,
            longest=longest,
        )  # fmt: skip
        run = Harness(query, schema).start(order)
        for item in items:
            run.feed([item])
            if number % 2:
                run.restart()
        run.end()
        found = told_by(run)
        wanted = [{(each.op, each.binding) for each in told if each.at == at} for at in range(len(items) + 1)]
        assert found == wanted, f"{text}\n{order} {longest}\n" + "\n".join(
            map(str, zip(items, wanted, found, strict=False))
        )


@pytest.mark.parametrize("chunk", range(examples(30, least=5)))
def test_early_answers_do_not_depend_on_cuts_and_restarts(chunk: int) -> None:
    for number in range(8):
        random = Random(f"cuts {chunk} {number}")
        text = drawn_query(random)
        try:
            harness = Harness(text, SCHEMA)
            _ = harness.plan
        except TocsinError:
            continue
        items = without_bad(drawn_items(random), {})
        one, other = harness.start("aggressive"), harness.start("aggressive")
        for item in items:
            one.feed([item])
        at = 0
        while at < len(items):
            size = random.randint(1, 4)
            other.feed(items[at : at + size], batch=3)
            other.restart()
            at += size
        found = []
        for run in (one, other):
            run.end()
            batches = [batch for step in run.answers for batch in step if batch.kind == "early"]
            found.append(sorted(repr(change) for batch in batches for change in batch.bindings()))
        assert found[0] == found[1], f"{text}\n{items}"


def live(order: str = "conservative", select: str = "", window: str = "10 min") -> tocsin.Session:
    text = f"EVENT ISEQ[start(a) < start(h)](A a, H h) WHERE [id] WITHIN {window} EARLY {select}"
    return tocsin.query(text).stream(order=order, jit=False)


def test_a_session_shows_early_answers_and_what_they_owe() -> None:
    session = live()
    at = datetime(2026, 3, 1, 9, tzinfo=UTC)
    minute = timedelta(minutes=1)
    assert len(session.push({"type": "A", "start": at, "end": at, "eid": "a", "id": 1})) == 0
    [row] = session.announce({"type": "H", "start": at + minute, "eid": "h", "id": 1})
    assert (row["kind"], row["op"], row["start"], row["end"]) == ("early", 1, at, None)
    assert row["h"] == {"eid": "h", "type": "H", "start": at + minute, "end": None, "id": 1}
    [owed] = [debt for debt in session.debts() if "open" in debt]
    assert owed["open"] == ["h"]
    assert owed["events"] == ["a", "h"]
    assert owed["missing"] == {"H": at + 10 * minute}
    [match] = session.push({"type": "H", "start": at + minute, "end": at + 5 * minute, "eid": "h", "id": 1})
    assert (match["kind"], match["match_id"]) == ("match", row["match_id"])
    assert session.debts() == []
    assert len(session.close()) == 0


def test_select_of_an_early_answer_knows_no_end() -> None:
    session = live("aggressive", "SELECT a.id AS id, end(h) - start(h) AS lasts, start(h) AS since", "10")
    session.push({"type": "A", "start": 1, "end": 1, "eid": "a", "id": 1})
    [row] = session.announce({"type": "H", "start": 2, "eid": "h", "id": 1})
    assert (row["id"], row["lasts"], row["since"]) == (1, None, 2)


def test_later_queries_do_not_read_early_answers() -> None:
    text = "QUERY x EVENT ISEQ[start(a) < start(h)](A a, H h) WITHIN 9 EARLY; EVENT SEQ(x x, C c)"
    run = Harness(text).start("aggressive").feed("a1 h[2, c9 h[2,4]")
    assert [change for step in run.steps for change in step] == [(1, (("x", (run_match(run),)), ("c", ("c9",))))]


def run_match(run: Running) -> str:
    [found] = [batch for step in run.log for batch in step if batch.stage == 0 and batch.kind == "match"]
    return str(found.match_id[0])


def test_many_open_intervals_stay_bounded() -> None:
    """In a long stream events that no binding can hold are forgotten."""
    run = Harness("EVENT ISEQ[start(a) < start(h)](A a, H h) WITHIN 5 EARLY").start("in-order")
    operator = run.graph.early
    assert operator is not None
    for at in range(examples(700, least=300)):
        run.begin(Begin("H", 2 * at, f"h{at}"))
        run.push([Event("A", 2 * at, 2 * at, f"a{at}"), Event("H", 2 * at, 2 * at + 1, f"h{at}")])
    assert max(len(watch.events) for watch in operator.watches) < 200
    run.end()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EVENT SEQ(A a, H+ h) WITHIN 5 EARLY", "repetitions"),
        ("EVENT SEQ(A a, FIRST H h) WITHIN 5 EARLY", "marks"),
        ("EVENT SEQ(A a, H h) WITHIN 5 TIMEOUT EARLY", "TIMEOUT"),
        ("EVENT SEQ(A a, H h) WITHIN 5 EARLY LIMIT 3", "LIMIT"),
        ("EVENT SEQ(A a, H h) WITHIN 5 EARLY SELECT count(*)", "count"),
    ],
)
def test_what_does_not_go_with_early_is_refused_with_a_hint(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        bind(parse(text), OPEN)
    assert all(problem.hint for problem in caught.value.problems)


def test_early_is_written_in_python_and_printed() -> None:
    built = tocsin.seq(tocsin.event("A", "a"), tocsin.event("H", "h")).within(5, early=True)
    assert str(built) == "EVENT SEQ(A a, H h)\nWITHIN 5 EARLY"
    assert parse(str(built)) == built.query
    with pytest.raises(QueryError, match="EARLY without WITHIN"):
        bind(replace(built.query, within=None), OPEN)
