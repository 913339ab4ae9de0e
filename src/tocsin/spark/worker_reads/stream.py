"""Stream plain Parquet files: Spark passes the names of new files, and the workers read the rows themselves.

The way of a row through Spark (decoding, Arrow, packing, a shuffle, Arrow again) costs many times what detection does.
So the folder is opened in another format (`binaryFile`), in which a row is a file, and only its name is read. The file
source writes the same log into the checkpoint for every format: a stream can go on either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tocsin.errors import InputError
from tocsin.shards.blocks import Note, Packer
from tocsin.shards.job import Job
from tocsin.spark.event_frame import EventFrame
from tocsin.spark.setup.jvm import analyzed, file_system
from tocsin.spark.worker_reads.batch import Unfit
from tocsin.spark.worker_reads.coercions import FileColumns
from tocsin.spark.worker_reads.filters import Unsayable
from tocsin.spark.worker_reads.routing import RoutingRules, routing_rules

FORMAT, ROW = "binaryFile", "path string, modificationTime timestamp, length bigint, content binary"
# what the source itself reads; an option of the Parquet reader means something that a worker would not know
OPTIONS = frozenset(
    option.lower()
    for option in (
        "path", "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "maxFileAge", "fileNameOnly", "cleanSource",
        "sourceArchiveDir", "pathGlobFilter", "maxCachedFiles", "discardCachedInputRatio",
    )
)  # fmt: skip
# settings under which Spark would read the files otherwise
SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
}
REBASING = ("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead")
FILES_LOOKED_AT = 64  # so many files are looked at before the stream starts
SHARDS_THAT_READ_ALL = 8  # up to so many shards, each reads the files for itself; more of them have the rows dealt out


@dataclass(frozen=True)
class FileReading:
    """How workers read the files: the columns, and where their rows go."""

    shape: FileColumns
    rules: RoutingRules

    def packed(self, job: Job, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The rows of files, packed for their shards."""
        return _FileReader(job, self, None).run(batch for path in paths for batch in self.shape.read(local(path)))

    def read(self, job: Job, number: int, paths: Iterable[str]) -> tuple[Note, pa.Table | None]:
        """Read the rows of files that belong to one shard, and the note (clocks, bad rows) over all rows."""
        reader = _FileReader(job, self, number)
        for path in paths:
            for batch in self.shape.read(local(path)):
                reader.take(batch)
        if number:
            reader.note.bad.clear()  # the first shard reports them
        rows = reader.rows.get(number)
        return reader.note, pa.Table.from_batches(rows) if rows else None


class _FileReader(Packer):
    """Packs rows read from files: routes them to all shards, or keeps those of one."""

    def __init__(self, job: Job, reading: FileReading, only: int | None) -> None:
        super().__init__(job)
        self.reading, self.only = reading, only

    def routed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self.reading.rules.routed(rows, self.job, self.only)

    def shown(self, batch: pa.RecordBatch, at: int) -> pa.RecordBatch:
        """Describe a row as if Spark had sent it: rows that no query reads have no texts."""
        row, columns = batch.slice(at, 1), self.job.columns
        roles = [name for name in (columns.type, columns.time, columns.end, columns.eid) if name is not None]
        known = self.job.known is None or row.column(columns.type)[0].as_py() in self.job.known
        if not known or any(row.column(name).null_count for name in roles):
            return row
        if self.reading.rules.routed(row, self.job).num_rows:
            return row
        for place, field in enumerate(row.schema):
            if pa.types.is_string(field.type) and field.name not in (columns.type, columns.source):
                row = row.set_column(place, field.name, pa.nulls(1, field.type))
        return row


@dataclass(frozen=True)
class FileStream:
    """A stream of files: a DataFrame with a row for each file, and how workers read them."""

    df: DataFrame
    reading: FileReading
    shared: bool  # every shard reads all files; else rows are dealt out


def local(path: str) -> str:
    """The name of a file on this machine, as the source tells it: not quoted, with or without an authority.

    >>> local("file:///data/part 1.parquet"), local("file:/data/100%.parquet")
    ('/data/part 1.parquet', '/data/100%.parquet')
    """
    return "/" + path.removeprefix("file:").lstrip("/")


# --- whether it can be done ----------------------------------------------------------------------------------------


def file_stream(frame: EventFrame, job: Job, names: list[str]) -> FileStream:
    """Return the stream of files behind a DataFrame; raises Unfit with the reason if Spark must read them."""
    spark = frame.df.sparkSession
    source, stored = _source(frame.df)
    options = _options(source)
    folder = _folder(spark, options)
    _usual(spark)
    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    rows = _as_arrived(spark, frame, names)
    shape = FileColumns(rows, frame.columns.type, {name: stored[name] for name in names}, case_sensitive)
    _look(folder, shape)
    try:
        rules = routing_rules(frame, job)
    except Unsayable:
        raise Unfit("a key or a test of the query is not one that workers know as Spark does") from None
    df = spark.readStream.format(FORMAT).schema(ROW).options(**options).load().select("path")
    return FileStream(df, FileReading(shape, rules), job.count <= SHARDS_THAT_READ_ALL)


