"""Composites: matches as events of later queries stay columns on the way; batches are made of what a result shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples
from tocsin.encode import merge
from tocsin.encode.batch import Encoder
from tocsin.encode.row_bases import JoinedRows, compacted, rows_at, stacked
from tocsin.graph import composites
from tocsin.graph.composites import CompositeRows, Composites

TEXT = """
QUERY Rise EVENT SEQ(A a, B b) WHERE [id] AND b.v > a.v WITHIN 6
  SELECT a.id AS id, a.name AS name, b.v AS v, b.price AS price, a.v + b.v AS total;
QUERY Twice EVENT SEQ(Rise x, Rise y, C c) WHERE x.id = c.id AND y.name = c.name WITHIN 20
  SELECT x.name AS name, y.total AS total, c.v AS v, y.price AS price;
EVENT SEQ(Twice t, D d) WHERE t.name = d.name WITHIN 30
"""
PLAIN = TEXT.replace(", a.v + b.v AS total", ", a.v AS total")  # then each column is an attribute as it is
Row = dict[str, Any]


def rows(random: Random, count: int = 40) -> list[Row]:
    """Events with nulls, of two users; some are equal."""
    made = []
    for at in range(count):
        id = random.randint(1, 2)
        name = None if random.random() < 0.1 else f"user {id}"
        price = None if random.random() < 0.2 else random.randint(1, 4) / 4
        made.append({"type": random.choice("ABBCD"), "time": at // 2, "id": id, "name": name, "v": random.randint(0, 3),
                     "price": price})  # fmt: skip
    return made


def found(text: str, made: list[Row], size: int, order: str, *, arrow: bool, restart: bool) -> Counter[str]:
    """All matches of a stream, pushed in pieces: those that are not taken back."""
    schema = {"*": {"id": "int", "name": "text", "v": "int", "price": "float"}}
    query = tocsin.query(text, schema=schema)
    live = query.stream(order=order, jit=False)
    said: list[Row] = []
    for at in range(0, len(made), size):
        part: Any = made[at : at + size]
        said += live.push(pa.Table.from_pylist(part) if arrow else part[0] if size == 1 else part)
        if restart and at > len(made) // 2:
            live = query.stream(order=order, jit=False, state=live.save())
            restart = False
    said += live.close()
    net: Counter[str] = Counter()
    for row in said:
        if order != "in-order":
            del row["settled_at"]  # out of order it depends on how events are cut
        op = row.pop("op")
        net[repr(row)] += op
    return +net


def made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches become batches before anybody asks."""
    late = Composites.items
    monkeypatch.setattr(Composites, "items", lambda self, changes: merge.replaced(late(self, changes)))


@pytest.mark.parametrize("text", [TEXT, PLAIN], ids=["computed", "plain"])
@pytest.mark.parametrize("order", ["in-order", "aggressive(4)", "conservative(4)"])
def test_columns_say_what_batches_say(text: str, order: str) -> None:
    """However events are cut and written, over a restart, too."""
    some = 0
    for seed in range(examples(60, least=2)):
        made = rows(Random(f"composites {seed}"))
        with pytest.MonkeyPatch.context() as patch:
            made_at_once(patch)
            expected = found(text, made, len(made), order, arrow=True, restart=False)
        some += len(expected)
        for size, arrow, restart in [
            (1, False, False),
            (1, False, True),
            (1, True, False),
            (7, True, True),
            (40, True, False),
        ]:
            assert found(text, made, size, order, arrow=arrow, restart=restart) == expected, (seed, size, arrow)
    assert some


