"""What monitoring reads of a live stream, as OpenMetrics text: events, late ones, matches by rule, lag, latency.

The names are those of `METRICS`; docs/howto/monitor.md and the Grafana dashboard beside it use them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tocsin.compilers import compilers
from tocsin.engine.operator import Operator
from tocsin.engine.partial_state import bytes_used
from tocsin.engine.too_late import earliest
from tocsin.engine.weight import bytes_kept
from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.graph.query_graph import QueryGraph
from tocsin.lang.syntax import UNITS

if TYPE_CHECKING:
    from tocsin.constraint.telling import TraceCounts

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
BOUNDS = tuple(number * 10.0**power for power in range(-6, 1) for number in (1, 2.5, 5))  # seconds of a push

METRICS: dict[str, tuple[str, str]] = {  # kind and meaning
    "tocsin_events": ("counter", "Events that were pushed."),
    "tocsin_events_relevant": ("counter", "Events of a type that some rule reads."),
    "tocsin_events_late": ("counter", "Events that came later than the order allows, and were set aside."),
    "tocsin_events_duplicate": ("counter", "Copies of events that had come before."),
    "tocsin_events_keyless": ("counter", "Events that a rule does not see, because they lack an attribute of its key."),
    "tocsin_rows_bad": ("counter", "Rows that could not be used."),
    "tocsin_matches": ("counter", "Answers of a rule."),
    "tocsin_retractions": ("counter", "Answers of a rule that were withdrawn."),
    "tocsin_traces": ("counter", "Traces under constraints: those that ended, were decided early, broke a constraint."),
    "tocsin_traces_determination_seconds": ("counter", "From the first event of a trace to its verdict, added up."),
    "tocsin_events_spared": ("counter", "Events of decided traces that their rule was not given."),
    "tocsin_events_released": ("counter", "Events of decided traces that were stored, and forgotten early."),
    "tocsin_answers_waiting": ("gauge", "Answers that wait until nothing can change them."),
    "tocsin_newest_event_seconds": ("gauge", "The end of the latest event, in seconds since 1970."),
    "tocsin_watermark_seconds": ("gauge", "Up to when all events have come, in seconds since 1970."),
    "tocsin_watermark_lag_seconds": ("gauge", "How far the watermark lies behind the latest event."),
    "tocsin_state_events": ("gauge", "Events that are kept."),
    "tocsin_state_bytes": ("gauge", "Bytes of kept events and waiting answers, about."),
    "tocsin_compile_seconds": ("counter", "Seconds that compilers of this process were at work."),
    "tocsin_push_seconds": ("histogram", "How long a push took, since these numbers were asked for first."),
}

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(slots=True)
class PushTimes:
    """How long pushes took: how many at most as long as each bound, and all together."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def timed(self, push: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Wrap a function so that its time is taken."""

        def measured(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
            began = perf_counter()
            try:
                return push(*args, **options)
            finally:
                took = perf_counter() - began
                self.total += took
                self.counts[bisect_left(BOUNDS, took)] += 1

        return measured

    def samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        for bound, count in zip((*BOUNDS, "+Inf"), accumulate(self.counts), strict=True):
            yield "_bucket", {"le": bound if isinstance(bound, str) else f"{bound:.10g}"}, count
        yield "_count", {}, sum(self.counts)
        yield "_sum", {}, self.total


Sample = tuple[str, dict[str, str], float]  # what follows the name of the metric, labels, value


def open_metrics(graph: QueryGraph | None, pushes: PushTimes, *, bad: int = 0) -> str:
    """The metrics of a session; without a graph nothing has come yet."""
    found: dict[str, Iterable[Sample]] = {
        "tocsin_rows_bad": [("_total", {}, bad)],
        "tocsin_compile_seconds": [("_total", {}, compilers().seconds)],
        "tocsin_push_seconds": list(pushes.samples()),
    }
    return as_text(found if graph is None else found | _of_graph(graph))


def as_text(found: Mapping[str, Iterable[Sample]]) -> str:
    """Samples of metrics as a scraper reads them."""
    lines: list[str] = []
    for name, (kind, says) in METRICS.items():
        if name in found:
            lines += [f"# HELP {name} {says}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{after}{_labels(labels)} {value:.15g}" for after, labels, value in found[name]]
    return "\n".join([*lines, "# EOF", ""])


def _of_graph(graph: QueryGraph) -> dict[str, Iterable[Sample]]:
    counted = graph.counters
    rules = [({"rule": stage.plan.title or "query"}, stage.operator.counters) for stage in graph.stages]
    one: dict[str, float] = {
        "tocsin_answers_waiting": counted.waiting,
        "tocsin_state_events": counted.live,
        "tocsin_state_bytes": sum(map(_state_bytes, graph.inner)),
    }
    if (times := _times(graph)) is not None:
        newest, watermark = times
        one |= {"tocsin_newest_event_seconds": newest, "tocsin_watermark_seconds": watermark}
        one["tocsin_watermark_lag_seconds"] = newest - watermark
    totals = {"": counted.seen, "_relevant": counted.relevant, "_late": counted.late}
    totals |= {"_duplicate": counted.duplicates, "_keyless": counted.keyless}
    found: dict[str, Iterable[Sample]] = {f"tocsin_events{name}": [("_total", {}, n)] for name, n in totals.items()}
    found["tocsin_matches"] = [("_total", labels, each.matches) for labels, each in rules]
    found["tocsin_retractions"] = [("_total", labels, each.retracted) for labels, each in rules]
    if (traces := graph.trace_counts) is not None:
        found |= _of_traces(traces, graph.schema.unit)
    return found | {name: [("", {}, value)] for name, value in one.items()}


def _of_traces(counts: TraceCounts, unit: str | None) -> dict[str, Iterable[Sample]]:
    """What became of traces under constraints; without a unit of time a tick has no length."""
    fates = {"ended": counts.traces, "decided": counts.decided, "expected": counts.expected, "unsat": counts.unsat}
    fates |= {"violated": counts.violated, "unconfirmed": counts.unconfirmed}
    found: dict[str, Iterable[Sample]] = {
        "tocsin_traces": [("_total", {"fate": fate}, count) for fate, count in fates.items()],
        "tocsin_events_spared": [("_total", {}, counts.skipped)],
        "tocsin_events_released": [("_total", {}, counts.released)],
    }
    if unit is not None:
        found["tocsin_traces_determination_seconds"] = [("_total", {}, counts.latency * UNITS[unit] / 1_000_000)]
    return found


def _state_bytes(operator: Operator) -> int:
    """Bytes that an operator keeps, with those inside it; a detector says by itself what is state."""
    detector = next(iter(operator.detectors), None)
    if detector is operator:
        return bytes_used(detector)
    return bytes_kept(operator, operator.inner) + sum(map(_state_bytes, operator.inner))


def _times(graph: QueryGraph) -> tuple[float, float] | None:
    """The end of the latest event and the watermark, in seconds; None if a tick has no length, or none has come."""
    unit, clock = graph.schema.unit, graph.clock
    if unit is None or not BEGINNING < clock < END_OF_TIME:
        return None
    order = graph.order
    late = 0 if order.kind == "in-order" else order.late
    promised = min((graph.intake.guarantees.of(type) for type in graph.intake.guarantees.types), default=BEGINNING)
    watermark = max(promised, BEGINNING if late is None else earliest(clock, late))
    if watermark <= BEGINNING:
        return None
    second = 1_000_000 / UNITS[unit]
    return clock / second, min(watermark, clock) / second


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
