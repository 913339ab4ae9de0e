"""Rows of a live stream, read one after the other: what a row means does not depend on how rows were cut into pushes.

Which column is what, how times are written and the kinds of attributes are settled by a declared schema, by what the
queries can take, and else by the first row that shows them. A row that does not fit is a bad row, and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from tocsin.encode.arrow import BadRowError
from tocsin.encode.batch import HINTS
from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.forms import (
    LOCAL,
    TICKS,
    TIME_TYPES,
    WORDS,
    ZONED,
    Form,
    after,
    declared_form,
    form_of,
    stored,
    times_of,
)
from tocsin.encode.objects import ODD_NAME, is_encodable, plain_row, plain_value
from tocsin.encode.times import ticks
from tocsin.encode.values import EXACT_FLOAT
from tocsin.errors import InputError
from tocsin.events import ANY, TIME_LIMIT, Event
from tocsin.schema import Field, Kind

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
QUICK: dict[Kind, set[type]] = {Kind.INT: {int}, Kind.FLOAT: {int, float}, Kind.TEXT: {str}, Kind.BOOL: {bool}}
Refuses = Callable[[Mapping[str, Field]], str | None]  # why the queries cannot take attributes of these kinds
Row = Mapping[str, Any]
Mark = tuple[Columns | None, str, str, type | None, dict[str, Form]]
HEARTBEAT = "heartbeat"  # in a row without a type: no event, but what time it is


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A row that is no event: every later one (of its source, if it names one) ends after this time, in ticks."""

    time: int
    source: str | None = None


@dataclass(slots=True)
class Usable:
    """The rows of a push that can be used: in batches, as kinds grow, heartbeats between; and why others cannot."""

    batches: list[pa.RecordBatch | Heartbeat] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)

    def refuse_bad(self) -> None:
        """Raise the first bad row."""
        for row, reason in self.bad.items():
            raise BadRowError(row, reason, hint=HINTS.get(reason))


class MisfitError(Exception):
    """Why a row cannot be used; never leaves this module."""


