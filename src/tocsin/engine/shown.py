"""The state of a detector as people read it: events by variable, held answers, guarantees.

{"a": ["a3", "a7"], "c": ["c5"], "held": ["(a3 b6 d10)"], "C >": ["10"]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tocsin.engine.debt import debts
from tocsin.events import BEGINNING
from tocsin.items import Ints

if TYPE_CHECKING:
    from tocsin.engine.detector import Detector


def shown(detector: Detector) -> dict[str, list[str]]:
    """Events in canonical order; `held` are the fixed events of each answer that waits, in the order of the text."""
    found: dict[str, list[Ints]] = {}
    for branch in detector.branches:
        for leaf in branch.leaves():
            for alt in leaf.alts:
                found.setdefault(alt.var, [])
        for leaf, numbers in branch.stored():
            types = _types(detector, numbers)
            for alt in leaf.alts:
                found[alt.var].append(numbers[types == detector.types.index(alt.type)])
    state = {name: _events(detector, np.concatenate(pieces or [_NOBODY])) for name, pieces in found.items()}
    state["held"] = [f"({' '.join(debt.events)})" for debt in debts(detector)]
    for type in detector.types:
        time = detector.guaranteed(type, detector.clock)
        if time > BEGINNING:
            state[f"{type} >"] = [str(time)]
    return state


_NOBODY = np.zeros(0, np.int64)


def _types(detector: Detector, numbers: Ints) -> Ints:
    rows = detector.payload.rows(np.unique(numbers))
    types: Ints = rows.types[rows.at(numbers)].astype(np.int64)
    return types


def _events(detector: Detector, numbers: Ints) -> list[str]:
    """The eids of some events in canonical order."""
    rows = detector.payload.rows(np.unique(numbers))
    named = zip(rows.end.tolist(), rows.start.tolist(), map(str, rows.eids.to_pylist()), strict=True)
    return [eid for _, _, eid in sorted(named)]
