"""Check that a checkpoint belongs to this job: a small file in it names its queries, read before data moves."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tocsin.errors import StateError
from tocsin.shards.identity import Identity, admit, check_clock, check_layout
from tocsin.shards.job import Job
from tocsin.spark.setup.jvm import exists, read_file, write_file

FILE = "tocsin.json"


def claim(spark: SparkSession, checkpoint: str, job: Job) -> None:
    """Refuse a checkpoint of other queries, another layout or another stream; then write our identity into it."""
    folder = checkpoint.rstrip("/")
    file, here = f"{folder}/{FILE}", job.identity
    written = read_file(spark, file)
    if written is not None:
        stored = Identity.read(written)
        check_layout(stored.layout, here.layout, sources=job.columns.source is not None)
        check_clock(stored.clock, here.clock)
        here = Identity(admit(stored.units, here.units), here.layout, here.clock)
    elif exists(spark, f"{folder}/offsets"):
        raise StateError(
            f"{checkpoint} is the checkpoint of another stream",
            detail="it was not written by tocsin.spark.start",
            hint="give every stream a checkpoint of its own, or go on with writeStream as before",
        )
    if here.data() != written:
        write_file(spark, file, here.data())
