"""Expressions as the oracle reads them: docs/expressions.md row by row, for one binding at a time.

A variable stands for an event, or for a tuple of events (a repetition in canonical order). A variable that is not in
the binding belongs to another branch of an OR and is null. Nothing here is shared with the engine.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from tocsin.errors import TocsinError
from tocsin.events import Event, Value
from tocsin.lang.syntax import (
    AGGREGATES,
    ALLEN,
    COLLECT,
    DISTINCT,
    MEMBER,
    PREV,
    UNITS,
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
    Unary,
    walk,
)

Bound: TypeAlias = Mapping[str, Event | tuple[Event, ...]]

EXACT = Context(prec=80)  # wide enough that no sum or product of 18-digit decimals is rounded
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


class UndefinedError(TocsinError, ValueError):
    """The definition gives this query no meaning; the binder must refuse it too."""


class Fraction(Decimal):
    """A literal such as 0.1: exact beside a decimal, a float elsewhere."""


@dataclass(frozen=True, slots=True)
class OracleEvaluator:
    """Evaluates expressions; `functions` are the user's, by lower-case name, `unit` is the length of a tick."""

    functions: Mapping[str, Callable[..., Any]]
    unit: str | None = None
    attributes: frozenset[str] = frozenset()  # that the events have: others may mean what each event has of its own

    def true(self, expr: Expr, bound: Bound) -> bool:
        """Only TRUE passes a predicate. One with prev() is asked of every member but the first, with the one before."""
        var = self.stepped(expr)
        members = bound.get(var) if var is not None else None
        if var is None or members is None:
            return self.value(expr, bound) is True
        if not isinstance(members, tuple):
            raise UndefinedError(f"prev needs a repeated variable, {var} is one event")
        return all(
            self.value(expr, {**bound, var: member, f"prev {var}": before}) is True
            for before, member in pairwise(members)
        )

    def stepped(self, expr: Expr) -> str | None:
        """The variable whose members a predicate compares with the member before."""
        if PREV in self.functions:
            return None
        calls = [node for node in walk(expr) if isinstance(node, Call) and node.function == PREV]
        over = frozenset().union(*(variables(call) for call in calls))
        if len(over) > 1 or any(len(call.args) != 1 or not isinstance(call.args[0], Attr) for call in calls):
            raise UndefinedError("prev takes an attribute of one repeated variable")
        return min(over, default=None)

    def plain(self, expr: Expr, bound: Bound) -> Value:
        """The value as a result column shows it."""
        value = self.value(expr, bound)
        return to_float(value) if isinstance(value, Fraction) else value

    def value(self, expr: Expr, bound: Bound) -> Value:
        match expr:
            case Literal(value):
                return Fraction(value) if isinstance(value, Decimal) else value
            case Duration():
                return ticks(expr, self.unit)
            case Attr(var, attr) if attr in OWN and attr not in self.attributes:
                return own(OWN[attr], bound.get(var))
            case Attr(var, attr):
                event = one(var, bound)
                return None if event is None else event.attrs.get(attr)
            case Unary("NOT", operand):
                truth = self.value(operand, bound)
                return None if truth is None else not truth
            case Unary("-", operand):
                return negative(self.value(operand, bound))
            case Binary("AND" | "OR" as op, left, right):
                return logic(op, self.value(left, bound), self.value(right, bound))
            case Binary("=" | "<>" as op, Name(left), Name(right)):
                return identity(op, one(left, bound), one(right, bound))
            case Binary(op, left, right):
                return binary(op, self.value(left, bound), self.value(right, bound))
            case Call("relation", (Name(left), Name(right))):
                return relation_of(times(bound.get(left)), times(bound.get(right)))
            case Call(function, args) if function in AGGREGATES:
                return self.aggregate(function, args, bound)
            case Call("start" | "end" | "type" | "eid" as which, (Name(var),)):
                return own(which, bound.get(var))
            case Call(function, args) if function != PREV or PREV in self.functions:
                return self.call(function, [self.value(arg, bound) for arg in args])
        return self.sql_form(expr, bound)

    def sql_form(self, expr: Expr, bound: Bound) -> Value:
        """IN, BETWEEN, LIKE, IS NULL and CASE; and relations between two variables."""
        match expr:
            case Relates(Name(left), relation, Name(right)):
                return related(relation, times(bound.get(left)), times(bound.get(right)))
            case In(operand, options, negated):
                found: Value = False
                for option in options:
                    found = logic("OR", found, self.value(Binary("=", operand, option), bound))
                return flipped(found, negated=negated)
            case Between(operand, low, high, negated):
                above = self.value(Binary(">=", operand, low), bound)
                below = self.value(Binary("<=", operand, high), bound)
                return flipped(logic("AND", above, below), negated=negated)
            case Like(operand, pattern, negated):
                return flipped(like(self.value(operand, bound), self.value(pattern, bound)), negated=negated)
            case IsNull(Name(var), negated):
                return (one(var, bound) is None) != negated
            case IsNull(operand, negated):
                return (self.value(operand, bound) is None) != negated
            case CaseWhen(whens, otherwise):
                for condition, result in whens:
                    if self.value(condition, bound) is True:
                        return self.value(result, bound)
                return None if otherwise is None else self.value(otherwise, bound)
            case Call(_, (Attr(var, attr),)):
                return self.previous(var, attr, bound)
            case Name(var):
                raise UndefinedError(f"{var} is an event, not a value", hint=f"compare an attribute: {var}.name")
        raise UndefinedError("[attr] can only stand by itself among the conjuncts of WHERE")

    def previous(self, var: str, attr: str, bound: Bound) -> Value:
        """prev(b.v): of the member before the one that is asked."""
        if var in bound and f"prev {var}" not in bound:
            raise UndefinedError("prev stands in a condition, outside aggregates")
        event = one(f"prev {var}", bound)
        return None if event is None else event.attrs.get(attr)

    def aggregate(self, function: str, args: tuple[Expr, ...], bound: Bound) -> Value:
        if function == MEMBER and len(args) == 2 and isinstance(args[1], Literal):
            return self.member(args[0], args[1].value, bound)
        if len(args) != 1:
            raise UndefinedError(f"{function} takes one argument")
        var = repeated_variable(function, args[0], bound)
        members = bound.get(var, ())
        if not isinstance(members, tuple):
            raise UndefinedError(f"{function}({var}) is asked of the finished set, not of a single member")
        if isinstance(args[0], Name):
            if function != "count":
                raise UndefinedError(f"{function} needs an attribute", hint=f"{function}({var}.name)")
            return len(members)
        found: Value = aggregated(function, self.of_members(args[0], var, members, bound))
        return found

    def of_members(self, arg: Expr, var: str, members: tuple[Event, ...], bound: Bound) -> list[Value]:
        rest = {name: value for name, value in bound.items() if name != f"prev {var}"}
        return [self.value(arg, {**rest, var: member}) for member in members]

    def member(self, arg: Expr, number: object, bound: Bound) -> Value:
        """b[2].v: of one member in canonical order, from the end if the number is negative; null if there is none."""
        if not isinstance(number, int) or number == 0:
            raise UndefinedError("there is no member 0")
        var = repeated_variable(MEMBER, arg, bound)
        members = bound.get(var, ())
        if not isinstance(members, tuple):
            raise UndefinedError(f"{var}[{number}] is asked of the finished set, not of a single member")
        values = self.of_members(arg, var, members, bound)
        at = number - 1 if number > 0 else len(values) + number
        return values[at] if 0 <= at < len(values) else None

    def call(self, function: str, args: list[Value]) -> Value:
        if function == "coalesce":
            return next((arg for arg in args if arg is not None), None)
        if function == "nullif":
            return None if args[0] is None or binary("=", args[0], args[1]) is True else args[0]
        user = self.functions.get(function)
        if user is None and function not in BUILT_IN:
            raise UndefinedError(f"unknown function {function}")
        if any(arg is None for arg in args) and not getattr(user, "nulls", False):
            return None
        if user is None:
            return BUILT_IN[function](*args)
        given = [to_float(arg) if isinstance(arg, Fraction) else arg for arg in args]
        result = user.ask(given) if hasattr(user, "ask") else user(*given)
        return result.item() if hasattr(result, "item") else result  # type: ignore[no-any-return]


