"""Rows of every Arrow type and form: whatever the column is made of, the answer is that of the same plain values."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

import tocsin
from tocsin.errors import TocsinError
from tools.attack import sides
from tools.attack.core import Input, Surface, WrongAnswerError

INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
TEXTS = ("string", "large_string", "string_view")
DECIMALS = ("decimal32(9,2)", "decimal64(18,3)", "decimal128(20,2)", "decimal256(40,0)")
MOMENTS = tuple(f"timestamp({unit}{zone})" for unit in ("s", "ms", "us", "ns") for zone in ("", ",UTC", ",+02:00"))
OTHERS = ("bool", "null", "date32", "date64", "time64(us)", "duration(us)", "binary", "list", "struct", "map")
TYPES = (*INTS, *FLOATS, *TEXTS, *DECIMALS, *MOMENTS, *OTHERS)
FORMS = ("plain", "sliced", "chunked", "dictionary", "null values", "empty chunk", "reader")
CODED = {"dictionary", "null values"}
QUERIES = (
    "EVENT SEQ(A a, B b) WHERE [k]", "EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN 4", "EVENT A a WHERE a.k IS NULL",
    "EVENT AND(A a, B b) WHERE a.k < b.k", "EVENT SEQ(A a, !B b, A c) WHERE a.k = c.k", "EVENT A a WHERE a.k = a.j",
    "EVENT SEQ(A a, B+ b, A c) WHERE a.k = b.k", "EVENT SEQ(A a, !B b) WHERE [k] WITHIN 3", "EVENT A a WHERE a.k <> 1",
    "EVENT SEQ(A a, B b) WHERE a.k IN (0, 1) AND b.j = a.j", "EVENT A a WHERE a.k LIKE '%a_'",
    "EVENT SEQ(A a, B b) WHERE [k] CONSUME recent", "EVENT SEQ(A a, B b, C c) WHERE [k] CONSUME chronicle",
    "EVENT SEQ(A a, B b) WHERE [k] AND count(a) > 1 WITHIN 4 CONSUME cumulative",
    "EVENT SEQ(A a, B b) WHERE a.k = b.k AFTER MATCH SKIP PAST LAST EVENT", "EVENT SEQ(A a, B b) LIMIT 1 PER a.k",
    "EVENT SEQ(A a, B b) DISTINCT BY b.k EVERY 3", "EVENT SEQ(A a, B b) WHERE [k] WITHIN 2 TIMEOUT",
    "EVENT SEQ(A a, B b) WHERE [k] SELECT k AS k, count(*) AS n, min(b.j) AS m GROUP BY k",
    "EVENT SEQ(A a, B b) WITHIN 4 SELECT b.j AS j, count(*) AS n, max(a.k) AS m GROUP BY b.j EVERY 3",
    "EVENT SEQ(A a, B b) SELECT sum(a.k) AS s, avg(b.j) AS m, count(b.k) AS n",
    "EVENT SEQ(A a, FIRST B b) WHERE a.k = b.k", "EVENT SEQ(A a, NEXT B+ b) WHERE b.k >= prev(b.k) WITHIN 5",
    "EVENT SEQ(A a, B? b, C c) WHERE a.k = b.k", "EVENT SEQ(A a, B+ b, C c) WHERE b[1].k = a.k AND b[-1].j = a.j",
    "EVENT SEQ(A a, (B+ b UNTIL b.k = a.k), C c)", "EVENT SEQ(A a, (SEQ(B b, C c))+ g, A d) WHERE b.k = c.k",
    "EVENT SEQ(A a, B b) WHERE [k] CONTINUITY OF (C)", "EVENT SEQ(A a, !B b FOR 2, C c) WHERE [k]",
    "CreateCE X Select A.k as k, B.j as j Event And(A<consume>, B<consume>) Where A.k = B.k",
    "CreateCE X Select A.k as k, B.j as j Event Sequence(A, B) LKey *.k", "CreateCE X Event AtLeast(2, A) GKey *.k",
    "INTERVALS v FROM A, B BY k SESSION GAP 2 SELECT count(*) AS n, last(j) AS j",
    "INTERVALS v FROM A, B AS High WHEN k > 0, Low WHEN k <= 0 OR k IS NULL SELECT first(j) AS j",
    "INTERVALS v FROM A : j IS NOT NULL TO B BY k RESTART SELECT count(j) AS n",
    "CONSTRAINT c PARTITION BY k AS (A | B)* C?; EVENT SEQ(A a, B b) WHERE [k] UNDER c",
    "CreateCE X Select Max(Bag(A.k)) as m, Count(Set A) as n Event And(A, B) Where A.j = B.j",
)  # fmt: skip


def arrow_type(name: str) -> pa.DataType:
    """Return the type that a name in an input means."""
    base, _, more = name.rstrip(")").partition("(")
    arguments = more.split(",") if more else []
    nested = {
        "list": pa.list_(pa.int64()),
        "struct": pa.struct([("x", pa.int64())]),
        "map": pa.map_(pa.string(), pa.int64()),
    }
    if base in nested:
        return nested[base]
    if base.startswith("decimal"):
        return getattr(pa, base)(*map(int, arguments))
    return getattr(pa, base + "_" if base == "bool" else base)(*arguments)


def value(random: Random, type: pa.DataType) -> Any:
    """Draw a value of a type, often one that others have too."""
    if random.random() < 0.15:
        return None
    few = random.choice((0, 1, 1, 2))
    if pa.types.is_integer(type):
        high = 2 ** (type.bit_width - (1 if pa.types.is_signed_integer(type) else 0)) - 1
        low = -high - 1 if pa.types.is_signed_integer(type) else 0
        return random.choice((few, few, few, high, low, high - 1))
    if pa.types.is_floating(type):
        return random.choice((float(few), few / 2, few / 2, -0.0, math.nan, math.inf, -math.inf, 5e-8, 1e4))
    if pa.types.is_decimal(type):
        return Decimal(random.choice((few, few * 100, 10 ** (type.precision - 1)))).scaleb(-type.scale)
    if pa.types.is_timestamp(type) or pa.types.is_date(type):
        day = datetime(2024, 2, 29) + timedelta(days=few)  # noqa: DTZ001 - the zone is that of the type
        return day.date() if pa.types.is_date(type) else day + timedelta(seconds=few)
    texts = ("a", "ab", "", "xaé", "😀", "a\x00", "A")
    return {
        "bool": bool(few), "null": None, "time64[us]": (datetime(2024, 1, 1) + timedelta(seconds=few)).time(),  # noqa: DTZ001
        "duration[us]": timedelta(seconds=few), "binary": random.choice(texts).encode(), "list<item: int64>": [few],
        "struct<x: int64>": {"x": few}, "map<string, int64>": [("a", few)],
    }.get(str(type), random.choice(texts))  # fmt: skip


def make(random: Random) -> Input:
    """Draw two columns of one type and two forms, and a query about them."""
    type, count = random.choice(TYPES), random.choice((0, 1, 2, 5, 8, 12))
    other = type if random.random() < 0.8 else random.choice(TYPES)
    return {
        "query": random.choice(QUERIES), "rows": count, "types": [type, other], "forms": random.choices(FORMS, k=2),
        "time": random.choice(("int64", "int64", "int64", *INTS, *MOMENTS, "date32", "date64", "string")),
        "type": random.choice(("plain", *FORMS)), "seed": random.randrange(2**32),
    }  # fmt: skip


def columns(given: Input) -> dict[str, pa.Array]:
    """Return the plain columns of an input."""
    random = Random(given["seed"])  # noqa: S311 - not for secrets
    count = given["rows"]
    k, j = (
        pa.array([value(random, arrow_type(name)) for _ in range(count)], arrow_type(name)) for name in given["types"]
    )
    ticks = sorted(random.randint(1, 9) for _ in range(count))
    time = arrow_type(given["time"])
    start = date(2024, 5, 1).toordinal()
    if pa.types.is_date(time):
        times = pa.array([date.fromordinal(start + tick) for tick in ticks], time)
    elif pa.types.is_timestamp(time):
        times = pa.array([datetime(2024, 5, 1) + timedelta(seconds=tick) for tick in ticks], time)  # noqa: DTZ001
    else:
        times = pa.array([f"2024-05-01T00:00:{tick:02}" if given["time"] == "string" else tick for tick in ticks], time)
    names = pa.array([random.choice(("A", "A", "B", "B", "C")) for _ in range(count)], pa.string())
    return {"type": names, "time": times, "eid": pa.array(range(count), pa.int64()), "k": k, "j": j}


def undictionable(type: pa.DataType) -> bool:
    """Tell whether Arrow itself makes no dictionaries of a type."""
    return pa.types.is_nested(type) or str(type).startswith(("decimal32", "decimal64"))


def encoded(array: pa.Array, nulls: str) -> pa.Array:
    """Return a dictionary with the same values; Arrow's own encoder makes an empty text of a null in a string view."""
    if array.type != pa.string_view():
        return array.dictionary_encode(nulls)
    coded = array.cast(pa.string()).dictionary_encode(nulls)
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(array.type))


