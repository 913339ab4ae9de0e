"""A match as a small inline picture for notebooks: its events along a line, in SVG, each variable in its colour."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

COLOURS = ("#2f6db5", "#e07b39", "#3a9d6e", "#b5487a", "#7a62b8", "#c9a227", "#4aa3b8", "#8c6d5a")
WIDTH, HEIGHT, EDGE = 180, 16, 6  # pixels
LEAST = 2.0  # pixels of a bar, however short it is
MOST_MARKS = 200  # of one match; more would not be told apart


def colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def longest(rows: Sequence[Mapping[str, Any]]) -> float:
    """The length of the longest match: all pictures have its scale."""
    return max((_length(row["end"] - row["start"]) for row in rows if _is_timed(row)), default=0.0)


def inline_timeline(row: Mapping[str, Any], events: Sequence[str], whole: float) -> str:
    """A match from its start on, on the scale of the longest one; nothing if it has no start or end."""
    if not _is_timed(row):
        return ""

    def place(moment: Any) -> float:
        return EDGE + (WIDTH - 2 * EDGE) * (_length(moment - row["start"]) / whole if whole else 0.0)

    middle = HEIGHT / 2
    shapes = [_bar(place(row["start"]), place(row["end"]), middle, 2, "#b9c0c7")]
    for at, name in enumerate(events):
        for event in _members(row[name])[:MOST_MARKS]:
            told = html.escape(f"{event['type']} {name}: {event['start']}")
            if event["start"] == event["end"]:
                mark = f'<circle cx="{place(event["start"]):.1f}" cy="{middle:g}" r="4" fill="{colour(at)}">'
                shapes.append(f"{mark}<title>{told}</title></circle>")
            else:
                shapes.append(_bar(place(event["start"]), place(event["end"]), middle, 7, colour(at), told))
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="timeline">{"".join(shapes)}</svg>'


def _bar(start: float, end: float, middle: float, height: float, fill: str, told: str = "") -> str:
    width = max(LEAST, end - start)
    shape = f'<rect x="{start:.1f}" y="{middle - height / 2:g}" width="{width:.1f}" height="{height:g}" fill="{fill}"'
    return f"{shape}><title>{told}</title></rect>" if told else f"{shape}/>"


def _members(value: Any) -> list[dict[str, Any]]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_timed(row: Mapping[str, Any]) -> bool:
    return row["start"] is not None and row["end"] is not None


def _length(distance: Any) -> float:
    return distance.total_seconds() if isinstance(distance, timedelta) else float(distance)
