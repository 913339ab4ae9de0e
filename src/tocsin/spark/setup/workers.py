"""What the Python workers of a session have: asked once by a small job, before any data moves.

The parts of Tocsin here and there exchange jobs and kernels, so they must be of one version; Python sends its functions
as bytes that only the same Python reads; and a server of Spark Connect that is older than the client may not know what
it is asked.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tocsin.errors import TocsinError
from tocsin.spark.setup.errors import SHIPPING, explained
from tocsin.spark.setup.jvm import context, is_remote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ROWS = 1 << 20  # enough for Spark to deal them out to all cores
_known: dict[str, Workers] = {}  # by session


@dataclass(frozen=True)
class Workers:
    """How many tasks ran at once, and the version of Tocsin that workers have: empty where they have none."""

    tasks: int
    tocsin: str


def check_workers(spark: SparkSession) -> None:
    """Refuse workers that cannot do our work; those on this machine that run this very Python are not asked."""
    if not _run_this_python(spark):
        workers_of(spark)


def workers_of(spark: SparkSession) -> Workers:
    """Ask the workers of a session, once; refuse those that cannot do our work."""
    name = _name(spark)
    if name not in _known:
        if is_remote(spark):
            check_spark(spark.version)
        found = _asked(spark)
        check_tocsin(found.tocsin)
        _known[name] = found
    return _known[name]


def _run_this_python(spark: SparkSession) -> bool:
    if is_remote(spark):
        return False
    from tocsin.spark.setup.launcher import python  # it needs pyspark, which may be missing

    own = context(spark)
    return own.master.startswith("local") and own.pythonExec in (sys.executable, python())


def _name(spark: Any) -> str:
    if is_remote(spark):
        return str(spark.session_id)
    own = context(spark)
    return f"{own.applicationId} {own.pythonExec}"


def _asked(spark: SparkSession) -> Workers:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # sent by value, for workers that may not have Tocsin
        from importlib import import_module

        import pyarrow

        for _ in batches:
            pass
        try:
            version = str(getattr(import_module("tocsin"), "__version__", "unknown"))
        except ModuleNotFoundError as error:
            if error.name != "tocsin":
                raise
            version = ""
        yield pyarrow.RecordBatch.from_pydict({"tocsin": [version]})

    # A server does not say how many tasks it runs at once; a cluster does, and need not start all its workers for this.
    some = spark.range(ROWS) if is_remote(spark) else spark.range(1, numPartitions=1)
    try:
        rows = some.mapInArrow(look, "tocsin string").collect()
    except Exception as error:
        told = explained(error)
        if told is None:
            raise
        raise told from error
    return Workers(len(rows), min(row[0] for row in rows))


def check_tocsin(version: str) -> None:
    """Refuse workers without Tocsin, or with another version of it."""
    here = _own_version()
    if not version:
        raise TocsinError("the workers of this session have no Tocsin", hint=SHIPPING)
    if version != here:
        raise TocsinError(
            f"the workers of this session have Tocsin {version}, and this program has {here}",
            detail="jobs and compiled kernels of one version mean nothing to another",
            hint=f"install tocsin=={version} here, or {here} there",
        )


def check_spark(server: str) -> None:
    """Refuse a server that is older than the client: it may not know what it is asked."""
    import pyspark

    here = pyspark.__version__
    if _release(server) < _release(here):
        major, minor = _release(server)
        raise TocsinError(
            f"the server runs Spark {server}, and this program PySpark {here}",
            detail="a server understands clients of its own version and older ones",
            hint=f"pip install 'pyspark[connect]=={major}.{minor}.*' here, or use a newer server",
        )


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _own_version() -> str:
    return str(importlib.import_module("tocsin").__version__)
