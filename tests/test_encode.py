"""Encoding: Arrow and Python values to numbers, exactly or with an error that names the row."""

from __future__ import annotations

import math
import signal
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.encode import BadRowError, Columns, Encoder, arrow, from_dicts, hash_texts, infer_schema
from tocsin.encode.columns import field_of
from tocsin.encode.keyless import keyless_rows
from tocsin.encode.row import RowEncoder
from tocsin.encode.times import micros, read_texts, ticks
from tocsin.errors import InputError
from tocsin.events import TIME_LIMIT, Event, eid_number
from tocsin.items import Strings
from tocsin.schema import Field, Kind, Schema


def encoded(columns: dict, *, types=("A", "B"), wanted=None, roles=None, schema=None, strings=None):
    batch = pa.RecordBatch.from_pydict(columns) if isinstance(columns, dict) else columns
    roles = roles or Columns()
    schema = schema or infer_schema(batch.schema, roles)
    return Encoder(schema, types, Strings() if strings is None else strings, roles, wanted).encode(batch)


def one(array: pa.Array, **options):
    """The encoded column of one attribute."""
    rows = len(array)
    items = encoded({"type": pa.array(["A"] * rows), "time": pa.array(range(rows)), "v": array}, **options)
    return items.columns["v"]


# --- which column is what ------------------------------------------------------------------------------------------


def test_columns_called_start_end_and_eid_are_found():
    assert Columns().resolve(["type", "start", "end", "eid"]) == Columns("type", "start", "end", "eid")


def test_a_time_column_wins_over_an_attribute_of_another_name():
    assert Columns(time="at").resolve(["type", "at", "time"]).attributes(["type", "at", "time"]) == ["time"]


def test_an_id_column_stays_an_attribute_when_it_is_the_eid():
    roles = Columns(eid="id").resolve(["type", "time", "id"])
    assert roles.attributes(["type", "time", "id"]) == ["id"]


@pytest.mark.parametrize(
    ("roles", "names", "message", "hint"),
    [
        (Columns(), ["time", "kind"], "no type column 'type'", "name the column that holds the type"),
        (Columns(), ["type", "times"], "no time column 'time'", "did you mean time='times'?"),
        (Columns(end="till"), ["type", "time"], "no end column 'till'", "till"),
        (Columns(eid="nr"), ["type", "time"], "no eid column 'nr'", "nr"),
        (Columns(), ["type", "time", "a", "a"], "two columns called 'a'", "rename"),
    ],
)
def test_wrong_columns_are_named(roles, names, message, hint):
    with pytest.raises(InputError, match=message) as error:
        roles.resolve(names)
    assert error.value.hint


def test_columns_called_like_what_every_event_has_are_no_attributes():
    names = ["kind", "at", "type", "start", "end", "eid", "tag"]
    columns = Columns(type="kind", time="at", end="at", eid="tag").resolve(names)
    assert columns.attributes(names) == ["tag"]
    assert columns.clashes(names) == {"type", "start", "end", "eid"}
    assert Columns().resolve(["type", "start", "end", "eid"]).clashes(["type", "start", "end", "eid"]) == frozenset()


def test_a_schema_is_inferred_from_arrow():
    schema = pa.schema(
        [
            ("type", pa.string()),
            ("time", pa.timestamp("ms")),
            ("i", pa.int8()),
            ("f", pa.float32()),
            ("t", pa.large_string()),
            ("d", pa.decimal128(9, 2)),
            ("b", pa.bool_()),
            ("at", pa.date32()),
            ("n", pa.null()),
            ("l", pa.list_(pa.int8())),
        ]
    )
    found = infer_schema(schema, Columns(), ["A"])
    kinds = {name: field.kind for name, field in found.common.items()}
    assert kinds == {
        "i": Kind.INT,
        "f": Kind.FLOAT,
        "t": Kind.TEXT,
        "d": Kind.DECIMAL,
        "b": Kind.BOOL,
        "at": Kind.TIME,
        "n": Kind.NULL,
    }
    assert (found.unit, found.open_types, found.intervals, list(found.types)) == ("us", False, False, ["A"])


