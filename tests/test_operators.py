"""The contract of operators: one verb, items of every kind, bad input; settled order, and a rule around a query."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import tocsin
from tests.effort import examples
from tocsin.codec import pack, unpack
from tocsin.constraint.tracker import Tracker
from tocsin.encode import Columns, Encoder, from_dicts
from tocsin.encode.merge import join
from tocsin.encode.stored import RowReader
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Detector
from tocsin.engine.kinds import ROW_KINDS
from tocsin.engine.operator import Counters, Operator
from tocsin.engine.runtime import UNLIMITED
from tocsin.engine.stream_time import StreamTime
from tocsin.errors import InputError, StateError, TocsinError
from tocsin.events import Event, eid_number
from tocsin.graph.query_graph import QueryGraph
from tocsin.graph.stages import Stages
from tocsin.graph.tap import Tap
from tocsin.items import EVERY, NO_SOURCE, Ints, ItemKind, Items, Strings, control, end, guarantee, tick
from tocsin.order.auto import Auto
from tocsin.order.begins import Begins
from tocsin.order.early import EarlyAnswers
from tocsin.order.lateness import Lateness
from tocsin.order.release import Release
from tocsin.order.settled import Settled
from tocsin.order.sort import Sort
from tocsin.order.strategy import parse_strategy
from tocsin.run.query import plans_of
from tocsin.schema import Field, Kind, Schema
from tocsin.select.over_matches import OverMatches
from tocsin.select.per_key import PerKey
from tocsin.select.rate_limit import RateLimit
from tocsin.spill.detector import Spilling
from tocsin.testing.oracle import matches

SCHEMA = Schema(common={"id": Field("id", Kind.INT), "v": Field("v", Kind.INT)}, open_types=True, open_fields=True)
QUERY = "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 8"
Row = dict[str, Any]

# --- the shape of operators ----------------------------------------------------------------------------------------

CONTRACT = {"push", "snapshot", "restore"}
MORE = {
    Lateness: {"admits"},  # the short way of an event that nobody reads
    Begins: {"guaranteed"},  # early answers ask it
    EarlyAnswers: {"debts", "eids"},
    Release: {"wait", "hold_only"},  # a changed rule takes over the answers that wait for their turn
    Spilling: {"close"},  # it owns files
    Tap: {"taken"},  # what later queries read
    Tracker: {
        "codes_of",
        "is_behind",
        "is_closed",
        "sift",
        "settle",  # `Monitored`, which it is a part of, asks it what the query need not see,
        "close",
        "say",
        "telling",  # ties are followed beside it, too,
        "quiets_down",
        "type_of",
        "quieted",  # and what traces have ruled out
        "are_ruled_out",
    },
    QueryGraph: {
        "encode",
        "guarantee",
        "announced",  # begins, and
        "begin_guarantee",  # that they are there
        "passes",
        "new_detectors",
        "nothing",
        "carry_over",
        "encode_whole",  # a finite input: what nobody reads is dropped first, and counted by
        "pass_over",
        "row_pieces",
        "forget_texts",  # between two files of a large input
    },  # what its hosts need to make items
}


ROOMS = ("constraint", "deriving", "engine", "graph", "order", "select", "spill", "staged")
PACKAGE = Path(tocsin.__file__).parent


def operators() -> Iterator[type]:
    """Every class with the three verbs, so that nobody can forget to list one."""
    for path in sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
        if any(f"def {verb}(" in path.read_text(encoding="utf-8") for verb in ("push", "_push", "memory")):
            module = import_module(".".join(("tocsin", *path.relative_to(PACKAGE).with_suffix("").parts)))
            classes = (kind for _, kind in inspect.getmembers(module, inspect.isclass))
            yield from (
                kind
                for kind in classes
                if kind.__module__ == module.__name__ and all(hasattr(kind, v) for v in CONTRACT)
            )


OPERATORS = [kind for kind in operators() if kind not in (Operator, OverMatches)]  # a protocol, and a base class


@pytest.mark.parametrize("kind", OPERATORS)
def test_operators_have_one_verb(kind: type) -> None:
    public = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    remembers = {"follow", "resume"} if hasattr(kind, "memory") else set()  # for hosts that replay a log
    assert public == CONTRACT | remembers | MORE.get(kind, set())
    assert "__getattr__" not in vars(kind)


def test_the_known_operators_are_found() -> None:
    assert len(OPERATORS) > 20
    assert {Detector, Sort, Settled, Release, Auto, Spilling, PerKey, Stages, QueryGraph, Tracker} <= set(OPERATORS)


def asked_classes(text: str) -> set[str]:
    """Names of classes that a module compares something with: `isinstance`, `type(x) is`, or a pattern of `match`."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            found += node.args[1:]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(_is_class_of(side) for side in sides):
                found += sides
        elif isinstance(node, ast.MatchClass):
            found.append(node.cls)
    inside = (each for one in found for each in ast.walk(one))
    return {each.id if isinstance(each, ast.Name) else each.attr for each in inside
            if isinstance(each, ast.Name | ast.Attribute)}  # fmt: skip


