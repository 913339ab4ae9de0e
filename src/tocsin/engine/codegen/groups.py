"""Groups: the members of `(SEQ(A a, B b))+ g`, found one behind the other in their gap.

next_3(low, high, key, excl, ...) gives the places of the events of the match of block 3 in [low, high] that is
completed first. Its loops go through the last events of the pattern, then through the first ones, then through the
others, each in canonical order: so the first match that they meet is the one. The next member begins behind its end.
The events of a repetition inside are found anew for each member, between its single events.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tocsin.engine.codegen import taken
from tocsin.engine.codegen.forbidden import ForbiddenBlocks
from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.levels import Levels
from tocsin.engine.codegen.source import SourceText
from tocsin.plan.block import NOT_HERE, Block, Forbidden, Leaf


class Groups:
    """One loop over the members of each group: ng_3 counts them, sg_3 tells them from others, rg_3 is their end."""

    def __init__(self, layout: Layout, source: SourceText, levels: Levels, forbidden: ForbiddenBlocks) -> None:
        self.layout, self.source, self.levels, self.forbidden = layout, source, levels, forbidden
        self.emit, self.lines = source.emit, source.lines
        forbidden.groups = self.judge

    def write_next(self, block: Block) -> None:
        """def next_n(low, high, key, excl, <outer>): the places of the first match to be completed, or -1 for all."""
        places = "".join(f"i_{leaf.id}, " for leaf in block.fixed)
        nobody = f"return {'-1, ' * len(block.fixed)}".rstrip(", ")
        self.forbidden.write_search(block, "next", nobody, f"return {places}".rstrip(", "))

    def judge(self, block: Block, fail: str) -> None:
        """In a forbidden block: whether each of its groups has enough members, and not too many."""
        for part in block.groups:
            with self._members(part):
                pass
        self.sets(block, fail)

    def find(self) -> None:
        """In judge(): the members of every group; while `write`, the events of each leaf go to MEM."""
        column = 2 + len(self.layout.nest) + 2 * len(self.layout.root.repeated)
        for part in self.layout.root.groups:
            id = self.name(part)
            self.lines(f"sg_{id} = 0", f"rg_{id} = -FAR")
            with self._members(part):
                self.emit(f"rg_{id} = {self.source.word(part.block.fixed[-1].id, 0)}")
                for leaf in part.block.leaves:
                    self._each_event(part.block, leaf, partial(self._sign, id))
            for place, leaf in enumerate(part.block.leaves):
                assert part.gathers is not None
                self._write(part, leaf, part.gathers.head(place), column)
                column += 2

    def name(self, part: Forbidden) -> int:
        return self.layout.blocks.index(part.block)

    def sets(self, block: Block, fail: str) -> None:
        """Whether there are enough members, and not too many."""
        for part in block.groups:
            assert part.gathers is not None
            id, most = self.name(part), part.gathers.most
            above = "" if most is None else f" and ng_{id} <= {most}"
            self.source.test(f"ng_{id} >= {part.gathers.least}{above}", fail)

    def reach(self) -> None:
        """In judge(), behind find(): the last end of the match with the members of its groups."""
        for part in self.layout.root.groups:
            self.emit(f"mx = max(mx, rg_{self.name(part)})")

    def _sign(self, id: int, leaf: Leaf) -> None:
        self.emit(f"sg_{id} = {taken.signed(f'sg_{id}', self.source.word(leaf.id, 1))}")

    def _each_event(self, block: Block, leaf: Leaf, then: Callable[[Leaf], None]) -> None:
        """The event of a single step, or those of a repetition, where the single ones of its block are bound."""
        if leaf.repeat is None:
            then(leaf)
        else:
            fixed = tuple(each.id for each in block.fixed)
            self.forbidden.members.each_member(block, leaf, fixed, lambda: then(leaf))

    def _write(self, part: Forbidden, leaf: Leaf, head: int, column: int) -> None:
        """The events of a leaf of the group: those of its first member, which may be bound by itself, then the others.

        A step that may be absent has no leaf for the first member where it is.
        """
        self.emit("if write != 0:")
        with self.source.writer.indented():
            self.lines(f"OUT[write - 1 + T[OUT_SIZE] * {column}] = T[MEM_N]", f"wg_{leaf.id} = T[MEM_N]")
            if head != NOT_HERE:
                root = self.layout.root
                self._each_event(root, root.leaf(head), self._put)
            with self._members(part):
                self._each_event(part.block, leaf, self._put)
            self.emit(f"OUT[write - 1 + T[OUT_SIZE] * {column + 1}] = T[MEM_N] - wg_{leaf.id}")

    def _put(self, leaf: Leaf) -> None:
        self.lines("if T[MEM_N] >= T[MEM_SIZE]:", "    return -1, 0, 0")
        self.lines(f"MEM[T[MEM_N]] = {self.source.word(leaf.id, 1)}", "T[MEM_N] += 1")

    def _members(self, part: Forbidden) -> _Loop:
        return _Loop(self, part)


class _Loop:
    """A loop over the members of a group but a first one that is bound; i_7 is the place of the event at leaf 7."""

    def __init__(self, groups: Groups, part: Forbidden) -> None:
        self.groups, self.part = groups, part

    def __enter__(self) -> None:
        groups, id, gathers = self.groups, self.groups.name(self.part), self.part.gathers
        low, high = groups.levels.ends(self.part.scope)
        assert gathers is not None
        enough = f" and ng_{id} < {gathers.most}" if gathers.cut and gathers.most is not None else ""
        fixed = self.part.block.fixed
        places = ", ".join(f"i_{leaf.id}" for leaf in fixed)
        groups.emit(f"ng_{id} = {1 if gathers.heads else 0}")
        groups.lines(f"at_{id} = {low}", f"to_{id} = {high}", f"while at_{id} <= to_{id}{enough}:")
        groups.source.writer.depth += 1
        inner = "".join(f", {outer}" for outer in groups.forbidden.outer(self.part.block))
        groups.emit(f"{places} = next_{id}(at_{id}, to_{id}, key, excl{inner}, S)")
        last = fixed[-1].id
        groups.lines(f"if i_{last} < 0:", "    break")
        groups.lines(f"at_{id} = {groups.source.word(last, 0)} + 1", f"ng_{id} += 1")

    def __exit__(self, *_: object) -> None:
        self.groups.source.writer.depth -= 1
