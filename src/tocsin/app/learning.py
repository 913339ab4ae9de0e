"""`tocsin constraints learn`: find the order that past traces keep to, and print it for a person to edit."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tocsin.constraint.mining import Mined, learn, traces_of
from tocsin.encode.columns import Columns
from tocsin.errors import InputError
from tocsin.run.bad_rows import BadRows
from tocsin.run.inputs import in_time_order, open_input, usable

MOST_SHOWN = 10  # exceptions


def learned(
    source: str, columns: Columns, *, key: Sequence[str], name: str, k: int, least: float, bad: BadRows
) -> Mined:
    """The constraint of the events in a file, in order of their ends; what is left out is told on stderr."""
    given = open_input(source, columns, bad=bad)
    missing = [each for each in (columns.type, columns.time, *key) if each not in given.table().schema.names]
    if missing:
        raise InputError(
            f"the input has no column {missing[0]}", detail=f"it has {', '.join(given.table().schema.names)}",
            hint="name the columns: --type, --time, --key",
        )  # fmt: skip
    table = in_time_order(usable(given, {}), columns)
    bad.write()
    types = map(str, table.column(columns.type).to_pylist())
    keys = [table.column(attr).to_pylist() for attr in key]
    rows = [{"type": type, **dict(zip(key, values, strict=True))} for type, *values in zip(types, *keys, strict=True)]
    for line in [*bad.told(), *_keyless(rows, key)]:
        sys.stderr.write(f"{line}\n")
    return learn(traces_of(rows, key), name=name, key=key, k=k, least=least)


def _keyless(rows: Sequence[Mapping[str, Any]], key: Sequence[str]) -> Iterator[str]:
    """How many events belong to no trace, for each attribute of the key that they lack."""
    for attr in key:
        if count := sum(row[attr] is None for row in rows):
            said = "1 event has" if count == 1 else f"{count:,} events have"
            yield f"note: {said} no {attr}, and {'belongs' if count == 1 else 'belong'} to no trace"


def shown(found: Mined) -> str:
    """The constraint as text, with comments on how many traces obey it and which do not."""
    lines = [f"-- obeyed by {found.support:.2%} of the traces"]
    for trace, count in sorted(found.exceptions.items(), key=lambda each: -each[1])[:MOST_SHOWN]:
        lines.append(f"-- not obeyed {count} times: {' '.join(trace)[:200]}")
    if len(found.exceptions) > MOST_SHOWN:
        lines.append(f"-- and by {len(found.exceptions) - MOST_SHOWN} other kinds of traces")
    return "\n".join([*lines, f"{found.constraint};"])
