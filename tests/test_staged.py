"""Staged statements: the machine and the whole graph against the definition, and the cases of the paper."""

from __future__ import annotations

import gc
import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tocsin
from tests.effort import examples
from tocsin.app.cli import app
from tocsin.app.judge import judge_case
from tocsin.errors import QueryError, TocsinError, TocsinWarning
from tocsin.events import END_OF_TIME, Event
from tocsin.lang.parser import parse_file
from tocsin.lang.staged_syntax import NestedBlock, Statement, parts
from tocsin.plan.staged_memory import staged_memory
from tocsin.plan.staged_places import StatementPlaces
from tocsin.run.declared import declare
from tocsin.run.query import Query
from tocsin.schema import RESULT_COLUMNS
from tocsin.staged.compiled.room import Room
from tocsin.staged.event import StagedEvent
from tocsin.staged.machine import Machine
from tocsin.staged.operand_list import EventRun, OperandList
from tocsin.testing.cases import Case, read_cases
from tocsin.testing.draw_staged import LONGEST, drawn_history, drawn_statement, drawn_statements
from tocsin.testing.staged_oracle import Advance, staged_events

FOLDER = Path(__file__).parent / "staged_cases"
CASES = [case for path in sorted(FOLDER.glob("*.case")) for case in read_cases(path)]
SCHEMA = {type: {"k": "int", "x": "int", "y": "int"} for type in "ABCIT"}
LASTING = dict.fromkeys(SCHEMA, LONGEST)
PAIR = "CreateCE Pair Select A.k as k, B.x as x Event And(A<consume>, B<consume>) GKey *.k"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: Case) -> None:
    for verdict in judge_case(case):
        assert verdict.ok, str(verdict)


# --- the machine ---------------------------------------------------------------------------------------------------


def machine_rows(
    statement: Statement, items: list[Any], *, restarts: bool, created: int | None = None
) -> list[tuple[int, int, tuple[Any, ...]]]:
    """What the machine finds, with a restart after every stage if asked."""
    machine, types = Machine(statement, None, LASTING), StatementPlaces(statement).types
    if created is not None:
        machine.create(created)
    found = []
    for time, group in groupby(items, key=lambda item: item.time if isinstance(item, Advance) else item.end):
        events = [each for each in group if isinstance(each, Event) and each.type in types]
        if machine.created is not None:
            found += machine.advance(time - 1 if events else time)
        if events:
            numbered = []
            for event in events:
                numbered.append(StagedEvent(machine.next, event.type, event.start, event.end, dict(event.attrs)))
                machine.next += 1
            found.append((time, machine.stage(time, numbered)))
        if restarts:
            saved = json.loads(json.dumps(machine.save()))
            machine = Machine(statement, None, LASTING)
            machine.load(saved)
    return [(now, row.start, row.values) for now, rows in found for row in rows]


def check_machine(seed: int) -> bool:
    """Compare the machine with the definition on what a seed draws; whether anything was found."""
    random = Random(seed)
    statement, items = drawn_statement(random, sst=random.random() < 0.3), list[Any](drawn_history(random))
    if random.random() < 0.5:
        items.append(Advance(items[-1].end + random.randint(1, 8)))
    found = staged_events([statement], items, longest=LASTING)
    wanted = [(each.end, each.start, tuple(each.attrs.values())) for each in found]
    for restarts in (False, True):
        found = machine_rows(statement, items, restarts=restarts)
        assert found == wanted, f"seed {seed}\n{statement}\n{items}"
    return bool(wanted)


def test_the_machine_agrees_with_the_definition() -> None:
    count = examples(20_000)
    assert sum(check_machine(seed) for seed in range(count)) > count / 5


def test_statements_are_printed_as_they_are_read() -> None:
    for seed in range(examples(3000)):
        statement = drawn_statement(Random(seed))
        assert parse_file(str(statement)) == (statement,)


@pytest.mark.parametrize("text", ["CreateCE X Event AtLeast(2, A)", "CreateCE X Event After(A, 2)"])
def test_at_the_end_of_time_nothing_more_is_due(text: str) -> None:
    (statement,) = parse_file(text)
    assert isinstance(statement, Statement)
    machine = Machine(statement, None)
    found = machine.stage(3, [StagedEvent(0, "A", 3, 3, {})])
    found += [each for _, stage in machine.advance(END_OF_TIME) for each in stage]
    assert len(found) == text.count("After")
    assert machine.clock == END_OF_TIME


