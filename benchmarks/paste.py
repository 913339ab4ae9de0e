"""Paste the results of the last runs into pages, between their markers, so that no number is written by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.report import text
from benchmarks.selection.report import text as selection_text
from benchmarks.spark.report import text as spark_text
from benchmarks.staged.report import text as staged_text
from benchmarks.table.report import text as table_text

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
SPARK_RESULTS = ROOT / "benchmarks" / "results" / "spark.json"
START, END = "<!-- bench:start -->", "<!-- bench:end -->"
TABLE_RESULTS = ROOT / "benchmarks" / "results" / "table.json"
TABLE = "<!-- bench-table:start -->", "<!-- bench-table:end -->"
SPARK = "<!-- bench-spark:start -->", "<!-- bench-spark:end -->"
SELECTION_RESULTS = ROOT / "benchmarks" / "results" / "selection.json"
SELECTION = "<!-- bench-selection:start -->", "<!-- bench-selection:end -->"
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
    """The page with everything that was measured last."""
    page = pasted(page, text(json.loads(RESULTS.read_text())) if RESULTS.exists() else NOTHING)
    spark = spark_text(json.loads(SPARK_RESULTS.read_text())) if SPARK_RESULTS.exists() else NOTHING
    page = pasted(page, spark, *SPARK)
    table = table_text(json.loads(TABLE_RESULTS.read_text())) if TABLE_RESULTS.exists() else NOTHING
    return pasted(page, table, *TABLE)


def renewed_selection(page: str) -> str:
    """The page of benchmarks with the last results of the selection benchmark, and of staged statements."""
    staged = staged_text(json.loads(STAGED_RESULTS.read_text())) if STAGED_RESULTS.exists() else NOTHING
    page = pasted(page, staged, *STAGED)
    found = selection_text(json.loads(SELECTION_RESULTS.read_text())) if SELECTION_RESULTS.exists() else NOTHING
    return pasted(page, found, *SELECTION)


def main() -> int:
    for name, made in (("README.md", renewed), ("docs/benchmarks.md", renewed_selection)):
        page = ROOT / name
        page.write_text(made(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
