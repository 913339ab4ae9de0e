"""Matches on a terminal: a drawn table where someone looks, plain text where a program reads."""

from __future__ import annotations

import sys

from tocsin.run.matches import Matches
from tocsin.run.show import rich_table, text_table

ROWS_ON_SCREEN = 100  # rows of a table before the rest is only counted


def print_matches(matches: Matches, *, limit: int | None) -> None:
    """The tables of all queries on stdout."""
    left = ROWS_ON_SCREEN if limit is None else limit
    tables = [table for table in matches.tables() if table.num_rows]
    names = {table.column("query")[0].as_py() for table in tables}
    for table in tables:
        title = str(table.column("query")[0].as_py()) if len(names) > 1 else None
        if sys.stdout.isatty():
            from rich.console import Console

            Console().print(rich_table(table, title, left))
        else:
            text = (f"{title}\n" if title else "") + text_table(table, left)
            sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")
        left = max(0, left - table.num_rows)
    if not tables:
        sys.stdout.write("no matches\n")
