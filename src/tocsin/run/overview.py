"""Rules at a glance: the name, key, window and memory class of each, and what they find in a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.plan.block import Plan
from tocsin.plan.durations import as_duration
from tocsin.plan.facts import memory
from tocsin.run.matches import Matches

SAMPLE = 20_000  # rows that are looked at
MOST = 100_000  # matches in them, then the look ends
MANY = 5  # matches for each row: whoever wrote the rule may have forgotten its key


def overview(plans: Iterable[Plan]) -> str:
    """A line for each rule.

    >>> from tocsin.run.query import query
    >>> print(overview(query("QUERY back EVENT SEQ(Sent s, !Back b) WHERE [case] WITHIN 14 d").plans()))
    back  key case  window 14 d  memory bounded by the window
    """
    rows = [(plan.title or "query", _key(plan), _window(plan), f"memory {_memory(plan)}") for plan in plans]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _key(plan: Plan) -> str:
    if plan.staged is not None:
        names = [entry.attr for key in plan.staged.statement.gkeys for entry in key.entries]
    else:
        names = [*plan.needs] or [attr for _, attrs in plan.key for attr in attrs]
    return f"key {', '.join(dict.fromkeys(names))}" if names else "no key"


def _memory(plan: Plan) -> str:
    """The memory class of a rule, with the traces of its constraints where nothing ends them."""
    traces = plan.under is not None and plan.under.key and not plan.under.divides
    return memory(plan) + (", and 8 to 24 bytes for each trace" if traces else "")


def _window(plan: Plan) -> str:
    return "no window" if plan.within is None else f"window {as_duration(plan.within, plan.schema.unit)}"


def in_sample(table: pa.Table, plans: Sequence[Plan], detect: Callable[[pa.Table, int], Matches]) -> Iterator[str]:
    """What the rules find in the first rows of a table, with a note where that is suspiciously much."""
    rows = min(SAMPLE, table.num_rows)
    found = detect(table.slice(0, rows), MOST)
    looked = found.counters["events"]
    counts: dict[str, int] = {}
    for each in found.tables():
        for said in pc.value_counts(each.column("query")).to_pylist():
            counts[said["values"]] = counts.get(said["values"], 0) + said["counts"]
    part = f"the first {looked:,} of {table.num_rows:,} rows" if looked < table.num_rows else f"all {looked:,} rows"
    more = "more than " if len(found) >= MOST else ""
    names = [plan.title for plan in plans]
    several = len(names) > 1
    told = ", ".join(f"{more}{count:,}" + (f" of {name}" if several else "") for name, count in counts.items() if count)
    yield f"sample    {part}: {found.counters['relevant']:,} are read, matches: {told or 'none'}"
    if 0 < looked < table.num_rows:
        whole = table.num_rows / looked
        read, all_found = (_about(count * whole) for count in (found.counters["relevant"], len(found)))
        yield f"estimate  all {table.num_rows:,} rows at this rate: {read} are read, matches: {more}{all_found}"
    for plan in plans:
        if counts.get(plan.title or "", 0) > MANY * looked and _key(plan) == "no key":
            yield (
                f"note      {plan.title or 'the query'} has no key, so every event meets every other; if its events "
                "belong together by an attribute, say so: WHERE [attribute]"
            )


def _about(count: float) -> str:
    """A number of which two digits are known.

    >>> _about(1234), _about(0)
    ('about 1,200', 'about 0')
    """
    size = 10 ** max(0, len(str(int(count))) - 2)
    return f"about {round(count / size) * size:,}"
