"""The syntax nodes of a query: frozen, hashable, compared without their place in the text.

Nodes say what was written and nothing more: names are not resolved and types not known here.
The parser, the fluent API and the printer all speak in these nodes; so does the oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias
from typing import Literal as Choice

if TYPE_CHECKING:
    from tocsin.lang.constraint_syntax import UnderClause


@dataclass(frozen=True, slots=True)
class Span:
    """Character offsets [start, end) into the query text."""

    start: int
    end: int


def _place() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


# --- expressions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Numbers with a fraction are Decimal, so that 0.1 means 0.1; None is NULL."""

    value: bool | int | Decimal | str | None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time: `10` (ticks), `12 h`. Units are the short forms in UNITS."""

    amount: int | Decimal
    unit: str | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Name:
    """A variable by itself: `x <> y` compares events, `count(b)`, `start(b)`, `x IS NULL`."""

    name: str
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Attr:
    """`var.name`"""

    var: str
    name: str
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Unary:
    op: Choice["NOT", "-"]
    operand: Expr
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Binary:
    """op is one of AND OR = <> < <= > >= + - * / % ||"""

    op: str
    left: Expr
    right: Expr
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class In:
    operand: Expr
    options: tuple[Expr, ...]
    negated: bool = False
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Between:
    operand: Expr
    low: Expr
    high: Expr
    negated: bool = False
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Like:
    """% is any text, _ is one character, a backslash takes the next character literally."""

    operand: Expr
    pattern: Expr
    negated: bool = False
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Expr
    negated: bool = False
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class CaseWhen:
    """CASE WHEN c THEN v ... [ELSE e] END; the form CASE x WHEN v is parsed to comparisons x = v."""

    whens: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Call:
    """A function by its lower-case name; `start(x)`, `end(x)` and the aggregates are calls too."""

    function: str
    args: tuple[Expr, ...]
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Relates:
    """`a OVERLAPS b`: how the times of two variables stand to each other; one of ALLEN, or INTERSECT."""

    left: Name
    relation: str
    right: Name
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Same:
    """`[attr, ...]`: each attr is equal over every variable of the query, negated ones included."""

    attrs: tuple[str, ...]
    span: Span | None = _place()


Expr: TypeAlias = (
    "Literal | Duration | Name | Attr | Unary | Binary | In | Between | Like | IsNull"
    " | CaseWhen | Call | Relates | Same"
)

MEMBER = "[]"  # `b[2].v` is Call(MEMBER, (b.v, 2)): the second member, from the end if the number is negative
DISTINCT = "count distinct"  # `count(distinct b.v)`: how many values that differ
COLLECT = "collect"  # `collect(b.v)`: the values of all members, as a list; only as a column of SELECT
EVERYTHING = "*"  # `s.*` is Call(EVERYTHING, (s,)): all attributes of one event; only as an item of SELECT
AGGREGATES = ("count", "sum", "avg", "min", "max", "first", "last", MEMBER, DISTINCT, COLLECT)
ENDS = ("start", "end")  # of a repetition, `start(b)` and `end(b)` ask the whole set
RELATION = "relation"  # `relation(a, b)`: the name of the relation in which a stands to b
PREV = "prev"  # `prev(b.v)`: of the member before; a conjunct with it is asked of the set

# --- patterns ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repeat:
    """`+` is Repeat(1, None), `{3}` is Repeat(3, 3), `{2,}` is Repeat(2, None), `*` is Repeat(0, None)."""

    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Leaf:
    """`Type [repeat] [var] [: where] [UNTIL ...]`; the type ANY takes every event of the input.

    `optional` is `Type? var`. `until` ends a repetition: of `UNTIL A a : c` it is the leaf `A a : c`, of `UNTIL c` a
    leaf with the type and the variable of the repetition.
    """

    type: str
    var: str | None = None
    where: Expr | None = None
    repeat: Repeat | None = None
    optional: bool = False
    until: Leaf | None = None

    @property
    def may_be_absent(self) -> bool:
        """Whether it is `B?`, `B*` or `B{0,m}`."""
        return self.optional or (self.repeat is not None and self.repeat.least == 0)

    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Not:
    """`!pattern`, an item of SEQ or AND; `!pattern FOR lasting`, an item of SEQ: absent for so long, no longer."""

    pattern: Pattern
    lasting: Duration | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Marked:
    """`NEXT item`, `NEXT OF (C, D) item`, `FIRST item`, `LAST item`: which of several events stands at an item of SEQ.

    `of` are the types that must not come between; empty: none at all. Before a repetition a mark says which of the
    qualifying events are members; `EACH B+ b`, `EACH NEXT B+ b`: one match for every prefix of them.
    """

    mark: Choice["NEXT", "FIRST", "LAST", "EACH", "EACH NEXT"]
    pattern: Pattern
    of: tuple[str, ...] = ()
    span: Span | None = _place()

    @property
    def is_strict(self) -> bool:
        """Whether nothing may come between; of a repetition, whether its members are a run."""
        return self.mark in ("NEXT", "EACH NEXT")

    @property
    def is_each(self) -> bool:
        """Whether every prefix of the members is a match."""
        return self.mark in ("EACH", "EACH NEXT")


@dataclass(frozen=True, slots=True)
class Maybe:
    """`MAYBE item`, an item of SEQ: the matches with it, and those without it."""

    pattern: Pattern
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Grouped:
    """`(SEQ(A a, B b))+ g`, an item of SEQ: matches of a pattern, one behind the other, each the next to complete.

    `first`: FIRST before it takes the first `most` members, where more would come. `heads`: what the steps of its first
    member are called, where the binder gives them leaves of their own.
    """

    pattern: Pattern
    repeat: Repeat
    var: str | None = None
    first: bool = False
    heads: tuple[str, ...] = ()
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Seq:
    items: tuple[Pattern, ...]
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class And:
    items: tuple[Pattern, ...]
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Or:
    items: tuple[Pattern, ...]
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Exists:
    """`EXISTS vars : pattern` hides the variables from the result."""

    vars: tuple[str, ...]
    pattern: Pattern
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """start(var) or end(var); also written var.ts, var^-, var.te, var^+."""

    var: str
    which: Choice["start", "end"]
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Comparison:
    """One endpoint comparison of a TList; op is one of < <= = > >=. A chain a < b < c is two of them."""

    left: Endpoint
    op: str
    right: Endpoint
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Iseq:
    """`ISEQ[tlist](leaf, ... [; within])`"""

    order: tuple[Comparison, ...]
    leaves: tuple[Leaf, ...]
    within: Duration | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Rel:
    """`REL[relation, ...](left, right)`: the span of left stands in one of the Allen relations to right."""

    relations: tuple[str, ...]
    left: Pattern
    right: Leaf
    span: Span | None = _place()


Pattern: TypeAlias = "Leaf | Not | Marked | Maybe | Grouped | Seq | And | Or | Exists | Iseq | Rel"

ALLEN = (
    "before", "after", "during", "contain", "meet", "met by", "overlap", "overlapped by",
    "start", "started by", "finish", "finished by", "equal",
)  # fmt: skip
INTERSECT = "intersect"  # two events share time: not one of Allen's relations, but eleven of them


@dataclass(frozen=True, slots=True)
class SelectItem:
    expr: Expr
    name: str | None = None
    span: Span | None = _place()


# --- after a match -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SkipClause:
    """`AFTER MATCH SKIP ...`: past the last event, to the next event, or to the first or last event of a variable."""

    to: Choice["past last", "next", "first", "last"]
    var: Name | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class DistinctClause:
    """`DISTINCT BY by [EVERY every]`. An attribute of the key by itself is `Same((attr,))`, here and in LIMIT."""

    by: Expr
    every: Duration | None = None
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class LimitClause:
    """`LIMIT most [PER per, ...] [EVERY every]`"""

    most: int
    per: tuple[Expr, ...] = ()
    every: Duration | None = None
    span: Span | None = _place()


# Consumption modes; recent is not Snoop's, which keeps its first event.
MODES = ("unrestricted", "recent", "latest", "first", "chronicle", "cumulative", "continuous", "snoop_recent")


@dataclass(frozen=True, slots=True)
class ConsumeClause:
    """`CONSUME mode`: what happens to events that stand in a match; the mode is one of MODES."""

    mode: str
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """`WITHIN (more, less)`: the last end minus the first start is longer than the one and shorter than the other."""

    more: Duration
    less: Duration
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class ContinuityClause:
    """`CONTINUITY OF (C, D)`: between first and last no event of these types that is not bound.

    Without types, `CONTINUITY ALL`: no event of a type that the pattern does not name.
    """

    types: tuple[str, ...] = ()
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Query:
    """One query. `hidden`: only later queries read its matches, they are not reported.

    `between` is a window with two strict ends, in place of `within`.
    `strategy` sets the mark of every step that has none: `next` is FIRST, `strict` is NEXT, `any` and None are no mark.

    `group` and `every`: GROUP BY and EVERY, where SELECT counts matches. A bare name is `Same((attr,))`, as in LIMIT.

    `timeout`: beginnings of a SEQ that no next step extended within the window are reported, too.

    `early`: matches are told as soon as they are certain, before their intervals have ended.

    `under`: the constraints that its events are known to obey (`lang/constraint_syntax`).

    `text` is what it was parsed from, kept only to show places in errors.
    """

    pattern: Pattern
    name: str | None = None
    where: Expr | None = None
    within: Duration | None = None
    partition: tuple[str, ...] = ()
    select: tuple[SelectItem, ...] = ()
    hidden: bool = False
    strategy: Choice["any", "next", "strict"] | None = None
    skip: SkipClause | None = None
    distinct: DistinctClause | None = None
    limit: LimitClause | None = None
    consume: ConsumeClause | None = None
    timeout: bool = False
    early: bool = False
    between: OpenWindow | None = None
    continuity: ContinuityClause | None = None
    group: tuple[Expr, ...] = ()
    every: Duration | None = None
    under: UnderClause | None = None
    span: Span | None = _place()
    text: str = field(default="", compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        from tocsin.lang.printer import print_query

        return print_query(self)


def with_group_names(query: Query) -> Query:
    """The query where SELECT names attributes of the key by themselves, as GROUP BY does."""
    groups = {expr.attrs[0] for expr in query.group if isinstance(expr, Same) and len(expr.attrs) == 1}
    if not groups:
        return query
    items = tuple(
        replace(item, expr=Same((item.expr.name,), span=item.expr.span), name=item.name)
        if isinstance(item.expr, Name) and item.expr.name in groups
        else item
        for item in query.select
    )
    return replace(query, select=items)


# microseconds per unit; a bare number is ticks
UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}

# --- small readings that need no names resolved -------------------------------------------------------------------


def asks_whole(node: object) -> bool:
    """Whether a repeated variable right below this node means the whole set: aggregates, times and relations."""
    whole = (*AGGREGATES, *ENDS, RELATION)
    return isinstance(node, Relates) or (isinstance(node, Call) and node.function in whole)


def conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """The conjuncts as written: AND is opened, nothing else (docs/semantics.md, 5)."""
    if expr is None:
        return ()
    if isinstance(expr, Binary) and expr.op == "AND":
        return conjuncts(expr.left) + conjuncts(expr.right)
    return (expr,)


def conjoined(several: Iterable[Expr]) -> Expr | None:
    """What all of several conditions say; None of none."""
    whole: Expr | None = None
    for expr in several:
        whole = expr if whole is None else Binary("AND", whole, expr)
    return whole


def children(node: object) -> Iterator[object]:
    """The syntax nodes directly below a node."""
    for item in fields(node):  # type: ignore[arg-type]
        if item.name != "span":
            yield from _nodes_in(getattr(node, item.name))


def _nodes_in(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for member in value:
            yield from _nodes_in(member)
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, (Span, Repeat)):
        yield value


def walk(node: object) -> Iterator[object]:
    """The node and everything below it, in the order of the text."""
    yield node
    for child in children(node):
        yield from walk(child)


def patterns_in(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and all patterns below it, in the order of the text."""
    yield pattern
    for item in items_of(pattern):
        yield from patterns_in(item)


