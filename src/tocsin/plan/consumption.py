"""Consumption: the bound form of CONSUME (docs/semantics.md, "Consumption").

A query with a mode is a process over the events of each key, not a set of combinations. The blocks of its plan say
which events stand for which step; what becomes of them is said here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tocsin.plan.expr import Bound, Col, walk

Shape = Literal["seq", "and", "or"]


@dataclass(frozen=True, slots=True)
class Consumption:
    """How the events of a key are used up.

    mode    one of `lang.syntax.MODES`, but not `unrestricted`: that is what a query means without the clause
    shape   seq: the steps in their order; and: in any order; or: one of them
    steps   the variables of the steps, in the order of the text
    places  for each step the index of its variable in the plan
    absent  the variables of the negated leaves, each with the number of steps before it
    sets    in the mode cumulative, the steps whose variables are sets
    having  conditions over whole sets, asked when a match would be complete; leaf numbers are indexes of variables
    between the variables of leaves that must not come between first and last: CONTINUITY
    exceeds a match lasts longer than this; None: it may last as short as it likes
    """

    mode: str
    shape: Shape
    steps: tuple[str, ...]
    places: tuple[int, ...]
    absent: tuple[tuple[str, int], ...] = ()
    sets: tuple[int, ...] = ()
    having: tuple[Bound, ...] = ()
    between: tuple[str, ...] = ()
    exceeds: int | None = None

    @property
    def attrs(self) -> tuple[str, ...]:
        """The attributes that conditions over sets ask for."""
        asked = (node.attr for expr in self.having for node in walk(expr) if isinstance(node, Col))
        return tuple(sorted(set(asked)))


def described(consumption: Consumption) -> Iterator[str]:
    """The mode in words, for `explain`."""
    says = {
        "first": "the earliest event of each step; a match uses its events up, and what was passed over is forgotten",
        "recent": "the latest prefix of each length; a match uses its events up",
        "snoop_recent": "the latest prefix of each length; a match keeps its first event",
        "latest": "the latest prefix of each length; an event takes along what it extends, and may begin another",
        "chronicle": "the oldest prefix that fits; each event stands in one match",
        "cumulative": "all events of each step but the last are one set; a match uses them up",
        "continuous": "every combination since the last event of the last step, which ends all of them",
    }
    yield f"consume   {consumption.mode}: {says[consumption.mode]}"
