"""Paste the results of the last run into the README, between its markers, so that no number is written by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.report import text

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
START, END = "<!-- bench:start -->", "<!-- bench:end -->"
NOTHING = "No results yet: `make bench` measures and fills this place."


def pasted(page: str, block: str) -> str:
    """The page with `block` between the markers.

    >>> pasted("x <!-- bench:start -->old<!-- bench:end --> y", "new")
    'x <!-- bench:start -->\\nnew\\n<!-- bench:end --> y'
    """
    before, rest = page.split(START, 1)
    _, after = rest.split(END, 1)
    return f"{before}{START}\n{block}\n{END}{after}"


def block() -> str:
    """What belongs between the markers now."""
    return text(json.loads(RESULTS.read_text())) if RESULTS.exists() else NOTHING


def main() -> int:
    readme = ROOT / "README.md"
    readme.write_text(pasted(readme.read_text(), block()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