@pytest.mark.parametrize("order", ["in-order", "slack(3)", "conservative(3)"])
def test_a_statement_answers_as_soon_as_events_are_settled(order: str) -> None:
    """By the clock of the events themselves, and not only at the end."""
    session = tocsin.query("CreateCE X Event After(A, 2)").stream(order=order, jit=False, eid="eid")
    rows = [{"type": "A", "time": at, "eid": at} for at in range(10)]
    one_by_one = [match["end"] for row in rows for match in session.push(row)]
    assert one_by_one == list(range(2, 9 if order == "in-order" else 6))


def test_partitions_are_independent() -> None:
    """What a partition finds does not depend on the events of others (P26, P117)."""
    alone = 0
    for seed in range(examples(3000, least=200)):
        random = Random(seed)
        statement, items = drawn_statement(random), drawn_history(random)
        if [key for key in statement.gkeys if not key.ranges] and not statement.lkeys:
            whole = Counter(machine_rows(statement, list(items), restarts=False))
            types = StatementPlaces(statement).types
            first = min((event.end for event in items if event.type in types), default=None)
            parts: Counter[Any] = Counter()
            for value in (0, 1, 2):
                mine = [event for event in items if event.attrs.get("k") == value]
                parts += Counter(
                    machine_rows(statement, [*mine, Advance(items[-1].end)], restarts=False, created=first)
                )
            assert parts == whole, seed
            alone += 1
    assert alone > 10


def test_a_partition_in_which_nothing_is_left_is_forgotten() -> None:
    (statement,) = parse_file(PAIR)
    assert isinstance(statement, Statement)
    machine = Machine(statement, None)
    for number in range(0, 2000, 2):
        for at, type in enumerate("AB"):
            event = StagedEvent(number + at, type, number + at, number + at, {"k": number, "x": 0})
            machine.advance(event.end - 1)
            machine.stage(event.end, [event])
    assert not machine.partitions
    assert machine.kept() == 0


