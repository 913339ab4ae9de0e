"""Equalities of WHERE, closed transitively, and written down block by block.

`s.id = c.id AND c.id = e.id` relates s to e even where c is negated (docs/semantics.md, 5). `[attr]` relates every
variable that an alternative binds. For each block a sufficient set of pairs is written: its own leaves in a
chain, and one of them tied to the nearest block around it that has a variable in the class.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise

from tocsin.lang.syntax import Attr, Binary, Expr, Same, Span
from tocsin.plan.block import leaves_of_scope
from tocsin.plan.calls import call
from tocsin.plan.draft import Draft
from tocsin.plan.expr import Bound
from tocsin.plan.fold import is_null
from tocsin.plan.pattern_tree import Absent, Site, chained
from tocsin.plan.problems import Problems
from tocsin.plan.typer import Seen, Typer
from tocsin.schema import Kind


class Classes:
    """Disjoint sets: things that are equal to each other."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def find(self, item: Hashable) -> Hashable:
        self._parent.setdefault(item, item)
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def join(self, one: Hashable, other: Hashable) -> None:
        self._parent[self.find(other)] = self.find(one)

    def all(self) -> list[list[Hashable]]:
        """The classes, each in the order in which its members were first seen."""
        groups: dict[Hashable, list[Hashable]] = {}
        for item in self._parent:
            groups.setdefault(self.find(item), []).append(item)
        return list(groups.values())


@dataclass(frozen=True, slots=True)
class Member:
    """`var.attr`; several variables are the alternatives of one leaf, of which one is bound."""

    vars: tuple[str, ...]
    attr: str


@dataclass(frozen=True, slots=True)
class Equality:
    left: Member
    right: Member
    span: Span | None


@dataclass(frozen=True, slots=True)
class Conditions:
    """WHERE taken apart: written equalities, `[attr]`s, and every conjunct that is not `[attr]`."""

    equalities: tuple[Equality, ...]
    same: tuple[tuple[str, Span | None], ...]
    conjuncts: tuple[Expr, ...]


def taken_apart(conjuncts: Iterable[Expr], partition: Iterable[str]) -> Conditions:
    equalities, same, rest = [], [], []
    for conjunct in conjuncts:
        if isinstance(conjunct, Same):
            same += [(attr, conjunct.span) for attr in conjunct.attrs]
            continue
        rest.append(conjunct)
        if (equality := as_equality(conjunct)) is not None:
            equalities.append(equality)
    same += [(attr, None) for attr in partition]
    return Conditions(tuple(equalities), tuple(same), tuple(rest))


def as_equality(conjunct: Expr) -> Equality | None:
    """`x.a = y.b`, if the conjunct is that. `x.a = x.a` says only that x.a is not null, so it is none."""
    match conjunct:
        case Binary("=", Attr(x, a), Attr(y, b)) if (x, a) != (y, b):
            return Equality(Member((x,), a), Member((y,), b), conjunct.span)
    return None


def related_outside(equality: Equality, conditions: Conditions, sites: dict[str, list[Site]]) -> bool:
    """Does the closure relate both sides of an equality between negated siblings to a variable outside them?"""
    classes = Classes()
    for known in conditions.equalities:
        classes.join(known.left, known.right)
    for attr, _ in conditions.same:
        for var in sites:
            classes.join(Member((next(iter(sites)),), attr), Member((var,), attr))
    around = [site.regions for side in (equality.left, equality.right) for site in sites[side.vars[0]]]
    mine = classes.find(equality.left)
    for group in classes.all():
        if classes.find(group[0]) == mine:
            outside = [site for member in group for site in _sites_of(member, sites)]
            return any(all(_around(site.regions, other) for other in around) for site in outside)
    return False


def _sites_of(member: Hashable, sites: dict[str, list[Site]]) -> list[Site]:
    assert isinstance(member, Member)
    return sites.get(member.vars[0], [])


def _around(outer: tuple[Absent, ...], inner: tuple[Absent, ...]) -> bool:
    """Tell whether the outer region encloses the inner one and is another one."""
    return len(outer) < len(inner) and chained(outer, inner)


# --- one alternative ---------------------------------------------------------------------------------------------


def classes_of(root: Draft, conditions: Conditions, everyone: Iterable[str]) -> list[tuple[list[Member], Span | None]]:
    """The classes of equal attributes in one alternative, each with a place to underline.

    `[attr]` closes over every variable of the query, bound or not, but only bound ones are written down.
    """
    classes = Classes()
    places: dict[Hashable, Span | None] = {}
    for equality in conditions.equalities:
        classes.join(equality.left, equality.right)
        places.setdefault(equality.left, equality.span)
    unions = {tuple(str(leaf.var) for leaf in spot.leaves) for draft in root.tree() for spot in draft.leaves}
    for attr, span in conditions.same:
        members = [Member(vars, attr) for vars in (*((var,) for var in everyone), *sorted(unions))]
        for member in members:
            classes.join(members[0], member)
            places.setdefault(member, span)
    alternatives = {var for union in unions if len(union) > 1 for var in union} if conditions.same else set()
    found = []
    for group in classes.all():
        members = [member for member in group if isinstance(member, Member)]
        span = next((places[member] for member in members if member in places), None)
        found.append(([m for m in members if len(m.vars) > 1 or m.vars[0] not in alternatives], span))
    return found