def _is_class_of(node: ast.expr) -> bool:
    by_type = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
    return by_type or (isinstance(node, ast.Attribute) and node.attr == "__class__")


def test_nobody_asks_an_operator_for_its_class() -> None:
    """What others need to know of it, they ask it: its detectors, what it remembers, what it works on."""
    names = {kind.__name__ for kind in (*OPERATORS, Operator, OverMatches)}
    sources = (path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "testing")
    asked = {path.relative_to(PACKAGE).as_posix(): asked_classes(path.read_text(encoding="utf-8")) for path in sources}
    assert {path: found & names for path, found in asked.items() if found & names} == {}


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(x, Detector)",
        "isinstance(\n    x.y(),\n    (int, detector.Detector),\n)",
        "isinstance(x, Sort | Detector)",
        "type(x) is Detector",
        "x.__class__ == Detector",
        "match x:\n    case Detector(plan=p):\n        pass",
    ],
)
def test_every_way_to_ask_for_a_class_is_seen(text: str) -> None:
    assert "Detector" in asked_classes(text)


@pytest.mark.parametrize("order", ["in-order", "slack(5)", "auto(5)", "conservative(5, ordered)"])
def test_every_operator_tells_its_detectors(order: str) -> None:
    made = graph(order, around=[RateLimit(1, 4, ("id",))] if order != "in-order" else ())
    assert made.detectors == made.stages[0].operator.detectors
    assert [detector.plan.name for detector in made.detectors] == [made.plans[0].name]
    assert made.detectors[0].detectors == made.detectors


def test_the_table_of_kinds_is_the_documented_one() -> None:
    page = (Path(__file__).parent.parent / "docs" / "semantics.md").read_text(encoding="utf-8")
    listed = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 8]
    yes = {True: "yes", False: "no"}
    rows = [
        f"| `{kind.name}` | {kind.says} | {kind.columns} | {kind.match_id or 'none'} | {yes[kind.retracts]} |"
        f" {yes[kind.feeds]} | {kind.since} |"
        for kind in ROW_KINDS
    ]
    assert listed == rows


# --- items of every kind -------------------------------------------------------------------------------------------


def graph(order: str, text: str = QUERY, around: Sequence[Any] = ()) -> QueryGraph:
    plans = plans_of(tocsin.query(text).queries, SCHEMA)
    return QueryGraph(plans, SCHEMA, Columns(eid="eid"), jit=False, order=parse_strategy(order, SCHEMA), around=around)