@pytest.mark.parametrize(("clauses", "grows"), [
    ("Event And(A<consume>, B<consume>)", False),
    ("Event And(A<range 2>, B<range 2>)", False),  # when many are there, those that are too old are looked for
    ("Init A Event B Term B", False),
    ("Init A Event Not(C) Term B", False),
    ("Event A<consume> Term B", True),
    ("Event A<consume> Term 3", False),
    ("Event And(A<consume>, Every(5))", True),
    ("Init A Event And(C, Every(5)) Term B", False),
    ("Init A Event Not(B) Term B LKey *.x", True),
    ("Init A Event And(C, {Init C Event A}) Term I", True),
])  # fmt: skip
def test_explain_says_where_partitions_are_not_forgotten(
    clauses: str, grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.staged.machine.SOME", 10)
    (statement,) = parse_file(f"CreateCE X {clauses} GKey *.k")
    assert isinstance(statement, Statement)
    machine = Machine(statement, None)
    for number in range(0, 400, 2):
        for at, type in enumerate("AB"):
            event = StagedEvent(number + at, type, number + at, number + at, {"k": number, "x": 0})
            machine.advance(event.end - 1)
            machine.stage(event.end, [event])
    assert (len(machine.partitions) > 20) == grows
    assert ("keys ever seen" in staged_memory(statement)) == grows


def test_lists_stay_as_long_as_what_they_hold() -> None:
    random, run, held = Random(1), EventRun(), []
    for number in range(5000):
        event = StagedEvent(number, "A", number, number, {})
        run.add(event)
        held.append(event)
        while held and random.random() < 0.55:
            gone = held.pop(random.choice((0, -1)))
            assert run.remove(gone)
        assert run.count == len(held)
    assert list(run) == held
    assert len(run._events) <= 2 * len(held) + 64


def test_windows_of_a_list() -> None:
    events = [StagedEvent(number, "A", end, end, {}) for number, end in enumerate((1, 2, 2, 3))]
    for rows, stages, length, kept in ((2, None, None, [2, 3]), (None, 2, None, [1, 2, 3]), (None, None, 2, [1, 2, 3])):
        held = OperandList((), rows, stages, length)
        for end in (1, 2, 3):
            held.collect([event for event in events if event.end == end], end)
        assert [event.number for event in held.all] == kept


# --- the graph -----------------------------------------------------------------------------------------------------


def row_of(event: Event) -> dict[str, Any]:
    return {"type": event.type, "start": event.start, "end": event.end, "id": event.eid, **event.attrs}


def rows_of(matches: Any) -> list[tuple[Any, ...]]:
    return [
        (row["query"], row["start"], row["end"], *(row[name] for name in row if name not in RESULT_COLUMNS))
        for table in matches.tables()
        for row in table.to_pylist()
    ]


def streamed(query: Query, events: list[Event], order: str, random: Random) -> list[tuple[Any, ...]]:
    """Events through a live session, in any pieces and over restarts."""
    how: dict[str, Any] = {"order": order, "time": "start", "end": "end", "eid": "id"}
    session, found, at = query.stream(**how), [], 0
    while at < len(events):
        size = random.randint(0, 5)  # 0: a row by itself
        rows = [row_of(event) for event in events[at : at + max(size, 1)]]
        found += rows_of(session.push(rows if size else rows[0]))
        at += len(rows)
        if random.random() < 0.3:
            session = query.stream(**how, state=session.save())
    return found + rows_of(session.close())


def agrees(query: Query) -> bool:
    """Whether attributes have one kind in all that a statement reads: an average beside a whole number is refused."""
    try:
        query.plans()
    except QueryError as error:
        return "the statement reads both" not in str(error)
    return True


@pytest.mark.filterwarnings("ignore")
def test_statements_over_statements_agree_in_every_order() -> None:
    found = 0
    count = examples(600, least=30)
    for seed in range(count):
        random = Random(seed)
        statements, events = drawn_statements(random), drawn_history(random)
        query = Query(tuple(statements), declare(SCHEMA))
        if not agrees(query):
            continue
        wanted = Counter((e.type, e.start, e.end, *e.attrs.values()) for e in staged_events(statements, events))
        detected = query.detect([row_of(event) for event in events], time="start", end="end", eid="id")
        assert Counter(rows_of(detected)) == wanted, seed
        late = sorted(events, key=lambda event: event.end + random.randint(0, 4))
        for order, given in (("in-order", events), ("slack(4)", late), ("conservative(4)", late)):
            assert Counter(streamed(query, given, order, random)) == wanted, (seed, order)
        found += bool(wanted)
    assert found > count / 5


@pytest.mark.filterwarnings("ignore")
def test_what_may_still_come_is_known_where_events_last() -> None:
    """sst, from how long events may last, in every order, over restarts, and with time itself as what makes it so."""
    found = active = above = 0
    count = examples(300, least=40)
    for seed in range(count):
        random = Random(f"sst {seed}")
        statements, events = drawn_asking(random), drawn_history(random)
        statement = statements[-1]
        query = Query(tuple(statements), declare(SCHEMA, longest=LASTING))
        if not agrees(query):
            continue
        known = staged_events(statements, events, longest=LASTING)
        wanted = Counter((e.type, e.start, e.end, *e.attrs.values()) for e in known)
        detected = query.detect([row_of(event) for event in events], time="start", end="end", eid="id")
        assert Counter(rows_of(detected)) == wanted, seed
        late = sorted(events, key=lambda event: event.end + random.randint(0, 4))
        for order, given in (("in-order", events), ("slack(4)", late), ("conservative(4)", late)):
            assert Counter(streamed(query, given, order, random)) == wanted, (seed, order)
        found += bool(wanted)
        active += bool(wanted) and "active" in statement.options
        above += any(event.type == statement.name for event in known) and len(statements) > 1
    assert found > count / 8
    assert active and above


SHORT = "CreateCE P Select A.k as k, B.x as x, A.y as y Event And(A<range 4>, B<range 3, consume>)"


def drawn_asking(random: Random) -> list[Statement]:
    """A drawn statement whose condition asks for sst; sometimes of what a statement above it finds."""
    chained = random.random() < 0.4
    while True:
        statement = drawn_statement(random, "X", ("A", "P") if chained else ("A", "B", "C"), sst=True)
        if "sst(" in str(statement):
            return [*(parse_file(SHORT) if chained else ()), statement]  # type: ignore[list-item]


def test_both_kinds_of_query_read_the_matches_of_each_other() -> None:
    matches = "QUERY Q EVENT SEQ(Pair p, C c) WHERE p.k = c.k SELECT p.k AS k"
    text = f"{PAIR}; {matches}; CreateCE N Select Count(Q) as n Event AtLeast(1, Q)"
    kinds = [("A", 1), ("B", 2), ("B", 1), ("C", 1), ("A", 2), ("C", 2)]
    events = [{"type": type, "time": time, "k": k, "x": 0} for time, (type, k) in enumerate(kinds)]
    found = tocsin.query(text).detect(events)
    pairs = [("Pair", 0, 2, 1, 0), ("Pair", 1, 4, 2, 0)]
    assert rows_of(found) == [*pairs, ("Q", 0, 3, 1), ("Q", 1, 5, 2), ("N", 0, 3, 1), ("N", 0, 5, 2)]


def test_texts_truths_and_missing_values() -> None:
    text = (
        "CreateCE X Select A.name, A.ok, B.v as v Event And(A<consume>, B<consume>) Where A.name = B.name LKey *.name"
    )
    session = tocsin.query(text).stream(endless=False)
    rows = [
        ("A", "x", True, None),
        ("A", "y", None, None),
        ("B", "y", None, 1.5),
        ("A", None, True, 2.0),
        ("B", "x", None, None),
    ]
    found = []
    for time, (type, name, ok, v) in enumerate(rows):
        given = {"type": type, "time": time, "name": name, "ok": ok, "v": v}
        found += rows_of(session.push({key: value for key, value in given.items() if value is not None}))
    found += rows_of(session.close())
    assert found == [("X", 1, 2, "y", None, 1.5), ("X", 0, 4, "x", True, None)]


@pytest.mark.parametrize("made", ["list", "map", "struct", "binary"])
@pytest.mark.parametrize("text", ["Event AtLeast(2, A) GKey *.k", "Select A.k as k Event A", 'Event A<"k = 1">'])
def test_a_column_that_no_expression_can_read_is_refused(made: str, text: str) -> None:
    columns = {
        "list": pa.array([[1], [1]]), "map": pa.array([[("a", 1)]] * 2, pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"x": 1}] * 2), "binary": pa.array([b"a", b"a"]),
    }  # fmt: skip
    events = pa.table({"type": ["A", "A"], "time": [1, 2], "k": columns[made]})
    with pytest.raises(QueryError, match="no expression can read k"):
        tocsin.query(f"CreateCE X {text}").detect(events)


