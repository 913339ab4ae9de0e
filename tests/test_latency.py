"""Single events take a short way of their own: the same answers as any other way, in a few microseconds.

Also what that way relies on: rows that are kept as dicts, and eids that are computed only for rows that are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests.effort import examples
from tests.steps import steps
from tocsin.encode import Columns, Encoder, from_dicts, infer_schema
from tocsin.encode.content import auto_eid, content_hash, row_hash
from tocsin.encode.row import LentRow, RowEncoder
from tocsin.engine import ledger, payload
from tocsin.engine.detector import Detector
from tocsin.engine.payload import Payload
from tocsin.events import Event
from tocsin.items import Strings
from tocsin.lang.syntax import Query
from tocsin.run.session import Session
from tocsin.testing.strategies import SCHEMA, pair

pytestmark = pytest.mark.filterwarnings("ignore::tocsin.errors.TocsinWarning")  # drawn queries say strange things

Row = dict[str, Any]
SEQUENCE = "EVENT SEQ(A a, B b, C c) WHERE [key] AND b.v > a.v WITHIN 100"


def as_dict(event: Event, *, eid: bool) -> Row:
    times = {"time": event.start} if event.start == event.end else {"time": event.start, "end": event.end}
    return {"type": event.type, **times, **({"eid": event.eid} if eid else {}), **event.attrs}


def drawn(number: int, *, eid: bool, intervals: bool) -> tuple[Query, list[Row]]:
    query, events = pair(Random(f"latency {number}"), intervals=intervals)
    rows = [as_dict(event, eid=eid) for event in sorted(events, key=lambda event: event.end)]
    if intervals:
        rows = [{**row, "end": row.get("end", row["time"])} for row in rows]
    return query, rows


def stream(query: Query, **options: Any) -> Session:
    return tocsin.query(query).stream(schema=SCHEMA, jit=False, endless=False, **options)


def followed(session: Session, rows: Sequence[Row]) -> list[tuple[int, Row]]:
    """(number of the push, match) for every match; -1 is the end of the stream."""
    found = [(at, match) for at, row in enumerate(rows) for match in session.push(row)]
    return found + [(-1, match) for match in session.close()]


def plain(match: Row) -> Row:
    """A match without the time at which it was known, NaN made comparable."""
    return {name: repr(value) for name, value in match.items() if name != "settled_at"}


def same(some: Sequence[Row], others: Sequence[Row]) -> bool:
    return sorted(map(repr, map(plain, some))) == sorted(map(repr, map(plain, others)))


# --- the same answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eid", [True, False], ids=["eid", "no eid"])
@pytest.mark.parametrize("intervals", [True, False], ids=["intervals", "points"])
@pytest.mark.parametrize("block", range(examples(5, least=2)))
def test_single_dicts_give_the_matches_of_the_whole(block: int, intervals: bool, eid: bool) -> None:
    for number in range(12 * block, 12 * block + 12):
        query, rows = drawn(number, eid=eid, intervals=intervals)
        expected = list(tocsin.query(query).detect(rows, schema=SCHEMA, jit=False))
        found = [match for _, match in followed(stream(query), rows)]
        assert same(found, expected), f"{query}\n{rows}"


@pytest.mark.parametrize("order", ["in-order", "any"])
@pytest.mark.parametrize("eid", [True, False], ids=["eid", "no eid"])
@pytest.mark.parametrize("block", range(examples(5, least=2)))
def test_the_short_way_answers_like_the_long_way(
    block: int, eid: bool, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Push by push, with the moment at which each match was known."""
    ways = {"short": 0, "all": 0}
    push_one, push_rows = Detector._push_one, Detector._push_rows

    def counted(self: Detector, one: LentRow) -> Any:
        ways["all"] += 1
        return push_one(self, one)

    def long(self: Detector, items: Any) -> Any:
        ways["short"] -= isinstance(items, LentRow)
        return push_rows(self, items)

    for number in range(100 + 12 * block, 100 + 12 * block + 12):
        query, rows = drawn(number, eid=eid, intervals=number % 2 == 0)
        if order == "any":
            Random(number).shuffle(rows)
        with monkeypatch.context() as patched:
            patched.setattr(Detector, "_push_one", counted)
            patched.setattr(Detector, "_push_rows", long)
            short = followed(stream(query, order=order), rows)
        with monkeypatch.context() as patched:
            patched.setattr(Detector, "_push_one", lambda self, one: self.push(one.copy()))
            long_way = followed(stream(query, order=order), rows)
        assert repr(long_way) == repr(short), f"{query}\n{rows}"  # NaN, too, is written as it is
    assert ways["all"] + ways["short"] > ways["all"] // 4  # many did take the short way


