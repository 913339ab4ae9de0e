"""What a server of Spark Connect and its workers have: asked once by a small job, before any data moves.

The parts of Tocsin here and there exchange jobs and kernels, so they must be of one version; Python sends its functions
as bytes that only the same Python reads; and a server that is older than the client may not know what it is asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tocsin.errors import TocsinError
from tocsin.spark.setup.errors import SHIPPING, explained

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ROWS = 1 << 20  # enough for Spark to deal them out to all cores
_known: dict[str, Server] = {}  # by session


@dataclass(frozen=True)
class Server:
    """How many tasks run at once, and the version of Tocsin that workers have: empty where they have none."""

    cores: int
    tocsin: str


def server_of(spark: SparkSession) -> Server:
    """Ask the server of a remote session, once; refuse one that cannot do our work."""
    session: Any = spark
    if session.session_id not in _known:
        check_spark(spark.version)
        server = _asked(spark)
        check_tocsin(server.tocsin)
        _known[session.session_id] = server
    return _known[session.session_id]


def _asked(spark: SparkSession) -> Server:
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

    try:
        rows = spark.range(ROWS).mapInArrow(look, "tocsin string").collect()
    except Exception as error:
        told = explained(error)
        if told is None:
            raise
        raise told from error
    return Server(len(rows), min(row[0] for row in rows))


def check_tocsin(version: str) -> None:
    """Refuse workers without Tocsin, or with another version of it."""
    here = _own_version()
    if not version:
        raise TocsinError("the workers of the server have no Tocsin", hint=SHIPPING)
    if version != here:
        raise TocsinError(
            f"the workers of the server have Tocsin {version}, and this program has {here}",
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