# --- what an expression mentions -----------------------------------------------------------------------------------


def variables(expr: Expr) -> frozenset[str]:
    """Every variable that an expression mentions."""
    return frozenset(names(walk(expr)))


def names(nodes: Iterator[object]) -> Iterator[str]:
    for node in nodes:
        match node:
            case Attr(var) | Name(var):
                yield var


def stepped_variables(expr: Expr) -> frozenset[str]:
    """The variables of prev() in a conjunct: it is asked of the set, and is no condition of membership."""
    steps = (node for node in walk(expr) if isinstance(node, Call) and node.function == PREV)
    return frozenset().union(*(variables(step) for step in steps))


def bare_variables(expr: object) -> frozenset[str]:
    """The variables mentioned outside aggregates, start(), end() and relations: there one member is meant."""
    match expr:
        case Attr(var) | Name(var):
            return frozenset((var,))
        case Call(function) if function in AGGREGATES or function in ("start", "end", "relation"):
            return frozenset()
        case Relates():
            return frozenset()
        case Call(_, args):
            return frozenset().union(*(bare_variables(arg) for arg in args))
        case CaseWhen(whens, otherwise):
            parts = [part for when in whens for part in when] + ([otherwise] if otherwise else [])
            return frozenset().union(*(bare_variables(part) for part in parts))
        case In(operand, options):
            return frozenset().union(*(bare_variables(part) for part in (operand, *options)))
        case Between(operand, low, high):
            return bare_variables(operand) | bare_variables(low) | bare_variables(high)
        case Unary(_, operand) | IsNull(operand):
            return bare_variables(operand)
        case Binary(_, left, right) | Like(left, right):
            return bare_variables(left) | bare_variables(right)
    return frozenset()


