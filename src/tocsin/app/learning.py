"""`tocsin constraints learn`: find the order that past traces keep to, and print it for a person to edit."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.constraint.mining import Mined, learn, traces_of
from tocsin.encode.columns import Columns
from tocsin.errors import InputError
from tocsin.run.bad_rows import BadRows
from tocsin.run.inputs import open_input

MOST_SHOWN = 10  # exceptions


def learned(source: str, columns: Columns, *, key: Sequence[str], name: str, k: int, least: float) -> Mined:
    """The constraint of the events in a file, in order of their ends."""
    given = open_input(source, columns, bad=BadRows("skip"))
    table = given.table()
    missing = [each for each in (columns.type, columns.time, *key) if each not in table.schema.names]
    if missing:
        raise InputError(
            f"the input has no column {missing[0]}", detail=f"it has {', '.join(table.schema.names)}",
            hint="name the columns: --type, --time, --key",
        )  # fmt: skip
    time = columns.end or columns.time
    table = table.sort_by([(time, "ascending")])
    types = [None if each is None else str(each) for each in table.column(columns.type).to_pylist()]
    keys = [table.column(attr).to_pylist() for attr in key]
    rows = ({"type": type, **dict(zip(key, values, strict=True))}
            for type, *values in zip(types, *keys, strict=True) if type is not None)  # fmt: skip
    return learn(traces_of(rows, key), name=name, key=key, k=k, least=least)


def shown(found: Mined) -> str:
    """The constraint as text, with comments on how many traces obey it and which do not."""
    lines = [f"-- obeyed by {found.support:.2%} of the traces"]
    for trace, count in sorted(found.exceptions.items(), key=lambda each: -each[1])[:MOST_SHOWN]:
        lines.append(f"-- not obeyed {count} times: {' '.join(trace)[:200]}")
    if len(found.exceptions) > MOST_SHOWN:
        lines.append(f"-- and by {len(found.exceptions) - MOST_SHOWN} other kinds of traces")
    return "\n".join([*lines, f"{found.constraint};"])
