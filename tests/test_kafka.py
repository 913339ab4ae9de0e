"""Kafka to Kafka through a real broker, the driver killed again and again: no match lost, and twice only under one id.

`make kafka-test` runs this; `make test` leaves it out. Spark's Kafka sink delivers at least once: a batch that was
written but not committed is written again. What Tocsin adds is that a match has the same `match_id` every time, so a
reader that keeps one record an id has each match exactly once.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.servers import cluster, kafka, maven, shop
from tests.servers.processes import Started, wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

JOB = Path(cluster.__file__).parent / "job.py"
PARTITIONS = 2
KILLED_AFTER = (1, 0, 2)  # how many batches each driver may finish: the second dies in its first one
FORGOTTEN = 2  # after the last kill, the last batch loses its commit as well
BATCH = 1000
PATIENCE = 300.0


def settings(folder: Path, address: str) -> Path:
    """The job: one topic in, another out."""
    kafka_at = {"kafka.bootstrap.servers": address}
    job = {
        "source": {
            "format": "kafka",
            "options": {
                **kafka_at,
                "subscribe": "events",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": BATCH,
            },
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


def batches(checkpoint: Path, log: str) -> list[int]:
    """The batches that a checkpoint has an entry for: planned (`offsets`) or done (`commits`)."""
    folder = checkpoint / log
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.exists() else []


def at_work(driver: Started, checkpoint: Path) -> bool:
    """Whether a batch was planned and is not done, and the driver has begun to do it."""
    planned = batches(checkpoint, "offsets")[-1:] > batches(checkpoint, "commits")[-1:]
    return planned and any(cluster.PYTHON_DAEMON in command for command in driver.commands().values())


def forget_last_commit(checkpoint: Path) -> None:
    """As if the kill had come between the sink's last write and its commit: that batch will be written again."""
    last = batches(checkpoint, "commits")[-1]
    for log, first in (("commits", last), ("offsets", last + 1)):
        for batch in batches(checkpoint, log):
            if batch >= first:
                (checkpoint / log / f"{batch}").unlink()
                (checkpoint / log / f".{batch}.crc").unlink(missing_ok=True)


def by_partition(rows: list[shop.Row]) -> list[tuple[int, shop.Row]]:
    """Each row with its partition: in turn, as a producer without keys spreads them."""
    return [(number % PARTITIONS, row) for number, row in enumerate(rows)]


def once(records: list[dict[str, Any]]) -> list[shop.Pair]:
    """One theft for each match_id; records that share an id must be the same record."""
    by_id = defaultdict(list)
    for record in records:
        by_id[record["match_id"]].append(record)
    assert all(record == first for first, *more in by_id.values() for record in more)
    return [(first["s"]["eid"], first["e"]["eid"]) for first, *_ in by_id.values()]


def test_the_driver_dies_again_and_again(tmp_path, capsys):
    begun = time.monotonic()
    draw = Random(3)
    history = shop.rows(20_000)
    last = len(history)
    pieces = shop.pieces(history, len(KILLED_AFTER) + 1)
    state = tmp_path / "state"
    with kafka.running(tmp_path / "kafka") as broker:
        up = time.monotonic() - begun
        broker.create("events", PARTITIONS)
        broker.create("thefts", PARTITIONS)
        job = str(settings(tmp_path, broker.address))
        submit = partial(cluster.submitted, JOB, job, folder=tmp_path, master="local[2]", conf=conf())
        for number, finished in enumerate(KILLED_AFTER):
            broker.produce("events", by_partition(pieces[number]))
            goal = len(batches(state, "commits")) + finished
            with submit(name=f"driver-{number}") as driver:
                wait_for(
                    f"{finished} batches and work on another",
                    lambda goal=goal, driver=driver: len(batches(state, "commits")) >= goal and at_work(driver, state),
                    timeout=PATIENCE,
                    needs=[driver],
                    pause=0.05,
                )
                time.sleep(draw.uniform(0.0, 1.0))
                assert any("java" in command for command in driver.commands().values())
                driver.kill()
                assert not driver.commands()
            if number == FORGOTTEN:
                forget_last_commit(state)
        broker.produce("events", by_partition([*pieces[-1], *shop.flush(last, 2), *shop.flush(2 * last, 2)]))
        (tmp_path / "stop").touch()
        with submit(name="driver-last") as driver:
            wait_for("the job's end", lambda: not driver.running(), timeout=PATIENCE)
            assert driver.process.returncode == 0, driver.tail()
        records = broker.everything("thefts")

    assert {record["kind"] for record in records} == {"match"}
    found = once(records)
    assert len(records) > len(found), "no batch was written twice: the forgotten commit should have caused it"
    assert len(found) == len(set(found))
    assert set(found) == shop.answer(history)
    with capsys.disabled():
        print(f"\n  broker up after {up:.1f} s; all {time.monotonic() - begun:.1f} s")
        print(f"  {len(history)} events, {len(KILLED_AFTER)} kills, {len(batches(state, 'offsets'))} batches")
        print(f"  {len(records)} records, {len(found)} matches: {len(records) - len(found)} written twice, none lost")