class StreamRows:
    """Reads rows in the order of the stream. Of types that no query reads only type, time, end and eid are judged."""

    def __init__(
        self,
        columns: Columns,
        reads: frozenset[str],
        asks: frozenset[str] = frozenset(),
        refuses: Refuses | None = None,
        declared: Mapping[str, Field] | None = None,
    ) -> None:
        self.given = columns
        self.columns: Columns | None = None  # which column is what, as the first row has settled it
        self.reads, self.asks = reads, asks  # the types and the attributes that queries mention
        self.declared = declared is not None
        self.forms: dict[str, Form] = {name: declared_form(field) for name, field in (declared or {}).items()}
        self.times = ""  # how times are written
        self.beats = ""  # how heartbeats before the first event were written
        self.eids: type | None = None  # whole numbers or texts
        self._refuses = refuses
        self._refused: dict[tuple[str, Kind, int], str] = {}

    @property
    def large(self) -> set[str]:
        """The attributes of whole numbers that may be beyond 2**53."""
        return {name for name, form in self.forms.items() if form.is_large or form.fixed}

    def read(self, rows: Sequence[Row | Event], *, until_bad: bool = False) -> Usable:
        """Read the next rows; with `until_bad` nothing behind the first bad row is read."""
        plain = [plain_row(row, at) for at, row in enumerate(rows)]
        quick = self._quick(plain)
        if quick is not None:
            return Usable([quick] if quick.num_rows else [])
        found = Usable()
        run: list[dict[str, Any]] = []
        for at, row in enumerate(plain):
            try:
                if HEARTBEAT in row and row.get((self.columns or self.given).type) is None:
                    beat = self._heartbeat(row)
                    found.batches += [*self._batch(run), beat]
                    run = []
                    continue
                made, news = self._fit(row)
            except MisfitError as problem:
                found.bad[at] = str(problem)
                if until_bad:
                    break
                continue
            if any(name in self.forms and self.forms[name].grown_to(form) for name, form in news.items()):
                found.batches += self._batch(run)
                run = []
            self.forms.update(news)
            run.append(made)
        found.batches += self._batch(run)
        return found

    def _reads(self, kind: Any) -> bool:
        """Whether a query reads events of a type; where one reads ANY, all of them."""
        return kind in self.reads or ANY in self.reads

    def mark(self) -> Mark:
        """What is settled now, for `reset`."""
        return self.columns, self.times, self.beats, self.eids, dict(self.forms)

    def reset(self, mark: Mark) -> None:
        """Forget what was settled since."""
        self.columns, self.times, self.beats, self.eids, self.forms = mark

    def assume(self, fields: Iterable[Field]) -> None:
        """Take kinds that are known from elsewhere."""
        self.forms.update({field.name: form_of(field) for field in fields if field.kind is not Kind.NULL})

    def observe(self, batch: pa.RecordBatch) -> None:
        """Take note of a batch that came as Arrow: columns have their kinds there. Raises InputError if it differs."""
        columns = self.given.resolve(batch.schema.names)
        times = times_of(batch.schema.field(columns.time).type)
        known = self.times or self.beats
        if known and (times == TICKS) != (known == TICKS):
            raise InputError("the time is a timestamp in some events and a number in others")
        if self.columns is not None:
            if (columns.time, columns.end, columns.eid) != (self.columns.time, self.columns.end, self.columns.eid):
                raise InputError(
                    "the events have other columns for time, end or eid than those before them",
                    hint="say which column is what: time=, end=, eid=",
                )
        else:
            self.columns, self.times = columns, times
        if columns.eid is not None and self.eids is None:
            self.eids = int if pa.types.is_integer(batch.schema.field(columns.eid).type) else str
        for each, seen in infer_schema(batch.schema, columns).common.items():
            if each != columns.eid and not self.declared and seen.kind is not Kind.NULL:
                self.forms[each] = form_of(seen, batch.schema.field(each).type)

    # --- one row after the other ---

    def _heartbeat(self, row: Row) -> Heartbeat:
        """A row that says the time. Raises MisfitError."""
        times, value = _time(row[HEARTBEAT], HEARTBEAT)
        known = self.times or self.beats
        if known and (times == TICKS) != (known == TICKS):
            raise MisfitError(f"the heartbeat is {WORDS[times]}, and times before it were {WORDS[known]}")
        self.beats = times
        source = None if self.given.source is None else row.get(self.given.source)
        at = value if times == TICKS else int(ticks(pa.array([value], TIME_TYPES[times]), HEARTBEAT)[0][0])
        return Heartbeat(at, None if source is None else str(source))

    def _fit(self, row: Row) -> tuple[dict[str, Any], dict[str, Form]]:
        """A row as it is stored, and the forms that it changes. Raises MisfitError."""
        columns = self.columns or self._settled(row)
        kind = _type(row.get(columns.type))
        times, start = _time(row.get(columns.time), "time")
        if self.times and times != self.times:
            raise MisfitError(_other_times(times, self.times))
        if not self.times and self.beats and (times == TICKS) != (self.beats == TICKS):
            raise MisfitError(f"the time is {WORDS[times]}, and the heartbeat before it was {WORDS[self.beats]}")
        made = {columns.type: kind, columns.time: start}
        if columns.end is not None:
            made[columns.end] = self._end(row, columns.end, start, times)
        if columns.eid is not None:
            made[columns.eid] = self._eid(row.get(columns.eid))
        news = self._attributes(row, made, columns) if self._reads(kind) else {}
        if columns.eid is not None and self.eids is None:
            self.eids = type(made[columns.eid])
        self.columns, self.times = columns, times
        return made, news

    def _settled(self, row: Row) -> Columns:
        try:
            return self.given.resolve([name for name, value in row.items() if value is not None])
        except InputError as problem:
            raise MisfitError(problem.message) from None

    def _end(self, row: Row, name: str, start: Any, times: str) -> Any:
        written, end = _time(row.get(name), "end")
        if written != times:
            raise MisfitError(f"the end is {WORDS[written]} and the time is {WORDS[times]}")
        if end < start:
            raise MisfitError("the end is before the start")
        return end

    def _eid(self, value: Any) -> Any:
        eid, reason = plain_value(value)
        if eid is None:
            raise MisfitError(f"the eid {reason}" if reason else "the eid is null")
        if type(eid) not in (int, str):
            raise MisfitError("an eid is a whole number or a text")
        if self.eids is not None and type(eid) is not self.eids:
            raise MisfitError(f"the eid is {'text' if self.eids is int else 'a number'} now and was not before")
        form = after(Form(), eid)
        if isinstance(form, str):
            raise MisfitError(f"the eid {form}")
        return eid

    def _check_roles(self, row: Row, columns: Columns) -> None:
        """An eid or an end that first comes later would change what the events before it were."""
        if self.columns is None:
            return
        taken = columns.taken()
        for name, role, given in (("end", columns.end, self.given.end), ("eid", columns.eid, self.given.eid)):
            if role is None and given is None and name not in taken and row.get(name) is not None:
                raise MisfitError(f"has an {name!r} now, and the events before it had none")

    def _attributes(self, row: Row, made: dict[str, Any], columns: Columns) -> dict[str, Form]:
        self._check_roles(row, columns)
        news: dict[str, Form] = {}
        for name, given in row.items():
            if name in made or given is None or (self.declared and name not in self.forms):
                continue
            value, reason = plain_value(given)
            if not isinstance(name, str) or not is_encodable(name):
                raise MisfitError(ODD_NAME)
            old = self.forms.get(name, Form())
            new = reason if reason is not None else after(old, value)
            if isinstance(new, str):
                raise MisfitError(f"{name!r} {new}")
            if new != old:
                news[name] = new
            made[name] = value
        if news and not self.declared:
            self._check_news(news, made, columns)
        return news

    def _check_news(self, news: dict[str, Form], made: dict[str, Any], columns: Columns) -> None:
        """Ask whether new names are allowed, and whether the queries can take the new kinds."""
        try:
            columns.resolve(list(dict.fromkeys([*made, *self.forms])))
        except InputError as problem:
            raise MisfitError(problem.message) from None
        asked = {name: form for name, form in news.items() if name in self.asks and self._is_news(name, form)}
        if len(asked) > 1 and self._can_take(asked):
            return
        for name, form in asked.items():
            self._check_kind(name, form)

    def _is_news(self, name: str, form: Form) -> bool:
        old = self.forms.get(name, Form())
        return (old.kind, old.scale) != (form.kind, form.scale)

    def _can_take(self, news: dict[str, Form]) -> bool:
        """Whether the queries can take all new kinds together: then each need not be asked by itself."""
        if self._refuses is None or any((name, form.kind, form.scale) in self._refused for name, form in news.items()):
            return False
        known = {each: has.field(each) for each, has in self.forms.items()}
        if self._refuses(known | {name: form.field(name) for name, form in news.items()}) is not None:
            return False
        self._refused.clear()
        return True

    def _check_kind(self, name: str, form: Form) -> None:
        """Refuse a kind that the queries cannot take, if they could take what was known before."""
        asked = name, form.kind, form.scale
        if asked not in self._refused and self._refuses is not None:
            known = {each: has.field(each) for each, has in self.forms.items()}
            reason = self._refuses({**known, name: form.field(name)})
            if reason is not None and self._refuses(known) is None:
                self._refused[asked] = f"{name!r} is {form.kind}: {reason}"
            else:
                self._refused.clear()  # with more that is known, other kinds may be refused
        if asked in self._refused:
            raise MisfitError(self._refused[asked])

    # --- many rows at once ---

    def _quick(self, rows: list[Row]) -> pa.RecordBatch | None:
        """The rows as one batch, if all of them are as those before them were; else None."""
        columns = self.columns
        if columns is None or len(rows) < 2:
            return None
        own = [name for name in (columns.type, columns.time, columns.end, columns.eid) if name is not None]
        reads, type_name = self._reads, columns.type
        try:
            kept = [row if reads(row.get(type_name)) else {name: row.get(name) for name in own} for row in rows]
            names = dict.fromkeys(name for row in kept for name in row)
            arrays = {name: self._quick_column(name, [row.get(name) for row in kept], columns) for name in names}
        except (MisfitError, _NotQuickError, pa.ArrowException, OverflowError, ValueError, TypeError):
            return None
        usable = {name: array for name, array in arrays.items() if array is not None}
        if not set(own) <= usable.keys():
            return None
        if columns.end is not None and _goes_back(kept, columns.time, columns.end):
            return None
        return pa.RecordBatch.from_arrays(list(usable.values()), list(usable))

    def _quick_column(self, name: str, values: list[Any], columns: Columns) -> pa.Array | None:
        """A column of values that fit; None if it is left out."""
        found = set(map(type, values))
        if name in (columns.time, columns.end):
            return self._quick_times(values, found)
        if name == columns.type:
            _demand(found == {str})
            return pa.array(values, pa.string())
        if name == columns.eid and name not in self.forms:
            _demand(found == {self.eids})
            return pa.array(values, pa.int64() if self.eids is int else pa.string())
        _demand(isinstance(name, str))
        form = self.forms.get(name)
        if form is None:
            _demand(found == {type(None)} or (self.declared and name not in ("end", "eid")))
            return None
        if name == columns.eid:
            _demand(found == {self.eids})
        _demand(found - {type(None)} <= QUICK.get(form.kind, set()))
        if form.kind is Kind.INT and not form.is_large:
            whole = [value for value in values if value is not None]
            _demand(form.fixed or not whole or (max(whole) <= EXACT_FLOAT and min(whole) >= -EXACT_FLOAT))
        return pa.array(values, form.type)

    def _quick_times(self, values: list[Any], found: set[type]) -> pa.Array:
        if self.times == TICKS:
            _demand(found == {int} and min(values) > -TIME_LIMIT and max(values) < TIME_LIMIT)
            return pa.array(values, pa.int64())
        read = [_time(value, "time") for value in values] if found == {str} else []
        _demand(bool(read) and all(times == self.times for times, _ in read))
        return pa.array([value for _, value in read], TIME_TYPES[self.times])

    def _batch(self, rows: list[dict[str, Any]]) -> list[pa.RecordBatch]:
        """Rows that fit, as a batch; none if there are none."""
        if not rows:
            return []
        assert self.columns is not None
        columns, arrays = self.columns, {}
        for name in dict.fromkeys(name for row in rows for name in row):
            values = [row.get(name) for row in rows]
            if name in (columns.time, columns.end):
                arrays[name] = pa.array(values, TIME_TYPES[self.times])
            elif name in self.forms:
                form = self.forms[name]
                arrays[name] = pa.array([None if each is None else stored(form, each) for each in values], form.type)
            else:
                arrays[name] = pa.array(values)
        return [pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))]

    # --- saving and restoring ---

    def words(self) -> dict[str, Any]:
        """What has been settled, as plain values."""
        columns = self.columns
        return {
            "roles": None if columns is None else [columns.time, columns.end, columns.eid],
            "times": self.times,
            "beats": self.beats,
            "eids": None if self.eids is None else self.eids.__name__,
            "forms": {name: [str(f.kind), f.scale, f.whole, f.times] for name, f in self.forms.items() if not f.fixed},
        }

    def restore(self, words: Mapping[str, Any]) -> None:
        """Go on from what `words` gave."""
        if words["roles"] is not None:
            time, end, eid = (None if name is None else str(name) for name in words["roles"])
            self.columns = replace(self.given, time=time or self.given.time, end=end, eid=eid)
        self.times, self.beats = str(words["times"]), str(words.get("beats", ""))
        self.eids = {None: None, "int": int, "str": str}[words["eids"]]
        for name, (kind, scale, whole, times) in words["forms"].items():
            self.forms[name] = Form(Kind(kind), int(scale), int(whole), str(times))
        for times in (self.times, self.beats):
            if times and times not in TIME_TYPES:
                raise ValueError(f"times are written as {times!r}")


