"""Draw matches: a timeline, one row per match with its events as marks and bars; and the other kinds of pictures.

Where events are intervals, each variable has a lane of its own in the row, and behind the last bar stands how each
stands to the next: `a overlaps b`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tocsin.engine.tables import EVENT, HEAD, variables
from tocsin.errors import InputError, TocsinError
from tocsin.lang.printer import VERB
from tocsin.plan.allen import relation
from tocsin.run.atomic import whole_file
from tocsin.run.inline_timeline import COLOURS
from tocsin.run.plot_steps import INK, PALE, PLOT_UNITS, funnel, lag

BAND = "#f5f7f9"
LANES = 0.78  # how much of a row its lanes take
MOST_RELATIONS = 3  # so many are written beside a match
LABEL_CHARACTERS = 24  # a longer label is cut
SHORT_MATCHES = 4.0  # matches so many times shorter than the whole time get a second panel, where each begins at zero


@dataclass(frozen=True, slots=True)
class Mark:
    """One event in the picture."""

    row: int
    variable: str
    type: str
    start: Any
    end: Any


@dataclass(frozen=True, slots=True)
class PlottedMatch:
    """One match in the picture."""

    label: str
    start: Any
    end: Any
    marks: tuple[Mark, ...]
    relations: str = ""  # how its intervals stand to each other


def plotted(
    tables: list[pa.Table],
    path: str | os.PathLike[str] | None = None,
    *,
    kind: str = "timeline",
    limit: int = 40,
    title: str | None = None,
) -> Any:
    """Draw a picture of a kind. Returns the figure, or writes it to `path` (the ending says the format).

    timeline  the first `limit` matches, one row each
    funnel    how many beginnings came to each step; of a query with TIMEOUT
    lag       how long it took from each step to the next
    """
    if kind not in KINDS:
        hint = f"did you mean {close[0]}?" if (close := get_close_matches(kind, KINDS, n=1)) else None
        raise InputError(f"there is no picture of kind {kind!r}", hint=hint or f"one of {', '.join(KINDS)}")
    pyplot = _pyplot(needs_screen=path is None)
    with warnings.catch_warnings():  # of Matplotlib, about letters that its font lacks: they are drawn as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = KINDS[kind](pyplot, tables, limit, title)
        return figure if path is None else _written(pyplot, figure, path)


def _written(pyplot: Any, figure: Any, path: str | os.PathLike[str]) -> Any:
    try:
        with whole_file(path) as part:
            figure.savefig(part, dpi=130, format=_format(path))
    except ValueError as problem:
        raise InputError(f"{path} cannot be drawn", detail=str(problem).split("(")[0].strip()) from None
    finally:
        pyplot.close(figure)
    return path


def _timeline(pyplot: Any, tables: list[pa.Table], limit: int, title: str | None) -> Any:
    rows = _rows(tables, limit)
    return _drawn(pyplot, rows, _title(title, rows, sum(table.num_rows for table in tables)))


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


# --- what is drawn ------------------------------------------------------------------------------------------------


def _rows(tables: list[pa.Table], limit: int) -> list[PlottedMatch]:
    rows: list[PlottedMatch] = []
    for table in tables:
        events = variables(table)
        for match in table.slice(0, limit - len(rows)).to_pylist():
            if match["start"] is not None and match["end"] is not None:
                marks = tuple(mark for name in events for mark in _marks(len(rows), name, match[name]))
                label = _label(match, events, len(rows))
                rows.append(PlottedMatch(label, match["start"], match["end"], marks, _relations(marks)))
    return rows


def _marks(row: int, name: str, value: Any) -> list[Mark]:
    return [Mark(row, name, event["type"], event["start"], event["end"]) for event in _events(value)]


def _relations(marks: Sequence[Mark]) -> str:
    """How each variable stands to the next, where intervals are among them; of a repetition its whole span counts."""
    spans: dict[str, tuple[Any, Any]] = {}
    for mark in marks:
        first, last = spans.get(mark.variable, (mark.start, mark.end))
        spans[mark.variable] = min(first, mark.start), max(last, mark.end)
    if all(first == last for first, last in spans.values()):
        return ""
    pairs = list(pairwise(spans))
    told = [
        f"{one} {VERB[relation(spans[one], spans[other])].lower()} {other}" for one, other in pairs[:MOST_RELATIONS]
    ]
    return ", ".join(told + ["…"] * (len(pairs) > MOST_RELATIONS))


def _events(value: Any) -> list[dict[str, Any]]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _label(match: dict[str, Any], names: Sequence[str], row: int) -> str:
    """What tells a match from others: what its events share, a text if there is one, or its SELECT columns."""
    events = [event for name in names for event in _events(match[name])]
    values = events[0] if events else {name: value for name, value in match.items() if name not in HEAD}
    shared = [
        value if isinstance(value, str) else f"{name}={value}"
        for name, value in sorted(values.items(), key=lambda item: not isinstance(item[1], str))
        if name not in EVENT and value is not None and all(event.get(name) == value for event in events)
    ]
    text = shared[0] if shared and shared[0].isprintable() else str(row + 1)
    return text if len(text) <= LABEL_CHARACTERS else text[: LABEL_CHARACTERS - 1] + "…"


def _title(title: str | None, rows: list[PlottedMatch], total: int) -> str:
    count = f"{total:,} match{'' if total == 1 else 'es'}"
    shown = count if total == len(rows) else f"the first {len(rows)} of {count}"
    return f"{title}: {shown}" if title else shown


def _elapsed(start: Any, moment: Any, unit: float) -> float:
    distance = moment - start
    return float(distance) if isinstance(distance, int) else float(distance.total_seconds() / unit)


def _panel_unit(rows: list[PlottedMatch]) -> tuple[float, str] | None:
    """The unit of the second panel; None if the first shows enough."""
    if not rows:
        return None
    spans = [_elapsed(row.start, row.end, 1.0) for row in rows]
    whole = _elapsed(min(row.start for row in rows), max(row.end for row in rows), 1.0)
    if max(spans) <= 0 or whole < SHORT_MATCHES * max(spans):
        return None
    if not isinstance(rows[0].start, datetime):
        return 1.0, "ticks"
    return next((unit, name) for least, unit, name in PLOT_UNITS if max(spans) >= least)


# --- how it is drawn ----------------------------------------------------------------------------------------------


def _drawn(pyplot: Any, rows: list[PlottedMatch], title: str) -> Any:
    unit = _panel_unit(rows)
    lanes = len(_variables(rows)) if any(row.relations for row in rows) else 1
    height = max(2.4, 1.5 + (0.34 if lanes == 1 else 0.2 + 0.14 * lanes) * len(rows))
    ratios = {"width_ratios": (1.0, 1.3)} if unit else None
    figure, panels = pyplot.subplots(
        1, 2 if unit else 1, figsize=(11, height), layout="constrained", squeeze=False, gridspec_kw=ratios
    )
    when, last = panels[0][0], panels[0][-1]
    _draw(when, rows, lambda _, moment: moment, dense=unit is not None)
    _dress(when, rows, "time")
    if unit is not None:
        length, name = unit
        _draw(last, rows, lambda row, moment: _elapsed(row.start, moment, length), dense=False)
        _dress(last, rows, f"{name} since the first event")
        last.tick_params(axis="y", labelleft=False)
    when.set_title(title, loc="left", color=INK, fontsize=12, pad=10)
    if any(row.relations for row in rows):
        last.margins(x=0.05)
        low, high = last.get_xlim()
        last.set_xlim(low, high + (high - low) * min(0.8, 0.014 * max(len(row.relations) for row in rows)))
    _legend(last, rows)
    return figure


def _draw(axes: Any, rows: list[PlottedMatch], place: Callable[[PlottedMatch, Any], Any], *, dense: bool) -> None:
    """The span of each match as a line, its events upon it."""
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(_variables(rows))}
    for at, row in enumerate(rows):
        if at % 2 == 0:
            axes.axhspan(at - 0.5, at + 0.5, color=BAND, zorder=0, linewidth=0)
        width = 2.0 if row.marks else 6.0
        ends = [place(row, row.start), place(row, row.end)]
        axes.plot(ends, [at, at], color=PALE, linewidth=width, zorder=1, solid_capstyle="butt")
        if not row.marks:
            _show_at_least(axes, ends[0], at, INK if dense else PALE)
        lanes = list(dict.fromkeys(mark.variable for mark in row.marks)) if row.relations else []
        for mark in row.marks:
            ends = [place(row, mark.start), place(row, mark.end)]
            lane = at + (LANES * ((lanes.index(mark.variable) + 0.5) / len(lanes) - 0.5) if lanes else 0.0)
            if mark.start != mark.end:
                axes.plot(
                    ends, [lane, lane], color=colours[mark.variable], linewidth=7, zorder=2, solid_capstyle="butt"
                )
                _show_at_least(axes, ends[0], lane, colours[mark.variable])
            else:
                axes.scatter(
                    ends[:1], [lane], color=colours[mark.variable], s=22 if dense or lanes else 55, zorder=3,
                    edgecolors="white", linewidths=0.6,
                )  # fmt: skip
        if row.relations and not dense:
            axes.annotate(
                row.relations, (place(row, row.end), at), (7, 0), textcoords="offset points", va="center", fontsize=8,
                color=INK,
            )  # fmt: skip


def _show_at_least(axes: Any, place: Any, row: float, colour: str) -> None:
    """A stroke where a bar begins: in a long time a bar may be thinner than a pixel."""
    axes.plot([place], [row], marker="|", markersize=7, markeredgewidth=1.5, color=colour, zorder=2, linestyle="")


def _variables(rows: list[PlottedMatch]) -> dict[str, str]:
    """The variables in the order of the query, each with the type of its first event."""
    found: dict[str, str] = {}
    for row in rows:
        for mark in row.marks:
            found.setdefault(mark.variable, mark.type)
    return found


def _dress(axes: Any, rows: list[PlottedMatch], label: str) -> None:
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    if rows:
        axes.set_ylim(len(rows) - 0.5, -0.5)
    else:
        axes.set_xticks([])
    axes.set_xlabel(label, color=INK)
    axes.grid(axis="x", color="#e3e7ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(PALE)
    if rows and isinstance(rows[0].start, datetime) and label == "time":
        dates: Any = import_module("matplotlib.dates")
        locator = dates.AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=rows[0].start.tzinfo))


def _legend(axes: Any, rows: list[PlottedMatch]) -> None:
    from matplotlib.lines import Line2D

    variables = _variables(rows)
    handles = [
        Line2D([], [], marker="o", linestyle="", markersize=7, color=COLOURS[at % len(COLOURS)], label=_called(*pair))
        for at, pair in enumerate(variables.items())
    ]
    if handles:
        axes.legend(
            handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=min(6, len(handles)), frameon=False,
            fontsize=9, labelcolor=INK, handletextpad=0.2, columnspacing=1.2,
        )  # fmt: skip


def _called(variable: str, type: str) -> str:
    return type if variable == type else f"{type} {variable}"


# --- other kinds ---------------------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[Any, list[pa.Table], int, str | None], Any]] = {
    "timeline": _timeline,
    "funnel": lambda pyplot, tables, _, title: funnel(pyplot, tables, title),
    "lag": lambda pyplot, tables, _, title: lag(pyplot, tables, title),
}
