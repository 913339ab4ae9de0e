"""Spark: the same queries on DataFrames, in batches and in streams. Needs pyspark (the extra `spark`).

import tocsin.spark

tocsin.spark.detect(df, "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h", time="at")
"""

from tocsin.spark.detect import detect, detector

__all__ = ["detect", "detector"]
