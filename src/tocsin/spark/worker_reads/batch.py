"""Read Parquet files that are in order of time in the workers: no row passes the JVM, none is shuffled.

Files of logs and lakes are mostly written as events come. Their footers say from when to when each row group reaches,
so the driver can see that they are (nearly) in order, cut the time into slices, and tell every task which row groups
its slice needs. A task reads them in order, holds rows that a later group may precede, and streams the rest through its
detector. Where anything is not as it must be, the ordinary way is taken, and `explain` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tocsin.errors import InputError
from tocsin.events import END_OF_TIME
from tocsin.shards.job import Job, Shards
from tocsin.shards.result import conformed
from tocsin.shards.routes import Group, Unit
from tocsin.shards.time_slices import cut, margins
from tocsin.shards.timed_rows import TimedRows, released, whole_ticks
from tocsin.spark.batch import answered
from tocsin.spark.event_frame import EventFrame
from tocsin.spark.setup.jvm import analyzed
from tocsin.spark.setup.versions import spark_schema

MOST_OVERLAPPING_ROWS = 4_000_000  # so many rows may overlap in time, at most
ROWS_PER_PUSH = 1 << 16


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group: its file and number, the first and last end in it, and how many rows it has."""

    path: str
    number: int
    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class Files:
    """Row groups in order of their first end, and the columns to read."""

    pieces: tuple[RowGroup, ...]
    rows: pa.Schema

    def between(self, low: int, high: int) -> list[RowGroup]:
        return [piece for piece in self.pieces if piece.last >= low and piece.first <= high]


class Unfit(Exception):  # noqa: N818 - no error: the ordinary way is taken
    """Why the files cannot be read by the workers."""


def in_time_order(frame: EventFrame, names: Sequence[str]) -> Files:
    """The files behind a frame, if workers can read them in order; raises Unfit with the reason if not."""
    paths = _paths(frame.df)
    name = frame.columns.end or frame.columns.time
    wanted = pa.schema([frame.rows.field(each) for each in names])
    pieces = [piece for path in paths for piece in _pieces(path, name, wanted)]
    pieces.sort(key=lambda piece: (piece.first, piece.path, piece.number))
    if not pieces:
        raise Unfit("there are no rows")
    if _overlap(pieces) > MOST_OVERLAPPING_ROWS:
        raise Unfit("the files are not in order of time")
    return Files(tuple(pieces), wanted)


def _paths(df: DataFrame) -> list[str]:
    """The files, if the frame is nothing but Parquet files on a local disk."""
    plan = analyzed(df)
    if plan.getClass().getSimpleName() != "LogicalRelation":
        raise Unfit("the frame is more than files that are read")
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation" or relation.fileFormat().toString() != "Parquet":
        raise Unfit("the files are not Parquet")
    if relation.partitionSchema().length():
        raise Unfit("the files are partitioned by columns")
    addresses = [urlsplit(path) for path in df.inputFiles()]
    if any(address.scheme != "file" for address in addresses):
        raise Unfit("the files are not on a local or shared disk")
    return [unquote(address.path) for address in addresses]


def _pieces(path: str, time: str, wanted: pa.Schema) -> Iterator[RowGroup]:
    """The row groups of a file with their first and last time, as the footer tells them."""
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as problem:
        reason = " ".join(str(problem).split())[:300]
        raise InputError(f"{path} cannot be read as parquet", detail=reason) from problem
    schema = file.schema_arrow
    for field in wanted:
        if field.name not in schema.names or schema.field(field.name).type != field.type:
            raise Unfit(f"column {field.name!r} is of another type in {Path(path).name}")
    if b"org.apache.spark.legacyDateTime" in (file.metadata.metadata or {}):
        raise Unfit("the files have dates of an old calendar")
    place = schema.names.index(time)
    if schema.field(place).type != pa.int64() and not pa.types.is_timestamp(schema.field(place).type):
        raise Unfit("times are neither whole numbers of 64 bits nor timestamps")
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        known = group.column(place).statistics
        if group.num_rows == 0:
            continue
        if known is None or not known.has_min_max or known.null_count != 0:
            raise Unfit("the files do not say from when to when they reach, or times are null")
        yield RowGroup(path, number, int(known.min_raw), int(known.max_raw), group.num_rows)


def _overlap(pieces: list[RowGroup]) -> int:
    """How many rows must be held at most, when row groups are read in order of their first end."""
    most = 0
    held: list[RowGroup] = []
    for piece in pieces:
        held = [each for each in held if each.last >= piece.first]
        held.append(piece)
        most = max(most, sum(each.rows for each in held))
    return most


# --- the way through the workers -----------------------------------------------------------------------------------


def sliced(files: Files, job: Job, most: int) -> Job:
    """The job with every group cut in time instead of by key; raises Unfit where the windows do not allow it."""
    units = [unit for each in job.shards for unit in each.group.units]
    around = margins(plan for unit in units for plan in unit.plans)
    if around is None or any(len(unit.plans) > 1 for unit in units):
        raise Unfit("a query has no window, or uses matches of another")
    last = max(piece.last for piece in files.pieces)
    slices = cut(files.pieces[0].first, last, around, most)
    if slices is None:
        raise Unfit("the window is too long to cut the time into slices")
    keyless = Group(tuple(Unit(unit.numbers, unit.plans) for unit in units))  # a slice has every event of its time
    return replace(job, shards=(Shards(keyless, 0, slices.count, slices),))


def detect_files(files: Files, job: Job, spark: SparkSession) -> DataFrame:
    """The matches, with one task for each slice of time."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _slice(files, job, number)

    return spark.range(0, job.count, 1, job.count).mapInArrow(read, spark_schema(job.result))


def _slice(files: Files, job: Job, number: int) -> Iterator[pa.RecordBatch]:
    """One slice of time: its row groups in order, through a detector of its own."""
    shards = job.shards[0]
    slices = shards.slices
    assert slices is not None
    graph, numbers = job.graph(shards.group, shards.group.units)
    pushes = (
        rows.slice(first, ROWS_PER_PUSH)
        for rows in in_order(files, files.between(*slices.span(number)), job)
        for first in range(0, rows.num_rows, ROWS_PER_PUSH)
    )
    for rows in whole_ticks(pushes, job):
        yield from answered(job, shards, number, graph, numbers, rows)
    yield from answered(job, shards, number, graph, numbers, None)


def in_order(files: Files, pieces: list[RowGroup], job: Job) -> Iterator[pa.RecordBatch]:
    """Give the rows of row groups in order of time; rows that the next group may still precede are held."""
    held: list[TimedRows] = []
    for at, piece in enumerate(pieces):
        held.append(TimedRows.of(_read(files, piece), job))
        until = pieces[at + 1].first if at + 1 < len(pieces) else END_OF_TIME
        rows, held = released(held, until)
        if rows is not None:
            yield rows


def _read(files: Files, piece: RowGroup) -> pa.RecordBatch:
    file = pq.ParquetFile(piece.path, memory_map=True)
    table = file.read_row_group(piece.number, columns=files.rows.names, use_threads=False)
    return conformed(table, files.rows)
