"""Kafka to Kafka through a real broker, the driver killed again and again: no match lost, and twice only under one id.

`make kafka-test` runs this; `make test` leaves it out. Spark's Kafka sink delivers at least once: a batch that was
written but not committed is written again. What Tocsin adds is that a match has the same `match_id` every time, so a
reader that keeps one record an id has each match exactly once.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from tests.servers import cluster, kafka, maven, results, shop
from tests.servers.processes import wait_for

pytestmark = [pytest.mark.slow]

JOB = Path(cluster.__file__).parent / "job.py"
PARTITIONS = 2
KILLS = 3
FORGOTTEN = 1  # after this kill, the last batch loses its commit as well
BATCH = 1000
PATIENCE = 300.0


def settings(folder: Path, address: str) -> Path:
    """The job: one topic in, another out."""
    kafka_at = {"kafka.bootstrap.servers": address}
    job = {
        "source": {
            "format": "kafka",
            "options": {**kafka_at, "subscribe": "events", "startingOffsets": "earliest", "maxOffsetsPerTrigger": BATCH},
        },
        "question": {
            "query": shop.QUERY,
            "options": {"eid": "eid", "source": "source", "sources": ["0", "1"], "order": f"slack({shop.SLACK})"},
        },
        "sink": {"format": "kafka", "options": {**kafka_at, "topic": "thefts"}, "checkpoint": str(folder / "state")},
        "stop": str(folder / "stop"),
        "progress": str(folder / "progress.jsonl"),
    }
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    return path


def conf() -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": cluster.QUICK,
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": ",".join(str(jar) for jar in maven.connector()),
        **cluster.STATE,
    }


def forget_last_commit(checkpoint: Path) -> int:
    """As if the kill had come between the sink's last write and its commit: that batch will be written again."""
    batch = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for log, first in (("commits", batch), ("offsets", batch + 1)):
        for path in (checkpoint / log).iterdir():
            number = path.name.strip(".").removesuffix(".crc")
            if number.isdigit() and int(number) >= first:
                path.unlink()
    return batch


def by_partition(rows: list[shop.Row]) -> list[tuple[int, shop.Row]]:
    """Each row with its partition: in turn, as a producer without keys spreads them."""
    return [(number % PARTITIONS, row) for number, row in enumerate(rows)]


def test_the_driver_dies_again_and_again(tmp_path, capsys):
    begun = time.monotonic()
    draw = Random(3)
    history = shop.rows(20_000)
    last = len(history)
    pieces = shop.pieces(history, KILLS + 1)
    done = tmp_path / "progress.jsonl"
    with kafka.running(tmp_path / "kafka") as broker:
        up = time.monotonic() - begun
        broker.create("events", PARTITIONS)
        broker.create("thefts", PARTITIONS)
        job = settings(tmp_path, broker.address)
        submit = {"folder": tmp_path, "master": "local[2]", "conf": conf()}
        for number in range(KILLS):
            broker.produce("events", by_partition(pieces[number]))
            before = len(results.progress(done))
            with cluster.submitted(JOB, str(job), **submit, name=f"driver-{number}") as driver:
                wait_for("a batch", lambda: len(results.progress(done)) > before, timeout=PATIENCE, needs=[driver])
                time.sleep(draw.uniform(0.0, 2.0))
                assert any("java" in command for command in driver.commands().values())
                driver.kill()
                assert not driver.commands()
            if number == FORGOTTEN:
                forget_last_commit(tmp_path / "state")
        broker.produce("events", by_partition([*pieces[KILLS], *shop.flush(last, PARTITIONS), *shop.flush(2 * last, PARTITIONS)]))
        (tmp_path / "stop").touch()
        with cluster.submitted(JOB, str(job), **submit, name="driver-last") as driver:
            wait_for("the job's end", lambda: not driver.running(), timeout=PATIENCE)
            assert driver.process.returncode == 0, driver.tail()
        records = broker.everything("thefts")
    by_id = defaultdict(list)
    for record in records:
        by_id[record["match_id"]].append(record)
    assert len(records) > len(by_id), "no batch was written twice: the forgotten commit should have caused it"
    assert {record["kind"] for record in records} == {"match"}
    assert all(record == first for first, *more in by_id.values() for record in more)
    found = [(first["s"]["eid"], first["e"]["eid"]) for first, *_ in by_id.values()]
    assert len(found) == len(set(found))
    assert set(found) == shop.answer(history)
    with capsys.disabled():
        print(f"\nbroker up {up:.1f} s; {KILLS} kills; {len(results.progress(done))} batches; {len(found)} matches, "
              f"{len(records) - len(found)} records more than matches; total {time.monotonic() - begun:.1f} s")
