"""Which texts an operator still uses, so that all others can be forgotten and their codes used again.

Codes of texts stand in stored events, in their keys, in literals, and in rows that are held back. What is given here
may have other numbers among them (times, eids): then a text is kept longer than needed, which does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tocsin.engine import runtime as rt
from tocsin.items import Ints, Items
from tocsin.schema import Kind

if TYPE_CHECKING:
    from tocsin.engine.branch import Branch
    from tocsin.engine.operator import Operator

NONE: Ints = np.zeros(0, np.int64)


def joined(pieces: Iterable[Ints]) -> Ints:
    """The codes of several pieces."""
    found = list(pieces)
    return np.concatenate(found) if found else NONE


def of_operators(operators: Iterable[Operator]) -> Ints:
    """The codes that some operators use."""
    return joined(operator.texts_in_use for operator in operators)


def of_rows(held: Iterable[Items]) -> Ints:
    """The codes in rows that are held back."""
    columns = [column for items in held for column in items.columns.values()]
    return joined(column.values.astype(np.int64) for column in columns if column.kind is Kind.TEXT)


def of_branch(branch: Branch) -> Ints:
    """The codes in the state of a kernel.

    Events behind the horizon go first: a key without other events may get another text, whose buffers these are then.
    """
    if not branch.is_ready:
        return NONE
    filled = np.flatnonzero(branch.D[: branch.buffers, 2] > branch.D[: branch.buffers, 1])
    passed = branch.H[branch.D[filled, 2] - 1, 0] < branch.horizon
    _empty(branch, filled[passed])
    filled = filled[~passed]
    begin = branch.D[filled, 1].astype(np.int64)
    counts = branch.D[filled, 2] - begin
    places = np.arange(int(counts.sum())) + np.repeat(begin - (np.cumsum(counts) - counts), counts)
    literals = branch.T[rt.PARAMS : rt.PARAMS + len(branch.program.ints)]
    keys = _keys(branch, filled // len(branch.program.leaf_ids)) if branch.program.keyed else NONE
    return joined([literals, branch.H[places, 2:].ravel(), keys])


def _empty(branch: Branch, buffers: npt.NDArray[np.intp]) -> None:
    """Drop all events of some buffers."""
    branch.D[buffers, 1] = branch.D[buffers, 2] = branch.D[buffers, 0]
    branch.N[buffers] = -rt.FAR


def _keys(branch: Branch, live: npt.NDArray[np.intp]) -> Ints:
    """The values of keys that have events, or that waiting answers ask about, and of the keys that they begin with."""
    used = np.zeros(int(branch.T[rt.KEYS]) + 1, np.bool_)
    used[live] = True
    if branch.waiting:
        used[np.maximum(branch.waiting_answers()[:, 1], 0)] = True
    prefix, value, code = branch.KM.T
    known = code != 0
    while True:
        begins = prefix[known & used[code]]
        if used[begins].all():
            break
        used[begins] = True
    dense = np.flatnonzero(used[1 : int(branch.T[rt.DENSE]) + 1])  # these keys are their own codes, plus one
    return np.concatenate([value[known & used[code]], dense])
