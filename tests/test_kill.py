"""A million events, driver and JVM killed at ten random moments: every match is there, and once (`make kill-test`)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.kill_driver import QUERY
from tocsin.events import Event
from tocsin.testing.oracle import matches

pytestmark = pytest.mark.kill

EVENTS, FILES, KEYS, KILLS = 1_000_000, 40, 20_000, 10
SAMPLE = 150  # keys that are put to the definition, too


def made(folder: Path) -> pa.Table:
    """Files in order of time, rows within a file in any order."""
    rng = np.random.default_rng(11)
    rows = pa.table(
        {
            "type": np.array(["Shelf", "Counter", "Exit", "Lamp"])[rng.integers(0, 4, EVENTS)],
            "time": np.sort(rng.integers(0, EVENTS // 10, EVENTS)),
            "tag": rng.integers(0, KEYS, EVENTS),
            "price": rng.integers(1, 1000, EVENTS) / 4,
            "id": np.arange(EVENTS),
        }
    )
    folder.mkdir()
    size = EVENTS // FILES
    for number in range(FILES):
        part = rows.slice(number * size, size).take(pa.array(rng.permutation(size)))
        pq.write_table(part, folder / f"{number:03d}.parquet")
        os.utime(folder / f"{number:03d}.parquet", (1_700_000_000 + number, 1_700_000_000 + number))
    return rows


def run_with_kills(command: list[str], kills: int, seed: int) -> int:
    """Start, kill -9 driver, JVM and workers after a random time, start again; the last run is left alone."""
    rng = random.Random(seed)
    done = 0
    while True:
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
            assert child.stdout is not None
            try:
                if done == kills:
                    assert child.wait(timeout=600) == 0
                    return done
                child.stdout.readline()  # "started"
                time.sleep(rng.uniform(0.5, 6.0))
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    done += 1
                else:
                    assert child.returncode == 0
                    return done
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)


@pytest.mark.parametrize("sink", ["parquet", "foreach"])
def test_no_match_is_lost_or_doubled(tmp_path: Path, sink: str) -> None:
    rows = made(tmp_path / "in")
    folders = [str(tmp_path / name) for name in ("in", "out", "checkpoint")]
    script = str(Path(__file__).with_name("kill_driver.py"))
    assert run_with_kills([sys.executable, script, *folders, "--sink", sink], KILLS, 3) == KILLS
    found = answers(tmp_path / "out", sink)
    expected = tocsin.query(QUERY).detect(rows, eid="id").table()
    ids = found["match_id"].to_pylist()
    assert len(ids) == len(set(ids)) > 1000
    assert sorted(ids) == sorted(expected["match_id"].to_pylist())
    columns = ["match_id", "start", "end", "tag", "taken", "left", "gain"]
    assert found.select(columns).sort_by("match_id") == expected.select(columns).sort_by("match_id")
    judged_by_definition(rows, found)


def answers(folder: Path, sink: str) -> pa.Table:
    """What a reader of the sink sees; files that no committed batch mentions are left over from the dead."""
    if sink == "foreach":
        table = pq.read_table(folder)
    else:
        from tocsin.spark import session

        table = session(master="local[2]").read.parquet(str(folder)).toArrow()
    kinds = set(table["kind"].to_pylist())
    assert "metrics" in kinds and "late" not in kinds
    return table.filter(pa.compute.equal(table["kind"], "match")).combine_chunks()


def judged_by_definition(rows: pa.Table, found: pa.Table) -> None:
    """For some keys, the brute-force oracle says what is right."""
    query = tocsin.query(QUERY).queries[0]
    for key in random.Random(5).sample(range(KEYS), SAMPLE):
        mine = rows.filter(pa.compute.equal(rows["tag"], key)).to_pylist()
        events = [
            Event(
                row["type"], row["time"], row["time"], row["id"], {name: row[name] for name in ("tag", "price", "id")}
            )
            for row in mine
        ]
        pairs = {(int(dict(m.binding)["s"][0]), int(dict(m.binding)["e"][0])) for m in matches(query, events)}
        here = found.filter(pa.compute.equal(found["tag"], key))
        assert set(zip(here["taken"].to_pylist(), here["left"].to_pylist(), strict=True)) == pairs
