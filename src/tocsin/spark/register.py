"""Make `tocsin_detect` known to the SQL of a session; what it needs is loaded then, since Spark 3.5 lacks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from tocsin.functions import registered
from tocsin.spark.setup.jvm import cores
from tocsin.spark.setup.versions import check_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "tocsin_detect"
BUCKETS_PER_CORE = 4  # Spark deals them out by their hash, so some tasks get several and some none


def register(spark: SparkSession, name: str = NAME) -> None:
    """Make `SELECT * FROM tocsin_detect(TABLE(events), 'EVENT ...', time => 'at')` work in this session's SQL.

    The arguments behind the query are those of `detect`, by the same names: type, time, end, eid, time_unit, all,
    bad_rows, buckets. The functions that are registered now (`tocsin.function`) can be called.
    """
    check_whole(spark, "tocsin.spark.register")
    from tocsin.spark.table_function import table_function

    made: Any = sf.udtf(table_function(BUCKETS_PER_CORE * cores(spark), dict(registered())), useArrow=False)
    spark.udtf.register(name, made)
