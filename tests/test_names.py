"""One name, one thing: no two classes of the package share a name, except where they are the same thing twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "tocsin"
# A name that two modules define, and why that misleads nobody.
SAME_THING = {
    "Leaf": "a place for an event: as it is written (lang/syntax), and with its names resolved (plan/block)",
    "Query": "a query: as it is written (lang/syntax), and as users hold it (run/query, `tocsin.Query`)",
}


def defined() -> dict[str, list[str]]:
    """The modules in which each class of the package is defined."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(SOURCE).with_suffix("")))
    return found


def test_a_class_name_means_one_thing():
    twice = {name: places for name, places in defined().items() if len(places) > 1}
    unexplained = {name: places for name, places in twice.items() if name not in SAME_THING}
    assert not unexplained, "give them names of their own, or say in SAME_THING why they are the same thing"


def test_reasons_are_given_only_for_names_that_need_one():
    found = defined()
    assert [name for name in SAME_THING if len(found.get(name, [])) < 2] == []
