"""A Spark session that suits detection: quick to start, quiet, on this machine unless another master is named.

What is set, and why, stands beside each setting below. What is *not* set on purpose: the session time zone. Detection
counts microseconds since the epoch, so its matches are the same in every zone; the zone only decides how Spark shows
timestamps and reads texts and dates as such, and that is the user's to choose.
"""

from __future__ import annotations

import importlib.util
import os
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.errors import TocsinError
from tocsin.spark.setup import class_archive as archive
from tocsin.spark.setup.java import Java, use_java
from tocsin.spark.setup.jvm import context, cores, file_system, is_remote, is_stopped
from tocsin.spark.setup.stderr import Stderr
from tocsin.spark.setup.versions import checkpoint_manager

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

STATE = "org.apache.spark.sql.execution.streaming.state"

STREAMING = {
    # The only store for transformWithState; with a changelog a batch costs what it changed, not its whole state.
    "spark.sql.streaming.stateStore.providerClass": f"{STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings that every streaming query of ours needs; they can be set on any session before its queries start."""

LOCAL = {
    # Nobody but this process talks to a local session; and a machine's other addresses may change while it runs.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows per Arrow batch between the JVM and Python: each batch has a fixed cost on both sides.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # A worker keeps compiled kernels and live detectors between tasks.
    "spark.python.worker.reuse": "true",
    # Should native code crash in a worker, its Python stack is part of the error.
    "spark.python.worker.faulthandler.enabled": "true",
}

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""For short runs such as tests: the JVM starts with half the work, and its own code (not ours) stays slower later."""


def session(
    *, master: str = "local[*]", app: str = "tocsin", config: Mapping[str, object] | None = None
) -> SparkSession:
    """The running Spark session, or a new one; `config` takes precedence over everything that is set here.

    A session that runs already keeps its master and its settings, except those in `config`. Under spark-submit its
    master and its options for Java count. A `master` such as sc://host:15002 (or SPARK_REMOTE in the environment) is a
    server of Spark Connect. Where a platform gives you a session, use that one: `detect` needs no more of it than
    `STREAMING`.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise TocsinError(
            "Spark is not installed", detail="there is no package pyspark", hint="pip install 'tocsin[spark]'"
        )
    given = {key: _text(value) for key, value in (config or {}).items()}
    running = _running()
    if running is not None:
        return _adjusted(running, given)
    server = master if master.startswith("sc://") else os.environ.get("SPARK_REMOTE")
    if server:
        return _adjusted(_connected(server), {**STREAMING, **given})
    java = use_java()
    if java is None:  # spark-submit started the JVM that started us
        return _started({**ALWAYS, **STREAMING, **given})
    own = {"spark.master": master, "spark.app.name": app, **(LOCAL if master.startswith("local") else {})}
    options = {"spark.driver.extraJavaOptions": _java_options(given, java)}
    started = _started({**own, **ALWAYS, **STREAMING, **given, **options})
    if master.startswith("local") and "spark.sql.shuffle.partitions" not in given:
        # As many as there are cores, as the JVM counts them; every further one costs a stream a state store per batch.
        started.conf.set("spark.sql.shuffle.partitions", cores(started))
    return started


def same_python(spark: SparkSession) -> None:
    """Have local workers run this very Python, unless someone chose another one.

    PySpark takes whatever `python3` the path leads to, which outside an activated environment is not the one that has
    Tocsin. A server of Spark Connect has started its workers' Python itself.
    """
    if is_remote(spark):
        return
    own = context(spark)
    chosen = "PYSPARK_PYTHON" in os.environ or own.getConf().contains("spark.pyspark.python")
    if own.master.startswith("local") and not chosen:
        from tocsin.spark.setup.launcher import python  # it needs pyspark, which may be missing

        own.pythonExec = python()


MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def fit_checkpoints(spark: SparkSession, location: str) -> None:
    """Have queries that start after this write their checkpoint at `location` in the way that suits its file system.

    On a local disk Spark's usual way looks for symbolic links with a `readlink` process for each step, some fifty for
    a small batch; the other way starts none, and such a batch usually takes less time. Both make a file
    appear by the same atomic rename, its checksum by a second one, so neither is safer against a kill. Elsewhere (HDFS,
    object stores) renaming differs between the two, and Spark's choice stays. So does a class that the user has chosen.
    """
    chosen, ours = spark.conf.get(MANAGER, None), checkpoint_manager(spark)
    scheme = file_system(spark, location)
    if scheme == "file" and chosen is None:
        try_to_set(spark, MANAGER, ours)
    elif scheme != "file" and chosen == ours:
        spark.conf.unset(MANAGER)


def try_to_set(spark: SparkSession, key: str, value: str) -> None:
    """Set what helps and is not needed; a platform that lets nobody change it keeps its own."""
    from pyspark.errors import PySparkException

    with suppress(PySparkException):
        spark.conf.set(key, value)


def _text(value: object) -> str:
    """Booleans as Spark writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _running() -> SparkSession | None:
    """The session of this process, also when another thread made it."""
    from pyspark.sql import SparkSession

    found: Any = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    return None if found is None or is_stopped(found) else found


def _connected(server: str) -> SparkSession:
    """A session of a server of Spark Connect."""
    from pyspark.sql import SparkSession

    from tocsin.spark.setup.errors import server_told

    try:
        with server_told():
            found: SparkSession = SparkSession.builder.remote(server).getOrCreate()
    except ImportError as error:
        raise TocsinError(
            "this program cannot talk to a server of Spark Connect",
            detail=_first_line(str(error)),
            hint="pip install 'tocsin[connect]'",
        ) from None
    return found


def _adjusted(running: SparkSession, given: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException

    for key, value in given.items():
        if running.conf.get(key, None) == value:
            continue
        try:
            running.conf.set(key, value)
        except PySparkException as error:
            raise TocsinError(
                f"{key} cannot be set on the session that runs already",
                detail=_first_line(str(error)),
                hint="stop that session first (spark.stop()), or set it where the session is made",
            ) from None
    return running


def _java_options(given: Mapping[str, str], java: Java) -> str:
    """Options of the JVM: ours, then the user's, which win."""
    theirs = given.get("spark.driver.extraJavaOptions", "")
    ours = ["-XX:+DisplayVMOutputToStderr"]  # stdout is for results; and stderr is where we look for what went wrong
    if not archive.is_about(theirs):
        ours += archive.options(java)
    if "log4j" not in theirs and not _has_logging():
        ours.append(f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}")
    return " ".join([*map(_quoted, ours), theirs]).strip()


def _quoted(option: str) -> str:
    return f'"{option}"' if " " in option else option


def _has_logging() -> bool:
    """Whether the user told Spark how to log."""
    home = os.environ.get("SPARK_HOME")
    conf = os.environ.get("SPARK_CONF_DIR") or (Path(home) / "conf" if home else None)
    return conf is not None and any(Path(conf).glob("log4j2.*"))


def _started(settings: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    _launch(conf)
    _quiet_python()
    try:
        started = SparkSession.builder.config(conf=conf).getOrCreate()
    except Py4JJavaError as error:
        raise _failed(str(error.java_exception.toString())) from None
    except (Py4JError, PySparkException) as error:
        raise _failed(str(error)) from None
    same_python(started)
    return started


def _launch(conf: SparkConf) -> None:
    """Start the JVM with its stderr in our hands, so that its start is quiet and its failure can be told."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    stderr = Stderr(hold=not conf.contains("spark.jars.packages"))  # a download may take minutes: show it
    try:
        with warnings.catch_warnings():  # PySpark forks here, as it always does; Python 3.12 warns if there are threads
            warnings.simplefilter("ignore", DeprecationWarning)
            gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr.target})  # type: ignore[no-untyped-call]
    except PySparkException as error:
        said = stderr.finish()
        raise _failed(_useful_line(said) or _first_line(str(error))) from None
    stderr.release()
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _quiet_python() -> None:
    """PySpark logs each error of a query as a line of JSON before it raises the same error: once is enough."""
    if importlib.util.find_spec("pyspark.logger") is None:  # Spark 3.5 does not log them
        return
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _failed(reason: str) -> TocsinError:
    hint = "check the master and the settings; spark.log.level=INFO shows how far it came"
    detail = re.sub(r'^(?:Exception in thread "[^"]*" )?(?:[\w.$]+(?:Exception|Error): )?', "", _first_line(reason))
    return TocsinError("Spark could not start", detail=detail, hint=hint)


CAUSES = ("error", "exception", "could not", "cannot", "invalid", "unrecognized", "not found", "unable")
EMPTY = (
    "Error: Could not create the Java Virtual Machine.",
    "Error: A fatal exception has occurred. Program will exit.",
    "Error occurred during initialization of VM",
)


def _useful_line(said: str) -> str:
    """The line that names the cause: the first that sounds like trouble and says what, else the first at all."""
    lines = [line.strip() for line in said.splitlines()]
    lines = [line for line in lines if line and line not in EMPTY and not line.startswith(("at ", "...", "Picked up "))]
    troubles = [line for line in lines if any(word in line.lower() for word in CAUSES)]
    return (troubles or lines or [""])[0]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
