"""The ways that MAP.md begins with, and the order of its rooms, name modules that exist; and they lead somewhere."""

from __future__ import annotations

import pytest

from tools import map as tree


@pytest.mark.parametrize("way", tree.WAYS, ids=lambda way: way[0])
def test_every_step_of_a_way_is_a_module(way):
    gone = [name for name, _ in way[2] if not tree.find(name).exists()]
    assert not gone, f"{way[0]} passes {', '.join(gone)}, which are not there: change the way in tools/map.py"


@pytest.mark.parametrize("way", tree.WAYS, ids=lambda way: way[0])
def test_every_step_of_a_way_says_what_happens_there_once(way):
    steps = [name for name, _ in way[2]]
    assert len(steps) == len(set(steps)) >= 10
    assert all(len(words) > 10 for _, words in way[2])


def test_modules_that_are_put_into_an_order_exist():
    known = {room: {path.stem for path in tree.in_order(tree.find(room), room)} for room in tree.ROOMS}
    gone = [
        f"{room}/{name}" for room, listed in tree.ROOMS.items() for name in listed.split() if name not in known[room]
    ]
    assert not gone, f"tools/map.py orders modules that are not there: {', '.join(gone)}"


def test_every_package_has_an_order():
    packages = [path.parent for path in (tree.ROOT / tree.PACKAGE).rglob("__init__.py")]
    rooms = {str(path.relative_to(tree.ROOT / tree.PACKAGE)) for path in packages if len(list(path.glob("*.py"))) > 2}
    assert {name.replace(".", "") for name in rooms} <= set(tree.ROOMS), "say in tools/map.py in which order to read it"


def test_the_map_begins_with_the_ways():
    titles = [line for line in tree.page().splitlines() if line.startswith("## ")]
    assert titles[: len(tree.WAYS)] == [f"## {title}" for title, _, _ in tree.WAYS]
