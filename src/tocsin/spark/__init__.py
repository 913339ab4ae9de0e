"""Spark: the same queries on DataFrames, in batches and in streams. Needs pyspark (the extra `spark`)."""
