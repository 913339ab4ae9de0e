"""Rescale a stream (`carry_over=`): start a new checkpoint from the state of an old one, with other shards.

The state is events. Every stored row is routed to its new shard by the rules for a row that arrives. Clocks and
guarantees are equal in all shards and are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tocsin.errors import StateError
from tocsin.events import BEGINNING
from tocsin.shards.blocks import PACKED, Note, Packer, as_table
from tocsin.shards.identity import admit
from tocsin.shards.job import Job
from tocsin.shards.result import conformed
from tocsin.shards.shard import Head
from tocsin.spark.event_frame import EventFrame
from tocsin.spark.setup.versions import spark_schema
from tocsin.spark.shuffle import send


def carried_over(frame: EventFrame, job: Job, keep: list[str] | None, checkpoint: str) -> DataFrame:
    """The stored events of another checkpoint as packed rows for the shards of this job, with its clocks."""
    spark = frame.df.sparkSession
    heads = _heads(spark, checkpoint)
    _acceptable(heads, job)
    note = Note(clocks=_clocks(heads))
    rows = frame.rows

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for block in batch.column(0):
                yield conformed(as_table(block.as_py()), rows)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packer = Packer(job)
        for packed in packer.run(batches):
            texts = pa.array([note.text()] * packed.num_rows, pa.string())
            yield packed.set_column(1, "note", texts)

    blocks = _state(spark, checkpoint, "blocks").select(sf.col("user_map_value.data").alias("block"))
    stored = blocks.mapInArrow(unpack, frame.df.schema)
    sent = send(replace(frame, df=stored), job, keep)
    packed = sent.df.coalesce(1).mapInArrow(pack, spark_schema(PACKED))
    return packed.withColumn("guarantee", sf.lit(max(head.guarantee for head in heads)))


def _heads(spark: SparkSession, checkpoint: str) -> list[Head]:
    rows = _state(spark, checkpoint, "head").select("value.data").collect()
    found = [Head.read(bytes(row[0])) for row in rows]
    if not found:
        raise StateError(f"{checkpoint} holds no state", hint="give the checkpoint of the stream that is to go on")
    return found


def _state(spark: SparkSession, checkpoint: str, variable: str) -> DataFrame:
    reader: Any = spark.read.format("statestore").option("stateVarName", variable)
    return reader.load(checkpoint)  # type: ignore[no-any-return]


def _acceptable(heads: list[Head], job: Job) -> None:
    """Refuse a state that this job cannot begin with: closed, of other queries, or with events it cannot tell apart."""
    if any(head.closed for head in heads):
        raise StateError("the stream was closed", hint="a closed stream does not go on")
    known = {name: unit for head in heads for name, unit in head.units.items()}
    admit(known, job.identity.units)
    if any(unit.since for unit in known.values()):
        raise StateError(
            "a query was added to that checkpoint later, and stored events do not say which of them it has seen",
            hint="start the added query with a checkpoint of its own",
        )
    doubled = any(not way.is_single for shards in job.shards for way in shards.group.ways.values())
    if job.columns.eid is None and (doubled or len(job.shards) > 1):
        raise StateError(
            "some events are stored in several shards, and without an eid nobody can tell that they are the same",
            hint="use a stream with an eid column, or start with a new checkpoint",
        )


def _clocks(heads: list[Head]) -> dict[str, int]:
    found: dict[str, int] = {}
    for head in heads:
        for source, clock in head.clocks.items():
            found[source] = max(found.get(source, BEGINNING), clock)
    return found
