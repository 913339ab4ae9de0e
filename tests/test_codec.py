"""The saved form: what goes in comes out; bytes that are cut, changed, foreign or old are refused with one error."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.codec import (
    BLAKE,
    CRC,
    UNCHECKED,
    VERSION,
    Part,
    check_version,
    decode,
    encode,
    nested,
    only_part,
    pack,
    stamp,
    unpack,
    within,
)
from tocsin.codec import container as form
from tocsin.errors import StateError

TABLE = pa.table(
    {
        "whole": pa.array([1, None, 3], pa.int64()),
        "small": pa.array([1, None, 3], pa.uint8()),
        "float": pa.array([0.5, None, float("inf")]),
        "text": pa.array(["a", None, "öß"]),
        "coded": pa.array(["x", None, "x"]).dictionary_encode(),
        "yes": pa.array([True, None, False]),
        "money": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(12, 2)),
        "local": pa.array(
            [datetime(2024, 5, 1, 12, tzinfo=UTC), None, datetime(1969, 1, 1, tzinfo=UTC)], pa.timestamp("us")
        ),
        "zoned": pa.array([datetime(2024, 5, 1, 12, tzinfo=UTC), None, None], pa.timestamp("us", "Europe/Berlin")),
        "day": pa.array([date(2024, 5, 1), None, None]),
        "nested": pa.array([{"a": [1, 2]}, None, {"a": []}]),
        "nothing": pa.nulls(3),
    },
    metadata={"note": "kept"},
)
ARRAYS: dict[str, Any] = {
    "ints": np.array([-(2**63), 0, 2**63 - 1]),
    "words": np.array([2**64 - 1], np.uint64),
    "floats": np.array([0.1, np.nan, -np.inf]),
    "bools": np.array([True, False]),
    "codes": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    "signs": np.array([1, -1], np.int8),
    "empty": np.zeros((0, 2), np.int64),
    "big-endian": np.array([1, 256], ">i8"),
}
WORDS: dict[str, Any] = {
    "clock": -(2**62),
    "large": 2**64 - 1,
    "none": None,
    "list": [1, "ü", [True, 0.1]],
    "map": {"": 1},
}


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("check", [BLAKE, CRC, UNCHECKED])
def test_what_goes_in_comes_out(compress: bool, check: int) -> None:
    tables = {"all": TABLE, "some": TABLE.slice(1, 1), "none": TABLE.slice(0, 0), "bare": pa.table({})}
    data = encode("test", WORDS, tables, ARRAYS, {"raw": b"\0\1", "": b""}, compress=compress, check=check)
    back = decode(data, "test")
    assert dict(back.words) == WORDS
    assert back.version == VERSION
    for name, table in tables.items():
        back.tables[name].validate(full=True)
        assert back.tables[name].equals(table, check_metadata=True), name
        assert back.batch(name).num_rows == table.num_rows
    for name, array in ARRAYS.items():
        found = back.arrays[name]
        assert (found.dtype, found.shape) == (array.dtype.newbyteorder("="), array.shape)
        np.testing.assert_array_equal(found, array)
        assert found.flags.writeable
    assert dict(back.blobs) == {"raw": b"\0\1", "": b""}


def test_a_batch_of_several_chunks_is_one_batch() -> None:
    several = pa.concat_tables([TABLE, TABLE])
    assert pa.Table.from_batches([decode(encode("test", {}, {"t": several}), "test").batch("t")]).equals(
        several.combine_chunks()
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), JSON), st.lists(st.binary(), max_size=3))
def test_any_words_and_bytes(words: dict[str, Any], blobs: list[bytes]) -> None:
    named = {str(at): blob for at, blob in enumerate(blobs)}
    back = decode(encode("test", words, blobs=named), "test")
    assert (dict(back.words), dict(back.blobs)) == (words, named)


def test_a_name_that_is_missing_is_damage() -> None:
    back = decode(encode("test", {}), "test")
    for missing in (
        lambda: back.words["a"],
        lambda: back.tables["a"],
        lambda: back.arrays["a"],
        lambda: back.batch("a"),
    ):
        with pytest.raises(StateError, match="damaged"):
            missing()


# --- what is refused -----------------------------------------------------------------------------------------------

SMALL = {
    check: encode("test", {"a": 1}, {"t": pa.table({"a": [1, 2]})}, {"n": np.arange(3)}, {"b": b"xyz"}, check=check)
    for check in (BLAKE, CRC)
}


def refused(read: Callable[..., object], *given: Any) -> StateError:
    """The error with which bytes are refused; it says what to do."""
    with pytest.raises(StateError) as caught:
        read(*given)
    assert caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("check", [BLAKE, CRC])
def test_cut_short_anywhere(check: int) -> None:
    data = SMALL[check]
    for length in range(len(data)):
        assert refused(decode, data[:length], "test", "part x").message == "part x is damaged"
    refused(decode, data + b"\0", "test")


@pytest.mark.parametrize("check", [BLAKE, CRC])
def test_one_bit_changed_anywhere(check: int) -> None:
    data = bytearray(SMALL[check])
    for place in range(len(data)):
        for bit in range(8):
            data[place] ^= 1 << bit
            refused(decode, bytes(data), "test")
            data[place] ^= 1 << bit
    assert decode(bytes(data), "test").words["a"] == 1


def test_no_digest_where_there_was_one() -> None:
    """The byte that says which digest there is cannot switch it off."""
    at = form.HEADER.size - 4
    for data in SMALL.values():
        assert data[at] in (BLAKE, CRC)
        refused(decode, data[:at] + bytes([UNCHECKED]) + data[at + 1 :], "test")


def test_another_kind() -> None:
    error = refused(decode, SMALL[BLAKE], "shard head")
    assert "another kind" in error.message
    assert "'test'" in str(error.detail)


@pytest.mark.parametrize("version", [0, 1, 3, 999])
def test_another_version(version: int) -> None:
    data = SMALL[BLAKE][:6] + struct.pack("<H", version) + SMALL[BLAKE][8:]
    error = refused(decode, data, "test")
    assert f"format {version}" in error.message
    assert "upgrading" in str(error.hint)


@pytest.mark.parametrize("data", [b"", b"TOC", b"no state at all", b"{}", b'{"format": 7}', b"[]", bytes(100)])
def test_bytes_of_somebody_else(data: bytes) -> None:
    assert "damaged" in refused(decode, data, "test").message


def arrow_stream() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write(TABLE)
    data: bytes = sink.getvalue().to_pybytes()
    return data


FIRST = {
    "a session, a zip": b"PK\x03\x04" + bytes(60),
    "a part behind its digest": blake2b(b"{}", digest_size=16).digest() + b"{}",
    "the head of a shard": json.dumps({"format": 1, "stream": "x"}).encode(),
    "a block of a shard": arrow_stream(),
}


@pytest.mark.parametrize("name", FIRST)
def test_what_the_first_release_wrote(name: str) -> None:
    error = refused(decode, FIRST[name], "test", "the checkpoint")
    assert error.message == "the checkpoint was written by Tocsin 0.1, which this version does not read"
    assert "docs/upgrading.md" in str(error.hint)


def test_versions_that_are_text() -> None:
    check_version(VERSION)
    assert "Tocsin 0.1" in refused(check_version, 1, "the checkpoint").message
    for other in (3, None, "2", [2]):
        assert "format" in refused(check_version, other).message


def test_a_reader_for_the_release_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of readers is all that a new version needs."""
    old = SMALL[BLAKE]
    monkeypatch.setattr(form, "VERSION", 3)
    monkeypatch.setattr(form, "READERS", {2: form._read, 3: form._read})
    assert decode(old, "test").version == 2
    assert decode(encode("test", {"a": 2}), "test").version == 3


def test_stamps_tell_containers_apart() -> None:
    one, other = (encode("test", {"a": value}, check=CRC) for value in (1, 2))
    assert stamp(one) == stamp(encode("test", {"a": 1}, check=CRC)) != stamp(other)


# --- parts ---------------------------------------------------------------------------------------------------------

PARTS = [Part("summary", 3, b"abc"), Part("1.2", 9, b"", 1), Part("inner/x", 0, bytes(100), -1)]


def test_a_snapshot_is_its_parts() -> None:
    assert unpack(pack(PARTS)) == PARTS
    assert unpack(pack([])) == []


def test_parts_of_an_inner_operator() -> None:
    inner = [Part("summary", 1, b"i"), Part("deep/summary", 2, b"d", 5)]
    mine = [Part("summary", 9, b"own"), *nested("inner", inner), *nested("inner2", inner)]
    assert within("inner", mine) == inner
    assert within("deep", within("inner2", mine)) == [Part("summary", 2, b"d", 5)]
    assert only_part("summary", mine).data == b"own"


def test_a_part_that_is_missing_or_doubled() -> None:
    assert "not complete" in refused(only_part, "x", PARTS).message
    assert "several" in refused(only_part, "summary", PARTS + PARTS).message
