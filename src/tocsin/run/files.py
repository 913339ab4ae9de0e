"""Read event files whole (CSV, JSONL, Parquet, Arrow); every row keeps a place that an error can name."""

from __future__ import annotations

import csv
import glob
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from math import isinf
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from tocsin.codec.arrow_stream import validated
from tocsin.encode.arrow import Problems, is_instant
from tocsin.encode.columns import Columns, arrow_type
from tocsin.encode.late import LateFile
from tocsin.encode.objects import from_dicts, shortened
from tocsin.encode.thread_team import ThreadTeam
from tocsin.encode.values import EXACT_FLOAT
from tocsin.errors import InputError
from tocsin.run.bad_rows import BadRows
from tocsin.run.csv_kinds import doubtful, with_exact_numbers
from tocsin.schema import Field, Kind

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
}
DELIMITERS = {"csv": ",", "tsv": "\t"}
HEADER_BYTES = 1 << 16  # in which the first line of a CSV file ends
OTHER_DELIMITERS = (";", "\t", "|")  # of files that end in .csv
BROKEN = (pa.ArrowException, pa.ArrowInvalid, OSError, EOFError, UnicodeDecodeError)  # what reading a file may raise
DEEP = 100
LATE_ROWS = 1 << 16  # of a Parquet file, for which it is worth to read columns late
HEAD = 1 << 15  # bytes of JSON lines that show which columns look like times
BLOCK, LARGEST_BLOCK = 1 << 20, 1 << 26  # bytes of a text that a thread reads, and that kinds are inferred from
COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")


@dataclass(slots=True)
class FilePiece:
    """A piece of the input: its rows, what is already known to be wrong with them, and where each row came from.

    `original` returns a row as the file has it; None: the rows of the table were not changed. The kinds of columns in
    `guessed` were inferred from their values. `late`: the file of columns that are read when they are needed.
    """

    table: pa.Table
    place: Callable[[int], str]
    problems: Problems
    original: Callable[[int], Any] | None = None
    guessed: frozenset[str] = frozenset()
    late: LateFile | None = None


