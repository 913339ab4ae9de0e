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

from tocsin.engine.codegen.forbidden import ForbiddenBlocks
from tocsin.engine.codegen.readings import earlier_first, least, most
from tocsin.plan.block import Block, Forbidden, Leaf
from tocsin.plan.expr import Bound, leaves
from tocsin.plan.rewrite import blocks_below


class Certainty(ForbiddenBlocks):
    """possible_3(low, high, key, excl, ...) and certain_3(...) where a program holds its answers."""

    def _certainties(self) -> None:
        """The functions of all forbidden blocks, inner ones first."""
        for part in self.root.forbidden:
            if self._is_rough(part.block):
                continue
            for block in list(blocks_below(part.block))[::-1]:
                if part.block.forbidden:
                    self._certain(block)
                if not self._is_single(part.block):
                    self._possible(block)

    # --- what a part needs ----------------------------------------------------------------------------------------

    def _is_single(self, block: Block) -> bool:
        """One leaf and nothing inside: its unseen events need no search."""
        return len(block.fixed) == 1 and not block.forbidden

    def _is_rough(self, block: Block) -> bool:
        """Sets, and intervals that overlap, are not searched: their part is open while any of its types is."""
        blocks = list(blocks_below(block))
        if any(each.repeated for each in blocks):
            return True
        overlap = any((o.left.which, o.right.which) != ("end", "start") for each in blocks for o in each.order)
        return (self.shape.intervals and overlap) or any(earlier_first(each) is None for each in blocks)

    def _guaranteed(self, several: Iterable[Leaf]) -> str:
        """What is promised of every type that can stand at some leaves."""
        types = dict.fromkeys(alt.type for leaf in several for alt in leaf.alts)
        return least([f"promised(T, {self.types.index(type)})" for type in types])

    def _watched(self, part: Forbidden) -> str:
        """The type that an answer waits for at a part, or -1 if that cannot be said."""
        types = {alt.type for each in blocks_below(part.block) for leaf in each.leaves for alt in leaf.alts}
        return str(self.types.index(types.pop())) if len(types) == 1 and self._is_single(part.block) else "-1"

    def _will_be_violated(self, part: Forbidden, excl: str) -> str:
        """Code that is true if a part is violated whatever still comes."""
        if self._is_rough(part.block):
            _, high = self._ends(part.scope)
            open_types = self._guaranteed(leaf for each in blocks_below(part.block) for leaf in each.leaves)
            return f"{open_types} >= {high} and {self._violation(part, excl)} != 0"
        name = "certain" if part.block.forbidden else "violated"
        return f"{self._violation(part, excl, name)} != 0"

    def _may_be_violated(self, part: Forbidden, excl: str) -> str:
        """Code that is true if a part that is not certainly violated may still be."""
        low, high = self._ends(part.scope)
        if self._is_rough(part.block):
            open_types = self._guaranteed(leaf for each in blocks_below(part.block) for leaf in each.leaves)
            return f"max({low}, {open_types} + 1) <= {high}"
        if self._is_single(part.block):
            return f"max({low}, {self._guaranteed(part.block.leaves)} + 1) <= {high}"
        return f"{self._violation(part, excl, 'possible')} != 0"

    # --- what will be, whatever comes --------------------------------------------------------------------------------

    def _certain(self, block: Block) -> None:
        """def certain_n(low, high, key, excl, <outer>): 1 if stored events violate the block for good."""
        order = block.nest or tuple(leaf.id for leaf in block.fixed)
        self._open(block, "certain")
        with self.writer.indented():
            self._unpack()
            placed = self._plain_predicates(block)
            depth, fail = self.writer.depth, "return 0"
            self._surely(placed.get(-1, []), fail)
            for level in range(len(order)):
                now = placed.pop(level, [])
                self._inner_level(block, order, level, {})
                fail = "continue"
                self._surely(now, fail)
            for part in block.forbidden:
                self._test(f"{self._violation(part, 'excl', 'possible')} == 0", fail)
            self.emit("return 1")
            self.writer.depth = depth
            self.emit("return 0")
        self.emit("")

    def _surely(self, predicates: list[Bound], fail: str) -> None:
        """Predicates of what is certain: on an unseen event nothing is."""
        for predicate in predicates:
            for unseen in self._maybe_unseen(predicate):
                self.emit(f"if i_{unseen} < 0:")
                self.emit(f"    {fail}")
            self._tests([predicate], fail)

    def _maybe_unseen(self, predicate: Bound) -> list[int]:
        """The leaves of a predicate whose event may be unseen: all but those of the root."""
        root = {leaf.id for leaf in self.root.leaves}
        return sorted(leaves(predicate) - root)

    # --- what may be -------------------------------------------------------------------------------------------------

    def _possible(self, block: Block) -> None:
        """def possible_n(low, high, key, excl, <outer>): 1 if stored and unseen events can violate the block."""
        order = earlier_first(block)
        assert order is not None
        self._open(block, "possible")
        with self.writer.indented():
            self._unpack()
            placed: dict[int, list[Bound]] = {}
            for predicate in block.predicates:
                at = [level for level, leaf in enumerate(order) if leaf in leaves(predicate)]
                placed.setdefault(max(at, default=-1), []).append(predicate)
            depth, fail = self.writer.depth, "return 0"
            self._perhaps(placed.get(-1, []), fail)
            outside = self.spelled
            for level, leaf in enumerate(order):
                self._seen_or_not(block, leaf, order[:level])
                fail = "continue"
                self.spelled |= {leaf}
                self._perhaps(placed.get(level, []), fail)
            for part in block.forbidden:
                self._test(f"{self._violation(part, 'excl', 'certain')} == 0", fail)
            self.emit("return 1")
            self.spelled = outside
            self.writer.depth = depth
            self.emit("return 0")
        self.emit("")

    def _perhaps(self, predicates: list[Bound], fail: str) -> None:
        """Predicates of what is possible: on an unseen event they count as satisfiable."""
        for predicate in predicates:
            unseen = self._maybe_unseen(predicate)
            if not unseen:
                self._tests([predicate], fail)
                continue
            self.emit(f"if {' and '.join(f'i_{leaf} >= 0' for leaf in unseen)}:")
            with self.writer.indented():
                self._tests([predicate], fail)
                self.emit("pass")

    def _seen_or_not(self, block: Block, leaf: int, exact: tuple[int, ...]) -> None:
        """Open a loop over the stored events of a leaf, and then over the times of an unseen one."""
        low, high = self._bounds(block, leaf, exact, ())
        first, last = most(["low", *low]), least(["high", *high])
        buffer = self._buffer(leaf)
        self._lines(
            f"d_{leaf} = {buffer}",
            f"f_{leaf} = {first}",
            f"u_{leaf} = {last}",
            f"j_{leaf}, b_{leaf} = between(H, {self.words}, D[4 * d_{leaf} + 1], D[4 * d_{leaf} + 2],"
            f" f_{leaf}, u_{leaf})",
            f"t_{leaf} = max(f_{leaf}, {self._guaranteed([self.leaves[leaf]])} + 1)",
            f"while j_{leaf} < b_{leaf} or t_{leaf} <= min(u_{leaf}, FAR - 1):",
        )
        self.writer.depth += 1
        self.emit(f"i_{leaf} = -1")
        self.emit(f"if j_{leaf} < b_{leaf}:")
        with self.writer.indented():
            self._stored(block, leaf, exact)
        self.emit("else:")
        with self.writer.indented():
            self.emit(f"e_{leaf} = t_{leaf}")
            if self.shape.intervals:
                self.emit(f"s_{leaf} = f_{leaf}")
            self.emit(f"t_{leaf} = {self._next_time(block, leaf)}")

    def _stored(self, block: Block, leaf: int, exact: tuple[int, ...]) -> None:
        self._lines(f"i_{leaf} = j_{leaf}", f"j_{leaf} += 1", f"e_{leaf} = {self._word(leaf, 0)}")
        tests = [f"{self._word(leaf, 1)} != excl"]
        if self.shape.intervals:
            self.emit(f"s_{leaf} = {self._word(leaf, self.row_start)}")
            tests.append(f"s_{leaf} >= f_{leaf}")
        tests += self._distinct_if_seen(block, leaf, exact)
        self._test(" and ".join(tests), "continue")

    def _distinct_if_seen(self, block: Block, leaf: int, exact: tuple[int, ...]) -> list[str]:
        """One event stands at one leaf; an unseen one is another event anyway."""
        same = f"{self._word(leaf, 1)} != "
        tests = []
        for other in exact:
            for test in self._distinct(block, leaf, [other]):
                assert test.startswith(same)
                tests.append(f"(i_{other} < 0 or {test})")
        return tests

    def _next_time(self, block: Block, leaf: int) -> str:
        """After an unseen event at e_7: the next time at which it would stand differently to the blocks inside."""
        inner = [other for part in block.forbidden for each in blocks_below(part.block) for other in each.leaves]
        starts = []
        for other in inner:
            d = f"4 * ({self._buffer(other.id)})"
            starts.append(f"next_start(H, {self.words}, {self.row_start}, D[{d} + 1], D[{d} + 2], e_{leaf})")
        return least(starts) if starts else "FAR"

    def _open(self, block: Block, name: str) -> None:
        number, outer = self.blocks.index(block), self._outer(block)
        self.emit("@compiled")
        self.emit(f"def {name}_{number}(low, high, key, excl{''.join(f', {each}' for each in outer)}, S):")
        self.declared.append((f"{name}_{number}", "iiii" + "".join(map(self._letter, outer)) + "S"))