class _NotQuickError(Exception):
    """Rows must be looked at one by one."""


def _demand(holds: bool) -> None:
    if not holds:
        raise _NotQuickError


def _goes_back(rows: Sequence[Row], time: str, end: str) -> bool:
    """Whether a row ends before it begins, or that is not seen at once."""
    return any(type(row[end]) is str or row[end] < row[time] for row in rows)


def _type(value: Any) -> str:
    """The type of an event: a text, or a whole number, which stands for its text."""
    if type(value) is not str:
        value, reason = plain_value(value) if not isinstance(value, (dict, list, tuple)) else (value, None)
        if value is None:
            raise MisfitError(f"the type {reason}" if reason else "the type is null")
        if type(value) is int:
            return str(value)
    if type(value) is not str:
        raise MisfitError("the type is no text")
    if not is_encodable(value):
        raise MisfitError("the type is not valid Unicode")
    return value


def _time(value: Any, what: str) -> tuple[str, Any]:
    """How a time is written, and its value. Raises MisfitError."""
    value, reason = plain_value(value)
    if value is None:
        raise MisfitError(f"the {what} {reason}" if reason else f"the {what} is null")
    if type(value) is str:
        value = _read_time(value.strip(), what)
    if type(value) is int:
        if not -TIME_LIMIT < value < TIME_LIMIT:
            raise MisfitError(f"the {what} is out of range (its size must be below 2**61)")
        return TICKS, value
    form = after(Form(), value)
    if isinstance(form, str) or form.kind is not Kind.TIME:
        raise MisfitError(f"the {what} is neither a whole number nor a timestamp")
    return form.times, value


def _read_time(text: str, what: str) -> int | datetime:
    if WHOLE_NUMBER.fullmatch(text):
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise MisfitError(f"the {what} is neither a whole number nor an ISO timestamp") from None


def _other_times(times: str, before: str) -> str:
    """Why a time does not go with those before it."""
    if {times, before} == {LOCAL, ZONED}:
        have, others = ("no zone", "one") if times == LOCAL else ("a zone", "none")
        return f"the time has {have}, and those before have {others}: say it for all or none"
    return f"the time is {WORDS[times]} now and was {WORDS[before]} before"
