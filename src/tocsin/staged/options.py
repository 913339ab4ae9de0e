"""What the options of a pattern mean: `And(A, B)<incremental, distinct, repeat, active>`.

incremental  a match counts only where something in it ends in this stage: a condition like any other
distinct     no event stands at two operands of a match
repeat       what a match has consumed is gone, and the pattern is looked for again in the same stage
active       it is also looked for when an event leaves a negated or counted operand by its range, and when the least
             start of what may still come (`sst`) passes a time of an event with which Where compares it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from tocsin.lang.staged_syntax import (
    COUNTING,
    Compared,
    LeafOperand,
    Logical,
    OperatorCall,
    StableTime,
    StagedExpr,
    Statement,
    TimeOf,
    parts,
)
from tocsin.staged.spots import PatternSpot

WHOLE = "\0"  # what a pattern without a label is called in the condition


def written_out(statement: Statement) -> Statement:
    """The statement with `incremental` as a condition of Where: that the match ends now."""
    if "incremental" not in statement.options:
        return statement
    pattern = statement.pattern
    assert isinstance(pattern, OperatorCall)
    names = [each.called for each in pattern.operands if isinstance(each, LeafOperand)]
    if pattern.operator in ("And", "Sequence", "Concurrent") and len({*names}) == len(pattern.operands):
        ends: list[StagedExpr] = [_ends_now(name) for name in names]
        return replace(statement, where=_with(statement.where, reduce(_either, ends)))
    pattern = replace(pattern, label=pattern.label or WHOLE)
    return replace(statement, pattern=pattern, where=_with(statement.where, _ends_now(str(pattern.label))))


def _ends_now(name: str) -> StagedExpr:
    return Compared("=", TimeOf("end-ts", name), StableTime())


def _either(one: StagedExpr, other: StagedExpr) -> StagedExpr:
    return Logical("OR", one, other)


def _with(where: StagedExpr | None, more: StagedExpr) -> StagedExpr:
    return more if where is None else Logical("AND", where, more)


def kept_apart(root: PatternSpot) -> dict[int, tuple[int, ...]]:
    """For `distinct`: by the number of a leaf, the others that could have the same event."""
    leaves = [(spot.number, spot.leaf.type) for spot in root.leaves() if spot.leaf is not None]
    counts = Counter(type for _, type in leaves)
    return {
        number: tuple(other for other, its in leaves if its == type and other != number)
        for number, type in leaves if counts[type] > 1
    }  # fmt: skip


def giving_way(root: PatternSpot) -> list[int]:
    """For `active`: the leaves whose events are in the way of a match, or counted, until they are too old."""
    found: list[int] = []

    def walk(spot: PatternSpot, inside: bool) -> None:
        if spot.leaf is not None and inside and spot.leaf.range is not None and not spot.block:
            found.append(spot.number)
        for at, each in enumerate(spot.spots):
            hides = spot.operator in ("Not", *COUNTING) or (spot.operator == "Unless" and at == 1)
            walk(each, inside or hides)

    walk(root, False)
    return found


@dataclass(frozen=True, slots=True)
class Waking:
    """A leaf with whose times sst is compared, and how long after such a time that turns out otherwise.

    start  it is their start, else their end
    """

    leaf: int
    start: bool
    behind: int


def waking(statement: Statement, root: PatternSpot, longest: Mapping[str, int]) -> list[Waking]:
    """For `active`: the comparisons of sst with a time of an operand, which time alone makes true or false."""
    leaves = {spot.name: spot for spot in root.leaves() if spot.leaf is not None and not spot.block}
    leaves = {name: spot for name, spot in leaves.items() if spot.number not in _sources(root)}
    return list(dict.fromkeys(_waking(statement, leaves, longest)))


def _waking(
    statement: Statement, leaves: Mapping[str | None, PatternSpot], longest: Mapping[str, int]
) -> Iterator[Waking]:
    for node in parts(statement):
        if not isinstance(node, Compared) or not isinstance(node.left, TimeOf) or not isinstance(node.right, TimeOf):
            continue
        later, earlier, op = node.left, node.right, str(node.op)
        if earlier.which == "sst":
            later, earlier, op = earlier, later, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
        one, other = leaves.get(later.name), leaves.get(earlier.name)
        if later.which != "sst" or earlier.which == "sst" or one is None or one.leaf is None or other is None:
            continue
        lasting = longest.get(one.leaf.type, 0)
        # It is equal just then, and differs from the next moment on.
        for behind in {">": (1,), "<=": (1,), ">=": (0,), "<": (0,)}.get(op, (0, 1)):
            yield Waking(other.number, earlier.which == "start-ts", lasting + behind)


def _sources(root: PatternSpot) -> set[int]:
    """The leaves of After: they hold their events for a time of their own."""
    return {spot.spots[0].number for spot in root.all() if spot.operator == "After"}
