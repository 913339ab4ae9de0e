"""The results of the selection benchmark as Markdown: events per CPU-second, for few keys and for many."""

from __future__ import annotations

from typing import Any


def text(results: dict[str, Any]) -> str:
    """Everything there is to say about a run."""
    parts = (heading, grid, spread, counts, beside_flink, measured_on)
    return "\n\n".join(said for part in parts if (said := part(results)))


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


def counts(results: dict[str, Any]) -> str:
    """How long counting takes that finds no match."""
    rows = [row for row in results.get("counts", ()) if "error" not in row]
    if not rows:
        return ""
    said = ", ".join(f"{row['ask']} {row['seconds']:.3f}" for row in rows)
    return f"Counting the matches of three steps in {rows[0]['events']:,} events, seconds of CPU: {said}."


def beside_flink(results: dict[str, Any]) -> str:
    """A line for each contiguity and skip strategy of Flink CEP."""
    rows = [row for row in results.get("flink", ()) if "error" not in row]
    if not rows:
        return ""
    head = (
        f"Beside Flink CEP 2.3 (Java API, one JVM, a run to warm up), both from one Parquet file of"
        f" {rows[0]['events']:,} events, 100 keys, no two events at one time; million events per second of CPU,"
        " matches equal; `alone`: without what reading the file takes each of them:"
    )
    lines = [head, "", "| Flink | matches | Tocsin | Flink | times | alone: Tocsin | Flink | times |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        pairs = [_beside(row, "tocsin", "flink")]
        if "flink_alone" in row:
            pairs.append(_beside(row, "tocsin_alone", "flink_alone"))
        lines.append(f"| {row['ask']} | {row['matches']:,} | {' | '.join(pairs)} |")
    return "\n".join(lines)


def _beside(row: dict[str, Any], ours: str, theirs: str) -> str:
    """Three cells: both speeds, and how many times theirs is ours."""
    mine = row["events"] / row[ours] / 1e6
    if theirs not in row:
        return f"{mine:.3g} | {row['missing']} | "
    rival = row["events"] / row[theirs] / 1e6
    return f"{mine:.3g} | {rival:.3g} | {mine / rival:.0f}"


def measured_on(results: dict[str, Any]) -> str:
    facts = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items() if name != "duckdb")
    return (
        f"Best of {results['repeat']} runs, each arm in a process of its own; an empty cell: it cannot be said, or was"
        f" not written. {facts['processor']}, {facts['cores']} cores, Python {facts['python']}, {versions};"
        f" load {facts['load_before']:.1f} before and {facts['load_after']:.1f} after."
    )
