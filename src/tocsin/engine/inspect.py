"""Looking inside: how a plan will run, what a detector stores, which answers wait and for what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tocsin.engine.codegen import Shape, generate
from tocsin.engine.codegen.program import MOST_COMPILED
from tocsin.engine.debt import Times, owed
from tocsin.engine.number_set import distinct
from tocsin.events import BEGINNING
from tocsin.functions import Function, registered
from tocsin.items import Ints
from tocsin.plan.block import Plan
from tocsin.plan.expr import User

if TYPE_CHECKING:
    from tocsin.engine.branch import Branch
    from tocsin.engine.detector import Detector


def describe(plan: Plan, functions: Mapping[str, Function] | None = None) -> str:
    """Lines to put below `explain(plan)`."""
    functions = registered() if functions is None else functions
    shape = Shape(plan.schema.intervals, eids=True)
    programs = [generate(plan, block, shape, functions) for block in plan.alternatives]
    foreign = {_name(call) for program in programs for call in program.foreign}
    inlined = {name for program in programs for name in program.inlined}
    derived = sum(len(program.derived) for program in programs)
    lines = ["kernel    compiled by Numba" + (f", with {', '.join(sorted(inlined))} inside" if inlined else "")]
    if foreign:
        lines = [f"kernel    plain Python: {', '.join(sorted(foreign))} of several events is not compiled"]
    if any(program.is_long for program in programs):
        lines = [f"kernel    plain Python: more than {MOST_COMPILED} steps would take minutes to compile"]
    if derived:
        lines.append(
            f"arrival   {derived} {'values are' if derived > 1 else 'value is'} computed when an event arrives"
        )
    return "\n".join(lines)


def _name(call: object) -> str:
    return f"{call.name}()" if isinstance(call, User) else f"{getattr(call, 'op', call)}()"


# --- answers that wait ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Debt:
    """The eids of a waiting answer's events in the order of the text, and for each type what must be guaranteed."""

    events: tuple[str, ...]
    missing: dict[str, int]


def debts(detector: Detector) -> list[Debt]:
    """All answers that wait, in the order of their events, each with the guarantees that it still needs."""
    found = [pair for branch in detector.branches for pair in _debts(detector, branch)]
    return [debt for _, debt in sorted(found, key=lambda pair: pair[0])]


def _debts(detector: Detector, branch: Branch) -> Iterator[tuple[tuple[int, ...], Debt]]:
    pairs = branch.waiting_rows()
    if not len(pairs):
        return
    leaves = [leaf.id for leaf in branch.block.fixed]
    numbers = pairs[:, [2 * branch.program.nest.index(id) for id in leaves]]
    rows = detector.payload.rows(np.unique(numbers))
    at = rows.at(numbers.ravel()).reshape(numbers.shape)
    starts, ends = (dict(zip(leaves, times[at].T, strict=True)) for times in (rows.start, rows.end))
    missing = owed(branch.block, Times(starts, ends, detector.plan.within), detector.time.relied_upon())
    eids = [str(eid) for eid in rows.eids.to_pylist()]
    for number, places in enumerate(list(at)):
        owing = {type: int(until[number]) for type, until in sorted(missing.items()) if until[number] > BEGINNING}
        yield tuple(rows.end[places].tolist()), Debt(tuple(eids[place] for place in places.tolist()), owing)


# --- what is stored ------------------------------------------------------------------------------------------------


def stored(detector: Detector) -> dict[str, list[str]]:
    """The state as people read it: events by variable in canonical order, held answers, guarantees.

    {"a": ["a3", "a7"], "c": ["c5"], "held": ["(a3 b6 d10)"], "C >": ["10"]}
    """
    for branch in detector.branches:  # what may be forgotten is not shown
        branch.tidy(now=True)
    detector.payload.keep(distinct([branch.live_numbers() for branch in detector.branches]))
    found: dict[str, list[Ints]] = {}
    for branch in detector.branches:
        for leaf in branch.leaves():
            for alt in leaf.alts:
                found.setdefault(alt.var, [])
        for leaf, numbers in branch.stored():
            types = _types(detector, numbers)
            for alt in leaf.alts:
                codes = [code for code, type in enumerate(detector.types) if detector.plan.schema.takes(alt.type, type)]
                found[alt.var].append(numbers[np.isin(types, codes)])
    state = {name: _events(detector, np.concatenate(pieces or [NOBODY])) for name, pieces in found.items()}
    state["held"] = [f"({' '.join(debt.events)})" for debt in debts(detector)]
    for type in detector.types:
        time = detector.time.guaranteed(type, detector.time.clock)
        if time > BEGINNING:
            state[f"{type} >"] = [str(time)]
    return state


NOBODY: Ints = np.zeros(0, np.int64)


def _types(detector: Detector, numbers: Ints) -> Ints:
    rows = detector.payload.rows(np.unique(numbers))
    types: Ints = rows.types[rows.at(numbers)].astype(np.int64)
    return types


def _events(detector: Detector, numbers: Ints) -> list[str]:
    """The eids of some events in canonical order."""
    rows = detector.payload.rows(np.unique(numbers))
    named = zip(rows.end.tolist(), rows.start.tolist(), map(str, rows.eids.to_pylist()), strict=True)
    return [eid for _, _, eid in sorted(named)]
