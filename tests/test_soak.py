"""The soak of names that never come again, for a moment: state is flat, no kernel is made late, nothing is lost."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from benchmarks import soak_names
from benchmarks.soak_names import ORDERS, Outcome, Stream, soak
from tocsin.engine.kernels import _code
from tocsin.graph import texts


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pushes, so that the first one shows little; texts are looked at more often; kernels are not known yet."""
    monkeypatch.setattr(soak_names, "STEP", 41)
    monkeypatch.setattr(texts, "FEW", 256)
    _code.cache_clear()


@pytest.mark.parametrize("order", ORDERS)
def test_names_that_never_come_again_leave_nothing_behind(order: str) -> None:
    outcome = soak(0, jit=False, piece=200, pieces=12, orders=(order,))
    assert outcome.problems == []
    assert outcome.shipped == 1200
    assert outcome.arms[0].texts <= 1000  # of 2,400 names


def test_a_soak_sees_what_is_wrong() -> None:
    """Memory or state that grows, a kernel that is made late, and an answer too many are told."""
    outcome = soak(0, jit=False, piece=100, pieces=8, orders=(ORDERS[0],))
    arm = outcome.arms[0]
    arm.net, arm.made = arm.net + 1, 1
    bad = Outcome(outcome.arms, [100, 100, 111], [1, 1, 2, 2], outcome.shipped)
    assert len(bad.problems) == 4


def test_the_stream_is_what_it_says() -> None:
    """Events are late by less than the known delay, come once, and nulls come when asked for."""
    stream = Stream(Random(1))
    rows = [row for number in range(5) for row in stream.piece(100, nulls=number > 3)] + stream.rest()
    clock = 0
    for row in rows:
        assert row["time"] > clock - soak_names.LATE
        clock = max(clock, row["time"])
    assert len({tuple(row.items()) for row in rows}) == len(rows) == 1500
    assert any(late["time"] < before["time"] for before, late in pairwise(rows))
    assert [row["sum"] is None for row in rows].index(True) > 1000
    assert stream.shipped == 250
