"""Check the Python workers of a session before data moves: the same Python, and the same Tocsin, as in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tocsin.errors import TocsinError
from tocsin.spark.setup.errors import explained
from tocsin.spark.setup.jvm import context, is_remote
from tocsin.spark.setup.launcher import python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISMATCH = "PYTHON_VERSION_MISMATCH"
SHIP = (
    "install it there: as a library of the cluster, in its image, or in an archive (--archives); "
    "on Spark Connect also by spark.addArtifacts('packages.zip#packages', archive=True)"
)
_fit: set[str] = set()  # the sessions whose workers were asked


def check_workers(spark: SparkSession) -> None:
    """Ask one worker what it has, once for each session; refuse workers that cannot do our work."""
    session = _unknown(spark)
    if session is None or session in _fit:
        return
    try:
        [[found]] = spark.range(1, numPartitions=1).mapInArrow(_look(), "version string").collect()
    except Exception as error:
        raise _refusal(error) from error
    if found is None:
        raise TocsinError(
            "the workers of this session have no Tocsin", detail="their Python cannot import tocsin", hint=SHIP
        )
    here = sys.modules["tocsin"].__version__
    if found != here:
        raise TocsinError(
            f"the workers of this session have Tocsin {found}, and this program has {here}",
            hint="install the same version on both sides",
        )
    _fit.add(session)


def _unknown(spark: SparkSession) -> str | None:
    """A name for the workers of a session; None if they are on this machine and run this very Python."""
    if is_remote(spark):
        session: Any = spark
        return str(session.session_id)
    own = context(spark)
    if own.master.startswith("local") and own.pythonExec in (sys.executable, python()):
        return None
    return f"{own.applicationId} {own.pythonExec}"


def _look() -> Any:
    """Return what a worker runs; made here, so that it is sent whole: the worker may have no Tocsin to find it in."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from importlib import import_module

        import pyarrow

        try:
            found = import_module("tocsin").__version__
        except ModuleNotFoundError:
            found = None
        for batch in batches:
            yield pyarrow.RecordBatch.from_pydict({"version": [found] * batch.num_rows})

    return look


def _refusal(error: Exception) -> BaseException:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if MISMATCH in str(error):
        return TocsinError(
            "the workers of this session run another Python than this program",
            detail=f"here it is {here}, and Spark takes the same minor version on both sides only",
            hint="name a Python that fits, before the session starts: PYSPARK_PYTHON, or spark.pyspark.python",
        )
    return explained(error) or error
