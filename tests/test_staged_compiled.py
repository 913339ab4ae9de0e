"""Statements as one function over words: the same as the machine in plain Python, and as the definition."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from itertools import groupby
from random import Random
from typing import Any

import numpy as np
import pytest

import tocsin
from tests.effort import examples
from tests.test_staged import LASTING, SCHEMA, agrees, machine_rows, row_of, rows_of, streamed
from tocsin.events import Event
from tocsin.items import Column, Items, Strings
from tocsin.lang.parser import parse_file
from tocsin.lang.staged_syntax import Statement
from tocsin.plan.staged_places import StatementPlaces
from tocsin.run.declared import declare
from tocsin.run.query import Query
from tocsin.schema import Field, Kind
from tocsin.staged.compiled import answers, bodies, choice, library, saved
from tocsin.staged.compiled.core import Core
from tocsin.staged.compiled.layout import NotCompiledError
from tocsin.staged.compiled.program import StageFunction, program_of
from tocsin.testing.draw_staged import drawn_history, drawn_statement, drawn_statements
from tocsin.testing.staged_oracle import Advance, staged_events

WHOLE = {name: Field(name, Kind.INT) for name in "kxy"}


def function_of(statement: Statement) -> tuple[StageFunction, list[Kind]]:
    (plan,) = Query((statement,), declare(SCHEMA, longest=LASTING)).plans()
    assert plan.staged is not None
    kinds = [output.expr.kind for output in plan.outputs]
    fields = {attr: WHOLE[attr] for attr in plan.staged.attrs if attr in WHOLE}
    return program_of(statement, fields, None, kinds, LASTING), kinds


def words_of(core: Core, events: list[Event]) -> Any:
    """Events of one stage as words."""
    columns = {}
    for attr in "kxy":
        given = [event.attrs.get(attr) for event in events]
        valid = np.array([value is not None for value in given])
        columns[attr] = Column(Kind.INT, np.array([value or 0 for value in given], np.int64), valid)
    start, end = (np.array([getattr(event, name) for event in events], np.int64) for name in ("start", "end"))
    none: Any = None
    items = Items(np.zeros(len(events), np.int32), start, end, None, None, columns, none)
    words = core.words_of(items, np.array([core.layout.types.index(event.type) for event in events]))
    assert words is not None
    return words


def shown(core: Core, rows: Any, kinds: list[Kind]) -> list[tuple[int, int, tuple[Any, ...]]]:
    rows = rows if core.is_sorted else answers.in_order(rows, core.layout, kinds, core.strings)
    columns = [answers.column(rows, core.layout, at, kind, core.strings).to_pylist() for at, kind in enumerate(kinds)]
    values = list(zip(*columns, strict=True)) if columns else [()] * len(rows)
    return [(int(row[0]), int(row[1]), each) for row, each in zip(rows, values, strict=True)]


def function_rows(statement: Statement, items: list[Any], *, restarts: bool) -> list[tuple[int, int, tuple[Any, ...]]]:
    """What the function finds, as text that Python runs; with a restart after every stage if asked."""
    program, kinds = function_of(statement)
    body, strings, found = bodies.plain(program.source), Strings(), []
    core, types = Core(program, body, strings), StatementPlaces(statement).types
    for time, group in groupby(items, key=lambda item: item.time if isinstance(item, Advance) else item.end):
        events = [each for each in group if isinstance(each, Event) and each.type in types]
        if core.created is not None:
            found += shown(core, core.advance(time - 1 if events else time), kinds)
        if events:
            found += shown(core, core.take(words_of(core, events)), kinds)
        if restarts:
            words, core = json.loads(json.dumps(saved.saved(core))), Core(program, body, strings)
            saved.load(core, words)
    return found


def test_the_function_agrees_with_the_machine() -> None:
    count, compiled, answered = examples(5000, least=150), 0, 0
    for seed in range(count):
        random = Random(seed)
        statement, items = drawn_statement(random, sst=random.random() < 0.2), list[Any](drawn_history(random))
        if random.random() < 0.5:
            items.append(Advance(items[-1].end + random.randint(1, 8)))
        try:
            found = function_rows(statement, items, restarts=False)
        except NotCompiledError:
            continue
        wanted = machine_rows(statement, items, restarts=False)
        assert found == wanted, f"seed {seed}\n{statement}\n{items}"
        assert function_rows(statement, items, restarts=True) == wanted, f"seed {seed}, restarts\n{statement}\n{items}"
        compiled += 1
        answered += bool(wanted)
    assert compiled > count / 2
    assert answered > count / 8


def test_partitions_whose_events_are_too_old_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that is looked for at each stage, which else happens when many partitions are there."""
    (statement,) = parse_file("CreateCE X Select A.x as x Event And(A<range 9>, B<range 9>) GKey *.k LKey *.x")
    assert isinstance(statement, Statement)
    program, _ = function_of(statement)
    core = Core(program, bodies.plain(program.source), Strings())
    for number in range(3000):
        core.take(words_of(core, [Event("A", number, number, number, {"k": number, "x": 0})]))
    assert core.P[library.PARTITIONS] <= library.SOME + 2 * core.P[library.LEFT] < 2 * library.SOME
    assert core.P[library.PARTITIONS] == core.P[library.LOCALS]
    for module in ("tocsin.staged.machine", "tocsin.staged.compiled.library"):
        monkeypatch.setattr(f"{module}.SOME", -1)
    for seed in range(examples(1000, least=40)):
        random = Random(seed)
        statement, items = drawn_statement(random), list[Any](drawn_history(random))
        if statement.gkeys:
            with suppress(NotCompiledError):
                assert function_rows(statement, items, restarts=False) == machine_rows(statement, items, restarts=False)


