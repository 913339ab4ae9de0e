"""Begin a new checkpoint with the state of an old one (`carry_over=`): with other shards, or with changed queries.

The state is events. Every stored row is routed to its new shard by the rules for a row that arrives. Clocks and
guarantees are equal in all shards and are copied. What changed queries can go on with is found in `shards/carried`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StructField, StructType

from tocsin.errors import StateError
from tocsin.lang.parser import parse_file
from tocsin.run.query import plans_of
from tocsin.shards.blocks import PACKED, Note, Packer, as_table
from tocsin.shards.carried import OldState, going_on, old_state, sources_of
from tocsin.shards.job import Job, Shards
from tocsin.shards.result import conformed
from tocsin.shards.shard import Head
from tocsin.shards.shard_labels import labels_of
from tocsin.spark.event_frame import EventFrame
from tocsin.spark.setup.versions import spark_schema
from tocsin.spark.shuffle import is_many, send, shards_of

OLD_SHARD = "__old_shard"


def read_old(frame: EventFrame, job: Job, checkpoint: str, *, accept_loss: bool) -> tuple[Job, OldState, list[str]]:
    """The state of another checkpoint, the job as it goes on from there, and what is to be said about that."""
    heads = _heads(frame.df.sparkSession, checkpoint)
    old = old_state(heads, job, lambda texts: plans_of(tuple(q for t in texts for q in parse_file(t)), frame.schema))
    job, notes = going_on(job, old, frame.schema, accept_loss=accept_loss)
    sources_of(job, old)
    return job, old, notes


def carried_over(frame: EventFrame, job: Job, keep: list[str] | None, checkpoint: str, old: OldState) -> DataFrame:
    """The stored events of another checkpoint as packed rows for the shards of this job, with its clocks."""
    note = Note(clocks=old.clocks)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for packed in Packer(job).run(batches):
            yield packed.set_column(1, "note", pa.array([note.text()] * packed.num_rows, pa.string()))

    if keep is not None:  # what the old queries have read is needed once more, to learn what they waited with
        keep = sorted({*keep, *(name for unit in old.units for name in old.known(unit).columns)})
    rows = _stored(frame, checkpoint, sum(each.count for each in old.shards))
    sent = [_sent(frame, rows, replace(job, shards=(mine,)), keep, olds) for mine, olds in sources_of(job, old)]
    df = sent[0]
    for more in sent[1:]:
        df = df.unionByName(more, allowMissingColumns=True)
    packed = df.coalesce(1).mapInArrow(pack, spark_schema(PACKED))
    return packed.withColumn("guarantee", sf.lit(old.guarantee))


def _stored(frame: EventFrame, checkpoint: str, count: int) -> DataFrame:
    """All stored rows, with the number of the shard that has them."""
    rows, numbers = frame.rows, {label: number for number, label in enumerate(labels_of(count))}

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for label, block in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                found = conformed(as_table(block.as_py()), rows)
                yield found.append_column(OLD_SHARD, pa.repeat(pa.scalar(numbers[label], pa.int32()), len(found)))

    blocks = _state(frame.df.sparkSession, checkpoint, "blocks").select("key.label", "user_map_value.data")
    return blocks.mapInArrow(unpack, StructType([*frame.df.schema.fields, StructField(OLD_SHARD, IntegerType())]))


def _sent(frame: EventFrame, rows: DataFrame, job: Job, keep: list[str] | None, olds: list[Shards]) -> DataFrame:
    """The rows that some old groups have stored, each event once, with the shards of a new group."""
    here = sf.col(OLD_SHARD)
    mine = sf.lit(False)
    for each in olds:
        found = shards_of(frame, each)
        first = sf.element_at(found, 1) if is_many(each) else found
        mine = mine | (here.between(each.first, each.first + each.count - 1) & (first == here))
    return send(replace(frame, df=rows.where(mine).drop(OLD_SHARD)), job, keep).df


def _heads(spark: SparkSession, checkpoint: str) -> dict[int, Head]:
    """The heads of all shards by number."""
    rows = _state(spark, checkpoint, "head").select("key.label", "value.data").collect()
    found = {int(row[0]): Head.read(bytes(row[1])) for row in rows}
    if not found:
        raise StateError(f"{checkpoint} holds no state", hint="give the checkpoint of the stream that is to go on")
    count = sum(next(iter(found.values())).layout)
    return {number: found[label] for number, label in enumerate(labels_of(count)) if label in found}


def _state(spark: SparkSession, checkpoint: str, variable: str) -> DataFrame:
    reader: Any = spark.read.format("statestore").option("stateVarName", variable)
    return reader.load(checkpoint)  # type: ignore[no-any-return]
