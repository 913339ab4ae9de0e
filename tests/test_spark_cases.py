"""All case files and hundreds of drawn pairs through Spark, batch and streaming, against the oracle.

A Spark job costs seconds, so everything is packed into one set of queries over one frame of events
(`tocsin.testing.packing`), and one job answers all of it at once: one as a batch, one as a stream that is stopped and
goes on. The same in one bucket is asked at length. A failure names its case.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tests.effort import examples, is_long
from tests.shard_support import CHAINS, arranged, chain_history
from tocsin.encode.columns import Columns, arrow_type, infer_schema
from tocsin.engine.kinds import ANSWERS
from tocsin.errors import TocsinError
from tocsin.events import Event
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import end
from tocsin.lang.parser import parse_all
from tocsin.run.query import Query, check_endless, plans_of
from tocsin.spark import Sink, detect, start
from tocsin.testing.cases import read_cases
from tocsin.testing.draw_clauses import with_clauses
from tocsin.testing.notation import events_of, history
from tocsin.testing.oracle import Match, composite
from tocsin.testing.oracle_count import counts_matches
from tocsin.testing.packing import Answer, PackedCase, packed
from tocsin.testing.strategies import history as drawn_history
from tocsin.testing.strategies import is_valid, pair

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("interpreted"),
    pytest.mark.filterwarnings("ignore:.*has no key.*"),
    pytest.mark.filterwarnings("ignore::tocsin.errors.TocsinWarning"),  # notes: drawn queries say strange things
]

DRAWN = examples(150, least=30)
BUCKETS = [pytest.param(1, marks=pytest.mark.long), 3]
LATE = 4  # ticks that events may be late in the streams
HEAD = ("query", "kind", "match_id", "op", "start", "end", "settled_at", "details")


# --- the pack --------------------------------------------------------------------------------------------------------


@cache
def asked_for() -> tuple[tuple[str, Sequence[Any], Sequence[Event]], ...]:
    """Everything that is asked, by name: the part of number n in a pack is the n-th of these."""
    return tuple(named_pairs())


def named_pairs() -> Iterator[tuple[str, Sequence[Any], Sequence[Event]]]:
    """The cases that a plain run answers; drawn pairs, half with a key, some with clauses; queries over queries."""
    for path in sorted((Path(__file__).parent / "cases").rglob("*.case")):
        for case in read_cases(path):
            if case.error is not None or "order" in case.options:
                continue
            under = any(getattr(query, "under", None) is not None for query in case.queries())  # not on Spark yet
            if not under and not any(map(counts_matches, case.queries())):  # rows that count: tests/test_counting.py
                yield str(case), parse_all(case.query), events_of(history(case.stream))
    for number in range(DRAWN):
        random = Random(f"spark {number}")
        query, events = pair(random, leaves=4)
        keyed = replace(query, partition=random.choice((("id",), ("s",), ("id", "ok"))))
        if number % 2 and is_valid(keyed):
            query, events = keyed, drawn_history(random, keyed)
        yield f"drawn pair {number}", [query], events
    for number in range(DRAWN // 5):
        random = Random(f"spark clauses {number}")
        query, events = pair(random, leaves=4)
        yield f"clauses pair {number}", [with_clauses(random, query)], events
    for text in CHAINS:
        queries = parse_all(text)
        for number in range(2):
            yield f"chain {text}", queries, chain_history(queries, Random(f"spark {text} {number}"))


@cache
def answered(*, texts: bool) -> tuple[tuple[PackedCase, Counter[Answer]], ...]:
    """Everything, each with a name of its own and what the oracle finds; with texts or with numbers for eids."""
    found: list[tuple[PackedCase, Counter[Answer]]] = []
    for number, (_, queries, events) in enumerate(asked_for()):
        part = packed(number, queries, events, texts=texts)
        with suppress(TocsinError):  # a leaf that is mentioned by its type and a number loses that name with its type
            found.append((part, part.expected()))
    return tuple(found)


def pack(*, texts: bool) -> tuple[PackedCase, ...]:
    return tuple(part for part, _ in answered(texts=texts))


def expected(*, texts: bool) -> dict[str, Counter[Answer]]:
    return {part.name: found for part, found in answered(texts=texts)}


def label(part: PackedCase) -> str:
    """The name of the case that a part was made of."""
    return asked_for()[int(part.name.removeprefix("q"))][0]


def schema_of(parts: Sequence[PackedCase]) -> pa.Schema:
    texts = isinstance(parts[0].events[0].eid, str)
    fields = {name: arrow_type(field) for part in parts for name, field in part.attributes.items()}
    head = [("type", pa.string()), ("start", pa.int64()), ("end", pa.int64())]
    return pa.schema([*head, ("eid", pa.string() if texts else pa.int64()), *sorted(fields.items())])


def write(path: Path, events: Sequence[Event], schema: pa.Schema, time: int = 0) -> None:
    rows = [{"type": e.type, "start": e.start, "end": e.end, "eid": e.eid, **e.attrs} for e in events]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    os.utime(path, (1_700_000_000 + time, 1_700_000_000 + time))  # files are read in the order of their times


def asked(parts: Sequence[PackedCase]) -> Query:
    return Query(tuple(query for part in parts for query in part.queries))


def test_the_pack_asks_enough() -> None:
    parts = pack(texts=False)
    cases, drawn = ([part for part in parts if label(part).startswith("drawn") == chance] for chance in (False, True))
    answers = expected(texts=False)
    for some, least in ((cases, (400, 250, 365)), (drawn, (DRAWN - 1, 2 * DRAWN // 5, DRAWN))):
        found = [answers[part.name] for part in some]
        asked = (len(some), sum(map(bool, found)), sum(each.total() for each in found))
        assert all(number > bound for number, bound in zip(asked, least, strict=True)), asked
    assert sum(len(part.queries) > 1 for part in parts) >= 2 * len(CHAINS)


# --- judging ---------------------------------------------------------------------------------------------------------


def shown(result: DataFrame) -> list[dict[str, Any]]:
    """What is compared of a result: the kind, the query, the sign, the eids of each variable, and the missing step."""
    names = [name for name in result.columns if name not in HEAD]
    eids = [sf.col(name if name == "step" else f"`{name}`.eid").alias(name) for name in names]
    rows: list[dict[str, Any]] = result.select("kind", "query", "op", *eids).toArrow().to_pylist()
    return rows


def disagreements(parts: Sequence[PackedCase], rows: Sequence[dict[str, Any]]) -> list[str]:
    """Each part whose matches are not the oracle's, each once."""
    wanted = expected(texts=isinstance(parts[0].events[0].eid, str))
    spelled = composites(parts)
    found: dict[str, Counter[Answer]] = {part.name: Counter() for part in parts}
    for row in (row for row in rows if row["query"] in found):  # in a pack others may answer too
        assert row["op"] == 1, row
        bound = {name: value for name, value in row.items() if name not in HEAD and value not in (None, [])}
        eids = {name: value if isinstance(value, list) else [value] for name, value in bound.items()}
        found[row["query"]][frozenset((k, tuple(spelled.get(eid, eid) for eid in v)) for k, v in eids.items())] += 1
    return [
        f"{label(part)}: {part.queries[-1]}\nmissing {wanted[part.name] - found[part.name]}\n"
        f"not expected {found[part.name] - wanted[part.name]}\n" + "\n".join(map(str, part.events))
        for part in parts
        if found[part.name] != wanted[part.name]
    ]


