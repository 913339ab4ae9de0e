"""Detect queries in Spark DataFrames, batch and streaming. Needs pyspark (the extra `spark`).

import tocsin.spark

tocsin.spark.detect(df, "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h", time="at")
"""

from tocsin.spark.setup.versions import why_not

if (problem := why_not()) is not None:  # before anything is imported that an older PySpark does not have
    raise problem

from tocsin.spark.detect import detect, detector
from tocsin.spark.explain import explain
from tocsin.spark.learn import learn_constraint
from tocsin.spark.metrics import numbers, open_metrics, watch
from tocsin.spark.register import register
from tocsin.spark.settled import settled
from tocsin.spark.setup.session import session
from tocsin.spark.write import Sink, matches, start

__all__ = [
    "Sink",
    "detect",
    "detector",
    "explain",
    "learn_constraint",
    "matches",
    "numbers",
    "open_metrics",
    "register",
    "session",
    "settled",
    "start",
    "watch",
]
