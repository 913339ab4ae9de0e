"""Staged statements in Python build exactly the nodes that the same text gives."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import tocsin
from tests.effort import examples
from tocsin.errors import TocsinError
from tocsin.lang import fluent, staged_fluent
from tocsin.lang.fluent import FluentExpr, avg, call, col, count, end, lit, max_, start
from tocsin.lang.parser import parse_file
from tocsin.lang.staged_fluent import (
    AGGREGATES,
    FluentOperand,
    FluentStatement,
    after,
    among,
    and_,
    at,
    at_least,
    between,
    block,
    create_ce,
    every,
    if_null,
    not_,
    operand,
    or_,
    rest,
    sequence,
    set_of,
    sst,
    stable_time,
    union,
    unless,
)
from tocsin.lang.staged_syntax import (
    AggregateOf,
    Arithmetic,
    AttrOf,
    Collection,
    Compared,
    Denied,
    EventsOf,
    IfNull,
    LeafOperand,
    Logical,
    Negative,
    NestedBlock,
    PartitionKey,
    StableTime,
    Statement,
    TimeOf,
    UnionOf,
)
from tocsin.lang.syntax import Literal
from tocsin.testing.draw_staged import drawn_statement

# --- the builders, as a drawn statement asks for them ----------------------------------------------------------------

OPERATORS = {
    "Sequence": "sequence", "And": "and_", "Or": "or_", "Concurrent": "concurrent", "Not": "not_", "Unless": "unless",
    "Nth": "nth", "AtLeast": "at_least", "AtMost": "at_most",
}  # fmt: skip
SIGNS = {
    "=": "__eq__", "!=": "__ne__", "<": "__lt__", ">": "__gt__", "<=": "__le__", ">=": "__ge__", "AND": "__and__",
    "OR": "__or__", "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__",
}  # fmt: skip


def built_expr(node: Any) -> FluentExpr:
    match node:
        case Literal():
            return lit(node.value)
        case AttrOf(name=None):
            return col(node.attr)
        case AttrOf():
            return col(str(node.name), node.attr)
        case TimeOf():
            return {"start-ts": start, "end-ts": end, "sst": sst}[node.which](node.name)
        case StableTime():
            return stable_time
        case IfNull():
            return if_null(built_expr(node.of), node.instead.value)
        case Negative():
            return -built_expr(node.of)
        case Denied():
            return ~built_expr(node.of)
        case Arithmetic() | Compared() | Logical():
            found: FluentExpr = getattr(built_expr(node.left), SIGNS[node.op])(built_expr(node.right))
            return found
        case AggregateOf():
            word = next(word for word, function in AGGREGATES.items() if function == node.function)
            return call(word, built_collection(node.of))
    raise AssertionError(node)


def built_collection(of: Any) -> FluentExpr:
    if isinstance(of, UnionOf):
        return union(built_collection(of.left), built_collection(of.right))
    assert isinstance(of, Collection)
    inner = col(of.of.name) if isinstance(of.of, EventsOf) else built_expr(of.of)
    return inner if of.mark is None else {"Set": set_of, "Bag": staged_fluent.bag}[of.mark](inner)


def length(duration: Any) -> Any:
    return int(duration.amount) if duration.unit is None else f"{duration.amount} {duration.unit}"


def built(node: Any) -> FluentOperand:
    if isinstance(node, NestedBlock):
        return with_contexts(block(built(node.pattern)), node)
    if isinstance(node, LeafOperand):
        how = node.quantifier
        most = True if how.most is None else how.most
        span = None if node.range is None else length(node.range)
        return operand(
            node.type, node.label, *map(built_expr, node.conditions), rows=node.rows, stages=node.stages, range=span,
            newest=most if how.age == "new" else None, oldest=most if how.age == "old" else None, every=how.every,
            strict=how.strict, staged=how.staged, consume=node.consume, weight=node.weight,
        )  # fmt: skip
    inner = [built(each) for each in node.operands]
    match node.operator:
        case "" if node.mode is None:
            found = getattr(inner[0], node.options[0])()
        case "":
            found = inner[0]
        case "At":
            found = at(str(node.pattern))
        case "Every":
            found = every(length(node.interval))
        case "After":
            size = {} if node.size is None else {node.size.unit: node.size.most, "add": node.size.add}
            found = after(inner[0], length(node.interval), **size)
        case _:
            found = getattr(staged_fluent, OPERATORS[node.operator])(*[node.count] * (node.count is not None), *inner)
    if node.mode is not None:
        found = getattr(found, node.mode)()
    for option in node.options:
        found = getattr(found, option)()
    return found if node.label is None else found.named(node.label)


def with_contexts(found: Any, node: Any) -> Any:
    for init in node.inits:
        found = found.init(init.type, init.label, *map(built_expr, init.conditions), add=init.add)
    for term in node.terms:
        conditions, more = map(built_expr, term.conditions), {"which": term.which, "discard": term.discard}
        wait = None if term.after is None else length(term.after)
        found = found.term(term.type, term.label, *conditions, after=wait, **more)
    for word, keys in (("gkey", node.gkeys), ("lkey", node.lkeys)):
        for key in keys:
            found = getattr(found, word)(*entries(key), name=key.name, ranges=map(built_range, key.ranges))
    return found


def entries(key: PartitionKey) -> list[str]:
    return [f"{each.name or '*'}.{each.attr}" for each in key.entries]


def built_range(each: Any) -> Any:
    if each.is_rest:
        return rest(each.label)
    if each.between is not None:
        return between(*(one.value for one in each.between), each.label)
    return among(*(one.value for one in each.values), label=each.label)


def built_statement(node: Statement) -> FluentStatement:
    found = with_contexts(create_ce(node.name, built(node.pattern)), node)
    named = {column.name: built_expr(column.expr) for column in node.select if column.name is not None}
    bare = [built_expr(column.expr) for column in node.select if column.name is None]
    word = "select" if node.mapping is None else f"select_{node.mapping}"
    found = getattr(found, word)(*bare, **named)
    return found if node.where is None else found.where(built_expr(node.where))


def test_python_builds_what_text_gives() -> None:
    for seed in range(examples(3000, least=200)):
        statement = drawn_statement(Random(seed))
        made = built_statement(statement)
        assert made.node == statement, seed
        assert made.statement == statement, seed


# --- by hand -------------------------------------------------------------------------------------------------------

SPEEDING = """CreateCE Speeding
Select Group Avg(Set(Car.speed) Union Morning.speed) as mean, Max(Is-Null(Car.speed, 0)) as most, Count(Car) as n,
       Region.labels as region
