"""Pictures of matches: timelines, funnels, times between steps, and the small timelines of notebooks."""

from __future__ import annotations

import warnings
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import tocsin
from tocsin.errors import InputError, TocsinError
from tocsin.run.inline_timeline import LEAST
from tocsin.run.plot_steps import between, reached

pyplot = pytest.importorskip("matplotlib.pyplot")
NOON = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - no zone is meant
SHOP = "EVENT SEQ(View v, Cart c, Pay p) WHERE [user] WITHIN 60 min TIMEOUT"


def visit(user: str, minutes: dict[str, int]) -> list[dict[str, Any]]:
    return [{"type": type, "time": NOON + timedelta(minutes=at), "user": user} for type, at in minutes.items()]


@pytest.fixture(scope="module")
def shop() -> Any:
    rows = visit("one", {"View": 0, "Cart": 10, "Pay": 40}) + visit("two", {"View": 5, "Cart": 7})
    rows += visit("three", {"View": 6}) + visit("four", {"View": 8, "Cart": 20, "Pay": 21})
    rows += [{"type": "View", "time": NOON + timedelta(days=2), "user": "five"}]
    return tocsin.query(SHOP).detect(sorted(rows, key=lambda row: row["time"]), jit=False)


def test_a_funnel_counts_how_far_beginnings_came(shop: Any) -> None:
    [table] = shop.tables()
    assert reached(table) == (["View v", "Cart c", "Pay p"], [5, 3, 2])


def test_the_time_between_steps(shop: Any) -> None:
    [table] = shop.tables()
    found = {name: sorted(gaps.tolist()) for name, gaps in between(table)}
    minutes = {"View v to Cart c": [10, 12], "Cart c to Pay p": [1, 30], "from start to end": [13, 40]}
    assert found == {name: [60.0 * each for each in gaps] for name, gaps in minutes.items()}


@pytest.mark.parametrize("kind", ["timeline", "funnel", "lag"])
def test_every_kind_is_drawn_and_written(shop: Any, kind: Any, tmp_path: Path) -> None:
    others = pyplot.get_fignums()  # of other tests in this process
    figure = shop.plot(kind=kind, title="Shop")
    assert any("Shop" in axes.get_title("left") for axes in figure.axes)
    pyplot.close(figure)
    shop.plot(tmp_path / "picture.svg", kind=kind)
    assert "<svg" in (tmp_path / "picture.svg").read_text()
    assert pyplot.get_fignums() == others


def test_names_that_the_font_lacks_leak_no_warning(tmp_path: Path) -> None:
    rows = [{"type": type, "time": at, "name": "\U0001f600 \u547c"} for at, type in enumerate("AB")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tocsin.query("EVENT SEQ(A a, B b)").detect(rows, jit=False).plot(tmp_path / "picture.png")


def test_a_short_span_in_a_long_time_has_a_stroke() -> None:
    """A bar of three seconds in two months is far thinner than a pixel."""
    rows = [{"type": type, "time": NOON + timedelta(days=60 * day, seconds=at), "day": day}
            for day in (0, 1) for at, type in ((0, "A"), (3, "B"))]  # fmt: skip
    found = tocsin.query("EVENT SEQ(A a, B b) WHERE [day] WITHIN 1 h SELECT a.day AS day").detect(rows, jit=False)
    figure = found.plot()
    strokes = [line for line in figure.axes[0].lines if line.get_marker() == "|"]
    assert len(strokes) == 2
    assert all(line.get_markeredgewidth() >= 1 for line in strokes)
    pyplot.close(figure)


def test_what_cannot_be_drawn_is_told(shop: Any) -> None:
    with pytest.raises(InputError, match="no picture of kind 'funel'") as wrong:
        shop.plot(kind="funel")
    assert "funnel" in str(wrong.value.hint)
    with pytest.raises(TocsinError, match="where beginnings stopped") as wrong:
        tocsin.query("EVENT View v").detect(visit("one", {"View": 0}), jit=False).plot(kind="funnel")
    assert "TIMEOUT" in str(wrong.value.hint)


@pytest.mark.parametrize("kind", ["timeline", "lag"])
def test_nothing_and_a_single_event_are_drawn(kind: Any) -> None:
    for type in ("View", "Nothing"):
        figure = tocsin.query(f"EVENT {type} v").detect(visit("one", {"View": 0}), jit=False).plot(kind=kind)
        assert figure.axes
        pyplot.close(figure)


def test_a_notebook_shows_a_small_timeline_of_each_match(shop: Any) -> None:
    page = ET.fromstring(f"<div>{shop._repr_html_()}</div>")
    [one, *_] = [row for row in page.iter("tr") if "user=one" in "".join(row.itertext())]
    marks = list(one.iter("circle"))
    places = [float(mark.attrib["cx"]) for mark in marks]
    assert [mark[0].text.split(":")[0] for mark in marks] == ["View v", "Cart c", "Pay p"]
    assert (places[1] - places[0]) * 3 == pytest.approx(places[2] - places[1], abs=0.2)  # 10 and 30 minutes
    assert all(float(bar.attrib["width"]) >= LEAST for bar in page.iter("rect"))


def test_nothing_of_the_data_is_markup() -> None:
    rows = [{"type": "<b>", "time": 1, "v": "<script>"}, {"type": "<b>", "time": 2, "v": "&"}]
    found = tocsin.query("EVENT SEQ(`<b>` a, `<b>` b)").detect(rows, jit=False)._repr_html_()
    assert "<script>" not in found
    assert "<b>" not in found
