"""A compiled statement as its operator sees it: events as items in, complex events as columns out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.items import Ints, Items
from tocsin.plan.block import Plan
from tocsin.staged.compiled import answers, saved
from tocsin.staged.compiled.bodies import Body
from tocsin.staged.compiled.core import Core
from tocsin.staged.compiled.program import StageFunction

FoundColumns = tuple[Ints, Ints, pa.Array, list[pa.Array]]  # starts, ends, eids, columns of Select


class CompiledMachine:
    """What `Machine` is, over columns. `types`: those of the events, in the order of their codes; `limit` in bytes."""

    def __init__(
        self, program: StageFunction, body: Body, plan: Plan, types: tuple[str, ...], strings: Any,
        limit: int | None = None,
    ) -> None:  # fmt: skip
        self.core, self._strings = Core(program, body, strings, limit), strings
        self._layout, self._name = program.layout, str(plan.name)
        self._kinds = [output.expr.kind for output in plan.outputs]
        self._keys = answers.key_kinds(self._layout)
        known = {type: at for at, type in enumerate(self._layout.types)}
        self._types = np.array([known.get(type, -1) for type in types], np.int64)

    def take(self, items: Items) -> FoundColumns | None:
        """What the stages of some events bring; None: some value is beyond what the function computes exactly."""
        rows = self.core.words_of(items, self._types[items.types])
        return None if rows is None else self._columns(self.core.take(rows))

    def advance(self, until: int) -> FoundColumns:
        """Let time pass: every event that ends by `until` was seen."""
        return self._columns(self.core.advance(until))

    def _columns(self, rows: Ints) -> FoundColumns:
        layout, strings = self._layout, self._strings
        if not self.core.is_sorted:
            rows = answers.in_order(rows, layout, self._kinds, strings)
        found = [answers.column(rows, layout, at, kind, strings) for at, kind in enumerate(self._kinds)]
        eids = answers.eids(rows, self._name, self._keys, strings)
        return np.ascontiguousarray(rows[:, 1]), np.ascontiguousarray(rows[:, 0]), eids, found

    @property
    def clock(self) -> int:
        return self.core.clock

    @property
    def created(self) -> int | None:
        return self.core.created

    def kept(self) -> int:
        return self.core.kept()

    @property
    def texts_in_use(self) -> Ints:
        return self.core.texts_in_use

    def save(self) -> dict[str, Any]:
        return saved.saved(self.core)

    def load(self, words: Mapping[str, Any]) -> None:
        saved.load(self.core, words)
