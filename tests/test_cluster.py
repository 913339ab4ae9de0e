"""A real cluster: master and two workers on loopback, one of them killed in mid-stream; the answer is the oracle's.

`make cluster-test` runs this; `make test` leaves it out.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import pytest

from tests.servers import cluster, results, shop
from tests.servers.processes import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

JOB = Path(cluster.__file__).parent / "job.py"
FILES = 16
KILL_AT = 6
EXECUTOR_KERNELS = "executor-kernels"
PATIENCE = 300.0  # the machine may be busy; a job that fails is seen at once


def settings(folder: Path) -> Path:
    """The job: JSON files in, one a batch; parquet out."""
    (folder / "in").mkdir()
    job = {
        "source": {"format": "json", "path": str(folder / "in"), "options": {"maxFilesPerTrigger": 1}},
        "question": {"query": shop.QUERY, "options": {"eid": "eid", "order": f"slack({shop.SLACK})"}},
        "sink": {"format": "parquet", "options": {"path": str(folder / "out")}, "checkpoint": str(folder / "state")},
        "stop": str(folder / "stop"),
        "progress": str(folder / "progress.jsonl"),
    }
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    return path


def conf(folder: Path) -> dict[str, str]:
    """What the job is given: small executors, and a place for kernels that is the executors' own."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": cluster.QUICK,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": cluster.QUICK,
        "spark.executorEnv.TOCSIN_CACHE": str(folder / EXECUTOR_KERNELS),
        "spark.sql.shuffle.partitions": "2",
        **cluster.STATE,
    }


def compiled_files(folder: Path) -> dict[str, bytes]:
    """What Numba keeps on disk, by name."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.nb?")}


def test_a_worker_and_its_executor_die_in_mid_stream(tmp_path, capsys):
    begun = time.monotonic()
    history = shop.rows(30_000)
    last = len(history)
    parts = [*shop.pieces(history, FILES), shop.flush(last), shop.flush(2 * last)]
    done = tmp_path / "progress.jsonl"
    with cluster.running(tmp_path / "cluster") as servers:
        up = time.monotonic() - begun
        job = str(settings(tmp_path))
        submit = cluster.submitted(JOB, job, folder=tmp_path, master=servers.address, conf=conf(tmp_path))
        with submit as driver:
            for number, part in enumerate(parts):
                shop.drop(tmp_path / "in", number, part)
                if number == KILL_AT:
                    wait_for(
                        "three batches", lambda: len(results.progress(done)) >= 3, timeout=PATIENCE, needs=[driver]
                    )
                    lose(servers, 0)
                time.sleep(0.3)
            (tmp_path / "stop").touch()
            wait_for("the job's end", lambda: not driver.running(), timeout=PATIENCE)
            assert driver.process.returncode == 0, driver.tail()
        wait_for("the master to notice", lambda: len(servers.registered()) == 1, timeout=PATIENCE)
    assert not any(one.commands() for one in (servers.master, *servers.workers, driver))

    rows = results.rows_of(tmp_path / "out")
    assert {row["kind"] for row in rows} == {"match", "metrics"}
    found = [(row["s"]["eid"], row["e"]["eid"]) for row in rows if row["kind"] == "match"]
    assert len(found) == len(set(found))
    assert set(found) == shop.answer(history)

    batches = results.progress(done)
    took = [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]
    with capsys.disabled():
        print(f"\n  cluster up after {up:.1f} s; all {time.monotonic() - begun:.1f} s")
        print(f"  {len(history)} events, {len(found)} matches, {len(batches)} batches")
        usual, most = statistics.median(took[1:]), max(took[1:])
        print(f"  first batch {took[0]:.2f} s, then {usual:.2f} s (median), at most {most:.2f} s")

    shipped = compiled_files(tmp_path / cluster.DRIVER_KERNELS)
    used = compiled_files(tmp_path / EXECUTOR_KERNELS)
    assert used, "executors have no compiled kernels: did they run them at all?"
    assert used == {name: shipped.get(name) for name in used}, "executors compiled kernels of their own"
    assert not compiled_files(tmp_path / "cluster"), "executors compiled parts of the library"


def lose(servers: cluster.Cluster, number: int) -> None:
    """A machine is gone: a worker, its executor, and the Python processes of that executor."""
    victim = servers.workers[number]
    assert servers.executors(victim), "the worker has no executor: nothing would be lost"
    victim.kill()
    assert not victim.commands()
