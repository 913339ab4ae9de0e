"""The bound form of a staged statement: what a plan says of it beside its types and columns."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.lang.staged_syntax import Statement


@dataclass(frozen=True, slots=True)
class StagedForm:
    """A statement whose names are settled.

    reads    for each type the attributes that roles, conditions, keys and Select read
    columns  the columns of Select, in order
    longest  for each type of which `sst` is asked, how long its events may last
    lasts    how long what it finds lasts, at most; None: nobody knows
    """

    statement: Statement
    reads: tuple[tuple[str, tuple[str, ...]], ...]
    columns: tuple[str, ...]
    longest: tuple[tuple[str, int], ...] = ()
    lasts: int | None = None

    @property
    def attrs(self) -> tuple[str, ...]:
        """All attributes that are read."""
        return tuple(sorted({attr for _, attrs in self.reads for attr in attrs}))
