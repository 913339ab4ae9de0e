"""Put every predicate into the block that must ask it (docs/semantics.md, 5).

A WHERE conjunct that mentions a variable of a negated part goes into the innermost such part; a predicate written at a
leaf stays in the block of that leaf. Variables of OR branches that an alternative does not bind are NULL there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from tocsin.functions import Function
from tocsin.lang import syntax
from tocsin.lang.syntax import Expr, Span, conjuncts
from tocsin.plan.block import Alt, Block, Forbidden, Leaf
from tocsin.plan.closure import (
    Conditions,
    Member,
    PairWriter,
    as_equality,
    classes_of,
    related_outside,
    written_classes,
)
from tocsin.plan.draft import Draft
from tocsin.plan.expr import Bound, Col, given, leaves
from tocsin.plan.fold import FALSE, TRUE, never_true
from tocsin.plan.gathered import of_outer_members
from tocsin.plan.marks import Neighbours
from tocsin.plan.optional import asked_elsewhere, check_beside_negated, is_dropped
from tocsin.plan.pattern_tree import Absent, Site, Spot, chained
from tocsin.plan.problems import Problems
from tocsin.plan.sought import SoughtFiller
from tocsin.plan.typer import Seen, Typer, member_variables, only_leaf, set_variables, variables, whole_set
from tocsin.schema import Schema


@dataclass(frozen=True, slots=True)
class Context:
    """What every block of a query shares."""

    schema: Schema
    functions: Mapping[str, Function]
    sites: dict[str, list[Site]]
    conditions: Conditions
    problems: Problems
    around: Mapping[str, Neighbours] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)  # variables of items that may be absent, and how


# --- rules that hold for the query as a whole ----------------------------------------------------------------------


def check_mentions(context: Context) -> None:
    """A predicate sees its own block and the blocks around it, never a deeper or a sibling negated part."""
    for sites in context.sites.values():
        for site in sites:
            _check_leaf_mentions(site, context)
    for conjunct in context.conditions.conjuncts:
        _check_siblings(conjunct, context)
        check_beside_negated(conjunct, context.optional, context.sites, context.conditions, context.problems)


def _check_leaf_mentions(site: Site, context: Context) -> None:
    for conjunct in conjuncts(site.leaf.where):
        for var in sorted(variables(conjunct)):
            others = context.sites.get(var, ())
            if others and not any(_inside(site.regions, other.regions) for other in others):
                context.problems.add(
                    f"{site.var} cannot see {var}, which is inside a negated part",
                    conjunct.span or site.leaf.span,
                    detail="a predicate at a leaf sees its own part and the parts around it",
                    hint=f"write the predicate at {var}, or in WHERE, where it moves into the negated part",
                )


def _inside(inner: tuple[Absent, ...], outer: tuple[Absent, ...]) -> bool:
    """Tell whether the inner region is the outer one or lies inside it, and so may mention its variables."""
    return len(outer) <= len(inner) and chained(outer, inner)


def _check_siblings(conjunct: Expr, context: Context) -> None:
    mentioned = [site for var in sorted(variables(conjunct)) for site in context.sites.get(var, ())]
    for one, other in combinations(mentioned, 2):
        if chained(one.regions, other.regions) or not one.beside(other):
            continue
        equality = as_equality(conjunct)
        if equality is not None and related_outside(equality, context.conditions, context.sites):
            continue
        context.problems.add(
            f"{one.var} and {other.var} are in two different negated parts",
            conjunct.span,
            detail="each part is judged by itself, so nothing can relate them",
            hint="relate both to a variable outside them, or negate them together: !SEQ(B b, C c)",
        )


# --- one alternative -----------------------------------------------------------------------------------------------


def filled(root: Draft, context: Context) -> Block | None:
    """The block of one alternative with all its predicates; None if it can never match."""
    classes = classes_of(root, context.conditions, context.sites)
    drafts = list(root.tree())
    blocks = {draft: _Filler(draft, context) for draft in drafts if draft.sought is None}
    for filler in blocks.values():
        filler.leaf_predicates()
        filler.equalities(classes)
        filler.where()
    marks: dict[Draft, SoughtFiller] = {}
    for draft in drafts:
        if draft.sought is not None and draft.parent is not None:
            around = draft.parent if draft.parent.sought is None else draft.parent.parent
            assert around is not None
            marks[draft] = mark = blocks[around].sought(draft)
            mark.fill(blocks[around].owned(mark.stands_for), classes)
    return _block(root, {**blocks, **marks})


def impossible(root: Draft) -> Block:
    """A block for a query that can never match: it keeps its leaves and one predicate that is FALSE."""
    leaves = tuple(
        Leaf(id, tuple(Alt(leaf.type, str(leaf.var)) for leaf in spot.leaves), spot.repeat, root.takings.get(id))
        for spot, id in root.leaves.items()
    )
    scopes = tuple(root.scopes.items())
    return Block(leaves, tuple(root.order), (FALSE,), (), scopes, tuple(root.fixed), early=False)


def _block(draft: Draft, fillers: Mapping[Draft, _Filler | SoughtFiller]) -> Block | None:
    filler = fillers[draft]
    if draft.dead is not None:
        return None
    leaves = tuple(Leaf(id, filler.alts[spot], spot.repeat, draft.takings.get(id)) for spot, id in draft.leaves.items())
    forbidden = []
    for child, scope in draft.forbidden:
        if (block := _block(child, fillers)) is not None:
            ends = None if child.sought is None or child.sought.ends is None else draft.leaves.get(child.sought.ends)
            forbidden.append(Forbidden(block, scope, child.breaks, ends, child.gathers))
        elif child.gathers is not None:
            return None  # a group that never comes
    predicates = (*draft.predicates, *filler.predicates)
    return Block(
        leaves,
        tuple(draft.order),
        (*predicates, *of_outer_members(leaves, predicates)),
        tuple(forbidden),
        tuple(draft.scopes.items()),
        nest=tuple(draft.fixed),
        early=False,
    )


def _present(draft: Draft) -> Iterator[Spot]:
    """The spots of the alternative that a block belongs to: other choices of the same negated parts are left out."""
    path = draft.path()
    for block, chosen in zip(path, (*path[1:], None), strict=True):
        yield from block.leaves
        for child, _ in block.forbidden:
            if chosen is None or child.region is not chosen.region:
                for inner in child.tree():
                    yield from inner.leaves


class _Filler:
    """Adds the predicates of one block."""

    def __init__(self, draft: Draft, context: Context) -> None:
        self.draft = draft
        self.context = context
        self.alts: dict[Spot, tuple[Alt, ...]] = {}
        self.predicates: list[Bound] = []
        self.regions: tuple[Absent, ...] = tuple(b.region for b in draft.path() if b.region is not None)
        self.names: dict[str, Seen | None] = dict.fromkeys(context.sites)
        for block in draft.path():
            for spot, id in block.leaves.items():
                for leaf in spot.leaves:
                    union = len(spot.leaves) > 1
                    self.names[str(leaf.var)] = Seen(id, leaf.type, spot.repeat is not None, union)
        self.present = set(_present(draft))
        self.typer = Typer(context.schema, context.functions, self.names, context.problems)

    def leaf_predicates(self) -> None:
        for spot, id in self.draft.leaves.items():
            found = [self._alt(Alt(leaf.type, str(leaf.var)), id, self._asked(leaf)) for leaf in spot.leaves]
            if all(alt.where == (FALSE,) for alt in found):
                self._die(f"the conditions on {' or '.join(str(leaf.var) for leaf in spot.leaves)} can never be true")
            self.alts[spot] = tuple(found)

    def _asked(self, leaf: syntax.Leaf) -> tuple[Expr, ...]:
        """What is written at a leaf; conditions on an optional step are asked of what could have stood for it."""
        return tuple(expr for expr in conjuncts(leaf.where) if not asked_elsewhere(expr, self.draft.gone))

    def _alt(self, alt: Alt, id: int, written: tuple[Expr, ...]) -> Alt:
        """The alternative with its own predicates; if they can never be TRUE it stays, so that its variable is null."""
        where: list[Bound] = []
        for bound in (*self._key_tests(alt), *map(self._condition, written)):
            if never_true(bound):
                return replace(alt, where=(FALSE,))
            repeated = frozenset(self.draft.repeated)
            if bound == TRUE:
                continue
            own = only_leaf(bound) == id or not leaves(bound)  # what mentions nobody is about this alternative, too
            if own and not whole_set(bound, repeated):
                where.append(bound)
            else:
                self.predicates.append(bound)
        return Alt(alt.type, alt.var, tuple(where))

    def _key_tests(self, alt: Alt) -> Iterator[Bound]:
        """A query with a key does not see events that lack one of its attributes."""
        for attr, span in self.context.conditions.same:
            column = self.typer.column(alt.var, attr, span)
            if isinstance(column, Col):
                field = self.context.schema.field(alt.type, attr)
                column = replace(column, nullable=field is None or field.nullable)  # asked where this one is bound
            yield given(column)

    def equalities(self, classes: list[tuple[list[Member], Span | None]]) -> None:
        around = {var for outer in self.draft.path() for var, how in outer.gone.items() if how != "maybe"}
        gone = around | self.draft.gone.keys()  # an optional step that is absent is a negated neighbour, and not null
        for group in written_classes(self.context.conditions):
            there = [member.vars[0] for member in group if member.vars[0] not in gone]
            pairs = combinations(there, 2)
            if any(None in (self.names.get(x), self.names.get(y)) and self._owns({x, y}) for x, y in pairs):
                self._die("a variable that it compares is null here")
        for group, span in classes:
            writer = PairWriter(self.draft, self.typer, span, self.context.problems)
            for pair in writer.pairs(group):
                self._add(pair)

    def where(self) -> None:
        for conjunct in self.context.conditions.conjuncts:
            if self._owns(variables(conjunct)) and not is_dropped(conjunct, self.draft.gone):
                bound = self._condition(conjunct)
                if as_equality(conjunct) is None:
                    self._add(bound)

    def owned(self, looked_for: str | None) -> list[Expr]:
        """The conjuncts of WHERE that this block asks, of an event that could stand for `looked_for`, too."""
        gone = {var: how for var, how in self.draft.gone.items() if var != looked_for}
        dropped = asked_elsewhere if looked_for in self.draft.gone else is_dropped  # in a negated part, null is asked
        conditions = self.context.conditions.conjuncts
        return [each for each in conditions if self._owns(variables(each)) and not dropped(each, gone)]

    def sought(self, draft: Draft) -> SoughtFiller:
        """Who fills the block of an event that a mark in this block looks for."""
        context = self.context
        present = frozenset(str(leaf.var) for spot in self.present for leaf in spot.leaves)
        return SoughtFiller(
            draft, self.names, context.around, context.schema, context.functions, context.conditions,
            context.problems, present,
        )  # fmt: skip

    def _owns(self, mentioned: Collection[str]) -> bool:
        """Is this the innermost part of this alternative whose variables are mentioned?"""
        innermost: tuple[Absent, ...] = ()
        for var in mentioned:
            regions = self._regions(var)
            if regions is None:
                continue  # of another branch, so null here
            if not chained(regions, innermost):
                return False
            innermost = max(innermost, regions, key=len)
        return len(innermost) == len(self.regions) and chained(innermost, self.regions)

    def _regions(self, var: str) -> tuple[Absent, ...] | None:
        """The negated parts around a variable, seen from this block; None if only other branches of an OR have it.

        A part that another branch has inside this block, or around it, still owns its conjuncts.
        """
        sites = self.context.sites.get(var, [])
        found = next((site for site in sites if site.spot in self.present), None)
        found = found or next((site for site in sites if _inside(self.regions, site.regions)), None)
        found = found or next((site for site in sites if _inside(site.regions, self.regions)), None)
        return found.regions if found else None

    def _condition(self, conjunct: Expr) -> Bound:
        bound = self.typer.condition(conjunct)
        self._check_repetitions(conjunct)
        return bound

    def _add(self, bound: Bound) -> None:
        if never_true(bound):
            self._die("one of its conditions can never be true")
        elif bound != TRUE:
            self.predicates.append(bound)

    def _die(self, reason: str) -> None:
        self.draft.dead = self.draft.dead or reason

    # --- repeated variables -----------------------------------------------------------------------------------------

    def _check_repetitions(self, conjunct: Expr) -> None:
        """Report misused repetitions. Looks at the predicates as written: folding must not hide a mistake."""
        repeated = {var: seen.leaf for var, seen in self.names.items() if seen is not None and seen.repeated}
        around = {var for var, leaf in repeated.items() if leaf not in self.draft.repeated}
        asked = member_variables(conjunct) & repeated.keys()
        sets = set_variables(conjunct) & repeated.keys()
        if asked & around:
            var = min(asked & around)
            self.context.problems.add(
                f"in a negated part {var} can only be mentioned inside an aggregate",
                conjunct.span,
                detail=f"{var} is a repetition of the part around it",
                hint=f"use first({var}.x), max({var}.x), count({var}), ...",
            )
        elif asked & sets:
            var = min(asked & sets)
            self.context.problems.add(
                f"{var} is compared with its own aggregate",
                conjunct.span,
                detail=f"which events belong to {var} would depend on the set of them",
                hint="use aggregates on both sides, or another variable",
            )
        elif asked and len(asked | sets) > 1:
            names = " and ".join(sorted(asked | sets))
            self.context.problems.add(
                f"{names} are both repeated and cannot be related directly",
                conjunct.span,
                detail="which events belong to one would depend on the other",
                hint="relate aggregates of both, or each of them to a variable that is not repeated",
            )