def set_variables(expr: Expr) -> frozenset[str]:
    """The variables mentioned inside aggregates, as start() and end(), or in relations: the finished set is meant."""
    calls = (node for node in walk(expr) if isinstance(node, Call | Relates))
    whole = (*AGGREGATES, "start", "end", "relation")
    sets = (call for call in calls if isinstance(call, Relates) or call.function in whole)
    return frozenset().union(*(variables(call) for call in sets))


def one(var: str, bound: Bound) -> Event | None:
    """The event a variable stands for; None if another branch of an OR is bound."""
    event = bound.get(var)
    if isinstance(event, tuple):
        raise UndefinedError(
            f"{var} is repeated and stands here outside an aggregate", hint=f"count({var}), first({var}.x)"
        )
    return event


def repeated_variable(function: str, arg: Expr, bound: Bound) -> str:
    """The one variable an aggregate runs over: a repeated one, or one of another branch of an OR."""
    mentioned = sorted(variables(arg))
    over = [var for var in mentioned if isinstance(bound.get(var, ()), tuple)]
    if len(over) == 1:
        return over[0]
    if not over and mentioned:  # while members are chosen one by one their variable is a plain event
        return mentioned[0]
    raise UndefinedError(f"{function} runs over exactly one repeated variable")


def ticks(duration: Duration, unit: str | None) -> int:
    """A length of time in ticks, where a tick is one `unit`; without it ticks are plain numbers and have no length."""
    length = Decimal(duration.amount)
    if duration.unit is not None:
        if unit is None:
            raise UndefinedError(f"the length of a tick is not known, so {length} {duration.unit} has no meaning")
        length = length * UNITS[duration.unit] / UNITS[unit]
    if length != int(length):
        raise UndefinedError("a duration must be a whole number of ticks")
    return int(length)


# --- operations ----------------------------------------------------------------------------------------------------


def flipped(truth: Value, *, negated: bool) -> Value:
    return (not truth) if negated and truth is not None else truth


