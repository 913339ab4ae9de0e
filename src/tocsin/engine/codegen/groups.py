"""Groups: the members of `(SEQ(A a, B b))+ g`, found one behind the other in their gap.

next_3(low, high, key, excl, ...) gives the places of the events of the match of block 3 in [low, high] that is
completed first. Its loops go through the last events of the pattern, then through the first ones, then through the
others, each in canonical order: so the first match that they meet is the one. The next member begins behind its end.
"""

from __future__ import annotations

from tocsin.engine.codegen import taken
from tocsin.engine.codegen.forbidden import ForbiddenBlocks
from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.levels import Levels
from tocsin.engine.codegen.source import SourceText
from tocsin.plan.block import Block, Forbidden


class Groups:
    """One loop over the members of each group: ng_3 counts them, sg_3 tells them from others."""

    def __init__(self, layout: Layout, source: SourceText, levels: Levels, forbidden: ForbiddenBlocks) -> None:
        self.layout, self.source, self.levels, self.forbidden = layout, source, levels, forbidden
        self.emit, self.lines = source.emit, source.lines

    def write_next(self, block: Block) -> None:
        """def next_n(low, high, key, excl, <outer>): the places of the first match to be completed, or -1 for all."""
        places = "".join(f"i_{leaf.id}, " for leaf in block.leaves)
        nobody = f"return {'-1, ' * len(block.leaves)}".rstrip(", ")
        self.forbidden.write_search(block, "next", nobody, f"return {places}".rstrip(", "))

    def find(self) -> None:
        """In judge(): the members of every group; while `write`, the events of each leaf go to MEM."""
        column = 2 + len(self.layout.nest) + 2 * len(self.layout.root.repeated)
        for part in self.layout.root.groups:
            id = self.name(part)
            self.emit(f"ng_{id} = 0")
            self.emit(f"sg_{id} = 0")
            with self._members(part):
                self.emit(f"ng_{id} += 1")
                for leaf in part.block.leaves:
                    self.emit(f"sg_{id} = {taken.signed(f'sg_{id}', self.source.word(leaf.id, 1))}")
            for leaf in part.block.leaves:
                self._write(part, leaf.id, column)
                column += 2

    def name(self, part: Forbidden) -> int:
        return self.layout.blocks.index(part.block)

    def sets(self, fail: str) -> None:
        """Whether there are enough members, and not too many."""
        for part in self.layout.root.groups:
            assert part.gathers is not None
            id, most = self.name(part), part.gathers.most
            above = "" if most is None else f" and ng_{id} <= {most}"
            self.source.test(f"ng_{id} >= {part.gathers.least}{above}", fail)

    def _write(self, part: Forbidden, leaf: int, column: int) -> None:
        self.emit("if write != 0:")
        with self.source.writer.indented():
            at = f"OUT[(write - 1) * {self.layout.width} + {column}"
            self.emit(f"{at}] = T[MEM_N]")
            with self._members(part):
                self.lines("if T[MEM_N] >= T[MEM_SIZE]:", "    return -1, 0, 0")
                self.lines(f"MEM[T[MEM_N]] = {self.source.word(leaf, 1)}", "T[MEM_N] += 1")
            self.emit(f"{at} + 1] = ng_{self.name(part)}")

    def _members(self, part: Forbidden) -> _Loop:
        return _Loop(self, part)


class _Loop:
    """A loop over the members of a group; i_7 is the place of the event of each at leaf 7."""

    def __init__(self, groups: Groups, part: Forbidden) -> None:
        self.groups, self.part = groups, part

    def __enter__(self) -> None:
        groups, id = self.groups, self.groups.name(self.part)
        low, high = groups.levels.ends(self.part.scope)
        places = ", ".join(f"i_{leaf.id}" for leaf in self.part.block.leaves)
        groups.lines(f"at_{id} = {low}", f"to_{id} = {high}", f"while at_{id} <= to_{id}:")
        groups.source.writer.depth += 1
        inner = "".join(f", {outer}" for outer in groups.forbidden.outer(self.part.block))
        groups.emit(f"{places} = next_{id}(at_{id}, to_{id}, key, excl{inner}, S)")
        last = self.part.block.leaves[-1].id
        groups.lines(f"if i_{last} < 0:", "    break")
        groups.emit(f"at_{id} = {groups.source.word(last, 0)} + 1")

    def __exit__(self, *_: object) -> None:
        self.groups.source.writer.depth -= 1
