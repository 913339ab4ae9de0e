"""Pictures of steps: a funnel of how far beginnings came, and how long it took from each step to the next."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.tables import variables
from tocsin.errors import TocsinError
from tocsin.run.inline_timeline import COLOURS

INK, PALE = "#333333", "#b9c0c7"
PLOT_UNITS = (
    (2 * 86_400.0, 86_400.0, "days"),
    (7_200.0, 3_600.0, "hours"),
    (120.0, 60.0, "minutes"),
    (0.0, 1.0, "seconds"),
)
BINS = 40


# --- how far beginnings came ---------------------------------------------------------------------------------------


def funnel(pyplot: Any, tables: list[pa.Table], title: str | None) -> Any:
    """A bar for each step: how many beginnings reached it."""
    shown = [table for table in tables if "step" in table.schema.names and len(variables(table)) > 1]
    if not shown:
        raise TocsinError(
            "a funnel shows where beginnings stopped, and these matches do not say it",
            hint="say WITHIN ... TIMEOUT in the query, and leave SELECT out; kind='lag' shows times between steps",
        )
    heights = [0.5 * len(variables(table)) + 0.8 for table in shown]
    figure, panels = pyplot.subplots(
        len(shown), 1, figsize=(9, sum(heights)), layout="constrained", squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )  # fmt: skip
    for axes, table in zip(panels[:, 0], shown, strict=True):
        _draw_funnel(axes, *reached(table))
        _dress(axes, _name(table, title))
    return figure


def reached(table: pa.Table) -> tuple[list[str], list[int]]:
    """The steps of a query with TIMEOUT, and how many beginnings (first events) came to each of them."""
    steps = variables(table)
    furthest: dict[Any, int] = {}
    for row in table.select(["match_id", *steps]).to_pylist():
        bound = [place for place, step in enumerate(steps) if row[step]]
        first = _first(row[steps[0]])
        beginning = (first["eid"], first["start"]) if first else row["match_id"]
        furthest[beginning] = max(furthest.get(beginning, -1), bound[-1] if bound else -1)
    counts = [sum(far >= place for far in furthest.values()) for place in range(len(steps))]
    return [_called(table, step) for step in steps], counts


def _draw_funnel(axes: Any, steps: list[str], counts: list[int]) -> None:
    most = max(*counts, 1)
    for place, (count, before) in enumerate(zip(counts, [None, *counts], strict=False)):
        axes.barh(place, most, color="#eef1f4", height=0.62, zorder=0)
        axes.barh(place, count, color=COLOURS[0], height=0.62, zorder=1)
        part = "" if not before else f"   {count / before:.0%} of the step before"
        axes.text(most * 1.02, place, f"{count:,}{part}", va="center", color=INK, fontsize=9)
    axes.set_yticks(range(len(steps)), steps)
    axes.set_ylim(len(steps) - 0.5, -0.5)
    axes.set_xlim(0, most * 1.45)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


# --- how long it took ----------------------------------------------------------------------------------------------


def lag(pyplot: Any, tables: list[pa.Table], title: str | None) -> Any:
    """A histogram of the time between each two steps, and of whole matches."""
    panels = [(table, name, gaps) for table in tables for name, gaps in between(table) if len(gaps)]
    figure, axes = pyplot.subplots(
        max(1, len(panels)), 1, figsize=(9, 0.6 + 1.5 * max(1, len(panels))), layout="constrained", squeeze=False
    )
    if not panels:
        _dress(axes[0][0], f"{title}: no matches" if title else "no matches")
        axes[0][0].set_xticks([])
    for place, (table, name, gaps) in enumerate(panels):
        unit, called = _unit(table, gaps)
        _draw_lag(axes[place][0], gaps / unit, called, COLOURS[place % len(COLOURS)])
        first = place == 0 or panels[place - 1][0] is not table
        _dress(axes[place][0], f"{_name(table, title)}: {name}" if first and _name(table, title) else name)
    return figure


def between(table: pa.Table) -> Iterator[tuple[str, Any]]:
    """For each two steps that follow one another, and for whole matches: how long it took, in seconds or ticks."""
    steps = variables(table)
    whole: list[float] = []
    gaps: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairwise(steps)}
    for row in table.select(["kind", "start", "end", *steps]).to_pylist():
        if row["kind"] != "match" or row["start"] is None or row["end"] is None:
            continue
        whole.append(_length(row["end"] - row["start"]))
        for (one, two), found in gaps.items():
            if row[one] and row[two]:
                ends = max(each["end"] for each in _members(row[one]))
                found.append(_length(min(each["start"] for each in _members(row[two])) - ends))
    for (one, two), found in gaps.items():
        yield f"{_called(table, one)} to {_called(table, two)}", np.array(found)
    if len(steps) != 2:
        yield "from start to end", np.array(whole)


def _draw_lag(axes: Any, gaps: Any, unit: str, colour: str) -> None:
    low, high = float(gaps.min()), float(gaps.max())
    room = (low - 0.5, high + 0.5) if low == high else (low, high)
    axes.hist(gaps, bins=BINS, range=room, color=colour)
    middle, most = np.quantile(gaps, (0.5, 0.9))
    axes.axvline(middle, color=INK, linewidth=1.2)
    told = f"median {middle:,.3g} {unit}, nine of ten within {most:,.3g}; {len(gaps):,} matches"
    axes.text(1.0, 1.02, told, transform=axes.transAxes, ha="right", va="bottom", color=INK, fontsize=9)
    axes.set_xlabel(unit, color=INK, fontsize=9)
    axes.grid(axis="x", color="#e3e7ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_yticks([])


# --- what both need ------------------------------------------------------------------------------------------------


def _members(value: Any) -> list[dict[str, Any]]:
    return value if isinstance(value, list) else [value]


def _first(value: Any) -> dict[str, Any] | None:
    return _members(value)[0] if value else None


def _length(distance: Any) -> float:
    return distance.total_seconds() if isinstance(distance, timedelta) else float(distance)


def _unit(table: pa.Table, gaps: Any) -> tuple[float, str]:
    """The unit in which times are shown: where they are ticks of unknown length, ticks."""
    if not pa.types.is_timestamp(table.schema.field("start").type):
        return 1.0, "ticks"
    longest = float(np.quantile(np.abs(gaps), 0.9))
    return next((unit, name) for least, unit, name in PLOT_UNITS if longest >= least)


def _called(table: pa.Table, variable: str) -> str:
    """A variable with the type of its first event."""
    found = next((_first(value) for value in table.column(variable).to_pylist() if value), None)
    type = found["type"] if found else variable
    return str(type) if type == variable else f"{type} {variable}"


def _name(table: pa.Table, title: str | None) -> str:
    """What a panel is about: the title, and the query if it has a name."""
    query = table.column("query")[0].as_py() if table.num_rows else ""
    return ", ".join(each for each in (title, query) if each)


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=11)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(PALE)