def test_a_decimal_of_too_many_places_is_refused_with_its_name():
    with pytest.raises(InputError, match="'price' has 30 decimal places"):
        field_of(pa.field("price", pa.decimal128(38, 30)))


# --- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_become_microseconds(unit):
    moment = datetime(2024, 5, 1, 12, tzinfo=UTC)
    items = encoded({"type": ["A"], "time": pa.array([moment], pa.timestamp(unit, "Europe/Paris"))})
    assert items.start.tolist() == [int(moment.timestamp()) * 1_000_000]


def test_dates_are_midnights():
    assert micros(pa.array([date(1970, 1, 2)]))[0].tolist() == [86_400_000_000]
    assert micros(pa.array([date(1970, 1, 2)], pa.date64()))[0].tolist() == [86_400_000_000]


def test_nanoseconds_are_refused_unless_truncated():
    table = {"type": ["A", "A"], "time": pa.array([1000, 1001], pa.timestamp("ns"))}
    with pytest.raises(BadRowError, match="row 2: the time is finer than a microsecond") as error:
        encoded(table)
    assert "truncate" in error.value.hint
    assert encoded(table, roles=Columns(truncate=True)).start.tolist() == [1, 1]


def test_truncation_goes_down_before_1970_too():
    values, problems = ticks(pa.array([-1], pa.timestamp("ns")), "time", truncate=True)
    assert (values.tolist(), problems) == ([-1], [])


@pytest.mark.parametrize("bad", [TIME_LIMIT, -TIME_LIMIT, 2**63 - 1, -(2**63)])
def test_times_out_of_range_are_refused(bad):
    with pytest.raises(BadRowError, match="row 2: the time is out of range"):
        encoded({"type": ["A", "A"], "time": pa.array([0, bad], pa.int64())})


@pytest.mark.parametrize("good", [TIME_LIMIT - 1, 1 - TIME_LIMIT])
def test_times_just_inside_the_range_are_accepted(good):
    assert encoded({"type": ["A"], "time": pa.array([good], pa.int64())}).end.tolist() == [good]


def test_seconds_that_overflow_microseconds_are_out_of_range():
    with pytest.raises(BadRowError, match="out of range"):
        encoded({"type": ["A"], "time": pa.array([2**60], pa.timestamp("s"))})


def test_unsigned_times_beyond_64_bits_are_refused():
    with pytest.raises(BadRowError, match="row 1: the time does not fit into 64 bits"):
        encoded({"type": ["A"], "time": pa.array([2**64 - 1], pa.uint64())})


@pytest.mark.parametrize("column", [pa.array([1.5]), pa.array([True]), pa.array([[1]])])
def test_a_time_column_of_another_kind_is_refused(column):
    with pytest.raises(InputError, match="the time column is of type"):
        encoded({"type": ["A"], "time": column})


def test_a_null_time_names_its_row():
    with pytest.raises(BadRowError, match="row 3: the time is null"):
        encoded({"type": ["A"] * 3, "time": pa.array([1, 2, None])})


def test_a_null_type_names_its_row():
    with pytest.raises(BadRowError, match="row 2: the type is null"):
        encoded({"type": pa.array(["A", None]), "time": [1, 2]})


def test_an_end_before_its_start_names_its_row():
    with pytest.raises(BadRowError, match="row 2: the end is before the start"):
        encoded({"type": ["A", "A"], "time": [1, 5], "end": [1, 4]})


def test_texts_are_read_as_times():
    values, bad = read_texts(pa.array(["2024-01-01T00:00:00", None, "2024-01-02"]))
    assert values.to_pylist() == [
        datetime.fromisoformat("2024-01-01T00:00:00"),
        None,
        datetime.fromisoformat("2024-01-02T00:00:00"),
    ]
    assert not bad.any()


