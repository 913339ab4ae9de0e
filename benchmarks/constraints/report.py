"""The results of the constraint benchmark as a page: every number comes from the results, none is written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.constraints.load import ALIVE, ASKS, SELECTIVITIES, WORKFLOW
from benchmarks.disorder.plots import draw
from benchmarks.report import measured_on

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "experiments"
ARMS = ("naive", "basic", "lightweight")
FASTER = (
    "Reported: 76 % less at selectivity 0; the gain shrinks, and at very high selectivity both arms are slower than "
    "naive detection; lightweight is always below basic checking."
)
HEAD = f"""# Constraints: the experiments of the paper

This page and its pictures are written by `make bench-constraints` from `benchmarks/results/constraints.json`. They
reproduce the experiments of Li 2010 on detection under constraints (figures 3.6 to 3.11; [papers](../papers.md) names
the work in full), whose plots are compared by what its text says of them.

The traces are those of a generated supply-chain workflow of twenty types, twelve of which are optional or exclusive
(60 %, as in the source); {ALIVE:,} run beside each other, one event in a tick:

    {WORKFLOW}

`patterns` asks for the first branch, with eight more steps: its selectivity is the share of traces that take the
branch. `predicates` asks for steps that every trace has, and a condition on one of them: its selectivity is the share
of events that fulfil it. No query has a window. These numbers were fixed before anything was measured.

The arms: **naive** is plain detection, **basic** compares derivatives whenever a state changes (Algorithm 1), and
**lightweight** is what the product does: one look into a table. All three are compiled. Basic checking leaves its
actions to the lightweight loop, which runs behind it, and so costs a little more than it must.

CPU is that of detection, from encoded events to matches as columns, without key lookups and without what comes once
for a query. State is the number of events in the buffers of the query, looked at after every 4,096 events.
Determination time is that of the stream: from the first event of a trace to its verdict, or else to its last event.
"""


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    parts = [HEAD, measured_on(results), "## In brief", brief(results)]
    parts += map(section, figures(results))
    parts.append("## What became of the traces\n\n" + fates(results))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def section(figure: dict[str, Any]) -> str:
    picture = f"![{figure['title']}](constraints/{figure['name']}.png)"
    return f"## {figure['title']}\n\n{figure['expected']}\n\n{table(figure)}\n\n{picture}"


def row_of(results: dict[str, Any], ask: str, selectivity: int, arm: str) -> dict[str, Any] | None:
    for row in results["rows"]:
        if (row["ask"], row["selectivity"], row.get("arm")) == (ask, selectivity, arm):
            return dict(row)
    return None


def figures(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The six figures, each with a curve for every arm."""
    numbers: list[tuple[str, str, str, str, Callable[[dict[str, Any]], float]]] = [
        ("memory", "accumulated state", "stored events, added up over all looks, millions",
         "Reported: the lower the selectivity, the more is saved; basic and lightweight save the same.",
         lambda row: row["accumulated"] / 1e6),
        ("cpu", "CPU time", "nanoseconds an event",
         FASTER,
         lambda row: row["seconds"] / row["events"] * 1e9),
        ("determination", "accumulated determination time", "million ticks",
         "Reported: 65 to 70 % less, at every selectivity.",
         lambda row: row["ticks"] / 1e6),
    ]  # fmt: skip
    found, number = [], 6
    for ask in ASKS:
        for name, title, unit, expected, value in numbers:
            curves = {
                arm: [None if row is None else value(row) for row in
                      (row_of(results, ask, each, arm) for each in SELECTIVITIES)]
                for arm in ARMS
            }  # fmt: skip
            panel = {"title": f"{ask}: {title}", "x": "selectivity, %", "y": unit, "xs": list(SELECTIVITIES),
                     "curves": curves, "log": name == "memory"}  # fmt: skip
            found.append({"name": f"fig-3-{number:02}", "title": f"Figure 3.{number}, {ask}: {title} ({unit})",
                          "expected": expected, "panels": [panel]})  # fmt: skip
            number += 1
    return found


def table(figure: dict[str, Any]) -> str:
    panel = figure["panels"][0]
    lines = [f"| selectivity, % | {' | '.join(ARMS)} | lightweight beside naive |", f"|---{'|---:' * 4}|"]
    for at, x in enumerate(panel["xs"]):
        values = [panel["curves"][arm][at] for arm in ARMS]
        cells = ["" if value is None else f"{value:.3g}" for value in values]
        lines.append(f"| {x} | {' | '.join(cells)} | {beside(values[2], values[0])} |")
    return "\n".join(lines)


def beside(value: float | None, other: float | None) -> str:
    return "" if value is None or not other else f"{value / other - 1:+.0%}"


def brief(results: dict[str, Any]) -> str:
    """The numbers that are wanted, and those that are there."""
    lines = ["| | wanted | patterns | predicates |", "|---|---|---:|---:|"]
    low, high = SELECTIVITIES[0], SELECTIVITIES[-1]
    asked = (
        ("CPU at selectivity 0", "-76 %", "seconds", (low,)),
        ("CPU at selectivity 100", "at most +10 %", "seconds", (high,)),
        ("determination time, all selectivities", "-65 to -70 %", "ticks", SELECTIVITIES),
        ("accumulated state, all selectivities", "never more", "accumulated", SELECTIVITIES),
    )
    for said, wanted, name, places in asked:
        cells = []
        for ask in ASKS:
            rows = [[row_of(results, ask, each, arm) for each in places] for arm in ("lightweight", "naive")]
            sums = [sum(row[name] for row in mine if row is not None) for mine in rows]
            cells.append(beside(*sums))
        lines.append(f"| {said} | {wanted} | {' | '.join(cells)} |")
    return "\n".join(lines)


def fates(results: dict[str, Any]) -> str:
    lines = ["| group | selectivity, % | traces | events | UNSAT | expected | matches | events not given to it |",
             f"|---{'|---:' * 7}|"]  # fmt: skip
    for ask in ASKS:
        for each in SELECTIVITIES:
            row = row_of(results, ask, each, "lightweight")
            if row is not None:
                counts = row["counts"]
                told = (each, row["traces"], row["events"], counts["unsat"], counts["expected"],
                        row["found"].get("match", 0), counts["skipped"])  # fmt: skip
                lines.append(f"| {ask} | {' | '.join(f'{value:,}' for value in told)} |")
    return "\n".join(lines)


def lines(results: dict[str, Any]) -> list[str]:
    """What a run says on the terminal."""
    return brief(results).splitlines()


def write_page(results: dict[str, Any], folder: Path = PAGES) -> None:
    """The page and its pictures."""
    (folder / "constraints").mkdir(parents=True, exist_ok=True)
    for figure in figures(results):
        draw(figure, folder / "constraints")
    (folder / "constraints.md").write_text(page(results))
