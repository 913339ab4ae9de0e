"""Shards: a graph cut by key. Routing, logs and snapshots, without pyspark."""
