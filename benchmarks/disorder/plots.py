"""Pictures of figures: one small PNG each, drawn from the results and nothing else."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

MARKS = "os^Dvx*P"


def draw(figure: dict[str, Any], folder: Path) -> Path:
    """The panels of a figure beside each other; where they are many, in two rows or more."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = figure["panels"]
    across = min(len(panels), 3)
    down = math.ceil(len(panels) / across)
    picture, places = pyplot.subplots(down, across, figsize=(4.2 * across, 3.1 * down), squeeze=False)
    for place in places.flat[len(panels) :]:
        place.set_visible(False)
    for place, panel in zip(places.flat, panels, strict=False):
        paint(place, panel)
    picture.tight_layout()
    path = folder / f"{figure['name']}.png"
    picture.savefig(path, dpi=80, metadata={"Software": None})
    pyplot.close(picture)
    return path


def paint(place: Any, panel: dict[str, Any]) -> None:
    """One panel: lines over numbers, bars over names."""
    xs, names = panel["xs"], any(isinstance(x, str) for x in panel["xs"])
    for index, (name, curve) in enumerate(panel["curves"].items()):
        ys = [math.nan if value is None else value for value in curve]
        if names:
            width = 0.8 / len(panel["curves"])
            place.bar([at + index * width for at in range(len(xs))], ys, width, label=name)
        else:
            place.plot(xs, ys, marker=MARKS[index % len(MARKS)], markersize=4, linewidth=1.2, label=name)
    if names:
        place.set_xticks([at + 0.4 for at in range(len(xs))], xs, rotation=60, ha="right", fontsize=6)
    positive = [value for curve in panel["curves"].values() for value in curve if value]
    if panel["log"] and positive and min(positive) > 0:
        place.set_yscale("log")
    else:
        place.set_ylim(bottom=0 if all(value >= 0 for value in positive) else None)
    place.set_title(wrapped(panel["title"]), fontsize=8)
    place.set_xlabel(panel["x"], fontsize=7)
    place.set_ylabel(panel["y"], fontsize=7)
    place.tick_params(labelsize=7)
    place.grid(alpha=0.3)
    place.legend(fontsize=6)


def wrapped(title: str, width: int = 48) -> str:
    """A long title on two lines or more."""
    import textwrap

    return "\n".join(textwrap.wrap(title, width))
