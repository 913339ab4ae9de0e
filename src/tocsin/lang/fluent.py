"""Queries in Python: a thin skin over the syntax nodes, equal to what the same text would give.

    theft = (
        seq(event("Shelf", "s"), ~event("Counter", "c"), event("Exit", "e"))
        .where(same("tag"), col("s.price") > 10)
        .within(hours=12)
        .named("theft")
    )
    theft.query == parse(str(theft))

A comparison builds an expression (`FluentExpr`) around syntax nodes; `==` is therefore no test, and has no truth value.
Predicates are data, never lambdas; a registered Python function is called by name with `call`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias
from typing import Literal as Choice

from tocsin.errors import TocsinError
from tocsin.events import ANY
from tocsin.lang.parser import parse, parse_constraints, parse_duration, parse_expr, parse_order
from tocsin.lang.printer import print_expr, print_pattern, print_query
from tocsin.lang.syntax import (
    COLLECT,
    DISTINCT,
    MEMBER,
    MODES,
    PREV,
    RELATION,
    UNITS,
    And,
    Attr,
    Between,
    Binary,
    Call,
    CaseWhen,
    Comparison,
    ConsumeClause,
    ContinuityClause,
    DistinctClause,
    Duration,
    Endpoint,
    Exists,
    Expr,
    Grouped,
    In,
    Iseq,
    IsNull,
    Leaf,
    Like,
    LimitClause,
    Literal,
    Marked,
    Maybe,
    Name,
    Not,
    OpenWindow,
    Or,
    Pattern,
    Query,
    Rel,
    Relates,
    Repeat,
    Same,
    SelectItem,
    Seq,
    SkipClause,
    Unary,
    conjuncts,
    with_group_names,
)

if TYPE_CHECKING:
    from tocsin.lang.constraint_syntax import Constraint
from tocsin.lang.tokens import ALLEN_NAMES, STRATEGIES, VERBS

NOTHING: Mapping[str, float] = {}
Constant: TypeAlias = bool | int | float | Decimal | str | timedelta | None

# --- expressions -------------------------------------------------------------------------------------------------


class FluentExpr:
    """An expression. Operators build larger expressions; a Python value becomes a constant."""

    __slots__ = ("node",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: Expr) -> None:
        self.node = node

    def __str__(self) -> str:
        return print_expr(self.node)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __bool__(self) -> bool:
        hint = "use & | ~ instead of and, or, not; and (a < b) & (b < c) instead of a < b < c"
        raise TocsinError("an expression has no truth value in Python", hint=hint)

    def __eq__(self, other: Value) -> FluentExpr:  # type: ignore[override]
        return _binary("=", self, other)

    def __ne__(self, other: Value) -> FluentExpr:  # type: ignore[override]
        return _binary("<>", self, other)

    def __lt__(self, other: Value) -> FluentExpr:
        return _binary("<", self, other)

    def __le__(self, other: Value) -> FluentExpr:
        return _binary("<=", self, other)

    def __gt__(self, other: Value) -> FluentExpr:
        return _binary(">", self, other)

    def __ge__(self, other: Value) -> FluentExpr:
        return _binary(">=", self, other)

    def __add__(self, other: Value) -> FluentExpr:
        return _binary("+", self, other)

    def __radd__(self, other: Value) -> FluentExpr:
        return _binary("+", other, self)

    def __sub__(self, other: Value) -> FluentExpr:
        return _binary("-", self, other)

    def __rsub__(self, other: Value) -> FluentExpr:
        return _binary("-", other, self)

    def __mul__(self, other: Value) -> FluentExpr:
        return _binary("*", self, other)

    def __rmul__(self, other: Value) -> FluentExpr:
        return _binary("*", other, self)

    def __truediv__(self, other: Value) -> FluentExpr:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Value) -> FluentExpr:
        return _binary("/", other, self)

    def __mod__(self, other: Value) -> FluentExpr:
        return _binary("%", self, other)

    def __rmod__(self, other: Value) -> FluentExpr:
        return _binary("%", other, self)

    def __and__(self, other: Value) -> FluentExpr:
        return _binary("AND", self, other)

    def __or__(self, other: Value) -> FluentExpr:
        return _binary("OR", self, other)

    def __invert__(self) -> FluentExpr:
        return FluentExpr(Unary("NOT", self.node))

    def __neg__(self) -> FluentExpr:
        return FluentExpr(Unary("-", self.node))

    def concat(self, other: Value) -> FluentExpr:
        """`self || other`, for texts."""
        return _binary("||", self, other)

    def is_null(self) -> FluentExpr:
        return FluentExpr(IsNull(self.node))

    def is_not_null(self) -> FluentExpr:
        return FluentExpr(IsNull(self.node, negated=True))

    def is_in(self, options: Iterable[Value]) -> FluentExpr:
        return FluentExpr(In(self.node, _nodes(options)))

    def not_in(self, options: Iterable[Value]) -> FluentExpr:
        return FluentExpr(In(self.node, _nodes(options), negated=True))

    def between(self, low: Value, high: Value) -> FluentExpr:
        return FluentExpr(Between(self.node, expr_of(low), expr_of(high)))

    def not_between(self, low: Value, high: Value) -> FluentExpr:
        return FluentExpr(Between(self.node, expr_of(low), expr_of(high), negated=True))

    def like(self, pattern: Value) -> FluentExpr:
        return FluentExpr(Like(self.node, expr_of(pattern)))

    def not_like(self, pattern: Value) -> FluentExpr:
        return FluentExpr(Like(self.node, expr_of(pattern), negated=True))


Value: TypeAlias = FluentExpr | Constant


class FluentVariable(FluentExpr):
    """A variable by itself. `col.s.tag` and `col.s["like"]` are attributes of s."""

    __slots__ = ()

    def __getattr__(self, name: str) -> FluentExpr:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str | int) -> FluentExpr:
        """An attribute by its name; or a member of a repetition by its number: `col.b[1].v`, `col.b[-1]["v"]`."""
        assert isinstance(self.node, Name)
        if isinstance(name, int):
            return FluentMember(self.node.name, name)
        return FluentExpr(Attr(self.node.name, named_text(name)))


class FluentMember(FluentExpr):
    """One member of a repetition, counted from 1, or from the end by -1; its attributes are values."""

    __slots__ = ("number",)

    def __init__(self, variable: str, number: int) -> None:
        if number == 0:
            raise TocsinError("there is no member 0", hint="members are counted from 1, and from the end by -1")
        super().__init__(Name(variable))
        self.number = number

    def __getattr__(self, name: str) -> FluentExpr:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> FluentExpr:
        assert isinstance(self.node, Name)
        return FluentExpr(Call(MEMBER, (Attr(self.node.name, named_text(name)), Literal(self.number))))


class _Columns:
    """`col("s.tag")`, `col("s", "tag")` or `col.s.tag`; `col("s")` is the event itself."""

    def __call__(self, name: str, attr: str | None = None) -> FluentExpr:
        variable, dot, last = name.rpartition(".")
        if attr is not None:
            return FluentExpr(Attr(named_text(name), named_text(attr)))
        return (
            FluentExpr(Attr(named_text(variable), named_text(last))) if dot else FluentVariable(Name(named_text(name)))
        )

    def __getattr__(self, name: str) -> FluentVariable:
        if name.startswith("__"):
            raise AttributeError(name)
        return FluentVariable(Name(name))


col = _Columns()


def lit(value: Constant) -> FluentExpr:
    """A constant; a float becomes the Decimal that Python shows for it, so 0.1 means 0.1."""
    return FluentExpr(expr_of(value))


def start(variable: str) -> FluentExpr:
    return FluentExpr(Call("start", (Name(named_text(variable)),)))


def end(variable: str) -> FluentExpr:
    return FluentExpr(Call("end", (Name(named_text(variable)),)))


def related(left: str, relation: str, right: str) -> FluentExpr:
    """`left OVERLAPS right`: how the times of two variables stand to each other."""
    verb = VERBS.get(relation.lower().replace("_", " "))
    if verb is None:
        raise _no_relation(relation, VERBS)
    return FluentExpr(Relates(Name(named_text(left)), verb, Name(named_text(right))))


def relation(left: str, right: str) -> FluentExpr:
    """The name of the relation between two variables, as a text: before, overlap, ..."""
    return FluentExpr(Call(RELATION, (Name(named_text(left)), Name(named_text(right)))))


def same(*attrs: str) -> FluentExpr:
    """`[attr, ...]`: each is equal over every variable of the query."""
    return FluentExpr(Same(tuple(named_text(attr) for attr in attrs)))


def call(function: str, *args: Value) -> FluentExpr:
    """A function of the language, or a registered Python function, by its name."""
    return FluentExpr(Call(named_text(function).lower(), _nodes(args)))


def count(what: str | FluentExpr | None = None) -> FluentExpr:
    """`count(b)`: how many members, or matches that have one; `count()` is `count(*)`: how many matches."""
    return FluentExpr(Call("count", ())) if what is None else _aggregate("count", what)


def count_distinct(what: str | FluentExpr) -> FluentExpr:
    """`count(distinct b.x)`: how many values that differ."""
    return _aggregate(DISTINCT, what)


def prev(what: str | FluentExpr) -> FluentExpr:
    """`prev(b.x)`: of the member before. A condition with it must be TRUE for every member but the first."""
    return _aggregate(PREV, what)


def sum_(what: str | FluentExpr) -> FluentExpr:
    return _aggregate("sum", what)


def avg(what: str | FluentExpr) -> FluentExpr:
    return _aggregate("avg", what)


def min_(what: str | FluentExpr) -> FluentExpr:
    return _aggregate("min", what)


def max_(what: str | FluentExpr) -> FluentExpr:
    return _aggregate("max", what)


def first(what: str | FluentExpr) -> FluentExpr:
    return _aggregate("first", what)


def collect(what: str | FluentExpr) -> FluentExpr:
    """The values of all members of a repetition as a list: a column of `select`."""
    return _aggregate(COLLECT, what)


def last(what: str | FluentExpr) -> FluentExpr:
    return _aggregate("last", what)


def when(condition: FluentExpr) -> _When:
    """`when(p).then(x).when(q).then(y).otherwise(z)`; without `otherwise` the rest is null."""
    return _When((), condition)


class _When:
    def __init__(self, whens: tuple[tuple[Expr, Expr], ...], condition: FluentExpr) -> None:
        self._whens = whens
        self._condition = condition

    def then(self, value: Value) -> _Then:
        return _Then(CaseWhen((*self._whens, (expr_of(self._condition), expr_of(value)))))


class _Then(FluentExpr):
    __slots__ = ()

    def when(self, condition: FluentExpr) -> _When:
        assert isinstance(self.node, CaseWhen)
        return _When(self.node.whens, condition)

    def otherwise(self, value: Value) -> FluentExpr:
        assert isinstance(self.node, CaseWhen)
        return FluentExpr(replace(self.node, otherwise=expr_of(value)))


def duration(
    *,
    microseconds: float = 0,
    milliseconds: float = 0,
    seconds: float = 0,
    minutes: float = 0,
    hours: float = 0,
    days: float = 0,
) -> FluentExpr:
    """A length of time, to be compared with differences of `start` and `end`."""
    given = {"us": microseconds, "ms": milliseconds, "s": seconds, "min": minutes, "h": hours, "d": days}
    return FluentExpr(_duration(given))


# --- patterns ----------------------------------------------------------------------------------------------------


class _Whole:
    """What can be a whole query: a pattern or a query under construction."""

    def _query(self) -> Query:
        raise NotImplementedError

    @property
    def query(self) -> Query:
        """The finished query. It is read back from its own text, so that errors can show the place."""
        return parse(print_query(self._query()))

    def __str__(self) -> str:
        return print_query(self._query())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Whole):
            return self._query() == other._query()
        return self._query() == other if isinstance(other, Query) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._query())

    def where(self, *predicates: FluentExpr | str) -> FluentQuery:
        """Further conditions; a text is read as an expression."""
        query = self._query()
        return FluentQuery(replace(query, where=_joined(query.where, predicates)))

    def within(
        self,
        window: int | str | timedelta | None = None,
        *,
        microseconds: float = 0,
        milliseconds: float = 0,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
        timeout: bool = False,
        early: bool = False,
    ) -> FluentQuery:
        """`within(10)` counts ticks; `within("12 h")`, `within(hours=12)` and a timedelta are lengths of time.

        `timeout`: rows of kind "timeout" say which beginnings no next step extended in that time.
        `early`: rows of kind "early" tell matches that are certain before their intervals have ended.
        """
        given = {"us": microseconds, "ms": milliseconds, "s": seconds, "min": minutes, "h": hours, "d": days}
        return FluentQuery(replace(self._query(), within=window_of(window, given), timeout=timeout, early=early))

    def strategy(self, name: str) -> FluentQuery:
        """Mark every step that has no mark of its own: "next" is FIRST, "strict" is NEXT, "any" is none."""
        if name not in STRATEGIES:
            raise TocsinError(f"{name!r} is not a strategy", hint='write "any", "next" or "strict"')
        chosen: Choice["any", "next", "strict"] = "next" if name == "next" else "strict" if name == "strict" else "any"
        return FluentQuery(replace(self._query(), strategy=chosen))

    def partition_by(self, *attrs: str) -> FluentQuery:
        return FluentQuery(replace(self._query(), partition=tuple(named_text(attr) for attr in attrs)))

    def select(self, *exprs: FluentExpr | str, **columns: FluentExpr | str) -> FluentQuery:
        """Columns of the result: `select("s.tag", shelf="s.place", n=count("b"))`; a text is read as an expression."""
        items = [SelectItem(_read(expr)) for expr in exprs]
        items += [SelectItem(_read(expr), name) for name, expr in columns.items()]
        return FluentQuery(with_group_names(replace(self._query(), select=tuple(items))))

    def consume(self, mode: str) -> FluentQuery:
        """What happens to events that stand in a match: "first", "recent", "chronicle", ... (docs/language.md)."""
        if mode not in MODES:
            raise TocsinError(f"{mode!r} is not a consumption mode", hint=f"the modes are {', '.join(MODES)}")
        return FluentQuery(replace(self._query(), consume=ConsumeClause(mode)))

    def longer_and_shorter(self, more: int | str | timedelta, less: int | str | timedelta) -> FluentQuery:
        """A window with two strict ends, `WITHIN (more, less)`: between them lies the length of a match."""
        window = OpenWindow(Duration(0) if more == 0 else window_of(more, {}), window_of(less, {}))
        return FluentQuery(replace(self._query(), between=window))

    def continuity(self, *types: str) -> FluentQuery:
        """Nothing of these types comes between first and last; without types, nothing that is not named."""
        return FluentQuery(replace(self._query(), continuity=ContinuityClause(types)))

    def under(self, *constraints: str | Constraint, checked: bool = False) -> FluentQuery:
        """Constraints that traces obey, as text (`CONSTRAINT ...`) or made of a graph, beside those of earlier calls.

        `checked`: nothing is released early, and every violation is found.
        """
        from tocsin.lang.constraint_syntax import UnderClause

        query = self._query()
        known = () if query.under is None else query.under.constraints
        given = [each for one in constraints for each in (parse_constraints(one) if isinstance(one, str) else (one,))]
        return FluentQuery(replace(query, under=UnderClause(tuple(dict.fromkeys((*known, *given))), checked)))

    def skip_past_last_event(self) -> FluentQuery:
        """After a match, drop those that start before it ends: no two overlap."""
        return FluentQuery(replace(self._query(), skip=SkipClause("past last")))

    def skip_to_next_event(self) -> FluentQuery:
        """After a match, drop the others with the same first event."""
        return FluentQuery(replace(self._query(), skip=SkipClause("next")))

    def skip_to_first(self, variable: str) -> FluentQuery:
        """After a match, drop those that start before the (first) event of a variable."""
        return FluentQuery(replace(self._query(), skip=SkipClause("first", Name(named_text(variable)))))

    def skip_to_last(self, variable: str) -> FluentQuery:
        """After a match, drop those that start before the (last) event of a variable."""
        return FluentQuery(replace(self._query(), skip=SkipClause("last", Name(named_text(variable)))))

    def distinct_by(self, by: FluentExpr | str, *, every: int | str | timedelta | None = None) -> FluentQuery:
        """Of matches with equal values, one; with `every`, one until so much time has passed."""
        length = None if every is None else window_of(every, {})
        return FluentQuery(replace(self._query(), distinct=DistinctClause(_grouping(by), length)))

    def limit(
        self,
        most: int,
        *,
        per: FluentExpr | str | Iterable[FluentExpr | str] = (),
        every: int | str | timedelta | None = None,
    ) -> FluentQuery:
        """The first matches; `per`: for each value, such as an attribute of the key; `every`: in each span of time."""
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise TocsinError(f"limit({most!r}) is no number of matches", hint="a limit is a whole number, at least 1")
        groups = (per,) if isinstance(per, (str, FluentExpr)) else tuple(per)
        length = None if every is None else window_of(every, {})
        return FluentQuery(replace(self._query(), limit=LimitClause(most, tuple(map(_grouping, groups)), length)))

    def group_by(self, *groups: FluentExpr | str, every: int | str | timedelta | None = None) -> FluentQuery:
        """Count matches: one row for each group, with `every` for each span of time; SELECT says what is counted."""
        length = None if every is None else window_of(every, {})
        grouped = replace(self._query(), group=tuple(map(_grouping, groups)), every=length)
        return FluentQuery(with_group_names(grouped))

    def named(self, name: str, *, hidden: bool = False) -> FluentQuery:
        """Give the query a name, which is an event type for later queries; a hidden one is only read by them."""
        return FluentQuery(replace(self._query(), name=named_text(name), hidden=hidden))


class FluentQuery(_Whole):
    """A query under construction; every method gives a new one."""

    def __init__(self, query: Query) -> None:
        self._node = query

    def _query(self) -> Query:
        return self._node

    def __repr__(self) -> str:
        return f"<{self}>"


class FluentPattern(_Whole):
    """A pattern; `~pattern` is its negation. As an item of `seq` it may have a mark: next, first or last."""

    def __init__(self, node: Pattern) -> None:
        self.node = node

    def _query(self) -> Query:
        return Query(self.node)

    def __repr__(self) -> str:
        return f"<{print_pattern(self.node)}>"

    def __invert__(self) -> FluentPattern:
        return FluentPattern(Not(self.node))

    def repeated(
        self, least: int = 1, most: int | None = None, *, name: str | None = None, or_more: bool | None = None
    ) -> FluentPattern:
        """A group, `(SEQ(A a, B b))+ g`: once or more, `repeated(3)` three times, `repeated(2, or_more=True)`."""
        more = least == 1 and most is None if or_more is None else or_more
        often = Repeat(least, None if more else most or least)
        return FluentPattern(Grouped(self.node, often, None if name is None else named_text(name)))

    def lasting(
        self,
        length: int | str | timedelta | None = None,
        *,
        microseconds: float = 0,
        milliseconds: float = 0,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> FluentPattern:
        """`FOR`, of a negation: it is absent for so long, `(~event("Beat", "x")).lasting(minutes=5)`."""
        if not isinstance(self.node, Not):
            raise TocsinError("only what is absent lasts", hint='write (~event("B", "b")).lasting(minutes=5)')
        given = {"us": microseconds, "ms": milliseconds, "s": seconds, "min": minutes, "h": hours, "d": days}
        return FluentPattern(replace(self.node, lasting=window_of(length, given)))

    def next(self, *, of: str | Iterable[str] = ()) -> FluentPattern:
        """`NEXT`: nothing comes between it and the item before it; `of`: nothing of these types."""
        types = (of,) if isinstance(of, str) else tuple(of)
        return FluentPattern(Marked("NEXT", self.node, tuple(named_text(type) for type in types)))

    def first(self) -> FluentPattern:
        """`FIRST`: no earlier event could stand in its place; of a group the first members, where more would come."""
        if isinstance(self.node, Grouped):
            return FluentPattern(replace(self.node, first=True))
        return FluentPattern(Marked("FIRST", self.node))

    def each(self, *, next: bool = False, of: str | Iterable[str] = ()) -> FluentPattern:
        """`EACH`, before a repetition: one match for every prefix of its members; `next`: of the run of them."""
        types = (of,) if isinstance(of, str) else tuple(of)
        return FluentPattern(
            Marked("EACH NEXT" if next or types else "EACH", self.node, tuple(named_text(type) for type in types))
        )

    def last(self) -> FluentPattern:
        """`LAST`: no later event could stand in its place."""
        return FluentPattern(Marked("LAST", self.node))

    def maybe(self) -> FluentPattern:
        """`MAYBE`: the matches with it, and those without it."""
        return FluentPattern(Maybe(self.node))


class EventPattern(FluentPattern):
    """A leaf. Here `where` is the predicate at the leaf; wrap it in `query(...)` for the WHERE clause."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.leaf = leaf

    def optional(self) -> EventPattern:
        """`B?`: each event that qualifies; nothing only if there is none."""
        return EventPattern(replace(self.leaf, optional=True))

    def star(self) -> EventPattern:
        """`B*`: all events that qualify; nothing if there is none."""
        return EventPattern(replace(self.leaf, repeat=Repeat(0, None)))

    def plus(self) -> EventPattern:
        """Once or more."""
        return EventPattern(replace(self.leaf, repeat=Repeat(1, None)))

    def times(self, least: int, most: int | None = None, *, or_more: bool = False) -> EventPattern:
        """`times(3)` exactly, `times(2, 4)` from 2 to 4, `times(2, or_more=True)` at least 2."""
        return EventPattern(replace(self.leaf, repeat=Repeat(least, None if or_more else most or least)))

    def until(self, end: FluentExpr | str | EventPattern) -> EventPattern:
        """`UNTIL`: the repetition ends before the first of its events for which a condition is TRUE, or another event.

        `event("B", "b").plus().until("b.v > 3")`, `...until(event("A", "a").where("a.v > 3"))`.
        """
        leaf = end.leaf if isinstance(end, EventPattern) else Leaf(self.leaf.type, self.leaf.var, _read(end))
        return EventPattern(replace(self.leaf, until=leaf))

    def where(self, *predicates: FluentExpr | str) -> EventPattern:  # type: ignore[override]
        return EventPattern(replace(self.leaf, where=_joined(self.leaf.where, predicates)))


