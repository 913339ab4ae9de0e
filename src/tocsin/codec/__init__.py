"""The saved form of state: one container for all that is stored, and the parts that make up a snapshot.

Everything that leaves the memory of a process to be read again later goes through here: snapshots, the blocks and heads
of shards, spilled events. Reading it runs no code, and damaged or foreign bytes are a `StateError`.
"""

from tocsin.codec.container import (
    BLAKE,
    CRC,
    HINT,
    UNCHECKED,
    VERSION,
    Decoded,
    Scalar,
    as_number,
    as_numbers,
    as_numbers_by_name,
    as_record,
    as_shape,
    check_version,
    damaged,
    decode,
    encode,
    reading,
    stamp,
)
from tocsin.codec.snapshot_parts import Part, nested, only_part, pack, unpack, within

__all__ = [
    "BLAKE",
    "CRC",
    "HINT",
    "UNCHECKED",
    "VERSION",
    "Decoded",
    "Part",
    "Scalar",
    "as_number",
    "as_numbers",
    "as_numbers_by_name",
    "as_record",
    "as_shape",
    "check_version",
    "damaged",
    "decode",
    "encode",
    "nested",
    "only_part",
    "pack",
    "reading",
    "stamp",
    "unpack",
    "within",
]