def test_texts_with_zones_are_read_as_instants():
    values, bad = read_texts(pa.array(["2024-01-01T02:00:00+02:00", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00"]))
    assert values.to_pylist()[:2] == [datetime(2024, 1, 1, tzinfo=UTC)] * 2
    assert bad.tolist() == [False, False, True]


def test_one_bad_text_does_not_change_what_the_others_mean():
    values, bad = read_texts(pa.array(["12", "x", "-3", "99999999999999999999"]))
    assert (values.to_pylist(), bad.tolist()) == ([12, None, -3, None], [False, True, False, True])


# --- values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64()])
def test_integers_become_int64(type):
    column = one(pa.array([1, None, 7], type))
    assert (column.kind, column.values.dtype, column.values.tolist()) == (Kind.INT, np.int64, [1, 0, 7])
    assert column.valid.tolist() == [True, False, True]


def test_a_column_without_nulls_is_not_copied():
    array = pa.array([1, 2, 3])
    assert one(array).values.base is not None
    assert one(array).valid is None


def test_an_unsigned_number_beyond_64_bits_is_refused():
    with pytest.raises(BadRowError, match="row 2: attribute 'v' does not fit into 64 bits"):
        one(pa.array([1, 2**63], pa.uint64()))


def test_a_broken_value_of_an_attribute_that_nobody_reads_does_not_matter():
    assert len(encoded({"type": ["A"], "time": [1], "v": pa.array([2**63], pa.uint64())}, wanted=[])) == 1


def test_floats_keep_nan_and_nulls_apart():
    column = one(pa.array([1.5, None, math.nan], pa.float32()))
    assert column.valid.tolist() == [True, False, True]
    assert math.isnan(column.values[2])


def test_booleans_are_zero_and_one():
    assert one(pa.array([True, False, None])).values.tolist() == [1, 0, 0]


@pytest.mark.parametrize("type", [pa.decimal128(9, 2), pa.decimal128(38, 2), pa.decimal256(50, 2)])
def test_decimals_are_whole_numbers_of_their_scale(type):
    column = one(pa.array([Decimal("1.25"), None, Decimal("-3.00")], type))
    assert (column.values.tolist(), column.scale) == ([125, 0, -300], 2)


@pytest.mark.parametrize("digits", [10**18, -(10**18), 10**20, 2**64, 2**64 + 5])
def test_decimals_of_more_than_18_digits_are_refused(digits):
    with pytest.raises(BadRowError, match="row 2: attribute 'v' has more than 18 digits"):
        one(pa.array([Decimal(1), Decimal(digits)], pa.decimal128(38, 0)))


def test_decimals_of_18_digits_are_exact():
    assert one(pa.array([Decimal(10**18 - 1)], pa.decimal128(38, 0))).values.tolist() == [10**18 - 1]


def test_sliced_decimals_are_read_from_their_own_rows():
    array = pa.array([Decimal(1), Decimal(2), Decimal(3)], pa.decimal128(5, 0)).slice(1, 2)
    assert one(array).values.tolist() == [2, 3]


@pytest.mark.parametrize(
    "type", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_texts_are_codes(type):
    strings = Strings()
    column = one(pa.array(["x", None, "y", "x"]).cast(type), strings=strings)
    assert [strings.text(int(code)) for code in column.values] == ["x", None, "y", "x"]


def test_a_null_inside_a_dictionary_is_a_null():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["x", None]))
    strings = Strings()
    assert [strings.text(int(code)) for code in one(array, strings=strings).values] == ["x", None, None]


def test_batches_that_share_a_dictionary_get_the_same_codes_even_after_texts_were_forgotten():
    strings = Strings()
    table = pa.table({"type": ["A"] * 4, "time": [1, 2, 3, 4], "v": pa.array(["p", "q", "p", "r"]).dictionary_encode()})
    encoder = Encoder(infer_schema(table.schema, Columns()), ("A",), strings)
    first, second = (encoder.encode(table.slice(at, 2)) for at in (0, 2))
    assert first.columns["v"].values[0] == second.columns["v"].values[0]
    strings.keep_only([])
    strings.code("other")
    again = encoder.encode(table.slice(0, 2)).columns["v"].values
    assert [strings.text(int(code)) for code in again] == ["p", "q"]


def test_types_nobody_asked_for_are_minus_one():
    assert encoded({"type": ["B", "X", "A"], "time": [1, 2, 3]}).types.tolist() == [1, -1, 0]
    assert encoded({"type": pa.array([7, 8]), "time": [1, 2]}, types=("8",)).types.tolist() == [-1, 0]


def test_a_type_dictionary_may_change_between_batches():
    encoder = Encoder(Schema(open_types=True), ("A", "B"), Strings())
    batches = [
        pa.table({"type": pa.array(each).dictionary_encode(), "time": [1, 2]}) for each in (["A", "B"], ["B", "A"])
    ]
    assert [encoder.encode(batch).types.tolist() for batch in batches] == [[0, 1], [1, 0]]


def test_text_where_a_number_was_declared_is_refused():
    schema = Schema(common={"v": Field("v", Kind.INT)}, open_types=True)
    with pytest.raises(InputError, match="attribute 'v' is int but its values are of type string"):
        one(pa.array(["1"]), schema=schema)


def test_whole_numbers_serve_where_floats_were_declared_if_exact():
    schema = Schema(common={"v": Field("v", Kind.FLOAT)}, open_types=True)
    assert one(pa.array([2**53]), schema=schema).values.tolist() == [2.0**53]
    with pytest.raises(BadRowError, match="too large to be a float exactly"):
        one(pa.array([2**53 + 2]), schema=schema)


def test_missing_columns_are_nulls():
    schema = Schema(common={"v": Field("v", Kind.TEXT), "w": Field("w", Kind.FLOAT)}, open_types=True)
    items = encoded({"type": ["A"], "time": [1]}, schema=schema)
    assert [items.columns[name].valid.tolist() for name in "vw"] == [[False], [False]]
    assert items.payload.schema.names == ["type", "start", "end", "v", "w"]


def test_empty_batches_are_encoded():
    items = encoded(pa.RecordBatch.from_pydict({"type": pa.array([], pa.string()), "time": pa.array([], pa.int64())}))
    assert len(items) == 0


# --- eids ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=20), max_size=20), st.integers(0, 3))
def test_hashes_of_columns_equal_those_of_events(texts, skip):
    high, low = hash_texts(pa.array(texts, pa.string()).slice(min(skip, len(texts))))
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == [eid_number(text) for text in texts[skip:]]


def test_integer_eids_are_themselves():
    items = encoded({"type": ["A", "A"], "time": [1, 2], "eid": [5, -9]})
    assert (items.eid_high.tolist(), items.eid_low.tolist()) == ([5, -9], [0, 0])


def test_without_an_eid_column_there_are_no_eids():
    assert encoded({"type": ["A"], "time": [1]}).eid_high is None


@pytest.mark.parametrize("eids", [pa.array([1, None]), pa.array(["x", None])])
def test_a_null_eid_names_its_row(eids):
    with pytest.raises(BadRowError, match="row 2: the eid is null"):
        encoded({"type": ["A", "A"], "time": [1, 2], "eid": eids})


def test_an_eid_of_another_kind_is_refused():
    with pytest.raises(InputError, match="the eid column is of type double"):
        encoded({"type": ["A"], "time": [1], "eid": [1.5]})


# --- payload -------------------------------------------------------------------------------------------------------


def test_the_payload_shows_ticks_and_attributes_as_they_came():
    at = pa.array([datetime.fromisoformat("2024-05-01T00:00:00")], pa.timestamp("ms"))
    items = encoded(
        {"kind": ["A"], "at": at, "nr": [4], "price": pa.array([Decimal("1.10")])},
        roles=Columns("kind", "at", eid="nr"),
    )
    row = items.payload.to_pylist()[0]
    assert row == {
        "type": "A",
        "start": 1714521600000000,
        "end": 1714521600000000,
        "eid": 4,
        "nr": 4,
        "price": Decimal("1.10"),
    }


def test_all_batches_of_a_stream_have_one_payload_schema():
    schema = Schema(common={"v": Field("v", Kind.FLOAT), "w": Field("w", Kind.TEXT)}, open_types=True)
    encoder = Encoder(schema, ("A",), Strings())
    rows = [{"type": "A", "time": 1, "v": 1.5}, {"type": "A", "time": 2, "w": "x"}, {"type": "A", "time": 3, "v": 2}]
    payloads = [encoder.encode(from_dicts([row])).payload for row in rows]
    assert payloads[0].schema == payloads[1].schema == payloads[2].schema


# --- Python objects ------------------------------------------------------------------------------------------------


def test_dicts_become_columns_of_one_kind_each():
    batch = from_dicts([{"type": "A", "time": 1, "v": 1, "s": "x"}, {"type": "B", "time": 2, "v": 2.5, "b": True}])
    assert batch.to_pylist()[0] == {"type": "A", "time": 1, "v": 1.0, "s": "x", "b": None}
    assert batch.schema.field("v").type == pa.float64()


def test_events_become_rows():
    event = Event("A", 1, 3, "e1", {"v": Decimal("1.5")}, source="s")
    assert from_dicts([event]).to_pylist() == [
        {"type": "A", "start": 1, "end": 3, "eid": "e1", "source": "s", "v": Decimal("1.5")}
    ]


def test_numpy_and_other_scalars_become_plain():
    class Grade(int):
        pass

    batch = from_dicts([{"v": np.int32(3), "w": np.float64(1.5), "g": Grade(4), "l": [1, {"a": 2}]}])
    assert batch.to_pylist() == [{"v": 3, "w": 1.5, "g": 4, "l": '[1, {"a": 2}]'}]


def test_whole_numbers_and_decimals_together_are_decimals():
    assert from_dicts([{"v": 1}, {"v": Decimal("0.25")}]).column("v").to_pylist() == [Decimal("1.00"), Decimal("0.25")]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"v": 1}, {"v": "x"}], "row 2: 'v' is text here and int elsewhere"),
        ([{"v": "x"}, {"v": None}, {"v": 1.5}], "row 3: 'v' is float here and text elsewhere"),
        ([{"v": True}, {"v": 1}], "row 2: 'v' is int here and bool elsewhere"),
        ([{"v": 2**63}], "row 1: 'v' does not fit into 64 bits"),
        ([{"v": 10**5000}], "row 1: 'v' does not fit into 64 bits"),
        ([{"v": 1.5}, {"v": 2**53 + 1}], "row 2: 'v' is too large to be a float exactly"),
        ([{"v": Decimal(10) ** 18}], "row 1: 'v' has more than 18 digits"),
        ([{"v": Decimal("NaN")}], "row 1: 'v' is no finite decimal"),
        (
            [{"v": Decimal("0.000001")}, {"v": Decimal(10) ** 15}],
            "row 2: 'v' has more than 18 digits at the scale of its column",
        ),
        ([{"v": "\ud800"}], "row 1: 'v' is not valid Unicode"),
        ([{"v": object()}], "row 1: 'v' is of type object"),
        (
            [{"v": datetime.fromisoformat("2024-01-01T00:00:00")}, {"v": datetime(2024, 1, 1, tzinfo=UTC)}],
            "row 2: 'v' has a time zone here",
        ),
    ],
)
def test_values_that_do_not_fit_name_attribute_row_and_kinds(rows, message):
    with pytest.raises(BadRowError, match="row") as error:
        from_dicts(rows)
    assert message in str(error.value)


