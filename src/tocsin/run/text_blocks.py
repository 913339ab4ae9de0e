"""Text files in blocks of whole rows, so that a file need not fit into memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

MARK = b"\xef\xbb\xbf"  # of UTF-8, at the beginning of a file
QUOTE, LINE, RETURN = b'"\n\r'


def line_blocks(path: Path, size: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines of about so many bytes, and how many lines of the file stand before them."""
    return _blocks(path, size, lambda data: data.rfind(b"\n") + 1)


def csv_blocks(path: Path, delimiter: str, size: int) -> Iterator[tuple[bytes, int]]:
    """Whole rows behind the line of names, which stands at the beginning of each block; and a number of lines.

    Added to the number of a line in the block it gives the line of the file.
    """
    names: bytes | None = None
    for data, before in _blocks(path, size, partial(row_end, delimiter=delimiter)):
        if names is None:
            if not data.strip():
                continue
            names = _first_row(data, delimiter)
            yield data, before
        else:
            yield names + data, before - line_count(names)


def _blocks(path: Path, size: int, cut: Callable[[bytes], int]) -> Iterator[tuple[bytes, int]]:
    rest, lines, is_first = b"", 0, True
    with pa.input_stream(str(path), compression="detect") as stream:
        while more := stream.read(max(size, len(rest))):  # a row may be longer than a block
            data = rest + (more.removeprefix(MARK) if is_first else more)
            at, is_first = cut(data), False
            if at:
                yield data[:at], lines
                lines += line_count(data[:at])
            rest = data[at:]
    if rest:
        yield rest, lines


def line_count(data: bytes) -> int:
    """How many lines end in a text; they may end in either way, or in both."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def row_end(data: bytes, delimiter: str) -> int:
    """Where the last row ends that is surely complete; 0 if none is. Line breaks within quotes end no row."""
    if b'"' not in data:
        return _last_break(data)
    letters = np.frombuffer(data, np.uint8)
    quotes = letters == QUOTE
    within = np.bitwise_xor.accumulate(quotes.view(np.uint8))
    opening = np.flatnonzero(quotes & (within == 1))
    before = letters[np.maximum(opening - 1, 0)]
    begins = (opening == 0) | (before == ord(delimiter)) | (before == LINE) | (before == RETURN) | (before == QUOTE)
    if not begins.all():  # a quote in the midst of a field is an ordinary letter
        return _end_by_fields(data, delimiter)
    return _last_break(np.where(within == 1, np.uint8(0), letters).tobytes())


def _last_break(data: bytes) -> int:
    """Behind the last line break; a carriage return at the very end may be half of one."""
    return (data.rfind(b"\n") if b"\n" in data else data.rfind(b"\r", 0, -1)) + 1


def _end_by_fields(data: bytes, delimiter: str) -> int:
    end = 0
    for field in _fields(delimiter).finditer(data):
        at = field.end()
        if field["open"] is not None or at + 1 >= len(data):
            break
        if data[at : at + 2] == b"\r\n":
            end = at + 2
        elif data[at] in (LINE, RETURN):
            end = at + 1
    return end


def _first_row(data: bytes, delimiter: str) -> bytes:
    """The first row that is not blank, with its end and blank lines before it."""
    begin = len(data) - len(data.lstrip(b"\r\n"))
    for field in _fields(delimiter).finditer(data, begin):
        at = field.end()
        if data[at : at + 2] == b"\r\n":
            return data[: at + 2]
        if at < len(data) and data[at] in (LINE, RETURN):
            return data[: at + 1]
    return data + b"\n"


def _fields(delimiter: str) -> re.Pattern[bytes]:
    """A field and the delimiter before it: quoted in front, if at all; `open`: the quotes do not end."""
    cut = re.escape(delimiter.encode())
    quoted = rb'"[^"]*(?:""[^"]*)*(?:"|(?P<open>\Z))'
    return re.compile(rb"(?:\A|(?<=[\r\n])|" + cut + rb")(?:" + quoted + rb")?[^\r\n" + cut + rb"]*")