def event(type: str, variable: str | None = None) -> EventPattern:
    return EventPattern(Leaf(named_text(type), None if variable is None else named_text(variable)))


def any_event(variable: str | None = None) -> EventPattern:
    """`ANY`: a leaf that takes every event of the input; its type is `call("type", col("x"))`."""
    return EventPattern(Leaf(ANY, None if variable is None else named_text(variable)))


def query(pattern: FluentPattern) -> FluentQuery:
    """A pattern as a query."""
    return FluentQuery(Query(pattern.node))


def seq(*items: FluentPattern) -> FluentPattern:
    return FluentPattern(Seq(_items(items)))


def all_of(*items: FluentPattern) -> FluentPattern:
    """AND: all of them, in any order."""
    return FluentPattern(And(_items(items)))


def any_of(*items: FluentPattern) -> FluentPattern:
    """OR: one of them."""
    return FluentPattern(Or(_items(items)))


def exists(variables: str | Iterable[str], pattern: FluentPattern) -> FluentPattern:
    """Hide variables from the result: `exists("c", seq(...))`, `exists(["b", "c"], seq(...))`."""
    names = (variables,) if isinstance(variables, str) else tuple(variables)
    return FluentPattern(Exists(tuple(named_text(name) for name in names), pattern.node))


def iseq(
    order: str | FluentExpr | Iterable[FluentExpr], *leaves: EventPattern, within: int | str | timedelta | None = None
) -> FluentPattern:
    """ISEQ; the order as text, or as comparisons of `start` and `end`."""
    window = None if within is None else window_of(within, {})
    return FluentPattern(Iseq(_order(order), tuple(leaf.leaf for leaf in leaves), window))


