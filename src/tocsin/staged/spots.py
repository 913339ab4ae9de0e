"""The pattern of a statement as a tree of numbered spots, with what follows from its text alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tocsin.errors import Problem, QueryError
from tocsin.lang.staged_syntax import COUNTING, LeafOperand, NestedBlock, OperatorCall, StagedPattern
from tocsin.lang.syntax import UNITS, Duration
from tocsin.plan.staged_places import mode_of


@dataclass(frozen=True, slots=True, eq=False)
class PatternSpot:
    """A leaf or an operator; `number`: leaves from left to right, an operator after its operands, from 1 on."""

    node: LeafOperand | OperatorCall
    spots: tuple[PatternSpot, ...]
    number: int

    @property
    def leaf(self) -> LeafOperand | None:
        return self.node if isinstance(self.node, LeafOperand) else None

    @property
    def call(self) -> OperatorCall:
        assert isinstance(self.node, OperatorCall)
        return self.node

    @property
    def operator(self) -> str | None:
        return self.node.operator if isinstance(self.node, OperatorCall) else None

    @property
    def name(self) -> str | None:
        return self.node.called if isinstance(self.node, LeafOperand) else self.node.label

    @property
    def deferred(self) -> bool:
        return mode_of(self.node) == "deferred"

    def all(self) -> Iterator[PatternSpot]:
        """The spots below this one, and it, in order of their numbers."""
        for spot in self.spots:
            yield from spot.all()
        yield self

    def leaves(self) -> list[PatternSpot]:
        return [spot for spot in self.all() if spot.leaf is not None]

    def counted(self) -> set[int]:
        """The numbers of the leaves below counting operators."""
        inside = [spot for spot in self.all() if spot.operator in COUNTING]
        return {leaf.number for spot in inside for leaf in spot.leaves()}


def spots_of(pattern: StagedPattern, text: str = "") -> PatternSpot:
    """The pattern as a tree of spots."""
    return _spot(pattern, [0], text)


def _spot(pattern: StagedPattern, counter: list[int], text: str) -> PatternSpot:
    if isinstance(pattern, NestedBlock):
        hint = "give the inner context a statement of its own and read its events by name"
        raise QueryError([Problem("a block with a context of its own is not built yet", pattern.span, hint=hint)], text)
    inner = pattern.operands if isinstance(pattern, OperatorCall) else ()
    below = tuple(_spot(each, counter, text) for each in inner)
    counter[0] += 1
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
