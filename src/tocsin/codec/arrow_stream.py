"""Read tables from Arrow bytes that nobody vouches for: a wrong offset or index is an error, not a read elsewhere.

Arrow reads what the bytes say and checks little of it. So all that comes from outside is validated in full, and buffers
that would unpack to far more than they take are refused before they are unpacked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

LARGEST_RATIO = 256  # LZ4 cannot do better, so a larger claim is a lie
LZ4_FRAME = 0
WHOLE_MESSAGE_HEADER, DICTIONARY_DATA = 2, 1  # places of fields in Arrow's tables (Message.fbs)
BUFFERS, COMPRESSION = 2, 3
ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
WORTH_THREADS = 1 << 20  # bytes: to wake other threads for the columns of a small table takes longer than to unpack it


def read_stream(data: pa.Buffer) -> pa.Table:
    """The table of an Arrow stream in memory."""
    _check_unpacked(data)
    options = ONE_THREAD if data.size < WORTH_THREADS else None
    return validated(pa.ipc.open_stream(data, options=options).read_all())


def validated(table: pa.Table) -> pa.Table:
    """The table, if all its offsets, indexes and texts are what they should be; else ArrowInvalid."""
    table.validate(full=True)
    return table


def _check_unpacked(data: pa.Buffer) -> None:
    """Refuse compressed buffers that claim to be larger than their bytes can hold."""
    reader = pa.ipc.MessageReader.open_stream(data)
    for message in reader:
        if message.type in ("record batch", "dictionary"):
            for claimed, size in _compressed(message):
                if claimed > size * LARGEST_RATIO:
                    raise ValueError(f"a column of {size} bytes claims to hold {claimed} bytes")


def _compressed(message: pa.ipc.Message) -> Iterator[tuple[int, int]]:
    """For each compressed buffer of a message: what it claims to unpack to, and its own size."""
    table = _Table(message.metadata, 0).inner(WHOLE_MESSAGE_HEADER)
    rows = table.inner(DICTIONARY_DATA) if message.type == "dictionary" else table
    if not rows.has(COMPRESSION):
        return
    if rows.inner(COMPRESSION).byte(0) != LZ4_FRAME:
        raise ValueError("its columns are compressed in a way that Tocsin does not use")
    for offset, size in rows.pairs(BUFFERS):
        if size:
            (claimed,) = struct.unpack_from("<q", message.body, offset)
            yield claimed, size


class _Table:
    """A table of a flatbuffer, as Arrow writes its metadata: fields are found by their number."""

    def __init__(self, data: pa.Buffer, pointer: int) -> None:
        self.data = data
        self.at = pointer + self._read("<I", pointer)
        self.fields = self.at - self._read("<i", self.at)
        self.size = self._read("<H", self.fields)

    def _read(self, form: str, at: int) -> int:
        if at < 0:
            raise ValueError("its metadata points outside of itself")
        value: int = struct.unpack_from(form, self.data, at)[0]
        return value

    def _place(self, field: int) -> int:
        entry = 4 + 2 * field
        offset = self._read("<H", self.fields + entry) if entry < self.size else 0
        return self.at + offset if offset else 0

    def has(self, field: int) -> bool:
        return self._place(field) > 0

    def inner(self, field: int) -> _Table:
        """The table that a field points to."""
        return _Table(self.data, self._place(field))

    def byte(self, field: int) -> int:
        """A small number; 0 if it was left out."""
        return self._read("<b", self._place(field)) if self.has(field) else 0

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A list of pairs of whole numbers."""
        place = self._place(field)
        first = place + self._read("<I", place)
        count = self._read("<I", first)
        return [(self._read("<q", at), self._read("<q", at + 8)) for at in range(first + 4, first + 4 + 16 * count, 16)]
