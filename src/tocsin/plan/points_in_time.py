"""Functions of points in time: hour, minute, second, weekday, date; and timestamps that are written in a query.

A point in time is a number of microseconds since 1970, so these are arithmetic on numbers, and every way of running a
query has them. Times without a zone are taken as they are written, others are UTC, unless a zone is named.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tocsin.lang.syntax import MEMBER, UNITS, Attr, Call, Expr
from tocsin.lang.zone_default import PARTS
from tocsin.plan.calls import call
from tocsin.plan.expr import Bound, Lit, Op
from tocsin.plan.fold import NULL, is_null
from tocsin.plan.kinds import KindError, article, computed
from tocsin.schema import Kind
from tocsin.zones import ZoneError, zone_named

TIMESTAMP = "timestamp"
ON_THE_WALL = "on_the_wall"  # the operation: a point in time, and the name of a zone
__all__ = ["PARTS"]
POINTS = ("start", "end", "time")  # x.time, start(x): points in time if a tick is a microsecond
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY, HOUR, MINUTE, SECOND = (Lit(UNITS[unit], Kind.INT) for unit in ("d", "h", "min", "s"))
FORM = "such as timestamp('2026-03-01T09:00:00') or timestamp('2026-03-01 09:00:00+01:00')"


def written(text: str) -> int:
    """The microseconds of a timestamp in a query; without a zone it is taken as it is written.

    >>> written("1970-01-01T00:00:01"), written("1970-01-01 01:00:00+01:00")
    (1000000, 0)
    """
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


def in_zone(point: Bound, zone: Bound, name: str) -> Bound:
    """What the clocks of a named zone show at a point in time; in a kernel it is a column, computed as events come."""
    match zone:
        case Lit(str(text), Kind.TEXT):
            try:
                zone_named(text)
            except ZoneError as error:
                raise KindError(error.message, hint=error.hint) from None
            return NULL if is_null(point) else Op(ON_THE_WALL, (point, zone), Kind.TIME, nullable=True)
    raise KindError(f"{name} takes the name of a time zone in quotes", hint=f"{name}(x.time, 'Europe/Berlin')")


def timestamp(args: tuple[Bound, ...], unit: str | None, *, is_point: bool) -> Bound:
    """timestamp('2026-03-01T09:00'); of a point in time: itself, shown as a timestamp, with a zone as its clocks do."""
    match args:
        case (arg, zone) if is_point:
            return in_zone(arg, zone, TIMESTAMP)
        case (arg,) if is_point:
            return as_moment(arg)
        case (Lit(str(text), Kind.TEXT),):
            if unit != "us":
                raise KindError("the stream counts ticks of its own, so a timestamp has no place among them", hint=FORM)
            try:
                return Lit(written(text), Kind.TIME)
            except (ValueError, OverflowError):
                raise KindError(f"{text!r} is not a timestamp", hint=FORM) from None
    raise KindError("timestamp takes one text in quotes, or one point in time (and a zone)", hint=FORM)


def as_moment(point: Bound) -> Bound:
    """A point in time as a value that is shown as a timestamp."""
    return Op("+", (point, _number(0)), Kind.TIME, nullable=True)


def is_point(arg: Expr, bound: Bound, unit: str | None) -> bool:
    """Whether a value is a point in time: a timestamp, or where an event starts or ends in a stream of timestamps."""
    if bound.kind is Kind.TIME:
        return True
    if isinstance(arg, Call) and arg.function == MEMBER:
        return is_point(arg.args[0], bound, unit)
    where = arg.function if isinstance(arg, Call) else arg.name if isinstance(arg, Attr) else ""
    return unit == "us" and bound.kind is Kind.INT and where in POINTS


def part(name: str, arg: Bound) -> Bound:
    """hour(t), minute(t), second(t), weekday(t) from 1 (Monday) to 7; date(t), the midnight at which the day begins."""
    if is_null(arg):
        return NULL
    of_day = computed("%", computed("+", computed("%", arg, DAY), DAY), DAY)  # also before 1970
    midnight = computed("-", arg, of_day)
    match name:
        case "date":
            return Op("-", (arg, of_day), Kind.TIME, nullable=True)
        case "weekday":
            day = computed("+", computed("%", _whole(midnight, DAY), _number(7)), _number(10))  # day 0 was a Thursday
            return computed("+", computed("%", day, _number(7)), _number(1))
        case "minute":
            return _whole(computed("%", of_day, HOUR), MINUTE)
        case "second":
            return _whole(computed("%", of_day, MINUTE), SECOND)
    return _whole(of_day, HOUR)


def _number(value: int) -> Lit:
    return Lit(value, Kind.INT)


def _whole(value: Bound, length: Lit) -> Bound:
    """How often a length is contained in a value that is not negative, or a multiple of it."""
    return call("int", (call("floor", (computed("/", value, length),)),))


def refused(name: str, bound: Bound) -> KindError:
    """The error for something else than a point in time."""
    return KindError(
        f"{name} needs a point in time, not {article(bound.kind)}",
        hint=f"{name}(x.time), {name}(end(x)) in a stream of timestamps, or an attribute that is a timestamp",
    )