def _source(df: DataFrame) -> tuple[Any, dict[str, str]]:
    """Spark's description of the source, and the name there of each column; if the frame is nothing but its columns."""
    plan = analyzed(df)
    names = {_id(each): each.name() for each in _listed(plan.output())}
    behind = {number: number for number in names}  # for each column of the frame the one it is of the plan below
    while plan.getClass().getSimpleName() == "Project":
        meant = {_id(each): _meant(each) for each in _listed(plan.projectList())}
        behind = {number: meant[below] for number, below in behind.items()}
        plan = plan.child()
    if plan.getClass().getSimpleName() != "StreamingRelation":
        raise Unfit("the frame is more than files that are read")
    source = plan.dataSource()
    if source.className().lower() != "parquet":
        raise Unfit("the files are not Parquet")
    if source.partitionColumns().size():
        raise Unfit("the files are partitioned by columns")
    stored = {_id(each): each.name() for each in _listed(plan.output())}
    if not set(behind.values()) <= stored.keys():
        raise Unfit("the frame has columns that are not in the files")
    return source, {names[number]: stored[below] for number, below in behind.items()}


def _listed(several: Any) -> list[Any]:
    return [several.apply(at) for at in range(several.size())]


def _id(column: Any) -> int:
    return int(column.exprId().id())


def _meant(column: Any) -> int:
    """Resolve an alias to the source column that it stands for."""
    if column.getClass().getSimpleName() == "Alias":
        column = column.child()
    if column.getClass().getSimpleName() != "AttributeReference":
        raise Unfit("the frame is more than files that are read")
    return _id(column)


def _options(source: Any) -> dict[str, str]:
    entries = source.options().iterator()
    found: dict[str, str] = {}
    while entries.hasNext():
        entry = entries.next()
        found[entry._1()] = entry._2()
    strange = sorted(name for name in found if name.lower() not in OPTIONS)
    if strange:
        raise Unfit(f"option {strange[0]!r} is for Spark's own reader")
    if source.paths().size():
        raise Unfit("there are several paths")
    return found


def _folder(spark: SparkSession, options: dict[str, str]) -> Path:
    """The folder of the files, if it is a plain one on a local or shared disk."""
    text = next((value for name, value in options.items() if name.lower() == "path"), "")
    if any(letter in text for letter in "*?[]{}"):
        raise Unfit("the path is a pattern")
    address = urlsplit(text)
    folder = Path(unquote(address.path) if address.scheme == "file" else text)
    if file_system(spark, text) != "file" or not folder.is_dir():
        raise Unfit("the path is no folder on a local or shared disk")
    return folder


def _usual(spark: SparkSession) -> None:
    """Raise Unfit if a setting of the session changes how Spark itself would read files."""
    for name, value in SETTINGS.items():
        if spark.conf.get(name, value) != value:
            raise Unfit(f"{name} is set")
    for name in REBASING:
        if spark.conf.get(name, "CORRECTED") == "LEGACY":
            raise Unfit(f"{name} is set")


def _as_arrived(spark: SparkSession, frame: EventFrame, names: list[str]) -> pa.Schema:
    """The columns as Spark would hand them over: it shows points in time in the session's zone."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    types = {field.name: field for field in frame.df.schema.fields}
    fields = []
    for name in names:
        if types[name].metadata or types[name].dataType.simpleString().startswith("string collate"):
            raise Unfit(f"column {name!r} has a meaning of its own in Spark")
        field = frame.rows.field(name)
        if pa.types.is_null(field.type):
            raise Unfit(f"column {name!r} has no type")
        zoned = pa.types.is_timestamp(field.type) and field.type.tz is not None
        fields.append(pa.field(name, pa.timestamp("us", zone) if zoned else field.type))
    return pa.schema(fields)


def _look(folder: Path, shape: FileColumns) -> None:
    """Check some of the existing files; files to come are expected to be like them."""
    listed = [entry for entry in folder.iterdir() if not entry.name.startswith(("_", "."))]
    if any(entry.is_dir() for entry in listed):
        raise Unfit("there are folders among the files")
    if not listed:
        raise Unfit("there is no file yet that shows what will come")
    listed.sort()
    for path in listed[:: max(1, len(listed) // FILES_LOOKED_AT)]:
        try:
            shape.check(str(path))
        except InputError as error:
            raise Unfit(str(error.args[0])) from None
