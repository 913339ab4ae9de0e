"""The arms of the Spark benchmark give the matches of the oracle, so their times can be compared."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import tocsin
from benchmarks import hand
from benchmarks.spark import data, flink, report, selfjoin
from benchmarks.spark.arms import best
from benchmarks.workloads import Stream, Workload, small, stream
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.testing.oracle import matches

pytestmark = pytest.mark.long  # `tests/test_bench_smoke.py` stays in every run

ROOT = Path(__file__).parent.parent
SMALL = [(3, 12, 6), (1, 15, 2), (6, 12, 20)]  # keys, window, events per tick: many equal times, many full windows
EVENTS = 400
UNIT = 2.0**53

Triple = tuple[int, int, int]  # the values of a, b and c in units of 2**-53, which no two events share


def case(number: int) -> tuple[Workload, Stream]:
    keys, window, per_tick = SMALL[number]
    load = small(data.LOAD, keys=keys, window=window, per_tick=per_tick)
    return load, stream(load, EVENTS, seed=keys)


def expected(load: Workload, events: Stream, **reading: str) -> list[Triple]:
    """What the oracle says."""
    rows = zip(data.as_rows(events).to_pylist(), range(len(events)), strict=True)
    history = [Event(row["type"], row["time"], row["time"], i, {"key": row["key"], "v": row["v"]}) for row, i in rows]
    units = (events.v * UNIT).astype(np.int64).tolist()
    found = matches(parse(load.query), history, **reading)
    return sorted(tuple(units[ids[0]] for _, ids in match.binding) for match in found)


def as_values(triples: list[Triple]) -> np.ndarray:
    return np.array(triples, dtype=np.float64) / UNIT


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The small streams as parquet."""
    place = tmp_path_factory.mktemp("streams")
    for number in range(len(SMALL)):
        data.write(case(number)[1], place / str(number), files=3)
    return [place / str(number) for number in range(len(SMALL))]


# --- data --------------------------------------------------------------------------------------------------------


def test_the_files_hold_the_stream_in_order_and_are_written_once(tmp_path):
    place = data.parquet(data.LOAD, 5000, out=tmp_path)
    parts = sorted(place.iterdir())
    assert len(parts) == data.FILES
    assert len({part.stat().st_mtime for part in parts}) == data.FILES, "streams read files by age"
    assert sorted(parts, key=lambda part: part.stat().st_mtime) == parts
    read = pq.read_table(place)
    assert read.schema.names == ["type", "time", "key", "v"]
    assert read.to_pylist() == stream(data.LOAD, 5000).table().to_pylist()
    before = place.stat().st_mtime_ns
    assert data.parquet(data.LOAD, 5000, out=tmp_path) == place
    assert place.stat().st_mtime_ns == before
    assert data.parquet(data.LOAD, 5000, seed=2, out=tmp_path) != place


def test_a_checksum_forgets_the_order_of_matches_and_nothing_else():
    triples = np.random.default_rng(5).random((100, 3))
    assert data.checksum(triples[::-1]) == data.checksum(triples)
    assert data.checksum(triples[:, ::-1]) != data.checksum(triples)
    assert data.checksum(triples[1:]) != data.checksum(triples)
    assert data.checksum(np.empty((0, 3))) == 0


@pytest.mark.parametrize("number", range(len(SMALL)))
def test_ours_finds_what_the_oracle_finds_in_the_files(files, number):
    load, events = case(number)
    wanted = expected(load, events)
    assert wanted != expected(load, events, window="exclusive"), "the stream must tell inclusive windows from exclusive"
    assert wanted != expected(load, events, order="<="), "and later from not earlier"
    found = tocsin.query(load.query).detect(pq.read_table(files[number]), jit=False)
    assert sorted(tuple(int(match[name]["v"] * UNIT) for name in "abc") for match in found) == wanted
    assert hand.count(events, load.window, load.keys) == len(wanted)


# --- rivals ------------------------------------------------------------------------------------------------------

