"""The code generator: one block tree becomes one kernel, for every construct and any arrival order.

A kernel stores each relevant event in the sorted buffer of its leaf and key, then looks for answers that contain it:
one loop nest over the fixed leaves of the root block, in which the new event is *pinned* to its leaf. Each level scans
a contiguous range of its buffer, bounded by the order constraints and the window; each predicate is tested at the first
level where its leaves are bound. A forbidden block is a function of its own that returns at the first violation.

A late event also changes answers that do not contain it. The nest then runs in mode DELTA: the status of each binding
with the event minus its status without it (`excl` hides one event from forbidden blocks and repetitions).

Names in generated code: i_7 place of leaf 7, e_7 and s_7 its end and start; a_k, b_k the range of level k.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from tocsin.engine.codegen.intake import Intake
from tocsin.engine.codegen.program import WITHDRAWN, Program, Shape
from tocsin.functions import Function
from tocsin.plan.block import Block, Plan

__all__ = ["WITHDRAWN", "Program", "Shape", "generate"]


def generate(
    plan: Plan,
    block: Block,
    shape: Shape,
    functions: Mapping[str, Function],
    inlinable: Callable[[Function], bool],
) -> Program:
    """The kernel of one alternative of a plan; the last ones are remembered."""
    key = (id(plan), id(block), shape, id(functions))
    if key not in _recent:
        if len(_recent) >= 64:
            _recent.pop(next(iter(_recent)))
        _recent[key] = (plan, functions, Generator(plan, block, shape, functions, inlinable).program())
    return _recent[key][2]


# the plan and the functions are kept, so that their ids stay theirs
_recent: dict[tuple[object, ...], tuple[Plan, Mapping[str, Function], Program]] = {}


class Generator(Intake):
    """All chapters together."""

    def program(self) -> Program:
        for each in self.blocks[1:][::-1]:
            self._violated(each)
        if self.holds:
            self._certainties()
        if self._judged:
            self._judge()
        self._nest()
        self._again()
        self._answers()
        if self.waits:
            self._settle()
        self._kernel()
        names = ", ".join(self._batch_args())
        source = "\n".join(self.writer.lines) + "\n"
        return Program(
            source=source,
            block=self.root,
            shape=self.shape,
            leaf_ids=tuple(self.leaves),
            nest=self.nest,
            repeated=tuple(leaf.id for leaf in self.root.repeated),
            types=self.types,
            columns=tuple((attr, is_float, nullable) for attr, (_, is_float, nullable) in self.columns.items()),
            marks=tuple(self.marks),
            derived=self.derived,
            ints=tuple(self.literals.ints),
            floats=tuple(self.literals.floats),
            keyed=bool(self.keys),
            waits=self.waits,
            holds=self.holds,
            ranks="RK[" in source,
            words=self.words,
            head=self._head,
            span=self._span(),
            foreign=tuple(self.foreign_calls),
            inlined=tuple(self.inlined),
            batch_args=names,
            functions=tuple(self.declared),
            tables=self.tables(),
            leaf_lists=self.leaf_lists(),
            key=hashlib.blake2b(source.encode(), digest_size=12).hexdigest(),
        )