def test_whole_numbers_are_shown_as_far_as_64_bits_go() -> None:
    """Null stands for what lies beyond them."""
    events = [{"type": "A", "time": 1, "k": -(2**63), "x": 2**63 - 1}]
    text = "CreateCE X Select A.k as k, A.k - 1 as less, A.x as x, A.x + 1 as more Event A"
    assert rows_of(tocsin.query(text).detect(events)) == [("X", 1, 1, -(2**63), None, 2**63 - 1, None)]


@pytest.mark.parametrize(("text", "order", "why"), [
    (PAIR, "aggressive(5)", "it corrects its answers"),
    ("CreateCE X Select a.k as k Event And(A as a, {Event B})", "in-order", "it is not compiled"),
])  # fmt: skip
def test_a_limit_of_memory_that_cannot_be_kept_is_refused(text: str, order: str, why: str) -> None:
    with pytest.raises(TocsinError, match="keeps in memory") as caught:
        tocsin.query(text).stream(order=order, memory_limit="10 MB", jit=False).push({"type": "A", "time": 1, "k": 1})
    assert why in str(caught.value)


def test_what_is_above_a_limit_of_memory_goes_to_a_file() -> None:
    text = "CreateCE X Select A.n as a, B.n as b Event And(A<old max 2, consume>, B<consume>) LKey *.k"
    random, rows = Random(5), []
    for number in range(6000):
        kind = "A" if number < 4000 else random.choice("AB")
        rows.append({"type": kind, "time": number, "n": number, "k": random.randint(0, 1500)})
    wanted = rows_of(tocsin.query(text).detect(rows, jit=False))
    session, found = tocsin.query(text).stream(order="slack(3)", jit=False, memory_limit="100 kB"), []
    for at in range(0, len(rows), 500):
        found += rows_of(session.push(rows[at : at + 500]))
        if at == 3000:
            saved = session.save()
            session = tocsin.query(text).stream(order="slack(3)", jit=False, memory_limit="100 kB", state=saved)
    found += rows_of(session.close())
    assert found == wanted
    assert len(found) > 500
    gc.collect()  # the arrays of the session before; a proxy has no class to ask, only a type
    (arrays,) = [each for each in gc.get_objects() if type(each) is Room and each.in_files]
    assert arrays.in_memory <= 100_000
    assert len(arrays["D"]) > 50_000


def test_commands(tmp_path: Path) -> None:
    rules, data = tmp_path / "pair.tocsin", tmp_path / "events.csv"
    rules.write_text(PAIR)
    data.write_text("type,time,k,x\nA,1,7,\nB,2,7,5\n")
    run = CliRunner().invoke
    assert "ok: 1 query" in run(app, ["check", str(rules)]).output
    explained = run(app, ["explain", str(rules)]).output
    assert "operand   A<consume>" in explained
    assert "memory" in explained
    found = run(app, ["run", str(rules), "--input", str(data), "--format", "jsonl"])
    assert '"k":7' in found.output.replace(" ", "")
    wrong = run(app, ["check", "CreateCE X Event And(A,"])
    assert wrong.exit_code == 2


