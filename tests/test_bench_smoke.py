"""The benchmarks still run: their arms agree on small streams. All of each arm is tested by `make test-long`."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import tocsin
from benchmarks import compiling, hand, rivals
from benchmarks.constraints import load as constraint_load
from benchmarks.constraints.measure import measured
from benchmarks.disorder.baselines.arms import SOUND
from benchmarks.disorder.baselines.engine import log, net
from benchmarks.disorder.workload import Load
from benchmarks.interval import baselines as interval_baselines
from benchmarks.interval import experiments as interval_experiments
from benchmarks.interval import load as interval_load
from benchmarks.interval import rivals as interval_rivals
from benchmarks.selection import load as selection_load
from benchmarks.selection import rivals as selection_rivals
from benchmarks.spark import data
from benchmarks.staged import load as staged_load
from benchmarks.staged import run as staged_run
from benchmarks.staged import windows
from benchmarks.table import rivals as table_rivals
from benchmarks.table.load import ASKS
from benchmarks.table.run import tocsin as from_table
from benchmarks.table.run import wrong
from benchmarks.workloads import WORKLOADS, small, stream
from tocsin.events import Event
from tocsin.lang.parser import parse_file
from tocsin.staged.compiled import bodies, choice
from tocsin.testing.staged_oracle import staged_events
from tocsin.testing.streams import Arrivals


def test_the_arms_of_the_benchmarks_agree() -> None:
    load = small(WORKLOADS["W1-100"], keys=3, window=8, per_tick=2)
    events = stream(load, 600, seed=3)
    found = len(tocsin.query(load.query).detect(data.as_rows(events), jit=False))
    assert found > 0
    assert hand.count(events, load.window, load.keys) == rivals.polars(load, events)() == found


def test_the_arms_for_disorder_agree() -> None:
    load = Load(3, given=Arrivals(events=200, unit=3, disorder=0.3, promises=0.2))
    assert load.truth
    for name in SOUND:
        assert net(log(load.make(name), load.stream)) == load.truth, name


def test_the_arms_of_the_table_benchmark_agree(tmp_path) -> None:
    rows = []
    for name in ("three", "absence", "repetition", "no key"):
        ask = ASKS[name]
        found = [from_table(ask, source, 20_000, 1, tmp_path, jit=False)() for source in ("text", "parquet")]
        found.append(table_rivals.duckdb(ask, "text", 20_000, 1, tmp_path)())
        assert found[0][0] > 0
        rows += [{"who": "", "query": name, "source": "", "found": each} for each in found]
    assert wrong(rows) == []
    assert wrong([*rows, {**rows[0], "found": (0, 0, 0)}]) != []


def test_the_arms_of_the_interval_benchmark_agree() -> None:
    for length, share in ((3, 0.5), (4, 1.0), (4, 0.0), (5, 0.6)):
        asked, made = interval_load.chain(length, share), interval_load.Intervals(160, 0.2, 100)
        found = {arm: interval_experiments.measured(arm, asked, made, 1)[1] for arm in interval_baselines.ARMS}
        assert {each.results for each in found.values()} == {interval_experiments.ours(asked, made)}
    for name in interval_rivals.PATTERNS:
        made = interval_rivals.load(name, 600)
        counts = {who: interval_rivals.prepared(who, name, made)() for who in interval_rivals.ARMS}
        assert len(set(counts.values())) == 1, counts
        assert min(counts.values()) > 0


def test_the_arms_of_the_selection_benchmark_agree() -> None:
    made = stream(small(WORKLOADS["W1-100"], keys=6, window=20, per_tick=3), 1500, seed=4)
    found = {
        name: len(tocsin.query(ask.text(20)).detect(data.as_rows(made), jit=False))
        for name, ask in selection_load.ASKS.items()
    }
    for name, ask in selection_load.ASKS.items():
        assert found[name] > 0, name
        if ask.polars is not None:
            assert selection_rivals.polars(ask.polars, 20, made)() == found[name], name
    assert found["CONSUME first"] < found["all combinations"]


@pytest.mark.long
def test_rules_are_answered_while_they_are_compiled() -> None:
    """The benchmark of compilers, with one rule."""
    found = compiling.child("rules", "1")
    assert 0 < found["first_answer_s"] < found["all_s"] < compiling.MOST


def test_the_arms_of_the_constraint_benchmark_agree() -> None:
    """Equal matches, verdicts of both checkers equal for every trace, and less stored wherever a trace is decided."""
    for name, selectivity in (("patterns", 40), ("predicates", 60)):
        ask = constraint_load.ASKS[name]
        made = constraint_load.traces(30, ask.branch(selectivity), seed=2)
        naive, _, lightweight = measured(ask, selectivity, made, 0, jit=False)
        assert 0 < naive["found"]["match"] == lightweight["counts"]["expected"] < 30
        assert lightweight["counts"]["unsat"] == 30 - naive["found"]["match"]
        assert lightweight["accumulated"] < naive["accumulated"]
        assert lightweight["ticks"] < naive["ticks"]


def test_the_arms_of_the_staged_benchmark_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function, as text, and the plain body, beside the definition; Esper is beside them in `make bench-staged`."""
    for name, few in (("GATES", 3), ("DAY", 60), ("CARS", 3), ("PATIENTS", 2)):
        monkeypatch.setattr(staged_load, name, few)
    monkeypatch.setattr(bodies, "compiled", bodies.plain)
    monkeypatch.setattr(choice, "WORTH", 0)
    rows = []
    for name, load in staged_load.LOADS.items():
        rows += [{"ask": name, "who": who, "events": 90, **staged_run.ours(name, 90, 0, jit=who == "tocsin")}
                 for who in ("tocsin", "plain")]  # fmt: skip
        wanted = [event for event in staged_events(parse_file(load.text), _events(load.events(90, 1)), unit="s")
                  if event.type == load.answers]  # fmt: skip
        assert rows[-1]["rows"] == len(wanted) > 0, name
        answers = pa.Table.from_pylist([dict(event.attrs) for event in wanted])
        assert rows[-1]["checksum"] == staged_run.checksum(name, answers), name
    assert staged_run.problems(rows) == []
    assert staged_run.problems([*rows, {**rows[0], "rows": 0}]) != []