def rel(relations: str | Iterable[str], left: FluentPattern, right: EventPattern) -> FluentPattern:
    """REL; the left part stands in one of the Allen relations to the right leaf."""
    names = (relations,) if isinstance(relations, str) else tuple(relations)
    return FluentPattern(Rel(tuple(_relation(name) for name in names), left.node, right.leaf))


# --- Python values into nodes ------------------------------------------------------------------------------------


def _binary(op: str, left: Value, right: Value) -> FluentExpr:
    return FluentExpr(Binary(op, expr_of(left), expr_of(right)))


def _nodes(values: Iterable[Value]) -> tuple[Expr, ...]:
    return tuple(expr_of(value) for value in values)


def expr_of(value: Value) -> Expr:
    match value:
        case FluentExpr():
            return value.node
        case None | bool() | str():
            return Literal(value)
        case int():
            if not -(2**63) <= value < 2**63:
                raise TocsinError(f"the integer {value} does not fit into 64 bits")
            return Literal(value)
        case float() | Decimal():
            return Literal(_decimal(value))
        case timedelta():
            return _timedelta(value)
    raise TocsinError(f"{value!r} cannot be a constant in a query", hint="use bool, int, float, Decimal, str or None")


def _decimal(value: float | Decimal) -> Decimal:
    if not (isfinite(value) if isinstance(value, float) else value.is_finite()):
        raise TocsinError(f"{value} cannot be a constant in a query", hint="only finite numbers can")
    return Decimal(repr(value)) if isinstance(value, float) else value


