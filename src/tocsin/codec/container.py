"""A container: words, tables, arrays and bytes under one name each, behind a version and a digest.

    header (40 bytes)   magic, version, digest, length of all, length of the head, which digest
    head                JSON: [kind, words, list of the sections]
    sections            each at a multiple of 64 bytes

Words are plain JSON values, tables are Arrow streams, arrays are little-endian numbers as they lie in memory. The
digest covers everything but itself, so a container that is cut short or changed in one bit is refused before any of it
is used.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cache
from hashlib import blake2b
from types import UnionType
from typing import Any, NoReturn, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.codec.arrow_stream import WORTH_THREADS, read_stream
from tocsin.errors import StateError
from tocsin.events import END_OF_TIME, TIME_LIMIT

MAGIC = b"TOCSIN"
VERSION = 2  # of all that is stored, whatever its kind; 0.2 was the first release with a container
HEADER = struct.Struct("<6sH16sQIB3x")  # magic, version, digest, length of all, length of the head, digest used
DIGEST = slice(8, 24)
ALIGNED = 64  # where sections begin, so that Arrow and NumPy read them in place
# Digests: for what is kept long, for what is stored with every batch, and none for what only travels between processes,
# where the carrier looks after it. They differ in several bits, so that damage does not make one of another.
BLAKE, CRC, UNCHECKED = 0x5A, 0xA5, 0x3C
PLAIN = pa.ipc.IpcWriteOptions()
LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
LZ4_SMALL = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
NUMBERS = re.compile(r"[<|][biuf][1248]")  # what arrays hold, as NumPy writes it
HINT = "go back to an earlier snapshot or checkpoint, or start afresh"
UPGRADING = "docs/upgrading.md"

Bytes: TypeAlias = bytes | memoryview | pa.Buffer
AnyArray: TypeAlias = npt.NDArray[Any]
Record = TypeVar("Record")


class Named(dict[str, Any]):
    """What a container holds by name; a name that is not there is damage."""

    def __missing__(self, name: str) -> NoReturn:
        raise damaged("the saved state", f"it has no {name!r}")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The contents of a container, and the version that wrote it, for readers of what was different then."""

    words: Named
    tables: Mapping[str, pa.Table]
    arrays: Mapping[str, AnyArray]
    blobs: Mapping[str, bytes]
    version: int = VERSION

    def batch(self, name: str) -> pa.RecordBatch:
        """A table as one batch."""
        table = self.tables[name].combine_chunks()
        batches = table.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


# --- writing -------------------------------------------------------------------------------------------------------


def encode(
    kind: str,
    words: Mapping[str, Any],
    tables: Mapping[str, pa.RecordBatch | pa.Table] | None = None,
    arrays: Mapping[str, AnyArray] | None = None,
    blobs: Mapping[str, Bytes] | None = None,
    *,
    compress: bool = False,
    check: int = BLAKE,
) -> bytes:
    """Write a container. `kind` says what it holds; whoever reads it must ask for the same kind."""
    contents: list[list[Any]] = []
    sections: list[Any] = []
    for name, table in (tables or {}).items():
        sections.append(_stream(table, compress=compress))
        contents.append(["table", name, sections[-1].size])
    for name, array in (arrays or {}).items():
        small = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        sections.append(small.reshape(-1).view(np.uint8).data)
        contents.append(["array", name, small.nbytes, small.dtype.str, list(array.shape)])
    for name, blob in (blobs or {}).items():
        sections.append(memoryview(blob))
        contents.append(["bytes", name, sections[-1].nbytes])
    head = json.dumps([kind, words, contents], separators=(",", ":")).encode()
    body, length = [head], HEADER.size + len(head)
    for section, (_, _, size, *_) in zip(sections, contents, strict=True):
        gap = -length % ALIGNED
        body += [bytes(gap), section]
        length += gap + size
    header = HEADER.pack(MAGIC, VERSION, bytes(16), length, len(head), check)
    first, last = header[: DIGEST.start], header[DIGEST.stop :]
    return b"".join([first, _digest([first, last, *body], check), last, *body])


