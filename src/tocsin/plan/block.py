"""The one logical form: a query after binding is a plan of blocks.

A block is a set of leaves without a negation between them: which events may stand at each leaf, how the ends of their
times are ordered, which predicates relate them, and which blocks are forbidden (its negated parts), each within a
scope. Passes rewrite blocks, `explain` prints them, the code generator compiles them.

Leaf ids are unique in a plan, so an expression in a forbidden block can mention leaves of the blocks around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tocsin.lang.syntax import Repeat
from tocsin.plan.after_match import AfterMatch, CountClauses
from tocsin.plan.consumption import Consumption
from tocsin.plan.derived_form import DerivedForm
from tocsin.plan.expr import Bound
from tocsin.plan.staged_form import StagedForm
from tocsin.plan.under import UnderForm
from tocsin.schema import Field, Schema


@dataclass(frozen=True, slots=True)
class Alt:
    """One way to fill a leaf: an event of `type`, called `var`, for which every `where` is TRUE (this leaf only)."""

    type: str
    var: str
    where: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class Taking:
    """Which of the qualifying events a repetition with a mark takes, in canonical order.

    `cut`: if there are too many, the "first" or the "last" of them. `head` and `last` are fixed leaves of the same
    block: the event there is its first member; the event there is its last one, and those behind it are none.
    """

    cut: str | None = None
    head: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place for one event, or for a set of events if `repeat` is given.

    Several alternatives (of distinct types) come from an OR over plain leaves.
    """

    id: int
    alts: tuple[Alt, ...]
    repeat: Repeat | None = None
    taking: Taking | None = None


# --- ends of scopes ----------------------------------------------------------------------------------------------
# A scope is a closed range of ticks [low, high]; an event lies in it if low <= start and end <= high.


@dataclass(frozen=True, slots=True)
class After:
    """low: the tick after the last end of these leaves (an open end on the left); `by` ticks after it behind a FOR."""

    leaves: tuple[int, ...]
    by: int = 1


@dataclass(frozen=True, slots=True)
class Before:
    """high: the tick before the first start of these leaves (an open end on the right)."""

    leaves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lasting:
    """high, of `!q FOR d` behind a step: the last end of these leaves + `by`, which is d - 1.

    `ahead`: nothing that the match binds must come later, so that it waits for this time.
    """

    leaves: tuple[int, ...]
    by: int
    ahead: bool


@dataclass(frozen=True, slots=True)
class Leading:
    """low, of `!q FOR d` before the first step: the first start of these leaves - `by`, which is d."""

    leaves: tuple[int, ...]
    by: int


@dataclass(frozen=True, slots=True)
class Enclosing:
    """low or high, inside a forbidden block only: the scope reaches as far as the scope of the forbidden block."""


@dataclass(frozen=True, slots=True)
class WindowLow:
    """low, at the root: last end of the match - W; the beginning of the stream without WITHIN.

    For a repetition, "the match" is its other leaves.
    """


@dataclass(frozen=True, slots=True)
class WindowHigh:
    """high, at the root: first start of the match + W; the end of the stream without WITHIN."""


@dataclass(frozen=True, slots=True)
class From:
    """low, of a repetition: the tick after the end of this leaf; the event there is its first member."""

    leaf: int


@dataclass(frozen=True, slots=True)
class Until:
    """high, of a repetition: the end of this leaf, whose event is its last member."""

    leaf: int


@dataclass(frozen=True, slots=True)
class LastEnd:
    """high, at the root, under AND: the last end of the match, with or without WITHIN."""


End: TypeAlias = After | Before | Lasting | Leading | Enclosing | WindowLow | WindowHigh | LastEnd | From | Until


@dataclass(frozen=True, slots=True)
class Scope:
    low: End
    high: End


def leaves_of_scope(scope: Scope) -> set[int]:
    """The leaves that decide where a scope begins and ends."""
    ends = (scope.low, scope.high)
    found = {leaf for end in ends if isinstance(end, After | Before | Lasting | Leading) for leaf in end.leaves}
    return found | {end.leaf for end in ends if isinstance(end, From | Until)}


@dataclass(frozen=True, slots=True)
class Point:
    leaf: int
    which: str  # "start" | "end"


@dataclass(frozen=True, slots=True)
class Order:
    """left < right (strict) or left <= right, between two ends of fixed (not repeated) leaves of one block."""

    left: Point
    right: Point
    strict: bool = True


@dataclass(frozen=True, slots=True)
class Membership:
    """How many members a group has; `cut`: the first `most` of them, if there are more.

    `heads`: leaves of the block around it that bind its first member, step by step; NOT_HERE for one that is absent.
    """

    least: int
    most: int | None
    cut: bool = False
    heads: tuple[int, ...] = ()

    def head(self, step: int) -> int:
        """The leaf that binds a step of the first member, or NOT_HERE."""
        return self.heads[step] if self.heads else NOT_HERE


NOT_HERE = -1


@dataclass(frozen=True, slots=True)
class Forbidden:
    """No match of `block` may lie in `scope`. The ends of scope refer to leaves of the block that holds this.

    `breaks`: it forbids nothing, but a repetition (this leaf) ends before the member in front of which a match of it
    lies in the open gap behind the member before. Its scope is that of the repetition.
    `ends`: it forbids nothing, but the gap of this repeated leaf ends where the first match of it starts (UNTIL).
    `gathers`: it forbids nothing; matches of it are members of a group, one behind the other.
    """

    block: Block
    scope: Scope
    breaks: int | None = None
    ends: int | None = None
    gathers: Membership | None = None

    @property
    def forbids(self) -> bool:
        return self.breaks is None and self.ends is None and self.gathers is None


