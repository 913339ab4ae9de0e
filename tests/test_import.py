"""The first import is quick: what it loads, and what waits until it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tocsin

HEAVY = ("numpy", "pyarrow", "numba", "pyspark", "pandas", "rich", "matplotlib")


@pytest.mark.parametrize(
    "started", ["import tocsin", "from tocsin.app.cli import app; app(['--help'], standalone_mode=False)"]
)
def test_neither_the_import_nor_the_help_loads_what_computes(started: str) -> None:
    script = f"{started}\nimport sys\nprint('loaded:', *[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_type_checkers_see_the_names_that_are_loaded_late() -> None:
    tree = ast.parse(Path(tocsin.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: str(node.module).removeprefix("tocsin.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == tocsin.LATE


def test_every_public_name_is_there() -> None:
    for name in tocsin.__all__:
        assert getattr(tocsin, name) is not None
    assert set(tocsin.__all__) <= set(dir(tocsin))
    with pytest.raises(AttributeError, match="no attribute 'qury'"):
        tocsin.qury  # noqa: B018
