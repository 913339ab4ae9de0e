"""The JVM behind a Spark session, where there is one: all that reaches into it goes through here.

A classic session has its JVM beside it. A session of Spark Connect (serverless and shared clusters, hosted notebooks,
`builder.remote(...)`) talks to a server, and shows frames and settings only. What can be asked both ways is answered
here for both; what truly needs the JVM raises `NoJvmError`, and its caller does without it or says why not.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tocsin.errors import TocsinError
from tocsin.spark.setup.versions import micro_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REASON = "the session is one of Spark Connect, which does not show how a frame was made"
LARGE_FUNCTIONS = "spark.broadcast.UDFCompressionThreshold"
DYNAMIC = "spark.dynamicAllocation"
UNLIMITED = 2**31 - 1  # what Spark takes for no limit
_known_cores: dict[str, int] = {}  # of the servers of remote sessions, by session


class NoJvmError(TocsinError):
    """The session has no JVM within reach."""


def is_remote(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def cores(spark: SparkSession) -> int:
    """How many tasks run at once, now or when dynamic allocation has brought all executors that it may."""
    return max(_cores_now(spark), most_cores(spark) or 0)


def _cores_now(spark: SparkSession) -> int:
    """A server is asked by a small job, once."""
    if not is_remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    from pyspark.sql import functions as sf

    session: Any = spark
    if session.session_id not in _known_cores:
        pieces = spark.range(1 << 20).select(sf.spark_partition_id().alias("piece"))
        _known_cores[session.session_id] = 1 + int(pieces.agg(sf.max("piece")).collect()[0][0])
    return _known_cores[session.session_id]


def most_cores(spark: SparkSession) -> int | None:
    """How many tasks run at once when a cluster has grown to its limit; 0 if it does not grow, None without a limit."""
    if spark.conf.get(f"{DYNAMIC}.enabled", "false") != "true" or str(spark.conf.get("spark.master", "")).startswith(
        "local"
    ):
        return 0
    most = str(spark.conf.get(f"{DYNAMIC}.maxExecutors", ""))
    each, task = (int(str(spark.conf.get(f"spark.{name}", "1"))) for name in ("executor.cores", "task.cpus"))
    return int(most) * max(1, each // task) if most.isdigit() and int(most) < UNLIMITED else None


def context(spark: SparkSession) -> Any:
    """The Spark context of a classic session."""
    if is_remote(spark):
        raise NoJvmError(REASON)
    return spark.sparkContext


def is_stopped(spark: Any) -> bool:
    """Whether a session was stopped, so that another must be made."""
    return bool(spark.is_stopped) if is_remote(spark) else spark.sparkContext._jsc is None


def analyzed(df: DataFrame) -> Any:
    """Spark's plan of a frame: what it reads, and what it does with that."""
    if is_remote(df.sparkSession):
        raise NoJvmError(REASON)
    return df._jdf.queryExecution().analyzed()


def send_large_functions_whole(spark: SparkSession) -> None:
    """Keep PySpark from sending large functions as broadcasts, which the process that checks stateful ones never gets.

    A server of Spark Connect is sent all functions whole.
    """
    if not is_remote(spark):
        spark.sparkContext._jsc.sc().conf().set(LARGE_FUNCTIONS, str(1 << 30))


def hush(spark: SparkSession) -> None:
    """Keep stack traces of a failing stream out of the log: the failure is raised here, once."""
    if is_remote(spark):
        return
    jvm: Any = spark._jvm
    levels = jvm.org.apache.logging.log4j.Level
    jvm.org.apache.logging.log4j.core.config.Configurator.setLevel(micro_batches(spark), levels.OFF)


def file_system(spark: SparkSession, location: str) -> str:
    """Which file system a location is on: file, hdfs, s3a, ...; empty where only a server knows."""
    scheme = urlsplit(location).scheme
    if scheme or is_remote(spark):
        return scheme
    default = context(spark)._jsc.hadoopConfiguration().get("fs.defaultFS")
    return urlsplit(str(default or "file:///")).scheme


# --- small files on whatever file system the session has -----------------------------------------------------------


def read_file(spark: SparkSession, path: str) -> bytes | None:
    """The text of a small file; None if there is none."""
    if is_remote(spark):
        return _read_by_spark(spark, path)
    system, file = _hadoop(spark, path)
    if not system.exists(file):
        return None
    if system.getFileStatus(file).isDirectory():  # written by a session of Spark Connect
        return _read_by_spark(spark, path)
    stream = system.open(file)
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()


def write_file(spark: SparkSession, path: str, data: bytes) -> None:
    """Write a small file, over an older one; a server writes it as a folder with one file in it."""
    if is_remote(spark):
        rows = spark.createDataFrame([(data.decode(),)], "value string").coalesce(1)
        rows.write.mode("overwrite").text(path)
        return
    system, file = _hadoop(spark, path)
    if system.exists(file) and system.getFileStatus(file).isDirectory():
        system.delete(file, True)
    stream = system.create(file, True)
    try:
        stream.write(data)
    finally:
        stream.close()


def exists(spark: SparkSession, path: str) -> bool:
    """Whether there is a file or a folder."""
    if is_remote(spark):
        from pyspark.errors import AnalysisException

        try:
            return bool(spark.read.format("binaryFile").load(path).schema)
        except AnalysisException:
            return False
    system, file = _hadoop(spark, path)
    return bool(system.exists(file))


def holds(spark: SparkSession, folder: str, pattern: str) -> bool:
    """Whether a folder has a file or folder of such a name."""
    if is_remote(spark):
        return exists(spark, f"{folder}/{pattern}")
    system, path = _hadoop(spark, folder)
    return system.exists(path) and any(fnmatch(each.getPath().getName(), pattern) for each in system.listStatus(path))


def _hadoop(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The file system of a path, and the path there."""
    jvm: Any = spark._jvm
    file = jvm.org.apache.hadoop.fs.Path(path)
    return file.getFileSystem(spark._jsc.hadoopConfiguration()), file


def _read_by_spark(spark: SparkSession, path: str) -> bytes | None:
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.text(path, wholetext=True).collect()
    except AnalysisException:
        return None
    return "".join(row[0] for row in rows).removesuffix("\n").encode() if rows else None
