"""Shards: a query graph divided by partition key. Routing, event logs and checkpoints; knows nothing of pyspark."""