def test_a_learnt_schema_gives_the_same() -> None:
    for number in range(40):
        query, rows = drawn(number, eid=False, intervals=False)
        named = {"type": "A", "time": -100, "id": 1, "v": 1, "w": 1.0, "s": "s", "ok": True, "x": 1}
        learnt = tocsin.query(query).stream(jit=False, endless=False)
        declared = stream(query)
        known = set(named)
        rows = [{name: value for name, value in row.items() if name in known} for row in rows]
        own = {name: value for name, value in named.items() if name != "x"}  # only A and B have it
        rows = [named, *({**(named if row["type"] in "AB" else own), **row} for row in rows)]
        found = [[match for _, match in followed(session, rows)] for session in (learnt, declared)]
        ids = [sorted((match["match_id"], match["op"]) for match in each) for each in found]
        assert ids[0] == ids[1], f"{query}\n{rows}"


def test_several_queries_share_one_event() -> None:
    text = "QUERY x EVENT SEQ(A a, B b) WITHIN 5; QUERY y EVENT SEQ(B b, A a) WHERE a.v > b.v WITHIN 5"
    rows = [{"type": "AB"[at % 2], "time": at, **({"v": at % 3} if at % 4 else {})} for at in range(40)]
    found = list(tocsin.query(text).stream(jit=False).follow(rows))
    assert same(found, list(tocsin.query(text).detect(rows, jit=False)))
    assert {match["query"] for match in found} == {"x", "y"}


def test_a_dict_may_be_used_again_after_it_was_pushed() -> None:
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE [k]").stream(jit=False)
    row: Row = {"type": "A", "time": 0, "k": "first"}
    found = []
    for at in range(6):
        row.update(type="AB"[at % 2], time=at, k="odd" if at % 3 else "even")
        found += list(session.push(row))
    assert [(match["a"]["k"], match["a"]["start"], match["b"]["k"], match["b"]["start"]) for match in found] == [
        ("even", 0, "even", 3), ("odd", 2, "odd", 5), ("odd", 4, "odd", 5),
    ]  # fmt: skip


