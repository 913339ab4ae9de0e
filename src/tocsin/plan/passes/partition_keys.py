"""Pass: find the attributes by which the events can be kept apart (Li 2010, 2.2.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tocsin.plan.block import Block, Leaf, Plan
from tocsin.plan.closure import Classes
from tocsin.plan.expr import Bound, Col, Op
from tocsin.plan.rewrite import all_leaves, attribute, blocks_below, each_block, equality, leaf_of
from tocsin.schema import Kind

KEYABLE = frozenset((Kind.INT, Kind.TIME, Kind.TEXT, Kind.BOOL, Kind.DECIMAL))


def partition_keys(plan: Plan) -> Plan:
    """Make equal attributes of all fixed leaves the key of the plan.

    Repeated leaves and leaves of negated parts join the key where their own block ties them to it. The equalities
    that the key now guarantees are dropped.

    Before: SEQ(A a, !B b, C c) with a.id = c.id, and b.id = a.id in the negated part
    After:  key a.id = c.id = b.id, no predicates
    """
    per_block = [_candidates(block) for block in plan.alternatives]
    chosen = _aligned(per_block)
    if not chosen[0]:
        return plan
    key: dict[int, tuple[str, ...]] = {}
    leaves = {leaf.id: leaf for leaf in all_leaves(plan)}
    for block, classes in zip(plan.alternatives, chosen, strict=True):
        covered = [_covered(block, start) for start in classes]
        for leaf in (leaf for inner in blocks_below(block) for leaf in inner.leaves):
            if all(leaf.id in cover for cover in covered):
                key[leaf.id] = tuple(cover[leaf.id] for cover in covered)
    if len(key) < 2:
        return plan
    found = replace(plan, key=tuple(key.items()))
    return each_block(found, lambda block, _: _without(block, key, leaves))


@dataclass(frozen=True, slots=True)
class Candidate:
    """Equal attributes, one for each fixed leaf of a root block."""

    label: str
    group: str  # what the values are inside: whole numbers, texts, decimals of one scale
    attrs: tuple[tuple[int, str], ...]


def _candidates(block: Block) -> list[Candidate]:
    """The classes of equal attributes that cover every fixed leaf and can never be null in a match."""
    classes = Classes()
    groups: dict[object, str] = {}
    for left, right in _pairs(block, _leaves_of(block)):
        classes.join(attribute(left), attribute(right))
        groups[attribute(left)] = groups[attribute(right)] = _group(left)
    fixed = [leaf.id for leaf in block.fixed]
    found = []
    for members in classes.all():
        first: dict[int, str] = {}
        for member in members:
            assert isinstance(member, tuple)
            first.setdefault(member[0], member[1])
        if fixed and all(leaf in first for leaf in fixed):
            attrs = tuple((leaf, first[leaf]) for leaf in fixed)
            found.append(Candidate(attrs[0][1], groups[attrs[0]], attrs))
    return sorted(found or _single(block), key=lambda candidate: candidate.label)


def _single(block: Block) -> list[Candidate]:
    """One fixed leaf, tied only to negated parts: its attribute must never be null, or the match would be lost."""
    if len(block.fixed) != 1:
        return []
    leaf, leaves = block.fixed[0].id, _leaves_of(block)
    found: dict[str, Candidate] = {}
    for inner in blocks_below(block):
        for side in (side for pair in _pairs(inner, leaves) for side in pair):
            if leaf_of(side) == leaf and not side.nullable:
                found[_attr(side)] = Candidate(_attr(side), _group(side), ((leaf, _attr(side)),))
    return list(found.values())


def _aligned(per_block: list[list[Candidate]]) -> list[list[Candidate]]:
    """Give every alternative equally many classes, matched by label where the labels agree, else by position."""
    labels = set.intersection(*({candidate.label for candidate in found} for found in per_block))
    if labels:
        return [[candidate for candidate in found if candidate.label in labels] for found in per_block]
    count = min(len(found) for found in per_block)
    return [found[:count] for found in per_block]


def _covered(block: Block, start: Candidate) -> dict[int, str]:
    """Every leaf that an equality of its own block ties to the key, with its attribute."""
    cover, leaves = dict(start.attrs), _leaves_of(block)
    for inner in blocks_below(block):
        own = {leaf.id for leaf in inner.leaves}
        pairs = _pairs(inner, leaves)
        grown = True
        while grown:
            grown = False
            for left, right in (*pairs, *((y, x) for x, y in pairs)):
                tied = cover.get(leaf_of(right)) == _attr(right)
                if tied and leaf_of(left) in own and leaf_of(left) not in cover:
                    cover[leaf_of(left)] = _attr(left)
                    grown = True
    return cover


def _without(block: Block, key: dict[int, tuple[str, ...]], leaves: dict[int, Leaf]) -> Block:
    """The block without the equalities that the key guarantees."""
    guaranteed = set()
    for left, right in _pairs(block, leaves):
        sides = zip(key.get(leaf_of(left), ()), key.get(leaf_of(right), ()), strict=False)
        if (_attr(left), _attr(right)) in sides:
            guaranteed.add((left, right))
    return replace(block, predicates=tuple(p for p in block.predicates if equality(p) not in guaranteed))


def _leaves_of(block: Block) -> dict[int, Leaf]:
    return {leaf.id: leaf for inner in blocks_below(block) for leaf in inner.leaves}


def _pairs(block: Block, leaves: dict[int, Leaf]) -> list[tuple[Bound, Bound]]:
    """The equalities of a block whose values can be a key: exact, of one kind, whatever alternative is bound."""
    found = []
    for predicate in block.predicates:
        pair = equality(predicate)
        if pair is None or leaf_of(pair[0]) == leaf_of(pair[1]) or _group(pair[0]) != _group(pair[1]):
            continue
        if all(side.kind in KEYABLE and _every_alternative(side, leaves[leaf_of(side)]) for side in pair):
            found.append(pair)
    return found


def _every_alternative(side: Bound, leaf: Leaf) -> bool:
    """Does the side have a value whichever alternative of its leaf is bound?"""
    columns = side.args if isinstance(side, Op) else (side,)
    return {alt.var for alt in leaf.alts} <= {column.var for column in columns if isinstance(column, Col)}


def _group(side: Bound) -> str:
    """Values of one group are equal exactly if their stored numbers are."""
    if side.kind in (Kind.INT, Kind.TIME):
        return "whole"
    return f"{side.kind} {side.scale}"


def _attr(side: Bound) -> str:
    found = attribute(side)
    assert found is not None
    return found[1]