def test_values_that_do_not_fit_can_be_noted_instead():
    problems: list = []
    batch = from_dicts([{"v": 1}, {"v": "x"}, {"v": 2**70}, {"v": 4}], problems)
    assert batch.column("v").to_pylist() == [1, None, None, 4]
    assert [(mask.tolist(), reason) for mask, reason in problems] == [
        ([False, True, False, False], "'v' is text here and int elsewhere"),
        ([False, False, True, False], "'v' does not fit into 64 bits"),
    ]


def test_timestamps_keep_their_instant_across_zones():
    zone = timezone(timedelta(hours=2))
    values = from_dicts([{"v": datetime(2024, 1, 1, 2, tzinfo=zone)}, {"v": datetime(2024, 1, 1, tzinfo=UTC)}]).column(
        "v"
    )
    assert values[0].as_py() == values[1].as_py()


@pytest.mark.parametrize("row", [1, "x", None, [("type", "A")]])
def test_what_is_no_event_is_refused(row):
    with pytest.raises(InputError, match="row 1: an event is a dict"):
        from_dicts([row])


def test_attribute_names_must_be_texts():
    with pytest.raises(InputError, match="names of attributes"):
        from_dicts([{1: 2}])


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.decimals(),
    st.datetimes(),
    st.dates(),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
)


