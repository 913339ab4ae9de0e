"""A definition of intervals as text that says what it does: what it reads, what ends an interval, what it keeps."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.lang.printer import print_expr
from tocsin.plan.block import Plan
from tocsin.plan.durations import as_duration
from tocsin.plan.facts import reads

POLICIES = {
    "nested": "an end belongs to the last open begin",
    "queued": "an end belongs to the first open begin",
    "outermost": "begins inside an open interval wait for ends of their own; the outermost counts",
    "restart": "a begin drops the open one",
}


def explain_derived(plan: Plan) -> str:
    """What a definition does, line by line."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    form = plan.derived
    assert form is not None
    given = form.definition
    yield f"intervals {given.name}"
    for type, attrs in reads(plan).items():
        yield f"reads     {type}" + (f" ({', '.join(sorted(attrs))})" if attrs else "")
    yield f"key       {', '.join(given.by)}" if given.by else "key       none: all readings together, in one shard"
    match form.kind:
        case "runs":
            for state in given.states:
                yield f"state     {state.label}: {print_expr(state.when)}"
            yield "ends      " + (
                "at its last reading" if given.end_last else "at the first reading of what follows it"
            )
        case "pairs":
            yield f"pairs     {given.policy}: {POLICIES[given.policy]}"
    if form.gap is not None:
        gap = as_duration(form.gap, plan.schema.unit)
        yield f"ends      at its last reading, where the next comes more than {gap} later"
    for fold in form.folds:
        yield f"column    {fold.column}: {fold.function}({'*' if fold.field is None else fold.field.name})"
    yield f"memory    {memory_of_intervals(plan)}"
    if form.kind == "runs" and form.gap is None:
        yield "later     a key that falls silent holds back queries that read these intervals: MAX GAP ends its run"
    yield "body      a loop over columns of settled readings"


def memory_of_intervals(plan: Plan) -> str:
    """How the state of a definition grows."""
    form = plan.derived
    assert form is not None
    if form.kind == "pairs" and form.definition.policy in ("nested", "queued"):
        return "the open begins of each key"
    return "one open interval for each key"
