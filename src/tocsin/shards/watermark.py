"""Watermarks on Spark: events may come up to K ticks late; a clock per source says what can still come.

The clock of a source is the largest end it has shown. The guarantee is that no event will end before the slowest clock
minus K; what comes behind the guarantee is late: counted and set aside, never silently lost.

Paper: slack and clock of Li 2010, 4.5.3, and K-slack of Liu et al. 2009, V; there for one source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tocsin.engine.too_late import earliest
from tocsin.errors import TocsinError
from tocsin.events import BEGINNING
from tocsin.order.strategy import IN_ORDER, Strategy, delay, parse_strategy
from tocsin.schema import Schema

FORMS = '"in-order", or "slack(10 min)" if events may come that late (also conservative, aggressive, hybrid, auto)'


@dataclass(frozen=True, slots=True)
class Slack:
    """How many ticks late events may come, and when a silent source stops holding back the guarantee.

    A source is silent if its clock lags behind the others by more than `idle` ticks. With `sources`, nothing is
    guaranteed before each of them has sent an event. `strategy` says how detectors treat late events; they are not
    told the delay, only the guarantee.
    """

    late: int = 0
    idle: int | None = None
    sources: tuple[str, ...] = ()
    strategy: Strategy = IN_ORDER

    def guarantee(self, clocks: Mapping[str, int]) -> int:
        """Return the time before which no accepted event will end any more."""
        if not clocks or any(source not in clocks for source in self.sources):
            return BEGINNING
        counted = [clock for source, clock in clocks.items() if source not in self.silent(clocks)]
        return earliest(min(counted), self.late)

    def silent(self, clocks: Mapping[str, int]) -> list[str]:
        """Return the sources that are silent and no longer waited for."""
        if self.idle is None or not clocks:
            return []
        first = max(clocks.values())
        return sorted(source for source, clock in clocks.items() if first - clock > self.idle)


def parse_order(text: object, schema: Schema, *, idle: object = None, sources: Iterable[str] = ()) -> Slack:
    """An order strategy of a stream as people write it."""
    sources = tuple(sources)
    if isinstance(text, Slack):
        return text
    strategy = parse_strategy(text, schema)
    _check(strategy, text)
    silence = None if idle is None else delay(str(idle), schema)
    detectors = Strategy() if strategy.sorts else replace(strategy, late=None, known=strategy.late)
    return Slack(strategy.late or 0, silence, sources, detectors)


def _check(strategy: Strategy, text: object) -> None:
    """Refuse the parts of a strategy that a Spark stream does not support, before it starts."""
    if strategy.events is not None or strategy.quantile is not None:
        why, hint = "the delay must be a time that all shards agree on", "write slack(10 min)"
    elif strategy.ordered or strategy.broken != "count":
        why, hint = "late rows are reported, and answers leave as they are found", "leave the option out"
    elif strategy.late is None and strategy.kind != "in-order":
        why, hint = "without a delay nothing is ever certain or forgotten", f"write {strategy.kind}(10 min)"
    else:
        return
    raise TocsinError(f"a stream on Spark cannot be {text}", detail=why, hint=hint)
