"""What an experiment gives: figures, each with its curves, what the paper reports, and what came out here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

Curves = dict[str, list[float]]


@dataclass(frozen=True)
class Panel:
    """One plot and one table: curves over common places on the x axis."""

    title: str
    x: str
    y: str
    xs: Sequence[float] | Sequence[str]
    curves: Curves
    log: bool = False


@dataclass(frozen=True)
class Figure:
    """`source` is the figure of the paper, or "added"; `agrees` is None where the paper reports nothing."""

    name: str
    source: str
    title: str
    settings: str
    expected: str
    finding: str
    agrees: bool | None
    panels: list[Panel] = field(default_factory=list)
    targets: list[tuple[str, float, str, float]] = field(default_factory=list)  # what, measured, ">=" or "<=", wanted

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Scale:
    """How large a run is: a quick one has a tenth (or another share) of the events, fewer places, one repetition."""

    quick: bool = False
    share: int = 10

    @property
    def repeat(self) -> int:
        return 1 if self.quick else 3

    def events(self, full: int) -> int:
        return max(6000 // self.share, full // self.share) if self.quick else full

    def places(self, full: list[Any]) -> list[Any]:
        """Both ends and the middle, in a quick run."""
        return [full[0], full[len(full) // 2], full[-1]] if self.quick and len(full) > 3 else full


# --- reading curves ------------------------------------------------------------------------------------------------


def change(curve: list[float]) -> float:
    """The last value over the first; 1 is flat."""
    return curve[-1] / curve[0] if curve and curve[0] else float("inf")


def spread(curve: list[float]) -> float:
    """The largest value over the smallest."""
    return max(curve) / min(curve) if curve and min(curve) > 0 else float("inf")


def rising(curve: list[float], tolerance: float = 0.1) -> bool:
    """Never falls by more than a tenth of its largest value, and ends above its begin."""
    room = tolerance * max(map(abs, curve))
    return curve[-1] > curve[0] and all(b >= a - room for a, b in pairwise(curve))


def falling(curve: list[float], tolerance: float = 0.1) -> bool:
    return rising([-value for value in curve], tolerance)


def ordered(curves: Curves) -> bool:
    """Whether each curve lies above the one before it, on average."""
    means = [sum(curve) / len(curve) for curve in curves.values()]
    return all(a < b for a, b in pairwise(means))


def mean(curve: list[float]) -> float:
    return sum(curve) / len(curve)


def times(value: float) -> str:
    return f"{value:.2f}x" if value < 10 else f"{value:.0f}x"
