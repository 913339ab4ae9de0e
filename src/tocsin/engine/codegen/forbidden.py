"""Forbidden blocks: a function that looks for one violation in a scope and stops at the first."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.levels import Levels
from tocsin.engine.codegen.members import MemberSets
from tocsin.engine.codegen.snippets import least, most
from tocsin.engine.codegen.source import SourceText
from tocsin.plan.block import Block, Forbidden
from tocsin.plan.expr import Agg, Bound, Col, Reach, Ref, Time, walk
from tocsin.plan.rewrite import blocks_below
from tocsin.schema import Kind


class ForbiddenBlocks:
    """violated_3(low, high, key, excl, ...) for each forbidden block, nested ones called from those around them."""

    def __init__(self, layout: Layout, source: SourceText, levels: Levels, members: MemberSets) -> None:
        self.layout, self.source = layout, source
        self.levels, self.members = levels, members
        members.breaking = self.breaking
        self.groups: Callable[[Block, str], None] = _no_groups
        self.emit, self.lines = source.emit, source.lines

    def write_violated(self, block: Block) -> None:
        """def violated_n(low, high, key, excl, <outer>): 1 as soon as one match of the block lies in [low, high]."""
        self.write_search(block, "violated", "return 0", "return 1")

    def write_search(self, block: Block, called: str, nothing: str, found: str) -> None:
        """A function that goes through the matches of a block in [low, high], and returns at the first one."""
        name = self.layout.blocks.index(block)
        inner = "".join(f", {outer}" for outer in self.outer(block))
        self.emit("@inlined")
        self.emit(f"def {called}_{name}(low, high, key, excl{inner}, S):")
        self.source.declared.append((f"{called}_{name}", "iiii" + "".join(map(self.letter, self.outer(block))) + "S"))
        with self.source.writer.indented():
            self.source.unpack()
            placed = self.levels.plain_predicates(block)
            self.source.tests(placed.get(-1, []), nothing)
            order = block.nest or tuple(leaf.id for leaf in block.fixed)
            depth = self.source.writer.depth
            fail = nothing
            for level in range(len(order)):
                self.inner_level(block, order, level, placed)
                fail = "continue"
            self._finish_inner(block, fail)
            self.emit(found)
            self.source.writer.depth = depth
            self.emit(nothing)
        self.emit("")

    def inner_level(self, block: Block, order: tuple[int, ...], level: int, placed: dict[int, list[Bound]]) -> None:
        leaf, exact = order[level], order[:level]
        low, high = self.levels.bounds(block, leaf, exact, ())
        buffer = self.levels.buffer(leaf)
        self.emit(f"d_{leaf} = {buffer}")
        bounds = f"{most(['low', *low])}, {least(['high', *high])}"
        self.emit(
            f"i_{leaf}, b_{leaf} = between(H, {self.layout.words}, D[4 * d_{leaf} + 1], D[4 * d_{leaf} + 2], {bounds})"
        )
        self.source.loop(leaf, f"b_{leaf}")
        tests = [f"{self.source.word(leaf, 1)} != excl"]
        self.emit(f"e_{leaf} = {self.source.word(leaf, 0)}")
        if self.layout.shape.intervals:
            self.emit(f"s_{leaf} = {self.source.word(leaf, self.layout.row_start)}")
            tests.append(f"s_{leaf} >= low")
        tests += self.levels.exact_tests(block, leaf, exact) + self.levels.distinct(block, leaf, exact)
        self.source.test(" and ".join(tests), "continue")
        self.source.tests(placed.get(level, []), "continue")

    def _finish_inner(self, block: Block, fail: str) -> None:
        fixed = tuple(leaf.id for leaf in block.fixed)
        self.members.repetitions(block, fixed, root=False, fail=fail)
        self.groups(block, fail)
        for part in block.negations:
            self.emit(f"if {self.violation(part, 'excl')} != 0:")
            self.emit(f"    {fail}")

    def violation(self, part: Forbidden, excl: str, name: str = "violated") -> str:
        """The call that looks for a violation of one forbidden part."""
        return self._call(part, *self.levels.ends(part.scope), excl, name)

    def breaking(self, part: Forbidden, low: str, high: str) -> str:
        """The call that looks for what ends a run, between two members."""
        return self._call(part, low, high, "excl", "violated")

    def _call(self, part: Forbidden, low: str, high: str, excl: str, name: str) -> str:
        inner = "".join(f", {outer}" for outer in self.outer(part.block))
        return f"{name}_{self.layout.blocks.index(part.block)}({low}, {high}, key, {excl}{inner}, S)"

    def outer(self, block: Block) -> list[str]:
        """Names that a block needs from the blocks around it: places, spans of repetitions, aggregates."""
        own = {leaf.id for each in blocks_below(block) for leaf in each.leaves}
        names: dict[str, None] = {}
        for each in blocks_below(block):
            for predicate in each.predicates:
                for node in walk(predicate):
                    self._outer_names(node, own, names)
        return list(names)

    def letter(self, name: str) -> str:
        """The type of a name that is handed to a forbidden block."""
        if name.startswith("gk"):
            return "b"
        real = [f"g{number}" for agg, number in self.source.aggs.items() if agg.kind is Kind.FLOAT]
        return "f" if name in real else "i"

    def _outer_names(self, node: Bound, own: set[int], names: dict[str, None]) -> None:
        match node:
            case Agg(_, leaf) if leaf not in own:
                value, known = self.source.aggregate(node)
                names[value] = None
                if known:
                    names[known] = None
            case Time(leaf) if leaf not in own and self.layout.leaves[leaf].repeat is not None:
                names[self.source.time_of(leaf, node.which)] = None
            case Col(leaf) | Time(leaf) | Ref(leaf) if leaf not in own and self.layout.leaves[leaf].repeat is None:
                names[f"i_{leaf}"] = None
            case Reach(several):
                for leaf in several:
                    self._outer_names(Time(leaf, node.which), own, names)


def _no_groups(block: Block, fail: str) -> None:
    """Who looks for the members of groups says so when it is there."""
    assert not block.groups, fail
