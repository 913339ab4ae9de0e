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
from collections.abc import Mapping

from tocsin.engine.codegen.certainty import Certainty
from tocsin.engine.codegen.depth import shallow
from tocsin.engine.codegen.forbidden import ForbiddenBlocks
from tocsin.engine.codegen.groups import Groups
from tocsin.engine.codegen.intake import Intake
from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.levels import Levels
from tocsin.engine.codegen.members import MemberSets
from tocsin.engine.codegen.nest import Nest
from tocsin.engine.codegen.program import WITHDRAWN, Program, Shape
from tocsin.engine.codegen.source import SourceText
from tocsin.engine.codegen.tails import Tails
from tocsin.engine.module_cache import COMPILING
from tocsin.functions import Function
from tocsin.plan.block import Block, Plan

__all__ = ["WITHDRAWN", "Program", "Shape", "generate"]


def generate(
    plan: Plan,
    block: Block,
    shape: Shape,
    functions: Mapping[str, Function],
) -> Program:
    """The kernel of one alternative of a plan; the last ones are remembered."""
    key = (id(plan), id(block), shape, id(functions))
    with COMPILING:
        if key not in _recent:
            if len(_recent) >= 64:
                _recent.pop(next(iter(_recent)))
            _recent[key] = (plan, functions, written(Layout(plan, block, shape, functions)))
        return _recent[key][2]


# the plan and the functions are kept, so that their ids stay theirs
_recent: dict[tuple[object, ...], tuple[Plan, Mapping[str, Function], Program]] = {}


def written(layout: Layout) -> Program:
    """Write the functions of a kernel, inner ones first."""
    source = SourceText(layout)
    levels = Levels(layout, source)
    members = MemberSets(layout, source, levels)
    forbidden = ForbiddenBlocks(layout, source, levels, members)
    certainty = Certainty(layout, source, levels, forbidden)
    groups = Groups(layout, source, levels, forbidden)
    tails = Tails(layout, source, levels)
    nest = Nest(layout, source, levels, members, forbidden, certainty, groups, tails)
    intake = Intake(layout, source, levels, nest, tails)
    gathered = [part.block for each in layout.blocks for part in each.groups]
    for each in layout.blocks[1:][::-1]:
        if each in gathered:
            groups.write_next(each)
        else:
            forbidden.write_violated(each)
    if layout.holds:
        certainty.write_certainties()
    if nest.is_judged:
        nest.write_judge()
    tails.write_remember()
    nest.write_nest()
    nest.write_again()
    intake.write_answers()
    if layout.waits:
        nest.write_settle()
    intake.write_kernel()
    return _program(layout, source, intake.batch_args())


def _program(layout: Layout, source: SourceText, batch_args: list[str]) -> Program:
    text = shallow("\n".join(source.writer.lines) + "\n")
    return Program(
        source=text,
        block=layout.root,
        shape=layout.shape,
        leaf_ids=tuple(layout.buffers),
        shared=tuple(layout.shared.items()),
        nest=layout.nest,
        repeated=tuple(leaf.id for leaf in (*layout.root.repeated, *layout.root.gathered)),
        types=layout.types,
        columns=tuple((attr, is_float, nullable) for attr, (_, is_float, nullable) in layout.columns.items()),
        marks=tuple(layout.marks),
        derived=layout.derived,
        ints=tuple(source.literals.ints),
        floats=tuple(source.literals.floats),
        keyed=bool(layout.keys),
        waits=layout.waits,
        holds=layout.holds,
        ranks="RK[" in text,
        words=layout.words,
        head=layout.head,
        span=layout.span(),
        foreign=tuple(source.foreign_calls),
        asked=tuple(source.asked),
        asked_with=tuple(source.asked_with),
        batch_args=", ".join(batch_args),
        functions=tuple(source.declared),
        tables=layout.tables(),
        has_tails=layout.tail_level >= 0,
        leaf_lists=layout.leaf_lists(),
        key=hashlib.blake2b(text.encode(), digest_size=12).hexdigest(),
    )
