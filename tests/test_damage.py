"""Bytes from outside that lie: whatever a file or a snapshot claims, the outcome is an answer or one clear error."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tocsin.codec import container as form
from tocsin.codec import decode, encode, pack, unpack
from tocsin.codec.snapshot_parts import Part
from tocsin.errors import InputError, StateError, TocsinError
from tocsin.shards.shard import Head
from tocsin.shards.timed_rows import TimedRows, released

TABLE = pa.table({"type": ["A", "B"] * 4, "time": list(range(8)), "k": ["x" * 3] * 8})
QUERY = tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 100")


def streamed(table: pa.Table, how: Any = pa.ipc.new_stream, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with how(sink, table.schema, **options) as out:
        out.write_table(table)
    return bytes(sink.getvalue())


def with_offsets(data: bytes, step: int, place: int, value: int) -> bytes:
    """The bytes with one wrong offset in the text column whose texts are `step` bytes long."""
    good = np.arange(0, 9 * step, step, dtype=np.int32)
    wrong = good.copy()
    wrong[place] = value
    assert data.count(good.tobytes()) == 1
    return data.replace(good.tobytes(), wrong.tobytes())


def negative_index() -> pa.Table:
    codes = pa.DictionaryArray.from_arrays(pa.array([1, -1] * 4, pa.int32()), pa.array(["x", "y"]), safe=False)
    return TABLE.set_column(2, "k", codes)


LIES = {
    "offsets of an attribute": lambda how: with_offsets(streamed(TABLE, how), 3, 4, 1_900_000_000),
    "offsets of the type": lambda how: with_offsets(streamed(TABLE, how), 1, 4, 1_900_000_000),
    "offsets that go back": lambda how: with_offsets(streamed(TABLE, how), 3, 4, -5),
    "an index below a dictionary": lambda how: streamed(negative_index(), how),
    "text that is not UTF-8": lambda how: streamed(TABLE, how).replace(b"x" * 24, b"\xff" * 24),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_arrow_files_that_lie_are_refused(lie, ending, tmp_path):
    path = tmp_path / f"events.{ending}"
    path.write_bytes(lie(pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream))
    with pytest.raises(InputError, match=r"events\.arrows? cannot be read as arrow"):
        QUERY.detect(path, jit=False)


# --- containers ----------------------------------------------------------------------------------------------------


def resealed(data: bytes) -> bytes:
    """A container that was changed, with the digest and the length that belong to it now."""
    _, version, _, _, head, check = form.HEADER.unpack_from(data)
    header = form.HEADER.pack(form.MAGIC, version, bytes(16), len(data), head, check)
    first, last, body = header[: form.DIGEST.start], header[form.DIGEST.stop :], data[form.HEADER.size :]
    return b"".join([first, form._digest([first, last, body], check), last, body])


def holding(table: bytes) -> bytes:
    """A container whose table is these bytes."""
    head = json.dumps(["test", {}, [["table", "rows", len(table)]]]).encode()
    gap = bytes(-(form.HEADER.size + len(head)) % form.ALIGNED)
    header = form.HEADER.pack(form.MAGIC, form.VERSION, bytes(16), 0, len(head), form.CRC)
    return resealed(header + head + gap + table)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_containers_whose_tables_lie_are_refused(lie):
    assert decode(holding(streamed(TABLE)), "test").tables["rows"].equals(TABLE)
    with pytest.raises(StateError, match="damaged"):
        decode(holding(lie(pa.ipc.new_stream)), "test")


def test_what_unpacks_to_far_more_than_it_takes_is_refused():
    many = pa.table({"v": pa.array(np.zeros(1 << 20, np.int64)), "c": pa.array(["x"] * (1 << 20)).dictionary_encode()})
    honest = streamed(many, options=pa.ipc.IpcWriteOptions(compression="lz4"))
    assert decode(holding(honest), "test").tables["rows"].equals(many)
    claimed = (1 << 23).to_bytes(8, "little")
    assert honest.count(claimed) == 1
    with pytest.raises(StateError, match="claims to hold"):
        decode(holding(honest.replace(claimed, (1 << 50).to_bytes(8, "little"))), "test")
    with pytest.raises(StateError, match="compressed in a way"):
        decode(holding(streamed(many, options=pa.ipc.IpcWriteOptions(compression="zstd"))), "test")


ARRAYS = [
    f'["test", {{}}, [["array", "a", 8, {dtype}, [1]]]]'.encode() for dtype in ('"O"', '"<i8,"', '",i8"', "5", '"M8"')
]


@pytest.mark.parametrize("head", [b"[" * 100_000, *ARRAYS, b"5", b"[1, 2]"])
def test_heads_that_lie_are_refused(head):
    header = form.HEADER.pack(form.MAGIC, form.VERSION, bytes(16), 0, len(head), form.CRC)
    with pytest.raises(StateError, match="damaged"):
        decode(resealed(header + head + bytes(128)), "test")


# --- snapshots edited by hand --------------------------------------------------------------------------------------

EVENTS = [{"type": "ABC"[t % 3], "time": t, "k": "xyz"[t % 2], "v": t * 1.5} for t in range(1, 40)]
LATER = [{"type": "A", "time": 50, "k": "x", "v": 1.0}, {"type": "B", "time": 60, "k": "x", "v": 1.0}]
ORDERS = ("in-order", "slack(20)", "conservative(20)", "aggressive(50)", "auto(20)", "hybrid(C=conservative, 20)")
RULE = tocsin.query("EVENT SEQ(A a, !C c, B b) WHERE [k] WITHIN 100")
VALUES = (None, True, -1, 0, 2**63, 2**70, -(2**63), 1e308, "x", [], {}, [1], {"a": 1}, [[1, 2], [3]], 10**25)


def edited(value: Any, dice: random.Random, depth: int = 0) -> Any:
    """A JSON value in which one thing was changed, left out or doubled."""
    if isinstance(value, (dict, list)) and value and depth < 5 and dice.random() > 0.3:
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        at, value = dice.choice(places), value.copy()
        if dice.random() < 0.3:
            del value[at]
        else:
            value[at] = edited(value[at], dice, depth + 1)
        return value
    return dice.choice(VALUES)


def with_part_edited(state: bytes, dice: random.Random) -> bytes:
    parts = unpack(state)
    at = dice.randrange(len(parts))
    kind, stored = form._read(memoryview(parts[at].data), "test")
    words, arrays = dict(stored.words), dict(stored.arrays)
    if words and dice.random() < 0.7:
        words = edited(words, dice)
    elif arrays:
        name = dice.choice(list(arrays))
        array = arrays[name].copy()
        if array.size and array.dtype.kind in "iu":
            array.reshape(-1)[dice.randrange(array.size)] = dice.choice([-1, 0, 1, 100])
        arrays[name] = array if dice.random() < 0.7 else array[: len(array) // 2]
    data = encode(kind, words, stored.tables, arrays, stored.blobs)
    parts[at] = Part(parts[at].id, parts[at].version, data, parts[at].range)
    return pack(parts)


@pytest.fixture(scope="module")
def states() -> dict[str, bytes]:
    found = {}
    for order in ORDERS:
        session = RULE.stream(order=order, jit=False)
        session.push(EVENTS)
        found[order] = session.save()
    return found


WRONG = {
    "clocks": None, "next": "x", "guarantee": [], "layout": 5, "stream": [], "units": {"q": 1}, "blocks": [{}],
    "closed": 0, "order": 1.5, "token": None, "memories": -1.5, "unknown": 1, "timed_ids": "no",
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [*WRONG.items(), ("clocks", {"a": "x"}), ("next", 2**64), ("blocks", None)])
def test_the_head_of_a_shard_with_another_kind_of_value_is_refused(name, value):
    stored = decode(Head("stream").data(), "shard")
    assert Head.read(encode("shard", stored.words)) == Head("stream")
    with pytest.raises(StateError, match="is damaged"):
        Head.read(encode("shard", {**stored.words, name: value}))


def test_blocks_of_a_log_whose_kinds_differ_are_refused():
    numbers = (np.array([1, 2]), np.array([3, 4], np.uint64))
    held = [TimedRows(pa.record_batch({"id": pa.array(each)}), np.array([1, 2])) for each in numbers]
    with pytest.raises(StateError, match="is damaged"):
        released(held, 9)


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63), 2**62 + 2**61, "1", 1.5, True])
def test_a_snapshot_with_an_impossible_number_is_refused(time):
    session = QUERY.stream(jit=False)
    session.push({"type": "A", "time": 1, "k": "x"})
    session.advance(3)
    parts = {part.id: part for part in unpack(session.save())}
    own = decode(parts["session"].data, "session")
    for changed in ({"advanced": time}, {"promised": [["A", None, time]]}):
        parts["session"] = Part("session", 0, encode("session", {**own.words, **changed}, own.tables))
        with pytest.raises(StateError, match="is damaged"):
            QUERY.stream(jit=False, state=pack(parts.values()))
    parts["session"] = Part("session", 0, encode("session", own.words, own.tables))
    name = next(name for name in parts if name.endswith("summary"))
    inner = decode(parts[name].data, "detector summary")
    data = encode("detector summary", {**inner.words, "next": time}, inner.tables, inner.arrays, inner.blobs)
    parts[name] = replace(parts[name], data=data)
    with pytest.raises(StateError, match="is damaged"):
        QUERY.stream(jit=False, state=pack(parts.values()))


def test_snapshots_edited_by_hand_are_read_or_refused(states):
    dice = random.Random(7)
    refused = 0
    for _ in range(examples(2000, least=150)):
        order = dice.choice(ORDERS)
        state = with_part_edited(states[order], dice)
        try:
            session = RULE.stream(order=order, jit=False, state=state)
            session.push(LATER)
            session.close()
        except TocsinError:
            refused += 1
    assert refused > 0


def test_snapshots_with_changed_bits_and_a_new_seal_are_read_or_refused(states):
    dice = random.Random(11)
    outcomes = Counter()
    for _ in range(examples(2000, least=150)):
        order = dice.choice(ORDERS)
        parts = unpack(states[order])
        at = dice.randrange(len(parts))
        data = bytearray(parts[at].data)
        data[dice.randrange(form.HEADER.size, len(data))] ^= 1 << dice.randrange(8)
        parts[at] = Part(parts[at].id, parts[at].version, resealed(bytes(data)), parts[at].range)
        try:
            session = RULE.stream(order=order, jit=False, state=pack(parts))
            session.push(LATER)
            session.close()
            outcomes["read"] += 1
        except TocsinError:
            outcomes["refused"] += 1
    assert outcomes["read"] > 0 and outcomes["refused"] > 0