@dataclass(frozen=True, slots=True)
class Block:
    """A set of leaves, in the order of the text; the other fields are conditions that must all hold.

    `predicates` may mention leaves of this block and of the blocks around it. A predicate that mentions a repeated
    leaf of this block outside an aggregate decides membership, one event at a time; one over aggregates (or start/end
    of a repetition) is asked once of the finished set.
    `scopes` gives the scope of each repeated leaf, as (leaf id, scope) pairs.
    `nest` is the order of the fixed leaves in the loop nest, set by a pass. (The partition key belongs to the plan.)
    """

    leaves: tuple[Leaf, ...]
    order: tuple[Order, ...] = ()
    predicates: tuple[Bound, ...] = ()
    forbidden: tuple[Forbidden, ...] = ()
    scopes: tuple[tuple[int, Scope], ...] = ()
    nest: tuple[int, ...] = ()
    missing: str | None = None  # of an alternative that TIMEOUT makes: the step that did not come
    early: bool = True  # test each predicate and forbidden block as soon as its leaves are bound, or all at the end

    @property
    def negations(self) -> tuple[Forbidden, ...]:
        """The forbidden parts that reject a match."""
        return tuple(part for part in self.forbidden if part.forbids)

    @property
    def groups(self) -> tuple[Forbidden, ...]:
        """The parts whose matches are members of a group."""
        return tuple(part for part in self.forbidden if part.gathers is not None)

    @property
    def gathered(self) -> tuple[Leaf, ...]:
        """The leaves of its groups: each holds one event for each member."""
        return tuple(leaf for part in self.groups for leaf in part.block.leaves)

    def leaf(self, id: int) -> Leaf:
        return next(leaf for leaf in self.leaves if leaf.id == id)

    @property
    def fixed(self) -> tuple[Leaf, ...]:
        return tuple(leaf for leaf in self.leaves if leaf.repeat is None)

    @property
    def repeated(self) -> tuple[Leaf, ...]:
        return tuple(leaf for leaf in self.leaves if leaf.repeat is not None)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that the result shows as a column: its name, the types it may have, and its attributes."""

    name: str
    types: tuple[str, ...]
    fields: tuple[Field, ...]
    repeated: bool = False
    hidden: bool = False
    implied: bool = False  # hidden, and known from the others: the first or last member of a repetition


@dataclass(frozen=True, slots=True)
class Output:
    """One SELECT column. Its expression uses leaf ids of *variables*: Col.leaf is the index in Plan.variables.

    `moment`: it is where an event starts or ends, and is shown as results show their own start and end.
    """

    name: str
    expr: Bound
    moment: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A bound query: a union of alternatives (more than one only where an OR could not become a union leaf).

    `key`: for each leaf id the attributes (var, attr) that make its partition key, in one common order; a leaf that the
    key does not cover is absent. Empty when the query has no key.
    `name` is the event type of its matches, `title` what results call the query; a `hidden` one feeds others only.
    `timed_ids`: match ids cover the times of events; not where a state of 0.2 goes on, whose ids must stay.
    `needs`: the attributes of `[attr]` and PARTITION BY; the query does not see an event that lacks one of them.
    `mentions`: the types in its text, also those that no alternative reads because none of their events can be seen.
    `known_by`: for each type the attributes that tell its events apart beside eid and times, whatever passes are off.
    """

    name: str | None
    alternatives: tuple[Block, ...]
    within: int | None
    variables: tuple[Variable, ...]
    outputs: tuple[Output, ...]
    schema: Schema
    key: tuple[tuple[int, tuple[str, ...]], ...] = ()
    needs: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    known_by: tuple[tuple[str, tuple[str, ...]], ...] = ()
    timed_ids: bool = True
    fingerprint: str = ""  # hash of the canonical query without SELECT, and without what chooses among its matches
    notes: tuple[str, ...] = field(default=())  # warnings of the binder, e.g. "can never match"
    title: str = ""
    hidden: bool = False
    after: AfterMatch | None = None  # the clauses that choose among its matches
    consume: Consumption | None = None  # how it uses events up
    staged: StagedForm | None = None  # a staged statement: its variable is the complex event itself
    under: UnderForm | None = None  # what is known of the order in which its events come
    derived: DerivedForm | None = None  # a definition of intervals: the same
    early: bool = False  # matches are told before their intervals have ended, as rows of kind `early`

    @property
    def has_rows_of_its_own(self) -> bool:
        """Whether its answers show no events of the input but what it has made of them."""
        return self.staged is not None or self.derived is not None

    @property
    def has_timed_ids(self) -> bool:
        """Whether match ids cover the times of events; those of early answers cannot, whose ends are not known."""
        return self.timed_ids and not self.early

    @property
    def emits(self) -> tuple[str, ...]:
        """The event types of its matches, for later queries: its name, and the labels of intervals."""
        if self.name is None:
            return ()
        return (self.name,) if self.derived is None else (self.name, *self.derived.definition.labels)

    @property
    def has_timeouts(self) -> bool:
        """Whether rows of kind `timeout` come, too."""
        return any(block.missing is not None for block in self.alternatives)

    @property
    def counts(self) -> CountClauses | None:
        """What is counted, where the result has no matches but their number."""
        return None if self.after is None else self.after.count

    @property
    def identity(self) -> str:
        """32 hex digits that tell whether a state fits: what is detected, and which matches of that are kept."""
        mine = self.fingerprint if self.after is None else self.after.identity(self.fingerprint)
        return mine if self.under is None else self.under.identity(mine)
