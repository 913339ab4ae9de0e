"""Paste the results of the last runs into pages, between their markers, so that no number is written by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.five import text as five
from benchmarks.latency import RESULTS as LATENCY_RESULTS
from benchmarks.latency import text as latency_text
from benchmarks.report import text
from benchmarks.selection.report import text as selection_text
from benchmarks.spark.report import text as spark_text
from benchmarks.staged.report import text as staged_text
from benchmarks.table.report import text as table_text
from benchmarks.table.threads import RESULTS as THREADS_RESULTS
from benchmarks.table.threads import text as threads_text

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
SPARK_RESULTS = ROOT / "benchmarks" / "results" / "spark.json"
START, END = "<!-- bench:start -->", "<!-- bench:end -->"
TABLE_RESULTS = ROOT / "benchmarks" / "results" / "table.json"
TABLE = "<!-- bench-table:start -->", "<!-- bench-table:end -->"
THREADS = "<!-- bench-threads:start -->", "<!-- bench-threads:end -->"
SPARK = "<!-- bench-spark:start -->", "<!-- bench-spark:end -->"
SELECTION_RESULTS = ROOT / "benchmarks" / "results" / "selection.json"
FIVE = "<!-- bench-five:start -->", "<!-- bench-five:end -->"
SELECTION = "<!-- bench-selection:start -->", "<!-- bench-selection:end -->"
LATENCY = "<!-- bench-latency:start -->", "<!-- bench-latency:end -->"
STAGED_RESULTS = ROOT / "benchmarks" / "results" / "staged.json"
STAGED = "<!-- bench-staged:start -->", "<!-- bench-staged:end -->"
NOTHING = "No results yet: `make bench` measures and fills this place."


def pasted(page: str, block: str, start: str = START, end: str = END) -> str:
    """The page with `block` between the markers.

    >>> pasted("x <!-- bench:start -->old<!-- bench:end --> y", "new")
    'x <!-- bench:start -->\\nnew\\n<!-- bench:end --> y'
    """
    before, rest = page.split(start, 1)
    _, after = rest.split(end, 1)
    return f"{before}{start}\n{block}\n{end}{after}"


def renewed(page: str) -> str:
    """The page of benchmarks with everything that was measured last."""
    for path, told, place in (
        (RESULTS, text, (START, END)),
        (TABLE_RESULTS, table_text, TABLE),
        (THREADS_RESULTS, threads_text, THREADS),
        (SPARK_RESULTS, spark_text, SPARK),
        (SELECTION_RESULTS, selection_text, SELECTION),
        (LATENCY_RESULTS, latency_text, LATENCY),
        (STAGED_RESULTS, staged_text, STAGED),
    ):
        page = pasted(page, told(json.loads(path.read_text())) if path.exists() else NOTHING, *place)
    return page


def renewed_readme(page: str) -> str:
    """The README with its five numbers."""
    paths = (RESULTS, TABLE_RESULTS, SPARK_RESULTS)
    found = [json.loads(path.read_text()) for path in paths if path.exists()]
    return pasted(page, five(*found) if len(found) == len(paths) else NOTHING, *FIVE)


PAGES = {"README.md": renewed_readme, "docs/benchmarks.md": renewed}


def main() -> int:
    for name, made in PAGES.items():
        page = ROOT / name
        page.write_text(made(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
