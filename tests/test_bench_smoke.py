"""The benchmarks still run: their arms agree on small streams. All of each arm is tested by `make test-long`."""

from __future__ import annotations

import tocsin
from benchmarks import hand, rivals
from benchmarks.disorder.baselines.arms import SOUND
from benchmarks.disorder.baselines.engine import log, net
from benchmarks.disorder.workload import Load
from benchmarks.spark import data
from benchmarks.workloads import WORKLOADS, small, stream
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
