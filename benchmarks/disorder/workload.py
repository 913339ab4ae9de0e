"""The streams and queries of the papers' experiments: ten types, one event a tick, late by up to ten time units.

Liu 2009 asks SEQ(A,B,!C,D) and longer, Li 2010 sequences of six without negation. What the papers do not say (rate,
number of events, law of delay) is chosen here: uniform delays, and `unit` ticks to a time unit of the papers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from benchmarks.disorder.baselines.arms import ARMS, Switches, engine
from benchmarks.disorder.baselines.engine import Engine, log
from benchmarks.disorder.baselines.pattern import Event, Given, Pattern, Pog, Sequence, arrivals
from benchmarks.disorder.measure import Run, watched
from tocsin.testing.delays import Delay, Uniform
from tocsin.testing.streams import Arrivals, history

NEGATIVE = "C"
POSITIVE = "ABDEFGHIJ"


@dataclass(frozen=True)
class Load:
    """A query and a stream. `length` is the number of positive types; times are in units of the papers."""

    length: int = 3
    negated: bool = True
    window: int = 20
    delay: int = 10
    given: Arrivals = field(default_factory=lambda: Arrivals(unit=3))
    slack: int | None = None  # K if it is not the largest delay
    law: Delay | None = None  # how late, if not uniformly up to `delay`
    tight: bool = False  # guarantees say all that is true, as if sources knew what is under way

    @property
    def query(self) -> str:
        """SEQ(A, B, !C, D, E ...), or SEQ(A, B, C, D ...) without negation."""
        types = ["A", "B", *(["!C"] if self.negated else ["C"]), *"DEFGHIJ"]
        return f"SEQ({','.join(types[: self.length + self.negated])})"

    @property
    def pattern(self) -> Pattern:
        return Pattern.of(self.query, self.given.ticks(self.window))

    @property
    def arrivals(self) -> Arrivals:
        return replace(self.given, delay=self.law or Uniform(self.delay))

    @property
    def k(self) -> int:
        return self.given.ticks(self.delay if self.slack is None else self.slack)

    @cached_property
    def stream(self) -> list[Given]:
        made = arrivals(history(self.arrivals), types=self.arrivals.types)
        return tightened(made) if self.tight else made

    @cached_property
    def truth(self) -> set[Sequence]:
        """The answers on the same events in order."""
        ordered = sorted((e for e in self.stream if isinstance(e, Event)), key=lambda e: (e.ts, e.number))
        return {change.sequence for change in log(engine(self.pattern, 0, ARMS["in-order"]), ordered)}

    def make(self, arm: str | Switches) -> Engine:
        return engine(self.pattern, self.k, ARMS[arm] if isinstance(arm, str) else arm)

    def run(self, arm: str | Switches) -> Run:
        return watched(lambda: self.make(arm), self.stream)


def tightened(stream: list[Given]) -> list[Given]:
    """The same stream, with each guarantee raised to just before the earliest event that it concerns."""
    last = max((given.ts for given in stream if isinstance(given, Event)), default=0)
    coming: dict[str, int] = {}
    made: list[Given] = []
    for given in reversed(stream):
        if isinstance(given, Event):
            coming[given.type] = min(given.ts, coming.get(given.type, last + 1))
            made.append(given)
        else:
            made.append(Pog(given.type, coming.get(given.type, last + 1) - 1))
    return made[::-1]


def late_positives(share: float, **given: object) -> Arrivals:
    """Every type but the negated one is late with this share."""
    return Arrivals(disorder_of=dict.fromkeys(POSITIVE, share), **given)  # type: ignore[arg-type]


def late_negatives(share: float, **given: object) -> Arrivals:
    """Only the negated type is late; the share is among its own events."""
    return Arrivals(disorder_of={NEGATIVE: share}, **given)  # type: ignore[arg-type]
