"""The arms of the benchmark give equal answers, so their times can be compared."""

from __future__ import annotations

import itertools

import pytest

from benchmarks import hand, paste, report, rivals
from benchmarks.workloads import WORKLOADS, Stream, Workload, delayed, small, stream

pytestmark = pytest.mark.long  # `tests/test_bench_smoke.py` stays in every run

SMALL = [(3, 8, 2), (1, 5, 1), (8, 20, 4)]  # keys, window, events per tick
RIVALS = {"polars": rivals.polars, "duckdb": rivals.duckdb}


def brute_force(load: Workload, events: Stream) -> int:
    """Count matches by trying everything."""
    a, b, c = (
        [
            (int(events.time[i]), int(events.key[i]), float(events.v[i]))
            for i in range(len(events))
            if events.types[i] == t
        ]
        for t in range(3)
    )
    if load.shape == "selective":
        a, b, c = ([(t, 0, v) for t, _, v in side] for side in (a, b, c))
    pairs = [(x, z) for x, z in itertools.product(a, c) if x[1] == z[1] and 0 < z[0] - x[0] <= load.window]
    total = 0
    for x, z in pairs:
        between = [y for y in b if y[1] == x[1] and x[0] < y[0] < z[0]]
        values = [y[2] for y in between]
        match load.shape:
            case "sequence":
                total += sum(v > x[2] for v in values)
            case "selective":
                total += sum(v > x[2] + 0.95 for v in values)
            case "negation":
                total += not any(v > x[2] for v in values)
            case "repetition":
                total += bool(values) and sum(values) / len(values) > x[2]
    return total


@pytest.mark.parametrize(("keys", "window", "per_tick"), SMALL)
def test_the_hand_written_loop_counts_right(keys, window, per_tick):
    load = small(WORKLOADS["W1-100"], keys=keys, window=window, per_tick=per_tick)
    events = stream(load, 600, seed=keys)
    expected = brute_force(load, events)
    assert expected > 0
    assert hand.count(events, window, keys) == expected
    assert hand.count(events, window, keys, output=1, ring=1) == expected


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("name", ["W1-100", "W2", "W3", "W4"])
@pytest.mark.parametrize(("keys", "window", "per_tick"), SMALL)
def test_rivals_count_right(rival, name, keys, window, per_tick):
    load = small(WORKLOADS[name], keys=keys, window=window, per_tick=per_tick * (10 if name == "W4" else 1))
    events = stream(load, 900, seed=keys)
    assert RIVALS[rival](load, events)() == brute_force(load, events)


def test_disorder_keeps_the_events_and_bounds_the_delay():
    ordered = stream(WORKLOADS["W1-100"], 5000)
    late = delayed(ordered, 20)
    assert sorted(late.v) == sorted(ordered.v)
    clock = 0
    for time in late.time:
        clock = max(clock, int(time))
        assert clock - time <= 20
    assert list(late.time) != list(ordered.time)


@pytest.mark.parametrize(
    ("name", "expected"), [("W1-100", 123_669), ("W1-10k", 12), ("W1-10kD", 122_159), ("dense", 2_471_801)]
)
def test_the_numbers_of_matches_are_the_known_ones(name, expected):
    load = WORKLOADS[name]
    assert hand.count(stream(load), load.window, load.keys) == expected


@pytest.mark.parametrize(("name", "expected"), [("W2", 79_703), ("W3", 18_347)])
def test_the_joins_find_the_known_numbers_too(name, expected):
    load = WORKLOADS[name]
    assert rivals.polars(load, stream(load, 1_000_000))() == expected


def results(**speeds: float) -> dict:
    rows = [{"arm": arm, "workload": "W1-100", "events_per_second": s, "memory_peak": 1e8} for arm, s in speeds.items()]
    facts = {
        "processor": "p",
        "cores": 2,
        "system": "s",
        "python": "3",
        "versions": {},
        "load_before": 0,
        "load_after": 0,
    }
    return {"rows": rows, "machine": facts, "quick": False, "repeat": 1}


def test_the_report_shows_targets_met_and_missed():
    shown = report.text(results(tocsin=90e6, hand=100e6, polars=30e6))
    assert "| W1-100: share of the hand-written loop | 0.9 | >= 0.8 | met |" in shown
    assert "| W1-100: times Polars | 3 | >= 4 | **missed** |" in shown


def test_a_failed_arm_is_shown_and_judges_nothing():
    some = results(hand=100e6)
    some["rows"].append({"arm": "tocsin", "workload": "W1-100", "error": "no"})
    assert "| Tocsin | failed |" in report.text(some)
    assert report.targets(some) == []


def test_pasting_twice_is_pasting_once():
    page = f"before {paste.START}old{paste.END} after"
    once = paste.pasted(page, "new")
    assert once.startswith("before ")
    assert once.endswith(" after")
    assert paste.pasted(once, "new") == once