def named_text(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise TocsinError(f"{name!r} cannot be a name", hint="a name is a text of at least one character")
    return name


def _read(expr: FluentExpr | str) -> Expr:
    return parse_expr(expr) if isinstance(expr, str) else expr_of(expr)


def _grouping(expr: FluentExpr | str) -> Expr:
    """What matches are told apart by; a name by itself is an attribute of the key."""
    found = _read(expr)
    return Same((found.name,)) if isinstance(found, Name) else found


def _joined(known: Expr | None, predicates: Iterable[FluentExpr | str]) -> Expr | None:
    for predicate in predicates:
        added = _read(predicate)
        known = added if known is None else Binary("AND", known, added)
    return known


def _aggregate(function: str, what: str | FluentExpr) -> FluentExpr:
    return FluentExpr(Call(function, (expr_of(col(what) if isinstance(what, str) else what),)))


def _items(items: Iterable[FluentPattern]) -> tuple[Pattern, ...]:
    found = []
    for item in items:
        if not isinstance(item, FluentPattern):
            raise TocsinError(f"{item!r} is not a pattern", hint='write event("Shelf", "s")')
        found.append(item.node)
    return tuple(found)


def window_of(window: int | str | timedelta | None, given: Mapping[str, float] = NOTHING) -> Duration:
    match window:
        case None:
            return _duration(given)
        case str():
            return parse_duration(window)
        case timedelta():
            return _timedelta(window)
        case int():
            return Duration(window)
    raise TocsinError(f"{window!r} is not a length of time", hint='write 10, "12 h", hours=12 or a timedelta')


def _timedelta(length: timedelta) -> Duration:
    """In the largest unit that makes it a whole number."""
    ticks = length // timedelta(microseconds=1)
    unit = next(unit for unit in reversed(UNITS) if ticks % UNITS[unit] == 0)
    return _duration({unit: ticks // UNITS[unit]})


def _duration(given: Mapping[str, float]) -> Duration:
    """One unit as it is given; several are added up in the smallest of them."""
    used = {unit: amount for unit, amount in given.items() if amount}
    if not used:
        raise TocsinError("a length of time is missing or zero", hint="write hours=12, or 10 for ticks")
    smallest = min(used, key=lambda unit: UNITS[unit])
    amounts = {unit: amount if isinstance(amount, int) else _decimal(amount) for unit, amount in used.items()}
    total = sum(amount * (UNITS[unit] // UNITS[smallest]) for unit, amount in amounts.items())
    if total <= 0:
        raise TocsinError("a length of time must be greater than 0")
    return Duration(total, smallest)


def _order(order: str | FluentExpr | Iterable[FluentExpr]) -> tuple[Comparison, ...]:
    if isinstance(order, str):
        return parse_order(order)
    several = (order,) if isinstance(order, FluentExpr) else tuple(order)
    return tuple(_compared(part) for one in several for part in conjuncts(one.node))


def _compared(expr: Expr) -> Comparison:
    match expr:
        case Binary("<" | "<=" | "=" | ">" | ">=", left, right):
            return Comparison(_endpoint(left), expr.op, _endpoint(right))
    raise TocsinError(f"{print_expr(expr)} does not compare endpoints", hint='write start("a") < end("b")')


def _endpoint(expr: Expr) -> Endpoint:
    match expr:
        case Call("start", (Name(variable),)):
            return Endpoint(variable, "start")
        case Call("end", (Name(variable),)):
            return Endpoint(variable, "end")
    raise TocsinError(f"{print_expr(expr)} is not an endpoint", hint='write start("a") or end("a")')


def _relation(name: str) -> str:
    known = ALLEN_NAMES.get(name.lower().replace("_", " "))
    if known is None:
        raise _no_relation(name, ALLEN_NAMES)
    return known


def _no_relation(name: str, known: Iterable[str]) -> TocsinError:
    close = get_close_matches(name.lower().replace("_", " "), list(known), n=1)
    hint = f"did you mean {close[0]}?" if close else "the relations are those of Allen: before, meet, overlap, ..."
    return TocsinError(f"{name!r} is not an interval relation", hint=hint)
