"""The Spark benchmark: one query over one stream in parquet, answered by every arm from the same files."""
