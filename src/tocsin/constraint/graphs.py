"""Constraints from graphs: states and edges, or which types directly follow each other, as a regular expression.

States are taken out one by one (Kleene), those with the fewest ways through them first, so that expressions stay short.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from tocsin.errors import InputError
from tocsin.lang.constraint_reader import MOST_SYMBOLS, size
from tocsin.lang.constraint_syntax import AnyOf, Concat, Constraint, Regex, Repeated, Symbol
from tocsin.lang.syntax import Repeat

Ways = dict[tuple[Hashable, Hashable], Regex]
FIRST, LAST = ("first",), ("last",)
FORM = 'a directly-follows graph is {"edges": [["A", "B"], ...], "starts": ["A"], "ends": ["B"]}'


def from_graph(
    name: str,
    edges: Iterable[tuple[Hashable, str, Hashable]],
    *,
    start: Hashable,
    ends: Collection[Hashable],
    key: Sequence[str] = (),
    **clauses: Any,
) -> Constraint:
    """The constraint whose words lead along edges (state, event type, state) from the start to one of the ends.

    >>> print(from_graph("c", [(0, "A", 1), (1, "B", 1), (1, "C", 2)], start=0, ends=[2]))
    CONSTRAINT c AS A B* C
    >>> print(from_graph("c", [(0, "A^-", 1), (1, "B", 1), (1, "A^+", 2)], start=0, ends=[2]))
    CONSTRAINT c AS A^- B* A^+
    """
    ways: Ways = {}
    for source, type, target in edges:
        _add(ways, source, target, _symbol(type))
    ways[FIRST, start] = Concat(())
    for each in ends:
        ways[each, LAST] = Concat(())
    states = list(dict.fromkeys(state for pair in ways for state in pair if state not in (FIRST, LAST)))
    while states:
        chosen = min(states, key=lambda state: _weight(ways, state))
        states.remove(chosen)
        _without(ways, chosen)
    if (FIRST, LAST) not in ways:
        raise InputError(f"no end of the graph {name} can be reached from its start", hint="look at start and ends")
    return Constraint(name, ways[FIRST, LAST], key=tuple(key), **clauses)


def from_directly_follows(
    name: str, graph: str | Mapping[str, Any], *, key: Sequence[str] = (), **clauses: Any
) -> Constraint:
    """The constraint of a directly-follows graph, as JSON or as a dict: edges between types, starts and ends.

    >>> print(from_directly_follows("c", '{"edges": [["A", "B"], ["B", "B"]], "starts": ["A"], "ends": ["B"]}'))
    CONSTRAINT c AS A B+
    """
    try:
        read = json.loads(graph) if isinstance(graph, str) else graph
        pairs = [(str(edge[0]), str(edge[1])) for edge in read["edges"]]
        starts, ends = [str(type) for type in read["starts"]], [str(type) for type in read["ends"]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError("this is no directly-follows graph", detail=str(error) or None, hint=FORM) from None
    edges: list[tuple[Hashable, str, Hashable]] = [(None, type, type) for type in starts]
    edges += [(source, target, target) for source, target in pairs]
    return from_graph(name, edges, start=None, ends=ends, key=key, **clauses)


def _symbol(text: str) -> Symbol:
    """A type, or the start or the end of one: `A`, `A^-`, `A^+`."""
    type, mark, at = text.rpartition("^")
    return Symbol(type, at=at) if mark and at in ("-", "+") else Symbol(text)


def _weight(ways: Ways, state: Hashable) -> int:
    into = sum(1 for source, target in ways if target == state != source)
    out = sum(1 for source, target in ways if source == state != target)
    return into * out


def _without(ways: Ways, state: Hashable) -> None:
    """Take a state out: what led through it leads past it now."""
    loop = ways.pop((state, state), None)
    into = [(source, way) for (source, target), way in ways.items() if target == state]
    out = [(target, way) for (source, target), way in ways.items() if source == state]
    for source, _ in into:
        del ways[source, state]
    for target, _ in out:
        del ways[state, target]
    for source, before in into:
        for target, behind in out:
            _add(ways, source, target, _through(before, loop, behind))
    if sum(map(size, ways.values())) > 4 * MOST_SYMBOLS:
        raise InputError("the graph is too tangled to be written as an expression", hint="fewer edges: a higher share")


def _through(before: Regex, loop: Regex | None, behind: Regex) -> Regex:
    if loop is None:
        return _chain(before, behind)
    if isinstance(before, Concat) and before.parts and before.parts[-1] == loop:
        return _chain(_chain(*before.parts[:-1]), Repeated(loop, Repeat(1, None)), behind)
    if before == loop:
        return _chain(Repeated(loop, Repeat(1, None)), behind)
    return _chain(before, Repeated(loop, Repeat(0, None)), behind)


def _chain(*parts: Regex) -> Regex:
    flat = tuple(each for part in parts for each in (part.parts if isinstance(part, Concat) else (part,)))
    return flat[0] if len(flat) == 1 else Concat(flat)


def _add(ways: Ways, source: Hashable, target: Hashable, way: Regex) -> None:
    known = ways.get((source, target))
    if known is None or known == way:
        ways[source, target] = way
        return
    parts = [*(known.parts if isinstance(known, AnyOf) else (known,)), way]
    rest = tuple(dict.fromkeys(part for part in parts if part != Concat(())))
    whole = rest[0] if len(rest) == 1 else AnyOf(rest)
    ways[source, target] = Repeated(whole, Repeat(0, 1)) if len(rest) < len(parts) else whole
