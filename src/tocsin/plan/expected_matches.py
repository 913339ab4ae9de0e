"""How many matches a SEQ will have, from the rates of its types: what sizes a window or a machine before it runs.

Paper: Gu et al. 2011, theorems 1 and 2, the window formula, and Table 1; all with the corrections that counting by
brute force asks for (`docs/papers.md`, D27-D31). Rates are events per unit of time, in the order of the steps; every
combination in strict order is a match, with no other condition. A condition that one event in k passes divides the
rate of its step by k, and a key with k equally frequent values divides each rate by k and is counted k times.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb, factorial, floor, prod


def in_rounds(steps: int, rounds: int) -> int:
    """Theorem 1: the matches where one event of each step comes in turn, so many times.

    >>> in_rounds(3, 4)
    20
    """
    return comb(rounds + steps - 1, steps)


def at_equal_rates(steps: int, rate: float, time: float) -> int:
    """Theorem 1 at a time, where every step has the same rate and its events come in turn."""
    return in_rounds(steps, floor(_exact(rate) * _exact(time)))


def at_regular_rates(rates: Sequence[float], time: float) -> float:
    """Theorem 2: the matches up to a time where events of each step come regularly; right to leading order.

    >>> at_regular_rates((30, 20, 10), 2)
    9240.0
    """
    return _over_last(rates) * in_rounds(len(rates), floor(_exact(rates[-1]) * _exact(time)))


def at_random_rates(rates: Sequence[float], time: float) -> float:
    """The expected number of matches up to a time where events of each step are a Poisson process; exact.

    >>> at_random_rates((10, 20, 30), 2)
    8000.0
    """
    return prod(rates) * time ** len(rates) / factorial(len(rates))


def in_window(rates: Sequence[float], window: float, *, regular: bool = False) -> float:
    """All matches that lie inside one window."""
    return at_regular_rates(rates, window) if regular else at_random_rates(rates, window)


def per_last_event(rates: Sequence[float], window: float, *, regular: bool = False) -> float:
    """The matches that one event of the last step ends, once the window is full: what a cost model needs.

    Table 1 charges all matches of the window to each such event, which is too much by (steps + rate * window - 1) over
    steps, where `rate` is that of the last step.

    >>> per_last_event((10, 10, 10), 1, regular=True), per_last_event((10, 10, 10), 1)
    (55.0, 50.0)
    """
    steps = len(rates)
    if not regular:
        return prod(rates[:-1]) * window ** (steps - 1) / factorial(steps - 1)
    whole = floor(_exact(rates[-1]) * _exact(window))
    return _over_last(rates) * comb(steps + whole - 2, steps - 1)


def per_last_event_continuous(rates: Sequence[float]) -> float:
    """Matches for each last event in the mode `continuous`, where one uses all events up: a window of 1 / last rate."""
    return _over_last(rates)


def cost(matches: float, each: float) -> float:
    """What matches cost, given what one costs (Eq. 3)."""
    return each * matches


def _over_last(rates: Sequence[float]) -> float:
    return prod(rate / rates[-1] for rate in rates[:-1])


def _exact(value: float) -> Fraction:
    """A number as it is written: 0.1 is a tenth."""
    return Fraction(str(value))
