"""Composites: the matches of a query as events of the type that has its name, made by columns.

An interval that was derived is an event of its label, where the reading query asks for labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tocsin.encode.batch import PAYLOAD, Encoder
from tocsin.encode.eids import eids
from tocsin.encode.merge import take
from tocsin.encode.values import encode_column
from tocsin.engine.changes import ChangeBatch
from tocsin.errors import TocsinError
from tocsin.items import UNREAD, Codes, Items, Strings
from tocsin.plan.block import Plan
from tocsin.plan.derived_form import LABEL
from tocsin.plan.facts import types_of
from tocsin.plan.kinds import is_list
from tocsin.schema import EID, OWN, TYPE, Field, Kind


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
        count, encoder = len(changes), self.encoder
        start, end = changes.span
        names = changes.eids(0) if changes.plan.has_rows_of_its_own else changes.match_id  # which order equal times
        high, low, _ = eids(names)
        outputs = (
            output
            for output in self.source.outputs
            if not is_list(output.expr) and (self.wanted is None or output.name in self.wanted)
        )
        selected = {output.name: changes.selected(output) for output in outputs}
        rows = pa.RecordBatch.from_arrays(list(selected.values()), list(selected)) if selected else None
        columns = encoder.attributes(rows, count)
        if EID in columns:
            columns[EID] = encode_column(names, Field(EID, Kind.TEXT), encoder.strings)
        kind, types = self._types(changes)
        if TYPE in columns:
            columns[TYPE] = encode_column(kind, Field(TYPE, Kind.TEXT), encoder.strings)
        head = {"type": kind, "start": pa.array(start), "end": pa.array(end), "eid": names}
        found = Items(
            types=types,
            start=start,
            end=end,
            eid_high=high,
            eid_low=low,
            columns=columns,
            payload=encoder.shown(head, rows, count),
            kinds=(changes.op < 0).astype(np.int8) if (changes.op < 0).any() else None,  # WITHDRAWAL is 1
        )
        return take(found, found.types >= 0) if self.labels else found

    def _types(self, changes: ChangeBatch) -> tuple[pa.Array, Codes]:
        """The type of each event, as text and as code; UNREAD for a label that is not read."""
        count, name = len(changes), str(self.source.name)
        if not self.labels:
            return pa.repeat(name, count), np.full(count, self.encoder.type_code(name), np.int32)
        label = next(output for output in self.source.outputs if output.name == LABEL)
        kind = changes.selected(label)
        codes = {each: self.encoder.type_code(each) for each in self.labels}
        return kind, np.array([codes.get(each, UNREAD) for each in kind.to_pylist()], np.int32)


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