def _stream(table: pa.RecordBatch | pa.Table, *, compress: bool) -> pa.Buffer:
    options = PLAIN if not compress else LZ4 if table.nbytes >= WORTH_THREADS else LZ4_SMALL
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write(table)
    return sink.getvalue()


def _digest(pieces: Iterable[Bytes], check: int) -> bytes:
    """The digest of bytes that stand in pieces: everything but the digest itself."""
    if check == UNCHECKED:
        return bytes(16)
    if check == CRC:
        total = 0
        for piece in pieces:
            total = zlib.crc32(piece, total)
        return total.to_bytes(16, "little")
    whole = blake2b(digest_size=16)
    for piece in pieces:
        whole.update(piece)
    return whole.digest()


def stamp(data: Bytes) -> str:
    """Version and digest of a container, as its header says them: they tell containers apart without reading them."""
    return bytes(memoryview(data)[len(MAGIC) : DIGEST.stop]).hex()


# --- reading -------------------------------------------------------------------------------------------------------


def decode(data: Bytes, kind: str, place: str = "the saved state") -> Decoded:
    """Read a container of a kind; `place` says in errors where the bytes come from."""
    view = memoryview(data)
    read = READERS.get(_version(view, place))
    if read is None:
        raise _another_version(_version(view, place), place)
    with reading(place):
        found, decoded = read(view, place)
    if found != kind:
        raise StateError(f"{place} is of another kind", detail=f"it holds {found!r}, not {kind!r}", hint=HINT)
    return decoded


def _version(view: memoryview, place: str) -> int:
    if bytes(view[: len(MAGIC)]) != MAGIC:
        if _is_of_first_release(bytes(view)):
            raise first_release(place)
        short = MAGIC.startswith(bytes(view))
        raise damaged(place, "it is cut short" if short else "it does not begin as a state of Tocsin does")
    if len(view) < HEADER.size:
        raise damaged(place, f"it is cut short: {len(view)} bytes")
    version: int = HEADER.unpack_from(view)[1]
    return version


def _read(view: memoryview, place: str) -> tuple[str, Decoded]:
    """Read version 2: its kind and contents."""
    _, version, digest, length, head_length, check = HEADER.unpack_from(view)
    if len(view) != length:
        raise damaged(place, f"it has {len(view)} bytes and should have {length}")
    if check not in (BLAKE, CRC, UNCHECKED) or _digest([view[: DIGEST.start], view[DIGEST.stop :]], check) != digest:
        raise damaged(place, "its checksum differs")
    at = HEADER.size + head_length
    kind, words, contents = json.loads(bytes(view[HEADER.size : at]))
    tables, arrays, blobs = Named(), Named(), Named()
    for form, name, size, *more in contents:
        at += -at % ALIGNED
        section = view[at : at + size]
        at += size
        if form == "table":
            tables[name] = read_stream(pa.py_buffer(section))
        elif form == "array":
            arrays[name] = _array(section, *more)
        else:
            blobs[name] = bytes(section)
    return kind, Decoded(Named(words), tables, arrays, blobs, version)


def _array(section: memoryview, dtype: str, shape: list[int]) -> AnyArray:
    """An array of its own: kernels are compiled for arrays that can be written."""
    if not NUMBERS.fullmatch(dtype):  # NumPy reads much more, and evaluates some of it
        raise ValueError(f"an array holds {dtype!r}")
    stored = np.dtype(dtype)
    whole: AnyArray = np.frombuffer(section, stored).reshape(shape).astype(stored.newbyteorder("="))
    return whole


# A release reads what it writes itself, and what the release before it wrote.
READERS: dict[int, Callable[[memoryview, str], tuple[str, Decoded]]] = {VERSION: _read}


# --- what is refused -----------------------------------------------------------------------------------------------


@contextmanager
def reading(place: str = "the saved state") -> Iterator[None]:
    """Turn whatever goes wrong while stored values are read into one error."""
    try:
        yield
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        OSError,
        RecursionError,
        MemoryError,
        struct.error,
        pa.ArrowException,
    ) as error:
        raise damaged(place, str(error) or type(error).__name__) from error