@pytest.mark.parametrize("size", [1, 8])
def test_between_two_queries_no_batch_is_made(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches that are read, and are in no match of the reading query, are never shown; few of them are not encoded."""
    shown: list[int] = []
    encoded: list[Any] = []
    carried: list[int] = []
    at, items, encode = CompositeRows.at, Composites.items, composites.encode_column
    monkeypatch.setattr(CompositeRows, "at", lambda self, places: shown.append(len(places)) or at(self, places))
    monkeypatch.setattr(Composites, "items", lambda self, said: carried.append(len(said)) or items(self, said))
    monkeypatch.setattr(composites, "encode_column", lambda *given: encoded.append(given) or encode(*given))
    encoding = Encoder.encoded
    monkeypatch.setattr(Encoder, "encoded", lambda self, *given: encoded.append(given) or encoding(self, *given))
    text = """
    QUERY Rise HIDDEN EVENT SEQ(A a, B b) WHERE [id] WITHIN 6 SELECT a.id AS id, a.name AS name, b.v AS v;
    EVENT SEQ(Rise x, C c) WHERE x.id = c.id AND x.name = c.name AND x.v > c.v + 100 WITHIN 1000
    """
    live = tocsin.query(text).stream(jit=False)
    made = [row | {"name": "a", "price": 1.0} for row in rows(Random("between"), 200)]
    for row in (made[:1], *made[1:40]):
        assert not list(live.push(row))
    encoded.clear()  # of matches with the first event, which came as a list
    for first in range(40, len(made), size):
        assert not list(live.push(made[first] if size == 1 else pa.Table.from_pylist(made[first : first + size])))
    assert sum(carried) > 40
    assert not shown
    assert size > 1 or not encoded


def test_rows_of_several_sorts_stand_where_they_were_joined() -> None:
    """JoinedRows, cut and joined again, and made compact: the rows that one batch of all would have."""
    for seed in range(examples(400, least=30)):
        random = Random(f"joined {seed}")
        several = [pa.RecordBatch.from_pydict({"n": [random.randint(0, 99) for _ in range(random.randint(1, 5))]})
                   for _ in range(random.randint(1, 6))]  # fmt: skip
        whole = stacked(several)
        base: Any = JoinedRows.of([(each, None) for each in several])
        order = np.arange(whole.num_rows)
        for _ in range(random.randint(1, 4)):
            picked = np.array([random.randrange(len(order)) for _ in range(random.randint(1, 8))])
            base = random.choice([JoinedRows.of, compacted])([(base, order[picked])])
            whole, order = whole.take(pa.array(picked)), np.arange(len(picked))
        assert base.num_rows == whole.num_rows
        assert rows_at(base, order) == whole


class Listed:
    """Rows that are not made yet, as matches are."""

    def __init__(self, values: list[int]) -> None:
        self.values = values
        self.num_rows = len(values)
        self.nbytes = 8 * len(values)

    def at(self, places: Any) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"n": [self.values[place] for place in places.tolist()]})

    def some(self, places: Any) -> Listed:
        return Listed([self.values[place] for place in places.tolist()])

    def with_more(self, others: Sequence[Listed]) -> Listed:
        return Listed([value for each in (self, *others) for value in each.values])


def test_rows_that_left_a_chunk_are_not_kept_with_others() -> None:
    """Chunks are cut and joined for as long as a stream goes on: what has left them leaves memory."""
    random, base, expected = Random("left"), compacted([(Listed([0]), None)]), [0]
    for turn in range(60):
        fresh = [100 * turn + at for at in range(random.randint(1, 5))]
        more: Any = Listed(fresh) if random.random() < 0.5 else pa.RecordBatch.from_pydict({"n": fresh})
        stay = np.array(sorted(random.sample(range(len(expected)), min(len(expected), 3))))
        base, expected = compacted([(base, stay), (more, None)]), [expected[at] for at in stay.tolist()] + fresh
        assert rows_at(base, np.arange(len(expected))).column("n").to_pylist() == expected
        assert _rows_held(base) == len(expected)
        assert len(base.bases) <= 2


def _rows_held(base: Any) -> int:
    return sum(map(_rows_held, base.bases)) if isinstance(base, JoinedRows) else base.num_rows
