"""Changes: what an operator answers to a push, as columns of event numbers; made into rows only when someone looks.

A binding is identified by its events, so `match_id` hashes the query and the eids of the visible variables: the same
match has the same id in every run, order of arrival and engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.encode.content import FEWEST_SHARED, SHARED, Words, hex_texts, mixed, text_word
from tocsin.encode.gather import all_taken, words_at
from tocsin.encode.rehearsal import answer_loops_are_worth
from tocsin.encode.text_numbers import frozen
from tocsin.engine.debt import owed_by
from tocsin.engine.evaluate import Row, evaluate
from tocsin.engine.kinds import MATCH
from tocsin.engine.number_set import NumberSet, distinct
from tocsin.engine.payload import Rows, View
from tocsin.engine.tables import moments_marked
from tocsin.events import ANY, BEGINNING, END_OF_TIME, MASK64
from tocsin.functions import Function
from tocsin.items import Ints
from tocsin.plan.block import Output, Plan, Variable
from tocsin.plan.expr import Agg, Bound, Col, Op, Ref, Time
from tocsin.plan.kinds import is_list
from tocsin.schema import EID, Field, Kind

Ops = npt.NDArray[np.int8]
NOBODY: Ints = np.zeros(0, np.int64)


@dataclass(slots=True)
class Members:
    """The events of a repeated variable: those of change i are events[offsets[i]:offsets[i + 1]]."""

    offsets: Ints
    events: Ints


def arrow_type(kind: Kind, scale: int = 0) -> pa.DataType:
    """How a computed value is shown."""
    match kind:
        case Kind.INT:
            return pa.int64()
        case Kind.FLOAT:
            return pa.float64()
        case Kind.BOOL:
            return pa.bool_()
        case Kind.TIME:
            return pa.timestamp("us")
        case Kind.DECIMAL:
            return pa.decimal128(18, scale)
        case Kind.TEXT:
            return pa.string()
    return pa.null()


@dataclass
class ChangeBatch:
    """Signed answers of one query and one kind, in the order in which they became known.

    op        +1 an answer, -1 its retraction
    known_at  the time of the stream at which each became certain, or was given
    fixed     for each variable of the plan the event number in each change, -1 where unbound (or repeated)
    repeated  the members of repeated variables, by variable index
    kind      see `engine/kinds.py`
    known     for each type up to when its events were guaranteed to be complete: what an answer needs beyond that, it
              owes (`debt`); None: all of them are settled
    stage     the number of the query in its graph
    step      of kind "timeout": the step that did not come
    """

    plan: Plan
    op: Ops
    known_at: Ints
    fixed: list[Ints]
    repeated: dict[int, Members]
    payload: View
    functions: Mapping[str, Function]
    kind: str = MATCH
    known: Mapping[str, int] | None = None
    stage: int = 0
    step: str | None = None

    def __len__(self) -> int:
        return len(self.op)

    @property
    def visible(self) -> list[int]:
        return [index for index, variable in enumerate(self.plan.variables) if not variable.hidden]

    def pick(self, keep: Ints) -> ChangeBatch:
        """Some of the changes, in the given order."""
        repeated = {}
        for index, members in self.repeated.items():
            counts = np.diff(members.offsets)[keep]
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
            shift = np.repeat(members.offsets[keep] - offsets[:-1], counts)
            repeated[index] = Members(offsets, members.events[np.arange(len(shift)) + shift])
        fixed = [column[keep] for column in self.fixed]
        return replace(self, op=self.op[keep], known_at=self.known_at[keep], fixed=fixed, repeated=repeated)

    def between(self, begin: int, end: int) -> ChangeBatch:
        """The changes from one place to another, where they are."""
        mine = slice(begin, end)
        repeated = {}
        for index, members in self.repeated.items():
            first, last = members.offsets[begin], members.offsets[end]
            repeated[index] = Members(members.offsets[begin : end + 1] - first, members.events[first:last])
        fixed = [column[mine] for column in self.fixed]
        return replace(self, op=self.op[mine], known_at=self.known_at[mine], fixed=fixed, repeated=repeated)

    def renumbered(self, numbers: Ints) -> ChangeBatch:
        """Changes in which event i is called numbers[i]."""
        fixed = [_looked_up(numbers, column) for column in self.fixed]
        repeated = {
            index: Members(each.offsets, _looked_up(numbers, each.events)) for index, each in self.repeated.items()
        }
        return replace(self, fixed=fixed, repeated=repeated)

    @cached_property
    def rows(self) -> Rows:
        """The rows of all events that the changes mention."""
        mentioned = [*self.fixed, *(members.events for members in self.repeated.values())]
        found = NumberSet.of(mentioned)
        if found is None:
            return self.payload.rows(distinct(mentioned))
        rows = self.payload.rows(found.numbers)
        rows.known_set = found
        return rows

    def events_at(self, index: int) -> list[list[int]]:
        """For each change, the places of the events of a variable among `rows`."""
        if index in self.repeated:
            at, offsets = self._at(index).tolist(), self.repeated[index].offsets.tolist()
            return [at[low:high] for low, high in pairwise(offsets)]
        return [[place] if place >= 0 else [] for place in self._at(index).tolist()]

    # --- identity -------------------------------------------------------------------------------------------------

    @cached_property
    def identity(self) -> tuple[Words, Words]:
        """128 bits per change: the query without SELECT, and for each variable the eid and the times of its event."""
        lanes = [np.full(len(self), text_word(named_by(self) + chr(lane + 1)), np.uint64) for lane in (0, 1)]
        for index in self.visible:
            word = text_word(self.plan.variables[index].name)
            said = [self._said_by_events(np.uint64((word + lane) & MASK64)) for lane in (0, 1)]
            lanes = self._with_variable(index, said, lanes)
        return lanes[0], lanes[1]

    def _said_by_events(self, seed: np.uint64) -> Words:
        """What each event that changes mention contributes to an id."""
        high, low = (each.view(np.uint64) for each in self.rows.names)
        start, end = self.rows.start.view(np.uint64), self.rows.end.view(np.uint64)
        if answer_loops_are_worth(len(high)):
            from tocsin.encode import answer_loops as loops

            out = np.empty(len(high), np.uint64)
            loops.event_words(*map(frozen, (high, low, start, end)), self.plan.has_timed_ids, seed, out)
            return out
        words = mixed(mixed(high + seed) + low)
        return mixed(words + mixed(start * np.uint64(31) + end)) if self.plan.has_timed_ids else words

    def _with_variable(self, index: int, said: list[Words], lanes: list[Words]) -> list[Words]:
        """Both lanes of the ids with what a variable contributes; `said`: what each event does."""
        if index not in self.repeated and answer_loops_are_worth(len(self)):
            from tocsin.encode import answer_loops as loops

            loops.add_events(frozen(self._at(index)), *map(frozen, said), *lanes)
            return lanes
        return [mixed(lane * np.uint64(31) + self._words(index, mine)) for lane, mine in zip(lanes, said, strict=True)]

    def _words(self, index: int, said: Words) -> Words:
        """What a variable contributes to each change."""
        at = self._at(index)
        if index not in self.repeated:
            return np.where(at >= 0, said[at], np.uint64(0)) if len(said) else np.zeros(len(at), np.uint64)
        offsets = self.repeated[index].offsets
        sums: Words = np.zeros(len(at) + 1, np.uint64)
        if len(at):
            np.cumsum(said[at], dtype=np.uint64, out=sums[1:])
        total: Words = sums[offsets[1:]] - sums[offsets[:-1]] + np.diff(offsets).astype(np.uint64)
        return total

    def _at(self, index: int) -> Ints:
        """Where the events of a variable stand among `rows`, -1 where it has none; of a repeated one, all members."""
        found = self._places.get(index)
        if found is None:
            numbers = self.repeated[index].events if index in self.repeated else self.fixed[index]
            found = self._places[index] = self.rows.at(numbers)
        return found

    @cached_property
    def _places(self) -> dict[int, Ints]:
        return {}

    @cached_property
    def match_id(self) -> pa.Array:
        """32 hexadecimal digits; of each word the lowest byte first."""
        return hex_texts([lane.byteswap() for lane in self.identity])

    # --- time -----------------------------------------------------------------------------------------------------

    @cached_property
    def span(self) -> tuple[Ints, Ints]:
        """First start and last end over the visible events of each change."""
        start = np.full(len(self), np.iinfo(np.int64).max)
        end = np.full(len(self), np.iinfo(np.int64).min)
        if not len(self.rows.numbers):
            return start, end
        for index in self.visible:
            at = self._at(index)
            if index in self.repeated:
                owner = np.repeat(np.arange(len(self)), np.diff(self.repeated[index].offsets))
                np.minimum.at(start, owner, self.rows.start[at])
                np.maximum.at(end, owner, self.rows.end[at])
            elif answer_loops_are_worth(len(self)):
                from tocsin.encode import answer_loops as loops

                loops.widen(frozen(at), frozen(self.rows.start), frozen(self.rows.end), start, end)
            else:
                there = at >= 0
                if there.all():  # much quicker than to choose
                    np.minimum(start, self.rows.start[at], out=start)
                    np.maximum(end, self.rows.end[at], out=end)
                else:
                    np.minimum(start, self.rows.start[at], out=start, where=there)
                    np.maximum(end, self.rows.end[at], out=end, where=there)
        return start, end

    @cached_property
    def debt(self) -> dict[str, Ints]:
        """What each answer still owes: by type, the time up to which its events must be guaranteed to be complete.

        BEGINNING where an answer owes nothing of a type. An answer may be settled sooner than its debt says.
        """
        return {} if self.known is None or not len(self) else owed_by(self, self.known)

    # --- rows -----------------------------------------------------------------------------------------------------

    def bindings(self) -> list[tuple[int, tuple[tuple[str, tuple[Any, ...]], ...]]]:
        """(op, ((variable, eids), ...)) for each change, the visible bound variables in the order of the text."""
        columns = []
        for index in self.visible:
            name = self.plan.variables[index].name
            numbers = self.repeated[index].events if index in self.repeated else self.fixed[index]
            columns.append((index, name, self._eids(numbers).to_pylist()))
        rows = []
        for i in range(len(self)):
            bound = []
            for index, name, eids in columns:
                if index in self.repeated:
                    first, last = self.repeated[index].offsets[i], self.repeated[index].offsets[i + 1]
                    mine = tuple(eids[first:last])
                else:
                    mine = (eids[i],) if self.fixed[index][i] >= 0 else ()
                if mine:
                    bound.append((name, mine))
            rows.append((int(self.op[i]), tuple(bound)))
        return rows

    def eids(self, index: int) -> pa.Array:
        """The eids of the events of a variable that is not repeated."""
        return self._eids(self.fixed[index])

    def _eids(self, numbers: Ints) -> pa.Array:
        """The eids of events, null where there is none."""
        return _picked(self.rows.eids, self.rows.at(numbers))

    def table(self, names: Collection[str] | None = None) -> pa.Table:
        """One row per change: query, kind, match_id, op, start, end, settled_at, then variables or SELECT columns.

        `names`: only these of its columns; the others are not made.
        """
        timed, moments = _time_type(self.plan), {output.name for output in self.plan.outputs if output.moment}
        columns: dict[str, Callable[[], pa.Array]] = {
            "query": lambda: alike(self.plan.title, len(self)),
            "kind": lambda: alike(self.kind, len(self)),
            "match_id": lambda: self.match_id,
            "op": lambda: pa.array(self.op, pa.int8()),
            "start": lambda: pa.array(self.span[0] if len(self) else NOBODY, pa.int64()).cast(timed),
            "end": lambda: pa.array(self.span[1] if len(self) else NOBODY, pa.int64()).cast(timed),
            "settled_at": lambda: pa.array(self.known_at, pa.int64()).cast(timed),
        }
        if self.plan.has_timeouts:
            columns["step"] = lambda: alike(self.step, len(self))
        if self.plan.outputs:
            columns |= {output.name: partial(self.selected, output) for output in self.plan.outputs}
        else:
            columns |= {self.plan.variables[index].name: partial(self._variable, index) for index in self.visible}
        made = pa.table({name: make() for name, make in columns.items() if names is None or name in names})
        return moments_marked(made, moments) if moments else made

    def _variable(self, index: int) -> pa.Array:
        variable = self.plan.variables[index]
        if index in self.repeated:
            members = self.repeated[index]
            structs = self._structs(variable, self._at(index))
            return pa.ListArray.from_arrays(pa.array(members.offsets, pa.int32()), structs)
        return self._structs(variable, self._at(index))

    def _structs(self, variable: Variable, at: Ints) -> pa.Array:
        """Events at some places of `rows` as structs: eid, type, start, end, then the attributes of their types."""
        absent = at < 0
        names = ["eid", "type", "start", "end", *(field.name for field in variable.fields)]
        if absent.all():
            timed = _time_type(self.plan)
            kinds = [pa.string(), pa.string(), timed, timed, *(_field_type(field) for field in variable.fields)]
            nothing = [pa.nulls(len(at), kind) for kind in kinds]
            return pa.StructArray.from_arrays(nothing, names, mask=pa.array(absent))
        if not absent.any() and (type := self._one_type(variable, at)) is not None:
            known = self.rows.without_types
            columns = all_taken([self._column(known, name, variable) for name in names[2:]], at)
            return pa.StructArray.from_arrays([self.rows.eids_at(at), alike(type, len(at)), *columns], names)
        known = self.rows.shown
        columns = [self._column(known, name, variable) for name in names]
        if not absent.any():
            return pa.StructArray.from_arrays(all_taken(columns, at), names)
        structs = pa.StructArray.from_arrays(columns, names).take(pa.array(np.maximum(at, 0)))
        return pa.StructArray.from_arrays(structs.flatten(), names, mask=pa.array(absent))

    def _column(self, known: Mapping[str, pa.Array], name: str, variable: Variable) -> pa.Array:
        """A column of `rows`; nulls if their table lacks an attribute of the variable."""
        if name in known:
            return known[name]
        return _nulls(next(field for field in variable.fields if field.name == name), len(self.rows.numbers))

    def _one_type(self, variable: Variable, at: Ints) -> str | None:
        """The type that all events of a variable show, if it can have but one."""
        if len(variable.types) != 1 or variable.types[0] == ANY:
            return None
        shown = self.rows.type_shown(int(at[0]))
        one = variable.types[0]
        return one if pa.types.is_string(shown.type) and shown.as_py() == one else None

    def selected(self, output: Output) -> pa.Array:
        """A SELECT column; a plain attribute is taken as it is, everything else is evaluated row by row."""
        expr = output.expr
        if isinstance(expr, Col) and expr.attr == EID and expr.leaf not in self.repeated and len(self.rows.numbers):
            return _picked(self.rows.eids, self._at(expr.leaf))
        if isinstance(expr, Col) and len(self) and expr.attr in self.rows.names_of_columns:
            known = {field.name for field in self.plan.variables[expr.leaf].fields}
            if expr.attr in known and expr.leaf not in self.repeated:
                return _picked(self.rows.column(expr.attr), self._at(expr.leaf))
        time = expr.args[0] if output.moment and isinstance(expr, Op) else expr  # see points_in_time.as_moment
        if isinstance(time, Time) and time.leaf not in self.repeated and len(self.rows.numbers):
            return self._moments(time).cast(column_type(expr))
        return pa.array(self.values(expr), column_type(expr))

    def _moments(self, time: Time) -> pa.Array:
        """When the event of a variable starts or ends; null where there is none, and where nobody knows."""
        at = self._at(time.leaf)
        ticks = words_at(self.rows.start if time.which == "start" else self.rows.end, np.maximum(at, 0))
        unknown = (at < 0) | (ticks >= END_OF_TIME)
        return pa.array(ticks, pa.int64(), mask=unknown if unknown.any() else None)

    def values(self, expr: Bound) -> list[Any]:
        """The value of an expression for each change; leaf numbers in it are indexes of variables."""
        row = _ChangeRow(self)
        values = []
        for row.at in range(len(self)):
            value = evaluate(expr, row, self.functions)
            if expr.kind is Kind.DECIMAL and value is not None:
                value = [_scaled(each, expr) for each in value] if is_list(expr) else _scaled(value, expr)
            values.append(value)
        return values


def column_type(expr: Bound) -> pa.DataType:
    """The Arrow type of a SELECT column."""
    own = arrow_type(expr.kind, expr.scale)
    return pa.list_(own) if is_list(expr) else own


def _scaled(value: int | None, expr: Bound) -> Decimal | None:
    return None if value is None else Decimal(value).scaleb(-expr.scale)


@dataclass(slots=True)
class Changes:
    """All that an operator answers to one push.

    frontier  no later change is of a match that ends at or before this
    late      places of the pushed items that came too late, and were left out
    """

    batches: list[ChangeBatch] = field(default_factory=list)
    frontier: int = BEGINNING
    late: Sequence[int] = ()

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def __iter__(self) -> Iterator[ChangeBatch]:
        return iter(self.batches)

    def bindings(self) -> list[tuple[int, tuple[tuple[str, tuple[Any, ...]], ...]]]:
        """(op, ((variable, eids), ...)) for each change, see `ChangeBatch.bindings`."""
        return [row for batch in self.batches for row in batch.bindings()]

    def add(self, more: Changes) -> None:
        """Append what was answered after this."""
        self.batches += more.batches
        self.frontier = more.frontier


def _looked_up(table: Ints, numbers: Ints) -> Ints:
    """What a table has for each number; -1 for -1."""
    if not answer_loops_are_worth(len(numbers)):
        return np.where(numbers >= 0, table[numbers], -1) if len(table) else np.full(len(numbers), -1)
    from tocsin.encode import answer_loops as loops

    out = np.empty(len(numbers), np.int64)
    loops.pick(frozen(table), frozen(numbers), out)
    return out


def named_by(changes: ChangeBatch) -> str:
    """What the ids of changes begin with: the query, and the step that did not come."""
    return changes.plan.fingerprint + ("" if changes.step is None else f" {changes.step}")


def one_batch(pieces: Sequence[ChangeBatch]) -> ChangeBatch:
    """Changes of one query and kind, one after the other; event numbers mean the same in all of them."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    fixed = [np.concatenate([piece.fixed[index] for piece in pieces]) for index in range(len(first.fixed))]
    repeated = {}
    for index in first.repeated:
        counts = np.concatenate([np.diff(piece.repeated[index].offsets) for piece in pieces])
        events = np.concatenate([piece.repeated[index].events for piece in pieces])
        repeated[index] = Members(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), events)
    op = np.concatenate([piece.op for piece in pieces])
    known = np.concatenate([piece.known_at for piece in pieces])
    return ChangeBatch(
        first.plan, op, known, fixed, repeated, first.payload, first.functions, first.kind, step=first.step
    )