@given(st.lists(scalars, max_size=6))
def test_any_values_are_taken_exactly_or_refused(values):
    try:
        column = from_dicts([{"v": value} for value in values]).column("v") if values else pa.array([])
    except InputError:
        return
    for before, after in zip(values, column.to_pylist(), strict=True):
        if isinstance(before, float) and math.isnan(before):
            assert math.isnan(after)
        elif isinstance(before, date) and isinstance(after, datetime):
            assert str(before) in after.isoformat(" " if "T" not in str(before) else "T")
        elif not isinstance(before, list):
            assert before == after


# --- single rows ---------------------------------------------------------------------------------------------------

FIELDS = {"i": Kind.INT, "f": Kind.FLOAT, "t": Kind.TEXT, "b": Kind.BOOL}
plain_rows = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["A", "B", "Z"]),
        "time": st.integers(-5, 5),
        "eid": st.sampled_from(["x", "y", "longer than eight"]),
    },
    optional={
        "i": st.none() | st.integers(-3, 2**63),
        "f": st.none() | st.floats(allow_nan=False) | st.integers(-(2**54), 2**54),
        "t": st.none() | st.text(max_size=3),
        "b": st.none() | st.booleans(),
        "other": st.integers(),
    },
)


@given(plain_rows)
def test_a_single_row_is_encoded_like_a_batch_or_left_to_it(row):
    schema = Schema(common={name: Field(name, kind) for name, kind in FIELDS.items()}, open_types=True)
    encoder = Encoder(schema, ("A", "B"), Strings())
    first = {"type": "A", "time": 0, "eid": "e", "i": 1, "f": 1.5, "t": "t", "b": True}
    encoder.encode(from_dicts([first]))
    items = RowEncoder(encoder, encoder.now).encode(row)
    if items is None:
        return
    batch = encoder.encode(from_dicts([row]))
    for name in ("types", "start", "end", "eid_high", "eid_low"):
        assert getattr(items, name).tolist() == getattr(batch, name).tolist(), name
    for name, column in batch.columns.items():
        mine = items.columns[name]
        valid = [column.valid is None or bool(column.valid[0]), mine.valid is None or bool(mine.valid[0])]
        assert (mine.kind, mine.values.tolist(), valid[0]) == (column.kind, column.values.tolist(), valid[1])
    assert items.payload.equals(batch.payload)


