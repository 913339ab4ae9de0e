"""The results of the interval benchmark as a page: every number comes from the results, none is written by hand."""

from __future__ import annotations

from typing import Any

from benchmarks.disorder.report import failures, loaded, section, summary
from benchmarks.interval.rivals import SAME
from benchmarks.report import measured_on

HEAD = """# Intervals: the experiments of the paper, and ours

This page and its pictures are written by `make bench-interval` from `benchmarks/results/interval.json`.

The arms are those of Li 2010 (5.5), in plain Python (`benchmarks/interval/baselines`): *naive* joins the stacks of all
leaves, *indexed* follows the longest path of terminations, *begins* follows a path of starts and ends, for which begins
of intervals are sent. They have the corrections of the specification, find equally many results, as many as Tocsin, and
their absolute times mean little. The source fixes a window of 30 s, 20 types in equal parts, and chains of endpoints;
`50t-50s` has half terminations and half starts, starts first. Its 2 GB are far beyond plain Python: streams here are
one to thirty windows long. State is the number of stored instances and begins, averaged over the items of a stream of
at least fifteen windows, which is run for that without looking for results: a short one begins with empty stacks."""
ABOUT = """From an Arrow table in memory to a table of matches, one thread each, million events per CPU-second, equal
matches. Every event is of a type that the pattern reads. Joins cut time into buckets, as one would write them: DuckDB's
plain range join compares nearly all pairs here. `join_where` is Polars' own range join, asked for fewer events. The
tables of the rivals hold the numbers of the matched events; that of Tocsin holds the id, times and kind of a match
beside them, or, as *same columns*, no more than theirs (`table(columns=[...])`)."""
WANTED = {
    ("two leaves, overlap", "duckdb"): 5.0, ("four leaves, mixed", "duckdb"): 5.0,
    ("two leaves, overlap", "polars"): 1.5, ("four leaves, mixed", "polars"): 3.0,
}  # fmt: skip


def page(results: dict[str, Any]) -> str:
    figures = [part["figure"] for part in results["parts"] if "figure" in part]
    parts = [HEAD, measured_on(results) + loaded(results), "## In brief", summary(figures), beside(results)]
    parts += [*failures(results), *(section(figure) for figure in figures)]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def speed(row: dict[str, Any]) -> float | None:
    return None if "error" in row else row["events"] / row["seconds"] / 1e6


def beside(results: dict[str, Any]) -> str:
    """Million events per CPU-second of every arm, and how Tocsin stands to the best form of each rival."""
    rows = results["rows"]
    if not rows:
        return ""
    lines = [
        "## Beside DuckDB and Polars", "",
        ABOUT, "",
        "| pattern | arm | events | matches | M events/s |", "|---|---|---:|---:|---:|",
    ]  # fmt: skip
    for row in rows:
        found = speed(row)
        told = "failed" if found is None else f"{found:.3g}"
        lines.append(f"| {row['name']} | {row['who']} | {row['events']:,} | {row.get('matches', 0):,} | {told} |")
    lines += ["", "| pattern | arm | beside | times | wanted | |", "|---|---|---|---:|---:|---|"]
    for (name, rival), wanted in WANTED.items():
        here = [row for row in rows if row["name"] == name]
        theirs = max((speed(row) or 0 for row in here if row["who"].startswith(rival)), default=0)
        for row in here:
            mine = speed(row)
            if row["who"] in ("tocsin", SAME) and mine and theirs:
                verdict = "met" if mine / theirs >= wanted else "**missed**"
                lines.append(f"| {name} | {row['who']} | {rival} | {mine / theirs:.2f} | {wanted:g} | {verdict} |")
    return "\n".join(lines)
