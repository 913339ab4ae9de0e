"""The pattern as the binder sees it: EXISTS is gone, an OR over plain leaves is one spot, every node has an identity.

A *region* is what lies between negations: the root, or the inside of one `Absent`. A *site* is one declaration of a
variable: its leaf, the regions around it, and the branches of OR that lead to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TypeAlias

from tocsin.events import ANY
from tocsin.lang import syntax
from tocsin.lang.syntax import And, Exists, Iseq, Marked, Maybe, Not, Or, Pattern, Rel, Seq, Span


@dataclass(frozen=True, eq=False, slots=True)
class Spot:
    """One leaf, or several of distinct types of which one is bound."""

    leaves: tuple[syntax.Leaf, ...]

    @property
    def repeat(self) -> syntax.Repeat | None:
        return self.leaves[0].repeat


@dataclass(frozen=True, eq=False, slots=True)
class Chain:
    """SEQ"""

    items: tuple[Part, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Bag:
    """AND"""

    items: tuple[Part, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Fork:
    """OR that is not one spot"""

    items: tuple[Part, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Absent:
    """A negated part; `lasting`: absent for so long.

    `gathers`: it is no negation, but the members of this group.
    """

    part: Part
    span: Span | None
    lasting: syntax.Duration | None = None
    gathers: syntax.Grouped | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Sought:
    """What a mark looks for, in the place where a negated part would stand for it: one spot for each kind of event."""

    mark: Marked
    spots: tuple[Spot, ...]
    ends: Spot | None = None  # the repetition that it ends (UNTIL); else it is forbidden
    inside: tuple[Sought, ...] = ()  # of an absent repetition: what would have ended it before

    @staticmethod
    def until(spot: Spot) -> Sought | None:
        """What ends a repetition, if it says so."""
        (leaf, *_) = spot.leaves
        if leaf.until is None:
            return None
        end = syntax.Leaf(leaf.until.type, f"{leaf.var}'until", span=leaf.until.span)
        return Sought(Marked("NEXT", leaf, span=leaf.until.span), (Spot((end,)),), spot)

    @staticmethod
    def of(mark: Marked) -> Sought:
        if mark.is_strict:
            leaves = [syntax.Leaf(type, "next'", span=mark.span) for type in mark.of or (ANY,)]
        else:
            leaves = [syntax.Leaf(leaf.type, f"{leaf.var}'", span=leaf.span) for leaf in syntax.leaves_of(mark)]
        return Sought(mark, tuple(Spot((leaf,)) for leaf in leaves))

    def source(self, leaf: syntax.Leaf) -> str | None:
        """The variable in whose place a looked-for event would stand; None for NEXT."""
        return None if self.mark.is_strict else str(leaf.var)[:-1]


@dataclass(frozen=True, eq=False, slots=True)
class Gathered:
    """A repetition with a mark. The events at `head` and `last`, if they are given, are its first and last member.

    `breaks`: what ends a run. `from_left`: its gap needs no neighbour to its right, and may end where others begin.
    """

    spot: Spot
    cut: str | None
    head: Spot | None
    last: Spot | None
    breaks: Sought | None

    @property
    def from_left(self) -> bool:
        return self.cut != "last"


@dataclass(frozen=True, eq=False, slots=True)
class Gone:
    """An item that may be absent, where it is: its variables are null, and of `B?` and `B*` no event qualifies.

    `how` is "maybe", "optional" or "repeated".
    """

    vars: tuple[str, ...]
    how: str
    sought: Sought | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Woven:
    """ISEQ"""

    order: tuple[syntax.Comparison, ...]
    spots: tuple[Spot, ...]
    within: syntax.Duration | None


@dataclass(frozen=True, eq=False, slots=True)
class Related:
    """REL"""

    relations: tuple[str, ...]
    left: Part
    right: Spot


Part: TypeAlias = "Spot | Chain | Bag | Fork | Absent | Sought | Gathered | Gone | Woven | Related"
Region: TypeAlias = Absent | None  # None is the root


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """One declaration of a variable. `regions` are the negated parts around it, outermost first."""

    leaf: syntax.Leaf
    spot: Spot
    regions: tuple[Absent, ...]
    forks: tuple[tuple[Part, int], ...]

    @property
    def var(self) -> str:
        assert self.leaf.var is not None  # named() gave every leaf a variable
        return self.leaf.var

    @property
    def region(self) -> Region:
        return self.regions[-1] if self.regions else None

    def beside(self, other: Site) -> bool:
        """Can both be bound at once, that is, are they in no different branches of one OR?"""
        mine = dict(self.forks)
        return all(mine.get(fork, branch) == branch for fork, branch in other.forks)


def chained(one: tuple[Absent, ...], other: tuple[Absent, ...]) -> bool:
    """Does one region lie inside the other?"""
    return all(left is right for left, right in zip(one, other, strict=False))


# --- from syntax -------------------------------------------------------------------------------------------------

Mergeable: TypeAlias = Callable[[tuple[syntax.Leaf, ...]], bool]


def parts(pattern: Pattern, mergeable: Mergeable, *, behind: bool = False) -> Part:
    """The part tree of a pattern; `mergeable` says which leaves of an OR can share one spot.

    `behind`: something positive of the same region stands to its left.
    """
    match pattern:
        case syntax.Leaf():
            return Spot((pattern,))
        case Marked(_, syntax.Leaf() as leaf) if leaf.repeat is not None:
            return gathered(pattern, leaf, leaf.repeat, behind=behind)
        case Not(inner):
            return Absent(_negated(inner, mergeable), pattern.span, pattern.lasting)
        case syntax.Grouped(inner):
            return Absent(_member(inner, mergeable), pattern.span, gathers=pattern)
        case Exists(_, inner):
            return parts(inner, mergeable, behind=behind)
        case Seq(items):
            return _chain(items, mergeable, behind)
        case And(items):
            return Bag(tuple(parts(item, mergeable, behind=behind) for item in items))
        case Or():
            return _either(tuple(_branches(pattern)), mergeable, behind)
        case Iseq(order, leaves, within):
            return Woven(order, tuple(Spot((leaf,)) for leaf in leaves), within)
        case Rel(relations, left, right):
            return Related(relations, parts(left, mergeable), Spot((right,)))
    raise AssertionError(pattern)


def _chain(items: tuple[Pattern, ...], mergeable: Mergeable, behind: bool) -> Chain:
    """The steps of a SEQ. Where an item that may be absent stands first, a repetition behind it begins as it is there.

    `behind`: something positive stands to the left of the SEQ.
    """
    found: list[Part] = []
    for number, item in enumerate(items):
        rest = items[number + 1 :]
        if syntax.may_be_absent(item) and not behind and any(map(_has_marked_repetition, rest)):
            there = (*_steps(_there(item), mergeable, behind), *_chain(rest, mergeable, True).items)
            gone = (_gone(item, behind), *_chain(rest, mergeable, False).items)
            return Chain((*found, Fork((Chain(there), Chain(gone)))))
        found += _steps(item, mergeable, behind)
        behind = behind or not isinstance(item, Not)
    return Chain(tuple(found))


def _member(inner: Pattern, mergeable: Mergeable) -> Part:
    """The pattern of a group: a repetition in it may be empty, and is no choice then."""
    items = inner.items if isinstance(inner, Seq) else (inner,)
    steps = [(Spot((item,)),) if isinstance(item, syntax.Leaf) else _steps(item, mergeable, True) for item in items]
    return Chain(tuple(step for several in steps for step in several))


def _has_marked_repetition(item: Pattern) -> bool:
    return any(isinstance(node, Marked) and _is_repetition(node.pattern) for node in syntax.walk(item))


def _is_repetition(pattern: Pattern) -> bool:
    return isinstance(pattern, syntax.Leaf) and pattern.repeat is not None


def _steps(item: Pattern, mergeable: Mergeable, behind: bool) -> tuple[Part, ...]:
    """An item of SEQ, with what its mark looks for before it, or behind it for LAST.

    An item that may be absent is a choice: it is there, or it is gone.
    """
    if syntax.may_be_absent(item):
        there = _steps(_there(item), mergeable, behind)
        return (Fork((there[0] if len(there) == 1 else Chain(there), _gone(item, behind))),)
    if not isinstance(item, Marked) or _is_repetition(item.pattern):
        return (parts(item, mergeable, behind=behind),)
    step, sought = parts(item.pattern, mergeable, behind=behind), Sought.of(item)
    return (step, sought) if item.mark == "LAST" else (sought, step)


def gathered(mark: Marked, leaf: syntax.Leaf, repeat: syntax.Repeat, *, behind: bool) -> Part:
    """A repetition with a mark. Where nothing stands to its left, it begins at every event that qualifies.

    What ends with a certain member, a prefix or a full number, is found by that member: it is known when that comes.
    """
    if mark.mark == "LAST":
        return Gathered(Spot((leaf,)), "last", None, None, None)
    one = replace(leaf, repeat=None, until=None)
    head = None if behind else Spot((replace(one, var=f"{leaf.var}'first"),))
    last = Spot((replace(one, var=f"{leaf.var}'last"),))
    breaks = Sought.of(mark) if mark.is_strict else None
    each = mark.is_each
    if head is not None and repeat.most == 1:
        return Gathered(Spot((leaf,)), "first", head, head, breaks)
    if not each and repeat.least != repeat.most:
        return Gathered(Spot((leaf,)), "first", head, None, breaks)
    if head is None or repeat.least > 1:
        return Gathered(Spot((leaf,)), "first", head, last, breaks)
    alone = Spot((replace(leaf, repeat=syntax.Repeat(1, 1)),))
    more = Spot((replace(leaf, repeat=syntax.Repeat(2, repeat.most)),))
    return Fork((Gathered(alone, "first", head, head, breaks), Gathered(more, "first", head, last, breaks)))


def _there(item: Pattern) -> Pattern:
    """An item that may be absent, where it is not."""
    match item:
        case Maybe(inner):
            return inner
        case Marked(_, inner):
            return replace(item, pattern=_there(inner))
        case syntax.Leaf(repeat=None):
            return replace(item, optional=False)
        case syntax.Leaf(repeat=syntax.Repeat(_, most)):
            return replace(item, repeat=syntax.Repeat(1, most))
    raise AssertionError(item)


def _gone(item: Pattern, behind: bool) -> Gone:
    if isinstance(item, Maybe):
        return Gone(tuple(str(leaf.var) for leaf in syntax.leaves_of(item)), "maybe")
    (leaf,) = syntax.leaves_of(item)
    single = replace(leaf, repeat=None, optional=False, until=None)
    how = "optional" if leaf.repeat is None else "repeated"
    before = [Sought.until(Spot((leaf,)))]
    if behind and how == "repeated" and isinstance(item, Marked) and item.is_strict:
        before.append(Sought.of(item))  # a run begins next to its left neighbour, or is empty
    sought = Sought.of(Marked("LAST", single, span=leaf.span))
    return Gone((str(leaf.var),), how, replace(sought, inside=tuple(each for each in before if each is not None)))


def gone_in(part: Part) -> Iterator[Gone]:
    """The items that are absent in a part whose choices are made, not those inside negations."""
    if isinstance(part, Gone):
        yield part
    elif not isinstance(part, Absent):
        for item in below(part):
            yield from gone_in(item)


def _negated(pattern: Pattern, mergeable: Mergeable) -> Part:
    """Return the negated parts of a pattern; each branch of an OR is a negated part of its own."""
    bare = _shown(pattern)
    if isinstance(bare, Or):
        return Fork(tuple(parts(branch, mergeable) for branch in _branches(bare)))
    return parts(bare, mergeable)


def _shown(pattern: Pattern) -> Pattern:
    """Return the pattern without the EXISTS around it."""
    while isinstance(pattern, Exists):
        pattern = pattern.pattern
    return pattern


def _branches(pattern: Or) -> Iterator[Pattern]:
    """The branches of an OR, with ORs directly below it opened."""
    for item in pattern.items:
        item = _shown(item)
        if isinstance(item, Or):
            yield from _branches(item)
        else:
            yield item


def _either(branches: tuple[Pattern, ...], mergeable: Mergeable, behind: bool) -> Part:
    leaves = tuple(branch for branch in branches if isinstance(branch, syntax.Leaf) and branch.repeat is None)
    apart = len({leaf.type for leaf in leaves}) == len({leaf.var for leaf in leaves}) == len(branches)
    apart = apart and all(leaf.type != ANY for leaf in leaves)
    if apart and len(leaves) == len(branches) and mergeable(leaves):
        return Spot(leaves)
    return Fork(tuple(parts(branch, mergeable, behind=behind) for branch in branches))


# --- readings ----------------------------------------------------------------------------------------------------


def below(part: Part) -> tuple[Part, ...]:
    match part:
        case Chain(items) | Bag(items) | Fork(items):
            return items
        case Absent(inner):
            return (inner,)
        case Gathered(spot, _, head, last):
            return tuple(dict.fromkeys(each for each in (spot, head, last) if each is not None))
        case Woven(_, spots):
            return spots
        case Related(_, left, right):
            return (left, right)
    return ()


def spots(part: Part) -> Iterator[Spot]:
    """The spots of a part in the order of the text, without those under negations."""
    if isinstance(part, Spot):
        yield part
    elif not isinstance(part, Absent):
        for item in below(part):
            yield from spots(item)


def sites(part: Part, regions: tuple[Absent, ...] = (), forks: tuple[tuple[Part, int], ...] = ()) -> Iterator[Site]:
    """Every declaration in a part tree, in the order of the text."""
    match part:
        case Spot(leaves):
            for branch, leaf in enumerate(leaves):
                yield Site(leaf, part, regions, (*forks, (part, branch)) if len(leaves) > 1 else forks)
        case Fork(items):
            for branch, item in enumerate(items):
                yield from sites(item, regions, (*forks, (part, branch)))
        case Absent(inner):
            yield from sites(inner, (*regions, part), forks)
        case _:
            for item in below(part):
                yield from sites(item, regions, forks)


def outer_members(part: Part) -> frozenset[str]:
    """The names that the first and last members of repetitions got: nobody wrote them."""
    own = [part.head, part.last] if isinstance(part, Gathered) else []
    names = frozenset(str(leaf.var) for spot in own if spot is not None for leaf in spot.leaves)
    if isinstance(part, Absent) and part.gathers is not None:
        names |= frozenset(part.gathers.heads)
    return names.union(*(outer_members(each) for each in below(part)))


def count_choices(part: Part) -> int:
    """How many alternatives `choices` would make."""
    match part:
        case Fork(items):
            return sum(count_choices(item) for item in items)
        case Spot() | Absent() | Sought() | Gathered() | Gone() | Woven():
            return 1
    return prod(count_choices(item) for item in below(part))


def choices(part: Part) -> list[Part]:
    """The alternatives of a part: every OR of its positive level decided. Spots and negated parts stay the same."""
    match part:
        case Fork(items):
            return [choice for item in items for choice in choices(item)]
        case Chain(items):
            return [Chain(combined) for combined in product(*map(choices, items))]
        case Bag(items):
            return [Bag(combined) for combined in product(*map(choices, items))]
        case Related(relations, left, right):
            return [Related(relations, choice, right) for choice in choices(left)]
    return [part]


def lasting_in(part: Part) -> Iterator[Absent]:
    """The negations with FOR in a part, not those inside other negations."""
    if isinstance(part, Absent):
        if part.lasting is not None:
            yield part
    else:
        for item in below(part):
            yield from lasting_in(item)
