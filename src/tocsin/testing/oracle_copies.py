"""Which copy of an event counts, for the oracle: of those that the query sees, the least (docs/semantics.md, 9).

Copies have one eid, type, start, end and key. A query sees a row if one of its leaves takes it: every condition that
concerns this event alone is TRUE. Of copies that differ, the attributes decide in the order of their names: null is
less than any value, then smaller numbers and texts come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tocsin.events import ANY, Event, Value
from tocsin.lang.syntax import Attr, Between, Binary, Expr, Leaf, Query, Unary, walk
from tocsin.testing.oracle_expr import OracleEvaluator, set_variables, stepped_variables, variables
from tocsin.testing.oracle_parts import Alternative, key_attributes, var_of, within_block

Test: TypeAlias = tuple[str, str, tuple[Expr, ...]]  # the type and the variable of a leaf, its conditions on one event
Rank: TypeAlias = tuple[int, object]


def seen_by(
    query: Query,
    blocks: Sequence[Alternative],
    events: Iterable[Event],
    reader: OracleEvaluator,
    key: Mapping[str, Sequence[str]],
) -> list[Event]:
    """Each event that the query sees once, however often it was delivered.

    An event is known by its eid, its type, its times and its key. One whose key has a null, or NaN, is not seen. `key`
    has the attributes of a key that equalities make, by type.
    """
    needs = key_attributes(query)
    groups: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        own = [event.attrs.get(attr) for attr in needs]
        if all(value is not None and value == value for value in own):
            more = [event.attrs.get(attr) for attr in key.get(event.type, ())]
            groups.setdefault((event.type, event.start, event.end, event.eid, *own, *more), []).append(event)
    if all(len(copies) == 1 for copies in groups.values()):
        return [event for (event,) in groups.values()]
    tests = [test for block in blocks for test in leaf_tests(block, frozenset(), reader)]
    if query.continuity is not None:  # it asks nothing of the events that it forbids
        tests += [(type, "", ()) for type in query.continuity.types]
    names = content_names(query)
    return [the_one(copies, tests, names, reader) for copies in groups.values()]


def the_one(copies: list[Event], tests: list[Test], names: frozenset[str] | None, reader: OracleEvaluator) -> Event:
    """The copy that counts. Where no leaf takes any of them, none takes part in anything."""
    if len(copies) == 1:
        return copies[0]
    taken = [event for event in copies if takes(event, tests, reader)]
    every = sorted({name for event in copies for name in event.attrs} if names is None else names)
    return min(taken or copies, key=lambda event: [rank(event.attrs.get(name)) for name in every])


def takes(event: Event, tests: list[Test], reader: OracleEvaluator) -> bool:
    return any(
        type in (event.type, ANY) and all(reader.true(each, {var: event}) for each in asked)
        for type, var, asked in tests
    )


def rank(value: Value) -> Rank:
    """Null first, NaN last."""
    if value is None:
        return (0, 0)
    return (2, 0) if value != value else (1, value)


def content_names(query: Query) -> frozenset[str] | None:
    """The attributes in which copies can differ: what the query reads or selects; None: all, it shows them."""
    if not query.select and not query.hidden:
        return None
    mentioned = {node.name for node in walk(query) if isinstance(node, Attr)}
    return frozenset(mentioned.union(key_attributes(query)))


def leaf_tests(block: Alternative, above: frozenset[str], reader: OracleEvaluator) -> Iterator[Test]:
    """The leaves of a block and of its negated parts, with what is asked of an event alone.

    Where a condition asks only about branches of an OR that were not chosen, and is not TRUE, nothing is ever taken.
    """
    there = above | block.variables
    sets = {repetition.var for repetition in block.repetitions}
    heads = {repetition.head for repetition in block.repetitions}
    asked = [*block.predicates, *(each for repetition in block.repetitions for each in repetition.membership)]
    parts = [
        part
        for expr in asked
        for part in opened(expr)
        if not set_variables(part) & sets and not stepped_variables(expr) & sets
    ]
    if not all(reader.true(part, {}) for part in parts if not variables(part) & there):
        return
    for leaf in within_block(block.pattern):
        if isinstance(leaf, Leaf) and var_of(leaf) not in heads:  # of a first member the same is asked as of the others
            var = var_of(leaf)
            yield leaf.type, var, tuple(part for part in parts if variables(part) & there == {var})
    runs = [repetition.place.marked for repetition in block.repetitions if repetition.place.marked is not None]
    for marked in (*(gap.marked for gap in block.marks), *runs):
        if marked.is_strict:  # it asks nothing of the events that it forbids
            yield from ((type, "", ()) for type in marked.of or (ANY,))
    for negation in block.negations:
        for inner in negation.alternatives:
            yield from leaf_tests(inner, there, reader)


def opened(expr: Expr) -> Iterator[Expr]:
    """The parts of a condition that must all be TRUE: AND is opened, and NOT of OR, NOT of NOT, BETWEEN."""
    match expr:
        case Binary("AND", left, right):
            yield from opened(left)
            yield from opened(right)
        case Unary("NOT", Binary("OR", left, right)):
            yield from opened(Unary("NOT", left))
            yield from opened(Unary("NOT", right))
        case Unary("NOT", Unary("NOT", inner)):
            yield from opened(inner)
        case Between(operand, low, high, negated=False):
            yield Binary(">=", operand, low)
            yield Binary("<=", operand, high)
        case _:
            yield expr
