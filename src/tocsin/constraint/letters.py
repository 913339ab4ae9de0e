"""Letters: what the conditions of a query and of its constraints can tell of one event.

An event type is split by the truth of all conditions that are asked of it (Li 2010, 3.4.3). Comparisons of one term
with constants are split exactly: values lie in a dense order, and null is beside it (NaN compares like null). Other
conditions are independent of each other. So some letters may never occur, which only makes verdicts come later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from tocsin.engine.evaluate import Row, evaluate
from tocsin.events import ANY
from tocsin.lang.constraint_syntax import is_start, whole_of
from tocsin.plan.expr import Bound, Col, Lit, Op, Ref, Time, User, below
from tocsin.plan.fold import TRUE
from tocsin.schema import Kind

COMPARED = ("=", "<>", "<", "<=", ">", ">=")
LOGIC = ("and", "or", "not")
MOST_CELLS = 20_000  # combinations of values that are looked at for a type
MOST_CONDITIONS = 40  # of a type: the bits of a word tell them apart


class TooManyError(Exception):
    """The conditions split a type into more letters than anybody wants to reason about."""


@dataclass(frozen=True, slots=True)
class Letter:
    """Events of a type (ANY: of any other type) for which these conditions are TRUE, and the other ones are not.

    It stands where they end. The starts of a type that a constraint names are letters of their own (`start_of`).
    """

    type: str
    bits: int = 0
    shown: str = ""


@dataclass(frozen=True)
class Letters:
    """The alphabet: for each type the conditions that are asked of its events, and all letters."""

    conditions: Mapping[str, tuple[Bound, ...]]
    all: tuple[Letter, ...]

    def __len__(self) -> int:
        return len(self.all)

    @cached_property
    def of_type(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for at, letter in enumerate(self.all):
            found[letter.type] = (*found.get(letter.type, ()), at)
        return found

    def known(self, type: str) -> str:
        """The type itself if it has letters of its own, else that of all others."""
        return type if type in self.of_type else ANY

    def takes(self, letter: int, type: str, where: Iterable[Bound]) -> bool:
        """Whether events of a letter are of a type, and fulfil conditions."""
        mine = self.all[letter]
        if mine.type != type:
            return False
        known = self.conditions.get(type, ())
        return all(test == TRUE or mine.bits >> known.index(test) & 1 for test in where)


def as_own(expr: Bound, type: str) -> Bound:
    """A condition on one event as if it were leaf 0, called by its type."""
    match expr:
        case Col():
            return replace(expr, leaf=0, var=type, nullable=True)
        case Op():
            return replace(expr, args=tuple(as_own(arg, type) for arg in expr.args), nullable=True)
        case User():
            return replace(expr, args=tuple(as_own(arg, type) for arg in expr.args))
    return expr


def letters_of(asked: Mapping[str, Sequence[Bound]], *, others: bool) -> Letters:
    """The letters of some types with the conditions on their events; `others`: events of other types matter, too."""
    conditions = {type: tuple(dict.fromkeys(test for test in tests if test != TRUE)) for type, tests in asked.items()}
    found: list[Letter] = []
    for type, tests in conditions.items():
        if len(tests) > MOST_CONDITIONS:
            raise TooManyError(type)
        kinds, name = sorted(signatures(tests)), whole_of(type) + ("^-" if is_start(type) else "")
        shown = [name if len(kinds) == 1 else f"{name}:{bits:0{len(tests)}b}" for bits in kinds]
        found += [Letter(type, bits, name) for bits, name in zip(kinds, shown, strict=True)]
    if others:
        found.append(Letter(ANY, 0, "other"))
    return Letters(conditions, tuple(found))


def signatures(tests: Sequence[Bound]) -> set[int]:
    """Which of some conditions can be TRUE together, as bits."""
    exact = [test for test in tests if _terms(test) is not None]
    constants: dict[Bound, set[Any]] = {}
    for test in exact:
        for term, value in _terms(test) or ():
            constants.setdefault(term, set()).update(() if value is None else (value,))
    # ranks: 1, 3, 5 are the constants, and the numbers between them all that lies between these
    ranks = {term: {value: 2 * at + 1 for at, value in enumerate(sorted(values))} for term, values in constants.items()}
    spaces = [[None, *range(2 * len(ranks[term]) + 1)] for term in ranks]  # NaN compares like null
    loose = [at for at, test in enumerate(tests) if test not in exact]
    cells = 2 ** len(loose)
    for space in spaces:
        cells *= len(space)
    if cells > MOST_CELLS:
        raise TooManyError
    ranked = [_ranked(test, ranks) if test in exact else None for test in tests]
    found = set()
    for values in product(*spaces):
        row = _Cell(dict(zip(ranks, values, strict=True)))
        bits = sum(1 << at for at, test in enumerate(ranked) if test is not None and evaluate(test, row, {}) is True)
        for chosen in product((0, 1), repeat=len(loose)):
            found.add(bits | sum(bit << at for at, bit in zip(loose, chosen, strict=True)))
    return found


def _terms(test: Bound) -> list[tuple[Bound, Any]] | None:
    """The terms that a condition compares with constants; None if it asks anything else."""
    match test:
        case Op("and" | "or" | "not", args):
            found = [_terms(arg) for arg in args]
            return None if None in found else [pair for pairs in found if pairs is not None for pair in pairs]
        case Op("is_null", (term,)) if not isinstance(term, Ref):
            return [(term, None)]
        case Op(op, (term, Lit(value))) | Op(op, (Lit(value), term)) if op in COMPARED and value is not None:
            return None if isinstance(term, Lit) or _speaks_of_time(term) else [(term, value)]
        case Col(kind=Kind.BOOL):
            return [(test, True)]
        case Lit():
            return []
    return None


def _speaks_of_time(expr: Bound) -> bool:
    return isinstance(expr, Time) or any(map(_speaks_of_time, below(expr)))


def _ranked(test: Bound, ranks: Mapping[Bound, Mapping[Any, int]]) -> Bound:
    """The condition over ranks in place of values."""
    match test:
        case Op("and" | "or" | "not", args):
            return replace(test, args=tuple(_ranked(arg, ranks) for arg in args))
        case Op("is_null", (term,)):
            return replace(test, args=(_cell(term, ranks),))
        case Op(_, (term, Lit(value))) if not isinstance(term, Lit):
            return replace(test, args=(_cell(term, ranks), Lit(ranks[term][value], Kind.INT)))
        case Op(_, (Lit(value), term)):
            return replace(test, args=(Lit(ranks[term][value], Kind.INT), _cell(term, ranks)))
        case Col():
            return Op("=", (_cell(test, ranks), Lit(ranks[test][True], Kind.INT)), Kind.BOOL)
    return test


def _cell(term: Bound, ranks: Mapping[Bound, Mapping[Any, int]]) -> Bound:
    return Col(list(ranks).index(term), "", "", Kind.INT)


class _Cell(Row):
    """One value for each term."""

    def __init__(self, values: Mapping[Bound, Any]) -> None:
        self._values = list(values.values())

    def column(self, col: Col) -> Any:
        return self._values[col.leaf]