def test_batches_and_single_events_may_take_turns() -> None:
    random = Random(3)
    rows = [
        {"type": random.choice("ABCD"), "time": at // 3, "key": random.randint(0, 2), "v": random.random()}
        for at in range(600)
    ]
    query = tocsin.query("EVENT SEQ(A a, B b, C c) WHERE [key] AND b.v > a.v WITHIN 12")
    session, found, at = query.stream(jit=False), [], 0
    while at < len(rows):
        step = random.choice((1, 1, 1, 2, 5))
        found += list(session.push(rows[at] if step == 1 else rows[at : at + step]))
        at += step
        if random.random() < 0.05:
            session, state = query.stream(jit=False), session.save()
            session.restore(state)
    assert same(found + list(session.close()), list(query.detect(rows, jit=False)))


# --- rows as dicts -------------------------------------------------------------------------------------------------


def test_what_expires_never_becomes_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    session = tocsin.query("EVENT SEQ(A a, B b) WITHIN 10").stream(jit=False, schema={"*": {"v": "int"}})
    session.push({"type": "B", "time": 0, "v": 0})
    made = []
    items = RowEncoder.items
    monkeypatch.setattr(RowEncoder, "items", lambda self, rows: made.append(len(rows)) or items(self, rows))
    for at in range(3000):
        assert len(session.push({"type": "A", "time": at, "v": at})) == 0
    kept = session._graph.stages[0].operator.payload  # type: ignore[union-attr]
    assert made == [] and len(kept.tail) - kept.head <= 32 and len(kept.tail) < 2500
    assert len(session.push({"type": "B", "time": 3000, "v": 0})) == 10
    assert sum(made) <= 32


@pytest.mark.parametrize("order", ["in-order", "any"])
def test_very_many_single_rows_become_chunks(order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MOST_SINGLE": 64, "AT_ONCE": 16, "SMALL": 64, "MERGED": 4}.items():
        monkeypatch.setattr(payload, name, value)
    query = tocsin.query("EVENT SEQ(A a, B b) WITHIN 500")
    rows = [{"type": "A", "time": at // 2, "v": at % 5 // 4} for at in range(900)] + [
        {"type": "B", "time": 450, "v": 0}
    ]
    session = query.stream(jit=False, order=order, schema={"*": {"v": "int"}})
    found = [match for row in rows for match in session.push(row)]
    kept = session._graph.stages[0].operator.payload  # type: ignore[union-attr]
    assert 0 < len(kept.chunks) < 40
    assert len(found) == 900
    assert same(found, list(query.detect(rows, jit=False)))


# --- computed eids -------------------------------------------------------------------------------------------------


def straightforward(rows: Sequence[Row]) -> list[str]:
    """The eid of every row, one after the other."""
    encoder = encoder_for(rows)
    hashes = content_hash(encoder.encode(from_dicts(list(rows))).payload).view(np.int64).tolist()
    seen: dict[int, int] = {}
    eids = []
    for each in hashes:
        eids.append(auto_eid(each, seen.setdefault(each, 0)))
        seen[each] += 1
    return eids


def encoder_for(rows: Sequence[Row]) -> Encoder:
    batch = from_dicts(list(rows))
    return Encoder(infer_schema(batch.schema, Columns().resolve(batch.schema.names)), ("A", "B", "C"), Strings())


@pytest.mark.parametrize("ordered", [True, False], ids=["in order", "any order"])
@pytest.mark.parametrize("number", range(20))
def test_computed_eids_are_those_of_the_straightforward_way(
    number: int, ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MERGED": 3, "SMALL": 20, "AT_ONCE": 8}.items():
        monkeypatch.setattr(payload, name, value)
    random = Random(number)
    rows = [
        {
            "type": random.choice("ABCD"),
            "time": at // 6,
            "v": random.choice((0.0, -0.0, 1.5, None)),
            "s": random.choice("xy"),
        }
        for at in range(300)
    ]
    if not ordered:
        random.shuffle(rows)
    encoder, kept = encoder_for(rows), Payload(ordered=ordered)
    encoder.encode(from_dicts(rows))
    single = RowEncoder(encoder, encoder.now)
    at = 0
    while at < len(rows):
        if random.random() < 0.5:
            kept.add_row(at, rows[at]["time"], rows[at], single)
            at += 1
            continue
        step = random.randint(1, 30)
        items = encoder.encode(from_dicts(rows[at : at + step]))
        wanted = items.types >= 0 if random.random() < 0.5 and (items.types >= 0).any() else None
        kept.add(at, items, wanted, int(items.end.max()))
        at += step
    expected = straightforward(rows)
    known = [at for at, row in enumerate(rows) if row["type"] != "D"]
    for count in (1, 3, 40, len(known)):
        asked = np.array(sorted(random.sample(known, count)), np.int64)
        for shown in (kept.view([asked]).rows(asked), kept.rows(asked)):
            assert shown.eids.to_pylist() == [expected[at] for at in asked.tolist()]
            assert shown.end.tolist() == [rows[at]["time"] for at in asked.tolist()]
            assert shown.table.column("s").to_pylist() == [rows[at]["s"] for at in asked.tolist()]


def test_a_view_keeps_what_is_forgotten_later() -> None:
    rows = [{"type": "A", "time": at, "v": at} for at in range(50)]
    encoder, kept = encoder_for(rows), Payload()
    encoder.encode(from_dicts(rows))
    single = RowEncoder(encoder, encoder.now)
    kept.add(0, encoder.encode(from_dicts(rows[:20])), None, 19)
    for at in range(20, 50):
        kept.add_row(at, at, rows[at], single)
    asked = np.array([3, 25], np.int64)
    view = kept.view([asked])
    kept.tidy(45)
    assert not kept.chunks and [number for number, _, _ in kept.tail[kept.head :]] == [45, 46, 47, 48, 49]
    assert view.rows(asked).table.column("v").to_pylist() == [3, 25]


def test_a_content_hash_does_not_depend_on_how_texts_are_stored() -> None:
    texts = [f"text {at % 1500}" for at in range(4000)] + [None]
    whole = pa.record_batch({"t": pa.array(texts), "n": pa.array(range(4001))})
    coded = pa.record_batch({"n": whole["n"], "t": whole["t"].dictionary_encode()})
    hashes = content_hash(whole)
    assert (content_hash(coded) == hashes).all()
    some = pa.array([5, 1700, 4000])
    assert (content_hash(coded.take(some)) == hashes[some.to_numpy()]).all()
    assert len(np.unique(hashes)) == 4001


@given(
    v=st.none() | st.floats(allow_nan=False) | st.integers(-9, 9),
    s=st.none() | st.text(st.characters(max_codepoint=127)),
    n=st.none() | st.integers(-(2**63), 2**63 - 1),
    ok=st.none() | st.booleans(),
)
def test_one_row_has_the_hash_that_it_has_in_a_batch(v: Any, s: Any, n: Any, ok: Any) -> None:
    encoder = encoder_for([{"type": "A", "time": 0, "v": 0.5, "s": "s", "n": 1, "ok": True}])
    encoder.encode(from_dicts([{"type": "A", "time": 0, "v": 0.5, "s": "s", "n": 1, "ok": True}]))
    row = {"type": "B", "time": 7, "v": v, "s": s, "n": n, "ok": ok}
    single = RowEncoder(encoder, encoder.now)
    if n is not None and abs(n) > 2**53:  # such a column never becomes one of floats: that is settled the long way
        assert not single.read(row)
        return
    assert single.read(row)
    assert row_hash(single.content(row)) == content_hash(single.one.payload).view(np.int64)[0]


# --- the ledger ----------------------------------------------------------------------------------------------------


def test_the_ledger_forgets_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "FEW", 8)
    query = tocsin.query("EVENT EXISTS x : SEQ(A a, X x, B b) WITHIN 6")
    rows = [{"type": "AXXB"[at % 4], "time": at // 2} for at in range(2000)]
    session = query.stream(jit=False)
    found = list(session.follow(rows))
    book = session._graph.stages[0].operator.ledger  # type: ignore[union-attr]
    assert book is not None and len(book.counts) < 200 < len(found)
    assert same(found, list(query.detect(rows, jit=False)))


# --- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.jit
def test_one_event_takes_few_steps() -> None:
    """One event is a few microseconds because it is a few calls; the benchmarks measure the time."""
    random = Random(1)
    never = SEQUENCE.replace("AND", "AND a.v + b.v + c.v > 3 AND")
    session = tocsin.query(never).stream(schema={"*": {"key": "int", "v": "float"}})
    rows = [
        {"type": random.choice("ABC"), "time": at // 3, "key": random.randint(0, 99), "v": random.random()}
        for at in range(4000)
    ]
    for row in rows[:1000]:
        session.push(row)
    counts = [steps(lambda row=row: session.push(row)) for row in rows[1000:]]
    assert np.percentile(counts, 50) < 50
