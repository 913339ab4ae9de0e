"""The shape of a block: its leaves, their order, and the scopes of its repetitions and negated parts.

Predicates come later (`where.py`). The recursion is that of docs/semantics.md, 4: an item of a SEQ lives in the open
gap between its positive neighbours, every other item in the scope of the whole, and what no neighbour bounds reaches
to the bounds of the block.

Paper: Zhang 2012, 2.2, for nested negation; Li 2010, 2.2.1, for a single one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tocsin.events import ANY, TIME_LIMIT
from tocsin.lang import syntax
from tocsin.plan.allen import RELATIONS, Condition, conjunction
from tocsin.plan.block import (
    NOT_HERE,
    After,
    Before,
    Enclosing,
    End,
    From,
    LastEnd,
    Lasting,
    Leading,
    Membership,
    Order,
    Point,
    Scope,
    Taking,
    Until,
    WindowHigh,
    WindowLow,
    leaves_of_scope,
)
from tocsin.plan.endpoints import comparison_edges
from tocsin.plan.expr import Bound, Lit, Op, Reach, Time
from tocsin.plan.kinds import KindError, ticks
from tocsin.plan.pattern_tree import (
    Absent,
    Bag,
    Chain,
    Gathered,
    Gone,
    Part,
    Region,
    Related,
    Sought,
    Spot,
    Woven,
    choices,
    count_choices,
    gone_in,
    lasting_in,
    spots,
)
from tocsin.plan.problems import Problems
from tocsin.schema import Kind, Schema

MOST_ALTERNATIVES = 64
EVERYWHERE = Scope(Enclosing(), Enclosing())


@dataclass(eq=False, slots=True)
class Draft:
    """A block under construction. `dead` says why it can never match."""

    region: Region
    parent: Draft | None
    leaves: dict[Spot, int] = field(default_factory=dict)
    order: list[Order] = field(default_factory=list)
    predicates: list[Bound] = field(default_factory=list)
    scopes: dict[int, Scope] = field(default_factory=dict)
    forbidden: list[tuple[Draft, Scope]] = field(default_factory=list)
    before: set[tuple[int, int]] = field(default_factory=set)  # leaves that SEQ orders, repeated ones included
    beside: tuple[int, ...] = ()  # for a negated item of AND: the leaves of that AND
    dead: str | None = None
    sought: Sought | None = None  # for the block of an event that a mark looks for
    breaks: int | None = None  # of those: for what ends a run, the repetition
    takings: dict[int, Taking] = field(default_factory=dict)  # of repetitions with a mark
    gaps: dict[int, Scope] = field(default_factory=dict)  # of those: all that lies between their neighbours
    gathers: Membership | None = None  # of the block of a group
    gone: dict[str, str] = field(default_factory=dict)  # variables of items that are absent here, and how

    @property
    def fixed(self) -> list[int]:
        return [id for spot, id in self.leaves.items() if spot.repeat is None]

    def found_from_left(self, id: int) -> bool:
        """A repetition with a mark that needs no fixed neighbour to its right."""
        return id in self.takings and self.takings[id].cut != "last"

    @property
    def repeated(self) -> list[int]:
        return [id for spot, id in self.leaves.items() if spot.repeat is not None]

    def longer_than(self, ticks: int) -> None:
        """Ask that the last end lies more than so long behind the first start."""
        ids = tuple(self.leaves.values())
        end, start = (Time(ids[0], which) if len(ids) == 1 else Reach(ids, which) for which in ("end", "start"))
        length = Op("-", (end, start), Kind.INT, nullable=False)
        self.predicates.append(Op(">", (length, Lit(ticks, Kind.INT)), Kind.BOOL, nullable=False))

    def path(self) -> list[Draft]:
        """The blocks around this one and itself, outermost first."""
        return [*(self.parent.path() if self.parent else ()), self]

    def tree(self) -> Iterator[Draft]:
        yield self
        for child, _ in self.forbidden:
            yield from child.tree()


class Drafter:
    """Makes drafts; leaf ids run through the whole plan."""

    def __init__(self, schema: Schema, within: int | None, problems: Problems, absorbed: Part | None = None) -> None:
        self.schema = schema
        self.within = within
        self.problems = problems
        self.absorbed = absorbed  # the ISEQ whose window is that of the whole query
        self._next = 0

    def alternatives(self, part: Part, region: Region = None, parent: Draft | None = None) -> list[Draft]:
        """One draft for each way to decide the ORs of a part."""
        if (count := count_choices(part)) > MOST_ALTERNATIVES:
            self.problems.add(
                f"the ORs of this pattern make {count} alternatives, at most {MOST_ALTERNATIVES} are allowed",
                region.span if region else None,
                hint="an OR over plain leaves costs nothing; write composite ones as separate queries",
            )
            return []
        return [self._draft(choice, region, parent) for choice in choices(part)]

    def _draft(self, part: Part, region: Region, parent: Draft | None) -> Draft:
        draft = Draft(region, parent)
        draft.gone = {var: gone.how for gone in gone_in(part) for var in gone.vars}
        for spot in spots(part):
            draft.leaves[spot] = self._next
            self._next += 1
        placer = _Placer(self, draft)
        placer.place(part, None, None)
        _shorten(draft)
        for absent, scope, beside in placer.absences:
            for child in self._children(absent, draft):
                child.beside = beside
                if isinstance(absent, Absent) and absent.gathers is not None:
                    child.gathers = _gathering(absent.gathers, draft)
                draft.forbidden.append((child, _short(scope, draft.before)))
        for sought, id in placer.breaks:
            for child in self._children(sought, draft):
                child.breaks = id
                draft.forbidden.append((child, draft.scopes[id]))
        check_repetitions(draft, self.within, self.problems)
        _check_groups(draft, self.within, self.problems)
        return draft

    def _children(self, absent: Absent | Sought, parent: Draft) -> Iterator[Draft]:
        """The blocks of a negated part; of a mark, one of one leaf for each kind of event that it looks for."""
        if isinstance(absent, Absent):
            yield from self.alternatives(absent.part, absent, parent)
            return
        for spot in absent.spots:
            draft = Draft(Absent(spot, absent.mark.span), parent, {spot: self._next}, sought=absent)
            self._next += 1
            for sought in absent.inside:
                draft.forbidden += [(end, EVERYWHERE) for end in self._children(sought, draft)]
            yield draft


class _Placer:
    """Walks one OR-free part and writes order, scopes and absences into a draft."""

    def __init__(self, drafter: Drafter, draft: Draft) -> None:
        self.drafter = drafter
        self.draft = draft
        self.absences: list[tuple[Absent | Sought, Scope, tuple[int, ...]]] = []
        self.breaks: list[tuple[Sought, int]] = []

    def place(
        self, part: Part, low: End | None, high: End | None, parent: Part | None = None, far: End | None = None
    ) -> None:
        """`low` and `high` are the scope of the part; None where no neighbour bounds it.

        `far` is where a repetition ends that is found from its left: others of its kind do not bound it.
        """
        match part:
            case Gathered():
                self._gathered(part, low, far if part.from_left else high, parent)
            case Spot() if part.repeat is not None:
                scope = self._closed(low, high, parent)
                self.draft.scopes[self.draft.leaves[part]] = scope
                if (until := Sought.until(part)) is not None:
                    self.absences.append((until, scope, ()))
            case Absent():
                beside = self._ids(parent) if isinstance(parent, Bag) else ()
                self.absences.append((part, self._closed(low, high, parent), beside))
            case Gone():
                if part.sought is not None:
                    self.absences.append((part.sought, self._closed(low, high, parent), ()))
            case Sought():
                self._check_next(part, low)
                self.absences.append((part, self._closed(low, high, parent), ()))
            case Chain(items):
                self._chain(part, items, low, high, far)
            case Bag(items):
                for item in items:
                    self.place(item, low, high, part, far)
            case Woven():
                self._woven(part)
            case Related(_, left, right):
                self.place(left, low, high, part, far)
                self._related(part, self._ids(left), self.draft.leaves[right])

    def _chain(self, chain: Chain, items: tuple[Part, ...], low: End | None, high: End | None, far: End | None) -> None:
        ids = [self._ids(item) for item in items]
        begins = low  # where the gap begins in which an item stands
        for number, item in enumerate(items):
            right = next((mine for mine in ids[number + 1 :] if mine), None)
            ends: End | None = Before(right) if right else high
            if isinstance(item, Absent) and item.lasting is not None:
                begins = self._lasting(item, item.lasting, begins, ends)
                continue
            bounding = next((mine for other in items[number + 1 :] if (mine := self._bounding(other))), None)
            self.place(item, begins, ends, chain, Before(bounding) if bounding else far)
            if ids[number]:
                self._behind(None if begins is low else begins, ids[number])
                begins = After(ids[number], max(1, self._delay(item, behind=isinstance(ends, Before))))
        fixed = set(self.draft.fixed)
        anchored = [kept for mine in ids if (kept := [id for id in mine if id in fixed])]
        for earlier, later in pairwise(anchored):
            self.draft.order += [Order(Point(x, "end"), Point(y, "start")) for x in earlier for y in later]
        for number, mine in enumerate(ids):
            self.draft.before.update((x, y) for others in ids[number + 1 :] for x in mine for y in others)

    # --- FOR --------------------------------------------------------------------------------------------------------

    def _lasting(self, absent: Absent, length: syntax.Duration, low: End | None, high: End | None) -> End | None:
        """Place `!q FOR d`; where the gap of the next item begins."""
        by = self._ticks(length)
        if not isinstance(low, After):
            assert isinstance(high, Before)  # a SEQ has a positive item
            self.absences.append((absent, Scope(Leading(high.leaves, by), high), ()))
            return low
        ahead = not isinstance(high, Before)
        self.absences.append((absent, Scope(After(low.leaves), Lasting(low.leaves, by - 1, ahead)), ()))
        return After(low.leaves, max(low.by, by))

    def _behind(self, low: End | None, ids: tuple[int, ...]) -> None:
        """A step behind a FOR starts when its time has passed; members of a repetition are kept by their scope."""
        fixed = tuple(id for id in ids if id in self.draft.fixed)
        if not isinstance(low, After) or low.by == 1 or not fixed:
            return
        over = Op("+", (Reach(low.leaves, "end"), Lit(low.by, Kind.INT)), Kind.INT, nullable=False)
        self.draft.predicates.append(Op("<=", (over, Reach(fixed, "start")), Kind.BOOL, nullable=False))

    def _delay(self, part: Part, *, behind: bool) -> int:
        """How many ticks behind the end of a part the next gap begins, if the part ends with a FOR; else 0.

        `behind`: a step comes behind it.
        """
        if isinstance(part, Chain):
            delay = 0
            for item in reversed(part.items):
                if self._ids(item):
                    return max(delay, self._delay(item, behind=behind))
                if isinstance(item, Absent) and item.lasting is not None:
                    delay = max(delay, self._ticks(item.lasting))
        if behind and isinstance(part, Bag | Related):
            for item in part.items if isinstance(part, Bag) else (part.left,):
                if self._delay(item, behind=True):
                    self.drafter.problems.add(
                        "FOR at the end of a part of AND, with a step behind it",
                        next(absent.span for absent in lasting_in(item)),
                        detail="the step would have to wait for that part only, and not for the whole AND",
                        hint="leave FOR out, or put the SEQ with it at the end of the pattern",
                    )
        return 0

    def _ticks(self, length: syntax.Duration) -> int:
        try:
            found = max(1, ticks(length, self.drafter.schema))
        except KindError as error:
            self.drafter.problems.add(error.message, length.span, hint=error.hint)
            return 1
        if found >= TIME_LIMIT:
            self.drafter.problems.add("this time is too long", length.span, hint=f"it must be below {TIME_LIMIT} ticks")
        return found

    # --- repetitions with marks -------------------------------------------------------------------------------------

    def _bounding(self, part: Part) -> tuple[int, ...]:
        """The leaves that end the gap of a repetition to their left, if that is found from its own left."""
        if isinstance(part, Gathered) and part.from_left:
            return ()
        if isinstance(part, Chain):
            return next((mine for item in part.items if (mine := self._bounding(item))), ())
        return self._ids(part)

    def _gathered(self, part: Gathered, low: End | None, high: End | None, parent: Part | None) -> None:
        """A repetition with a mark: between its first and its last member, if these are known by themselves."""
        spots = (part.spot, part.head, part.last)
        id, head, last = (None if spot is None else self.draft.leaves[spot] for spot in spots)
        assert id is not None
        closed = self._closed(low, high, parent)
        self.draft.scopes[id] = Scope(
            closed.low if head is None else From(head), closed.high if last is None else Until(last)
        )
        self.draft.takings[id] = Taking(part.cut, head, last)
        self.draft.gaps[id] = closed
        if head is not None and last is not None and head != last:
            self.draft.order.append(Order(Point(head, "end"), Point(last, "start")))
        if part.breaks is not None:
            self.breaks.append((part.breaks, id))
        if (until := Sought.until(part.spot)) is not None:
            self.absences.append((until, closed if head is None else Scope(From(head), closed.high), ()))

    def _check_next(self, part: Sought, low: End | None) -> None:
        if part.mark.mark == "NEXT" and low is None:
            self.drafter.problems.add(
                "NEXT has nothing before it",
                part.mark.span,
                detail="it says that nothing comes between its item and the one before",
                hint="leave it out here; at the first step, FIRST says that no other event came before",
            )

    def _ids(self, part: Part | None) -> tuple[int, ...]:
        if part is None or isinstance(part, Absent | Sought | Gone):
            return ()
        return tuple(self.draft.leaves[spot] for spot in spots(part))

    def _closed(self, low: End | None, high: End | None, parent: Part | None) -> Scope:
        """Where nothing bounds: the enclosing scope, or at the root the ends of the window."""
        if self.draft.region is not None:
            return Scope(low or Enclosing(), high or Enclosing())
        last = LastEnd() if isinstance(parent, Bag) else WindowHigh()
        return Scope(low or WindowLow(), high or last)

    # --- endpoint comparisons -------------------------------------------------------------------------------------

    def _woven(self, part: Woven) -> None:
        ids = {spot.leaves[0].var: self.draft.leaves[spot] for spot in part.spots}
        for comparison in part.order:
            left, right = comparison.left, comparison.right
            if left.var in ids and right.var in ids:
                self._compare(Point(ids[left.var], left.which), comparison.op, Point(ids[right.var], right.which))
        if part.within is not None and part is not self.drafter.absorbed:
            self._narrow(part.within, tuple(ids.values()))

    def _compare(self, left: Point, op: str, right: Point) -> None:
        for low, high, strict in comparison_edges(left, op, right):
            assert isinstance(low, Point) and isinstance(high, Point)
            self.draft.order.append(Order(low, high, strict))

    def _narrow(self, within: syntax.Duration, ids: tuple[int, ...]) -> None:
        """Bound the span of a nested ISEQ by the window that it has of its own."""
        try:
            limit = Lit(ticks(within, self.drafter.schema), Kind.INT)
        except KindError as error:
            self.drafter.problems.add(error.message, within.span, hint=error.hint)
            return
        length = Op("-", (Reach(ids, "end"), Reach(ids, "start")), Kind.INT, nullable=False)
        self.draft.predicates.append(Op("<=", (length, limit), Kind.BOOL, nullable=False))

    def _related(self, part: Related, left: tuple[int, ...], right: int) -> None:
        conditions = conjunction(part.relations)
        if conditions is not None and (len(left) == 1 or all(_is_for_all(one) for one in conditions)):
            for mine, op, other in conditions:
                for leaf in left:
                    self._compare(Point(leaf, mine), op, Point(right, other))
            return
        tests = tuple(_all_of(RELATIONS[name], left, right) for name in part.relations)
        self.draft.predicates.append(tests[0] if len(tests) == 1 else Op("or", tests, Kind.BOOL, nullable=False))


def _is_for_all(condition: Condition) -> bool:
    """Tell whether a comparison with the part holds for every leaf: its last end before, or its first start after."""
    mine, op, _ = condition
    return (mine == "end" and op in ("<", "<=")) or (mine == "start" and op in (">", ">="))


def _all_of(conditions: tuple[Condition, ...], left: tuple[int, ...], right: int) -> Bound:
    def end_of(which: str) -> Bound:
        return Time(left[0], which) if len(left) == 1 else Reach(left, which)

    tests = tuple(
        Op(op, (end_of(mine), Time(right, other)), Kind.BOOL, nullable=False) for mine, op, other in conditions
    )
    return tests[0] if len(tests) == 1 else Op("and", tests, Kind.BOOL, nullable=False)


# --- repetitions -------------------------------------------------------------------------------------------------


def _short(scope: Scope, before: set[tuple[int, int]]) -> Scope:
    """Only the leaves that can decide an end: of two that SEQ orders, the later for After, the earlier for Before."""
    low, high = scope.low, scope.high
    if isinstance(low, After):
        low = replace(low, leaves=_latest(low.leaves, before))
    if isinstance(high, Lasting):
        high = replace(high, leaves=_latest(high.leaves, before))
    if isinstance(low, Leading):
        low = replace(low, leaves=_earliest(low.leaves, before))
    if isinstance(high, Before):
        high = Before(_earliest(high.leaves, before))
    return Scope(low, high)


def _latest(leaves: tuple[int, ...], before: set[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(x for x in leaves if not any((x, y) in before for y in leaves))


def _earliest(leaves: tuple[int, ...], before: set[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(y for y in leaves if not any((x, y) in before for x in leaves))


def _shorten(draft: Draft) -> None:
    for leaf, scope in draft.scopes.items():
        draft.scopes[leaf] = _short(scope, draft.before)


def check_repetitions(draft: Draft, within: int | None, problems: Problems) -> None:
    """Report repetitions whose scopes are not settled by fixed leaves; then put them in the order of evaluation."""
    repeated = {id: spot for spot, id in draft.leaves.items() if spot.repeat is not None}
    if not repeated:
        return
    first = next(iter(repeated.values())).leaves[0]
    if not draft.fixed and (draft.region is None or len(repeated) > 1):
        problems.add(
            f"nothing bounds the repetition {first.var} on either side",
            first.span,
            hint=f"put a leaf that is not repeated beside it: SEQ(A a, {first.type}+ {first.var})",
        )
        return
    windowed = [id for id in repeated if within is not None and _needs_window(draft.scopes[id])]
    circular = [id for id in windowed if not draft.found_from_left(id)]
    if len(windowed) > 1 and circular:
        leaf = repeated[windowed[1]].leaves[0]
        names = " and ".join(str(repeated[id].leaves[0].var) for id in windowed)
        problems.add(
            f"{names} both reach to the end of the window",
            leaf.span,
            detail="the window is counted from the other events of the match, so each would decide the other",
            hint="put a leaf that is not repeated at one end of the pattern",
        )
        return
    _evaluation_order(draft, repeated, circular, problems)
    _same_type(draft, repeated, problems)


def _check_groups(draft: Draft, within: int | None, problems: Problems) -> None:
    """Report a group and a repetition that would both decide how far the window reaches."""
    repeated = {id: spot.leaves[0] for spot, id in draft.leaves.items() if spot.repeat is not None}
    free = [id for id in repeated if not draft.found_from_left(id)]
    windowed = [repeated[id] for id in free if _needs_window(draft.scopes[id])]
    for child, scope in draft.forbidden:
        if child.gathers is not None and within is not None and windowed and _needs_window(scope):
            problems.add(
                f"{windowed[0].var} and a group both reach to the end of the window",
                windowed[0].span,
                detail="the window is counted from the other events of the match, so each would decide the other",
                hint="put an event that is not repeated at one end of the pattern",
            )


def _gathering(group: syntax.Grouped, draft: Draft) -> Membership:
    called = {str(leaf.var): id for spot, id in draft.leaves.items() for leaf in spot.leaves}
    heads = tuple(called.get(var, NOT_HERE) for var in group.heads)
    return Membership(group.repeat.least, group.repeat.most, group.first, heads)


def _needs_window(scope: Scope) -> bool:
    return isinstance(scope.low, WindowLow) or isinstance(scope.high, WindowHigh | LastEnd)


def _evaluation_order(draft: Draft, repeated: dict[int, Spot], windowed: list[int], problems: Problems) -> None:
    """Sort the scopes so that each uses only repetitions before it; a circle is an error."""
    needs: dict[int, set[int]] = {}
    for id, scope in draft.scopes.items():
        used = leaves_of_scope(scope) | leaves_of_scope(draft.gaps.get(id, scope))
        needs[id] = (set(repeated) if id in windowed else used & set(repeated)) - {id}
    done: dict[int, Scope] = {}
    while ready := [id for id in needs if id not in done and needs[id] <= done.keys()]:
        done[ready[0]] = draft.scopes[ready[0]]
    if len(done) < len(needs):
        leaf = repeated[next(id for id in reversed(needs) if id not in done)].leaves[0]
        names = " and ".join(str(repeated[id].leaves[0].var) for id in needs if id not in done)
        problems.add(
            f"the repetitions {names} bound each other",
            leaf.span,
            detail="which events belong to one would depend on the other",
            hint="put a leaf that is not repeated between them",
        )
        return
    draft.scopes = done


def _same_type(draft: Draft, repeated: dict[int, Spot], problems: Problems) -> None:
    pairs = [(x, y) for x in repeated for y in repeated if x < y]
    for x, y in pairs:
        types = {repeated[x].leaves[0].type, repeated[y].leaves[0].type}
        same = len(types) == 1 or ANY in types
        apart = any((x, f) in draft.before and (f, y) in draft.before for f in draft.fixed)
        apart = apart or (draft.found_from_left(x) and draft.found_from_left(y) and (x, y) in draft.before)
        if same and not apart:
            leaf = repeated[y].leaves[0]
            problems.add(
                f"{repeated[x].leaves[0].var} and {leaf.var} repeat the same type in the same place",
                leaf.span,
                detail="an event can be a member of one repetition only",
                hint="separate them in a SEQ by a leaf that is not repeated",
            )