QUIET = Changes()  # nothing has changed; shared, so nobody may write to it


def no_changes(plan: Plan, functions: Mapping[str, Function]) -> ChangeBatch:
    """No changes; shared, so nobody may write to it."""
    empty = np.zeros(0, np.int64)
    members = Members(np.zeros(1, np.int64), empty)
    repeated = {index: members for index, variable in enumerate(plan.variables) if variable.repeated}
    fixed = [empty for _ in plan.variables]
    return ChangeBatch(plan, empty.astype(np.int8), empty, fixed, repeated, View([]), functions)


def _time_type(plan: Plan) -> pa.DataType:
    return pa.timestamp("us") if plan.schema.unit == "us" else pa.int64()


def _picked(column: pa.Array, at: Ints) -> pa.Array:
    """The values at some places, null where a place is -1."""
    if not len(at) or at.min() >= 0:
        return all_taken([column], at)[0]
    return column.take(pa.array(np.maximum(at, 0), mask=at < 0))


def alike(text: str | None, count: int) -> pa.Array:
    """A column that says the same in every row; pieces of tables may share one."""
    return _shared(text).slice(0, count) if FEWEST_SHARED <= count <= SHARED else _repeated(text, count)


@lru_cache(maxsize=8)
def _shared(text: str | None) -> pa.Array:
    return _repeated(text, SHARED)


