"""The loops that write tables of matches give what Arrow and plain code give: for any layout, with nulls, in pieces."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tocsin.encode import content, rehearsal
from tocsin.encode.content import content_hash, hex_texts
from tocsin.encode.gather import all_taken, taken
from tocsin.engine.number_set import NumberSet, distinct
from tocsin.run import answers, feeds, pace

TEXTS = ("", "u", "ü", "user-0001", "sixteen bytes ..", "longer than sixteen bytes", "日本語テキスト", "\0", "x" * 300)


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(rehearsal, "MANY_SHOWN", 1)


@pytest.fixture
def plainly(monkeypatch):
    """What a function gives without the compiled loops."""

    def run(function):
        with monkeypatch.context() as without:
            without.setattr(rehearsal, "MANY_SHOWN", 1 << 60)
            return function()

    return run


def columns(draw: random.Random, count: int) -> dict[str, pa.Array]:
    """A column of each kind, some with nulls, that begin anywhere in their buffers."""
    nulls = draw.random() < 0.4
    skipped = draw.randrange(4)
    texts = [draw.choice([*TEXTS, *([None] if nulls else [])]) for _ in range(count + skipped)]
    numbers = [draw.choice([0, -1, 2**62, draw.randrange(9), *([None] if nulls else [])]) for _ in texts]
    reals = [draw.choice([0.0, -0.0, 1.5, float("nan"), *([None] if nulls else [])]) for _ in texts]
    coded = pa.DictionaryArray.from_arrays(
        pa.array([draw.randrange(3) for _ in texts], pa.int8()), pa.array(["a", None if nulls else "é", "b"])
    )
    made = {
        "string": pa.array(texts, pa.string()),
        "large": pa.array(texts, pa.large_string()),
        "view": pa.array(texts, pa.string_view()),
        "coded": coded,
        "int64": pa.array(numbers, pa.int64()),
        "time": pa.array(numbers, pa.int64()).cast(pa.timestamp("us", "UTC")),
        "float": pa.array(reals, pa.float64()),
        "int16": pa.array([None if each is None else each % 7 for each in numbers], pa.int16()),
        "bool": pa.array([None if each is None else each % 2 == 0 for each in numbers], pa.bool_()),
        "nothing": pa.nulls(len(texts)),
    }
    return {name: array.slice(skipped) for name, array in made.items()}


def in_pieces(array: pa.Array, draw: random.Random) -> pa.ChunkedArray:
    cuts = sorted({0, len(array), *(draw.randrange(len(array) + 1) for _ in range(draw.randrange(4)))})
    return pa.chunked_array([array.slice(a, b - a) for a, b in pairwise(cuts)], array.type)


def test_rows_are_taken_as_arrow_takes_them():
    for number in range(examples(300, least=12)):
        draw = random.Random(number)
        count = draw.choice((1, 3, 40))
        for name, array in columns(draw, count).items():
            if name == "view":  # which Arrow cannot take rows of
                continue
            places = np.array([draw.randrange(count) for _ in range(draw.choice((0, 1, 50)))], np.int64)
            places = np.sort(places) if draw.random() < 0.5 else places
            wanted = array.take(pa.array(places))
            for given in (array, in_pieces(array, draw)):
                found = taken(given, places)
                found.validate(full=True)
                assert isinstance(found, pa.Array)
                assert found.type == wanted.type
                assert found.cast(pa.string()).equals(wanted.cast(pa.string())), (number, name)


def test_bytes_that_are_no_utf8_are_copied_as_they_are():
    odd = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 2, 3], np.int32)), pa.py_buffer(b"\xff\xfea"))
    assert taken(odd, np.array([1, 0, 0])).cast(pa.binary()).to_pylist() == [b"a", b"\xff\xfe", b"\xff\xfe"]


def test_a_column_with_two_names_is_copied_once():
    numbers, others = pa.array([1, 2, 3]), pa.array([1, 2, 3])
    one, same, other, shifted = all_taken([numbers, numbers.slice(0), others, numbers.slice(1)], np.array([1, 0]))
    assert one is same
    assert other is not one
    assert (one.to_pylist(), other.to_pylist(), shifted.to_pylist()) == ([2, 1], [2, 1], [3, 2])


def test_content_hashes_are_those_of_plain_code(plainly):
    for number in range(examples(200, least=8)):
        draw = random.Random(number)
        chosen = {name: each for name, each in columns(draw, draw.choice((1, 30))).items() if draw.random() < 0.6}
        rows = pa.RecordBatch.from_pydict(chosen) if chosen else pa.RecordBatch.from_pydict({"a": pa.array(["x"])})
        assert content_hash(rows).tolist() == plainly(lambda rows=rows: content_hash(rows)).tolist()


def test_words_become_hexadecimal_digits():
    draw = random.Random(1)
    words = [0, 2**64 - 1, 0x0123456789ABCDEF, *(draw.randrange(2**64) for _ in range(200))]
    lanes = [np.array(words, np.uint64), np.array(words[::-1], np.uint64)]
    wanted = [f"{one:016x}{other:016x}" for one, other in zip(words, words[::-1], strict=True)]
    assert hex_texts(lanes).to_pylist() == wanted
    assert hex_texts(lanes[:1]).to_pylist() == [text[:16] for text in wanted]
    assert content.auto_eids(np.array([255, -1]), np.array([0, 2])).to_pylist() == ["00000000000000ff", "f" * 16 + "-2"]


def test_sets_of_numbers():
    for number in range(examples(300, least=12)):
        draw = random.Random(number)
        first, reach = draw.choice((0, 1, 63, 64, 10**12)), draw.choice((1, 64, 65, 5000, 10**7))
        several = [
            np.array(
                [draw.choice((-1, first + draw.randrange(reach))) for _ in range(draw.choice((0, 3, 60)))], np.int64
            )
            for _ in range(3)
        ]
        wanted = sorted({each for numbers in several for each in numbers.tolist() if each >= 0})
        assert distinct(several).tolist() == wanted
        found = NumberSet.of(several)
        assert found is not None or not wanted or wanted[-1] - wanted[0] > 256 * sum(map(len, several))
        if found is not None:
            asked = np.concatenate(several)
            places = {each: at for at, each in enumerate(wanted)} | {-1: -1}
            assert found.numbers.tolist() == wanted
            assert found.places(asked).tolist() == [places[each] for each in asked.tolist()]


QUERIES = (
    "EVENT SEQ(A a, B b) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, B+ b, C c) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, B? b, C c) WITHIN 4",
    "EVENT OR(SEQ(A a, B b), AND(A a, C c)) WHERE [k] WITHIN 5",
    "EVENT SEQ(A a, ANY x) WHERE [k] WITHIN 3",
    "EVENT SEQ(A a, !B b, C c) WHERE [k] WITHIN 9 SELECT a.k AS k, c.v AS v, a.eid AS e",
    "EVENT SEQ(A a, B? b, C c) WITHIN 4 SELECT start(a) AS s, end(b) AS b, b.v AS v, end(c) - start(a) AS long",
)


@pytest.mark.parametrize("text", QUERIES)
def test_tables_of_matches_are_those_of_plain_code(text, plainly, monkeypatch):
    """With events that are equal, so that eids have numbers, with values that are missing, and rows read in place."""
    for number in range(examples(40, least=2)):
        draw = random.Random(f"{text}{number}")
        count = 80
        table = pa.table({
            "type": [draw.choice("AABBCCD") for _ in range(count)],
            "time": sorted(draw.randrange(60) for _ in range(count)),
            "k": [draw.choice(TEXTS[:3]) for _ in range(count)],
            "v": pa.array([draw.choice((1, 2, None)) for _ in range(count)], pa.int64()),
        })  # fmt: skip
        layout = draw.choice((pa.string(), pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())))
        whole = table.set_column(0, "type", table.column("type").cast(layout))
        cuts = sorted({0, count, *(draw.randrange(count) for _ in range(draw.randrange(3)))})
        table = pa.concat_tables([whole.slice(a, b - a) for a, b in pairwise(cuts)])

        def found(table=table):
            return tocsin.query(text).detect(table, jit=False, threads=1).table()

        plain = plainly(found)
        assert found().equals(plain)
        with monkeypatch.context() as in_place:
            in_place.setattr(feeds, "MANY", 1)
            in_place.setattr(pace, "ROWS_PER_CHUNK", draw.choice((7, 512)))
            in_place.setattr(answers, "AT_ONCE", draw.choice((1, 3, 1 << 16)))
            assert found().equals(plain)
            assert plainly(found).equals(plain)
            some = draw.sample(plain.schema.names, draw.randrange(1, plain.num_columns))
            assert tocsin.query(text).detect(table, jit=False, threads=1).table(some).equals(plain.select(some))


def test_some_columns_of_several_queries():
    """A query that has none of them still has its rows; the others are null."""
    rows = pa.table({"type": ["A", "B", "A", "C"], "time": [1, 2, 3, 4]})
    text = "QUERY one EVENT SEQ(A a, B b) WITHIN 9; QUERY two EVENT SEQ(A x, C y) WITHIN 9"
    whole = tocsin.query(text).detect(rows).table()
    matches = tocsin.query(text).detect(rows)
    for names in (["b"], ["y", "query"], ["start"]):
        assert matches.table(names).equals(whole.select(names))
    assert matches.table().equals(whole)
    assert matches.table(["b", "op"]).equals(whole.select(["b", "op"]))
    for wrong, problem in ((["c"], tocsin.TocsinError), ("b", TypeError)):
        with pytest.raises(problem, match=r"no column 'c'|give a list"):
            matches.table(wrong)
    with tocsin.query("EVENT SEQ(A a, B b) WITHIN 9").stream() as stream:
        assert stream.push(rows).table(["end"]).to_pydict() == {"end": [2]}


@pytest.mark.jit
def test_all_loops_of_tables_are_rehearsed():
    from tocsin.encode import answer_loops as loops

    rehearsal.rehearse_answers()
    before = {name: list(value.signatures) for name, value in vars(loops).items() if hasattr(value, "signatures")}
    draw = random.Random(2)
    for layout in (pa.string(), pa.large_string()):
        texts = pa.array([draw.choice(TEXTS) for _ in range(50)], layout)
        table = pa.table({"type": ["A", "B"] * 25, "time": list(range(50)), "k": texts, "v": [0.5] * 50})
        for text in QUERIES:
            tocsin.query(text).detect(table, jit=False, threads=2).table()
    after = {name: list(value.signatures) for name, value in vars(loops).items() if hasattr(value, "signatures")}
    assert after == before
