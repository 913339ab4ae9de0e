"""Slack: events may come up to K ticks late; a clock per source says what can still come.

The clock of a source is the largest end it has shown. The guarantee is that no event will end before the slowest clock
minus K; what comes behind the guarantee is late: counted and set aside, never silently lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tocsin.errors import TocsinError
from tocsin.events import BEGINNING
from tocsin.lang.parser import parse_duration
from tocsin.plan.kinds import ticks
from tocsin.schema import Schema

FORMS = '"in-order", or "slack(10 min)" if events may come that late'


@dataclass(frozen=True, slots=True)
class Slack:
    """How late events may be, in ticks; after which silence (in ticks of the others' time) a source no longer counts.

    With `sources`, nothing is guaranteed before each of them has shown itself.
    """

    late: int = 0
    idle: int | None = None
    sources: tuple[str, ...] = ()

    def guarantee(self, clocks: Mapping[str, int]) -> int:
        """No event will end before this."""
        if not clocks or any(source not in clocks for source in self.sources):
            return BEGINNING
        counted = [clock for source, clock in clocks.items() if source not in self.silent(clocks)]
        return min(counted) - self.late

    def silent(self, clocks: Mapping[str, int]) -> list[str]:
        """The sources that have timed out."""
        if self.idle is None or not clocks:
            return []
        first = max(clocks.values())
        return sorted(source for source, clock in clocks.items() if first - clock > self.idle)


def parse_order(text: object, schema: Schema, *, idle: object = None, sources: Iterable[str] = ()) -> Slack:
    """An order strategy as people write it."""
    sources = tuple(sources)
    if isinstance(text, Slack):
        return text
    if text == "in-order":
        return Slack(0, _ticks(idle, schema, "idle"), sources)
    found = re.fullmatch(r"\s*slack\s*\((.*)\)\s*", str(text), re.IGNORECASE)
    if found is None:
        raise TocsinError(f"{text!r} is no order of events", hint=f"use {FORMS}")
    late = _ticks(found[1], schema, "slack")
    return Slack(late or 0, _ticks(idle, schema, "idle"), sources)


def _ticks(duration: object, schema: Schema, what: str) -> int | None:
    if duration is None:
        return None
    if str(duration).strip().startswith("-"):
        raise TocsinError(f"{what} cannot be negative: {duration}", hint="say how late events may be, such as 10 min")
    if str(duration).strip() == "0":
        return 0
    return ticks(parse_duration(str(duration)), schema)
