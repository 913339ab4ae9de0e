"""The pattern of a statement as a tree of numbered spots, with what follows from its text alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tocsin.errors import Problem, QueryError
from tocsin.lang.staged_syntax import COUNTING, LeafOperand, NestedBlock, OperatorCall, StagedPattern
from tocsin.lang.syntax import UNITS, Duration
from tocsin.plan.staged_places import mode_of

BLOCK = "{}"  # the operator of a block


@dataclass(slots=True, eq=False)
class PatternSpot:
    """A leaf, an operator or a block; `number`: leaves from left to right, an operator after its operands, from 1 on.

    block  the number of the innermost block that it stands in; 0: of the statement itself
    """

    node: LeafOperand | OperatorCall | NestedBlock
    spots: tuple[PatternSpot, ...]
    number: int
    block: int = 0

    @property
    def leaf(self) -> LeafOperand | None:
        return self.node if isinstance(self.node, LeafOperand) else None

    @property
    def call(self) -> OperatorCall:
        assert isinstance(self.node, OperatorCall)
        return self.node

    @property
    def operator(self) -> str | None:
        if isinstance(self.node, NestedBlock):
            return BLOCK
        return self.node.operator if isinstance(self.node, OperatorCall) else None

    @property
    def name(self) -> str | None:
        if isinstance(self.node, NestedBlock):
            return None
        return self.node.called if isinstance(self.node, LeafOperand) else self.node.label

    @property
    def deferred(self) -> bool:
        return mode_of(self.node) == "deferred"

    def all(self) -> Iterator[PatternSpot]:
        """The spots below this one, and it, in order of their numbers."""
        for spot in self.spots:
            yield from spot.all()
        yield self

    def own(self) -> list[PatternSpot]:
        """This spot and those below it that are in no block below it."""
        return [spot for spot in self.all() if spot.block == self.block]

    def leaves(self) -> list[PatternSpot]:
        return [spot for spot in self.all() if spot.leaf is not None]

    def counted(self) -> set[int]:
        """The numbers of the leaves below counting operators."""
        inside = [spot for spot in self.all() if spot.operator in COUNTING]
        return {leaf.number for spot in inside for leaf in spot.leaves()}


def spots_of(pattern: StagedPattern) -> PatternSpot:
    """The pattern as a tree of spots."""
    return _spot(pattern, [0])


def _spot(pattern: StagedPattern, counter: list[int]) -> PatternSpot:
    inner: tuple[StagedPattern, ...] = pattern.operands if isinstance(pattern, OperatorCall) else ()
    is_block = isinstance(pattern, NestedBlock)
    below = tuple(_spot(each, counter) for each in ((pattern.pattern,) if isinstance(pattern, NestedBlock) else inner))
    counter[0] += 1
    for spot in below[0].all() if is_block else ():
        spot.block = spot.block or counter[0]  # those of a block inside have their own
    return PatternSpot(pattern, below, counter[0])


def ticks(duration: Duration, unit: str | None, text: str = "") -> int:
    """A length of time in ticks; a bare number is in ticks."""
    if duration.unit is None:
        return int(duration.amount)
    if unit is None:
        problem = Problem(
            "a length of time with a unit needs times with a unit", duration.span,
            "the times of these events are plain numbers", 'say what they are: time_unit="s", or write the bare number',
        )  # fmt: skip
        raise QueryError([problem], text)
    return int(duration.amount * UNITS[duration.unit] / UNITS[unit])