@pytest.mark.parametrize(
    "row",
    [
        {"type": "A"},
        {"time": 1},
        {"type": "A", "time": None},
        {"type": "A", "time": 1.0},
        {"type": "A", "time": 2**61},
        {"type": "A", "time": 1, "i": "x"},
        {"type": "A", "time": 1, "i": True},
        {"type": "A", "time": 1, "new": 1},
    ],
)
def test_rows_that_are_not_plain_take_the_longer_way(row):
    encoder = Encoder(Schema(common={"i": Field("i", Kind.INT)}, open_types=True), ("A",), Strings())
    encoder.encode(from_dicts([{"type": "A", "time": 0}]))
    assert RowEncoder(encoder, encoder.now).encode(row) is None


def test_a_row_without_the_column_of_a_key_lacks_the_key():
    rows = pa.RecordBatch.from_pylist([{"type": "A"}, {"type": "B"}])
    assert keyless_rows(rows, "type", {"k": frozenset("A")}).tolist() == [True, False]
    assert keyless_rows(rows.slice(0, 0), "type", {"k": frozenset("A")}).tolist() == []


def test_an_interrupt_is_not_lost_while_pandas_is_imported(monkeypatch):
    """Arrow swallows one that comes then."""

    def swallows(*_):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(arrow.pa, "array", swallows)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        arrow.look_for_pandas.__wrapped__()
    assert signal.getsignal(signal.SIGINT) is before
