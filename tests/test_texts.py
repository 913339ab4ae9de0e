"""Texts are forgotten: a code goes to another text only when nobody can ask about the old one any more.

Names in these streams come and go, as those of orders or sessions do, and texts are forgotten after every push. So
every code is given away as early as it can be: if anybody still used it, answers would differ from the oracle's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tocsin.errors import TocsinWarning
from tocsin.events import Event
from tocsin.graph import texts
from tocsin.items import Strings
from tocsin.lang.parser import parse_all
from tocsin.run.session import Session
from tocsin.testing.disorder import disordered, smallest_sufficient_slack
from tocsin.testing.notation import Promise, events_of
from tocsin.testing.oracle import Binding, matches_of_all

pytestmark = pytest.mark.filterwarnings("ignore:the memory limit")

SCHEMA = {"*": {"k": "text", "n": "text", "v": "int"}}
QUERIES = {
    "a key": "EVENT SEQ(A a, B b) WHERE [k] WITHIN 4",
    "a key of two texts": "EVENT SEQ(A a, !C c, B b) WHERE [k, n] WITHIN 6",
    "a key of a text and a number": "EVENT SEQ(A a, B b) WHERE [k, v] WITHIN 6",
    "what must not follow": "EVENT SEQ(A a, B b, !C c) WHERE [k] WITHIN 5",
    "what must not come before": "EVENT SEQ(!C c, A a, B b) WHERE [k] WITHIN 5",
    "repetition": "EVENT SEQ(A a, B+ b, C c) WHERE [k] AND count(b) > 1 WITHIN 6",
    "equal texts": "EVENT SEQ(A a, B b) WHERE a.k = b.n WITHIN 5",
    "other texts": "EVENT AND(A a, B b) WHERE a.k <> b.k WITHIN 2",
    "the order of texts": "EVENT SEQ(A a, B b) WHERE [k] AND a.n < b.n WITHIN 6",
    "the order of texts, no key": "EVENT SEQ(A a, !C c, B b) WHERE a.n <= b.n AND c.n > b.n WITHIN 3",
    "literals": "EVENT SEQ(A a, B b) WHERE [k] AND (a.n = 'n1' OR b.n IN ('n2', 'never')) WITHIN 6",
    "computed texts": "EVENT SEQ(A a, B b) WHERE concat(a.k, a.n) = concat(b.k, b.n) WITHIN 6",
    "texts of both": "EVENT SEQ(A a, B b) WHERE [k] AND upper(concat(a.n, b.n)) < 'N2N' WITHIN 6",
    "nulls": "EVENT SEQ(A a, B b) WHERE (a.n IS NULL OR a.n = b.n) AND a.k = b.k WITHIN 6",
    "alternatives": "EVENT OR(SEQ(A a, B b), SEQ(A a, C c)) WHERE [k] WITHIN 5",
    "hidden events": "EVENT EXISTS c : SEQ(A a, C c, B b) WHERE [k] WITHIN 5",
    "no window": "EVENT SEQ(A a, B b) WHERE [k]",
    "chained": """
        QUERY Pair HIDDEN EVENT SEQ(A a, B b) WHERE [k] WITHIN 4 SELECT a.k AS k, b.n AS n;
        EVENT SEQ(Pair p, !C c, A x) WHERE p.k = x.k AND c.k = p.k WITHIN 8
    """,
    "chained twice": """
        QUERY Pair HIDDEN EVENT SEQ(A a, !C c, B b) WHERE [k] WITHIN 4 SELECT a.k AS k, a.n AS n;
        QUERY Two HIDDEN EVENT SEQ(Pair p, Pair q) WHERE p.n < q.n WITHIN 6 SELECT p.k AS k, q.k AS n;
        EVENT SEQ(Two t, C c) WHERE t.k <> c.k WITHIN 9
    """,
}
ORDERS = (
    "in-order",
    "slack({late})",
    "slack(1000 events)",
    "conservative({late})",
    "conservative({late}, ordered)",
    "aggressive({late})",
    "aggressive",
    "hybrid(C=conservative, {late})",
    "auto({late})",
)


@dataclass(frozen=True)
class Way:
    """How events are given: so many at once (1: as a dict), as dictionaries, in a small memory, with restarts."""

    batch: int = 1
    coded: bool = False
    memory: int | None = None
    restarts: float = 0.0
    jit: bool = False


WAYS = (Way(), Way(3), Way(5, coded=True), Way(restarts=0.1), Way(2, memory=600), Way(memory=2000, restarts=0.05))


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are forgotten after every push that brings new ones."""
    monkeypatch.setattr(texts, "patience", lambda kept, codes: -1)


