"""What the server tests stand on: sessions that end with all their processes, sinks read by their log, poms."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.servers import results, shop
from tests.servers.maven import Wanted
from tests.servers.processes import PROC, free_ports, members, session_of, started, wait_for

linux = pytest.mark.skipif(not PROC.is_dir(), reason="sessions are read from /proc")

# A family as Spark has it: a child that leaves the process group, and a grandchild whose parent has ended.
FAMILY = """
import os, sys, time
if os.fork() == 0:
    os.setpgid(0, 0)
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(600)
"""


def family(folder: Path):
    log = folder / "family.log"
    return started("family", [sys.executable, "-c", FAMILY], log=log, env=os.environ, cwd=folder)


@linux
def test_a_session_ends_with_all_its_processes(tmp_path):
    with family(tmp_path) as one:
        wait_for("the family", lambda: "ready" in one.log.read_text(), timeout=30, needs=[one])
        pids = list(one.commands())
        assert len(pids) == 2
        assert {session_of(pid) for pid in pids} == {one.process.pid}
        one.kill()
        assert not one.running()
        assert not members(one.process.pid)
    assert not [pid for pid in pids if session_of(pid) == one.process.pid]


@linux
def test_a_session_ends_when_the_test_is_interrupted(tmp_path):
    with suppress(KeyboardInterrupt), family(tmp_path) as one:
        wait_for("the family", lambda: "ready" in one.log.read_text(), timeout=30, needs=[one])
        raise KeyboardInterrupt
    assert not one.running()
    assert not members(one.process.pid)


@linux
def test_waiting_for_a_process_that_has_ended_shows_its_log(tmp_path):
    command = [sys.executable, "-c", "import sys; sys.exit('no room')"]
    short = started("short", command, log=tmp_path / "log", env=os.environ, cwd=tmp_path)
    with short as one, pytest.raises(TimeoutError, match=r"(?s)short ended with 1.*no room"):
        wait_for("what never comes", lambda: None, timeout=60, needs=[one])


def test_waiting_too_long_is_an_error():
    with pytest.raises(TimeoutError, match=re.escape("waiting for nothing: not within 0.05 s")):
        wait_for("nothing", lambda: False, timeout=0.05, pause=0.01)


def test_free_ports_differ():
    assert len(set(free_ports(20))) == 20


def test_a_sink_is_what_its_log_says(tmp_path):
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name in ("a", "b c", "orphan"):
        pq.write_table(pa.table({"name": [name]}), tmp_path / f"{name}.parquet")

    def entry(name: str) -> str:
        return json.dumps({"path": (tmp_path / f"{name}.parquet").as_uri(), "action": "add"})

    (log / "9.compact").write_text(f"v1\n{entry('a')}\n")
    (log / "10").write_text(f"v1\n{entry('b c')}\n")
    (log / ".10.crc").write_bytes(b"\0")
    assert [row["name"] for row in results.rows_of(tmp_path)] == ["a", "b c"]


def test_a_pom_names_what_is_wanted_and_no_registry():
    text = Wanted(("org.example:one:1.0", "org.example:two_2.13:2.0"), alone=True).pom()
    assert re.findall(r"<artifactId>([\w.]+)</artifactId><version>([\d.]+)", text) == [
        ("one", "1.0"),
        ("two_2.13", "2.0"),
    ]
    assert text.count("<exclusion>") == 2
    assert "<repositor" not in text
    assert "<exclusion>" not in Wanted(("org.example:one:1.0",)).pom()


def test_the_history_needs_its_slack_and_has_thefts():
    rows = shop.rows(2000)
    times = [row["time"] for row in rows]
    assert times != sorted(times)
    latest = [max(times[: at + 1]) for at in range(len(times))]
    assert max(ahead - time for ahead, time in zip(latest, times, strict=True)) <= shop.SLACK
    found = shop.answer(rows)
    assert len(found) > 50
    assert shop.answer([*rows, *shop.flush(len(rows), 2)]) == found