def composites(parts: Sequence[PackedCase]) -> dict[Any, str]:
    """The ids of matches that are events of other queries, with the eids that the oracle gives them."""
    schema = schema_of(parts)
    columns = Columns(time="start").resolve(schema.names)
    names: dict[Any, Any] = {}
    for part in (part for part in parts if len(part.queries) > 1 and part.events):
        known = infer_schema(schema, columns)
        graph = QueryGraph(plans_of(part.queries, known), known, columns, jit=False)
        rows = [{"type": e.type, "start": e.start, "end": e.end, "eid": e.eid, **e.attrs} for e in part.events]
        rows.sort(key=lambda row: row["end"])
        said = [graph.push(graph.encode(pa.RecordBatch.from_pylist(rows, schema=schema))), graph.push(end())]
        for stage, query in enumerate(part.queries[:-1]):
            for changes in (batch for step in said for batch in step if batch.stage == stage and batch.step is None):
                for key, (_, binding) in zip(changes.match_id.to_pylist(), changes.bindings(), strict=True):
                    plain = tuple((var, tuple(names.get(eid, eid) for eid in eids)) for var, eids in binding)
                    names[key] = composite(str(query.name), Match(plain, 0, 0)).eid
    return names


# --- batch -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buckets", BUCKETS)
def test_batch(spark: SparkSession, buckets: int, tmp_path: Path) -> None:
    parts = pack(texts=False)
    events = [event for part in parts for event in part.events]
    Random(buckets).shuffle(events)
    schema = schema_of(parts)
    write(tmp_path / "1.parquet", events[::2], schema)
    write(tmp_path / "2.parquet", events[1::2], schema)
    result = detect(spark.read.parquet(str(tmp_path)), asked(parts), eid="eid", buckets=buckets, jit=False)
    assert disagreements(parts, shown(result)) == []


