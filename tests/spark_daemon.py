"""The process from which Spark forks its Python workers, with all that they need loaded before.

Spark's own loads nothing, so every worker spends more than a second on imports, which is most of what a small test
costs it; and a run of all tests starts hundreds of workers. `spark.python.daemon.module` names this one.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from pyspark.daemon import manager

NEEDED = (
    "pyspark.worker",
    "pandas",
    "pyarrow.parquet",
    "tocsin.shards.shard",
    "tocsin.spark.batch",
    "tocsin.spark.processor",
    "tocsin.spark.stream",
    "tocsin.spark.worker_reads.batch",
    "tocsin.spark.worker_reads.stream",
)

if __name__ == "__main__":
    for name in NEEDED:
        with suppress(ImportError):  # for some errands Spark takes another Python, which has less
            import_module(name)
    manager()