def written_classes(conditions: Conditions) -> list[list[Member]]:
    """Return the classes of the equalities written in WHERE, without `[attr]`; they hold for unbound variables too."""
    classes = Classes()
    for equality in conditions.equalities:
        classes.join(equality.left, equality.right)
    return [[member for member in group if isinstance(member, Member)] for group in classes.all()]


class PairWriter:
    """Writes the pairs of one class that belong to one block."""

    def __init__(self, draft: Draft, typer: Typer, span: Span | None, problems: Problems) -> None:
        self.draft = draft
        self.typer = typer
        self.span = span
        self.problems = problems

    def pairs(self, members: list[Member]) -> list[Bound]:
        """Equalities that, with those of the blocks around, imply every pair of the class inside this block."""
        visible = sorted((m for m in members if self._seen(m)), key=lambda m: (self._leaf(m), m.attr))
        own = [m for m in visible if self._leaf(m) in self.draft.leaves.values()]
        fixed = [m for m in own if not self._repeated(m)]
        repeated = [m for m in own if self._repeated(m)]
        outside = self._outside(visible, own)
        if not own:
            return []
        if self._mixed(visible):
            return self._every_pair(own, outside)
        anchor = outside[0] if outside else None
        wanted = [*pairwise(fixed)]
        if fixed and anchor:
            wanted.append((fixed[0], anchor))
        tie = fixed[0] if fixed else anchor
        if tie is not None:
            wanted += [(member, tie) for member in repeated]
        else:
            wanted += [pair for pair in pairwise(repeated) if self._one_set(*pair)]
        return [self.typer.compared(self._bound(x), self._bound(y), self.span) for x, y in wanted]

    def _outside(self, visible: list[Member], own: list[Member]) -> list[Member]:
        """The fixed members of the nearest block around, or those of all blocks behind it where there are none."""
        for block in reversed(self.draft.path()[:-1]):
            ids = set(block.leaves.values())
            near = [member for member in visible if self._leaf(member) in ids and not self._repeated(member)]
            if near:
                ends = self._scope_leaves()
                # a leaf that bounds the scope is bound by then anyway: the test need not wait for another one
                return sorted(near, key=lambda member: self._leaf(member) not in ends)
        if own and len(own) < len(visible):
            sets = next(member for member in visible if member not in own)
            self.problems.add(
                f"in a negated part {sets.vars[0]} can only be mentioned inside an aggregate",
                self.span,
                detail=f"{sets.vars[0]} is a repetition of the part around it",
                hint=f"relate it to a variable that is not repeated, or use first({sets.vars[0]}.{sets.attr})",
            )
        return []

    def _scope_leaves(self) -> set[int]:
        parent = self.draft.parent
        scopes = [scope for child, scope in parent.forbidden if child is self.draft] if parent else []
        return {leaf for scope in scopes for leaf in leaves_of_scope(scope)}

    def _one_set(self, left: Member, right: Member) -> bool:
        if self._leaf(left) == self._leaf(right):
            return True
        self.problems.add(
            f"{left.vars[0]} and {right.vars[0]} are both repeated and cannot be related directly",
            self.span,
            hint="relate each of them to a variable that is not repeated",
        )
        return False

    def _mixed(self, members: list[Member]) -> bool:
        """Equality of decimals through a float is not transitive: then every pair must be asked."""
        return {Kind.FLOAT, Kind.DECIMAL} <= {self._bound(member).kind for member in members}

    def _every_pair(self, own: list[Member], outside: list[Member]) -> list[Bound]:
        wanted = [(x, y) for x, y in combinations(own, 2) if not (self._repeated(x) and self._repeated(y))]
        wanted += [(x, y) for x in own for y in outside]
        return [self.typer.compared(self._bound(x), self._bound(y), self.span) for x, y in wanted]

    def _first(self, member: Member) -> Seen | None:
        return self.typer.names.get(member.vars[0])

    def _seen(self, member: Member) -> bool:
        return self._first(member) is not None

    def _leaf(self, member: Member) -> int:
        seen = self._first(member)
        assert seen is not None
        return seen.leaf

    def _repeated(self, member: Member) -> bool:
        seen = self._first(member)
        return seen is not None and seen.repeated

    def _bound(self, member: Member) -> Bound:
        columns = tuple(self.typer.column(var, member.attr, self.span) for var in member.vars)
        known = tuple(column for column in columns if not is_null(column))
        return known[0] if len(known) == 1 and len(columns) == 1 else call("coalesce", columns)