def find(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path means: itself, all event files of a directory (in order of name), or a glob's."""
    whole = Path(path)
    if whole.is_dir():
        found = sorted(each for each in whole.rglob("*") if each.is_file() and _is_events(each, whole))
        if not found:
            raise InputError(f"the directory {whole} holds no event files", hint=f"known endings: {_endings()}")
        return found
    if whole.exists():
        return [whole]
    if glob.has_magic(str(path)):
        found = sorted(Path(each) for each in glob.glob(str(path), recursive=True) if Path(each).is_file())  # noqa: PTH207 - absolute patterns too
        if found:
            return found
        raise InputError(f"no file matches {str(path)!r}")
    raise InputError(f"there is no file {str(path)!r}", hint="check the path; a query text goes first, then --input")


def _is_events(path: Path, root: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(root).parts)
    return not hidden and format_of(path) is not None


def format_of(path: Path) -> str | None:
    """The format that the name of a file says; None: none that is known."""
    name = path.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return FORMATS.get(Path(name).suffix)


def _endings() -> str:
    return " ".join(FORMATS)


def read(
    path: Path, columns: Columns, declared: Mapping[str, Field], bad: BadRows, early: frozenset[str] | None = None
) -> FilePiece:
    """Read one file. Rows that cannot be parsed at all are reported to `bad` at once.

    `early`: the columns that must be read now, if others may be read late.
    """
    kind = format_of(path)
    if kind is None:
        raise unknown_format(path)
    late = None
    try:
        match kind:
            case "csv" | "tsv":
                raw = _bytes(path)
                if not raw or raw.isspace():  # which copies nothing
                    raise empty_csv(path)
                return csv_piece(raw, path, columns, declared, bad, delimiter=delimiter_of(kind, raw))
            case "jsonl":
                return jsonl_piece(_bytes(path), path, bad)
            case "parquet":
                table, late = _read_parquet(path, early, columns.type)
            case _:
                table = _read_arrow(path)
    except BROKEN as problem:
        unreadable(path, kind, problem)
    return FilePiece(table, lambda row: f"{path}, row {row + 1}", [], late=late)


def _read_parquet(path: Path, early: frozenset[str] | None, types: str) -> tuple[pa.Table, LateFile | None]:
    """The rows of a file; if some columns are read late, the file that has them."""
    file = LateFile(path)
    if early is None or file.rows < LATE_ROWS or len(set(file.names)) < len(file.names):
        return validated(file.file.read()), None
    return file.table(early, types), file


def unknown_format(path: Path) -> InputError:
    """The error of a file whose ending says nothing."""
    return InputError(f"the format of {path} is unknown", hint=f"known endings: {_endings()} (also with .gz)")


def unreadable(path: Path, kind: str, problem: Exception) -> NoReturn:
    """Raise the error of a file that cannot be read."""
    if isinstance(problem, (FileNotFoundError, PermissionError, IsADirectoryError)):
        raise problem
    reason = " ".join(str(problem).split())[:300]
    raise InputError(f"{path} cannot be read as {kind}", detail=reason) from problem


def _read_arrow(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file:
        start = file.read(6)
    if start == b"ARROW1":
        return validated(pa.ipc.open_file(pa.memory_map(str(path))).read_all())
    return validated(pa.ipc.open_stream(pa.OSFile(str(path))).read_all())


def delimiter_of(kind: str, raw: bytes) -> str:
    """What stands between the columns of a CSV file, by its first line: no comma in it, but a semicolon, say.

    >>> delimiter_of("csv", b'time;type;"a, b"'), delimiter_of("csv", b"time,a;b")
    (';', ',')
    """
    first = re.sub(rb'"[^"]*"', b"", raw[:HEADER_BYTES].split(b"\n", 1)[0])
    if kind == "csv" and b"," not in first:
        return next((each for each in OTHER_DELIMITERS if each.encode() in first), ",")
    return DELIMITERS[kind]


def empty_csv(path: Path) -> InputError:
    """The error of a CSV file without any line."""
    return InputError(f"{path} is empty", detail="a CSV file begins with a line of column names")


# --- CSV ----------------------------------------------------------------------------------------------------------


def csv_piece(
    raw: bytes,
    path: Path,
    columns: Columns,
    declared: Mapping[str, Field],
    bad: BadRows,
    *,
    delimiter: str = ",",
    before: int = 0,
    as_texts: frozenset[str] = frozenset(),
) -> FilePiece:
    """A CSV text with a header line. Empty fields are null (quoted ones are empty texts).

    `before`: how many lines of the file stand before the text. Columns in `as_texts` are no numbers elsewhere.
    """
    texts = {columns.type, *declared, *as_texts}
    if b"\n" not in raw:  # a line of names that does not end is no file to Arrow
        raw += b"\n"
    table, faults = _parse_csv(raw, delimiter, texts, path)
    if any(pa.types.is_floating(field.type) for field in table.schema if field.name in (columns.time, columns.end)):
        texts |= {
            name for name in (columns.time, columns.end) if name is not None
        }  # to see which rows are no whole numbers
        table, faults = _parse_csv(raw, delimiter, texts, path)
    odd = doubtful(raw, table) - texts
    if odd:
        table, faults = _parse_csv(raw, delimiter, texts | odd, path)
    lines = _CsvLines(raw, delimiter, before)
    for text, expected, actual in faults:
        place = lines.place_of_fault(path, text)
        bad.report(place, f"has {actual} field{'' if actual == 1 else 's'} instead of {expected}", text)
    problems: Problems = []
    table = _as_texts(table, problems)
    table = with_exact_numbers(table, odd - {columns.time, columns.end}, problems)
    table = _as_declared(table, declared, problems)
    guessed = frozenset(table.schema.names) - (texts - as_texts)
    return FilePiece(table, lambda row: f"{path}, line {lines.line(row)}", problems, lines.row, guessed)


def _bytes(path: Path) -> bytes:
    with pa.input_stream(str(path), compression="detect") as stream:
        data: bytes = stream.read()
    return data.removeprefix(b"\xef\xbb\xbf")


def _parse_csv(raw: bytes, delimiter: str, texts: set[str], path: Path) -> tuple[pa.Table, list[tuple[str, int, int]]]:
    faults: list[tuple[str, int, int]] = []

    def note(row: Any) -> str:
        text = row.text if sound else row.text.encode("latin-1").decode("utf-8", "replace")
        faults.append((text, row.expected_columns, row.actual_columns))
        return "skip"

    quoted, sound = b'"' in raw, _is_text(raw)

    def parse(block: int, *, threads: bool) -> pa.Table:
        return arrow_csv.read_csv(
            pa.BufferReader(raw),
            arrow_csv.ReadOptions(use_threads=threads, block_size=block, encoding="utf-8" if sound else "latin-1"),
            arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=quoted, invalid_row_handler=note),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(texts, pa.string()),
                null_values=[""],
                true_values=["true", "True", "TRUE"],  # 1 and 0 are numbers
                false_values=["false", "False", "FALSE"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    if not sound:  # Arrow reads no such text, so that every byte is a character until its row is known
        texts = {name.encode().decode("latin-1") for name in texts}
    try:
        table = None
        if len(raw) > BLOCK:
            with suppress(pa.ArrowInvalid):  # a value of another kind than those of the first block
                table = parse(BLOCK, threads=True)
        if table is None or faults:  # those must be met in order
            faults.clear()
            table = parse(max(BLOCK, min(len(raw), LARGEST_BLOCK)), threads=not quoted)
    except pa.ArrowInvalid as problem:
        unreadable(path, "csv", problem)
    return table if sound else _as_bytes(table), faults


def _as_bytes(table: pa.Table) -> pa.Table:
    """The texts of a table, of which every character stands for a byte, as those bytes; its names as texts."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            values = [None if text is None else text.encode("latin-1") for text in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(values, pa.binary()))
    return table.rename_columns([name.encode("latin-1").decode() for name in table.schema.names])


def _as_texts(table: pa.Table, problems: Problems) -> pa.Table:
    """Columns that hold bytes which may be no UTF-8: those rows are bad, the others are texts."""
    for place, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            values = [_decoded(value) for value in table.column(place).to_pylist()]
            wrong = np.array([value is False for value in values], np.bool_)
            if wrong.any():
                problems.append((wrong, f"{field.name!r} is not valid UTF-8"))
            texts = pa.array([None if value is False else value for value in values], pa.string())
            table = table.set_column(place, field.name, texts)
    return table


def _decoded(value: bytes | None) -> str | bool | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return False


def _as_declared(table: pa.Table, declared: Mapping[str, Field], problems: Problems) -> pa.Table:
    """The texts of declared attributes as what they are declared to be."""
    for place, name in enumerate(table.schema.names):
        field = declared.get(name)
        if field is not None and field.kind is not Kind.TEXT and pa.types.is_string(table.schema.types[place]):
            array, wrong = cast_texts(table.column(place).combine_chunks(), field)
            if wrong.any():
                problems.append((wrong, f"{name!r} is not {_a(field.kind)}"))
            table = table.set_column(place, name, array)
    return table


def _a(kind: Kind) -> str:
    return f"{'an' if kind is Kind.INT else 'a'} {kind}"


def cast_texts(texts: pa.Array, field: Field) -> tuple[pa.Array, Any]:
    """Texts as values of a declared attribute, and the rows where that fails."""
    type = arrow_type(field)
    try:
        return pc.cast(texts, type), np.zeros(len(texts), np.bool_)
    except pa.ArrowInvalid:
        values, wrong = [], np.zeros(len(texts), np.bool_)
        for row, text in enumerate(texts):
            try:
                values.append(pc.cast(text, type).as_py())
            except pa.ArrowInvalid:
                values.append(None)
                wrong[row] = text.is_valid
        return pa.array(values, type), wrong


class _CsvLines:
    """Line numbers of a CSV text, found by reading it again and only when an error must name one."""

    def __init__(self, raw: bytes, delimiter: str, before: int = 0) -> None:
        """`before`: how many lines of the file stand before the text."""
        self.raw, self.delimiter, self._before = raw, delimiter, before
        self._lines: list[int] | None = None
        self._faults: dict[str, list[int]] = {}
        self._rows: list[dict[str, str]] | None = None

    def _read(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row with the line on which it begins; blank lines are no rows."""
        text = io.StringIO(self.raw.decode("utf-8", "replace"), newline="")
        with _fields_of_any_length():
            rows, before = csv.reader(text, delimiter=self.delimiter), 0
            for row in rows:
                if row:
                    yield self._before + before + 1, row
                before = rows.line_num

    def _scan(self) -> list[int]:
        """The line on which each usable row begins."""
        if self._lines is None:
            header, self._lines = 0, []
            for first, row in self._read():
                if header == 0:
                    header = len(row)
                elif len(row) == header:
                    self._lines.append(first)
                else:
                    self._faults.setdefault(self.delimiter.join(row), []).append(first)
        return self._lines

    def line(self, row: int) -> int:
        lines = self._scan()
        return lines[row] if row < len(lines) else self._before + row + 2

    def row(self, row: int) -> dict[str, str] | None:
        """The texts of a usable row, by column."""
        if self._rows is None:
            lines = [row for _, row in self._read()]
            self._rows = [dict(zip(lines[0], row, strict=True)) for row in lines[1:] if len(row) == len(lines[0])]
        return self._rows[row] if row < len(self._rows) else None

    def place_of_fault(self, path: Path, text: str) -> str:
        self._scan()
        with _fields_of_any_length():
            row = next(csv.reader([text], delimiter=self.delimiter), [])
        found = self._faults.get(self.delimiter.join(row))
        return f"{path}, line {found.pop(0)}" if found else str(path)


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """Let Python's reader take fields of any length, as Arrow's does; its limit holds for the whole process."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


# --- JSONL --------------------------------------------------------------------------------------------------------


def jsonl_piece(raw: bytes, path: Path, bad: BadRows, before: int = 0) -> FilePiece:
    """One JSON object per line. Texts stay texts, whatever they look like; nested values become JSON text.

    `before`: how many lines of the file stand before the text.
    """
    lines = _JsonLines(raw)
    table = _quick_jsonl(lines)
    if table is not None and lines.count == table.num_rows:
        return FilePiece(
            table,
            lambda row: f"{path}, line {before + lines.all[row][0]}",
            [],
            lambda row: parse_line(lines.all[row][1])[0],
        )
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, line in enumerate(raw.split(b"\n"), before + 1):
        if not line.strip():
            continue
        row, reason = parse_line(line)
        if row is None:
            bad.report(f"{path}, line {number}", str(reason), line.decode("utf-8", "replace").strip())
        else:
            rows.append(row)
            numbers.append(number)
    problems: Problems = []
    batch = from_dicts(rows, problems)
    table = pa.Table.from_batches([batch]) if batch.num_columns else pa.table({})
    return FilePiece(table, lambda row: f"{path}, line {numbers[row]}", problems, rows.__getitem__)


class _JsonLines:
    """The lines of a JSONL text; each is looked at by itself only where somebody asks for one."""

    def __init__(self, raw: bytes) -> None:
        self.raw, data = raw, np.frombuffer(raw, np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        behind = ends[ends < len(data) - 1] + 1
        self.breaks = len(ends)
        # one object behind the other, each on a line of its own
        self.are_plain = raw[:1] == b"{" and b"\r" not in raw and bool((data[behind] == ord("{")).all())
        self._most = len(behind) + 1

    @property
    def count(self) -> int:
        """How many are not blank."""
        return self._most if self.are_plain else len(self.all)

    @property
    def have_objects(self) -> bool:
        """Whether all begin with objects, and there is one: at a null in their place Arrow's reader crashes."""
        return self.are_plain or bool(self.all and all(line.lstrip().startswith(b"{") for _, line in self.all))

    @property
    def are_deep(self) -> bool:
        """Whether one may be nested so deeply that Arrow's reader, which calls itself, runs out of stack."""
        data = np.frombuffer(self.raw, np.uint8)
        if sum(np.count_nonzero(data == ord(each)) for each in "[{") <= self.breaks + DEEP:
            return False
        return any(line.count(b"[") + line.count(b"{") > DEEP for line in self.raw.split(b"\n"))

    @cached_property
    def all(self) -> list[tuple[int, bytes]]:
        """Those that are not blank, each with its number."""
        return [(number, line) for number, line in enumerate(self.raw.splitlines(), 1) if line.strip()]


def _quick_jsonl(lines: _JsonLines) -> pa.Table | None:
    """The table, if Arrow's own reader keeps every value exactly; else None."""
    raw = lines.raw
    if (b"\\" in raw and b"\\ud" in raw.lower()) or not _is_text(raw) or not lines.have_objects or lines.are_deep:
        return None
    try:
        table = _json_table(raw)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return table if all(_exact(table.column(place)) for place in range(table.num_columns)) else None


def _json_table(raw: bytes) -> pa.Table:
    """What Arrow reads, on all cores; texts that look like times stay texts.

    Each piece is read by itself, as one block: where kinds change from block to block, Arrow's reader makes texts of
    numbers, or crashes. ArrowInvalid: the kinds of pieces do not fit together.
    """
    head = _json(raw[: raw.find(b"\n", HEAD) + 1 or len(raw)], {})
    known = _misread([head.schema])  # so that few pieces are read twice
    pieces = [piece for piece in _pieces(raw) if piece.strip()]
    with ThreadTeam(max(1, min(pa.cpu_count(), len(pieces)))) as workers:
        tables = workers.all([partial(_json, piece, known) for piece in pieces])
        while found := _misread([table.schema for table in tables]):
            known |= found
            odd = [at for at, table in enumerate(tables) if _differs(table.schema, found)]
            again = workers.all([partial(_json, pieces[at], known) for at in odd])
            for at, table in zip(odd, again, strict=True):
                tables[at] = table
    names = dict.fromkeys([*head.schema.names, *(name for table in tables for name in table.schema.names)])
    return pa.concat_tables(tables, promote_options="default").select(list(names))


def _pieces(raw: bytes) -> Iterator[bytes]:
    """Whole lines, as many as a thread reads at once."""
    begin = 0
    while begin < len(raw):
        end = raw.find(b"\n", begin + BLOCK) + 1 or len(raw)
        yield raw[begin:end]
        begin = end


def _misread(schemas: list[pa.Schema]) -> dict[str, pa.DataType]:
    """The columns to be read again, and as what: times as texts, whole numbers as floats where others are floats."""
    kinds: dict[str, set[pa.DataType]] = {}
    for schema in schemas:
        for field in schema:
            if not pa.types.is_null(field.type):
                kinds.setdefault(field.name, set()).add(field.type)
    found = {}
    for name, types in kinds.items():
        if any(map(is_instant, types)):
            found[name] = pa.string()
            types = {type for type in types if not is_instant(type)} | {pa.string()}
        elif types == {pa.int64(), pa.float64()}:
            found[name], types = pa.float64(), {pa.float64()}
        if len(types) > 1:
            raise pa.ArrowInvalid(f"{name!r} has several kinds")
    return found


def _differs(schema: pa.Schema, wanted: Mapping[str, pa.DataType]) -> bool:
    return any(field.type != wanted.get(field.name, field.type) for field in schema if not pa.types.is_null(field.type))


def _json(raw: bytes, known: Mapping[str, pa.DataType]) -> pa.Table:
    """A piece as one block; columns of known types have those."""
    if len(raw) > LARGEST_BLOCK:
        raise pa.ArrowInvalid("a line is too long")
    options = arrow_json.ReadOptions(use_threads=False, block_size=len(raw) + 1)
    parsing = arrow_json.ParseOptions(explicit_schema=pa.schema(list(known.items())) if known else None)
    return arrow_json.read_json(pa.BufferReader(raw), options, parsing)


def _is_text(raw: bytes) -> bool:
    """Tell whether bytes are UTF-8; Arrow's reader does not ask."""
    try:
        return raw.isascii() or bool(raw.decode())
    except UnicodeDecodeError:
        return False


def _exact(column: pa.ChunkedArray) -> bool:
    """Tell whether a column kept every value: not nested ones, nor floats so large that they may have lost digits."""
    if pa.types.is_nested(column.type):
        return False
    if not pa.types.is_floating(column.type):
        return True
    large = pc.any(pc.greater_equal(pc.abs(column), float(EXACT_FLOAT)))
    return not large.as_py()


def parse_line(line: bytes | str) -> tuple[dict[str, Any] | None, str | None]:
    """One line of JSONL as a dict, or None and the reason."""
    try:
        row = json.loads(line, object_pairs_hook=_once, parse_float=_finite)
    except _TwiceError as twice:
        return None, f"has the name {twice.args[0]!r} twice"
    except _TooLargeError as number:
        return None, f"has a number that is larger than any float ({number.args[0]})"
    except UnicodeDecodeError:
        return None, "is not valid UTF-8"
    except RecursionError:
        return None, "is nested too deeply"
    except ValueError as problem:
        return None, f"is not JSON ({problem})"
    if not isinstance(row, dict):
        return None, "is JSON but not an object"
    return row, None


class _TwiceError(ValueError):
    pass


class _TooLargeError(ValueError):
    pass


def _finite(text: str) -> float:
    """Read a number; one that would become infinity is refused, as it would be equal to all others of that sort."""
    value = float(text)
    if isinf(value):
        raise _TooLargeError(shortened(text))
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _TwiceError(name)
            seen.add(name)
    return found