JOIN_ALL = """
import json, sys
from benchmarks.spark import arms, selfjoin

with arms.session() as spark:
    answers = {}
    for path, window in json.loads(sys.argv[1]):
        for variant in selfjoin.VARIANTS:
            found = selfjoin.matches(spark, spark.read.parquet(path), window, variant)
            answers[f"{path} {variant}"] = sorted([int(value * 2.0**53) for value in row] for row in found.collect())
    summed = selfjoin.summed(found)
print(json.dumps([answers, summed]))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_every_self_join_finds_what_the_oracle_finds(files):
    """In a process of its own, so that its session is not shared."""
    pytest.importorskip("pyspark")
    asked = [(str(files[number]), case(number)[0].window) for number in (0, 2)]
    command = [sys.executable, "-c", JOIN_ALL, json.dumps(asked)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    answers, summed = json.loads(done.stdout.splitlines()[-1])
    for number in (0, 2):
        wanted = expected(*case(number))
        for variant in selfjoin.VARIANTS:
            assert [tuple(row) for row in answers[f"{files[number]} {variant}"]] == wanted, variant
    assert summed == [len(wanted), data.checksum(as_values(wanted))]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "readers", "number"), [("streaming", 2, 0), ("streaming", 1, 1), ("batch", 2, 2)])
def test_flink_finds_what_the_oracle_finds(files, tmp_path, mode, readers, number):
    """Only where the benchmark has fetched Flink before: tests download nothing."""
    load, events = case(number)
    listing = tmp_path / "matches"
    try:
        runs = flink.run(files[number], load.window, runs=1, mode=mode, readers=readers, listing=listing, fetch=False)
    except flink.UnavailableError as reason:
        pytest.skip(str(reason))
    wanted = expected(load, events)
    found = [tuple(int(word) for word in line.split()) for line in listing.read_text().splitlines()]
    assert sorted(found) == wanted
    assert (runs[0]["matches"], runs[0]["checksum"]) == (len(wanted), data.checksum(as_values(wanted)))


def test_flink_says_why_it_cannot_run(monkeypatch, tmp_path):
    monkeypatch.setattr(flink, "HOME", tmp_path)
    with pytest.raises(flink.UnavailableError, match="have not been fetched"):
        flink.wheel_jars(fetch=False)
    with pytest.raises(flink.UnavailableError, match="not fetched"):
        flink.parquet_jar(fetch=False)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(flink.UnavailableError, match="Maven"):
        flink.parquet_jar(fetch=True)
    with pytest.raises(flink.UnavailableError, match="no javac"):
        flink.classpath()


# --- measuring ---------------------------------------------------------------------------------------------------

BURN = "import time\nwhile time.process_time() < 0.4: pass\n"
LOSE_A_CHILD = f"""
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as Spark's daemon of workers does: nobody counts what they used
subprocess.Popen([sys.executable, "-c", {BURN!r}]).wait()
"""
WATCH = """
import subprocess, sys
from benchmarks.spark.meter import Meter

with Meter(interval_s=0.02) as meter:
    begin = meter.cpu()
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
    print(meter.cpu() - begin)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="CPU of a tree is read from /proc")
@pytest.mark.parametrize("program", [BURN, LOSE_A_CHILD], ids=["child", "grandchild that nobody waits for"])
def test_the_meter_counts_processes_that_are_gone(program):
    command = [sys.executable, "-c", WATCH, program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert 0.35 <= float(done.stdout) <= 1.5


def test_the_best_run_is_not_the_first_and_all_runs_agree():
    runs = [{"matches": 2, "checksum": 9, "wall_s": wall, "cpu_s": cpu} for wall, cpu in [(1, 1), (5, 7), (4, 8)]]
    row = best(runs)
    assert (row["matches"], row["checksum"], row["wall_s"], row["cpu_s"]) == (2, 9, 4, 7)
    with pytest.raises(RuntimeError, match="different"):
        best([*runs, {**runs[0], "checksum": 8}])


def row(name: str, wall: float, **more: object) -> dict:
    times = {"wall_s": wall, "cpu_s": 2 * wall, "runs": [{"wall_s": 9.0, "cpu_s": 9.0}]}
    return {"name": name, "workload": "W", "rows": 1_000_000, "matches": 5, "checksum": 7, **times, **more}


def test_the_report_judges_a_rival_by_its_best_form():
    rows = [row("tocsin-batch", 1), row("selfjoin-plain", 9), row("selfjoin-binned", 4), row("flink-read", 0.1)]
    judged = {what: value for what, value, _, _ in report.targets(rows)}
    assert judged == {"tocsin-batch against selfjoin, by the clock": 4, "tocsin-batch against selfjoin, by CPU": 4}
    assert "| self-join over time bins | 0.25 | 0.125 | 4.00 | 8.00 | 9.00 | 5 |" in report.table(rows)


def test_arms_that_did_not_run_are_named_and_judge_nothing():
    rows = [
        row("tocsin-batch", 1),
        {"name": "flink-batch", "skipped": "no JDK"},
        {"name": "selfjoin-plain", "error": "x"},
    ]
    assert report.targets(rows) == []
    assert report.left_out(rows) == ["Flink CEP, batch mode was left out: no JDK.", "self-join in Spark SQL failed: x"]


def test_arms_that_disagree_are_found():
    rows = [row("selfjoin-plain", 1), row("flink-batch", 1), row("flink-read", 1, matches=0)]
    assert report.disagreements(rows) == []
    assert len(report.disagreements([*rows, row("flink-streaming", 1, checksum=8)])) == 1