def _repeated(text: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _nulls(field: Field, count: int) -> pa.Array:
    return pa.nulls(count, _field_type(field))


def _field_type(field: Field) -> pa.DataType:
    return arrow_type(field.kind, field.scale)


class _ChangeRow(Row):
    """One change, seen by the evaluator: leaf numbers are indexes of variables."""

    def __init__(self, changes: ChangeBatch) -> None:
        self.changes, self.at = changes, 0
        self._columns: dict[tuple[int, str], list[Any]] = {}

    def values(self, col: Col) -> list[Any]:
        """The values of an attribute for all events of a variable."""
        index, attr = col.leaf, col.attr
        known = self._columns.get((index, attr))
        if known is None:
            changes, variable = self.changes, self.changes.plan.variables[index]
            struct = changes._structs(variable, changes._at(index))
            names = [field.name for field in struct.type]
            column = struct.flatten()[names.index(attr)] if attr in names else pa.nulls(len(struct))
            column = _plain(column)
            if attr == EID and col.kind is Kind.TEXT:  # numbers, if nobody knew their kind
                column = column.cast(pa.string())
            known = self._columns[index, attr] = [_inner(value, col.scale) for value in column.to_pylist()]
        return known

    def column(self, col: Col) -> Any:
        return self.values(col)[self.at]

    def time(self, time: Time) -> int | None:
        changes = self.changes
        if time.leaf in changes.repeated:
            members = changes.repeated[time.leaf]
            numbers = members.events[members.offsets[self.at] : members.offsets[self.at + 1]]
        else:
            numbers = changes.fixed[time.leaf][self.at : self.at + 1]
        numbers = numbers[numbers >= 0]
        if not len(numbers):
            return None
        at = changes.rows.at(numbers)
        found = int(changes.rows.start[at].min() if time.which == "start" else changes.rows.end[at].max())
        return None if found >= END_OF_TIME else found  # of an open interval

    def event(self, ref: Ref) -> int | None:
        number = int(self.changes.fixed[ref.leaf][self.at])
        return None if number < 0 else number

    def members(self, agg: Agg) -> list[Any]:
        members = self.changes.repeated[agg.leaf]
        first, last = int(members.offsets[self.at]), int(members.offsets[self.at + 1])
        if agg.arg is None:
            return [True] * (last - first)
        row = _ChangedMember(self, agg.leaf)
        values = []
        for row.at in range(first, last):
            values.append(evaluate(agg.arg, row, self.changes.functions))
        return values


class _ChangedMember(Row):
    """One member of a repetition inside an aggregate."""

    def __init__(self, whole: _ChangeRow, index: int) -> None:
        self.whole, self.index, self.at = whole, index, 0

    def column(self, col: Col) -> Any:
        return self.whole.values(col)[self.at]

    def event(self, ref: Ref) -> int:  # noqa: ARG002
        return int(self.whole.changes.repeated[self.index].events[self.at])

    def time(self, time: Time) -> int:
        changes = self.whole.changes
        number = changes.repeated[self.index].events[self.at : self.at + 1]
        at = changes.rows.at(number)
        return int((changes.rows.start if time.which == "start" else changes.rows.end)[at][0])


def _plain(column: pa.Array) -> pa.Array:
    """Timestamps and dates as microseconds, dictionaries opened."""
    if pa.types.is_dictionary(column.type):
        return _plain(column.cast(column.type.value_type))
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return column.cast(pa.timestamp("us"), safe=False).view(pa.int64())
    return column


def _inner(value: Any, scale: int) -> Any:
    return int(value.scaleb(scale)) if isinstance(value, Decimal) else value
