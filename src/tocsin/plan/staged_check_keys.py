"""Static checks of GKey and LKey: which roles a key covers, and whether its ranges are apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from tocsin.errors import Problem
from tocsin.lang.staged_syntax import KeyEntry, KeyRange, NestedBlock, PartitionKey, Statement
from tocsin.lang.syntax import Literal
from tocsin.plan.staged_places import Role, StatementPlaces, bounds_of

Found = Iterator[Problem]


def entry_for(key: PartitionKey, role: Role) -> KeyEntry | None:
    """The entry of a key that counts for a role: that of its label, else of its type, else `*`."""
    for name in (role.label, role.type, None):
        for entry in key.entries:
            if entry.name == name and (name is not None or entry.name is None):
                return entry
    return None


def key_problems(places: StatementPlaces) -> Found:
    """What is wrong with the keys of a statement."""
    statement = places.statement
    yield from _keys_of(statement, places.roles, places)
    for block in places.blocks:
        yield from _keys_of(block, places.roles_in(block), places)


def _keys_of(node: Statement | NestedBlock, roles: Sequence[Role], places: StatementPlaces) -> Found:
    """A global key covers all roles; a local one the operands, and all roles inside of blocks."""
    operands = [role for role in roles if all(role is not each for each in bounds_of(node))]
    for key in node.gkeys:
        yield from _coverage(key, roles, places.roles, "GKey")
        yield from _ranges(key)
    for key in node.lkeys:
        yield from _coverage(key, operands, places.roles, "LKey")
        yield from _ranges(key)


def _coverage(key: PartitionKey, covered: Sequence[Role], known: Sequence[Role], clause: str) -> Found:
    names = {name for role in covered for name in (role.label, role.type)}
    every = {name for role in known for name in (role.label, role.type)}
    for entry in key.entries:
        if entry.name is not None and entry.name not in names:
            what = "bounds the context, and an LKey is for operands" if entry.name in every else "is no role here"
            yield Problem(
                f"{entry.name} {what}", entry.span, hint=f"there are {', '.join(sorted(filter(None, names)))}"
            )
    for role in covered:
        if entry_for(key, role) is None:
            who = "operands, initiators and terminators" if clause == "GKey" else "operands"
            hint = f"a {clause} has an attribute for all {who}; *.attr stands for all"
            yield Problem(f"the {clause} has no attribute for {role.called}", key.span, hint=hint)
    for at, entry in enumerate(key.entries):
        if any(entry.name == other.name for other in key.entries[:at]):
            yield Problem(
                f"the key names {entry.name or '*'} twice", entry.span, hint="repeat the clause for a second key"
            )


def _ranges(key: PartitionKey) -> Found:
    if sum(each.is_rest for each in key.ranges) > 1:
        yield Problem("a second Rest", key.span, hint="Rest is everything that the other ranges leave")
    kinds = {kind_of_literal(each) for one in key.ranges for each in _literals(one)}
    if len(kinds) > 1:
        yield Problem("ranges of different kinds", key.span, hint="all values of a key are numbers, or all are texts")
        return
    for at, one in enumerate(key.ranges):
        if one.between is not None and kinds != {"number"}:
            yield Problem("only numbers have ranges from .. to", one.span, hint="list texts: {'a', 'b'}")
            return
        if one.between is not None and _number(one.between[0]) > _number(one.between[1]):
            yield Problem("this range is empty", one.span, hint="write the smaller value first")
        if any(_overlap(one, other) for other in key.ranges[:at]):
            yield Problem("this range overlaps another one", one.span, hint="each value belongs to one range")


def _literals(one: KeyRange) -> list[Literal]:
    return [*one.values, *(one.between or ())]


def kind_of_literal(literal: Literal) -> str:
    if isinstance(literal.value, bool):
        return "boolean"
    return "text" if isinstance(literal.value, str) else "number" if literal.value is not None else "null"


def _number(literal: Literal) -> Decimal:
    assert isinstance(literal.value, (int, Decimal))
    return Decimal(literal.value)


def _overlap(one: KeyRange, other: KeyRange) -> bool:
    if one.is_rest or other.is_rest:
        return False
    if one.between is not None and other.between is not None:
        (low, high), (first, last) = (tuple(map(_number, each.between or ())) for each in (one, other))
        return low <= last and first <= high
    if one.between is None and other.between is None:
        return bool({each.value for each in one.values} & {each.value for each in other.values})
    whole, listed = (one, other) if one.between is not None else (other, one)
    low, high = (_number(each) for each in whole.between or ())
    return any(low <= _number(each) <= high for each in listed.values)
