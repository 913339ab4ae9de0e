"""Certainty: whether a forbidden block can still be violated, or will be whatever comes, given the guarantees.

An event that was not seen yet may come at any time that its type's guarantee leaves open, and predicates on it count as
satisfiable. `possible_3` looks for a match of block 3 made of stored and of unseen events; `certain_3` for one of
stored events that nothing unseen can undo. The two call each other through the levels of a nested negation.

An unseen event at a leaf has the place -1 and its times in e_7 and s_7. It is tried at its first possible end and then
at each start of a stored event of the blocks inside: between those, moving it to an earlier time only shrinks what lies
before it and lets nothing new into what lies behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.engine.codegen.block_facts import earlier_first
from tocsin.engine.codegen.forbidden import ForbiddenBlocks
from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.levels import Levels
from tocsin.engine.codegen.snippets import least, most
from tocsin.engine.codegen.source import SourceText
from tocsin.plan.block import Block, Forbidden, Leaf
from tocsin.plan.expr import Bound, leaves
from tocsin.plan.facts import overhangs
from tocsin.plan.rewrite import blocks_below


class Certainty:
    """possible_3(low, high, key, excl, ...) and certain_3(...) where a program holds its answers."""

    def __init__(self, layout: Layout, source: SourceText, levels: Levels, forbidden: ForbiddenBlocks) -> None:
        self.layout, self.source = layout, source
        self.levels, self.forbidden = levels, forbidden
        self.emit, self.lines = source.emit, source.lines

    def write_certainties(self) -> None:
        """The functions of all forbidden blocks, inner ones first."""
        for part in self.layout.root.negations:
            if self.is_rough(part.block):
                continue
            for block in list(blocks_below(part.block))[::-1]:
                if part.block.forbidden:
                    self._certain(block)
                if not self.is_single(part.block):
                    self._possible(block)

    def is_single(self, block: Block) -> bool:
        """One leaf and nothing inside: its unseen events need no search."""
        return len(block.fixed) == 1 and not block.forbidden

    def is_rough(self, block: Block) -> bool:
        """Sets, groups, FOR, overlapping intervals are not searched: their part is open while any of its types is."""
        blocks = list(blocks_below(block))
        if any(each.repeated or each.groups for each in blocks) or overhangs(block) != (0, 0):
            return True
        overlap = any((o.left.which, o.right.which) != ("end", "start") for each in blocks for o in each.order)
        return (self.layout.shape.intervals and overlap) or any(earlier_first(each) is None for each in blocks)

    def guaranteed(self, several: Iterable[Leaf]) -> str:
        """What is promised of every type that can stand at some leaves."""
        types = dict.fromkeys(alt.type for leaf in several for alt in leaf.alts)
        return least([f"promised(T, {self.layout.types.index(type)})" for type in types])

    def watched(self, part: Forbidden) -> str:
        """The type that an answer waits for at a part, or -1 if that cannot be said."""
        types = {alt.type for each in blocks_below(part.block) for leaf in each.leaves for alt in leaf.alts}
        return str(self.layout.types.index(types.pop())) if len(types) == 1 and self.is_single(part.block) else "-1"

    def last_tick(self, part: Forbidden) -> str:
        """The last tick at which an event can come that decides about a part."""
        high, (_, after) = self.levels.end(part.scope.high, "high"), overhangs(part.block)
        return f"{high} + {self.levels.ticks(after)}" if after and high != "FAR" else high

    def will_be_violated(self, part: Forbidden, excl: str) -> str:
        """Code that is true if a part is violated whatever still comes."""
        if self.is_rough(part.block):
            high = self.last_tick(part)
            open_types = self.guaranteed(leaf for each in blocks_below(part.block) for leaf in each.leaves)
            return f"{open_types} >= {high} and {self.forbidden.violation(part, excl)} != 0"
        name = "certain" if part.block.forbidden else "violated"
        return f"{self.forbidden.violation(part, excl, name)} != 0"

    def may_be_violated(self, part: Forbidden, excl: str) -> str:
        """Code that is true if a part that is not certainly violated may still be."""
        low, high = self.levels.end(part.scope.low, "low"), self.last_tick(part)
        if self.is_rough(part.block):
            before, _ = overhangs(part.block)
            low = f"{low} - {self.levels.ticks(before)}" if before else low
            open_types = self.guaranteed(leaf for each in blocks_below(part.block) for leaf in each.leaves)
            return f"max({low}, {open_types} + 1) <= {high}"
        if self.is_single(part.block):
            return f"max({low}, {self.guaranteed(part.block.leaves)} + 1) <= {high}"
        return f"{self.forbidden.violation(part, excl, 'possible')} != 0"

    def _certain(self, block: Block) -> None:
        """def certain_n(low, high, key, excl, <outer>): 1 if stored events violate the block for good."""
        order = block.nest or tuple(leaf.id for leaf in block.fixed)
        self._open(block, "certain")
        with self.source.writer.indented():
            self.source.unpack()
            placed = self.levels.plain_predicates(block)
            depth, fail = self.source.writer.depth, "return 0"
            self._surely(placed.get(-1, []), fail)
            for level in range(len(order)):
                now = placed.pop(level, [])
                self.forbidden.inner_level(block, order, level, {})
                fail = "continue"
                self._surely(now, fail)
            for part in block.forbidden:
                self.source.test(f"{self.forbidden.violation(part, 'excl', 'possible')} == 0", fail)
            self.emit("return 1")
            self.source.writer.depth = depth
            self.emit("return 0")
        self.emit("")

    def _surely(self, predicates: list[Bound], fail: str) -> None:
        """Predicates of what is certain: on an unseen event nothing is."""
        for predicate in predicates:
            for unseen in self._maybe_unseen(predicate):
                self.emit(f"if i_{unseen} < 0:")
                self.emit(f"    {fail}")
            self.source.tests([predicate], fail)

    def _maybe_unseen(self, predicate: Bound) -> list[int]:
        """The leaves of a predicate whose event may be unseen: all but those of the root."""
        root = {leaf.id for leaf in self.layout.root.leaves}
        return sorted(leaves(predicate) - root)

    def _possible(self, block: Block) -> None:
        """def possible_n(low, high, key, excl, <outer>): 1 if stored and unseen events can violate the block."""
        order = earlier_first(block)
        assert order is not None
        self._open(block, "possible")
        with self.source.writer.indented():
            self.source.unpack()
            placed: dict[int, list[Bound]] = {}
            for predicate in block.predicates:
                at = [level for level, leaf in enumerate(order) if leaf in leaves(predicate)]
                placed.setdefault(max(at, default=-1), []).append(predicate)
            depth, fail = self.source.writer.depth, "return 0"
            self._perhaps(placed.get(-1, []), fail)
            outside = self.source.spelled
            for level, leaf in enumerate(order):
                self._seen_or_not(block, leaf, order[:level])
                fail = "continue"
                self.source.spelled |= {leaf}
                self._perhaps(placed.get(level, []), fail)
            for part in block.forbidden:
                self.source.test(f"{self.forbidden.violation(part, 'excl', 'certain')} == 0", fail)
            self.emit("return 1")
            self.source.spelled = outside
            self.source.writer.depth = depth
            self.emit("return 0")
        self.emit("")

    def _perhaps(self, predicates: list[Bound], fail: str) -> None:
        """Predicates of what is possible: on an unseen event they count as satisfiable."""
        for predicate in predicates:
            unseen = self._maybe_unseen(predicate)
            if not unseen:
                self.source.tests([predicate], fail)
                continue
            self.emit(f"if {' and '.join(f'i_{leaf} >= 0' for leaf in unseen)}:")
            with self.source.writer.indented():
                self.source.tests([predicate], fail)
                self.emit("pass")

    def _seen_or_not(self, block: Block, leaf: int, exact: tuple[int, ...]) -> None:
        """Open a loop over the stored events of a leaf, and then over the times of an unseen one."""
        low, high = self.levels.bounds(block, leaf, exact, ())
        first, last = most(["low", *low]), least(["high", *high])
        buffer = self.levels.buffer(leaf)
        self.lines(
            f"d_{leaf} = {buffer}",
            f"f_{leaf} = {first}",
            f"u_{leaf} = {last}",
            f"j_{leaf}, b_{leaf} = between(H, {self.layout.words}, D[4 * d_{leaf} + 1], D[4 * d_{leaf} + 2],"
            f" f_{leaf}, u_{leaf})",
            f"t_{leaf} = max(f_{leaf}, {self.guaranteed([self.layout.leaves[leaf]])} + 1)",
            f"while j_{leaf} < b_{leaf} or t_{leaf} <= min(u_{leaf}, FAR - 1):",
        )
        self.source.writer.depth += 1
        self.emit(f"i_{leaf} = -1")
        self.emit(f"if j_{leaf} < b_{leaf}:")
        with self.source.writer.indented():
            self._stored(block, leaf, exact)
        self.emit("else:")
        with self.source.writer.indented():
            self.emit(f"e_{leaf} = t_{leaf}")
            if self.layout.shape.intervals:
                self.emit(f"s_{leaf} = f_{leaf}")
            self.emit(f"t_{leaf} = {self._next_time(block, leaf)}")

    def _stored(self, block: Block, leaf: int, exact: tuple[int, ...]) -> None:
        self.lines(f"i_{leaf} = j_{leaf}", f"j_{leaf} += 1", f"e_{leaf} = {self.source.word(leaf, 0)}")
        tests = [f"{self.source.word(leaf, 1)} != excl"]
        if self.layout.shape.intervals:
            self.emit(f"s_{leaf} = {self.source.word(leaf, self.layout.row_start)}")
            tests.append(f"s_{leaf} >= f_{leaf}")
        tests += self._distinct_if_seen(block, leaf, exact)
        self.source.test(" and ".join(tests), "continue")

    def _distinct_if_seen(self, block: Block, leaf: int, exact: tuple[int, ...]) -> list[str]:
        """One event stands at one leaf; an unseen one is another event anyway."""
        same = f"{self.source.word(leaf, 1)} != "
        tests = []
        for other in exact:
            for test in self.levels.distinct(block, leaf, [other]):
                assert test.startswith(same)
                tests.append(f"(i_{other} < 0 or {test})")
        return tests

    def _next_time(self, block: Block, leaf: int) -> str:
        """After an unseen event at e_7: the next time at which it would stand differently to the blocks inside."""
        inner = [other for part in block.forbidden for each in blocks_below(part.block) for other in each.leaves]
        starts = []
        for other in inner:
            d = f"4 * ({self.levels.buffer(other.id)})"
            starts.append(
                f"next_start(H, {self.layout.words}, {self.layout.row_start}, D[{d} + 1], D[{d} + 2], e_{leaf})"
            )
        return least(starts) if starts else "FAR"

    def _open(self, block: Block, name: str) -> None:
        number, outer = self.layout.blocks.index(block), self.forbidden.outer(block)
        self.emit("@compiled")
        self.emit(f"def {name}_{number}(low, high, key, excl{''.join(f', {each}' for each in outer)}, S):")
        self.source.declared.append((f"{name}_{number}", "iiii" + "".join(map(self.forbidden.letter, outer)) + "S"))
