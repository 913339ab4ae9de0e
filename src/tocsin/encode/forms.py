"""The form of a column of a live stream: what its values have been so far, and whether the next one fits.

A stream is read row by row, however its rows were cut into pushes: the first value of a column gives it its kind, whole
numbers become floats or decimals from the row on that needs it, and a value that does not fit is refused. So a form is
a function of the values in their order, and of nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tocsin.encode.columns import arrow_type
from tocsin.encode.objects import KIND_OF_TYPE, decimal_digits, decimal_places, impossible
from tocsin.encode.values import EXACT_FLOAT
from tocsin.schema import DECIMAL_DIGITS, Field, Kind

EXACT_DIGITS = len(str(EXACT_FLOAT))
LARGE = DECIMAL_DIGITS + 1  # the digits of whole numbers that neither floats nor decimals hold
TICKS, DATES, LOCAL, ZONED = "ticks", "dates", "local", "zoned"  # how times are written
TIME_TYPES = {
    TICKS: pa.int64(),
    DATES: pa.date32(),
    LOCAL: pa.timestamp("us"),
    ZONED: pa.timestamp("us", "UTC"),
}
WORDS = {TICKS: "a whole number", DATES: "a date", LOCAL: "a time without zone", ZONED: "a time with a zone"}


@dataclass(frozen=True, slots=True)
class Form:
    """What the values of a column are.

    `whole`: of decimals, the most digits before the point so far; of whole numbers, whether one was beyond 2**53.
    `times`: how points in time are written. `fixed`: the kind was declared and does not grow.
    """

    kind: Kind = Kind.NULL
    scale: int = 0
    whole: int = 0
    times: str = ""
    fixed: bool = False

    @property
    def is_large(self) -> bool:
        """Whether a whole number came that no float holds exactly."""
        return self.kind is Kind.INT and self.whole > EXACT_DIGITS

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the column."""
        if self.kind is Kind.TIME:
            return TIME_TYPES[self.times or LOCAL]
        return arrow_type(self.field(""))

    def field(self, name: str) -> Field:
        return Field(name, self.kind, self.scale)

    def grown_to(self, later: Form) -> bool:
        """Whether values that came before have another Arrow type than those that come now."""
        return self.kind is not Kind.NULL and (self.kind, self.scale) != (later.kind, later.scale)


def declared_form(field: Field) -> Form:
    return Form(field.kind, field.scale, fixed=field.kind is not Kind.NULL)


def form_of(field: Field, type: pa.DataType | None = None) -> Form:
    """The form of a column that is known by its field: of its numbers the largest are possible."""
    times = "" if type is None or field.kind is not Kind.TIME else times_of(type)
    return Form(field.kind, field.scale, LARGE if field.kind is Kind.INT else 0, times)


def times_of(type: pa.DataType) -> str:
    """How a column of times is written."""
    if pa.types.is_date(type):
        return DATES
    if pa.types.is_timestamp(type):
        return LOCAL if type.tz is None else ZONED
    return TICKS


def after(form: Form, value: Any) -> Form | str:
    """The form of a column after one more value (in its plain Python form); a text says why the value does not fit."""
    kind = KIND_OF_TYPE[type(value)]
    if kind is Kind.NULL:
        return form
    if (reason := impossible(value)) is not None:
        return reason
    if form.kind is Kind.NULL:
        return _with(Form(kind), value)
    if form.kind is kind:
        return _with(form, value)
    match form.kind, kind:
        case (Kind.FLOAT, Kind.INT):
            return form if abs(value) <= EXACT_FLOAT else "is too large to be a float exactly, and it was float before"
        case (Kind.DECIMAL, Kind.INT):
            return _with(form, Decimal(value))
        case (Kind.TIME, Kind.TEXT | Kind.INT) if form.fixed:
            return _declared_time(form, value)
        case (Kind.INT, Kind.FLOAT) if not form.fixed:
            return "is float now, and was too large for that before" if form.is_large else Form(Kind.FLOAT)
        case (Kind.INT, Kind.DECIMAL) if not form.fixed:
            before = form.whole if form.is_large else EXACT_DIGITS
            return _with(Form(Kind.DECIMAL, 0, before), value)
    return f"is {form.kind} and not {kind}" if form.fixed else f"is {kind} now and was {form.kind} before"


def _with(form: Form, value: Any) -> Form | str:
    """The form after a value of its own kind."""
    match value:
        case bool() | str() | float():
            return form
        case int():
            return form if abs(value) <= EXACT_FLOAT or form.is_large else replace(form, whole=LARGE)
        case Decimal():
            return _with_decimal(form, value)
    times = ZONED if isinstance(value, datetime) and value.tzinfo is not None else LOCAL
    times = times if isinstance(value, datetime) else DATES
    if form.times in ("", times):
        return replace(form, times=times)
    if form.times == LOCAL and times == DATES:
        return form
    return f"is {WORDS[times]} now and was {WORDS[form.times]} before"


def _with_decimal(form: Form, value: Decimal) -> Form | str:
    places = decimal_places(value)
    if form.fixed and places > form.scale:
        return f"has more than {form.scale} decimal places"
    scale, whole = max(places, form.scale), max(decimal_digits(value) - places, form.whole)
    if scale + whole > DECIMAL_DIGITS:
        return f"has more than {DECIMAL_DIGITS} digits at the scale of its column"
    return replace(form, scale=scale, whole=whole)


def _declared_time(form: Form, value: Any) -> Form | str:
    """An attribute that was declared as time may be written as ISO text or as ticks."""
    if isinstance(value, int):
        return replace(form, times=TICKS) if form.times in ("", TICKS) else f"is {WORDS[TICKS]} now"
    try:
        return _with(form, datetime.fromisoformat(value))
    except ValueError:
        return "is not an ISO timestamp"


def stored(form: Form, value: Any) -> Any:
    """A value that fits, as Arrow takes it for a column of this form."""
    if form.kind is Kind.DECIMAL and type(value) is int:
        return Decimal(value)
    if form.kind is Kind.TIME and type(value) is str:
        value = datetime.fromisoformat(value)
    if form.kind is Kind.TIME and type(value) is date and form.times == LOCAL:
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - no zone is meant
    return value
