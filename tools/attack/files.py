"""Files: CSV, JSONL, Parquet and Arrow, as they should be and damaged, cut short or oddly written."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import tocsin
from tocsin.errors import TocsinError
from tools.attack import sides
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import damaged, garbled

QUERY = "EVENT SEQ(A a, B b) WHERE a.k = b.k AND a.v <= b.v WITHIN 6"
FORMATS = ("csv", "jsonl", "parquet", "arrow")


def drawn_rows(random: Random) -> list[dict[str, Any]]:
    """Draw rows that all formats can hold."""
    texts = ("a", "b", "a b", 'q"q', "x,y", "é", "007", "true")
    count = random.choice((0, 1, 4, 9))
    return [
        {
            "type": random.choice("ABBC"), "time": at // 2, "eid": f"e{at}",
            "k": random.choice(texts[: random.randint(1, 8)]),
            "v": random.choice((0, 1, 2, -1, 2**53 + 1)), "w": random.choice((None, 0.5, 2.0)),
        }
        for at in range(count)
    ]  # fmt: skip


def written(rows: list[dict[str, Any]], format: str, random: Random) -> bytes:
    """Return the rows as the bytes of a file."""
    fields = [("type", pa.string()), ("time", pa.int64()), ("eid", pa.string()), ("k", pa.string()), ("v", pa.int64())]
    table = pa.Table.from_pylist(rows, pa.schema([*fields, ("w", pa.float64())]))
    if format == "arrow" and random.random() < 0.6:
        for place in (0, 3):
            table = table.set_column(place, table.schema.names[place], table.column(place).dictionary_encode())
    sink = io.BytesIO()
    if format == "csv":
        pa.csv.write_csv(table, sink)
    elif format == "parquet":
        codec = random.choice(("none", "snappy", "zstd"))
        pa.parquet.write_table(table, sink, compression=codec, row_group_size=random.choice((2, 100)))
    elif format == "arrow":
        options = pa.ipc.IpcWriteOptions(compression=random.choice((None, "lz4", "zstd")))
        with random.choice((pa.ipc.new_file, pa.ipc.new_stream))(sink, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=random.choice((2, 100)))
    else:
        lines = [json.dumps({name: value for name, value in row.items() if value is not None}) for row in rows]
        return "".join(line + "\n" for line in lines).encode()
    return sink.getvalue()


def oddly(random: Random, raw: bytes, format: str) -> bytes:
    """Damage the structure of a text file: words, lines, nesting, encodings."""
    if format in ("parquet", "arrow"):
        return damaged(random, raw)
    lines = raw.split(b"\n")
    at = random.randrange(len(lines))
    deep = random.choice((50, 900, 30_000))
    odd = random.choice(
        (b"", b"\xff\xfe", b"\x00", b'"', b"," * 40, b"null", b"[1]", b'{"type":"A","time":1e400}', b"{}", b"'" * 9,
         b'{"type":"A","time":2,"k":"\\ud800"}', b'{"type":"A","\\ud800":2,"time":2}',
         b'{"type":"A","time":3,"type":"B"}',
         b'{"type":"A","time":1,"k":' + b"[" * deep + b"]" * deep + b"}", b'{"k":' * deep + b"1" + b"}" * deep,
         b"A,99999999999999999999,e7,a,1,0.5", b"A,0x10,e8,007,1,",
         b'{"type":"A","time":1,"v":12345678901234567890123}')
    )  # fmt: skip
    match random.randrange(4):
        case 0:
            lines.insert(at, odd)
        case 1:
            lines[at] = odd
        case 2:
            return garbled(random, raw.decode(), most=4).encode("utf-8", "surrogatepass")
        case _:
            return b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n")
    return b"\n".join(lines)


def make(random: Random) -> Input:
    """Draw the bytes of a file; the rows too, where the file says them as they are."""
    format = random.choice(FORMATS)
    rows = drawn_rows(random)
    raw = written(rows, format, random)
    kind = random.random()
    if kind < 0.2:
        return {"format": format, "file": raw, "rows": rows}
    return {"format": format, "file": damaged(random, raw) if kind < 0.6 else oddly(random, raw, format)}


def judge(given: Input) -> None:
    """Read the file strictly and leniently: what both answer is the same, and for a sound file the oracle's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"events.{given['format']}"
        path.write_bytes(given["file"])
        query = tocsin.query(QUERY)
        try:
            lenient = sides.of(query.detect(path, eid="eid", jit=False, bad_rows="skip"))
        except TocsinError:
            lenient = None
        strict = sides.of(query.detect(path, eid="eid", jit=False))
        if lenient is None:
            raise WrongAnswerError("bad_rows=skip refuses: what bad_rows=fail reads")
        sides.same("skipping and not", lenient, strict)
        if "rows" in given:
            sides.same("file and oracle", strict, sides.defined(QUERY, [sides.event(row) for row in given["rows"]]))


SURFACE = Surface("files", make, judge, share=4)