def drawn(random: Random, count: int) -> list[Event]:
    """Events whose keys come, stay for a few ticks, and never come again; a name may be null."""
    found = []
    for number in range(count):
        time = number // 2
        attrs: dict[str, Any] = {"k": f"k{(time + random.randint(0, 4)) // 3}", "v": random.randint(0, 1)}
        if random.random() < 0.9:
            attrs["n"] = f"n{random.randint(0, 3)}" if random.random() < 0.7 else f"m{time}"
        found.append(Event(random.choice("AABBC"), time, time, f"e{number}", attrs))
    return found


def said(session: Session, items: Sequence[Any], way: Way, reopen: Any, random: Random) -> Iterator[dict[str, Any]]:
    """Every change, as rows."""
    waiting: list[dict[str, Any]] = []
    for item in [*items, None]:
        if len(waiting) == way.batch or (waiting and not isinstance(item, Event)):
            yield from session.push(given(waiting, way))
            waiting = []
        if random.random() < way.restarts:
            session = reopen(session.save())
        if isinstance(item, Promise):
            yield from session.promise(item.type, item.time)
        elif item is not None:
            waiting.append({"type": item.type, "time": item.end, "eid": item.eid, **item.attrs})
    yield from session.close()


def given(rows: list[dict[str, Any]], way: Way) -> Any:
    if len(rows) == 1 and not way.coded:
        return rows[0]
    table = pa.Table.from_pylist(rows, pa.schema([(name, pa.int64() if name in ("time", "v") else pa.string())
                                                  for name in ("type", "time", "eid", "k", "n", "v")]))  # fmt: skip
    if way.coded:
        for name in ("k", "n"):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, table[name].dictionary_encode())
    return table


def binding(row: dict[str, Any]) -> Binding:
    """The variables of a change with the eids of their events."""
    bound = {name: row[name] if isinstance(row[name], list) else [row[name]] for name in "abc" if name in row}
    eids = {name: tuple(each["eid"] for each in events if each is not None) for name, events in bound.items()}
    return tuple(sorted((name, found) for name, found in eids.items() if found))


def check(name: str, seed: int, order: str, way: Way, count: int = 50) -> None:
    """The net answer is the oracle's, and nothing is counted but 0 or 1 times on the way."""
    random = Random(f"{name} {seed}")
    events = drawn(random, count)
    items: Sequence[Any] = events
    if order != "in-order":
        items = disordered(events, random, most=random.choice((2, 5)), promises=0.2)
    late = smallest_sufficient_slack(items)
    query, queries = tocsin.query(QUERIES[name], schema=SCHEMA), parse_all(QUERIES[name])

    def opened(state: bytes | None = None) -> Session:
        return query.stream(
            order=order.format(late=late), eid="eid", jit=way.jit, endless=False, memory_limit=way.memory, state=state
        )

    told = f"{name}, {order}, {way}, seed {seed}"
    net, rows = Counter[str](), {}
    for row in said(opened(), items, way, opened, random):
        id, rows[row["match_id"]] = row["match_id"], row
        net[id] += row["op"]
        assert net[id] in (0, 1), f"{told}: {row} is counted {net[id]} times"
    expected = list(matches_of_all(queries, events_of(items)).values())[-1]
    standing = [rows[id] for id in +net]
    if len(queries) > 1:  # the oracle has other eids for matches
        assert sorted((row["start"], row["end"]) for row in standing) == sorted((m.start, m.end) for m in expected), (
            told
        )
    else:
        assert sorted(map(binding, standing)) == sorted(tuple(sorted(match.binding)) for match in expected), told


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("name", QUERIES)
def test_answers_stay_the_oracles_when_texts_are_forgotten_at_once(name: str) -> None:
    for seed in range(examples(40, least=4)):
        order, way = ORDERS[seed % len(ORDERS)], WAYS[(seed // 2) % len(WAYS)]
        if way.memory is not None and order == "auto({late})":
            way = WAYS[0]
        check(name, seed, order, way)


@pytest.mark.jit
@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize(
    ("name", "orders"),
    [
        ("the order of texts", ("in-order", "aggressive({late})")),
        pytest.param("what must not follow", ("in-order", "conservative({late})"), marks=pytest.mark.long),
        pytest.param("a key of two texts", ("in-order", "aggressive({late})"), marks=pytest.mark.long),
        pytest.param("chained", ("in-order", "conservative({late})"), marks=pytest.mark.long),
    ],
)
def test_compiled_kernels_agree_too(name: str, orders: tuple[str, ...]) -> None:
    """There small codes are keys without a table."""
    for seed, order in enumerate(orders):
        check(name, seed, order, Way(batch=1 + seed, jit=True), count=120)


KEPT = {
    "in-order": "EVENT SEQ(A a, !C c, B b) WHERE [k] AND a.n <> b.n WITHIN 6",
    "conservative(3)": "EVENT SEQ(A a, B b, !C c) WHERE [k] AND a.n <> b.n WITHIN 3",
    "aggressive(3)": "EVENT SEQ(A a, !C c, B b) WHERE [k, n] WITHIN 3",
    "slack(4)": "EVENT SEQ(A a, !C c, B b) WHERE a.n = b.n WITHIN 2",
    "auto(3)": "EVENT SEQ(A a, !C c, B b) WHERE [k] WITHIN 3",
}


def strings_of(session: Session) -> Strings:
    assert session._graph is not None
    return session._graph.strings


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=[pytest.mark.jit, pytest.mark.long])])
@pytest.mark.parametrize("order", KEPT)
def test_of_thousands_of_texts_those_of_live_events_are_kept(order: str, jit: bool) -> None:
    """10,000 names, and about six live events at a time: memory is for one look's worth of texts, not for all."""
    session = tocsin.query(KEPT[order], schema=SCHEMA).stream(order=order, jit=jit)
    most = 0
    for number in range(5000):
        session.push({"type": "ABC"[number % 3], "time": number, "k": f"key {number}", "n": f"name {number}"})
        most = max(most, len(strings_of(session)))
    assert session.counters["events"] == 5000
    assert texts.FEW <= most <= 2 * texts.FEW + 100
    assert len(strings_of(session).texts) <= 2 * texts.FEW + 100


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("order", KEPT)
def test_at_once_only_the_texts_of_live_events_are_left(order: str) -> None:
    session = tocsin.query(KEPT[order], schema=SCHEMA).stream(order=order, jit=False)
    for number in range(600):
        session.push({"type": "ABC"[number % 3], "time": number, "k": f"key {number}", "n": f"name {number}"})
        if order in ("in-order", "slack(4)"):  # otherwise events go when a sweep is worth its time
            assert len(strings_of(session)) <= 2 * 8
    assert len(strings_of(session)) <= 2 * 150