# --- streams ---------------------------------------------------------------------------------------------------------


class Files:
    """A directory that gets one file for each micro-batch, and what a stream over it has said."""

    def __init__(self, spark: SparkSession, path: Path, parts: Sequence[PackedCase], buckets: int) -> None:
        self.spark, self.path, self.parts, self.buckets = spark, path, parts, buckets
        self.schema = schema_of(parts)
        self.rows: list[dict[str, Any]] = []
        self.other: Counter[str] = Counter()
        self.count = 0
        (path / "events").mkdir()

    def add(self, batches: Sequence[Sequence[Event]]) -> None:
        for batch in batches:
            self.count += 1
            write(self.path / "events" / f"{self.count:03}.parquet", batch, self.schema, time=self.count)

    def run(self, *, closing: bool) -> None:
        """Read what is there, file by file, from the checkpoint on."""
        folder = str(self.path / "events")
        shape = self.spark.read.parquet(folder).schema
        source = self.spark.readStream.schema(shape).option("maxFilesPerTrigger", 1).parquet(folder)
        result = detect(
            source, asked(self.parts), eid="eid", order=f"slack({LATE})", buckets=self.buckets, end_of_stream=closing,
            jit=False,
        )  # fmt: skip
        kinds = (*ANSWERS, "late", "bad")
        sink = Sink(self.take, kinds=kinds)
        query = start(result, sink, checkpoint=str(self.path / "checkpoint"), trigger={"availableNow": True})
        query.awaitTermination()

    def take(self, rows: DataFrame, batch: int) -> None:
        del batch
        for row in shown(rows):
            if row["kind"] in ANSWERS:
                self.rows.append(row)
            else:
                self.other[row["kind"]] += 1


def cut(events: Sequence[Event], pieces: int, random: Random) -> list[list[Event]]:
    """Micro-batches of random sizes, in an order of arrival in which nothing is late."""
    ordered = arranged(events, LATE, random)
    places = [0, *sorted(random.sample(range(1, len(ordered)), pieces - 1)), len(ordered)]
    return [ordered[first:stop] for first, stop in pairwise(places)]


def endless(part: PackedCase) -> bool:
    """Whether a stream that is not closed could answer this."""
    schema = schema_of([part]) if part.events else pa.schema([("type", pa.string()), ("time", pa.int64())])
    try:
        check_endless(plans_of(part.queries, infer_schema(schema, Columns())))
    except TocsinError:
        return False
    return True


@pytest.mark.parametrize("buckets", BUCKETS)
def test_stream(spark: SparkSession, buckets: int, tmp_path: Path) -> None:
    """Everything in one bucket; in three those that the test below cannot ask."""
    parts = tuple(part for part in pack(texts=True) if buckets == 1 or not endless(part))
    assert len(parts) >= 5
    files = Files(spark, tmp_path, parts, buckets)
    files.add(cut([event for part in parts for event in part.events], 3, Random(buckets)))
    files.run(closing=True)
    assert files.other["late"] == files.other["bad"] == 0
    assert disagreements(parts, files.rows) == []


def test_stream_that_is_stopped_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """The first run leaves the stream open; the second begins from its checkpoint, in new detectors, and closes it."""
    parts = tuple(part for part in pack(texts=True) if endless(part))[:: 1 if is_long() else 2]
    assert len(parts) > (500 if is_long() else 190)
    files = Files(spark, tmp_path, parts, 3 if is_long() else 2)
    events = [event for part in parts for event in part.events]
    ways = (cut(events, 3, Random(seed)) for seed in range(10, 1000))
    # so far that something is certain, and not so far that nothing is left
    batches = next(way for way in ways if 0.6 < sum(map(len, way[:2])) / len(events) < 0.9)
    files.add(batches[:2])
    files.run(closing=False)
    early = len(files.rows)
    files.add(batches[2:])
    files.run(closing=True)
    assert 0 < early < len(files.rows)
    assert files.other["late"] == files.other["bad"] == 0
    assert disagreements(parts, files.rows) == []
