"""Items cut and joined: what a graph of operators needs to hold rows back and to release them in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.row_bases import Base, JoinedRows, is_late, rows_at, stacked
from tocsin.encode.values import encode_column, nothing
from tocsin.items import NO_ROWS, NO_SOURCE, ROWS, Bools, Column, Ints, ItemKind, Items, Strings, is_sorted
from tocsin.schema import EID, Field, Kind


def take(items: Items, rows: Any) -> Items:
    """The given rows (indexes, or a mask of booleans)."""
    places = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    if isinstance(items, Rearranged) and is_late(items.base):
        return Rearranged(items, places)
    return Items(**_picked(items, places), payload=payload_at(items, places))


def payload_at(items: Items, places: Ints) -> pa.RecordBatch:
    """The payload of some rows, and of no others."""
    if isinstance(items, Rearranged):
        return rows_at(items.base, items.order[places])
    return items.payload.take(pa.array(places)) if items.payload.num_rows else items.payload


def replaced(items: Items, **changes: Any) -> Items:
    """Items of which something is other; rows in another order (Rearranged), or a single one, become plain Items."""
    if type(items) is not Items:
        if "payload" not in changes:  # it is made only where somebody asks for it
            changes["payload"] = items.payload
        return Items(**{**_picked(items, slice(None)), **changes})
    return replace(items, **changes)


def as_events(items: Items) -> Items:
    """Items that are all events, without saying so for each."""
    made = Items(**_picked(items, slice(None)), payload=items.payload)
    made.kinds = None
    return made


def sliced(items: Items, begin: int, count: int) -> Items:
    """Some rows that stand together, where they are."""
    rows = slice(begin, begin + count)
    if not begin and count == len(items):
        return items
    if isinstance(items, Rearranged):
        return Rearranged(items, rows)
    payload = items.payload.slice(begin, count) if items.payload.num_rows else items.payload
    return Items(**_picked(items, rows), payload=payload)


class Rearranged(Items):
    """Some rows of a batch (or of a table) in another order, whose payload stays where it is until someone looks."""

    __slots__ = ("_made", "base", "order")

    def __init__(self, items: Items, places: Ints | slice) -> None:
        for name, value in _picked(items, places).items():
            setattr(self, name, value)
        self.checked = items.checked
        self.base: Base
        self.order: Ints
        if isinstance(items, Rearranged):
            self.base, self.order = items.base, items.order[places]
        else:
            self.base, self.order = items.payload, np.arange(len(items))[places]
        self._made: pa.RecordBatch | None = None

    @classmethod
    def of(cls, items: Items, base: Base, order: Ints) -> Rearranged:
        """Items whose payload is what stands at some places of a batch, a table, or of rows that are not made yet."""
        made = cls.__new__(cls)
        for name, value in _picked(items, slice(None)).items():
            setattr(made, name, value)
        made.checked, made.base, made.order, made._made = items.checked, base, order, None
        return made

    @property
    def has_rows(self) -> bool:
        return bool(len(self.order))

    @property
    def payload(self) -> pa.RecordBatch:
        if self._made is None:
            self._made = rows_at(self.base, self.order)
        return self._made


def with_column(items: Items, name: str, column: Column) -> Items:
    """Items with one column more; nothing is copied."""
    made: Items
    if isinstance(items, Rearranged):
        made = Rearranged.of(items, items.base, items.order)
    else:
        made = Items(**_picked(items, slice(None)), payload=items.payload)
        made.checked = items.checked
    made.columns[name] = column
    return made


def _picked(items: Items, places: Ints | slice) -> dict[str, Any]:
    """Some rows of everything but the payload; where starts are ends, they stay so."""
    end = items.end[places]
    whole = {"eid_high": items.eid_high, "eid_low": items.eid_low, "kinds": items.kinds, "sources": items.sources}
    return {
        "types": items.types[places],
        "start": end if items.start is items.end else items.start[places],
        "end": end,
        "columns": {name: _taken(column, places) for name, column in items.columns.items()},
        **{name: None if array is None else array[places] for name, array in whole.items()},
    }


def _taken(column: Column, places: Ints | slice) -> Column:
    valid = None if column.valid is None else column.valid[places]
    return Column(column.kind, column.values[places], valid, column.scale)


def join(several: list[Items]) -> Items:
    """Batches of any kinds as one, one after the other. Columns that a batch lacks are null there."""
    several = [items for items in several if len(items)] or several[:1]
    if len(several) == 1:
        return several[0]
    late = any(_is_late(items) for items in several)
    if not late or not all(items.has_rows for items in several):
        several, late = _with_rows(several), False
    eids = all(items.eid_high is not None for items in several)
    names = dict.fromkeys(name for items in several for name in items.columns)
    end = np.concatenate([items.end for items in several])
    points = all(items.start is items.end for items in several)
    joined = Items(
        types=np.concatenate([items.types for items in several]),
        start=end if points else np.concatenate([items.start for items in several]),
        end=end,
        eid_high=np.concatenate([items.eid_high for items in several]) if eids else None,
        eid_low=np.concatenate([items.eid_low for items in several]) if eids else None,
        columns={name: _joined(name, several) for name in names},
        payload=NO_ROWS if late else stacked([items.payload for items in several]),
        kinds=_filled([items.kinds for items in several], several, ItemKind.EVENT, np.int8),
        sources=_filled([items.sources for items in several], several, NO_SOURCE, np.int32),
    )
    if not late:
        return joined
    pieces = JoinedRows.of([based_on(items) for items in several])
    return Rearranged.of(joined, pieces, np.arange(pieces.num_rows))


def based_on(items: Items) -> tuple[Base, Ints | None]:
    """Where the rows of some items stand."""
    return (items.base, items.order) if isinstance(items, Rearranged) else (items.payload, None)


def _is_late(items: Items) -> bool:
    return isinstance(items, Rearranged) and is_late(items.base)


def _with_rows(several: list[Items]) -> list[Items]:
    """Give items that are no events an empty row each, where they stand beside events."""
    events = next((items for items in several if items.payload.num_columns), None)
    if events is None or all(items.payload.num_columns for items in several):
        return several
    whole = []
    for items in several:
        if not items.payload.num_columns:
            count = len(items)
            eids = None if events.eid_high is None else np.zeros(count, np.int64)
            rows = events.payload.take(pa.nulls(count, pa.int64()))
            items = replaced(items, payload=rows, eid_high=eids, eid_low=eids)
        whole.append(items)
    return whole


def in_time(items: Items) -> Items:
    """The rows in order of time: of end, then of start."""
    order = _by_time(items, None)
    return items if is_sorted(order) else take(items, order)


def some_in_time(items: Items, rows: Bools) -> Items:
    """Return the rows of a mask in order of time; the payload stays in place until someone looks at it."""
    places = np.flatnonzero(rows)
    return Rearranged(items, places[_by_time(items, places)])


def _by_time(items: Items, places: Ints | None) -> Ints:
    """The order of the rows at some places (None: of all)."""
    end = items.end if places is None else items.end[places]
    if items.start is items.end:  # points
        return np.argsort(end, kind="stable")
    return np.lexsort((items.start if places is None else items.start[places], end))


def parted(held: list[Items], turn: int) -> tuple[list[Items], list[Items]]:
    """Of pieces in order of time: the rows that end before `turn`, as pieces that follow each other, and the others."""
    parts = [cut(items, turn) for items in held]
    return interleaved([leaving for leaving, _ in parts]), [staying for _, staying in parts if len(staying)]


def cut(items: Items, turn: int) -> tuple[Items, Items]:
    """Rows in order of time: those that end before `turn`, and the others."""
    count = int(np.searchsorted(items.end, turn))
    return sliced(items, 0, count), sliced(items, count, len(items) - count)


def interleaved(pieces: list[Items]) -> list[Items]:
    """JoinedRows in order of time as pieces that follow each other; only what overlaps is copied.

    Among equal times the order of arrival, which is that of the pieces, is kept only where it says something: an event
    and its withdrawal.
    """
    pieces = [piece for piece in pieces if len(piece)]
    if any(piece.kinds is not None for piece in pieces):
        return [in_time(join(pieces))]
    out: list[Items] = []
    for piece in sorted(pieces, key=lambda each: int(each.end[0])):
        overlap: list[Items] = []
        while out and out[-1].end[-1] >= piece.end[0]:
            before, after = cut(out.pop(), int(piece.end[0]))
            overlap.append(after)
            if len(before):
                out.append(before)
                break
        if overlap:
            last = max(int(each.end[-1]) for each in overlap)
            within, piece = cut(piece, last + 1)
            out.append(in_time(join([*overlap, within])))
        if len(piece):
            out.append(piece)
    return out


def _joined(name: str, several: list[Items]) -> Column:
    first = next(items.columns[name] for items in several if name in items.columns)
    lacking = Field(name, first.kind, first.scale)
    parts = [items.columns.get(name) or nothing(lacking, len(items)) for items in several]
    values: Any = np.concatenate([part.values for part in parts])
    if all(part.valid is None for part in parts):
        return Column(first.kind, values, None, first.scale)
    valid = [np.ones(len(part.values), np.bool_) if part.valid is None else part.valid for part in parts]
    return Column(first.kind, values, np.concatenate(valid), first.scale)


def _filled(arrays: list[Any], several: list[Items], default: int, dtype: Any) -> Any:
    """An optional array of all batches, with a default where a batch has none; None if no batch has it."""
    if all(array is None for array in arrays):
        return None
    whole = [np.full(len(i), default, dtype) if a is None else a for a, i in zip(arrays, several, strict=True)]
    return np.concatenate(whole)


def runs(items: Items) -> Iterator[tuple[bool, Items]]:
    """Stretches of a mixed batch, in order: (True, events and withdrawals) and (False, all other kinds)."""
    if items.kinds is None:
        yield True, items
        return
    rows = items.kinds <= ROWS
    edges = np.flatnonzero(rows[1:] != rows[:-1]) + 1
    for begin, stop in pairwise([0, *edges.tolist(), len(items)]):
        if begin < stop:
            yield bool(rows[begin]), sliced(items, begin, stop - begin)


def with_text_eids(items: Items, strings: Strings) -> Items:
    """Rows that stand beside matches have eids as matches do: texts."""
    rows = items.payload
    place = rows.schema.get_field_index(EID)
    if place >= 0 and not pa.types.is_string(rows.schema.types[place]):
        items = replaced(items, payload=rows.set_column(place, EID, rows.column(place).cast(pa.string())))
    if EID not in items.columns or items.columns[EID].kind is Kind.TEXT:
        return items
    texts = pa.array([], pa.string()) if place < 0 else items.payload.column(EID)  # rows without eids: there are none
    return replaced(items, columns={**items.columns, EID: encode_column(texts, Field(EID, Kind.TEXT), strings)})
