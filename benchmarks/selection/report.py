"""The results of the selection benchmark as Markdown: events per CPU-second, for few keys and for many."""

from __future__ import annotations

from typing import Any


def text(results: dict[str, Any]) -> str:
    """Everything there is to say about a run."""
    return "\n\n".join([heading(results), grid(results), spread(results), measured_on(results)])


def heading(results: dict[str, Any]) -> str:
    return (
        f"Million events per second of CPU, from {results['events']:,} encoded events in order to matches as columns;"
        " ten types in equal parts, of which the query names three; a window has about one of each type and key:"
    )


def grid(results: dict[str, Any]) -> str:
    """A line for each query; for each number of keys the matches, Tocsin and Polars."""
    rows = results["rows"]
    keys = list(dict.fromkeys(row["keys"] for row in rows))
    heads = " | ".join(f"{number:,} keys: matches | Tocsin | Polars" for number in keys)
    lines = [f"| | {heads} |", f"|---|{'---:|---:|---:|' * len(keys)}"]
    for name in dict.fromkeys(row["ask"] for row in rows):
        cells = []
        for number in keys:
            mine = {row["who"]: row for row in rows if (row["ask"], row["keys"]) == (name, number)}
            found = next((f"{row['matches']:,}" for row in mine.values() if "error" not in row), "")
            cells += [found, cell(mine.get("tocsin")), cell(mine.get("polars"))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return "failed" if "error" in row else f"{row['events'] / row['seconds'] / 1e6:.3g}"


def spread(results: dict[str, Any]) -> str:
    """How even the cost of an event is: over pushes of equal size, by mode."""
    rows = [row for row in results["rows"] if row.get("mean_ns") and row["ask"].startswith("CONSUME")]
    if not rows:
        return ""
    lines = ["Nanoseconds an event, over pushes of 131,072 (mean, and standard deviation in percent of it):", ""]
    lines += ["| mode | keys | mean | spread |", "|---|---:|---:|---:|"]
    for row in rows:
        name = row["ask"].removeprefix("CONSUME ")
        lines.append(f"| {name} | {row['keys']:,} | {row['mean_ns']:.1f} | {row['spread']:.0%} |")
    return "\n".join(lines)


def measured_on(results: dict[str, Any]) -> str:
    facts = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items() if name != "duckdb")
    return (
        f"Best of {results['repeat']} runs, each arm in a process of its own; an empty cell: it cannot be said, or was"
        f" not written. {facts['processor']}, {facts['cores']} cores, Python {facts['python']}, {versions};"
        f" load {facts['load_before']:.1f} before and {facts['load_after']:.1f} after."
    )
