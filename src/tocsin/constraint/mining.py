"""Mining: a constraint that past traces obey, to be looked at and edited by a person.

Two ways, both from counts over traces. *Directly follows*: an edge for each pair of types of which one comes right
behind the other often enough; its words are the walks. *Merged prefixes*: the traces as a tree of prefixes, whose
states are one where the next `k` events that can follow are the same (k-tails, Biermann and Feldman 1972); it tells
apart what the first way confuses. Both leave out what is rarer than a share of the traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tocsin.constraint.graphs import from_graph
from tocsin.errors import InputError
from tocsin.lang.constraint_syntax import Constraint

Trace: TypeAlias = tuple[str, ...]
MOST_STATES = 2_000
END = ""


@dataclass(frozen=True, slots=True)
class Mined:
    """A constraint, the share of traces that obey it, and those that do not, with how often each came."""

    constraint: Constraint
    support: float
    exceptions: Mapping[Trace, int]


def traces_of(rows: Iterable[Mapping[str, Any]], key: Sequence[str]) -> Counter[Trace]:
    """How often each order of types came among the traces of some rows, which are in order of time."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        mine = tuple(row.get(attr) for attr in key)
        if None not in mine:
            found.setdefault(mine, []).append(str(row["type"]))
    return Counter(map(tuple, found.values()))


def learn(
    traces: Mapping[Trace, int], *, name: str = "learned", key: Sequence[str] = (), k: int = 2, least: float = 0.001
) -> Mined:
    """A constraint from traces and how often each came.

    k      how far states are told apart by what can follow; 0: directly follows
    least  of all traces, the share that a step must have to be kept
    """
    total = sum(traces.values())
    if not total:
        raise InputError("there are no traces to learn from", hint="is the key right? It names attributes of events")
    kept = _frequent(traces, least * total)
    tree = _tree(kept, most=MOST_STATES * 50)
    states = _merged(tree, k) if k else [word[-1:] for word in tree]
    ends: set[Any] = set()
    several: dict[tuple[Any, str], set[Any]] = {}
    for (word, (following, ended)), state in zip(tree.items(), states, strict=True):
        if ended:
            ends.add(state)
        for type in following:
            several.setdefault((state, type), set()).add((*word, type))
    place = dict(zip(tree, states, strict=True))
    names: dict[Any, int] = {}
    moves = [
        (names.setdefault(state, len(names)), type, names.setdefault(target, len(names)))
        for (state, type), words in several.items()
        for target in dict.fromkeys(place[word] for word in words)
    ]
    if len(names) > MOST_STATES:
        hint = f"at most {MOST_STATES:,}: a smaller k, or more --least"
        raise InputError(f"the traces need {len(names):,} states", hint=hint)
    start = names.setdefault(place[()], len(names))
    constraint = from_graph(name, moves, start=start, ends=[names[state] for state in ends if state in names], key=key)
    final = {names[state] for state in ends if state in names}
    exceptions = {trace: count for trace, count in traces.items() if not _obeys(trace, moves, start, final)}
    return Mined(constraint, 1 - sum(exceptions.values()) / total, exceptions)


def _obeys(trace: Trace, moves: Sequence[tuple[int, str, int]], start: int, ends: Collection[int]) -> bool:
    """Whether some walk along the edges has these types."""
    at = {start}
    for type in trace:
        at = {target for source, label, target in moves if label == type and source in at}
    return any(state in ends for state in at)


def _frequent(traces: Mapping[Trace, int], least: float) -> dict[Trace, int]:
    """The traces whose steps (pairs of types that follow each other, begins and ends included) are all frequent."""
    pairs: Counter[tuple[str, str]] = Counter()
    for trace, count in traces.items():
        for pair in set(zip((END, *trace), (*trace, END), strict=True)):
            pairs[pair] += count
    return {
        trace: count
        for trace, count in traces.items()
        if all(pairs[pair] >= least for pair in zip((END, *trace), (*trace, END), strict=True))
    }


def _tree(traces: Iterable[Trace], most: int) -> dict[Trace, tuple[tuple[str, ...], bool]]:
    """The prefixes of traces: what follows on each, and whether a trace ends there."""
    following: dict[Trace, dict[str, None]] = {(): {}}
    ended: set[Trace] = set()
    for trace in traces:
        for at, type in enumerate(trace):
            following[trace[:at]][type] = None
            following.setdefault(trace[: at + 1], {})
            if len(following) > most:
                raise InputError("the traces have too many different beginnings to be merged", hint="use --k 0")
        ended.add(trace)
    return {word: (tuple(types), word in ended) for word, types in following.items()}


def _merged(tree: Mapping[Trace, tuple[tuple[str, ...], bool]], k: int) -> list[Any]:
    """A name for the state of each prefix: its last type, and all that can follow within k events."""
    tails: dict[Trace, frozenset[Trace]] = {}
    for word in sorted(tree, key=len, reverse=True):
        tails[word] = frozenset(_tails(tree, word, k))
    return [(word[-1:], tails[word]) for word in tree]


def _tails(tree: Mapping[Trace, tuple[tuple[str, ...], bool]], word: Trace, k: int) -> Iterator[Trace]:
    types, ended = tree[word]
    if ended:
        yield (END,)
    if k == 0:
        yield ()
        return
    for type in types:
        for rest in _tails(tree, (*word, type), k - 1):
            yield (type, *rest)