def logic(op: str, left: Value, right: Value) -> Value:
    """AND is FALSE if either side is, OR is TRUE if either side is; otherwise null wins."""
    decisive = op == "OR"
    if left is decisive or right is decisive:
        return decisive
    return None if left is None or right is None else not decisive


def identity(op: str, left: Event | None, right: Event | None) -> Value:
    if left is None or right is None:
        return None
    return (left is right) == (op == "=")


OWN = {"time": "start", "start": "start", "end": "end", "type": "type", "eid": "eid"}  # x.time is start(x)


def own(which: str, events: Event | tuple[Event, ...] | None) -> Value:
    """start(x), end(x) and type(x), of a repetition of the whole set; and eid(x)."""
    if events is None:
        return None
    members = events if isinstance(events, tuple) else (events,)
    if which == "type":
        return members[0].type
    if which == "eid":
        if isinstance(events, tuple):
            raise UndefinedError("eid() is asked of one event, not of a set")
        return events.eid
    return min(e.start for e in members) if which == "start" else max(e.end for e in members)


# --- relations between times ---------------------------------------------------------------------------------------

Times: TypeAlias = tuple[int, int]


def times(events: Event | tuple[Event, ...] | None) -> Times | None:
    """The first start and the last end of what a variable stands for."""
    if events is None:
        return None
    members = events if isinstance(events, tuple) else (events,)
    return min(e.start for e in members), max(e.end for e in members)


def related(relation: str, left: Times | None, right: Times | None) -> bool | None:
    """Allen's relations between [s, e] and [t, f]; where a span has no length several can hold at once."""
    if left is None or right is None:
        return None
    (s, e), (t, f) = left, right
    return {
        "before": e < t,
        "after": f < s,
        "during": t < s and e < f,
        "contain": s < t and f < e,
        "meet": e == t,
        "met by": s == f,
        "overlap": s < t < e < f,
        "overlapped by": t < s < f < e,
        "start": s == t and e < f,
        "started by": s == t and f < e,
        "finish": t < s and e == f,
        "finished by": s < t and e == f,
        "equal": s == t and e == f,
        "intersect": max(s, t) <= min(e, f),
    }[relation]


def relation_of(left: Times | None, right: Times | None) -> str | None:
    """The one relation that a classifier names: equal ends count before ends that touch, and these before the rest."""
    if left is None or right is None:
        return None
    for several in ("equal",), ("start", "started by", "finish", "finished by"), ("meet", "met by"), ALLEN:
        for name in several:
            if related(name, left, right):
                return name
    raise AssertionError(left, right)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def binary(op: str, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    if op == "||":
        return concat(left, right)
    left, right = one_kind(left, right)
    if op in COMPARE:
        same_world(left, right, op)
        return None if nan(left) or nan(right) else COMPARE[op](left, right)
    return arithmetic(op, left, right)


def one_kind(left: Any, right: Any) -> tuple[Any, Any]:
    """Literals with a fraction settled, and decimals beside floats made floats; int and float still mix."""
    exact = is_decimal(left) or is_decimal(right)
    if not exact or isinstance(left, float) or isinstance(right, float):
        left, right = (to_float(x) if isinstance(x, Decimal) else x for x in (left, right))
    return left, right


def is_decimal(value: object) -> bool:
    return isinstance(value, Decimal) and not isinstance(value, Fraction)


def same_world(left: Any, right: Any, op: str) -> None:
    """Text, truth values and numbers are never compared with each other, and truth values have no order."""
    worlds = [str if isinstance(x, str) else bool if isinstance(x, bool) else int for x in (left, right)]
    if worlds[0] is not worlds[1] or (worlds[0] is bool and op not in ("=", "<>")):
        raise UndefinedError(f"{left!r} and {right!r} cannot be compared with {op}")


def arithmetic(op: str, left: Any, right: Any) -> Value:
    if any(isinstance(x, (str, bool)) for x in (left, right)):
        raise UndefinedError(f"{op} needs numbers")
    if op == "/":
        left, right = to_float(left), to_float(right)
        return None if right == 0.0 else left / right
    if op == "%":
        return None if right == 0 else remainder(left, right)
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    calls = {"+": operator.add, "-": operator.sub, "*": operator.mul}
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        calls = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}
        left, right = Decimal(left), Decimal(right)
    return fitting(calls[op](left, right))


