"""Pass: find the attributes by which the events can be kept apart (Li 2010, 2.2.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tocsin.plan.block import Alt, Block, Leaf, Plan
from tocsin.plan.closure import Classes
from tocsin.plan.expr import Bound, Col, Op, given, walk
from tocsin.plan.facts import is_filter
from tocsin.plan.rewrite import all_leaves, attribute, blocks_below, each_block, equality, leaf_of
from tocsin.schema import EID, TYPE, Field, Kind

KEYABLE = frozenset((Kind.INT, Kind.FLOAT, Kind.TIME, Kind.TEXT, Kind.BOOL, Kind.DECIMAL))


def partition_keys(plan: Plan) -> Plan:
    """Make equal attributes of all fixed leaves the key of the plan.

    Repeated leaves and leaves of negated parts join the key where their own block ties them to it. The equalities
    that the key now guarantees are dropped, and so are the tests that its attributes are there.

    Before: SEQ(A a, !B b, C c) with a.id = c.id, and b.id = a.id in the negated part
    After:  key a.id = c.id = b.id, no predicates
    """
    per_block = [_candidates(block, plan) for block in plan.alternatives]
    chosen = _aligned(per_block)
    key: dict[int, tuple[str, ...]] = {}
    leaves = {leaf.id: leaf for leaf in all_leaves(plan)}
    for block, classes in zip(plan.alternatives, chosen, strict=True):
        covered = [_covered(block, start) for start in classes]
        for leaf in (leaf for inner in blocks_below(block) for leaf in inner.leaves):
            if all(leaf.id in cover for cover in covered):
                key[leaf.id] = tuple(cover[leaf.id] for cover in covered)
    if not chosen[0] or (len(key) < 2 and not plan.needs):
        return replace(plan, notes=(*plan.notes, *_unkeyed(plan, {})))
    found = replace(plan, key=tuple(key.items()), notes=(*plan.notes, *_unkeyed(plan, key)))
    return each_block(found, lambda block, around: _without(block, key, leaves, alone=not around and is_filter(block)))


def _unkeyed(plan: Plan, key: dict[int, tuple[str, ...]]) -> Iterator[str]:
    """Say which attributes of `[attr]` became no key, because their values are stored in different ways."""
    used = {attr for attrs in key.values() for attr in attrs}
    for attr in plan.needs:
        fields = {alt.type: plan.schema.field(alt.type, attr) for leaf in all_leaves(plan) for alt in leaf.alts}
        kinds = {type: _group(field) for type, field in fields.items() if field is not None}
        if attr not in used and len(set(kinds.values())) > 1:
            told = ", ".join(f"{fields[type].kind} in {type}" for type in kinds)  # type: ignore[union-attr]
            yield f"[{attr}] keeps no events apart: {attr} is {told} (give it one kind, so that it becomes a key)"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Equal attributes, one for each fixed leaf of a root block."""

    label: str
    group: str  # what the values are inside: whole numbers, texts, decimals of one scale
    attrs: tuple[tuple[int, str], ...]


def _candidates(block: Block, plan: Plan) -> list[Candidate]:
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
    return sorted(found or _single(block, plan), key=lambda candidate: candidate.label)


def _single(block: Block, plan: Plan) -> list[Candidate]:
    """One fixed leaf, tied only to negated parts: its attribute must never be null, or the match would be lost.

    What `[attr]` names never is: events without it are not seen.
    """
    if len(block.fixed) != 1:
        return []
    leaf, leaves = block.fixed[0].id, _leaves_of(block)
    found: dict[str, Candidate] = {}
    for attr in plan.needs:
        fields = [plan.schema.field(alt.type, attr) for alt in block.fixed[0].alts]
        kinds = {_group(field) for field in fields if field is not None and field.kind in KEYABLE}
        if len(kinds) == 1 and all(field is not None and field.kind in KEYABLE for field in fields):
            found[attr] = Candidate(attr, kinds.pop(), ((leaf, attr),))
    for inner in blocks_below(block):
        for side in (side for pair in _pairs(inner, leaves) for side in pair):
            if leaf_of(side) == leaf and not side.nullable and side.kind is not Kind.FLOAT:  # it may be NaN
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


def _without(block: Block, key: dict[int, tuple[str, ...]], leaves: dict[int, Leaf], *, alone: bool) -> Block:
    """The block without what the key guarantees: equalities, and that its attributes are there.

    The kernel of an event that is judged alone looks for no key, so there the tests stay.
    """
    guaranteed = set()
    for left, right in _pairs(block, leaves):
        sides = zip(key.get(leaf_of(left), ()), key.get(leaf_of(right), ()), strict=False)
        if (_attr(left), _attr(right)) in sides:
            guaranteed.add((left, right))
    return replace(
        block,
        leaves=block.leaves if alone else tuple(_untested(leaf, key.get(leaf.id, ())) for leaf in block.leaves),
        predicates=tuple(p for p in block.predicates if equality(p) not in guaranteed),
    )


def _untested(leaf: Leaf, attrs: tuple[str, ...]) -> Leaf:
    """The leaf without the tests that attributes of its key are there."""
    alts = []
    for alt in leaf.alts:
        there = {given(column) for column in _columns(alt) if column.attr in attrs}
        alts.append(replace(alt, where=tuple(test for test in alt.where if test not in there)))
    return replace(leaf, alts=tuple(alts))


def _columns(alt: Alt) -> set[Col]:
    return {node for test in alt.where for node in walk(test) if isinstance(node, Col)}


def _leaves_of(block: Block) -> dict[int, Leaf]:
    return {leaf.id: leaf for inner in blocks_below(block) for leaf in inner.leaves}


def _pairs(block: Block, leaves: dict[int, Leaf]) -> list[tuple[Bound, Bound]]:
    """The equalities of a block whose values can be a key: exact, of one kind, whatever alternative is bound."""
    found = []
    for predicate in block.predicates:
        pair = equality(predicate)
        if pair is None or leaf_of(pair[0]) == leaf_of(pair[1]) or _group(pair[0]) != _group(pair[1]):
            continue
        if {EID, TYPE} & {_attr(pair[0]), _attr(pair[1])}:
            continue  # an eid names one event: there is nothing to keep apart; a type is no attribute
        if all(side.kind in KEYABLE and _every_alternative(side, leaves[leaf_of(side)]) for side in pair):
            found.append(pair)
    return found


def _every_alternative(side: Bound, leaf: Leaf) -> bool:
    """Does the side have a value whichever alternative of its leaf is bound?"""
    columns = side.args if isinstance(side, Op) else (side,)
    return {alt.var for alt in leaf.alts} <= {column.var for column in columns if isinstance(column, Col)}


def _group(side: Bound | Field) -> str:
    """Values of one group are equal exactly if their stored numbers are."""
    if side.kind in (Kind.INT, Kind.TIME):
        return "whole"
    return f"{side.kind} {side.scale}"


def _attr(side: Bound) -> str:
    found = attribute(side)
    assert found is not None
    return found[1]
