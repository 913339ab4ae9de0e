"""Events as people see them, and their canonical order.

Time is int64 ticks. A point event has start == end. The canonical order (end, start, eid) is the order that sums,
first/last and repetitions use; equal timestamps never order events for SEQ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from typing import TypeAlias

Value: TypeAlias = bool | int | float | Decimal | str | None
Eid: TypeAlias = int | str

# Times lie strictly inside these, so that adding a window never overflows.
BEGINNING = -(2**62)
END_OF_TIME = 2**62
TIME_LIMIT = 2**61  # |time| and windows must be below this

ANY = ""  # as the type of a leaf: every event of the input; no type has an empty name


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `attrs` holds the attributes; a missing one is null."""

    type: str
    start: int
    end: int
    eid: Eid
    attrs: Mapping[str, Value] = field(default_factory=dict)
    source: str | None = None
    seq: int | None = None
    arrival: int | None = None

    def order(self) -> tuple[int, int, int, int]:
        """The canonical order."""
        return (self.end, self.start, *eid_number(self.eid))


def eid_number(eid: Eid) -> tuple[int, int]:
    """Two int64 numbers that identify an eid and order it: integers by value, texts by their first eight bytes.

    Texts that share their first eight bytes are ordered by a hash of the whole: arbitrary, but the same everywhere.

    >>> eid_number(7)
    (7, 0)
    >>> eid_number("a") < eid_number("b")
    True
    """
    if isinstance(eid, int):
        return eid, 0
    raw = eid.encode()
    prefix = int.from_bytes(raw[:8].ljust(8, b"\0"), "big") - 2**63
    return prefix, text_hash(raw)


def interval_eid(definition: str, key: Sequence[Value], label: str, start: int, occurrence: int) -> str:
    """The eid of a derived interval: 32 hex digits of a hash of all that tells it from others.

    definition  the identity of the definition that it comes from
    occurrence  how many intervals of the definition began before it under this key at the same time
    """
    lanes = zip(interval_seed(definition, *key), interval_seed(label), strict=True)
    words = (mix((mix((of_key ^ of_label) + start & MASK64) + occurrence) & MASK64) for of_key, of_label in lanes)
    return "".join(f"{word:016x}" for word in words)


def interval_seed(*told: Value) -> tuple[int, int]:
    """Two words of 64 bits in which a definition and a key, or a label, enter the eids of derived intervals."""
    text = json.dumps([*map(_in_hash, told)], separators=(",", ":"))
    raw = blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")


def _in_hash(value: Value) -> Value:
    """Equal keys are written alike, whatever their kind: 1 for 1.0, Decimal(1) and TRUE; other fractions as texts."""
    if isinstance(value, bool | float | Decimal):
        return int(value) if value == int(value) else str(value)
    return value


def text_hash(raw: bytes) -> int:
    """FNV-1a over the bytes, then a mixing step; as int64, never 0 (0 marks integer eids).

    `encode.eids.hash_texts` computes it for whole columns.
    """
    value = 0xCBF29CE484222325
    for byte in raw:
        value = ((value ^ byte) * 0x100000001B3) & MASK64
    value = mix(value)
    return (value - 2**64 if value >= 2**63 else value) or 1


MASK64 = 2**64 - 1


def mix(value: int) -> int:
    """The splitmix64 finaliser: spreads every input bit over all 64 output bits."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK64
    return value ^ (value >> 31)
