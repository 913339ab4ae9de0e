"""The timeline picture: one row per match, its events as marks and intervals coloured by variable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tocsin.errors import InputError, TocsinError
from tocsin.run.atomic import whole_file
from tocsin.run.tables import variables


@dataclass(frozen=True, slots=True)
class Mark:
    """One event in the picture."""

    row: int
    variable: str
    start: Any
    end: Any


def timeline(tables: list[pa.Table], path: str | os.PathLike[str] | None = None, *, limit: int = 40) -> Any:
    """Draw the first `limit` matches. Returns the figure, or writes it to `path` (the ending says the format)."""
    pyplot = _pyplot(needs_screen=path is None)
    rows = _rows(tables, limit)
    marks = [mark for place, row in enumerate(rows) for mark in _marks(place, row)]
    names = list(dict.fromkeys(mark.variable for mark in marks))
    figure, axes = pyplot.subplots(figsize=(10, max(2.0, 1.2 + 0.28 * len(rows))), layout="constrained")
    colours = pyplot.get_cmap("tab10")
    for place, row in enumerate(rows):
        axes.plot([row["start"], row["end"]], [place, place], color="0.8", linewidth=1.5, zorder=1)
    for number, name in enumerate(names):
        _draw(axes, [mark for mark in marks if mark.variable == name], name, colours(number % 10))
    _dress(axes, rows, sum(table.num_rows for table in tables), names)
    if path is None:
        return figure
    try:
        with whole_file(path) as part:
            figure.savefig(part, dpi=130, format=_format(path))
    except ValueError as problem:
        raise InputError(f"{path} cannot be drawn", detail=str(problem).split("(")[0].strip()) from None
    finally:
        pyplot.close(figure)
    return path


def _format(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path))[1].lstrip(".").lower() or "png"  # noqa: PTH122 - a text or a path


def _pyplot(*, needs_screen: bool) -> Any:
    try:
        import matplotlib
    except ImportError:
        raise TocsinError(
            "drawing needs matplotlib, which is not installed", hint='install it with: pip install "tocsin[plot]"'
        ) from None
    if not needs_screen:
        matplotlib.use("Agg", force=False)
    from matplotlib import pyplot

    return pyplot


def _rows(tables: list[pa.Table], limit: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for table in tables:
        events = variables(table)
        shown = table.slice(0, limit - len(rows)).to_pylist()
        rows += [{**row, "_events": {name: row[name] for name in events}} for row in shown]
    return rows


def _marks(place: int, row: dict[str, Any]) -> list[Mark]:
    found = []
    for name, value in row["_events"].items():
        events = value if isinstance(value, list) else [] if value is None else [value]
        found += [Mark(place, name, event["start"], event["end"]) for event in events]
    return found


def _draw(axes: Any, marks: list[Mark], name: str, colour: Any) -> None:
    points = [mark for mark in marks if mark.start == mark.end]
    axes.scatter(
        [mark.start for mark in points], [mark.row for mark in points], color=colour, s=36, zorder=3, label=name
    )
    for mark in marks:
        if mark.start != mark.end:
            axes.plot(
                [mark.start, mark.end], [mark.row] * 2, color=colour, linewidth=6, zorder=2, solid_capstyle="butt"
            )


def _dress(axes: Any, rows: list[dict[str, Any]], total: int, names: list[str]) -> None:
    axes.set_yticks(range(len(rows)), [str(place + 1) for place in range(len(rows))])
    axes.set_ylim(len(rows) - 0.5, -0.5) if rows else axes.set_yticks([])
    axes.set_xlabel("time")
    axes.set_ylabel("match")
    axes.grid(axis="x", color="0.92")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(
        f"{total:,} matches" if total == len(rows) else f"the first {len(rows)} of {total:,} matches", loc="left"
    )
    if names:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.figure.autofmt_xdate() if rows and not isinstance(rows[0]["start"], int) else None
