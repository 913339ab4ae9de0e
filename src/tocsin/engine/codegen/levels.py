"""The levels of a loop nest: which range of a buffer a leaf scans, and what is tested there."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.snippets import least, most, plus
from tocsin.engine.codegen.source import SourceText
from tocsin.plan.block import (
    After,
    Before,
    Block,
    Enclosing,
    End,
    From,
    LastEnd,
    Lasting,
    Leading,
    Scope,
    Until,
    WindowHigh,
    WindowLow,
)
from tocsin.plan.endpoints import strictly_ordered
from tocsin.plan.expr import Bound, Lit, leaves
from tocsin.schema import Kind


class Levels:
    """Bounds from order constraints and scopes; predicates by the level at which their leaves are bound."""

    def __init__(self, layout: Layout, source: SourceText) -> None:
        self.layout, self.source = layout, source
        self.emit, self.lines = source.emit, source.lines
        self.lengths: dict[int, str] = {}  # where each length of time is read

    def buffer(self, leaf: int) -> str:
        """The number of the buffer of a leaf for the key at hand."""
        number = self.layout.number[leaf]
        return f"key * {len(self.layout.buffers)} + {number}" if leaf in self.layout.keys else str(number)

    def bounds(
        self, block: Block, leaf: int, exact: tuple[int, ...], loose: tuple[int, ...]
    ) -> tuple[list[str], list[str]]:
        """Lower and upper bounds on the end of a leaf that its order constraints imply.

        `exact` leaves are bound; of `loose` ones only the range they lie in is known (l_ and h_ names).
        """
        low, high = [], []
        for order in block.order:
            strict = 1 if order.strict else 0
            if order.right.leaf == leaf and order.left.leaf != leaf:
                other = order.left
                if other.leaf in exact:
                    low.append(plus(self._bound_time(other.leaf, other.which), strict))
                elif other.leaf in loose:
                    low.append(plus(self._loose("l", other.leaf, other.which), strict))
            if order.left.leaf == leaf and order.right.leaf != leaf:
                other = order.right
                if other.leaf in exact:
                    bound = plus(self._bound_time(other.leaf, other.which), -strict)
                elif other.leaf in loose:
                    bound = plus(self._loose("h", other.leaf, other.which), -strict)
                else:
                    continue
                if order.left.which == "start" and self.layout.shape.intervals:  # no end lies further behind its start
                    bound = f"{bound} + T[LONGEST + {self.layout.number[leaf]}]"
                high.append(bound)
        return low, high

    def _bound_time(self, leaf: int, which: str) -> str:
        return f"s_{leaf}" if which == "start" and self.layout.shape.intervals else f"e_{leaf}"

    def _loose(self, side: str, leaf: int, which: str) -> str:
        """l_7 / h_7: the end of leaf 7 lies between them; ls_7: its start is not before. h_7 bounds its start too."""
        return f"ls_{leaf}" if side == "l" and which == "start" and self.layout.shape.intervals else f"{side}_{leaf}"

    def exact_tests(self, block: Block, leaf: int, exact: tuple[int, ...]) -> list[str]:
        """Order constraints on the start of a leaf, which its range of ends does not settle."""
        tests = []
        for order in block.order:
            sign = "<" if order.strict else "<="
            sides = (order.left, order.right)
            mine = [side for side in sides if side.leaf == leaf]
            others = [side for side in sides if side.leaf != leaf]
            if len(mine) == 2 or (
                self.layout.shape.intervals and mine and mine[0].which == "start" and others and others[0].leaf in exact
            ):
                left, right = (self._bound_time(side.leaf, side.which) for side in sides)
                tests.append(f"{left} {sign} {right}")
        return tests

    def distinct(self, block: Block, leaf: int, others: Iterable[int]) -> list[str]:
        """One event stands at one leaf only: needed where types overlap and no strict order keeps them apart."""
        ordered = strictly_ordered(block)
        return [
            f"{self.source.word(leaf, 1)} != {self.source.word(other, 1)}"
            for other in others
            if self.layout.overlap(leaf, other) and (leaf, other) not in ordered and (other, leaf) not in ordered
        ]

    def plain_predicates(self, block: Block) -> dict[int, list[Bound]]:
        """Predicates without repetitions of this block, by the level at which they are tested (-1: before all)."""
        order = block.nest or tuple(leaf.id for leaf in block.fixed)
        repeated = {leaf.id for leaf in block.repeated}
        placed: dict[int, list[Bound]] = {}
        for predicate in block.predicates:
            mine = leaves(predicate)
            if mine & repeated:
                continue
            levels = [level for level, leaf in enumerate(order) if leaf in mine]
            level = max(levels, default=-1) if block.early else len(order) - 1
            placed.setdefault(level, []).append(predicate)
        return placed

    def _ticks(self, length: int) -> str:
        """A length of time: a parameter, so that queries of one shape share a kernel."""
        return "1" if length == 1 else self.ticks(length)

    def ticks(self, length: int) -> str:
        if length not in self.lengths:
            self.lengths[length] = self.source.literals.read(Lit(length, Kind.INT))
        return self.lengths[length]

    def ends(self, scope: Scope) -> tuple[str, str]:
        return self.end(scope.low, "low"), self.end(scope.high, "high")

    def end(self, end: End, side: str) -> str:
        """One end of a scope as code; at the root, mn and mx are the first start and last end of the match so far."""
        match end:
            case After(several, by):
                return f"{most([self.source.time_of(leaf, 'end') for leaf in several])} + {self._ticks(by)}"
            case Lasting(several, by):
                return f"{most([self.source.time_of(leaf, 'end') for leaf in several])} + {self._ticks(by)}"
            case Leading(several, by):
                return f"{least([self.source.time_of(leaf, 'start') for leaf in several])} - {self._ticks(by)}"
            case Before(several):
                return f"{least([self.source.time_of(leaf, 'start') for leaf in several])} - 1"
            case Enclosing():
                return side
            case WindowLow():
                return "-FAR" if self.layout.within is None else "mx - T[PARAMS]"
            case WindowHigh():
                return "FAR" if self.layout.within is None else "mn + T[PARAMS]"
            case LastEnd():
                return "mx"
            case From(leaf):
                return f"{self.source.time_of(leaf, 'end')} + 1"
            case Until(leaf):
                return self.source.time_of(leaf, "end")
        raise AssertionError(end)
