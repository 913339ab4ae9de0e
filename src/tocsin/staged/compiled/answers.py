"""Rows of output as columns: in order within their stages, with the eids that the machine in plain Python gives."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.changes import arrow_type
from tocsin.items import Ints, Strings
from tocsin.schema import Kind
from tocsin.staged.compiled.layout import WordLayout


def in_order(rows: Ints, layout: WordLayout, kinds: list[Kind], strings: Strings) -> Ints:
    """Rows in order of stages, starts and values, with the place of each in its stage and partition.

    Those that have no place yet stand partition by partition.
    """
    rough = np.flatnonzero(rows[:, 3] < 0)
    if len(rough):
        rows[rough] = _sorted(rows[rough], layout, kinds, strings)
    return rows


def _sorted(rows: Ints, layout: WordLayout, kinds: list[Kind], strings: Strings) -> Ints:
    head, values = layout.head, []
    for at, kind in enumerate(kinds):
        column, null = rows[:, head + at], rows[:, 2] >> at & 1
        if kind is Kind.FLOAT:
            column = column.copy().view(np.float64)
        elif kind is Kind.TEXT:
            column = _ranks(column, null, strings)
        values += [1 - null, np.where(null == 1, 0, column)]
    keys = [*reversed(values), rows[:, 1]]  # what counts most stands last
    parts = np.ones(len(rows), np.int64)  # rows of one stage and partition stand together as they come
    parts[1:] = (rows[1:, 0] != rows[:-1, 0]) | (rows[1:, 4:head] != rows[:-1, 4:head]).any(axis=1)
    first = np.flatnonzero(parts)
    group = np.cumsum(parts) - 1
    order = np.lexsort([*keys, group])
    rows = rows[order]
    rows[:, 3] = np.arange(len(rows)) - first[group]
    keys = [key[order] for key in keys]
    found: Ints = rows[np.lexsort([*keys, rows[:, 0]])]
    return found


def _ranks(codes: Ints, null: Ints, strings: Strings) -> Ints:
    """Numbers that are in the order of texts."""
    known, back = np.unique(np.where(null == 1, -1, codes), return_inverse=True)
    texts = [strings.text(int(code)) or "" for code in known]
    rank = np.empty(len(known), np.int64)
    rank[sorted(range(len(known)), key=texts.__getitem__)] = np.arange(len(known))
    found: Ints = rank[back]
    return found


def eids(rows: Ints, name: str, kinds: list[Kind], strings: Strings) -> pa.Array:
    """What names complex events; `kinds` are those of the keys."""
    places = pc.utf8_lpad(pa.array(rows[:, 3]).cast(pa.string()), 8, "0")
    ends = pa.array(rows[:, 0]).cast(pa.string())
    parts: list[Any] = [places, "@", ends, f":{name}"]
    for at, kind in enumerate(kinds):
        words = rows[:, 4 + at]
        parts += [", " if at else ":[", _key_texts(words, kind, strings)]
    return pc.binary_join_element_wise(*parts, *(["]"] if kinds else []), "")


def _key_texts(words: Ints, kind: Kind, strings: Strings) -> pa.Array:
    if kind in (Kind.INT, Kind.TIME):
        return pa.array(words).cast(pa.string())
    known, back = np.unique(words, return_inverse=True)
    texts = [json.dumps(_plain(int(word), kind, strings)) for word in known]
    return pa.array(texts, pa.string()).take(pa.array(back))


def _plain(word: int, kind: Kind, strings: Strings) -> Any:
    if kind is Kind.TEXT:
        return strings.text(word)
    if kind is Kind.BOOL:
        return bool(word)
    value = float(np.int64(word).view(np.float64))
    return int(value) if value.is_integer() else value


def column(rows: Ints, layout: WordLayout, at: int, kind: Kind, strings: Strings) -> pa.Array:
    """A column of Select."""
    words, null = np.ascontiguousarray(rows[:, layout.head + at]), (rows[:, 2] >> at & 1).astype(np.bool_)
    mask = null if null.any() else None
    match kind:
        case Kind.FLOAT:
            return pa.array(words.view(np.float64), mask=mask)
        case Kind.BOOL:
            return pa.array(words.astype(np.bool_), mask=mask)
        case Kind.TEXT:
            known, back = np.unique(words[~null], return_inverse=True)
            texts = pa.array([strings.text(int(code)) for code in known], pa.string())
            places = np.zeros(len(words), np.int64)
            places[~null] = back
            return texts.take(pa.array(places, mask=mask))
        case Kind.NULL:
            return pa.nulls(len(words))
    return pa.array(words, mask=mask).cast(arrow_type(kind))


def key_kinds(layout: WordLayout) -> list[Kind]:
    """The kinds of the global keys, as they stand in names: ranges by their number."""
    found: list[Kind] = []
    for key in layout.statement.gkeys:
        field = layout.field(key.entries[0].attr)
        kind = Kind.INT if field is None or key.ranges else field.kind
        found.append(Kind.FLOAT if kind is Kind.DECIMAL else kind)
    return found
