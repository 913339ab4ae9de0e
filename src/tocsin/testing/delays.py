"""Distributions of delay: by how many time units a late event comes late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin.items import Ints

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every delay from one tick to `most` time units is equally likely."""

    most: int = 10

    def delays(self, u: Floats, most: int) -> Ints:
        return 1 + (u * most).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A late event is late by `most` time units."""

    most: int = 10

    def delays(self, u: Floats, most: int) -> Ints:
        return np.full(len(u), most, np.int64)


@dataclass(frozen=True, slots=True)
class Pareto:
    """Heavy tail, heavier for a small alpha: most delays are a few ticks, some very long; cut at `most` time units."""

    most: int = 100
    alpha: float = 1.2

    def delays(self, u: Floats, most: int) -> Ints:
        drawn: Floats = (1 - u * (1 - most**-self.alpha)) ** (-1 / self.alpha)
        return np.floor(drawn).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Delays of `mean` time units on average before they are cut at `most` time units."""

    most: int = 100
    mean: float = 10.0

    def delays(self, u: Floats, most: int) -> Ints:
        drawn = 1 + (-np.log1p(-u) * self.mean / self.most * most).astype(np.int64)
        return np.minimum(drawn, most)


@dataclass(frozen=True, slots=True)
class Burst:
    """Once in `every` time units one source is silent for `most` of them; then all it kept back comes at once.

    It says by itself which events are late; the disorder percentages are not asked.
    """

    most: int = 10
    every: int = 100


Delay: TypeAlias = Uniform | Fixed | Pareto | Exponential | Burst
