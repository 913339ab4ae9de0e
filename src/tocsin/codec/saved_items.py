"""Items as bytes: rows that an operator holds back are saved as they are, and need no encoder to come back.

Codes of types and texts mean something only in the process that gave them, so their names are stored; whoever reads the
items gives them its own codes. A column that is the same in the payload is stored once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.codec.container import AnyArray, decode, encode, reading
from tocsin.items import NO_TEXT, Column, Items, Strings
from tocsin.schema import Kind

KIND = "items"


def encode_items(items: Items, types: tuple[str, ...], strings: Strings) -> bytes:
    """Save items; `types` are the names behind the codes of types, `strings` the texts behind those of texts."""
    arrays: dict[str, AnyArray] = {"types": items.types}
    shared: list[str] = []
    for name, values in _own(items).items():
        if _same(values, items.payload, name):
            shared.append(name)
        elif values is not None and not (name == "end" and values is items.start):
            arrays[name] = values
    columns = {name: _put(name, column, items.payload, strings, arrays) for name, column in items.columns.items()}
    words = {"types": types, "points": items.start is items.end, "shared": shared, "columns": columns}
    return encode(KIND, words, {"payload": items.payload}, arrays)


def decode_items(data: bytes, types: tuple[str, ...], strings: Strings, place: str = "the saved state") -> Items:
    """Read saved items with the codes of another process; a type that it does not know is one that nobody reads."""
    stored = decode(data, KIND, place)
    with reading(place):
        payload = stored.batch("payload")
        arrays = {**stored.arrays, **{name: _plain(payload, name) for name in stored.words["shared"]}}
        codes = {name: code for code, name in enumerate(types)}
        lookup = np.array([*(codes.get(name, -1) for name in stored.words["types"]), -1], np.int32)
        columns = {name: _get(name, told, payload, strings, arrays) for name, told in stored.words["columns"].items()}
        own: dict[str, Any] = {name: arrays.get(name) for name in OWN}
        if stored.words["points"]:  # one array for both, as others look for that
            own["end"] = own["start"]
        return Items(lookup[stored.arrays["types"]], columns=columns, payload=payload, **own)


OWN = ("start", "end", "eid_high", "eid_low", "kinds", "sources")


def _own(items: Items) -> dict[str, AnyArray | None]:
    """What each row has beside its type and attributes."""
    return {name: getattr(items, name) for name in OWN}


def _put(
    name: str, column: Column, payload: pa.RecordBatch, strings: Strings, arrays: dict[str, AnyArray]
) -> list[Any]:
    """Store an attribute: its kind, its scale, whether it is that of the payload, and its texts."""
    if column.valid is not None:
        arrays[f"valid/{name}"] = column.valid
    if column.kind is Kind.TEXT:
        known, codes = np.unique(column.values, return_inverse=True)
        arrays[f"value/{name}"] = codes.astype(np.int32)
        return [str(column.kind), column.scale, False, [strings.text(int(code)) for code in known]]
    same = column.valid is None and _same(column.values, payload, name)
    if not same:
        arrays[f"value/{name}"] = column.values
    return [str(column.kind), column.scale, same, None]


def _get(name: str, told: list[Any], payload: pa.RecordBatch, strings: Strings, arrays: dict[str, AnyArray]) -> Column:
    kind, scale, same, texts = told
    values = _plain(payload, name) if same else arrays[f"value/{name}"]
    if texts is not None:
        codes = np.array([NO_TEXT if text is None else strings.code(text) for text in texts], np.int64)
        values = codes[values] if len(codes) else np.zeros(0, np.int64)
    return Column(Kind(kind), values, arrays.get(f"valid/{name}"), scale)


def _same(values: AnyArray | None, payload: pa.RecordBatch, name: str) -> bool:
    """Whether the payload has exactly these numbers, bit by bit."""
    place = payload.schema.get_field_index(name)
    if values is None or place < 0 or values.dtype not in (np.int64, np.float64):
        return False
    column = payload.column(place)
    if column.null_count or column.type != pa.from_numpy_dtype(values.dtype):
        return False
    return bool(np.array_equal(column.to_numpy().view(np.int64), values.view(np.int64)))


def _plain(payload: pa.RecordBatch, name: str) -> AnyArray:
    numbers: AnyArray = payload.column(name).to_numpy().copy()
    return numbers
