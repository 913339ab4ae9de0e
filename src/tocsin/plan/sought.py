"""What a mark looks for: the conditions of the one leaf in its forbidden block (docs/semantics.md, 12).

NEXT looks for any event of the query's key, or of the types that OF names. FIRST and LAST look for an event that could
stand at the marked leaf b: the conjuncts that count are copied with b' in the place of b. For LAST all over b count;
for FIRST those written at b, and those that mention nothing to the right of b.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tocsin.events import ANY
from tocsin.functions import Function
from tocsin.lang.syntax import Expr, Span, conjuncts
from tocsin.plan.block import Alt, leaves_of_scope
from tocsin.plan.closure import Conditions, Member, PairWriter, as_equality, written_classes
from tocsin.plan.draft import Draft
from tocsin.plan.expr import Bound, Col, Op, Ref, Time, given
from tocsin.plan.fold import FALSE, TRUE, never_true
from tocsin.plan.marks import Neighbours, looked_for
from tocsin.plan.names import renamed
from tocsin.plan.optional import asked_elsewhere
from tocsin.plan.pattern_tree import Spot
from tocsin.plan.problems import Problems
from tocsin.plan.typer import Seen, Typer, member_variables, only_leaf, stepped_variables, variables
from tocsin.schema import Kind, Schema


class SoughtFiller:
    """Fills the block of one looked-for event. `owned` are the WHERE conjuncts of the block around it.

    `present` are the variables of the alternative, those of its negated parts included; others are null in it.
    """

    def __init__(
        self,
        draft: Draft,
        names: Mapping[str, Seen | None],
        around: Mapping[str, Neighbours],
        schema: Schema,
        functions: Mapping[str, Function],
        conditions: Conditions,
        problems: Problems,
        present: frozenset[str] = frozenset(),
    ) -> None:
        assert draft.sought is not None and draft.parent is not None
        self.draft, self.sought, self.parent = draft, draft.sought, draft.parent
        self.schema, self.functions, self.conditions, self.problems = schema, functions, conditions, problems
        self.present = present
        ((self.spot, self.id),) = draft.leaves.items()
        (self.leaf,) = self.spot.leaves
        self.var, self.stands_for = str(self.leaf.var), self.sought.source(self.leaf)
        self.around = around.get(self.stands_for or "", Neighbours())
        self.alts: dict[Spot, tuple[Alt, ...]] = {}
        self.predicates: list[Bound] = []
        seen = {**names, self.var: Seen(self.id, self.leaf.type)}
        self.typer = Typer(schema, functions, seen, Problems())  # what is wrong is said where it is written
        marked = {str(leaf.var) for leaf in looked_for(self.sought.mark)} if self.stands_for else set()
        self.inside = Typer(schema, functions, {**seen, **dict.fromkeys(marked)}, Problems())  # the others are null

    def fill(self, owned: list[Expr], classes: list[tuple[list[Member], Span | None]]) -> None:
        self._alt()
        for group, span in classes:
            self._equalities(group, span)
        if self.sought.ends is not None:
            self._until(self.sought.ends)
        if self.parent.sought is not None:
            self._before()
        if self.stands_for is None:
            return
        if self._how is not None:
            self._null_equalities()
        if self._how == "repeated":
            self._not_held()
        for expr in self._counting(owned):
            self._check_members(expr)
            if as_equality(expr) is None or expr not in owned:
                self._add(self.inside.condition(renamed(expr, {self.stands_for: self.var})))

    def _alt(self) -> None:
        """A query with a key does not see events that lack one of its attributes."""
        where: list[Bound] = []
        for attr, span in self.conditions.same:
            column = self.typer.column(self.var, attr, span)
            if isinstance(column, Col):
                field = self.schema.field(self.leaf.type, attr)
                column = replace(column, nullable=field is None or field.nullable)
            where.append(given(column))
        wanted = [test for test in where if test != TRUE]
        if any(never_true(test) for test in wanted):
            self._die("its events lack an attribute of the key")
            wanted = [FALSE]
        self.alts[self.spot] = (Alt(self.leaf.type, self.var, tuple(wanted)),)

    # --- the conjuncts that count ---------------------------------------------------------------------------------

    def _counting(self, owned: list[Expr]) -> Iterator[Expr]:
        """The conjuncts that are asked of a looked-for event: at its leaf, at others beside it, and of WHERE."""
        source = next(leaf for leaf in looked_for(self.sought.mark) if leaf.var == self.stands_for)
        gone = {var: how for var, how in self.parent.gone.items() if var != self.stands_for}
        yield from (expr for expr in conjuncts(source.where) if self._is_member(expr))
        beside = [leaf for spot in self.parent.leaves for leaf in spot.leaves if leaf.var != self.stands_for]
        for expr in (*(expr for leaf in beside for expr in conjuncts(leaf.where)), *owned):
            mentioned = variables(expr)
            if not self._is_member(expr) or asked_elsewhere(expr, gone):
                continue
            if self.stands_for in mentioned and (self._is_last() or mentioned <= self._allowed()):
                yield expr

    def _is_member(self, expr: Expr) -> bool:
        """Of a repetition that is absent: whether a condition is asked of each event, and not of the set."""
        if self._how != "repeated":
            return True
        var = str(self.stands_for)
        return var in member_variables(expr) and var not in stepped_variables(expr, self.functions)

    @property
    def _how(self) -> str | None:
        """How the item is absent whose events are looked for; None for a mark."""
        return self.parent.gone.get(str(self.stands_for))

    @property
    def _word(self) -> str:
        if self.sought.ends is not None:
            return "UNTIL"
        return self.sought.mark.mark if self._how is None else f"{self.stands_for}, which may be absent,"

    def _is_last(self) -> bool:
        return self.sought.mark.mark == "LAST"

    def _allowed(self) -> frozenset[str]:
        return self.around.left | self.around.apart | {str(self.stands_for)}

    def _check_members(self, expr: Expr) -> None:
        asked = sorted(var for var in member_variables(expr) if (seen := self.typer.names.get(var)) and seen.repeated)
        if asked:
            self.problems.add(
                f"{self._word} cannot use a conjunct over single members of a repetition",
                expr.span,
                detail=f"it would be asked of each {asked[0]} and of every event that could be {self.stands_for}",
                hint=f"use an aggregate of {asked[0]}, or another variable",
            )

    # --- equalities -----------------------------------------------------------------------------------------------

    def _equalities(self, group: list[Member], span: Span | None) -> None:
        """Tie the looked-for event to a class of equal attributes: to any event of the match if it is the key."""
        keys = {attr for attr, _ in self.conditions.same}
        attrs = [member.attr for member in group if self.stands_for in member.vars or member.attr in keys]
        mine = [Member((self.var,), attr) for attr in dict.fromkeys(attrs)]
        is_key = any(member.attr in keys for member in group)
        others = [member for member in group if self._is_fixed(member) and (is_key or self._may_tie(member))]
        if mine:
            writer = PairWriter(self.draft, self.typer, span, self.problems)
            for pair in writer.pairs([*mine, *others]):
                self._add(pair)

    def _null_equalities(self) -> None:
        """Where an item is absent, what compares it with a variable that is null is null, as in any negated part."""
        dropped = {var for var, how in self.parent.gone.items() if how != "maybe"}
        nobody = {var for var, seen in self.typer.names.items() if seen is None} - dropped - self.present
        for group in written_classes(self.conditions):
            compared = {var for member in group for var in member.vars}
            if self.stands_for in compared and compared & nobody:
                self._die("a variable that it compares is null here")

    def _is_fixed(self, member: Member) -> bool:
        seen = [self.typer.names.get(var) for var in member.vars]
        return self.var not in member.vars and all(one is not None and not one.repeated for one in seen)

    def _may_tie(self, member: Member) -> bool:
        if self.stands_for is None or self.stands_for in member.vars:
            return False
        return self._is_last() or self._allowed().issuperset(member.vars)

    def _until(self, repetition: Spot) -> None:
        """The condition of UNTIL, of the event that ends the repetition."""
        until = repetition.leaves[0].until
        assert until is not None
        typer = Typer(self.schema, self.typer.functions, self.typer.names, self.problems)
        for expr in conjuncts(until.where):
            self._check_members(renamed(expr, {str(until.var): self.var}))
            self._add(typer.condition(renamed(expr, {str(until.var): self.var})))

    def _before(self) -> None:
        """Of an absent repetition: what ends it comes before what could be its member."""
        (other,) = self.parent.leaves.values()
        if self.sought.ends is None:
            op, times = "<", (Time(self.id, "end"), Time(other, "start"))
        else:
            op, times = "<=", (Time(self.id, "start"), Time(other, "end"))
        self.predicates.append(Op(op, times, Kind.BOOL, nullable=False))

    def _not_held(self) -> None:
        """An event that another leaf holds is no member of a repetition."""
        (scope,) = (scope for child, scope in self.parent.forbidden if child is self.draft)
        ends, before = leaves_of_scope(scope), self.parent.before
        for spot, id in self.parent.leaves.items():
            outside = id in ends or any((id, end) in before or (end, id) in before for end in ends)
            for leaf in spot.leaves if spot.repeat is None and not outside else ():
                if ANY in (leaf.type, self.leaf.type) or leaf.type == self.leaf.type:
                    union = len(spot.leaves) > 1
                    held = Ref(id, str(leaf.var), union)
                    other = Op("not", (Op("same", (Ref(self.id, self.var), held), Kind.BOOL, nullable=union),),
                               Kind.BOOL, nullable=union)  # fmt: skip
                    absent = Op("is_null", (held,), Kind.BOOL, nullable=False)
                    self.predicates.append(Op("or", (absent, other), Kind.BOOL, nullable=union) if union else other)

    # --- results --------------------------------------------------------------------------------------------------

    def _add(self, bound: Bound) -> None:
        if never_true(bound):
            self._die("one of its conditions can never be true")
        elif bound != TRUE and only_leaf(bound) == self.id:
            (alt,) = self.alts[self.spot]
            self.alts[self.spot] = (replace(alt, where=(*alt.where, bound)),)
        elif bound != TRUE:
            self.predicates.append(bound)

    def _die(self, reason: str) -> None:
        self.draft.dead = self.draft.dead or reason
