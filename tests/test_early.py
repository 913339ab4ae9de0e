"""EARLY: answers before an interval has ended, against the definition that tries every end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

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
        sides = random.choice((("start", "start"), ("start", "end"), ("end", "start"), ("end", "end"), ("start", "end")))
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
    return [
        {change for batch in step if batch.kind == "early" for change in batch.bindings()} for step in run.answers
    ]


@pytest.mark.parametrize("chunk", range(examples(30)))
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
        assert found == wanted, f"{text}\n{order} {longest}\n" + "\n".join(map(str, zip(items, wanted, found)))
