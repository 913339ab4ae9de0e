"""Borrow a Spark session for one command: stop it afterwards if we started it, else leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tocsin.spark.setup.session import session
from tocsin.spark.setup.versions import check_whole


@contextmanager
def borrowed_session(
    *, master: str = "local[*]", app: str = "tocsin", config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield the running session, or a new one that is stopped at the end; settings of a running one are restored."""
    running = SparkSession.getActiveSession()
    before = {} if running is None else {key: running.conf.get(key, None) for key in config or {}}
    spark = session(master=master, app=app, config=config)
    try:
        check_whole(spark, "the command line")
        yield spark
    finally:
        if running is None:
            spark.stop()
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            elif spark.conf.get(key) != value:
                spark.conf.set(key, value)
