"""Events as they arrive, and the thefts among them: two streaming tables of a declarative pipeline.

A query function may not ask what columns a frame has, and `detect` must. So it is called here, when the file is read,
on the source itself; the query function only returns what it gave. History is for SQL: thefts_of_history.sql.
"""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import tocsin.spark

THEFT = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h SELECT s.tag AS tag"
INBOX = str(Path(__file__).parent.parent / "inbox")

spark = SparkSession.active()
arriving = spark.readStream.schema("eid LONG, type STRING, time TIMESTAMP, tag STRING").json(INBOX)
found = tocsin.spark.matches(tocsin.spark.detect(arriving, THEFT, order="slack(10 min)"))
tocsin.spark.register(spark)  # for thefts_of_history.sql


@dp.table
def events() -> DataFrame:
    return arriving


@dp.table
def thefts() -> DataFrame:
    return found
