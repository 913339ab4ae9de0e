"""The same rules on Spark, as a batch and as a stream that is stopped and started again: the same matches and ids."""

from __future__ import annotations

import shutil
from pathlib import Path

import data
import pyarrow.parquet as pq

import tocsin
import tocsin.spark

data.write()
rules = tocsin.query(Path(__file__).with_name("flights.tocsin"))
embedded = sorted(match["match_id"] for match in rules.detect(data.FOLDER / "flights.parquet"))
spark = tocsin.spark.session()
frame = spark.read.parquet(str(data.FOLDER / "flights.parquet"))
alarms = tocsin.spark.detect(frame, rules)
batch = sorted(row.match_id for row in alarms.select("match_id").collect())
print(f"{len(embedded)} matches embedded, {len(batch)} as a Spark batch")
assert batch == embedded and batch

for name in ("arriving", "found", "checkpoint"):
    shutil.rmtree(data.FOLDER / name, ignore_errors=True)
(data.FOLDER / "arriving").mkdir()
table = pq.read_table(data.FOLDER / "flights.parquet")
half = table.num_rows // 2
for number, part in enumerate((table.slice(0, half), table.slice(half))):
    pq.write_table(part, data.FOLDER / "arriving" / f"{number}.parquet")
    arriving = spark.readStream.schema(frame.schema).parquet(str(data.FOLDER / "arriving"))
    stream = tocsin.spark.start(
        tocsin.spark.detect(arriving, rules, order="slack(10 min)"),
        tocsin.spark.Sink("parquet", str(data.FOLDER / "found")),
        checkpoint=str(data.FOLDER / "checkpoint"),
        trigger={"availableNow": True},
    )
    stream.awaitTermination()
    stream.stop()
live = sorted(row.match_id for row in spark.read.parquet(str(data.FOLDER / "found")).select("match_id").collect())
print(f"{len(live)} matches so far as a stream of two runs; others wait for later events")
assert set(live) <= set(embedded) and len(live) == len(set(live)) > 0
