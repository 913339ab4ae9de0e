"""Compare every way of running a query with the oracle: the question behind the property tests.

    disagreement(query, events)     None, or which mode differs and how

A mode agrees if its net answers are the oracle's, each once; if no binding is ever counted other than 0 or 1 on the
way; and if nothing is withdrawn as long as events come in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from tocsin.engine.kinds import COUNT
from tocsin.events import Event
from tocsin.lang.syntax import Query
from tocsin.plan.passes import PASSES
from tocsin.schema import Schema
from tocsin.testing.harness import Harness, Running
from tocsin.testing.modes import EVERY, Mode, driven
from tocsin.testing.oracle import Binding, Match

Shown: TypeAlias = tuple[int, int, dict[str, Any]]
Answered: TypeAlias = tuple[str | None, Binding]  # the missing step of a timeout, and what is bound
Row: TypeAlias = tuple[Any, ...]  # of kind count: its times, and its values as texts

NAMES = tuple(step.__name__ for step in PASSES)


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to run: a mode, and what happens to the list of events before."""

    name: str
    mode: Mode
    shuffle: int | None = None
    twice: bool = False

    def arranged(self, events: Sequence[Event]) -> list[Event]:
        """The events as they are delivered."""
        listed = list(events)
        if self.twice:
            listed = listed + listed[::2]
        if self.shuffle is not None:
            Random(self.shuffle).shuffle(listed)  # noqa: S311 - not for secrets
        return listed


# fmt: off
PLAIN: tuple[Trial, ...] = (
    Trial("all at once", Mode()),
    Trial("batches of 1", Mode(batch=1)),
    Trial("batches of 7", Mode(batch=7), shuffle=4),
    *(Trial(f"without {name}", Mode(batch=3, off=frozenset((name,)))) for name in NAMES),
    Trial("without any pass", Mode(off=frozenset(NAMES))),
    Trial("any order, batches of 1", Mode("aggressive", batch=1), shuffle=1),
    Trial("any order, batches of 3", Mode("aggressive", batch=3), shuffle=2),
    Trial("any order, without any pass", Mode("aggressive", batch=1, off=frozenset(NAMES)), shuffle=3),
    Trial("restart at every prefix", Mode(batch=1, restart=EVERY)),
    Trial("restart at every prefix, any order", Mode("aggressive", batch=2, restart=EVERY), shuffle=3),
    Trial("any order, forgetting", Mode("aggressive", batch=1, late=True), shuffle=5),
    Trial("any order, promises", Mode("aggressive", batch=2, promises=1, tidy=True), shuffle=6),
    Trial("immediate", Mode("aggressive", batch=1, promises=2, immediate=True), shuffle=7),
    Trial("held", Mode("conservative", batch=1, promises=3, tidy=True), shuffle=8, twice=True),
    Trial("held, known delay", Mode("conservative", batch=1, late=True, tidy=True), shuffle=9),
    Trial("held, restart", Mode("conservative", batch=1, promises=4, restart=EVERY, tidy=True), shuffle=10),
    Trial("held, promises and known delay", Mode("conservative", batch=2, late=True, promises=9), shuffle=15),
    Trial("some held", Mode("hybrid", batch=1, promises=5, held=1), shuffle=11, twice=True),
    Trial("some held, restart", Mode("hybrid", batch=2, promises=6, held=2, restart=EVERY, tidy=True), shuffle=12),
    Trial("some held, immediate", Mode("hybrid", batch=1, promises=7, held=3, immediate=True), shuffle=13),
    Trial("delivered twice", Mode(batch=2), twice=True),
    Trial("delivered twice, any order", Mode("aggressive", batch=2), shuffle=1, twice=True),
    Trial("sorted first", Mode("slack", batch=2, promises=10), shuffle=16, twice=True),
    Trial("sorted first, restart", Mode("slack", batch=3, restart=EVERY), shuffle=17),
    Trial("released in order", Mode("conservative", batch=1, late=True, promises=11, ordered=True), shuffle=18),
)
COMPILED: tuple[Trial, ...] = (
    Trial("compiled, all at once", Mode(jit=True)),
    Trial("compiled, batches of 1", Mode(jit=True, batch=1)),
    Trial("compiled, any order", Mode("aggressive", jit=True, batch=2), shuffle=1, twice=True),
    Trial("compiled, held", Mode("conservative", jit=True, batch=2, promises=1, tidy=True), shuffle=2),
)
# fmt: on