def test_work_grows_no_faster_than_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "LENGTHS", (32, 64))
    monkeypatch.setattr(windows, "ASKED", 16)
    found = windows.work()
    assert windows.problems(found) == []
    assert found[-1]["lines"]["64"] == found[-1]["lines"]["32"]  # aggregates that go on
    assert windows.problems([{**found[0], "lines": {"32": 10.0, "64": 30.0}}]) != []


def test_time_grows_no_faster_than_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark asks each length for the same answers; times of a busy machine are not judged here."""
    monkeypatch.setattr(windows, "LONG", (32, 64))
    monkeypatch.setattr(windows, "TIMED", 64)
    monkeypatch.setattr(bodies, "compiled", bodies.plain)
    found = windows.timed()
    assert [each["answers"] for each in found if len(each["answers"]) > 1] == []
    assert windows.problems_of_times([{**found[0], "times": {"32": 1.0, "64": 1.9}}]) == []
    assert windows.problems_of_times([{**found[0], "times": {"32": 1.0, "64": 3.1}}]) != []


@pytest.mark.slow
@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_partition_that_is_alive_takes_few_bytes(count: int) -> None:
    """300 beyond its event are allowed."""
    script = f"""
import tracemalloc
from benchmarks.staged import alive

for text in alive.STATEMENTS.values():  # compiled first: what a compiler allocates takes long to trace
    alive.bytes_of_partitions(text, 10, jit=True)
tracemalloc.start()
print(*(alive.bytes_of_partitions(text, {count}, jit=True) - 40 for text in alive.STATEMENTS.values()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert all(float(each) <= 300 for each in done.stdout.split()), done.stdout


def _events(table: pa.Table) -> list[Event]:
    found = []
    for eid, row in enumerate(table.to_pylist()):
        start = row.pop("start") if "start" in row else row.pop("time")
        attrs = {attr: value for attr, value in row.items() if value is not None and attr not in ("type", "end")}
        found.append(Event(row["type"], start, row.get("end", start), eid, attrs))
    return found
