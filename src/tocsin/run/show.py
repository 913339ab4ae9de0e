"""Show matches as text and as HTML: one row per match, each event as its time and attributes."""

from __future__ import annotations

import html
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from tocsin.engine.tables import EVENT, HEAD, variables
from tocsin.run.inline_timeline import colour, inline_timeline, longest

ROWS_SHOWN = 20
CELL_CHARACTERS = 60


def header(table: pa.Table) -> list[str]:
    """The columns that are worth showing: start and end, then the variables or the SELECT columns."""
    return ["start", "end", *(_plain(name) for name in table.schema.names[len(HEAD) :])]


def cells(table: pa.Table, rows: int = ROWS_SHOWN) -> Iterator[list[str]]:
    """The first rows as texts; a withdrawn match is marked with a minus."""
    events = set(variables(table))
    names = ["start", "end", *table.schema.names[len(HEAD) :]]
    for row in table.slice(0, rows).to_pylist():
        day = row["start"].date() if isinstance(row["start"], datetime) else None
        texts = [_event(row[name], day) if name in events else _value(row[name]) for name in names]
        if row.get("op") == -1:
            texts[0] = f"- {texts[0]}"
        yield texts


def _event(value: Any, day: date | None) -> str:
    """An event as its time and attributes; on the day of the match the date is left out."""
    if value is None:
        return ""
    if isinstance(value, list):
        shown = ", ".join(_event(each, day) for each in value[:3])
        return f"{len(value)}: {shown}{', ...' if len(value) > 3 else ''}"
    time = _moment(value["start"], day)
    if value["end"] != value["start"]:
        time = f"[{time}, {_moment(value['end'], day)}]"
    attrs = [f"{_plain(name)}={_value(each)}" for name, each in value.items() if name not in EVENT and each is not None]
    return " ".join([time, *attrs])


def _moment(value: Any, day: date | None) -> str:
    if isinstance(value, datetime) and value.date() == day:
        return str(value.time())
    return _value(value)


def _value(value: Any) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:g}"
        case datetime():
            return value.isoformat(" ").replace("+00:00", "Z")
        case bool():
            return "true" if value else "false"
        case list():
            return f"[{', '.join(map(_value, value))}]"
    return _plain(str(value))


def _plain(text: str) -> str:
    """A text without what a terminal would obey."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _cut(text: str, width: int = CELL_CHARACTERS) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def text_table(table: pa.Table, rows: int = ROWS_SHOWN) -> str:
    """A plain text table.

    >>> print(text_table(pa.table({**{name: [1] for name in HEAD}, "total": [3.5]})))
    start  end  total
    -----  ---  -----
    1      1    3.5
    """
    lines = [header(table), *([_cut(cell) for cell in row] for row in cells(table, rows))]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    texts.insert(1, "  ".join("-" * width for width in widths))
    if table.num_rows > rows:
        texts.append(f"... and {table.num_rows - rows:,} more")
    return "\n".join(texts)


def html_table(table: pa.Table, rows: int = ROWS_SHOWN) -> str:
    """A table for notebooks, with a small timeline for each match. Everything from the data is escaped."""
    events, shown = variables(table), table.slice(0, rows).to_pylist()
    whole = longest(shown)
    head = "".join(f"<th>{_dot(name, events)}{html.escape(name)}</th>" for name in header(table))
    body = "".join(
        f"<tr><td>{inline_timeline(match, events, whole)}</td>"
        + "".join(f"<td>{html.escape(_cut(cell, 120))}</td>" for cell in row)
        + "</tr>"
        for match, row in zip(shown, cells(table, rows), strict=True)
    )
    more = f"<p>… and {table.num_rows - rows:,} more</p>" if table.num_rows > rows else ""
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _dot(name: str, events: list[str]) -> str:
    """The colour of a variable in the timelines."""
    return f'<span style="color:{colour(events.index(name))}">&#9679;</span> ' if name in events else ""


def rich_table(table: pa.Table, title: str | None = None, rows: int = ROWS_SHOWN) -> Any:
    """A table for terminals (of the library rich). Cells are plain text, never markup."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=Text(_plain(title)) if title else None, header_style="bold", title_justify="left")
    for name in header(table):
        shown.add_column(Text(name), overflow="fold")
    for row in cells(table, rows):
        shown.add_row(*(Text(cell) for cell in row))
    if table.num_rows > rows:
        shown.caption = f"... and {table.num_rows - rows:,} more"
    return shown
