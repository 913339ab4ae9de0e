"""Damage to what is stored: containers whose checksums are made right again, so that what is inside is looked at."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Any

import numpy as np

from tocsin.codec.container import BLAKE, CRC, DIGEST, HEADER, MAGIC, Decoded, decode, encode
from tools.attack.mutate import damaged

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 7, 2**31, 2**62, 2**63 - 1, -(2**63), 2**64, 1.5, float("nan"), "", "x", "../x", [], [[]], {},
)  # fmt: skip


def hurt(random: Random, raw: bytes) -> tuple[bytes, bool]:
    """Return a container with damage, and whether its checksums are right all the same."""
    match random.randrange(4):
        case 0:
            return damaged(random, raw), False
        case 1:
            at = random.randrange(HEADER.size, len(raw))
            return repaired(raw[:at] + damaged(random, raw[at : at + 64], most=1) + raw[at + 64 :]), True
    return rewritten(random, raw), True


def repaired(raw: bytes) -> bytes:
    """Make lengths and digests right again, of the container and of those inside it, the innermost first."""
    found = bytearray(raw)
    places = [at for at in range(len(found)) if found.startswith(MAGIC, at)]
    for at in reversed(places):
        if len(found) - at < HEADER.size:
            continue
        magic, version, _, length, head, check = HEADER.unpack_from(found, at)
        length = len(found) if at == 0 else length
        if at + length > len(found):
            continue
        HEADER.pack_into(found, at, magic, version, bytes(16), length, head, check)
        body = bytes(found[at : at + DIGEST.start]) + bytes(found[at + DIGEST.stop : at + length])
        found[at + DIGEST.start : at + DIGEST.stop] = _digest(body, check)
    return bytes(found)


def _digest(body: bytes, check: int) -> bytes:
    if check == BLAKE:
        return blake2b(body, digest_size=16).digest()
    return zlib.crc32(body).to_bytes(16, "little") if check == CRC else bytes(16)


def rewritten(random: Random, raw: bytes) -> bytes:
    """Read a container, change one thing in it or in one that it holds, and write it again."""
    head, check = HEADER.unpack_from(raw)[4:6]
    kind = json.loads(raw[HEADER.size : HEADER.size + head])[0]
    held = decode(raw, kind)
    words, arrays, blobs = dict(held.words), dict(held.arrays), dict(held.blobs)
    changes: list[Callable[[], Any]] = []
    inner = [name for name, blob in blobs.items() if blob.startswith(MAGIC)]
    if inner:
        chosen = random.choice(inner)
        changes += 3 * [lambda: blobs.update({chosen: rewritten(random, blobs[chosen])})]
    if words:
        changes.append(lambda: _change(random, words))
    if arrays:
        changes += 2 * [lambda: _change_array(random, arrays)]
    if held.tables or blobs:
        changes.append(lambda: _drop(random, held, blobs))
    random.choice(changes)() if changes else None
    return encode(kind, words, held.tables, arrays, blobs, check=check)


def _change(random: Random, values: Any) -> None:
    """Change one value somewhere in words: another one, one that does not belong there, or none."""
    keys = list(values) if isinstance(values, dict) else list(range(len(values)))
    if not keys:
        return
    key = random.choice(keys)
    if isinstance(values[key], dict | list) and values[key] and random.random() < 0.8:
        _change(random, values[key])
    elif random.random() < 0.15:
        del values[key]
    elif isinstance(values[key], int) and random.random() < 0.5:
        values[key] = int(values[key]) + random.choice((-1, 1, 1000))
    else:
        values[key] = random.choice(ODD)


def _change_array(random: Random, arrays: dict[str, Any]) -> None:
    name = random.choice(list(arrays))
    array = arrays[name].copy()
    if random.random() < 0.2 or not array.size:
        arrays[name] = random.choice(
            (array[: len(array) // 2], np.concatenate([array, array]), array.astype("float32"))
        )
        return
    flat = array.reshape(-1)
    with np.errstate(all="ignore"):
        odd = np.array(random.choice((-1, 0, 1, 2**31, 2**40, 2**62, -(2**63), len(array)))).astype(array.dtype)
        flat[random.randrange(flat.size)] = odd
    arrays[name] = array


def _drop(random: Random, held: Decoded, blobs: dict[str, bytes]) -> None:
    """Take a table or bytes away, or give two tables each other's names."""
    tables: Any = held.tables
    names = list(tables)
    if len(names) > 1 and random.random() < 0.5:
        one, other = random.sample(names, 2)
        tables[one], tables[other] = tables[other], tables[one]
    elif names:
        name = random.choice(names)
        tables[name] = tables[name].slice(0, tables[name].num_rows // 2)
    elif blobs:
        del blobs[random.choice(list(blobs))]
