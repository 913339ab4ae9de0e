"""The result of `detect`: matches as a table, as an iterable of dicts, or as a picture."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from tocsin.encode.checked import readable_texts
from tocsin.engine.counts import with_whole_numbers
from tocsin.engine.tables import HEAD, joined
from tocsin.errors import InputError
from tocsin.run.show import html_table, text_table


class Matches:
    """The matches of one or several queries; `counters` says what was seen on the way, `notes` what looked strange.

    Each row has query, kind, match_id, op (+1, or -1 for a withdrawal), start, end and settled_at, then one struct
    per variable (a list of structs if it is repeated) or the SELECT columns.
    """

    _make: Callable[..., Sequence[pa.Table]] | None = None  # how to make the tables, until somebody has asked

    def __init__(
        self,
        tables: Sequence[pa.Table] | Callable[..., Sequence[pa.Table]],
        counters: Mapping[str, int] | None = None,
        notes: Sequence[str] = (),
        *,
        count: int | None = None,
    ) -> None:
        """`tables`, or how to make them once somebody asks; then `count` says how many matches there are.

        With `names` it makes these columns at least.
        """
        self._made = None if callable(tables) else list(tables)
        self._make = tables if callable(tables) else None
        self._count = count
        self.notes = tuple(notes)
        self.counters: dict[str, int] = dict(counters or {})

    @property
    def _tables(self) -> list[pa.Table]:
        if self._made is None:
            assert self._make is not None
            with readable_texts():
                self._made, self._make = list(self._make()), None
        return self._made

    def __reduce__(self) -> tuple[Any, ...]:
        return Matches, (self._tables, self.counters, self.notes)

    def __len__(self) -> int:
        return sum(table.num_rows for table in self._tables) if self._count is None else self._count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for table in self._tables:
            for batch in table.to_batches(max_chunksize=4096):
                with readable_texts():
                    matches = with_whole_numbers(batch.to_pylist(), table.schema)
                yield from matches

    def __getitem__(self, number: int) -> dict[str, Any]:
        """One match by its place, as `list(matches)[number]` has it."""
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"matches are numbered, and {number!r} is no number; list(matches) has slices")
        place = number + len(self) if number < 0 else number
        for table in self._tables if place >= 0 else ():
            if place < table.num_rows:
                with readable_texts():
                    return with_whole_numbers(table.slice(place, 1).to_pylist(), table.schema)[0]
            place -= table.num_rows
        raise IndexError(f"there is no match {number}: there are {len(self)}")

    def __repr__(self) -> str:
        count = f"{len(self):,} match{'' if len(self) == 1 else 'es'}"
        shown = [table for table in self._tables if table.num_rows]
        return "\n\n".join([*(self._titled(table) for table in shown), count])

    def _titled(self, table: pa.Table) -> str:
        names = {table.column("query")[0].as_py() for table in self._tables if table.num_rows}
        title = f"{table.column('query')[0].as_py()}\n" if len(names) > 1 else ""
        return title + text_table(table)

    def _repr_html_(self) -> str:
        shown = [table for table in self._tables if table.num_rows]
        if not shown:
            return "<p>no matches</p>"
        return "".join(html_table(table) for table in shown) + f"<p>{len(self):,} matches</p>"

    def tables(self) -> list[pa.Table]:
        """One Arrow table per query."""
        return list(self._tables)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All matches as one Arrow table; with several queries, variables that a query does not have are null.

        `columns`: only these, in this order. Where nobody has looked at the matches before, the others are not made,
        which takes less time.
        """
        if columns is None:
            return joined(self._tables)
        if isinstance(columns, str):
            raise TypeError(f"columns={columns!r} is a text; give a list of names")
        tables = self._tables if self._make is None else self._with_columns(self._make, columns)
        known = dict.fromkeys(name for table in tables for name in table.schema.names)
        for name in columns:
            if name not in known:
                raise InputError(
                    f"the matches have no column {name!r}", hint=f"they have {', '.join([*HEAD, *self.columns()])}"
                )
        wanted = {*columns, "op"}  # of which every table has one, so that no row is lost
        mine = [table.select([name for name in table.schema.names if name in wanted]) for table in tables]
        return joined(mine).select(list(columns))

    @staticmethod
    def _with_columns(make: Callable[..., Sequence[pa.Table]], names: Sequence[str]) -> list[pa.Table]:
        with readable_texts():
            return list(make(names=frozenset((*names, "op"))))

    def to_pandas(self) -> Any:
        """A pandas frame; structs become dicts. Needs pandas."""
        return self.table().to_pandas()

    def to_polars(self) -> Any:
        """A polars frame. Needs polars."""
        import polars

        return polars.from_arrow(self.table())

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        kind: Literal["timeline", "funnel", "lag"] = "timeline",
        limit: int = 40,
        title: str | None = None,
    ) -> Any:
        """A picture, written to `path` or returned as a figure.

        timeline  one row for each of the first `limit` matches, its events as marks
        funnel    how many beginnings came to each step, for a query with TIMEOUT
        lag       how long it took from each step to the next
        """
        from tocsin.run.plot import plotted

        return plotted(self._tables, path, kind=kind, limit=limit, title=title)

    def columns(self) -> list[str]:
        """The names of variables or SELECT columns, of all queries."""
        return list(dict.fromkeys(name for table in self._tables for name in table.schema.names[len(HEAD) :]))
