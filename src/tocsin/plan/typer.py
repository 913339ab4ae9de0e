"""From the syntax of an expression to a bound one: names become leaves, every node gets its kind.

A wrong operand is reported and replaced by NULL, so that the rest of the expression is still checked.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from tocsin.events import ANY
from tocsin.functions import Function
from tocsin.lang.syntax import (
    AGGREGATES,
    COLLECT,
    DISTINCT,
    EVERYTHING,
    MEMBER,
    PREV,
    RELATION,
    Attr,
    Between,
    Binary,
    Call,
    CaseWhen,
    Duration,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Relates,
    Same,
    Span,
    Unary,
    asks_whole,
    children,
    walk,
)
from tocsin.plan import kinds
from tocsin.plan.allen import CLASSES, MEANS, classifier
from tocsin.plan.calls import BUILT_IN, call
from tocsin.plan.expr import Agg, Bound, Col, Lit, Op, Ref, Time, User, leaves
from tocsin.plan.expr import walk as walk_bound
from tocsin.plan.fold import FALSE, NULL, TRUE, fold, is_null, tested
from tocsin.plan.kinds import KindError, article, kind_of, settled, unified
from tocsin.plan.points_in_time import PARTS, TIMESTAMP, as_moment, in_zone, is_point, part, refused, timestamp
from tocsin.plan.problems import Problems, listed, suggestion
from tocsin.schema import EID, OWN, TYPE, Field, Kind, Schema

COUNTS = ("count", DISTINCT)  # never null
LARGEST = 50_000  # nodes of one expression


@dataclass(frozen=True, slots=True)
class Seen:
    """A variable as expressions see it; `optional`: null where another alternative of its leaf is bound."""

    leaf: int
    type: str
    repeated: bool = False
    optional: bool = False


def variables(expr: Expr) -> frozenset[str]:
    """The variables an expression mentions."""
    found = set()
    for node in walk(expr):
        match node:
            case Attr(var):
                found.add(var)
            case Name(name):
                found.add(name)
    return frozenset(found)


def opened_size(expr: object) -> int:
    """How many nodes an expression has when the forms that ask for their first operand several times are opened."""
    sizes = [opened_size(child) for child in children(expr)]
    match expr:
        case In(_, options):
            sizes.append((len(options) - 1) * sizes[0])
        case Between() | Call("nullif", (_, _)):
            sizes.append(sizes[0])
    return 1 + sum(sizes)


def set_variables(expr: Expr) -> frozenset[str]:
    """The variables inside aggregates, times and relations: of a repetition, there the whole set is asked."""
    return frozenset().union(*(variables(node) for node in walk(expr) if asks_whole(node)))  # type: ignore[arg-type]


def stepped_variables(expr: Expr, functions: Container[str]) -> frozenset[str]:
    """The variables inside prev(): the condition is asked of the whole set, from each member to the next."""
    calls = (node for node in walk(expr) if isinstance(node, Call) and node.function == PREV)
    return frozenset().union(*(variables(call) for call in calls)) if PREV not in functions else frozenset()


def member_variables(expr: object) -> frozenset[str]:
    """The variables outside aggregates, times and relations: of a repetition, there one member is asked."""
    match expr:
        case Attr(var) | Name(var):
            return frozenset((var,))
    if asks_whole(expr):
        return frozenset()
    return frozenset().union(*(member_variables(child) for child in children(expr)))


class Typer:
    """Binds expressions that see the variables in `names`; one that maps to None is bound in another branch only.

    `shows`: they are columns of the result, not conditions.
    """

    def __init__(
        self,
        schema: Schema,
        functions: Mapping[str, Function],
        names: Mapping[str, Seen | None],
        problems: Problems,
        *,
        shows: bool = False,
    ) -> None:
        self.schema = schema
        self.functions = functions
        self.names = names
        self.problems = problems
        self.shows = shows
        self._of_member = False  # inside b[2].x
        self._listing = False  # inside collect(b.x)
        self._stepping = False  # inside a condition that is asked of the steps between members

    def condition(self, expr: Expr) -> Bound:
        """A folded predicate."""
        if self._too_large(expr):
            return NULL
        if steps := self._steps_of(expr):
            return self._stepwise(expr, steps)
        return tested(fold(self._truth(expr, "a condition")))

    def _steps_of(self, expr: Expr) -> list[Call]:
        """The calls of prev() in a condition, unless the user has a function of that name."""
        calls = (node for node in walk(expr) if isinstance(node, Call) and node.function == PREV)
        return [] if PREV in self.functions else list(calls)

    def _stepwise(self, expr: Expr, steps: list[Call]) -> Bound:
        """A condition with prev(): it is asked of the set, of every member but the first."""
        over = {var for step in steps for var in variables(step)}
        seen = self.names.get(next(iter(over))) if len(over) == 1 else None
        self._stepping = True
        bound = fold(self._truth(expr, "a condition"))
        self._stepping = False
        if seen is None or bound == TRUE:
            return tested(bound)  # of another branch of an OR, where its values are null; or refused
        return Agg("steps", seen.leaf, FALSE if is_null(bound) else bound, Kind.BOOL, nullable=False)

    def value(self, expr: Expr) -> Bound:
        """A folded value, as SELECT wants it."""
        if self._too_large(expr):
            return NULL
        return fold(settled(self._bound(expr)))

    def collected(self, expr: Expr) -> Bound:
        """A column of SELECT that may be collect(b.x)."""
        self._listing = isinstance(expr, Call) and expr.function == COLLECT
        try:
            return self.value(expr)
        finally:
            self._listing = False

    def compared(self, left: Bound, right: Bound, span: Span | None) -> Bound:
        """left = right, for equalities that the binder itself writes."""
        try:
            return fold(kinds.compared("=", left, right))
        except KindError as error:
            return self._wrong(error, span)

    def column(self, var: str, attr: str, span: Span | None = None) -> Bound:
        """`var.attr`; NULL if the variable is bound elsewhere or its type lacks the attribute."""
        seen = self.names.get(var)
        if seen is None:
            return NULL
        field = self.field(seen.type, attr, span)
        if field is None or field.kind is Kind.NULL:
            return NULL
        return Col(seen.leaf, var, attr, field.kind, field.scale, field.nullable or seen.optional)

    def field(self, type: str, attr: str, span: Span | None) -> Field | None:
        field = self.schema.field(type, attr)
        if field is None and self.schema.has_type(type):
            own = self.schema.fields_of(type)
            hint = f"{type or 'ANY'} has {listed(own)}" if own else None
            unknown_attribute(attr, self.schema, own, span, self.problems, hint)
        return field

    def _too_large(self, expr: Expr) -> bool:
        if opened_size(expr) <= LARGEST:
            return False
        self.problems.add(
            "this expression grows too large",
            expr.span,
            detail="x IN (...), x BETWEEN and nullif(x, ...) ask for x several times, and here they are nested",
            hint="take the inner ones apart with AND and OR, or select them in a QUERY of their own",
        )
        return True

    # --- dispatch ------------------------------------------------------------------------------------------------

    def _bound(self, expr: Expr) -> Bound:
        try:
            return self._node(expr)
        except KindError as error:
            return self._wrong(error, expr.span)

    def _wrong(self, error: KindError, span: Span | None) -> Bound:
        self.problems.add(error.message, span, detail=error.detail, hint=error.hint)
        return NULL

    def _node(self, expr: Expr) -> Bound:
        match expr:
            case Literal(value):
                return kinds.literal(value)
            case Duration():
                return kinds.literal(kinds.ticks(expr, self.schema))
            case Attr(var, name):
                return self.column(var, name, expr.span)
            case Name(name):
                if name not in self.names:
                    return NULL  # reported as an unknown variable already
                raise KindError(f"{name} is an event, not a value", hint=f"name an attribute: {name}.x")
            case Unary("NOT", operand):
                return Op("not", (truth,), Kind.BOOL) if not is_null(truth := self._truth(operand, "NOT")) else NULL
            case Unary("-", Literal(int() | Decimal() as value)) if not isinstance(value, bool):
                return kinds.literal(-value)
            case Unary(_, operand):
                return kinds.negated(self._bound(operand))
            case Binary():
                return self._binary(expr)
            case In() | Between() | Like() | IsNull() | CaseWhen():
                return self._sql(expr)
            case Call():
                return self._call(expr)
            case Relates():
                return self._related(expr)
            case Same():
                raise KindError(
                    "[attr] can only stand by itself in WHERE", hint="join it with AND: WHERE [attr] AND ..."
                )
        raise AssertionError(expr)

    def _truth(self, expr: Expr, what: str) -> Bound:
        bound = self._bound(expr)
        if bound.kind not in (Kind.BOOL, Kind.NULL):
            self.problems.add(f"{what} must be true or false, not {article(bound.kind)}", expr.span)
            return NULL
        return bound

    # --- operators -----------------------------------------------------------------------------------------------

    def _binary(self, expr: Binary) -> Bound:
        match expr:
            case Binary("AND" | "OR" as op, left, right):
                sides = (self._truth(left, op), self._truth(right, op))
                return Op(op.lower(), sides, Kind.BOOL, nullable=any(side.nullable for side in sides))
            case Binary("=" | "<>" as op, Name() as left, Name() as right):
                return self._same(op, left, right)
            case Binary("=" | "<>" | "<" | "<=" | ">" | ">=" as op, left, right):
                self._only_values(expr)
                self._check_relation(left, right)
                self._check_relation(right, left)
                return kinds.compared(op, self._bound(left), self._bound(right))
            case Binary("||", left, right):
                return call("concat", (self._bound(left), self._bound(right)))
            case Binary(op, left, right):
                return kinds.computed(op, self._bound(left), self._bound(right))
        raise AssertionError(expr)

    def _only_values(self, expr: Binary) -> None:
        for side in (expr.left, expr.right):
            if isinstance(side, Name) and side.name in self.names:
                raise KindError(
                    f"{side.name} is an event and cannot be compared with a value",
                    hint=f"name an attribute ({side.name}.x), or compare two variables with = or <>",
                )

    def _same(self, op: str, left: Name, right: Name) -> Bound:
        events = tuple(self._event(side) for side in (left, right))
        if any(is_null(event) for event in events):
            return NULL
        same = Op("same", events, Kind.BOOL, nullable=any(event.nullable for event in events))
        return same if op == "=" else Op("not", (same,), Kind.BOOL, nullable=same.nullable)

    def _event(self, name: Name) -> Bound:
        seen = self.names.get(name.name)
        return NULL if seen is None else Ref(seen.leaf, name.name, seen.optional)

    def _sql(self, expr: In | Between | Like | IsNull | CaseWhen) -> Bound:
        match expr:
            case In(operand, options, negated):
                for option in options:
                    self._check_relation(operand, option)
                value = self._bound(operand)
                tests = tuple(self._compared_at("=", value, option) for option in options)
                return self._flipped(self._joined("or", tests), negated)
            case Between(operand, low, high, negated):
                value = self._bound(operand)
                tests = (self._compared_at(">=", value, low), self._compared_at("<=", value, high))
                return self._flipped(self._joined("and", tests), negated)
            case Like(operand, pattern, negated):
                sides = (self._bound(operand), self._bound(pattern))
                for side in sides:
                    if side.kind not in (Kind.TEXT, Kind.NULL):
                        raise KindError(f"LIKE needs texts, not {article(side.kind)}")
                return self._flipped(Op("like", sides, Kind.BOOL, nullable=any(s.nullable for s in sides)), negated)
            case IsNull(operand, negated):
                target = self._event(operand) if isinstance(operand, Name) else settled(self._bound(operand))
                return self._flipped(Op("is_null", (target,), Kind.BOOL, nullable=False), negated)
            case CaseWhen():
                return self._case(expr)
        raise AssertionError(expr)

    def _compared_at(self, op: str, value: Bound, option: Expr) -> Bound:
        try:
            return kinds.compared(op, value, self._bound(option))
        except KindError as error:
            return self._wrong(error, option.span)

    @staticmethod
    def _joined(op: str, tests: tuple[Bound, ...]) -> Bound:
        return tests[0] if len(tests) == 1 else Op(op, tests, Kind.BOOL, nullable=any(t.nullable for t in tests))

    @staticmethod
    def _flipped(test: Bound, negated: bool) -> Bound:
        return Op("not", (test,), Kind.BOOL, nullable=test.nullable) if negated else test

    def _case(self, expr: CaseWhen) -> Bound:
        conditions = [self._truth(condition, "WHEN") for condition, _ in expr.whens]
        results = [self._bound(result) for _, result in expr.whens]
        if expr.otherwise is not None:
            results.append(self._bound(expr.otherwise))
        values = unified(results, "CASE")
        kind, scale = kind_of(values)
        args = [part for pair in zip(conditions, values, strict=False) for part in pair]
        if expr.otherwise is not None:
            args.append(values[-1])
        nullable = expr.otherwise is None or any(value.nullable for value in values)
        return Op("case", tuple(args), kind, scale, nullable)

    # --- calls ---------------------------------------------------------------------------------------------------

    def _call(self, expr: Call) -> Bound:
        name, args = expr.function, expr.args
        if name in ("start", "end"):
            return self._endpoint(name, args)
        if name == RELATION:
            return self._classified(args)
        if name in ("type", "eid"):
            return self._own(name, args)
        if name == PREV and PREV not in self.functions:
            return self._previous(args)
        if name == MEMBER:
            return self._member(args)
        if name == EVERYTHING:
            raise KindError("all attributes of an event are columns, not a value", hint="SELECT s.*, by itself")
        if name in AGGREGATES:
            return self._aggregate(name, args)
        if name in (*PARTS, TIMESTAMP):
            return self._point(name, args)
        if name not in BUILT_IN and name not in self.functions:
            known = {*BUILT_IN, *AGGREGATES, *OWN, *PARTS, TIMESTAMP, *self.functions}
            raise KindError(f"unknown function {name}", hint=suggestion(name, known) or "register it first")
        bound = tuple(self._bound(arg) for arg in args)
        return call(name, bound) if name in BUILT_IN else self._user(self.functions[name], bound)

    def _point(self, name: str, args: tuple[Expr, ...]) -> Bound:
        """A timestamp, or the hour, the day and the like of a point in time."""
        bound, unit = tuple(self._bound(arg) for arg in args), self.schema.unit
        point = len(args) in (1, 2) and is_point(args[0], bound[0], unit)
        if name == TIMESTAMP:
            return timestamp(bound, unit, is_point=point)
        if len(args) not in (1, 2):
            raise KindError(f"{name} takes a point in time, and perhaps a zone: not {len(args)} arguments")
        if not point and not is_null(bound[0]):
            raise refused(name, bound[0])
        return part(name, bound[0] if len(args) == 1 else in_zone(bound[0], bound[1], name))

    def _user(self, function: Function, args: tuple[Bound, ...]) -> Bound:
        if len(args) != function.arity:
            raise KindError(f"{function.name} takes {function.arity} arguments, not {len(args)}")
        args = tuple(settled(arg) for arg in args)
        if not function.nulls and any(is_null(arg) for arg in args):
            return NULL
        return User(function.name, args, function.returns)

    def _endpoint(self, which: str, args: tuple[Expr, ...]) -> Bound:
        if len(args) != 1 or not isinstance(args[0], Name):
            raise KindError(f"{which} takes one variable", hint=f"{which}(x)")
        seen = self.names.get(args[0].name)
        if seen is None:
            return NULL
        return Time(seen.leaf, which, args[0].name if seen.optional else None, seen.optional)

    def _related(self, expr: Relates) -> Bound:
        """The comparisons of ends that a relation means."""
        for side in (expr.left, expr.right):
            if not isinstance(side, Name):
                raise KindError(f"{expr.relation} stands between two variables", hint=f"a {expr.relation.upper()} b")
        tests = tuple(
            kinds.compared(op, self._endpoint(mine, (expr.left,)), self._endpoint(other, (expr.right,)))
            for mine, op, other in MEANS[expr.relation]
        )
        return self._joined("and", tests)

    def _check_relation(self, asked: Expr, name: Expr) -> None:
        """A text that `relation(a, b)` is compared with must be one that it can give."""
        match asked, name:
            case Call("relation"), Literal(str() as text) if text not in CLASSES:
                hint = suggestion(text.lower(), CLASSES) or listed(CLASSES, len(CLASSES))
                raise KindError(f"{text!r} is not an interval relation", hint=hint)

    def _classified(self, args: tuple[Expr, ...]) -> Bound:
        """relation(a, b): where several relations hold, because an event has no length, the first of `CLASSES`."""
        match args:
            case (Name() as left, Name() as right):
                return self._case(classifier(left, right))
        raise KindError("relation takes two variables", hint="relation(a, b) = 'overlap'")

    def _own(self, which: str, args: tuple[Expr, ...]) -> Bound:
        """type(x) is known here, eid(x) is a column; null where another alternative is bound."""
        if len(args) != 1 or not isinstance(args[0], Name):
            raise KindError(f"{which} takes one variable", hint=f"{which}(x)")
        seen = self.names.get(args[0].name)
        if seen is None:
            return NULL
        if which == EID:
            return self._eid(seen, args[0].name)
        if seen.type == ANY:
            return Col(seen.leaf, args[0].name, TYPE, Kind.TEXT, nullable=seen.optional)
        type = Lit(seen.type, Kind.TEXT)
        if not seen.optional:
            return type
        absent = Op("is_null", (Ref(seen.leaf, args[0].name, nullable=True),), Kind.BOOL, nullable=False)
        return Op("case", (Op("not", (absent,), Kind.BOOL, nullable=False), type), Kind.TEXT)

    def _eid(self, seen: Seen, var: str) -> Bound:
        """Results can show every eid; a condition is asked before computed ones are known."""
        kind = self.schema.eid
        if kind is None and not self.shows:
            raise KindError(
                "a condition can read eids only where the input has an eid column",
                hint='name it (eid=, --eid), or say its kind in a declared schema, {"*": {"eid": "int"}}; '
                "a <> b compares the events themselves",
            )
        if kind in (None, Kind.NULL):
            return Col(seen.leaf, var, EID, Kind.TEXT, nullable=seen.optional) if self.shows else NULL
        return Col(seen.leaf, var, EID, kind, nullable=seen.optional)

    def _previous(self, args: tuple[Expr, ...]) -> Bound:
        """prev(b.v), of the member before."""
        if len(args) != 1 or not isinstance(args[0], Attr):
            raise KindError("prev takes an attribute of a repeated variable", hint="prev(b.v)")
        if not self._stepping:
            raise KindError(
                "prev stands in a condition, outside aggregates",
                detail="the condition must be TRUE for every member but the first",
                hint=f"write it in WHERE, or use {args[0].var}[1].{args[0].name} for one member",
            )
        seen = self.names.get(args[0].var)
        if seen is not None and not seen.repeated:
            raise KindError(
                f"prev needs a repeated variable, {args[0].var} is one event",
                hint=f"{seen.type or 'ANY'}+ {args[0].var}",
            )
        column = self.column(args[0].var, args[0].name, args[0].span)
        return replace(column, previous=True) if isinstance(column, Col) else column

    def _member(self, args: tuple[Expr, ...]) -> Bound:
        """b[2].v: of one member."""
        number = args[1].value if len(args) == 2 and isinstance(args[1], Literal) else None
        if not isinstance(number, int) or number == 0:
            raise KindError("there is no such member", hint="members are counted from b[1], and from the end by b[-1]")
        self._of_member = True
        try:
            found = self._aggregate({1: "first", -1: "last"}.get(number, MEMBER), args[:1])
        finally:
            self._of_member = False
        return replace(found, place=number) if isinstance(found, Agg) and found.function == MEMBER else found

    def _aggregate(self, name: str, args: tuple[Expr, ...]) -> Bound:
        stepping, self._stepping = self._stepping, False  # inside an aggregate there is no member before
        try:
            return self._over_members(name, args)
        finally:
            self._stepping = stepping

    def _over_members(self, name: str, args: tuple[Expr, ...]) -> Bound:
        if name == COLLECT and not self._listing:
            raise KindError(
                "collect makes a list, and nothing can be asked of lists",
                hint="it is a column of SELECT by itself: SELECT collect(b.x); first(b.x), count(b), ... are values",
            )
        listing, self._listing = self._listing, False
        try:
            return self._over_set(name, args, listing)
        finally:
            self._listing = listing

    def _over_set(self, name: str, args: tuple[Expr, ...], listing: bool) -> Bound:
        if len(args) != 1:
            raise KindError(f"{name} takes one argument, not {len(args)}", hint=f"{name}(b.x) over a repetition b")
        arg = args[0]
        over = sorted(variables(arg))
        if len(over) != 1:
            raise KindError(
                f"{name} runs over one repeated variable, not {len(over)}",
                hint="keep other variables outside the aggregate",
            )
        if isinstance(arg, Name) and name != "count":
            shown = f"count(distinct {arg.name}.x)" if name == DISTINCT else f"{name}({arg.name}.x)"
            raise KindError(f"{name} needs an attribute", hint=shown)
        if over[0] not in self.names:
            return NULL  # reported as an unknown variable already
        seen = self.names[over[0]]
        if seen is None:
            return Lit(0, Kind.INT) if name in COUNTS else NULL
        if not seen.repeated:
            what = "a number of a member" if name == MEMBER else name
            raise KindError(f"{what} needs a repeated variable, {over[0]} is one event", hint=f"{seen.type}+ {over[0]}")
        if isinstance(arg, Name):
            return Agg("count", seen.leaf, None, Kind.INT, nullable=False)
        value = settled(self._bound(arg))
        if listing and is_point(arg, value, self.schema.unit):
            value = as_moment(value)
        return self._aggregated(name, seen, value, own=listing)

    def _aggregated(self, name: str, seen: Seen, value: Bound, *, own: bool) -> Bound:
        own = own or (name in ("first", "last", MEMBER) and self._of_member)  # b[2].time is of that member
        if any(isinstance(node, Agg) or (isinstance(node, Time) and not own) for node in walk_bound(value)):
            raise KindError(
                f"{name} cannot run over an aggregate", hint="start(b) and end(b) are over the whole repetition too"
            )
        if is_null(value):
            return Lit(0, Kind.INT) if name in COUNTS else NULL
        if name in COUNTS:
            return Agg(name, seen.leaf, value, Kind.INT, nullable=False)
        if name in ("sum", "avg") and value.kind not in kinds.NUMBERS:
            raise KindError(f"{name} needs numbers, not {article(value.kind)}")
        if name in ("min", "max") and value.kind is Kind.BOOL:
            raise KindError(f"{name} needs values that have an order, not {article(value.kind)}")
        if name == "avg":
            return Agg(name, seen.leaf, value, Kind.FLOAT)
        kind = Kind.INT if name == "sum" and value.kind is Kind.TIME else value.kind
        return Agg(name, seen.leaf, value, kind, value.scale, nullable=name in ("sum", MEMBER) or value.nullable)


def not_readable(attr: str, schema: Schema, span: Span | None, problems: Problems) -> None:
    """Note an attribute that events have, and that is made of what no expression can read."""
    made = f"the column is made of {schema.unreadable[attr]}"
    problems.add(f"no expression can read {attr}", span, detail=made, hint="make it a text, or take values out of it")


def unknown_attribute(
    attr: str, schema: Schema, own: Iterable[str], span: Span | None, problems: Problems, hint: str | None = None
) -> None:
    """Note an attribute that no event has, and that is null therefore; a strict schema refuses it.

    One that events have, but that no expression can read, is always refused: null would be a wrong answer.
    """
    if attr in schema.unreadable:
        not_readable(attr, schema, span, problems)
        return
    meant = suggestion(attr, own) or suggestion(attr, schema.attributes())
    if schema.strict:
        problems.add(f"unknown attribute {attr}", span, detail="no event type has it", hint=meant or hint)
    else:
        problems.note(f"no event has an attribute {attr}, so it is null", meant)


def whole_set(expr: Bound, repeated: frozenset[int]) -> frozenset[int]:
    """The repeated leaves that an expression asks as a finished set: in aggregates, start() and end()."""
    found: set[int] = set()
    for node in walk_bound(expr):
        match node:
            case Agg(_, leaf):
                found.add(leaf)
            case Time(leaf) if leaf in repeated:
                found.add(leaf)
    return frozenset(found)


def only_leaf(expr: Bound) -> int | None:
    """The one leaf that an expression mentions, if it asks nothing of a finished set."""
    mentioned = leaves(expr)
    if len(mentioned) != 1 or any(isinstance(node, Agg) for node in walk_bound(expr)):
        return None
    return next(iter(mentioned))