def items_of(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns directly below a pattern."""
    match pattern:
        case Seq(items) | And(items) | Or(items):
            return items
        case Not(inner) | Exists(_, inner) | Marked(_, inner) | Maybe(inner) | Grouped(inner):
            return (inner,)
        case Iseq(_, leaves):
            return leaves
        case Rel(_, left, right):
            return (left, right)
    return ()


def rebuilt(pattern: Pattern, items: Sequence[Pattern]) -> Pattern:
    """The pattern with other patterns directly below it."""
    match pattern:
        case Seq() | And() | Or():
            return replace(pattern, items=tuple(items))
        case Not() | Exists() | Marked() | Maybe() | Grouped():
            return replace(pattern, pattern=items[0])
        case Iseq():
            return replace(pattern, leaves=tuple(items))  # type: ignore[arg-type]
        case Rel():
            return replace(pattern, left=items[0], right=items[1])  # type: ignore[arg-type]
    return pattern


def may_be_absent(item: Pattern) -> bool:
    """Whether an item of SEQ need not come: `B?`, `B*`, `B{0,m}`, with or without a mark, and MAYBE."""
    inner = item.pattern if isinstance(item, Marked) else item
    return isinstance(inner, Maybe) or (isinstance(inner, Leaf) and inner.may_be_absent)


def groups_in(pattern: Pattern) -> tuple[Grouped, ...]:
    """All groups of a pattern, also those that stand where none may."""
    own = (pattern,) if isinstance(pattern, Grouped) else ()
    return own + tuple(group for item in items_of(pattern) for group in groups_in(item))


def bound_leaves(pattern: Pattern) -> tuple[Leaf, ...]:
    """The leaves of a pattern in the order of the text, without those under negations."""
    if isinstance(pattern, Leaf):
        return (pattern,)
    return tuple(leaf for item in items_of(pattern) if not isinstance(item, Not) for leaf in bound_leaves(item))


def leaves_of(pattern: Pattern) -> tuple[Leaf, ...]:
    """All leaves in the order of the text, those under negations included."""
    if isinstance(pattern, Leaf):
        return (pattern,)
    return tuple(leaf for item in items_of(pattern) for leaf in leaves_of(item))


def named(query: Query) -> Query:
    """The query with a variable at every leaf.

    An unnamed leaf is called by its type. Where that name is taken by a leaf that can be bound beside it, the
    later leaf becomes `A_2`, `A_3`, ...; leaves in different branches of an OR may share the name.
    """
    declared = frozenset(leaf.var for leaf in leaves_of(query.pattern) if leaf.var)
    pattern, _ = _named(query.pattern, declared, frozenset())
    return replace(query, pattern=pattern)


def _named(pattern: Pattern, declared: frozenset[str], taken: frozenset[str]) -> tuple[Pattern, frozenset[str]]:
    match pattern:
        case Leaf(var=None):
            called = pattern.type or "ANY"
            name, number = called, 1
            while name in declared or name in taken:
                number += 1
                name = f"{called}_{number}"
            return replace(pattern, var=name, until=_named_until(pattern, name)), taken | {name}
        case Leaf():
            return replace(pattern, until=_named_until(pattern, str(pattern.var))), taken
        case Or(items):
            done = [_named(item, declared, taken) for item in items]
            return replace(pattern, items=tuple(p for p, _ in done)), frozenset().union(*(names for _, names in done))
        case Seq(items) | And(items):
            new, taken = _named_all(items, declared, taken)
            return replace(pattern, items=new), taken
        case Not(inner) | Exists(_, inner) | Marked(_, inner) | Maybe(inner) | Grouped(inner):
            inner, taken = _named(inner, declared, taken)
            return replace(pattern, pattern=inner), taken
        case Iseq(_, leaves):
            new, taken = _named_all(leaves, declared, taken)
            return replace(pattern, leaves=new), taken  # type: ignore[arg-type]
        case Rel(_, left, right):
            (left, right), taken = _named_all((left, right), declared, taken)  # type: ignore[assignment]
            return replace(pattern, left=left, right=right), taken
    raise AssertionError(pattern)


def _named_until(leaf: Leaf, name: str) -> Leaf | None:
    """What ends a repetition, with a variable: that of the repetition, or its own, which nobody else sees."""
    until = leaf.until
    if until is None or until.var is not None:
        return until
    same = leaf.var is None and until.type == leaf.type
    return replace(until, var=name if same else until.type or "ANY")


def _named_all(
    items: tuple[Pattern, ...], declared: frozenset[str], taken: frozenset[str]
) -> tuple[tuple[Pattern, ...], frozenset[str]]:
    done = []
    for item in items:
        new, taken = _named(item, declared, taken)
        done.append(new)
    return tuple(done), taken