class Bench(Harness):
    """A query that is asked in many ways, and judged by the oracle."""

    def disagreement(self, events: Sequence[Event], trials: Sequence[Trial] = PLAIN) -> str | None:
        """What the first trial that disagrees does; None if all agree."""
        expected = self.oracle(events)
        for trial in trials:
            try:
                problem = self.problem(trial, events, expected)
            except Exception as error:  # noqa: BLE001 - whatever goes wrong is what we look for
                problem = f"{type(error).__name__}: {error}"
            if problem is not None:
                return f"{trial.name}: {problem}"
        return None

    def problem(self, trial: Trial, events: Sequence[Event], expected: Sequence[Match]) -> str | None:
        """What one trial does wrong."""
        return mistake(driven(self, trial.arranged(events), trial.mode), trial.mode, expected)


def mistake(run: Running, mode: Mode, answers: Sequence[Match]) -> str | None:
    """What a run has said that is wrong."""
    if any(batch.kind == COUNT for step in run.answers for batch in step) or any(each.group for each in answers):
        return miscount(run, mode, answers)
    expected = {(match.step, match.binding): match for match in answers}
    net: Counter[Answered] = Counter()
    shown: dict[Answered, Shown] = {}
    for op, binding, row in log(run):
        net[binding] += op
        shown[binding] = row
        if net[binding] not in (0, 1):
            return f"{binding} is counted {net[binding]} times on the way"
        if op < 0 and not mode.corrects:
            return f"{binding} is withdrawn although the events came in order or answers were held"
    found = {binding for binding, count in net.items() if count}
    if missing := expected.keys() - found:
        return f"missing {sorted(missing, key=repr)}"
    if surplus := found - expected.keys():
        return f"not expected {sorted(surplus, key=repr)}"
    wrong = (difference(expected[binding], shown[binding]) for binding in found)
    return next((each for each in wrong if each is not None), None)


def miscount(run: Running, mode: Mode, answers: Sequence[Match]) -> str | None:
    """What a run has said that is wrong, where rows count matches: they are compared by their times and values."""
    net: Counter[Row] = Counter()
    for op, row in rows_of(run):
        net[row] += op
        if op < 0 and not mode.corrects:
            return f"{row} is withdrawn although the events came in order or answers were held"
    expected = Counter(row_of(each.start, each.end, (each.select or {}).values()) for each in answers)
    wrong = {row: (net[row], expected[row]) for row in net | expected if net[row] != expected[row]}
    return f"rows that are there another number of times than expected: {wrong}" if wrong else None


def rows_of(run: Running) -> Iterator[tuple[int, Row]]:
    """Every change of a run that counts: its sign, its times and its values."""
    for batch in (batch for step in run.answers for batch in step):
        if batch.kind != COUNT:
            raise AssertionError(f"rows of kind {batch.kind} where matches are counted")
        whole = [output.expr.kind == "int" for output in batch.plan.outputs]  # large ones are decimals in a batch
        columns = [batch.selected(output).to_pylist() for output in batch.plan.outputs]
        starts, ends = (each.tolist() for each in batch.span)
        for at, op in enumerate(batch.op.tolist()):
            values = (column[at] for column in columns)
            exact = [int(value) if is_int and value is not None else value
                     for value, is_int in zip(values, whole, strict=True)]  # fmt: skip
            yield op, row_of(starts[at], ends[at], exact)


def row_of(start: int, end: int, values: Iterable[object]) -> Row:
    """A row that can be compared: kinds differ, NaN is equal to itself, and both zeros are one."""
    return (start, end, *(repr(value + 0.0 if isinstance(value, float) else value) for value in values))


def log(run: Running) -> Iterator[tuple[int, Answered, Shown]]:
    """Every change in turn: its sign, its binding, its span and SELECT columns."""
    for batch in (batch for step in run.answers for batch in step):
        starts, ends = (end.tolist() for end in batch.span)
        columns = {out.name: batch.selected(out).to_pylist() for out in batch.plan.outputs}
        for at, (op, binding) in enumerate(batch.bindings()):
            yield (
                op,
                (batch.step, binding),
                (starts[at], ends[at], {name: column[at] for name, column in columns.items()}),
            )


def difference(match: Match, shown: Shown) -> str | None:
    """How a change shows another span or other SELECT columns than the match; NaN is equal to itself here."""
    start, end, columns = shown
    if (start, end) != (match.start, match.end) and match.binding:
        return f"{match.binding} spans [{start}, {end}], expected [{match.start}, {match.end}]"
    expected = match.select or {}
    same = expected.keys() == columns.keys() and all(
        x == y or (x != x and y != y) for x, y in ((expected[name], columns[name]) for name in expected)
    )
    return None if same else f"SELECT of {match.binding} gives {columns}, expected {expected}"


def disagreement(query: Query, events: Sequence[Event], schema: Schema, trials: Sequence[Trial] = PLAIN) -> str | None:
    """What the first trial that disagrees with the oracle does; None if all agree."""
    return Bench(query, schema).disagreement(events, trials)
