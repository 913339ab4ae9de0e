"""The bound form of a definition of intervals: what a plan says of it beside its types, key and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tocsin.lang.derived_syntax import Intervals
from tocsin.schema import Field

LABEL = "label"  # the column that says which state a run is of


@dataclass(frozen=True, slots=True)
class Fold:
    """A column of SELECT: count, min, max, first or last of an attribute; `attr` is None for count(*)."""

    column: str
    function: str
    field: Field | None


@dataclass(frozen=True, slots=True)
class DerivedForm:
    """A definition whose names are settled.

    roles  the leaves of the plan that stand for what a reading can be: that it is one at all and each state (runs),
           that it is one (sessions), that it begins and that it ends (pairs); they are called by these names
    gap    in ticks: a later reading ends the run or session
    attrs  the attributes that conditions, folds and the key read
    """

    definition: Intervals
    roles: tuple[str, ...]
    folds: tuple[Fold, ...]
    attrs: tuple[str, ...]
    gap: int | None = None

    @property
    def kind(self) -> Literal["runs", "sessions", "pairs"]:
        if self.definition.ends:
            return "pairs"
        return "runs" if self.definition.states else "sessions"

    @property
    def folded(self) -> tuple[str, ...]:
        """The attributes that folds read."""
        return tuple(fold.field.name for fold in self.folds if fold.field is not None)

    @property
    def labels(self) -> tuple[str, ...]:
        """What an interval can be of, by number: the states of runs, else the name alone."""
        return self.definition.labels or (self.definition.name,)
