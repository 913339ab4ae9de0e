"""The results of the table benchmark as Markdown: rows per second by the clock and by CPU."""

from __future__ import annotations

from typing import Any

SAME = "tocsin, same columns"
NAMES = {"tocsin": "Tocsin", SAME: "same columns", "duckdb": "DuckDB", "polars": "Polars"}


def text(results: dict[str, Any]) -> str:
    """Everything there is to say about a run."""
    return "\n\n".join([heading(results), grid(results), measured_on(results)])


def heading(results: dict[str, Any]) -> str:
    made = (
        f"Million rows per second by the clock, and per second of CPU, from a table of {results['events']:,} rows to a"
        " table of matches"
    )
    if not any(row["who"] == SAME for row in results["rows"]):
        return f"{made}:"
    return (
        f"{made}. That of Tocsin has ids, kinds and times of matches and all attributes of their events; *same columns*"
        " is Tocsin with SELECT and `table(columns=[...])`, so that its table has the columns that those of the rivals"
        " have:"
    )


def grid(results: dict[str, Any]) -> str:
    """A line for each query, source and number of threads; a column for each system."""
    rows, events = results["rows"], results["events"]
    whose = [who for who in NAMES if any(row["who"] == who for row in rows)]
    lines = [
        f"| query | from | threads | matches | {' | '.join(f'{NAMES[who]}, clock | CPU' for who in whose)} |",
        f"|---|---|---:|---:{'|---:|---:' * len(whose)}|",
    ]
    for line in dict.fromkeys(map(line_of, rows)):
        query, source, threads = line
        mine = {row["who"]: row for row in rows if line_of(row) == line}
        found = next((row["found"][0] for row in mine.values() if "error" not in row), None)
        cells = " | ".join(cell(mine.get(who), events) for who in whose)
        lines.append(f"| {query} | {source} | {threads} | {'' if found is None else f'{found:,}'} | {cells} |")
    return "\n".join(lines)


def line_of(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["query"], row["source"], row["threads"]


def cell(row: dict[str, Any] | None, events: int) -> str:
    if row is None:
        return " | "
    if "error" in row:
        return "failed | failed"
    return f"{events / row['clock'] / 1e6:.3g} | {events / row['cpu'] / 1e6:.3g}"


def measured_on(results: dict[str, Any]) -> str:
    facts = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    busy = max(facts["load_before"], facts["load_after"]) > 2 * facts["cores"]
    note = " The machine did other work meanwhile: the clock says little, and CPU is more than it would be." * busy
    fewest, most = (of(row["repeat"] for row in results["rows"]) for of in (min, max))
    runs = f"{most} runs" if fewest == most else f"{fewest} to {most} runs"
    return (
        f"Best of {runs}, arms in turn; {facts['processor']},"
        f" {facts['cores']} cores, Python {facts['python']}, {versions};"
        f" load {facts['load_before']:.1f} before and {facts['load_after']:.1f} after.{note}"
    )
