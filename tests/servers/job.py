"""The streaming job of the server tests, as a user would submit it: `spark-submit job.py SETTINGS.json`.

It reads events as JSON from files or from a Kafka topic, looks for thefts, and writes them to a parquet folder or to a
topic. It runs until the file `stop` appears and all that has come by then is done. Progress is one JSON line a batch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

import tocsin.spark

EVENT = "eid LONG, type STRING, time LONG, tag STRING"


def events(spark: SparkSession, source: dict[str, Any]) -> DataFrame:
    """The stream of events; of a Kafka record the value is read, and its partition is the source of the event."""
    reader = spark.readStream.format(source["format"]).options(**source["options"])
    if source["format"] == "kafka":
        records = reader.load()
        parsed = sf.from_json(records["value"].cast("string"), EVENT).alias("event")
        return records.select(parsed, sf.col("partition").cast("string").alias("source")).select("event.*", "source")
    return reader.schema(EVENT).load(source["path"])


def thefts(frame: DataFrame, question: dict[str, Any]) -> DataFrame:
    """What the question finds in the events."""
    return tocsin.spark.detect(frame, question["query"], **question["options"])


def started(found: DataFrame, sink: dict[str, Any]) -> StreamingQuery:
    """The running query; for Kafka a match is one JSON record under its match_id, and metrics stay behind."""
    if sink["format"] == "kafka":
        record = sf.to_json(sf.struct(*(sf.col(name) for name in found.columns)))
        found = found.where("kind <> 'metrics'").select(sf.col("match_id").alias("key"), record.alias("value"))
    writer = found.writeStream.format(sink["format"]).options(**sink["options"])
    return writer.option("checkpointLocation", sink["checkpoint"]).start()


def followed(query: StreamingQuery, stop: Path, progress: Path) -> None:
    """Write down each batch as it ends, until told to stop; an error of the query ends the job."""
    seen = -1
    with progress.open("a") as file:
        while not query.awaitTermination(0.2):
            last = stop.exists()
            if last:
                query.processAllAvailable()
            for batch in query.recentProgress:
                if batch.batchId > seen:
                    seen = batch.batchId
                    print(batch.json.replace("\n", " "), file=file, flush=True)
            if last:
                query.stop()
                return


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    spark = SparkSession.builder.appName("thefts").getOrCreate()
    found = thefts(events(spark, settings["source"]), settings["question"])
    query = started(found, settings["sink"])
    followed(query, Path(settings["stop"]), Path(settings["progress"]))
    spark.stop()


if __name__ == "__main__":
    main()