@pytest.fixture
def as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements run in their function from the first event on, as text that Python runs."""
    monkeypatch.setattr(bodies, "compiled", bodies.plain)
    monkeypatch.setattr(choice, "WORTH", 0)


@pytest.mark.usefixtures("as_text")
@pytest.mark.filterwarnings("ignore")
def test_functions_agree_with_the_definition_in_every_order() -> None:
    """Through the whole graph: statements over statements, any cut, any order of arrival, restarts."""
    found = 0
    count = examples(400, least=15)
    for seed in range(count):
        random = Random(seed)
        statements, events = drawn_statements(random), drawn_history(random)
        query = Query(tuple(statements), declare(SCHEMA))
        if not agrees(query):
            continue
        wanted = Counter((e.type, e.start, e.end, *e.attrs.values()) for e in staged_events(statements, events))
        given = [row_of(event) for event in events]
        columns = {"time": "start", "end": "end", "eid": "id"}
        detected, plain = query.detect(given, **columns), query.detect(given, **columns, jit=False)
        assert Counter(rows_of(detected)) == wanted, seed
        assert [table.to_pylist() for table in detected.tables()] == [table.to_pylist() for table in plain.tables()]
        late = sorted(events, key=lambda event: event.end + random.randint(0, 4))
        for order, arriving in (("in-order", events), ("slack(4)", late)):
            assert Counter(streamed(query, arriving, order, random)) == wanted, (seed, order)
        found += bool(wanted)
    assert found > count / 5


@pytest.mark.usefixtures("as_text")
def test_texts_and_fractions_in_keys_and_answers() -> None:
    text = """CreateCE X Select Group A.place as place,
    Max(Set(A.v)) as most, Avg(Bag(A.v)) as mean, Region.label as part
    Event A<range 10> Where A.ok = true GKey *.place LKey *.v as Region (In 0.5..1.5 as low, Rest as high)"""
    rows = [
        ("x", 1.0, True),
        ("y", -0.0, True),
        ("x", 2.5, None),
        ("x", 1.5, True),
        (None, 1.0, True),
        ("y", 0.0, True),
    ]
    given = [{"type": "A", "time": time, "place": p, "v": v, "ok": ok} for time, (p, v, ok) in enumerate(rows)]
    query = tocsin.query(text)
    (found,), (wanted,) = query.detect(given).tables(), query.detect(given, jit=False).tables()
    assert found.equals(wanted)
    assert [tuple(row.values())[-4:] for row in found.to_pylist()] == [
        ("x", 1.0, 1.0, "low"), ("y", 0.0, 0.0, "high"), ("x", 1.5, 1.25, "low"), ("y", 0.0, 0.0, "high"),
    ]  # fmt: skip


@pytest.mark.usefixtures("as_text")
def test_numbers_that_words_cannot_add_are_left_to_python() -> None:
    """A sum beyond 2**53 is exact only in Python: the state goes there, and the answers are the same."""
    text = "CreateCE X Select Avg(Bag(A.v)) as mean Event A<rows 3>"
    values = [1, 2, 2**53 - 1, 2**53 + 1, 5]
    given = [{"type": "A", "time": time, "v": value} for time, value in enumerate(values)]
    with tocsin.query(text).stream() as session:
        found = [match["mean"] for row in given for match in session.push(row)]
        found += [match["mean"] for match in session.close()]
    windows = [values[max(0, at - 2) : at + 1] for at in range(len(values))]
    assert found == [sum(window) / len(window) for window in windows]


def test_what_is_not_compiled_says_why() -> None:
    reasons = {
        "CreateCE X Select A.k as k Event {Init B Event A Term C}": "a block has contexts and keys of its own",
        "CreateCE X Event AtLeast(2, A<weight 1.5>)": "a weight is no whole number",
    }
    for text, reason in reasons.items():
        (statement,) = parse_file(text)
        assert isinstance(statement, Statement)
        with pytest.raises(NotCompiledError, match=reason):
            function_of(statement)
        assert reason in Query((statement,), declare(SCHEMA, longest=LASTING)).explain()


# --- the parts -----------------------------------------------------------------------------------------------------


def test_tables_of_keys_find_what_they_hold() -> None:
    random, held = Random(1), dict[int, int]()
    table, records = np.full(16, library.NIL, np.int64), np.zeros(4096, np.int64)
    for _ in range(6000):
        key = random.randint(-40, 40)
        at = 2 * (key + 40)
        slot = library.slot_of(table, len(table) - 1, records, 1, np.array([key]), 0, 1)
        assert (table[slot] == at) == (key in held)
        if key in held and random.random() < 0.6:
            library.take_out(table, len(table) - 1, records, 1, 1, slot)
            del held[key]
        elif key not in held:
            records[at + 1] = key
            table[slot], held[key] = at, at
            if 2 * len(held) > len(table):
                more = np.full(2 * len(table), library.NIL, np.int64)
                library.refill(table, len(table), more, len(more) - 1, records, 1, 1)
                table = more
    assert sorted(table[table != library.NIL].tolist()) == sorted(held.values())


def test_rows_of_a_stage_stand_in_order_of_start_and_values() -> None:
    """Nulls first, fractions and whole numbers as such; a row is its end, start, Nulls, place and key, then values."""
    for seed in range(200):
        random = Random(seed)
        rows = np.zeros((random.randint(1, 12), 7), np.int64)
        for at, row in enumerate(rows):
            row[1], row[2], row[3], row[4] = random.randint(0, 1), random.randint(0, 3), at, random.randint(0, 9)
            row[5:6].view(np.float64)[0], row[6] = random.choice((-2.5, -0.5, 0.0, 0.25, 1e9)), random.randint(-2, 2)
        wanted = sorted(rows.tolist(), key=lambda row: (row[1], *_shown(row)))
        words = rows.reshape(-1).copy()
        assert library.arranged(words, words.view(np.float64), 0, len(rows), 7, 5, 1)
        assert words.reshape(-1, 7).tolist() == wanted


def _shown(row: list[int]) -> list[tuple[bool, float]]:
    """The values of a row, Nulls before all others."""
    values = (float(np.int64(row[5]).view(np.float64)), row[6])
    return [(not row[2] >> at & 1, 0 if row[2] >> at & 1 else value) for at, value in enumerate(values)]


def test_timers_come_in_order() -> None:
    random, dues = Random(2), list[int]()
    heap, facts = np.zeros(4096, np.int64), np.zeros(library.PARAMETERS, np.int64)
    for _ in range(3000):
        if dues and random.random() < 0.48:
            assert heap[0] == min(dues)
            assert heap[1] == 3 * heap[0]
            dues.remove(int(heap[0]))
            library.drop_timer(heap, facts)
        elif len(dues) < 2000:
            dues.append(random.randint(0, 500))
            library.set_timer(heap, facts, dues[-1], 3 * dues[-1])
    assert facts[library.TIMERS] == len(dues)


def test_equal_values_are_kept_once() -> None:
    words = np.zeros(64, np.int64)
    reals = words.view(np.float64)
    reals[:7] = (1.0, -0.0, 0.0, float("nan"), 1.0, float("nan"), 2.0)
    assert library.once(words, reals, True, 7) == 5
    assert [str(each) for each in reals[:5].tolist()] == ["1.0", "0.0", "nan", "nan", "2.0"]
    assert library.middle(reals, 2) == 0.5


@pytest.mark.usefixtures("as_text")
@pytest.mark.parametrize("text", [
    'CreateCE X Select Count(A) as n, Max(A.x) as m Event And(A<range 100>, At("****/**/**/**:**:00.000")) GKey *.k',
    "CreateCE X Select Group Count(Bag A) as n, K.labels as k Event And(A<rows 3>, Every(60)) LKey *.k as K",
    "CreateCE X Select A.x as x Event Unless(After(A[rows 2, add], 30), B<range 250>) Where B.x = A.x GKey *.k",
    "CreateCE X Select Count(A.x) as n, Avg(A.x) as m Event AtLeast(3, A<rows 5, consume>) LKey *.k",
])  # fmt: skip
def test_timers_and_whole_lists(text: str) -> None:
    """As a function, in parts and whole, they give what the machine gives: calendars are asked of the host."""
    random, time, given = Random(4), 0, []
    for _ in range(100):
        time += random.randint(0, 300)
        given.append({"type": random.choice("AB"), "time": time, "k": random.randint(1, 3), "x": random.randint(0, 3)})
    query = tocsin.query(text)
    assert "body      compiled" in query.explain(given, time_unit="s")
    (found,), (wanted,) = (query.detect(given, time_unit="s", jit=jit).tables() for jit in (True, False))
    assert found.num_rows > 1
    assert found.equals(wanted)
    with query.stream(time_unit="s") as session:
        pushed = [match for row in given for match in session.push(row)] + [*session.close()]
    assert len(pushed) == wanted.num_rows


RUNNING = (
    ("And(A, B)", "Count(A) as n, Sum(Bag(A.x)) as s, Max(B.y) as m, Avg(Bag(Is-Null(B.x, 2))) as v"),
    ("A", "Count(Bag(A.x)) as n, A.k as k, Min(A.y) - Max(A.y) as d, stable-time as now"),
    ('And(A as a<"x > 1">, A as b, B)', "Count(b) as n, Sum(Bag(a.x)) / Count(b) as s, Min(B.y) as m"),
    ("And(A, B as b)", "Max(i.x) as o, Avg(Bag(b.y)) as v, Count(A) as n"),
    ("And(A, B)", "Count(A.x) as n, Sum(B.x) as s, Avg(Is-Null(A.y, 2)) as v, Max(Bag(A.x) Union Bag(B.x)) as m"),
    ("And(A, B)", "Avg(Bag(A.x) Union Bag(B.y)) as v, Sum(A.x Union B.x) as s, A.x as x, end-ts(B) as e"),
    ("Or(A, B)", "A.x as x, B.y as y, start-ts(A) as t, Count(A) as n, Sum(A.x Union B.y) as s"),
    ("(A)<deferred>", "Count(A.x) as n, Sum(Bag(A.x)) as s, A.y as y"),
    ("And(A, B)<deferred>", "Max(A.x) as x, Sum(B.x) as s, end-ts(A) as e"),
    ("Or(A, B)<deferred>", "Count(A) as n, Max(B.x) as x"),
)


def test_aggregates_that_go_on() -> None:
    """Groups without conditions and windows: no match is enumerated, and what is found is what the machine finds."""
    answered = 0
    for seed in range(examples(1200, least=40)):
        random = Random(seed)
        pattern, select = random.choice(RUNNING)
        bounds = " Init C as i<add>" if "i.x" in select else random.choice(["", " Init C, D<add>"])
        ends = random.choice(["", " Term 9", " Term D"])
        keys = random.choice(["", " LKey *.k"]) if pattern != "A" else random.choice([" GKey A.k", " LKey *.k"])
        bounds, ends = ("", random.choice(["", " Term 9"])) if "GKey" in keys else (bounds, ends)
        (statement,) = parse_file(f"CreateCE X Select Group {select}{bounds} Event {pattern}{ends}{keys}")
        assert isinstance(statement, Statement)
        program, _ = function_of(statement)
        assert program.layout.running is not None
        items = drawn_history(random)
        wanted = machine_rows(statement, items, restarts=False)
        for restarts in (False, True):
            assert function_rows(statement, items, restarts=restarts) == wanted, f"seed {seed}\n{statement}\n{items}"
        answered += bool(wanted)
    assert answered > 10


@pytest.mark.parametrize("text", [
    "Max(A.x) as m Event A<rows 2>", "Max(A.x) as m Event And(A<consume>, B)", "Max(A.x) as m Event Concurrent(A, B)",
    "Max(A.x) as m Event And(A, B) Where A.x = B.x", "Max(A.x) as m, start-ts(both) as e Event And(A, B) as both",
    "Max(A.x) as m Event And(A, B)<delayed> Term C", "Median(Bag(A.x)) as m Event A",
    "Max(A.x) as m Event Sequence(A, B)", "Max(i.x Union A.x) as m Init C as i Event A",
])  # fmt: skip
def test_aggregates_that_do_not_go_on(text: str) -> None:
    """Windows, conditions, consumption, medians and times of operators ask for the matches themselves."""
    (statement,) = parse_file(f"CreateCE X Select Group {text}")
    assert isinstance(statement, Statement)
    assert function_of(statement)[0].layout.running is None


@pytest.mark.usefixtures("as_text")
def test_aggregates_of_fractions_go_on_exactly() -> None:
    values = [0.1, None, -0.0, 0.2, 1e16, 0.3, -1e16, 2.5]
    given = [{"type": "A", "time": time, "v": value} for time, value in enumerate(values)]
    query = tocsin.query("CreateCE X Select Group Sum(Bag(A.v)) as s, Max(A.v) as m, Avg(Bag(A.v)) as a Event A")
    (found,), (wanted,) = query.detect(given).tables(), query.detect(given, jit=False).tables()
    assert found.num_rows == len(values)
    assert found.column("m").equals(wanted.column("m"))
    so_far = 0.0
    for row, value in zip(found.to_pylist(), values, strict=True):  # one after the other, as words are added
        so_far += value or 0.0
        assert row["s"] == so_far


JOINS = (
    "And(A, B) Where A.x = B.x AND (end-ts(A) = stable-time OR end-ts(B) = stable-time)",
    "And(A<rows 2, consume>, B<range 4>) Where B.y = A.x AND (end-ts(A) = stable-time OR end-ts(B) = stable-time)",
    "Sequence(A<stages 2>, B, C<consume>) Where A.x = C.x AND B.y = C.y AND end-ts(C) = stable-time",
    "Concurrent(A as a, A as b<range 3>) Where a.x = b.y AND (end-ts(a) = stable-time OR end-ts(b) = stable-time)",
)


def test_operands_that_are_found_by_value() -> None:
    """Joins for what is new find the others by an equality, whatever windows, consumption and contexts take away."""
    answered, count = 0, examples(1500, least=60)
    for seed in range(count):
        random = Random(seed)
        bounds = random.choice(["", " Init D<add>"])
        ends = random.choice(["", " Term 6", " Term D<old>"])
        keys = random.choice(["", " LKey *.k"])
        pattern, where = random.choice(JOINS).split(" Where ")
        (statement,) = parse_file(f"CreateCE X{bounds} Event {pattern} Where {where}{ends}{keys}")
        assert isinstance(statement, Statement)
        assert function_of(statement)[0].layout.looked_up
        items = drawn_history(random)
        wanted = machine_rows(statement, items, restarts=False)
        for restarts in (False, True):
            assert function_rows(statement, items, restarts=restarts) == wanted, f"seed {seed}\n{statement}\n{items}"
        answered += bool(wanted)
    assert answered > count / 25
