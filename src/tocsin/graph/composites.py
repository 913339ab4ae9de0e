"""Composites: the matches of a query as events of the type that has its name, made by columns.

An interval that was derived is an event of its label, where the reading query asks for labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.encode.batch import PAYLOAD, Encoder
from tocsin.encode.eids import eids
from tocsin.encode.gather import taken
from tocsin.encode.merge import Rearranged, take
from tocsin.encode.row import PLAIN
from tocsin.encode.values import encode_column, nothing
from tocsin.engine.changes import ChangeBatch, column_type
from tocsin.engine.match_dicts import as_values, can_be_dicts
from tocsin.errors import TocsinError
from tocsin.events import eid_number
from tocsin.items import NO_ROWS, NO_TEXT, UNREAD, Codes, Column, Ints, Items, Strings
from tocsin.plan.block import Output, Plan
from tocsin.plan.derived_form import LABEL
from tocsin.plan.expr import Col
from tocsin.plan.facts import types_of
from tocsin.plan.kinds import is_list
from tocsin.schema import EID, OWN, TYPE, Field, Kind

Values: TypeAlias = pa.Array | list[Any]  # a column: as Arrow has it, or as values of Python


@dataclass(frozen=True, slots=True)
class Composites:
    """Turns the answers of `source` into events for a query of the same graph; a retraction withdraws the event.

    encoder  that of the reading query: it gives codes to the type and to texts, and knows what is read
    labels   the labels that it reads; none: it reads matches by the name of their query
    """

    source: Plan
    encoder: Encoder
    wanted: frozenset[str] | None = None  # the columns that are carried along; None: all, as results show them
    labels: frozenset[str] = frozenset()

    @staticmethod
    def of(source: Plan, reader: Plan, types: tuple[str, ...], strings: Strings, wanted: tuple[str, ...]) -> Composites:
        """Check that what `source` selects can stand beside the columns that every event has."""
        if clash := {output.name for output in source.outputs} & set(OWN):
            raise TocsinError(
                f"query {source.name!r} selects a column {min(clash)!r}, which every event has already",
                hint=f"give it another name: SELECT ... AS my_{min(clash)}",
            )
        carried = None  # a statement shows no events of others, so it gets what it reads of them
        if reader.staged is not None:
            carried = frozenset(dict(reader.staged.reads).get(str(source.name), ()))
        labels = frozenset(types_of(reader)) & frozenset(source.emits[1:])
        return Composites(source, Encoder(reader.schema, types, strings, PAYLOAD, wanted), carried, labels)

    def items(self, changes: ChangeBatch) -> Items:
        """The events of a batch of answers."""
        found = self._of_few(changes) if self._are_plain(changes) else self._of_many(changes)
        return take(found, found.types >= 0) if self.labels else found

    @property
    def _shown(self) -> list[Output]:
        """What the source selects, as far as it is carried along."""
        return [
            output
            for output in self.source.outputs
            if not is_list(output.expr) and (self.wanted is None or output.name in self.wanted)
        ]

    # --- many answers: columns of Arrow ---

    def _of_many(self, changes: ChangeBatch) -> Items:
        encoder = self.encoder
        start, end = changes.span
        names = changes.eids(0) if changes.plan.has_rows_of_its_own else changes.match_id  # which order equal times
        high, low, _ = eids(names)
        kind, types = self._types(changes)
        selected: dict[str, Values] = {output.name: changes.selected(output) for output in self._shown}
        columns = {
            name: self._column(selected.get(name), field, len(changes)) for name, field in encoder.wanted.items()
        }
        if EID in columns:
            columns[EID] = encode_column(names, Field(EID, Kind.TEXT), encoder.strings)
        if TYPE in columns:
            columns[TYPE] = encode_column(kind, Field(TYPE, Kind.TEXT), encoder.strings)
        return self._items(changes, types, high, low, columns, CompositeRows(self, start, end, names, selected, kind))

    def _column(self, values: Values | None, field: Field, count: int) -> Column:
        if values is None or field.kind is Kind.NULL:
            return nothing(field, count)
        return self.encoder.encoded(values, field)

    def _types(self, changes: ChangeBatch) -> tuple[pa.Array, Codes]:
        """The type of each event, as text and as code; UNREAD for a label that is not read."""
        count, name = len(changes), str(self.source.name)
        if not self.labels:
            return pa.repeat(name, count), np.full(count, self.encoder.type_code(name), np.int32)
        label = next(output for output in self.source.outputs if output.name == LABEL)
        kind = changes.selected(label)
        codes = {each: self.encoder.type_code(each) for each in self.labels}
        return kind, np.array([codes.get(each, UNREAD) for each in kind.to_pylist()], np.int32)

    # --- few answers of single events: values as they came ---

    def _are_plain(self, changes: ChangeBatch) -> bool:
        own = changes.plan.has_rows_of_its_own or self.labels
        return not own and can_be_dicts(changes, None) and all(_is_attribute(each) for each in self._shown)

    def _of_few(self, changes: ChangeBatch) -> Items:
        encoder, strings, count = self.encoder, self.encoder.strings, len(changes)
        name, outputs = str(self.source.name), self._shown
        names, times, values = as_values(changes, outputs)
        selected: dict[str, Values] = {output.name: column for output, column in zip(outputs, values, strict=True)}
        columns = {name: _plain(selected.get(name), field, count, strings) for name, field in encoder.wanted.items()}
        if EID in columns:
            columns[EID] = _plain(names, Field(EID, Kind.TEXT), count, strings)
        if TYPE in columns:
            columns[TYPE] = _plain([name] * count, Field(TYPE, Kind.TEXT), count, strings)
        high, low = np.array([eid_number(each) for each in names], np.int64).T.copy()
        start, end = np.array(times, np.int64).T.copy()
        types = np.full(count, encoder.type_code(name), np.int32)
        return self._items(changes, types, high, low, columns, CompositeRows(self, start, end, names, selected))

    def _items(
        self, changes: ChangeBatch, types: Codes, high: Ints, low: Ints, columns: dict[str, Column], rows: CompositeRows
    ) -> Items:
        kinds = (changes.op < 0).astype(np.int8) if (changes.op < 0).any() else None  # WITHDRAWAL is 1
        items = Items(types, rows.start, rows.end, high, low, columns, NO_ROWS, kinds)
        return Rearranged.of(items, rows, np.arange(len(types)))


class CompositeRows:
    """Matches as rows: the columns that they were found as. A batch is made of those that a result shows.

    kind   the type of each, where that is not the name of the query
    """

    __slots__ = ("columns", "end", "kind", "made_by", "names", "start")

    def __init__(
        self, made_by: Composites, start: Ints, end: Ints, names: Values, columns: dict[str, Values],
        kind: pa.Array | None = None,
    ) -> None:  # fmt: skip
        self.made_by, self.start, self.end = made_by, start, end
        self.names, self.columns, self.kind = names, columns, kind

    @property
    def num_rows(self) -> int:
        return len(self.end)

    @property
    def nbytes(self) -> int:
        own = self.start.nbytes + self.end.nbytes
        return own + sum(
            VALUE * len(each) if isinstance(each, list) else int(each.nbytes)
            for each in (self.names, *self.columns.values())
        )

    def at(self, places: Ints) -> pa.RecordBatch:
        source, encoder = self.made_by.source, self.made_by.encoder
        kind = pa.repeat(str(source.name), len(places)) if self.kind is None else taken(self.kind, places)
        start, end = pa.array(self.start[places]), pa.array(self.end[places])
        head = {"type": kind, "start": start, "end": end, "eid": _picked(self.names, places, pa.string())}
        if not self.columns:
            return encoder.shown(head, None, len(places))
        types = {output.name: column_type(output.expr) for output in source.outputs}
        columns = [_picked(values, places, types[name]) for name, values in self.columns.items()]
        rows = pa.RecordBatch.from_arrays(columns, list(self.columns))
        return encoder.shown(head, rows, len(places))

    def some(self, places: Ints) -> CompositeRows:
        names, *columns = (_some(each, places) for each in (self.names, *self.columns.values()))
        kind = None if self.kind is None else taken(self.kind, places)
        known = dict(zip(self.columns, columns, strict=True))
        return CompositeRows(self.made_by, self.start[places], self.end[places], names, known, kind)

    def with_more(self, others: Sequence[CompositeRows]) -> CompositeRows | None:
        several = [self, *others]
        if any(each.made_by is not self.made_by for each in others):
            return None
        columns = {name: _joined([each.columns[name] for each in several]) for name in self.columns}
        names = _joined([each.names for each in several])
        kind = None if self.kind is None else _joined([each.kind for each in several])
        if names is None or (kind is None and self.kind is not None) or any(each is None for each in columns.values()):
            return None
        start, end = (np.concatenate([getattr(each, which) for each in several]) for which in ("start", "end"))
        return CompositeRows(self.made_by, start, end, names, columns, kind)


VALUE = 60  # bytes of a value of Python, about


def _is_attribute(output: Output) -> bool:
    """Whether a column of a composite is a plain attribute of one event."""
    return isinstance(output.expr, Col) and output.expr.attr != EID and output.expr.kind in PLAIN


def _plain(values: Any, field: Field, count: int, strings: Strings) -> Column:
    """Values of Python as kernels read them."""
    if values is None or field.kind not in PLAIN:
        return nothing(field, count)
    is_text = field.kind is Kind.TEXT
    absent = NO_TEXT if is_text else 0
    words = [absent if value is None else strings.code(value) if is_text else value for value in values]
    valid = None if None not in values else np.array([value is not None for value in values])
    made: Any = np.array(words, np.float64 if field.kind is Kind.FLOAT else np.int64)
    return Column(field.kind, made, valid)


def _some(values: Values, places: Ints) -> Values:
    return [values[at] for at in places.tolist()] if isinstance(values, list) else taken(values, places)


def _picked(values: Values, places: Ints, type: pa.DataType) -> pa.Array:
    some = _some(values, places)
    return pa.array(some, type) if isinstance(some, list) else some


def _joined(several: Sequence[Any]) -> Any:
    """Columns one behind the other; None: they are not of one sort."""
    if all(isinstance(each, list) for each in several):
        return [value for each in several for value in each]
    if any(isinstance(each, list) or each.type != several[0].type for each in several):
        return None
    return None if pa.types.is_dictionary(several[0].type) else pa.concat_arrays(several)


def check_kinds(reader: Plan, source: Plan, common: Mapping[str, Field], reads: tuple[str, ...]) -> None:
    """Refuse an attribute that is of one kind in the events and of another in the matches that stand beside them."""
    name = str(source.name)
    fields = (reader.schema.types.get(type, {}) for type in source.emits if type in types_of(reader))
    for attr, own in (each for several in fields for each in several.items()):
        other = common.get(attr)
        if other is not None and attr in reads and (other.kind, other.scale) != (own.kind, own.scale):
            raise TocsinError(
                f"{attr!r} is {own.kind} in query {name!r} and {other.kind} in the events",
                hint=f"give the column another name: SELECT ... AS {name.lower()}_{attr}",
            )