def rows(random: Random, count: int = 24, late: int = 5) -> list[Row]:
    """Events that come up to `late` ticks behind the clock."""
    made = [
        {"type": random.choice("ABBC"), "time": at // 2, "eid": f"e{at}", "id": random.randint(1, 2), "v": at}
        for at in range(count)
    ]
    return sorted(made, key=lambda row: row["time"] + random.randint(0, late)) if late else made


def net(said: Iterable[Changes]) -> Counter[tuple[Any, ...]]:
    total: Counter[tuple[Any, ...]] = Counter()
    for changes in said:
        for op, binding in changes.bindings():
            total[binding] += op
            assert total[binding] in (0, 1), binding
    return Counter({binding: count for binding, count in total.items() if count})


def expected(made: Iterable[Row]) -> set[Any]:
    events = [
        Event(row["type"], row["time"], row["time"], row["eid"], {"id": row["id"], "v": row["v"]}) for row in made
    ]
    return {match.binding for match in matches(tocsin.query(QUERY).queries[0], events)}


@pytest.mark.parametrize("order", ["in-order", "slack(5)", "conservative(5)", "conservative", "aggressive(5)"])
def test_a_mixed_batch_says_what_its_pieces_say(order: str) -> None:
    """Events, guarantees, a tick and the end in one batch, cut anywhere: the same matches, those of the oracle."""
    for seed in range(examples(80, least=3)):
        random = Random(f"mixed {seed}")
        made, whole, apart = rows(random, late=0 if order == "in-order" else 5), graph(order), graph(order)
        pieces = []
        for at in range(0, len(made), 5):
            pieces.append(apart.encode(from_dicts(made[at : at + 5])))
            later = min([row["time"] for row in made[at + 5 :]], default=40)
            pieces += [tick(max(row["time"] for row in made[: at + 5])), apart.guarantee(None, later - 1)]
        pieces.append(end())
        one = net([whole.push(join(pieces))])
        assert one == net([apart.push(piece) for piece in pieces])
        assert set(one) == expected(made)


def test_begins_and_gaps_are_taken_note_of() -> None:
    """They come with later queries; until then they change no answer, and are counted."""
    plain, told = graph("in-order"), graph("in-order")
    made = rows(Random(1), late=0)
    found = net([plain.push(plain.encode(from_dicts(made))), plain.push(end())])
    strange = [(ItemKind.BEGIN, 0, NO_SOURCE, 3, 2**62), (ItemKind.GAP, EVERY, NO_SOURCE, 2, 4)]
    strange.append((ItemKind.BEGIN_GUARANTEE, EVERY, NO_SOURCE, 0, 2))
    again = net([told.push(control(*strange)), told.push(told.encode(from_dicts(made))), told.push(end())])
    assert again == found
    counters = told.queries.inner[0].counters
    assert (counters.begins, counters.gaps) == (1, 1)


def test_a_lower_guarantee_is_counted_and_changes_nothing() -> None:
    made = graph("conservative")
    first = [
        {"type": "A", "time": 1, "eid": "a", "id": 1, "v": 0},
        {"type": "B", "time": 5, "eid": "b", "id": 1, "v": 0},
    ]
    made.push(made.encode(from_dicts(first)))
    assert len(made.push(made.guarantee("C", 3))) == 0
    assert len(made.push(made.guarantee("C", 2))) == 0
    assert made.intake.guarantees.backwards == 1 and made.intake.guarantees.settled == {"C": 3}
    assert len(made.push(made.guarantee("C", 4))) == 1


# --- bad input -----------------------------------------------------------------------------------------------------

BROKEN: dict[str, Callable[[Items], Items]] = {
    "end": lambda items: replace(items, end=items.end[:-1]),
    "start": lambda items: replace(items, start=items.start[1:]),
    "eid_low": lambda items: replace(items, eid_low=np.zeros(99, np.int64)),
    "kinds": lambda items: replace(items, kinds=np.zeros(1, np.int8)),
    "sources": lambda items: replace(items, sources=np.zeros(1, np.int32)),
    "values": lambda items: replace(
        items, columns={"id": replace(items.columns["id"], values=items.columns["id"].values[:-1])}
    ),
    "valid": lambda items: replace(items, columns={"id": replace(items.columns["id"], valid=np.ones(1, np.bool_))}),
    "kind": lambda items: replace(items, kinds=np.full(len(items), 99, np.int8)),
    "negative kind": lambda items: replace(items, kinds=np.full(len(items), -1, np.int8)),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("order", ["in-order", "slack(5)", "aggressive"])
def test_items_that_do_not_fit_together_are_refused_and_change_nothing(name: str, order: str) -> None:
    made, operator = rows(Random(2), late=0), graph(order)
    half = len(made) // 2
    said = [operator.push(operator.encode(from_dicts(made[:half])))]
    broken = BROKEN[name](operator.encode(from_dicts(made[half:])))
    with pytest.raises(InputError) as caught:
        operator.push(broken)
    assert caught.value.hint
    said += [operator.push(operator.encode(from_dicts(made[half:]))), operator.push(end())]
    assert set(net(said)) == expected(made)
    assert operator.counters.seen == len(made)


# --- settled order -------------------------------------------------------------------------------------------------


class Listing:
    """An operator that lists what it is given."""

    def __init__(self) -> None:
        self.events: list[tuple[int, int, str]] = []
        self.told: list[int] = []
        self.inner: tuple[Operator, ...] = ()
        self.detectors: tuple[Detector, ...] = ()

    def push(self, items: Items) -> Changes:
        if items.kinds is None:
            names = items.payload.column("eid").to_pylist()
            self.events += zip(items.end.tolist(), items.start.tolist(), names, strict=True)
        else:
            self.told += items.end.tolist()
        assert not self.told or all(event[0] > max(self.told) for event in self.events[self.seen :])
        self.seen = len(self.events)
        return Changes()

    seen = 0

    @property
    def counters(self) -> Counters:
        return Counters()

    @property
    def texts_in_use(self) -> Ints:
        return np.zeros(0, np.int64)

    def snapshot(self, since: int = 0) -> list[Any]:
        del since
        return []

    def restore(self, parts: Iterable[Any]) -> None:
        assert not list(parts)


@pytest.mark.parametrize("how", ["in order", "known delay", "guarantees"])
@pytest.mark.parametrize("restarts", [False, True])
def test_events_leave_in_canonical_order_once_they_are_settled(how: str, restarts: bool) -> None:
    types, strings = ("A", "B", "C"), Strings()
    for seed in range(examples(80, least=3)):
        random = Random(f"settled {seed}")
        made = rows(random, late=0 if how == "in order" else 5)
        slack = {"in order": 0, "known delay": 6, "guarantees": UNLIMITED}[how]
        encoder = Encoder(SCHEMA, types, strings, Columns(eid="eid"))
        reader = RowReader(SCHEMA, types, strings, Strings(), ("id", "v"))
        listing = Listing()

        def new(listing: Listing = listing, slack: int = slack, reader: RowReader = reader) -> Settled:
            time = StreamTime(types, how == "in order", slack, frozenset(), immediate=False, mine=types)
            return Settled(listing, time, reader)

        settled = new()
        for at, row in enumerate([*made, *made[::3]]):  # some come twice
            if restarts:
                again = new()
                again.restore(unpack(pack(settled.snapshot())))
                settled = again
            if at < len(made):
                settled.push(encoder.encode(from_dicts([row])))
                if how != "in order" and random.random() < 0.3:
                    settled.push(encoder.encode(from_dicts([row])))
            if how == "guarantees" and at < len(made):
                later = min([other["time"] for other in made[at + 1 :]], default=40)
                settled.push(guarantee(later - 1))
        before = len(listing.events)
        settled.push(end())
        assert before > len(made) // 3
        assert listing.events == sorted((row["time"], row["time"], row["eid"]) for row in made)


# --- a rule around a query -----------------------------------------------------------------------------------------

LIMIT = RateLimit(2, 6, key=("id",))


def limited(made: Sequence[Row]) -> list[Any]:
    """What a rate limit leaves of the matches, written down directly: by key, in order of completion."""
    ids, ends = {row["eid"]: row["id"] for row in made}, {row["eid"]: row["time"] for row in made}
    asked = tocsin.query(QUERY).detect(made, eid="eid", jit=False, schema={"*": {"id": "int", "v": "int"}})
    order = sorted(asked, key=lambda match: [canonical(match[name]) for name in "ba"])  # the last event, then the first
    kept: list[Any] = []
    for match in order:
        key = ids[match["a"]["eid"]]
        recent = [
            other for other in kept if ids[other["a"]["eid"]] == key and other["end"] > match["end"] - LIMIT.within
        ]
        if len(recent) < LIMIT.most:
            kept.append(match)
    assert all(ends[match["b"]["eid"]] == match["end"] for match in kept)
    return sorted(match["match_id"] for match in kept)


def canonical(event: Row) -> tuple[Any, ...]:
    return event["end"], event["start"], *eid_number(event["eid"])


def standing(said: Iterable[Changes]) -> list[str]:
    total: Counter[str] = Counter()
    for changes in said:
        for batch in changes:
            for name, op in zip(batch.match_id.to_pylist(), batch.op.tolist(), strict=True):
                total[name] += op
                assert total[name] in (0, 1)
    return sorted(total.elements())


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "order", ["in-order", "slack(5)", "conservative(5)", "aggressive(5)", "aggressive", "hybrid(C=conservative, 5)"]
)
def test_a_rate_limit_keeps_the_same_matches_in_every_order_and_over_restarts(order: str, restarts: bool) -> None:
    total = cut = 0
    for seed in range(examples(100, least=3)):
        made = rows(Random(f"limit {seed}"), count=40, late=0 if order == "in-order" else 5)
        operator, said = graph(order, around=[LIMIT]), []
        for at in range(0, len(made), 3):
            if restarts:
                again = graph(order, around=[LIMIT])
                again.restore(unpack(pack(operator.snapshot())))
                operator = again
            said.append(operator.push(operator.encode(from_dicts(made[at : at + 3]))))
            if "aggressive" not in order and "hybrid" not in order:
                assert all((batch.op > 0).all() for batch in said[-1]), "a settled answer is never retracted"
        said.append(operator.push(end()))
        found = standing(said)
        assert found == limited(made), made
        total, cut = total + len(found), cut + len(expected(made)) - len(found)
        assert operator.counters.matches - operator.counters.retracted == len(found)
    assert total > 12 and cut > 3


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("order", ["in-order", "slack(5)", "conservative(5)", "aggressive(5)"])
def test_later_queries_read_what_a_limit_does_not_report(order: str, restarts: bool) -> None:
    """Both queries report under the limit; the second one reads all matches of the first, as if it were hidden."""
    later = "QUERY Two EVENT SEQ(P p, P q) WHERE [id] WITHIN 9"
    reports, hidden = (f"QUERY P {word} {QUERY} SELECT a.id AS id; {later}" for word in ("", "HIDDEN"))
    cut = 0
    for seed in range(examples(40, least=3)):
        made = rows(Random(f"tap {seed}"), count=40, late=0 if order == "in-order" else 5)
        found = []
        for text in (reports, hidden):
            operator, said = graph(order, text, around=[LIMIT]), []
            for at in range(0, len(made), 3):
                if restarts:
                    again = graph(order, text, around=[LIMIT])
                    again.restore(unpack(pack(operator.snapshot())))
                    operator = again
                said.append(operator.push(operator.encode(from_dicts(made[at : at + 3]))))
            said.append(operator.push(end()))
            found.append([standing([of_stage(each, number) for each in said]) for number in (0, 1)])
        assert found[0][1] == found[1][1]
        assert found[0][0] == limited(made)
        cut += len(found[1][0]) - len(found[0][0])
    assert cut > 0


def of_stage(changes: Changes, number: int) -> Changes:
    return Changes([batch for batch in changes if batch.stage == number])


def test_a_rate_limit_forgets_keys() -> None:
    operator = graph("in-order", around=[LIMIT])
    for at in range(0, 8000, 8):
        pair = [
            {"type": kind, "time": at + step, "eid": f"{kind}{at}", "id": at, "v": 0} for step, kind in enumerate("AB")
        ]
        operator.push(operator.encode(from_dicts(pair)))
    [limit] = operator.remembering
    assert len(limit._choice._keys.keys) < 200  # type: ignore[attr-defined]


def test_a_state_without_the_limit_is_refused() -> None:
    plain, with_limit = graph("in-order"), graph("in-order", around=[LIMIT])
    plain.push(plain.encode(from_dicts(rows(Random(3), late=0))))
    with pytest.raises(StateError, match="saved under"):
        with_limit.restore(plain.snapshot())
    assert with_limit.counters.seen == 0


@pytest.mark.parametrize(
    "limit", [RateLimit(0, 5, ("id",)), RateLimit(1, 0, ("id",)), RateLimit(1, 5, ("v",)), RateLimit(1, 5, ())]
)
def test_a_limit_that_does_not_fit_is_refused(limit: RateLimit) -> None:
    with pytest.raises(TocsinError, match="does not fit") as caught:
        graph("in-order", around=[limit])
    assert caught.value.hint


def test_time_passes_for_a_limit_with_events_that_nobody_reads() -> None:
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE [id] WITHIN 9").around(LIMIT).stream(jit=False)
    said = [len(session.push({"type": kind, "time": time, "id": 1})) for time, kind in enumerate("AABZZ")]
    assert said == [0, 0, 0, 2, 0]  # the B is settled when the clock has passed it


def test_the_public_way() -> None:
    made = rows(Random(4), count=60, late=0)
    query = tocsin.query(QUERY).around(LIMIT)
    found = query.detect(made, eid="eid", jit=False)
    assert sorted(match["match_id"] for match in found) == limited(made)
    with query.stream(eid="eid", jit=False) as session:
        live = [match["match_id"] for row in made for match in session.push(row)]
    live += [match["match_id"] for match in session.close()] if not session._closed else []
    assert set(live) <= set(limited(made))
