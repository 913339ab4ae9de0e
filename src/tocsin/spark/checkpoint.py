"""Check that a checkpoint belongs to this job: a small file in it names its queries, read before data moves."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tocsin.errors import StateError
from tocsin.shards.identity import Identity, admit, check_layout
from tocsin.shards.job import Job

FILE = "tocsin.json"


def claim(spark: SparkSession, checkpoint: str, job: Job) -> None:
    """Refuse a checkpoint of other queries, another layout or another stream; then write our identity into it."""
    folder = _path(spark, checkpoint)
    file = _path(spark, f"{checkpoint.rstrip('/')}/{FILE}")
    system = folder.getFileSystem(_hadoop(spark))
    here = job.identity
    if system.exists(file):
        stored = Identity.read(_read(system, file))
        check_layout(stored.layout, here.layout, sources=job.columns.source is not None)
        here = Identity(admit(stored.units, here.units), here.layout)
    elif system.exists(_path(spark, f"{checkpoint.rstrip('/')}/offsets")):
        raise StateError(
            f"{checkpoint} is the checkpoint of another stream",
            detail="it was not written by tocsin.spark.start",
            hint="give every stream a checkpoint of its own, or go on with writeStream as before",
        )
    stream = system.create(file, True)
    try:
        stream.write(here.data())
    finally:
        stream.close()


def _path(spark: SparkSession, text: str) -> Any:
    return _jvm(spark).org.apache.hadoop.fs.Path(text)


def _hadoop(spark: SparkSession) -> Any:
    return spark._jsc.hadoopConfiguration()


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _read(system: Any, file: Any) -> bytes:
    stream = system.open(file)
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()
