"""Static checks of Select: what every name means there, what must be aggregated, and how columns are called."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tocsin.errors import Problem
from tocsin.lang.staged_syntax import (
    AggregateOf,
    AttrOf,
    Collection,
    IfNull,
    OperatorCall,
    OutputColumn,
    StagedExpr,
    TimeOf,
    UnionOf,
)
from tocsin.lang.syntax import Span
from tocsin.plan.staged_places import OperandPlace, StatementPlaces, collected_name
from tocsin.schema import RESULT_COLUMNS

Found = Iterator[Problem]


def column_name(places: StatementPlaces, column: OutputColumn) -> str | None:
    """How a column is called: as written, else by its attribute or its key."""
    if column.name is not None:
        return column.name
    if places.is_label(column.expr):
        assert isinstance(column.expr, AttrOf)
        return column.expr.name
    return column.expr.attr if isinstance(column.expr, AttrOf) else None


def select_problems(places: StatementPlaces) -> Found:
    """What is wrong with the Select of a statement."""
    seen: set[str] = set()
    for column in places.statement.select:
        name = column_name(places, column)
        if name is None:
            yield Problem("this column has no name", column.span, hint="write: ... as name")
        elif name in seen:
            yield Problem(f"a second column {name}", column.span, hint="give it another name: ... as other")
        elif name in RESULT_COLUMNS:
            yield Problem(f"every result has a column {name} of its own", column.span, hint="write: ... as other")
        seen.add(name or "")
        yield from _value(places, column.expr)


def _value(places: StatementPlaces, node: StagedExpr) -> Found:
    """Names outside and inside of aggregates."""
    if isinstance(node, AggregateOf):
        yield from _aggregate(places, node)
    elif isinstance(node, AttrOf):
        if not places.is_label(node):
            yield from _single(places, node.name, node)
    elif isinstance(node, TimeOf):
        yield from _single(places, node.name, node)
    elif isinstance(node, IfNull):
        yield from _single(places, node.of.name, node.of)
    else:
        for side in (getattr(node, name, None) for name in ("left", "right", "of")):
            if side is not None:
                yield from _value(places, side)


def _single(places: StatementPlaces, name: str | None, node: AttrOf | TimeOf) -> Found:
    """A name that must be one event."""
    if name is None:
        yield Problem(f"whose attribute is {getattr(node, 'attr', '')}?", node.span, hint="write the operand before it")
        return
    found = places.operands(name)
    if not found and (places.initiators(name) or places.terminators(name)):
        hint = f"several events may open or close a context: Max({name}.x)"
        yield Problem(f"{name} bounds the context and needs an aggregate", node.span, hint=hint)
    elif any(place.counted_by for place in found):
        hint = f"a counted operand is a set of events: Max({name}.x), Count({name})"
        yield Problem(f"{name} is counted and needs an aggregate", node.span, hint=hint)
    else:
        yield from _bound(places, name, node.span)
    if isinstance(node, AttrOf) and any(isinstance(place.node, OperatorCall) for place in found):
        yield Problem(f"{name} is an operator and has no attributes", node.span, hint=f"write end-ts({name})")


def _bound(places: StatementPlaces, name: str, span: Span | None) -> Found:
    """A name of operands: one of them can be bound, and at most one at a time."""
    found = places.operands(name)
    positive = [place for place in found if not place.negated]
    if not found:
        known = sorted({str(role.called) for role in places.roles})
        yield Problem(f"{name} is no operand", span, hint=f"there are {', '.join(known)}")
    elif not positive:
        yield Problem(f"{name} is negated, so no match has it", span, hint="select what the match has")
    elif any(not _apart(one, other) for one, other in combinations(positive, 2)):
        hint = "give the operands labels: A as first, A as second"
        yield Problem(f"{name} means {len(positive)} operands", span, hint=hint)


def _apart(one: OperandPlace, other: OperandPlace) -> bool:
    """Whether two operands stand in different branches of an Or."""
    for (call, at), (same, there) in zip(one.above, other.above, strict=False):
        if call is same and at != there:
            return call.operator == "Or"
    return False


def _aggregate(places: StatementPlaces, node: AggregateOf) -> Found:
    for collection in _collections(node.of):
        if collection.mark is not None and places.statement.mapping == "tuple":
            yield Problem(
                f"{collection.mark} in Select Tuple", collection.span, hint="Set and Bag are for Select Group"
            )
        if not isinstance(collection.of, AggregateOf):
            yield from _collected(places, collection, nested=False)
            continue
        if not places.is_group:
            hint = "one aggregate is enough for one match"
            yield Problem("an aggregate of an aggregate in tuple mapping", collection.span, hint=hint)
        for inner in _collections(collection.of.of):
            if isinstance(inner.of, AggregateOf) or inner.mark is not None:
                yield Problem("the inner aggregate runs over an attribute", inner.span, hint="write Sum(Bag(Max(A.x)))")
            else:
                yield from _collected(places, inner, nested=True)


def _collections(node: Collection | UnionOf) -> Iterator[Collection]:
    if isinstance(node, UnionOf):
        yield from _collections(node.left)
        yield node.right
    else:
        yield node


def _collected(places: StatementPlaces, collection: Collection, *, nested: bool) -> Found:
    of = collection.of
    assert not isinstance(of, AggregateOf)
    name = collected_name(of)
    if name is None:
        yield Problem("whose attribute is this?", collection.span, hint="write the operand before it: A.x")
        return
    found = places.operands(name)
    if not found and places.initiators(name):
        return
    if not found and places.terminators(name):
        if places.mode == "immediate":
            hint = "nobody knows the terminator before the context ends: make the pattern deferred or delayed"
            yield Problem(f"{name} closes the context, and the pattern is immediate", collection.span, hint=hint)
        return
    if any(isinstance(place.node, OperatorCall) for place in found):
        yield Problem(f"{name} is an operator and has no attributes", collection.span, hint="collect from its operands")
        return
    yield from _bound(places, name, collection.span)
    counted = any(place.counted_by for place in found)
    if places.is_group and counted and not nested:
        hint = f"aggregate the events of one match first: Sum(Bag(Count({name}.x)))"
        yield Problem(f"{name} is a set in each match of the group", collection.span, hint=hint)
    if nested and not counted and found:
        hint = f"{name} has one event in each match: write Max(Set({name}.x))"
        yield Problem("the inner aggregate has only one value", collection.span, hint=hint)