def test_a_changed_statement_starts_afresh() -> None:
    session = tocsin.query(PAIR).stream()
    session.push({"type": "A", "time": 1, "k": 7, "x": 1})
    saved, closing = session.save(), {"type": "B", "time": 2, "k": 7, "x": 2}
    changed = PAIR.replace("A<consume>", "A<rows 1>")
    with pytest.raises(TocsinError, match="was changed"):
        tocsin.query(changed).stream(state=saved, carry_over=True)
    with pytest.warns(TocsinWarning, match="starts afresh"):
        fresh = tocsin.query(changed).stream(state=saved, carry_over=True, accept_loss=True)
    assert rows_of(fresh.push(closing)) + rows_of(fresh.close()) == []
    beside = tocsin.query(f"{PAIR}; EVENT SEQ(A a, B b) WITHIN 5").stream(state=saved, carry_over=True)
    found = rows_of(beside.push(closing)) + rows_of(beside.close())
    assert ("Pair", 1, 2, 7, 2) in [row[:5] for row in found]


def test_time_that_passes_fires_timers_of_a_live_statement() -> None:
    session = tocsin.query("CreateCE Late Select A.k as k Event After(A, 10) GKey *.k").stream()
    assert rows_of(session.push({"type": "A", "time": 1, "k": 7})) == []
    assert rows_of(session.advance(10)) == []
    assert rows_of(session.advance(11)) == [("Late", 1, 11, 7)]
    assert rows_of(session.close()) == []


def test_explain_names_blocks() -> None:
    text = "CreateCE X Event And(A, { Init I<add> Event B Term T, 5 GKey *.k })"
    told = tocsin.query(text).explain()
    assert "block     opened by I, also beside open ones; closed by T, a duration; partitions by *.k" in told
    keyed = tocsin.query(text.replace("})", "}) GKey *.k")).explain()
    assert "a partition with blocks is remembered until its context ends" in keyed


def test_many_drawn_statements_have_blocks() -> None:
    """And they find something: what is compared with the definition says something about blocks."""
    drawn = [seed for seed in range(examples(4000, least=600)) if has_blocks(drawn_statement(Random(seed)))]
    assert len(drawn) > examples(4000, least=600) / 40
    assert sum(map(check_machine, drawn)) > len(drawn) / 8


def has_blocks(statement: Statement) -> bool:
    return any(isinstance(part, NestedBlock) for part in parts(statement))


def test_a_join_for_what_is_new_begins_there() -> None:
    """Every other operand is found by value: no stage walks over what was collected before."""
    text = """CreateCE X Select a.x as x Event And(A as a<range 100>, B as b<range 100>, C as c<range 100>)
    Where a.x = b.x AND b.y = c.y AND (end-ts(a) = stable-time OR end-ts(b) = stable-time OR end-ts(c) = stable-time)"""
    (statement,) = parse_file(text)
    assert isinstance(statement, Statement)
    join = Machine(statement, None).matcher._join
    assert join is not None
    assert [[(step.age, step.equal is not None) for step in steps] for steps in join.searches] == [
        [("new", False), (None, True), (None, True)],
        [("new", False), ("old", True), (None, True)],
        [("new", False), ("old", True), ("old", True)],
    ]


@pytest.mark.parametrize("jit", [True, False])
def test_events_without_a_key_are_ignored_and_counted(jit: bool) -> None:
    """Counted are those that have no role at all: A needs both keys, I and T one, and of two roles one is enough."""
    text = "CreateCE P Select A.x as x Init I Event And(A as A<consume>, B<consume>) Term T GKey *.k LKey A.x, B.y"
    rows: list[dict[str, Any]] = [
        {"type": "I", "k": 1}, {"type": "I", "k": None},
        {"type": "A", "k": 1, "x": 5}, {"type": "A", "k": 1, "x": None},
        {"type": "B", "k": None, "y": 5}, {"type": "B", "k": 1, "y": 5}, {"type": "C", "k": None},
    ]  # fmt: skip
    rows = [{"x": None, "y": None, "time": time, **row} for time, row in enumerate(rows)]
    found = tocsin.query(text).detect(rows, jit=jit)
    assert [match["x"] for match in found] == [5]
    assert found.counters["keyless"] == 3
    both = tocsin.query("CreateCE P Event And(A as a, A as b) GKey a.k, b.x").detect(rows, jit=jit)
    assert both.counters["keyless"] == 0