def remainder(left: Any, right: Any) -> Value:
    """With the sign of the dividend."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        return math.nan if math.isinf(left) or nan(left) or nan(right) else math.fmod(left, right)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return EXACT.remainder(Decimal(left), Decimal(right))
    return abs(left) % abs(right) * (-1 if left < 0 else 1)  # type: ignore[no-any-return]


def fitting(value: Value) -> Value:
    """Null where an exact result leaves 64 bits."""
    if isinstance(value, float) or value is None or isinstance(value, str):
        return value
    whole = unscaled(value)[0] if isinstance(value, Decimal) else value
    return value if INT_MIN <= whole <= INT_MAX else None


def unscaled(value: Decimal) -> tuple[int, int]:
    """A decimal as whole number and scale: 1.50 is (150, 2)."""
    scale = max(0, -int(value.as_tuple().exponent))
    return int(EXACT.scaleb(value, scale)), scale


def to_float(value: Any) -> float:
    if is_decimal(value):
        whole, scale = unscaled(value)
        return float(whole) / float(10**scale)
    return float(value)


def nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def negative(value: Any) -> Value:
    if value is None:
        return None
    return Fraction(-value) if isinstance(value, Fraction) else fitting(-value)


def like(text: Any, pattern: Any) -> Value:
    """% is any text, _ one character, a backslash takes the next character as it is."""
    if text is None or pattern is None:
        return None
    rest = iter(pattern)
    signs = [  # what each means, and the character
        ("=", next(rest, "\\")) if char == "\\" else (char if char in "%_" else "=", char) for char in rest
    ]

    def skipped(places: set[int]) -> set[int]:
        """The places in the pattern to which some can go on without a character: every % may be empty."""
        for place, (meaning, _) in enumerate(signs):
            if meaning == "%" and place in places:
                places.add(place + 1)
        return places

    reached = skipped({0})
    for char in text:
        fits = {
            place for place in reached if place < len(signs) and signs[place] in (("=", char), ("_", "_"), ("%", "%"))
        }
        reached = skipped({place if signs[place][0] == "%" else place + 1 for place in fits})
    return len(signs) in reached


# --- aggregates ----------------------------------------------------------------------------------------------------


def aggregated(function: str, values: Sequence[Value]) -> Any:
    """Of the values of all members, in canonical order."""
    if function in ("first", "last"):
        return (values[0] if function == "first" else values[-1]) if values else None
    if function == COLLECT:
        return list(values)
    known: list[Any] = [to_float(v) if isinstance(v, Fraction) else v for v in values if v is not None]
    if function == "count":
        return len(known)
    if function == DISTINCT:  # NaN is one value, whatever it is compared with
        return len({v for v in known if not nan(v)}) + any(nan(v) for v in known)
    if not known:
        return None
    if function in ("min", "max"):
        return extreme(function, known)
    total = total_of(known)
    return to_float(total) / len(known) if function == "avg" and total is not None else total


def total_of(known: list[Any]) -> Value:
    if any(isinstance(v, float) for v in known):
        total = 0.0
        for value in known:
            total += to_float(value)
        return total
    exact: Any = 0
    for value in known:
        exact = EXACT.add(exact, value) if isinstance(value, Decimal) else exact + value
    return fitting(exact)


def extreme(function: str, known: list[Any]) -> Value:
    if any(nan(v) for v in known):
        return math.nan
    best = (min if function == "min" else max)(known)
    return float(best) if any(isinstance(v, float) for v in known) else best


# --- functions -----------------------------------------------------------------------------------------------------


def absolute(x: Any) -> Value:
    return Fraction(abs(x)) if isinstance(x, Fraction) else fitting(abs(x))


def rounded(how: Callable[[Any], int]) -> Callable[[Any], Value]:
    def apply(x: Any) -> Value:
        if isinstance(x, int):
            return x
        x = to_float(x)
        return float(how(x)) if math.isfinite(x) else x

    return apply


def root(x: Any) -> Value:
    x = to_float(x)
    return None if x < 0 else math.sqrt(x)


def chosen(function: str) -> Callable[..., Value]:
    def apply(*args: Any) -> Value:
        exact = any(is_decimal(x) for x in args) and not any(isinstance(x, float) for x in args)
        return extreme(function, list(args) if exact else [to_float(x) if isinstance(x, Decimal) else x for x in args])

    return apply


def substr(text: str, first: int, length: int | None = None) -> Value:
    if first < 1 or (length is not None and length < 0):
        return None
    return text[first - 1 :] if length is None else text[first - 1 : first - 1 + length]


def concat(*texts: Any) -> Value:
    if not all(isinstance(text, str) for text in texts):
        raise UndefinedError("only texts can be joined", hint="text(x) makes a text of a number")
    return "".join(texts)


def to_int(x: Any) -> Value:
    if isinstance(x, str):
        digits = re.fullmatch(r"[+-]?[0-9]+", x.strip(" "))
        return fitting(int(digits.group())) if digits else None
    if isinstance(x, float) and not math.isfinite(x):
        return None
    return fitting(int(x))


def as_float(x: Any) -> Value:
    if not isinstance(x, str):
        return to_float(x)
    try:
        return None if "_" in x else float(x)
    except ValueError:
        return None


def to_text(x: Any) -> Value:
    return str(x).lower() if isinstance(x, bool) else str(x)


def point(text: str | int, zone: str | None = None) -> Value:
    """Microseconds since 1970; a timestamp without a zone is taken as it is written."""
    if not isinstance(text, str):
        shown = local(text, zone) if zone else None
        return point(shown.isoformat()) if shown else None if zone else text
    moment = datetime.fromisoformat(text)
    since = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def local(time: int, zone: str | None) -> datetime | None:
    """What the clocks of a zone show; a time without a zone is taken as it is written."""
    try:
        since = timedelta(microseconds=time)
        return (datetime(1970, 1, 1, tzinfo=UTC) + since).astimezone(ZoneInfo(zone or "UTC")).replace(tzinfo=UTC)
    except OverflowError:
        return None


def part_of(name: str) -> Callable[..., Value]:
    """hour, minute, ... of a point in time; without a zone also beyond the years that a calendar has."""
    plain: dict[str, Callable[[int], int]] = {
        "hour": lambda time: time // UNITS["h"] % 24,
        "minute": lambda time: time // UNITS["min"] % 60,
        "second": lambda time: time // UNITS["s"] % 60,
        "weekday": lambda time: (time // UNITS["d"] + 3) % 7 + 1,  # 1970-01-01 was a Thursday
        "date": lambda time: time // UNITS["d"] * UNITS["d"],
    }

    def apply(time: int, zone: str | None = None) -> Value:
        if zone is None:
            return plain[name](time)
        shown = local(time, zone)
        if shown is None:
            return None
        if name == "date":
            return point(shown.replace(hour=0, minute=0, second=0, microsecond=0).isoformat())
        return shown.isoweekday() if name == "weekday" else getattr(shown, name)

    return apply


BUILT_IN: dict[str, Callable[..., Value]] = {
    "abs": absolute,
    "floor": rounded(math.floor),
    "ceil": rounded(math.ceil),
    "round": rounded(round),
    "sqrt": root,
    "least": chosen("min"),
    "greatest": chosen("max"),
    "lower": lambda text: text.lower(),
    "upper": lambda text: text.upper(),
    "trim": lambda text: text.strip(" "),
    "length": len,
    "substr": substr,
    "concat": concat,
    "starts_with": lambda text, start: text.startswith(start),
    "contains": lambda text, part: part in text,
    "int": to_int,
    "float": as_float,
    "text": to_text,
    "timestamp": point,
    **{name: part_of(name) for name in ("hour", "minute", "second", "weekday", "date")},
}