def test_a_dictionary_that_batches_share_is_read_once() -> None:
    """While it is most of what is known, forgetting its texts would only mean reading them again."""
    count = 5 * texts.FEW
    table = pa.table({
        "type": ["A", "B"] * (count // 2), "time": range(count),
        "k": pa.array([f"k{at}" for at in range(count)]).dictionary_encode(),
    })  # fmt: skip
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 5", schema=SCHEMA).stream(jit=False)
    for batch in table.to_batches(max_chunksize=100):
        session.push(batch)
    assert strings_of(session).added == count
    for number in range(2 * count):
        session.push({"type": "A", "time": count + number, "k": f"other {number}"})
    assert len(strings_of(session)) <= count  # another stream: the dictionary went with all that is old


@pytest.mark.usefixtures("forgetful")
def test_an_event_behind_a_promise_does_not_meet_old_ones_of_a_text_that_had_its_code() -> None:
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 5", schema=SCHEMA).stream(
        order="aggressive(broken=accept)", jit=False
    )
    for time, text in ((0, "first"), (1, "old"), (200, "live")):
        session.push({"type": "A", "time": time, "k": text})
    session.promise(None, 100)
    assert strings_of(session).texts[1:] == [None, "live"]
    with pytest.warns(TocsinWarning, match="behind what was promised"):
        found = list(session.push({"type": "B", "time": 3, "k": "new"}))
    assert found == []


# --- the dictionary itself -----------------------------------------------------------------------------------------


def test_codes_are_used_again_from_the_smallest() -> None:
    strings = Strings()
    codes = [strings.code(text) for text in "abcdef"]
    strings.keep_only(np.array([codes[1], codes[3], -1, 999, 2**62]))
    assert [strings.text(code) for code in (1, 3)] == ["b", "d"]
    assert len(strings) == 2 and len(strings.texts) == 4
    assert [strings.code(text) for text in "bxdyz"] == [1, 0, 3, 2, 4]
    assert strings.code(None) == -1


def test_a_text_that_is_forgotten_twice_is_no_problem() -> None:
    strings = Strings()
    strings.code("a")
    strings.keep_only([])
    strings.keep_only([])
    assert len(strings) == len(strings.texts) == 0
    assert [strings.code("b"), strings.code("a")] == [0, 1]
