"""The constructs that choose among matches, each with a query over one small stream: rows of the table whose columns
are the ways to run. `test_selection_table.py`, `test_shard_selection.py` and `test_spark_selection.py` go through both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

from tocsin.engine.kinds import ANSWERS
from tocsin.events import BEGINNING, Event
from tocsin.lang.fluent import (
    FluentPattern,
    FluentQuery,
    all_of,
    any_event,
    any_of,
    col,
    count,
    count_distinct,
    event,
    prev,
    same,
    seq,
    sum_,
)
from tocsin.lang.parser import parse
from tocsin.lang.printer import print_expr
from tocsin.lang.syntax import MODES
from tocsin.run.query import Query
from tocsin.testing.oracle import Match, matches
from tocsin.testing.packing import with_shared_columns

Row: TypeAlias = tuple[Any, ...]

A, B, C, D, X = (event(type, type.lower()) for type in "ABCDX")
VISIT = seq(A, B.first())


@dataclass(frozen=True, slots=True)
class Construct:
    """A query that needs the construct; the same in Python; and a piece of what `explain` says of it."""

    text: str
    python: FluentPattern | FluentQuery
    says: str


def _whole(pattern: FluentPattern) -> FluentQuery:
    return pattern.where(same("id")).within(8)


def _marked(text: str, pattern: FluentPattern, says: str) -> Construct:
    return Construct(f"{text} WHERE [id] WITHIN 8", _whole(pattern), says)


def _chosen(clauses: str, python: FluentQuery, says: str = "") -> Construct:
    return Construct(f"SEQ(A a, B b, C c) WHERE [id] WITHIN 8 {clauses}", python, says or clauses)


CHAIN = _whole(seq(A, B, C))

CONSTRUCTS: dict[str, Construct] = {
    # 1. marks, STRATEGY, ANY, forms of Gu 2011
    "NEXT": _marked("SEQ(A a, NEXT B b)", seq(A, B.next()), "ANY next'"),
    "NEXT OF": _marked("SEQ(A a, NEXT OF (C, D) B b)", seq(A, B.next(of=("C", "D"))), "D next'"),
    "FIRST": _marked("SEQ(A a, FIRST B b, C c)", seq(A, B.first(), C), "B b'"),
    "LAST": _marked("SEQ(A a, LAST B b, C c)", seq(A, B.last(), C), "forbidden in (end(b), start(c))"),
    "ANY": _marked(
        "SEQ(A a, !(ANY x : type(x) <> 'B'), C c)", seq(A, ~any_event("x").where("type(x) <> 'B'"), C), "type(x) <> 'B'"
    ),
    "ANY positive": Construct(
        "SEQ(ANY x, B b) WHERE [id] AND x.v > 1 WITHIN 3",
        seq(any_event("x"), B).where(same("id"), "x.v > 1").within(3),
        "leaf      ANY x",
    ),
    "STRATEGY any": Construct(
        "SEQ(A a, B b) WHERE [id] WITHIN 8 STRATEGY any", _whole(seq(A, B)).strategy("any"), "loops     b > a"
    ),
    "STRATEGY next": Construct("SEQ(A a, B b, C c) WHERE [id] WITHIN 8 STRATEGY next", CHAIN.strategy("next"), "C c'"),
    "STRATEGY strict": Construct(
        "SEQ(A a, B b) WHERE [id] WITHIN 8 STRATEGY strict", _whole(seq(A, B)).strategy("strict"), "ANY next'"
    ),
    "CONTINUITY ALL": Construct(
        "SEQ(A a, B b) WHERE [id] WITHIN 8 CONTINUITY ALL", _whole(seq(A, B)).continuity(), "not type(#) = 'A'"
    ),
    "CONTINUITY type": Construct(
        "SEQ(A a, B b, C c) WHERE [id] WITHIN 8 CONTINUITY OF (B)", CHAIN.continuity("B"), "leaf      B #"
    ),
    "two strict ends": Construct(
        "SEQ(A a, B b) WHERE [id] WITHIN (1, 6)",
        seq(A, B).where(same("id")).longer_and_shorter(1, 6),
        "last end(a, b) - first start(a, b) > 1",
    ),
    # 2. optional steps, repetitions, UNTIL, groups, timed absence
    "?": _marked("SEQ(A a, B? b, C c)", seq(A, B.optional(), C), "alternative 2 of 2"),
    "*": _marked("SEQ(A a, B* b, C c)", seq(A, B.star(), C), "B{1,} b"),
    "{0,m}": _marked("SEQ(A a, B{0,1} b, C c)", seq(A, B.times(0, 1), C), "B{1,1} b"),
    "MAYBE": _marked("SEQ(A a, MAYBE B b, C c)", seq(A, B.maybe(), C), "alternative 2 of 2"),
    "FIRST {n,m}": _marked("SEQ(A a, FIRST B{1,2} b, C c)", seq(A, B.times(1, 2).first(), C), "the first 2"),
    "LAST {n,m}": _marked("SEQ(A a, LAST B{1,2} b, C c)", seq(A, B.times(1, 2).last(), C), "the last 2"),
    "EACH": _marked("SEQ(A a, EACH B{1,3} b)", seq(A, B.times(1, 3).each()), "a prefix"),
    "NEXT run": _marked("SEQ(A a, NEXT B+ b, C c)", seq(A, B.plus().next(), C), "ends the run b"),
    "EACH NEXT": _marked("SEQ(A a, EACH NEXT B{1,3} b)", seq(A, B.times(1, 3).each(next=True)), "ends the run b"),
    "repetition alone": _marked("FIRST A{2} a", A.times(2).first(), "A{2,2} a, a prefix"),
    "two repetitions": _marked(
        "SEQ(A a, FIRST B+ b, FIRST C+ c)", seq(A, B.plus().first(), C.plus().first()), "C{1,} c in (end(b)"
    ),
    "members": Construct(
        "SEQ(A a, B+ b, C c) WHERE [id] AND b[1].v < b[-1].v WITHIN 8 SELECT b[1].v AS low, b[-1].v AS high",
        seq(A, B.plus(), C)
        .where(same("id"), col.b[1].v < col.b[-1].v)
        .within(8)
        .select(low=col.b[1].v, high=col.b[-1].v),
        "first(b.v) < last(b.v)",
    ),
    "prev": Construct(
        "SEQ(A a, B+ b, C c) WHERE [id] AND b.v >= prev(b.v) WITHIN 8",
        seq(A, B.plus(), C).where(same("id"), col.b.v >= prev("b.v")).within(8),
        "prev",
    ),
    "count distinct": Construct(
        "SEQ(A a, B+ b, C c) WHERE [id] AND count(distinct b.v) > 1 WITHIN 8",
        seq(A, B.plus(), C).where(same("id"), count_distinct("b.v") > 1).within(8),
        "distinct",
    ),
    "UNTIL condition": _marked(
        "SEQ(A a, B+ b UNTIL b.v > 1, C c)", seq(A, B.plus().until("b.v > 1"), C), "b'until.v > 1"
    ),
    "UNTIL type": _marked(
        "SEQ(A a, B+ b UNTIL X x : x.v > 0, C c)",
        seq(A, B.plus().until(event("X", "x").where("x.v > 0")), C),
        "X b'until",
    ),
    "group": _marked(
        "SEQ(C c, (SEQ(A a, FIRST B b))+ g, D d)", seq(C, VISIT.repeated(name="g"), D), "one behind the other"
    ),
    "group alone": _marked("(SEQ(A a, FIRST B b)){2} g", VISIT.repeated(2, name="g"), "one behind the other"),
    "group at the end": _marked(
        "SEQ(C c, FIRST (SEQ(A a, FIRST B b)){1,2} g)",
        seq(C, VISIT.repeated(1, 2, name="g").first()),
        "the first of them",
    ),
    "group negated": _marked(
        "SEQ(C c, !(SEQ(A a, FIRST B b))+ g, D d)", seq(C, ~VISIT.repeated(name="g"), D), "one behind the other"
    ),
    "group aggregates": Construct(
        "SEQ(C c, (SEQ(A a, FIRST B b))+ g, D d) WHERE [id] WITHIN 8 SELECT count(g) AS visits, sum(a.v) AS total",
        _whole(seq(C, VISIT.repeated(name="g"), D)).select(visits=count("g"), total=sum_("a.v")),
        "one behind the other",
    ),
    "FOR between": Construct(
        "SEQ(A a, !B b FOR 2, C c) WHERE [id] WITHIN 8",
        _whole(seq(A, (~B).lasting(2), C)),
        "forbidden in (end(a), end(a) + 2)",
    ),
    "FOR first": Construct(
        "SEQ(!B b FOR 2, A a) WHERE [id]", seq((~B).lasting(2), A).where(same("id")), "[start(a) - 2, start(a))"
    ),
    "FOR last": Construct(
        "SEQ(A a, !B b FOR 2) WHERE [id]", seq(A, (~B).lasting(2)).where(same("id")), "bounded by FOR"
    ),
    # 3. timeouts
    "TIMEOUT": Construct(
        "SEQ(A a, B b, C c) WHERE [id] WITHIN 3 TIMEOUT",
        seq(A, B, C).where(same("id")).within(3, timeout=True),
        "rows of kind timeout, when c does not come",
    ),
    # 4. after a match
    "SKIP PAST LAST EVENT": _chosen("AFTER MATCH SKIP PAST LAST EVENT", CHAIN.skip_past_last_event()),
    "SKIP TO NEXT EVENT": _chosen("AFTER MATCH SKIP TO NEXT EVENT", CHAIN.skip_to_next_event()),
    "SKIP TO FIRST": _chosen("AFTER MATCH SKIP TO FIRST b", CHAIN.skip_to_first("b")),
    "SKIP TO LAST": _chosen("AFTER MATCH SKIP TO LAST b", CHAIN.skip_to_last("b")),
    "LIMIT": _chosen("LIMIT 2", CHAIN.limit(2)),
    "LIMIT PER EVERY": _chosen("LIMIT 1 PER id EVERY 6", CHAIN.limit(1, per="id", every=6)),
    "DISTINCT": _chosen("DISTINCT BY b.v", CHAIN.distinct_by("b.v")),
    "DISTINCT EVERY": _chosen("DISTINCT BY b.v EVERY 3", CHAIN.distinct_by("b.v", every=3)),
    # 5. consumption
    **{
        f"CONSUME {mode}": _chosen(
            f"CONSUME {mode}", CHAIN.consume(mode), "bounded" if mode == "unrestricted" else f"consume   {mode}"
        )
        for mode in MODES
    },
    **{
        f"CONSUME {mode} AND": Construct(
            f"AND(A a, B b) WHERE [id] WITHIN 8 CONSUME {mode}", _whole(all_of(A, B)).consume(mode), f"consume   {mode}"
        )
        for mode in MODES
        if mode != "unrestricted"
    },
    "CONSUME OR": Construct(
        "OR(A a, B b) WHERE [id] CONSUME chronicle",
        any_of(A, B).where(same("id")).consume("chronicle"),
        "consume   chronicle",
    ),
    "CONSUME negated": Construct(
        "SEQ(A a, !X x, B b) WHERE [id] WITHIN 8 CONSUME recent",
        _whole(seq(A, ~X, B)).consume("recent"),
        "consume   recent",
    ),
    "CONSUME sets": Construct(
        "SEQ(A a, B b, C c) WHERE [id] AND count(b) > 1 AND sum(a.v) >= 1 WITHIN 8 CONSUME cumulative",
        seq(A, B, C).where(same("id"), count("b") > 1, sum_("a.v") >= 1).within(8).consume("cumulative"),
        "consume   cumulative",
    ),
    # 6. counting
    "count by recurrence": _chosen("SELECT count(*), sum(b.v)", CHAIN.select(count(), sum_("b.v")), ""),
    "count one by one": Construct(
        "SEQ(A a, B b, C c) WHERE [id] AND a.v < c.v WITHIN 8 SELECT count(*), max(c.v)",
        seq(A, B, C).where(same("id"), "a.v < c.v").within(8).select(count(), "max(c.v)"),
        "one by one",
    ),
    "count of marked": Construct(
        "SEQ(A a, FIRST B b, C c) WHERE [id] WITHIN 8 SELECT count(*), avg(b.v)",
        _whole(seq(A, B.first(), C)).select(count(), "avg(b.v)"),
        "one by one",
    ),
    "GROUP BY": _chosen(
        "SELECT count(*), min(c.v) GROUP BY id", CHAIN.select(count(), "min(c.v)").group_by("id"), "GROUP BY id"
    ),
    "EVERY": _chosen("SELECT count(*) EVERY 10", CHAIN.select(count()).group_by(every=10), "EVERY 10"),
    "GROUP BY value EVERY": _chosen(
        "SELECT count(*), b.v AS value GROUP BY b.v EVERY 12",
        CHAIN.select(count(), value="b.v").group_by("b.v", every=12),
        "EVERY 12",
    ),
}


def text_of(name: str) -> str:
    return f"EVENT {CONSTRUCTS[name].text}"


def stream(seed: int, size: int = 26) -> list[Event]:
    """Points of five types and two keys in order of time, some at one time."""
    random = Random(f"a stream {seed}")
    times = sorted(random.randrange(size) for _ in range(size))
    return [
        Event(random.choice("AABBCCDX"), at, at, eid, {"id": random.randint(1, 2), "v": random.randint(0, 3)})
        for eid, at in enumerate(times)
    ]


def rows_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    return [{"type": each.type, "time": each.end, "eid": each.eid, **each.attrs} for each in events]


def defined(name: str, events: Sequence[Event]) -> Counter[Row]:
    """What the oracle finds, as `told` shows it."""
    query = parse(text_of(name))
    return Counter(_defined(match, bool(query.select)) for match in matches(query, events))


def _defined(match: Match, selects: bool) -> Row:
    if selects:
        kind = "match" if match.group is None else "count"
        whole = kind == "count" and match.start == BEGINNING
        return (kind, *((None, None) if whole else (match.start, match.end)), *map(repr, (match.select or {}).values()))
    return ("match" if match.step is None else "timeout", match.step, frozenset(match.binding))


def told(name: str, answers: Iterable[Mapping[str, Any]], called: Mapping[str, str] | None = None) -> Counter[Row]:
    """What stands after the answers of one query: kind, missing step, eids; or times and values where it has SELECT.

    `called`: what the variables are called in the construct, where the answers have other names for them.
    """
    shown = [item.name or print_expr(item.expr) for item in parse(text_of(name)).select]
    net: Counter[Row] = Counter()
    for answer in answers:
        net[_row(answer, shown, called or {})] += answer["op"]
    if any(number < 0 for number in net.values()):
        raise AssertionError(f"{name}: withdrawn more often than given: {net}")
    return +net


# --- all constructs in one job ---------------------------------------------------------------------------------------

LATE = 4  # by how much events come late where they do
EVENTS = stream(4, 44)
HYBRID = f"hybrid(B=conservative, X=conservative, {LATE})"
CORRECTING = (f"conservative({LATE})", f"aggressive({LATE})", HYBRID, f"auto({LATE})")
NAMED = {name: f"q{number}" for number, name in enumerate(CONSTRUCTS)}
_SHARED = {name: with_shared_columns(replace(parse(text_of(name)), name=NAMED[name])) for name in CONSTRUCTS}


def together(names: Iterable[str] = CONSTRUCTS) -> Query:
    """Some constructs as one job: each has a name, and their results share columns."""
    return Query(tuple(_SHARED[name][0] for name in names))


def differences(rows: Iterable[Mapping[str, Any]], names: Iterable[str] = CONSTRUCTS) -> list[str]:
    """Each construct whose rows, among those of several constructs, are not those of the oracle."""
    answers = [row for row in rows if row["kind"] in ANSWERS]
    problems = []
    for name in names:
        found = told(name, (row for row in answers if row["query"] == NAMED[name]), _SHARED[name][1])
        wanted = defined(name, EVENTS)
        if found != wanted:
            problems.append(f"{name}: missing {wanted - found}, not expected {found - wanted}")
    return problems


HEAD = ("query", "kind", "match_id", "op", "start", "end", "settled_at", "step", "details")


def _row(answer: Mapping[str, Any], shown: Sequence[str], called: Mapping[str, str]) -> Row:
    if shown:
        return (answer["kind"], answer["start"], answer["end"], *(repr(answer[column]) for column in shown))
    bound = {called.get(name, name): _eids(value) for name, value in answer.items() if name not in HEAD}
    step = answer.get("step")
    return (
        answer["kind"],
        step and called.get(step, step),
        frozenset((var, eids) for var, eids in bound.items() if eids),
    )


def _eids(value: Any) -> tuple[Any, ...]:
    several = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(each["eid"] for each in several)
