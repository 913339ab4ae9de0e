"""Repetitions with a mark: which of the qualifying events become members, inside the loop over them.

The loop meets them in canonical order. FIRST and a known last member end it early, what breaks a run ends it, and LAST
counts them all before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.plan.block import Block, Leaf

if TYPE_CHECKING:
    from tocsin.engine.codegen.members import MemberSets

FACTOR = 6364136223846793005  # of a sum that tells sets apart
BITS = 0x3FFFFFFFFFFFFFFF


def is_signed(block: Block) -> bool:
    """Whether sets of equal size may differ with and without an event: then they are told apart by a sum over them."""
    return any(leaf.taking is not None for leaf in block.repeated) or any(
        x.ends is not None or x.gathers is not None for x in block.forbidden
    )


def last_members(block: Block) -> set[int]:
    """The leaves that hold nothing but a last member: another repetition may take that event, and then has it first."""
    found = (leaf.taking for leaf in block.repeated if leaf.taking is not None)
    return {each.last for each in found if each.last is not None and each.last != each.head}


def signed(total: str, number: str) -> str:
    return f"(({total} * {FACTOR} + {number}) & {BITS})"


def count(members: MemberSets, block: Block, leaf: Leaf, fixed: tuple[int, ...]) -> None:
    """LAST: how many qualify, so that the loop knows how many of them to leave out."""
    if not _keeps_last(leaf):
        return
    source, id = members.source, leaf.id
    source.emit(f"c_{id} = 0")
    members.find(leaf)
    source.loop(id, f"b_{id}")
    source.member = id
    members.qualify(block, leaf, fixed)
    source.emit(f"c_{id} += 1")
    source.member = None
    source.writer.depth -= 1


def choose(members: MemberSets, block: Block, leaf: Leaf) -> None:
    """Before a qualifying event becomes a member."""
    source, id = members.source, leaf.id
    if leaf.taking is not None and leaf.taking.head is not None:  # the first member is known; without it there is none
        source.lines(f"if n_{id} == 0 and {source.word(id, 1)} != {source.word(leaf.taking.head, 1)}:", "    break")
    if _keeps_last(leaf):
        assert leaf.repeat is not None
        source.lines(f"if c_{id} > {leaf.repeat.most}:", f"    c_{id} -= 1", "    continue")
    for part in block.forbidden:
        if part.breaks == id and members.breaking is not None:
            before = f"max(re_{id}, lo_{id} - 1) + 1"
            after = f"{source.time_of(id, 'start')} - 1"
            headless = leaf.taking is None or leaf.taking.head is None
            going = "" if headless else f"n_{id} > 0 and "
            source.lines(f"if {going}{members.breaking(part, before, after)} != 0:", "    break")


def stop(members: MemberSets, leaf: Leaf) -> None:
    """After an event became a member: whether it is the last one."""
    source, id, taking = members.source, leaf.id, leaf.taking
    if taking is None or leaf.repeat is None:
        return
    if taking.last is not None:
        known = f"{source.word(id, 1)} == {source.word(taking.last, 1)}"
        source.lines(f"if {known}:", f"    f_{id} = True", "    break")
    if taking.cut == "first" and leaf.repeat.most is not None:
        source.lines(f"if n_{id} == {leaf.repeat.most}:", "    break")


def _keeps_last(leaf: Leaf) -> bool:
    return leaf.taking is not None and leaf.taking.cut == "last" and leaf.repeat is not None and bool(leaf.repeat.most)
