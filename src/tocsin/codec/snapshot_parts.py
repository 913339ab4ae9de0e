"""Parts: the pieces of a snapshot, each with a version, so that a store may take only those that have changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tocsin.codec.container import decode, encode, reading
from tocsin.errors import StateError

KIND = "snapshot"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of state. `version` grows whenever its content changes; `range` is its key range (None: it has none)."""

    id: str
    version: int
    data: bytes
    range: int | None = None


def nested(prefix: str, parts: Iterable[Part]) -> list[Part]:
    """Parts of an inner operator among those of the outer one: their ids begin with `prefix/`.

    >>> [part.id for part in nested("inner", [Part("summary", 1, b"")])]
    ['inner/summary']
    """
    return [replace(part, id=f"{prefix}/{part.id}") for part in parts]


def within(prefix: str, parts: Iterable[Part]) -> list[Part]:
    """The parts of an inner operator as it gave them.

    >>> [part.id for part in within("inner", [Part("inner/summary", 1, b""), Part("own", 1, b"")])]
    ['summary']
    """
    start = f"{prefix}/"
    return [replace(part, id=part.id[len(start) :]) for part in parts if part.id.startswith(start)]


def only_part(id: str, parts: Iterable[Part]) -> Part:
    """The one part that is called so."""
    found = [part for part in parts if part.id == id]
    if len(found) != 1:
        raise StateError(
            "the saved state is not complete" if not found else "the saved state has parts of several states",
            detail=f"part {id!r} is there {len(found)} times",
            hint="save and restore all parts of one state together",
        )
    return found[0]


def pack(parts: Iterable[Part]) -> bytes:
    """A whole snapshot as bytes."""
    parts = list(parts)
    words = {"parts": [[part.id, part.version, part.range] for part in parts]}
    return encode(KIND, words, blobs={str(number): part.data for number, part in enumerate(parts)})


def unpack(data: bytes, place: str = "the saved state") -> list[Part]:
    """The parts of a snapshot; each is a container that checks itself when it is read."""
    stored = decode(data, KIND, place)
    with reading(place):
        listed = stored.words["parts"]
        if not all(isinstance(id, str) for id, _, _ in listed):
            raise ValueError("a part has no name")
        return [Part(id, version, stored.blobs[str(at)], range) for at, (id, version, range) in enumerate(listed)]