def formed(array: pa.Array, form: str) -> pa.ChunkedArray:
    """Return the same values in another form of memory."""
    if form == "sliced":
        array = pa.concat_arrays([array, array])[len(array) :] if len(array) else array
    if form in ("dictionary", "null values") and not undictionable(array.type):
        array = encoded(array, "encode" if form == "null values" else "mask")
    half = len(array) // 2
    pieces = {"chunked": [array[:half], array[half:]], "empty chunk": [array[:0], array, array[:0]]}.get(form, [array])
    return pa.chunked_array(pieces, array.type)


def judge(given: Input) -> None:
    """Compare the formed table with the plain one, with its rows as dicts, one by one, and with the oracle."""
    plain = columns(given)
    table = pa.table(plain)
    forms = {"type": given["type"], "k": given["forms"][0], "j": given["forms"][1]}
    dressed = pa.table({name: formed(array, forms.get(name, "plain")) for name, array in plain.items()})
    source = dressed.to_reader() if "reader" in given["forms"] else dressed
    query = tocsin.query(given["query"])
    options = {"jit": False, "truncate": True, "eid": "eid"}
    plainly = sides.of(query.detect(table, **options))
    try:
        sides.same("formed and plain", sides.of(query.detect(source, **options)), plainly)
    except TocsinError as error:
        if not CODED & {given["type"], *given["forms"]}:  # a dictionary of what is no text may be refused
            raise WrongAnswerError(f"refused in another form, {error.message}: {given['forms']}") from None
    with suppress(TocsinError):  # dicts have no types, so that some mixtures are refused
        sides.same("dicts and plain", sides.of(query.detect(table.to_pylist(), **options)), plainly)
    defined = given["query"].startswith(
        ("EVENT", "CreateCE")
    )  # the other definitions are asked by surfaces of their own
    if defined and given["time"] in INTS and all(name in (*INTS, *FLOATS, *TEXTS, "bool") for name in given["types"]):
        events = [sides.event(row) for row in table.to_pylist()]
        sides.same("plain and oracle", plainly, sides.defined(given["query"], events))


SURFACE = Surface("rows", make, judge, share=4)
