"""Strategies: what to do about events that come late, as people write it.

    in-order                         events come in order of their ends; what comes late is set aside
    slack(10 min)                    events are sorted first; they may come so late (also: slack(100 events))
    slack(adaptive)                  the same with a delay that grows to what is observed (adaptive 0.99: that share)
    conservative, conservative(10 s) an answer waits until no event that may still come can change it; no answer is
                                     ever withdrawn. What may still come is known from guarantees and from the delay
    aggressive, aggressive(10 s)     answers at once, and corrects them; `any` is another name for it
    hybrid(C=conservative, 10 s)     the first for some event types, the second for the others
    auto(10 s)                       the first or the second, as the disorder that is measured suggests

Further options, behind commas: `trailing=immediate` (an absence at the end of a pattern is answered at once and
corrected), `broken=count|raise|accept` (events behind a guarantee), `ordered` (held answers leave in order of time).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tocsin.errors import TocsinError
from tocsin.events import ANY
from tocsin.lang.parser import parse_duration
from tocsin.plan.kinds import ticks
from tocsin.schema import Schema

Kind = Literal["in-order", "slack", "conservative", "aggressive", "hybrid", "auto"]
Broken = Literal["count", "raise", "accept"]
KINDS: tuple[Kind, ...] = ("in-order", "slack", "conservative", "aggressive", "hybrid", "auto")
HINT = 'write for example "in-order", "slack(10 min)", "conservative(10 min)", "aggressive(10 min)" or "auto(10 min)"'
MOST = 2**60  # of a delay, in ticks


@dataclass(frozen=True, slots=True)
class Strategy:
    """How events come, and when answers leave.

    late      by how many ticks an event may come behind the clock; None: nobody knows
    events    slack as a number of events instead
    quantile  slack that adapts: the share of delays that it covers
    held      hybrid: the types whose events answers wait for
    known     the delay, where detectors do not go by it but are told what is guaranteed
    """

    kind: Kind = "in-order"
    late: int | None = None
    events: int | None = None
    quantile: float | None = None
    held: frozenset[str] = frozenset()
    immediate: bool = False
    ordered: bool = False
    broken: Broken = "count"
    known: int | None = None

    @property
    def expected(self) -> int | None:
        """How late events may be, whoever sees to it that they are not later."""
        return self.late if self.known is None else self.known

    @property
    def sorts(self) -> bool:
        """Whether the detectors see events in order of time."""
        return self.kind in ("in-order", "slack")

    @property
    def corrects(self) -> bool:
        """Whether an answer may be withdrawn."""
        return self.kind in ("aggressive", "hybrid", "auto") or self.broken == "accept"

    @property
    def level(self) -> str:
        """The level of correctness that is guaranteed while events keep the delay and the promises."""
        if self.broken == "accept":
            return "convergent unsorted" if not self.sorts else "none"
        if self.kind == "conservative":
            return "delayed" if self.ordered else "delayed unsorted"
        levels = {"in-order": "full", "slack": "delayed", "aggressive": "convergent unsorted"}
        return levels.get(self.kind, "eventually valid and complete")

    def held_types(self, types: Collection[str]) -> frozenset[str]:
        """The types among those of a query whose guarantees answers wait for."""
        if self.kind == "conservative":
            return frozenset(types)
        held = self.held & frozenset(types) if self.kind == "hybrid" else frozenset()
        return held | {ANY} if self.held and ANY in types else held  # it takes events of the held types, too

    def __str__(self) -> str:
        inside = [f"{type}=conservative" for type in sorted(self.held)]
        inside += [] if self.late is None or (self.quantile is not None and not self.late) else [str(self.late)]
        inside += [] if self.events is None else [f"{self.events} events"]
        inside += [] if self.quantile is None else [f"adaptive {self.quantile}"]
        inside += ["trailing=immediate"] if self.immediate else []
        inside += ["ordered"] if self.ordered else []
        inside += [f"broken={self.broken}"] if self.broken != "count" else []
        return f"{self.kind}({', '.join(inside)})" if inside else self.kind


IN_ORDER = Strategy()


def parse_strategy(text: object, schema: Schema) -> Strategy:
    """A strategy from its text; durations need the unit of time that the schema has.

    >>> parse_strategy("conservative(5, ordered)", Schema()).late
    5
    """
    if isinstance(text, Strategy):
        return text
    found = re.fullmatch(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", str(text), re.IGNORECASE | re.DOTALL)
    name = found[1].lower() if found else ""
    name = "aggressive" if name == "any" else name
    if found is None or name not in KINDS:
        raise TocsinError(f"{text!r} is no order of events", hint=HINT)
    strategy = Strategy(kind=next(kind for kind in KINDS if kind == name))
    for option in _options(found[2] or ""):
        strategy = _with(strategy, option, schema)
    return _checked(strategy, text)


def _options(text: str) -> Iterator[str]:
    yield from (option.strip() for option in text.split(",") if option.strip())


def _with(strategy: Strategy, option: str, schema: Schema) -> Strategy:
    name, equals, value = (piece.strip() for piece in option.partition("="))
    if equals:
        return _with_value(strategy, name, value, schema)
    if option.lower() == "ordered":
        return replace(strategy, ordered=True)
    if found := re.fullmatch(r"adaptive(?:\s+(0?\.\d+|[01](?:\.0*)?))?", option, re.IGNORECASE):
        return replace(strategy, quantile=float(found[1] or 1), late=strategy.late or 0)
    if found := re.fullmatch(r"(-?\d+)\s*events?", option, re.IGNORECASE):
        return replace(strategy, events=_not_negative(int(found[1]), option))
    return replace(strategy, late=delay(option, schema))


def _with_value(strategy: Strategy, name: str, value: str, schema: Schema) -> Strategy:
    if name.lower() == "trailing" and value in ("immediate", "wait"):
        return replace(strategy, immediate=value == "immediate")
    if name.lower() == "broken" and value in ("count", "raise", "accept"):
        return replace(strategy, broken=value)  # type: ignore[arg-type]
    if name.upper() == "K":
        return replace(strategy, late=delay(value, schema))
    if strategy.kind == "hybrid" and value in ("conservative", "aggressive"):
        return replace(strategy, held=strategy.held | {name}) if value == "conservative" else strategy
    raise TocsinError(
        f"{name}={value} is no option of {strategy.kind}",
        hint="there are trailing=immediate, broken=count|raise|accept, and in hybrid(...) TYPE=conservative",
    )


def check_limit(strategy: Strategy, memory_limit: int | None) -> None:
    """Whether a strategy can keep a memory limit; told before any event comes."""
    if strategy.kind == "auto" and memory_limit is not None:
        raise TocsinError(
            "auto cannot keep a memory limit: what one strategy has on disk, the other would need",
            hint="choose conservative(...) or aggressive(...), or leave memory_limit out",
        )


def delay(text: str, schema: Schema) -> int:
    """A delay in ticks."""
    if str(text).strip().startswith("-"):
        raise TocsinError(f"a delay cannot be negative: {text}", hint="say how late events may be, such as 10 min")
    return 0 if str(text).strip() == "0" else min(MOST, ticks(parse_duration(str(text)), schema))


def _not_negative(number: int, text: str) -> int:
    if number < 0:
        raise TocsinError(f"a number of events cannot be negative: {text}", hint="say slack(100 events)")
    return number


def _checked(strategy: Strategy, text: object) -> Strategy:
    """What does not fit together is told before any event comes."""
    kind = strategy.kind
    if kind == "slack" and strategy.late is None and strategy.events is None:
        raise TocsinError("slack needs a delay", hint="write slack(10 min), slack(100 events) or slack(adaptive)")
    if kind != "slack" and (strategy.events is not None or strategy.quantile is not None):
        raise TocsinError(f"{text!r}: only slack counts events or adapts", hint=f"write {kind}(10 min)")
    if kind == "hybrid" and not strategy.held:
        raise TocsinError("hybrid needs a type", hint="write hybrid(Counter=conservative, 10 min)")
    if kind == "in-order" and strategy != Strategy(broken=strategy.broken):
        raise TocsinError(f"{text!r}: in-order has no delay", hint="write slack(10 min)")
    if strategy.ordered and kind != "conservative":
        raise TocsinError(
            f"{text!r}: only conservative answers can be put in order", hint="write conservative(ordered)"
        )
    if strategy.immediate and kind not in ("aggressive", "hybrid"):
        raise TocsinError(
            f"{text!r}: {kind} never answers before its time", hint="write aggressive(trailing=immediate)"
        )
    return strategy
