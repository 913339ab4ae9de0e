"""How many matches there will be: the theorems of Gu et al. 2011 against counting, and the goldens of their check."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
import pytest

from tocsin.plan import expected_matches as expected
from tocsin.select.prefix_sums import KeyedTimes, chains, chains_within


def counted(types: Sequence[int], times: Sequence[float], steps: int, window: int | None = None) -> list[int]:
    """How many matches each event of the last step ends."""
    events = KeyedTimes(np.zeros(len(types), np.int64), np.array(times, np.int64))
    weights = [(np.array(types) == step).astype(np.int64) for step in range(steps)]
    if window is not None:
        return chains_within(events, weights, window).tolist()
    return chains(events, weights, [np.zeros(len(types), np.int64)] * steps)[-1].tolist()


def test_g6_the_recurrence_event_by_event() -> None:
    types, times = [0, 1, 2] * 4, range(12)
    events = KeyedTimes(np.zeros(12, np.int64), np.array(times))
    weights = [(np.array(types) == step).astype(np.int64) for step in range(3)]
    found = chains(events, weights, [np.zeros(12, np.int64)] * 3)
    assert [int(found[type][at]) for at, type in enumerate(types)] == [1, 1, 1, 1, 2, 3, 1, 3, 6, 1, 4, 10]
    assert int(found[2].sum()) == 20 == comb(6, 3)


@pytest.mark.parametrize("steps", range(1, 6))
def test_g7_theorem_1(steps: int) -> None:
    for rounds in range(1, 7):
        types = list(range(steps)) * rounds
        assert sum(counted(types, range(len(types)), steps)) == expected.in_rounds(steps, rounds)


@pytest.mark.parametrize(
    ("rates", "time", "regular", "random"),
    [
        ((10, 10, 10), 1, 220, 166.67),
        ((10, 10, 10), 5, 22100, 20833.3),
        ((20, 20, 20), 5, 171700, 166666.7),
        ((30, 20, 10), 2, 9240, 8000),
        ((10, 20, 30), 2, 8404.44, 8000),
    ],
)
def test_g8_theorem_2_and_poisson(rates: tuple[int, ...], time: float, regular: float, random: float) -> None:
    assert expected.at_regular_rates(rates, time) == pytest.approx(regular, abs=0.005)
    assert expected.at_random_rates(rates, time) == pytest.approx(random, rel=1e-4)
    assert expected.in_window(rates, time) == expected.at_random_rates(rates, time)
    if len(set(rates)) == 1:
        assert expected.at_equal_rates(3, rates[0], time) == regular


@pytest.mark.parametrize(
    ("rates", "window", "table", "regular", "random"),
    [((10, 10, 10), 1, 220, 55, 50), ((30, 20, 10), 0.5, 210, 90, 75)],
)
def test_g9_window_per_last_event(
    rates: tuple[int, ...], window: float, table: float, regular: float, random: float
) -> None:
    assert expected.in_window(rates, window, regular=True) == pytest.approx(table)
    assert expected.per_last_event(rates, window, regular=True) == pytest.approx(regular)
    assert expected.per_last_event(rates, window) == pytest.approx(random)


@pytest.mark.parametrize(("rates", "each"), [((10, 10, 10), 1), ((30, 20, 10), 6), ((5, 10, 20), 0.125)])
def test_g10_continuous(rates: tuple[int, ...], each: float) -> None:
    assert expected.per_last_event_continuous(rates) == each


def test_random_streams_have_as_many_matches_as_expected() -> None:
    """Counted over Poisson streams: the exact mean, in all and for each last event of a full window."""
    random, rates, time, window = np.random.default_rng(1), (30.0, 20.0, 10.0), 400.0, 0.5
    found = [np.sort(random.uniform(0, time, random.poisson(rate * time))) for rate in rates]
    types = np.repeat([0, 1, 2], [len(each) for each in found])
    order = np.argsort(np.concatenate(found), kind="stable")
    ticks = (np.concatenate(found)[order] * 1e9).astype(np.int64)
    each = counted(types[order].tolist(), ticks.tolist(), 3, int(window * 1e9))
    mean = sum(each) / len(found[2])
    assert mean == pytest.approx(expected.per_last_event(rates, window), rel=0.03)
    assert expected.cost(mean, 2.0) == 2 * mean
