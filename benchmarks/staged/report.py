"""The results of the benchmark of staged statements as Markdown."""

from __future__ import annotations

from typing import Any


def text(results: dict[str, Any]) -> str:
    """Everything there is to say about a run."""
    parts = [heading(results), grid(results["rows"]), measured_on(results)]
    if "work" in results:
        parts += [WORK, work(results["work"])]
    if "times" in results:
        parts += [TIMES, times(results["times"])]
    return "\n\n".join(parts)


WORK = (
    "What an event costs as the windows of its operands grow and the answers stay the same: lines of the statement's"
    " function that are run for each event, counted (`benchmarks/staged/windows.py`)."
)


TIMES = "The same in microseconds of CPU for each event, in the compiled function, rows of answers included:"


def times(found: list[dict[str, Any]]) -> str:
    lines = [f"| window | {' | '.join(f'{int(length):,}' for length in found[0]['times'])} |"]
    lines.append(f"|---|{'---:|' * len(found[0]['times'])}")
    lines += [f"| {each['what']} | {' | '.join(f'{one:.2f}' for one in each['times'].values())} |" for each in found]
    return "\n".join(lines)


def work(found: list[dict[str, Any]]) -> str:
    lengths = list(found[0]["lines"])
    lines = [f"| window | {' | '.join(lengths)} |", f"|---|{'---:|' * len(lengths)}"]
    lines += [
        f"| {each['what']} | {' | '.join(f'{count:,.0f}' for count in each['lines'].values())} |" for each in found
    ]
    return "\n".join(lines)


def heading(results: dict[str, Any]) -> str:
    return (
        f"Thousand events per second of CPU, all threads, over {results['events']:,} events: Tocsin from an Arrow table"
        " to tables of answers, Esper from objects in memory to listeners; both give the same rows. Memory is by how"
        " much the process of Tocsin grew at most, rows of answers included, and what is left on the heap of Esper,"
        " events included:"
    )


def grid(rows: list[dict[str, Any]]) -> str:
    lines = ["| statement | rows | Tocsin | Esper | times | plain Python | memory (MB) | Esper |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    for ask in dict.fromkeys(row["ask"] for row in rows):
        mine = {row["who"]: row for row in rows if row["ask"] == ask}
        ours, esper = speed(mine.get("tocsin")), speed(mine.get("esper"))
        times = f"{ours / esper:.1f}" if ours and esper else ""
        found = f"{mine['tocsin']['rows']:,}" if ours else ""
        cells = [found, shown(ours), shown(esper), times, shown(speed(mine.get("plain")))]
        cells += [memory(mine.get("tocsin")), memory(mine.get("esper"))]
        lines.append(f"| {ask} | {' | '.join(cells)} |")
    return "\n".join(lines)


def speed(row: dict[str, Any] | None) -> float:
    return 0.0 if row is None or "error" in row else row["events"] / row["seconds"] / 1e3


def shown(thousands: float) -> str:
    return f"{thousands:,.0f}" if thousands else ""


def memory(row: dict[str, Any] | None) -> str:
    return "" if row is None or "error" in row else f"{row['bytes'] / 1e6:,.0f}"


def measured_on(results: dict[str, Any]) -> str:
    facts = results["machine"]
    return (
        f"Best of {results['repeat']} runs after one to warm up, each arm in a process of its own; plain Python on"
        f" fewer events. {facts['processor']}, {facts['cores']} cores, Python {facts['python']}; load"
        f" {facts['load_before']:.1f} before and {facts['load_after']:.1f} after."
    )
