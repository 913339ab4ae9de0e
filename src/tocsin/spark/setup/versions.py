"""Versions of Spark: which ones Tocsin runs on, and all that it does otherwise on one than on another."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

OLDEST = (3, 5)
WHOLE = (4, 0)  # from which on everything works; an older one does batches of a classic session
MOVED = (4, 1)  # in which classes of streaming moved to packages of their own
WITHOUT = "take a newer Spark, or do without: tocsin.query(...) takes files, tables and live streams"
STREAMING = "org.apache.spark.sql.execution.streaming"


def why_not() -> TocsinError | None:
    """Why the PySpark of this process cannot be used; None if it can."""
    if find_spec("pyspark") is None:
        return TocsinError("Spark is not installed", hint="pip install 'tocsin[spark]'")
    return too_old("PySpark", import_module("pyspark").__version__)


def too_old(what: str, version: str) -> TocsinError | None:
    """Why a Spark of this version cannot be used; None if it can."""
    if number(version) >= OLDEST:
        return None
    return TocsinError(
        f"{what} {version} is too old",
        detail="Tocsin needs 3.5 or newer for batches, and 4.0 or newer for everything else",
        hint=WITHOUT,
    )


def check_whole(spark: SparkSession, what: str) -> None:
    """Refuse on Spark 3.5 what it lacks: there Python keeps no state, and frames are not made of Arrow."""
    if not is_whole(spark):
        raise TocsinError(
            f"{what} needs Spark 4.0 or newer, and this is Spark {spark.version}",
            detail="on Spark 3.5 Tocsin detects in DataFrames that are no streams, in classic sessions",
            hint=WITHOUT,
        )


def is_whole(spark: SparkSession) -> bool:
    """Whether expressions mean here what they were tested to mean."""
    return number(spark.version) >= WHOLE


def number(version: str) -> tuple[int, int]:
    """The two numbers of a version that count.

    >>> number("4.0.1"), number("4.0.2-amzn-0"), number("4.3.0.dev1")
    ((4, 0), (4, 0), (4, 3))
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def newest_java() -> int:
    """The newest Java for the PySpark of this process: Java 23 took away what Hadoop asked for before Spark 4.1."""
    installed = find_spec("pyspark") and import_module("pyspark").__version__
    return 22 if installed and number(installed) < MOVED else sys.maxsize


def checkpoint_manager(spark: SparkSession) -> str:
    """The class that writes checkpoints by renaming files."""
    package = f"{STREAMING}.checkpointing" if number(spark.version) >= MOVED else STREAMING
    return f"{package}.FileSystemBasedCheckpointFileManager"


def micro_batches(spark: SparkSession) -> str:
    """The class that runs micro-batches, and logs what goes wrong there."""
    return f"{STREAMING}.{'runtime.' if number(spark.version) >= MOVED else ''}MicroBatchExecution"


# --- schemas -------------------------------------------------------------------------------------------------------


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns of a frame as Arrow; points in time in UTC."""
    convert = _types().to_arrow_schema  # older ones give UTC where nothing is said
    return convert(schema, **({"timezone": "UTC"} if "timezone" in inspect.signature(convert).parameters else {}))


def spark_schema(schema: pa.Schema) -> StructType:
    """Arrow columns as a frame has them; points in time without a zone stay so."""
    found: StructType = _types().from_arrow_schema(schema, True)
    return found


def spark_type(type: pa.DataType) -> DataType:
    found: DataType = _types().from_arrow_type(type, True)
    return found


def _types() -> Any:
    return import_module("pyspark.sql.pandas.types")