def as_number(value: object) -> int:
    """A stored whole number that leaves room in 64 bits to count on, or to add a time; anything else is damage."""
    if type(value) is not int or abs(value) >= END_OF_TIME + TIME_LIMIT:
        raise damaged("the saved state", f"a whole number was expected in place of {str(value)[:60]!r}")
    return value


def as_numbers(values: object) -> list[int]:
    """A stored list of whole numbers."""
    if not isinstance(values, list):
        raise damaged("the saved state", "a list of numbers was expected")
    return [as_number(value) for value in values]


def as_numbers_by_name(values: object) -> dict[str, int]:
    """Stored whole numbers, each under a name."""
    if not isinstance(values, dict):
        raise damaged("the saved state", "numbers under names were expected")
    return {name: as_number(value) for name, value in values.items()}


def as_record(kind: Callable[..., Record], words: Mapping[str, object]) -> Record:
    """A dataclass from the stored values of its fields, each of which must be what the class says (`as_shape`)."""
    hints = _hints(kind)
    return kind(**{name: as_shape(hints[name], value) for name, value in words.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


class Scalar:
    """In a shape: a null, a truth, a text, or any number, however large."""


def as_shape(hint: Any, value: object) -> Any:
    """A stored value that must have the shape which a type says.

    Types are those of numbers, truths, texts and bytes, `Scalar`, dataclasses, lists and dicts (by names) of all these,
    tuples (lists of a fixed length), what may be None, and Any.

    >>> as_shape(list[tuple[int, str | None]], [[1, "a"], [2, None]])
    [(1, 'a'), (2, None)]
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return None if value is None else as_shape(inner[0], value)
    if origin is list and isinstance(value, list):
        return [as_shape(inner[0], each) for each in value]
    if origin is tuple and isinstance(value, list) and len(value) == len(inner):
        return tuple(as_shape(*each) for each in zip(inner, value, strict=True))
    if origin is dict and isinstance(value, dict):
        return {name: as_shape(inner[1], each) for name, each in value.items()}
    if is_dataclass(hint) and isinstance(value, dict):
        return as_record(hint, value)  # type: ignore[arg-type]
    if hint is Any or (hint is Scalar and (value is None or type(value) in (bool, int, float, str))):
        return value
    if type(value) is not hint:
        raise damaged("the saved state", f"{str(value)[:60]!r} stands where {hint} was expected")
    return as_number(value) if hint is int else value


def damaged(place: str, reason: str) -> StateError:
    return StateError(f"{place} is damaged", detail=reason, hint=HINT)


def check_version(version: object, place: str = "the saved state") -> None:
    """Refuse what this release does not read; for what is stored as text beside containers."""
    if version == 1:
        raise first_release(place)
    if version not in list(READERS):  # which may be anything, read from a text
        raise _another_version(version, place)


def first_release(place: str) -> StateError:
    return StateError(
        f"{place} was written by Tocsin 0.1, which this version does not read",
        hint=f"go on with Tocsin 0.1, or start afresh and give the events of the last window again: see {UPGRADING}",
    )


def _another_version(version: object, place: str) -> StateError:
    readable = " and ".join(map(str, sorted(READERS)))
    return StateError(
        f"{place} was written in format {version}, this version reads format {readable}",
        hint=f"read it with the version that wrote it or the one after that, or start afresh: see {UPGRADING}",
    )


def _is_of_first_release(data: bytes) -> bool:
    """Whether bytes look like a state of 0.1: a zip, a part behind its digest, an Arrow block or a JSON head."""
    if data[:4] in (b"PK\x03\x04", b"\xff\xff\xff\xff"):
        return True
    if data[:1] == b"{":
        try:
            return bool(json.loads(data)["format"] == 1)
        except (ValueError, KeyError, TypeError):
            return False
    return len(data) > 16 and blake2b(data[16:], digest_size=16).digest() == data[:16]