Init At8am as Morning<"speed > 1", add>
Event Or(Unless(Car<"speed > 60", stages 1>, AtLeast(10, Car as Others<old max 3, range 5 min, consume>)),
         And(Every(5), After(Car[rows 2, add], 30 s), At("****/**/**/12:00:00.000")) as Timed,
         Sequence(Stop, {Init A Event Not(B)<deferred> Term 5 GKey *.k}))
Where Others.speed > Car.speed AND end-ts(Timed) = stable-time AND NOT sst(Car) < start-ts(Timed)
Term At6pm<old, discard>, 24 h
GKey *.town
LKey *.linkId as Region (In 1..50 as one, {51, 52} as two, Rest as other)
DETECT GUARANTEED"""


def test_every_clause() -> None:
    car, others = col.Car, operand("Car", "Others", oldest=3, range="5 min", consume=True)
    inside = block(not_("B").deferred()).init("A").term(after=5).gkey("*.k")
    pattern = or_(
        unless(operand("Car", None, col("speed") > 60, stages=1), at_least(10, others)),
        and_(every(5), after("Car", "30 s", rows=2, add=True), at("****/**/**/12:00:00.000")).named("Timed"),
        sequence("Stop", inside),
    )
    made = (
        create_ce("Speeding", pattern)
        .select_group(
            mean=avg(union(set_of(car.speed), col.Morning.speed)), most=max_(if_null(car.speed, 0)), n=count("Car"),
            region=col.Region.labels,
        )
        .init("At8am", "Morning", col("speed") > 1, add=True)
        .where(col.Others.speed > car.speed, end("Timed") == stable_time, ~(sst("Car") < start("Timed")))
        .term("At6pm", which="old", discard=True)
        .term(after="24 h")
        .gkey("*.town")
        .lkey("*.linkId", name="Region", ranges=[between(1, 50, "one"), among(51, 52, label="two"), rest("other")])
        .policy("GUARANTEED")
    )  # fmt: skip
    (wanted,) = parse_file(SPEEDING)
    assert made.node == wanted
    assert made.statement == wanted
    assert parse_file(str(made)) == (wanted,)


def test_a_statement_of_python_runs() -> None:
    bags = create_ce("Filled", and_(operand("Bag", oldest=4, consume=True), operand("Box", oldest=1, consume=True)))
    made = bags.select(bag=col.Bag.id, box=col.Box.id).lkey("*.belt")
    rows = [{"type": type, "time": time, "id": time, "belt": belt} for time, (type, belt) in
            enumerate([("Bag", 1), ("Bag", 2), ("Bag", 1), ("Box", 1), ("Box", 1)])]  # fmt: skip
    found = tocsin.query(made).detect(rows)
    assert [(match["bag"], match["box"]) for match in found] == [(0, 3), (2, 3)]


@pytest.mark.parametrize(("make", "said"), [
    (lambda: operand("A", newest=1, oldest=1), "newest or its oldest"),
    (lambda: create_ce("X", "A").term(), "an event or by a length of time"),
    (lambda: create_ce("X", "A").gkey("k"), "'k' is no key"),
    (lambda: create_ce("X", "A").where(col.A.x.is_null()), "no such expression: A.x IS NULL"),
    (lambda: create_ce("X", "A").select(n=avg(col.A.x + 1)), "nothing can be collected of A.x"),
    (lambda: block("A").named("b"), "a block has no name"),
    (lambda: block("A").deferred(), "a block has no mode"),
    (lambda: block("A").distinct(), "a block has no options"),
    (lambda: create_ce("", "A"), "cannot be a name"),
    (lambda: fluent.col.A.x == create_ce, "cannot be a constant"),
])  # fmt: skip
def test_what_python_may_not_say(make: Any, said: str) -> None:
    with pytest.raises(TocsinError, match=said):
        make()
