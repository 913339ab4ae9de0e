"""The Allen relations as endpoint comparisons; a disjunction of them as one conjunction, where there is one.

Paper: Allen 1983, by way of Li 2010, 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, TypeAlias

from tocsin.lang.syntax import INTERSECT, CaseWhen, Literal, Name, Relates

# (end of e, comparison, end of f); the table of Li 2010 with `before` and `after` corrected (docs/semantics.md, 7).

Condition: TypeAlias = tuple[str, str, str]

RELATIONS: dict[str, tuple[Condition, ...]] = {
    "before": (("end", "<", "start"),),
    "after": (("start", ">", "end"),),
    "during": (("start", ">", "start"), ("end", "<", "end")),
    "contain": (("start", "<", "start"), ("end", ">", "end")),
    "meet": (("end", "=", "start"),),
    "met by": (("start", "=", "end"),),
    "overlap": (("start", "<", "start"), ("end", ">", "start"), ("end", "<", "end")),
    "overlapped by": (("start", ">", "start"), ("start", "<", "end"), ("end", ">", "end")),
    "start": (("start", "=", "start"), ("end", "<", "end")),
    "started by": (("start", "=", "start"), ("end", ">", "end")),
    "finish": (("start", ">", "start"), ("end", "=", "end")),
    "finished by": (("start", "<", "start"), ("end", "=", "end")),
    "equal": (("start", "=", "start"), ("end", "=", "end")),
}

# What `a <relation> b` means as a condition.
MEANS = {**RELATIONS, INTERSECT: (("start", "<=", "end"), ("end", ">=", "start"))}

# For events without length several relations hold at once; `relation(a, b)` is the first of these that does.
CLASSES = (
    "equal", "start", "started by", "finish", "finished by", "meet", "met by",
    "before", "after", "during", "contain", "overlap", "overlapped by",
)  # fmt: skip


def classifier(left: Name, right: Name) -> CaseWhen:
    """The expression that `relation(left, right)` stands for."""
    return CaseWhen(tuple((Relates(left, name, right), Literal(name)) for name in CLASSES))


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    "=": lambda x, y: x == y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}
# every arrangement of two intervals, zero lengths included: four ends need no more than four different values
_ARRANGEMENTS = [
    ({"start": es, "end": ee}, {"start": fs, "end": fe})
    for es, ee, fs, fe in product(range(4), repeat=4)
    if es <= ee and fs <= fe
]


def relation(e: tuple[Any, Any], f: tuple[Any, Any]) -> str:
    """The relation of two intervals, each as (start, end); where several hold, the first of `CLASSES`.

    >>> relation((1, 4), (3, 8)), relation((3, 3), (3, 3))
    ('overlap', 'equal')
    """
    pair = {"start": e[0], "end": e[1]}, {"start": f[0], "end": f[1]}
    return next(name for name in CLASSES if _holds(RELATIONS[name], pair))


def _holds(conditions: Iterable[Condition], pair: tuple[dict[str, Any], dict[str, Any]]) -> bool:
    return all(_TESTS[op](pair[0][left], pair[1][right]) for left, op, right in conditions)


def conjunction(relations: Sequence[str]) -> tuple[Condition, ...] | None:
    """The comparisons that say the same as the disjunction of the relations; None if no conjunction does.

    Zero-length intervals count too: a point that meets an interval does not start before it.

    >>> conjunction(["before", "meet"])
    (('end', '<=', 'start'),)
    >>> conjunction(["before", "after"]) is None
    True
    """
    if len(relations) == 1:
        return RELATIONS[relations[0]]
    wanted = [any(_holds(RELATIONS[name], pair) for name in relations) for pair in _ARRANGEMENTS]
    inside = [pair for pair, inside in zip(_ARRANGEMENTS, wanted, strict=True) if inside]
    ends = ("start", "end")
    # the sharpest comparison of each two ends that every wanted arrangement keeps
    kept = []
    for left, right in product(ends, ends):
        sharpest = next(
            (op for op in "= < > <= >=".split() if all(_holds([(left, op, right)], p) for p in inside)), None
        )
        if sharpest:
            kept.append((left, sharpest, right))
    if [_holds(kept, pair) for pair in _ARRANGEMENTS] != wanted:
        return None
    for condition in reversed(tuple(kept)):
        fewer = [other for other in kept if other != condition]
        if [_holds(fewer, pair) for pair in _ARRANGEMENTS] == wanted:
            kept = fewer
    return tuple(kept)
