"""A compiled statement at work: its arrays, rows in as a table of words, rows of output as another."""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.events import BEGINNING, END_OF_TIME
from tocsin.items import Column, Ints, Items, Strings
from tocsin.schema import Kind
from tocsin.staged.compiled import library
from tocsin.staged.compiled.bodies import Body
from tocsin.staged.compiled.library import ROW
from tocsin.staged.compiled.program import StageFunction
from tocsin.staged.compiled.room import Room

FREE = (
    library.FREE_NODE,
    library.FREE_LOCAL,
    library.FREE_CONTEXT,
    library.FREE_PARTITION,
    library.FREE_SEEN,
    library.FREE_VALUE,
    library.FREE_RUN,
    library.FREE_MATCH,
    library.FREE_ONCE,
)
MOST = 1 << 53  # a sum of whole numbers beyond this is not exact


class Core:
    """The state of a statement in arrays. `body` is its function, plain or compiled."""

    def __init__(self, program: StageFunction, body: Body, strings: Strings, limit: int | None = None) -> None:
        self.program, self.layout, self.strings, self._body = program, program.layout, strings, body
        self.width = self.layout.row
        self.P: Ints = np.zeros(library.PARAMETERS, np.int64)
        self.P[list(FREE)] = library.NIL
        self.P[library.CLOCK] = BEGINNING
        self.P[library.TOP] = self.layout.words["L_SIZE"]
        self.arrays = Room(self.P, self.layout.calendars(), limit)
        self.arrays["D"] = np.zeros(max(1024, 2 * int(self.P[library.TOP])), np.int64)
        lists = self.layout.words["L_LISTS"]
        for at in range(
            len(self.layout.leaves) + len(self.layout.waiting)
        ):  # the local partition that is empty stands first
            first = lists + self.layout.list * at
            self.arrays["D"][first : first + 2] = library.NIL
        self._keys: Ints = np.zeros(16, np.int64)
        self._texts = np.array([strings.code(text) for text in self.layout.texts] or [0], np.int64)
        self.mass = dict.fromkeys(self.layout.sums, 0.0)
        self._nothing = np.zeros((0, ROW + len(self.layout.attrs)), np.int64)

    # --- work ---

    def take(self, rows: Ints) -> Ints:
        """The rows of output of the stages of some events, and of what is due until then."""
        return self._run(rows, int(rows[-1, 2])) if len(rows) else self._empty

    def advance(self, until: int) -> Ints:
        """Let time pass: every event that ends by `until` was seen."""
        found = self._run(self._nothing, min(until, END_OF_TIME - 1))
        self.P[library.CLOCK] = max(self.clock, until)
        return found

    @property
    def _empty(self) -> Ints:
        return np.zeros((0, self.width), np.int64)

    def _run(self, rows: Ints, until: int) -> Ints:
        self.P[library.OUT_N] = self.P[library.UNSORTED] = 0
        given = (len(rows), until, rows.reshape(-1), self._texts, self.P, self._keys)
        self.arrays.run(self._body.stages, *given, by_address=self._body.by_address)
        count = int(self.P[library.OUT_N])
        answers = self.arrays["O"][: count * self.width].reshape(count, self.width).copy()
        if len(self.arrays["O"]) > 1 << 22:
            self.arrays["O"] = np.zeros(64, np.int64)
        self.arrays.rest(len(rows))
        return answers

    @property
    def is_sorted(self) -> bool:
        """Whether the rows that were given last stand in order within their stages."""
        return not self.P[library.UNSORTED]

    @property
    def clock(self) -> int:
        return int(self.P[library.CLOCK])

    @property
    def created(self) -> int | None:
        return int(self.P[library.CREATED]) if self.P[library.IS_CREATED] else None

    @property
    def next(self) -> int:
        return int(self.P[library.NUMBER])

    def kept(self) -> int:
        """How many events stand in lists, counted once for each list."""
        return int(self.P[library.KEPT])

    @property
    def texts_in_use(self) -> Ints:
        """Codes of texts, among other numbers: whatever stands in the records."""
        if not any(field.kind is Kind.TEXT for field in self.layout.fields.values()):
            return self._texts
        return np.concatenate([self._texts, self.arrays["D"][: int(self.P[library.TOP])]])

    # --- events as words ---

    def words_of(self, items: Items, types: Ints) -> Ints | None:
        """Events with these types as rows of words; None if a value is too large for exact arithmetic."""
        layout, count = self.layout, len(items)
        rows: Ints = np.zeros((count, ROW + len(layout.attrs)), np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2] = types, items.start, items.end
        if "time" in layout.limits and not _fit(rows[:, 1:3], layout.limits["time"]):
            return None
        reals = rows.view(np.float64)
        for at, attr in enumerate(layout.attrs):
            column, field = items.columns.get(attr), layout.fields[attr]
            if column is None or field.kind is Kind.NULL:
                rows[:, 3] |= 1 << at
                continue
            if column.valid is not None:
                rows[~column.valid, 3] |= 1 << at
            if field.kind in (Kind.FLOAT, Kind.DECIMAL):
                values = column.values / 10**field.scale if field.kind is Kind.DECIMAL else column.values
                if attr in layout.ordinary and np.isnan(values).any():
                    return None
                reals[:, ROW + at] = values
                continue
            rows[:, ROW + at] = column.values
            if not self._exact(attr, column):
                return None
        return rows

    def _exact(self, attr: str, column: Column) -> bool:
        """Whether what is computed with these whole numbers is exact."""
        bits = self.layout.limits.get(attr, 63)
        if bits < 63 and not _fit(column.values, bits):
            return False
        if attr in self.mass:
            self.mass[attr] += float(np.abs(column.values.astype(np.float64)).sum())
            return self.mass[attr] < MOST
        return True


def _fit(values: Any, bits: int) -> bool:
    return not values.size or bool(-(1 << bits) < values.min() and values.max() < 1 << bits)
