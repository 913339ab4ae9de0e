"""MAP.md is the tree: every module is in it, with the first line of its docstring."""

from __future__ import annotations

from pathlib import Path

from tools import map as tree

ROOT = Path(__file__).parent.parent
MODULES = sorted(path for place, _ in tree.PLACES for path in (ROOT / place).rglob("*.py"))


def test_the_map_is_the_tree():
    written = (ROOT / "MAP.md").read_text(encoding="utf-8")
    assert written == tree.page(), "MAP.md is not the tree: run `python tools/map.py`"


def test_every_module_says_its_one_idea():
    assert len(MODULES) > 100
    silent = [str(path.relative_to(ROOT)) for path in MODULES if len(tree.first_line(path)) <= 10]
    assert not silent, f"these need a docstring that says their one idea: {', '.join(silent)}"
