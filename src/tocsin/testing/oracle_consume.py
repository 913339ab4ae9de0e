"""Consumption by definition: what each mode makes of the events of a key, one after the other (docs/semantics.md, 14).

A *prefix* is what was found of a pattern so far: for each step the events that stand there. All prefixes that wait are
kept as they are, also where there are very many. Nothing here is shared with the engine.

Paper: Gu, Yu and Li 2011, 2.2 (Table 1, with its input corrected).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias

from tocsin.events import ANY, Event
from tocsin.lang.syntax import (
    And,
    Binary,
    Expr,
    Leaf,
    Not,
    Or,
    Pattern,
    Query,
    Repeat,
    Same,
    Seq,
    conjuncts,
    leaves_of,
)
from tocsin.testing.oracle_expr import OracleEvaluator, UndefinedError, bare_variables, set_variables, variables

Bound: TypeAlias = dict[str, Event | tuple[Event, ...]]
Part: TypeAlias = tuple[Event, ...]
Prefix: TypeAlias = tuple[Part, ...]


def uses_up(query: Query) -> bool:
    """Whether a query has a mode; unrestricted is what a query means without one."""
    return query.consume is not None and query.consume.mode != "unrestricted"


def one_by_one(query: Query) -> Query:
    """The query without its mode, with one event at each step and without conditions over sets."""
    if not uses_up(query):
        return replace(query, consume=None)
    single = [expr for expr in conjuncts(query.where) if not set_variables(expr) & sets_of(query)]
    where: Expr | None = None
    for expr in single:
        where = expr if where is None else Binary("AND", where, expr)
    return replace(query, pattern=_single(query.pattern), where=where, consume=None)


def _single(pattern: Pattern) -> Pattern:
    match pattern:
        case Leaf(repeat=repeat):
            if repeat not in (None, Repeat(1, None)) or pattern.optional or pattern.until is not None:
                raise UndefinedError("a step of a mode is one event", hint="ask for a number: count(a) >= 3")
            return replace(pattern, repeat=None)
        case Seq(items) | And(items) | Or(items):
            return replace(pattern, items=tuple(map(_single, items)))
    return pattern


def steps_of(pattern: Pattern) -> tuple[list[Leaf], list[tuple[Leaf, int]]]:
    """The leaves that are steps, and the negated ones with the number of steps before them."""
    items = pattern.items if isinstance(pattern, (Seq, And, Or)) else (pattern,)
    steps: list[Leaf] = []
    absent: list[tuple[Leaf, int]] = []
    for item in items:
        if isinstance(item, Leaf):
            steps.append(item)
        elif isinstance(item, Not) and isinstance(item.pattern, Leaf) and isinstance(pattern, Seq):
            absent.append((item.pattern, len(steps)))
        else:
            raise UndefinedError("CONSUME needs one event as a step")
    if any(gap in (0, len(steps)) for _, gap in absent):
        raise UndefinedError("a mode takes a negation only between two steps")
    return steps, absent


def sets_of(query: Query) -> frozenset[str]:
    """The variables that are sets: in the mode cumulative all but the last of a SEQ, and all of an AND."""
    if query.consume is None or query.consume.mode != "cumulative" or isinstance(query.pattern, Or):
        return frozenset()
    steps, _ = steps_of(query.pattern)
    return frozenset(str(leaf.var) for leaf in (steps if isinstance(query.pattern, And) else steps[:-1]))


def consumed(
    query: Query,
    key: Sequence[str],
    events: Sequence[Event],
    reader: OracleEvaluator,
    width: int | None,
    takes: Callable[[str, Event], bool],
    exceeds: int | None = None,
) -> Iterator[Bound]:
    """What the events of each key give; `takes` says whether an event is of a type.

    A match lasts `width` at most, and longer than `exceeds`.
    """
    groups: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        groups.setdefault(tuple(event.attrs.get(attr) for attr in key), []).append(event)
    for several in groups.values():
        consumer = Consumer(query, reader, width, takes, exceeds)
        for event in sorted(several, key=consumer.turn):
            yield from map(consumer.bound, consumer.take(event))


@dataclass
class Consumer:
    """One key. `kept` are the prefixes that wait, in the order in which they got their last event.

    Of an AND each waiting event is a prefix of its own, at the number of its step.
    """

    query: Query
    reader: OracleEvaluator
    width: int | None
    takes: Callable[[str, Event], bool]
    exceeds: int | None = None
    kept: list[Prefix] = field(default_factory=list)
    slots: list[list[Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.query.consume is not None
        self.mode = self.query.consume.mode
        self.steps, self.absent = steps_of(self.query.pattern)
        self.sets = sets_of(self.query)
        self.last = len(self.steps)
        self.slots = [[] for _ in self.steps]
        asked = conjuncts(self.query.where)
        self.having = [expr for expr in asked if set_variables(expr) & self.sets]
        self.single = [expr for expr in asked if expr not in self.having and not isinstance(expr, Same)]
        if any(bare_variables(expr) & self.sets for expr in self.having):
            raise UndefinedError("a condition over sets needs aggregates")
        if self.exceeds is not None and isinstance(self.query.pattern, And):
            raise UndefinedError("a mode of AND takes no window with a lower end")
        if self.last == 1 or isinstance(self.query.pattern, Or):
            self.query = replace(self.query, continuity=None)  # nothing is between an event and itself
        if self.query.continuity is not None and (self.named & {ANY, *self.query.continuity.types}):
            raise UndefinedError("with a mode CONTINUITY cannot forbid what the pattern names")
        at_leaves = [expr for leaf in leaves_of(self.query.pattern) for expr in conjuncts(leaf.where)]
        if any(len(variables(expr)) > 1 for expr in (*self.single, *at_leaves)):
            raise UndefinedError("a condition of a mode is about one event")

    @property
    def named(self) -> frozenset[str]:
        return frozenset(leaf.type for leaf in leaves_of(self.query.pattern))

    def comes_between(self, event: Event) -> bool:
        """Whether CONTINUITY forbids an event between the first and the last of a match."""
        clause = self.query.continuity
        if clause is None:
            return False
        if clause.types:
            return any(self.takes(type, event) for type in clause.types)
        return self.takes(ANY, event) and event.type not in self.named

    # --- what an event can stand for -----------------------------------------------------------------------------

    def stands(self, event: Event, leaf: Leaf) -> bool:
        """Whether an event can stand at a leaf: it is of the type, and what is asked of it is TRUE."""
        if not self.takes(leaf.type, event):
            return False
        mine = [expr for expr in self.single if isinstance(self.query.pattern, Or) or leaf.var in variables(expr)]
        never = [expr for expr in self.single if not variables(expr)]
        asked = [*conjuncts(leaf.where), *mine, *never]
        return all(self.reader.true(expr, {str(leaf.var): event}) for expr in asked)

    def can(self, event: Event) -> list[int]:
        """The steps that an event can stand for, the last one first; they are counted from 1."""
        return [number for number in range(self.last, 0, -1) if self.stands(event, self.steps[number - 1])]

    def turn(self, event: Event) -> tuple[object, ...]:
        """When an event is taken: by its end; of one end, later steps first, those that only forbid last."""
        can = self.can(event)
        return event.end, -can[0] if can else 0, event.order()

    # --- one event -----------------------------------------------------------------------------------------------

    def take(self, event: Event) -> list[Prefix]:
        """The matches that an event completes."""
        can = self.can(event)
        if self.comes_between(event):
            self.interrupt(event)
            return []
        if isinstance(self.query.pattern, And):
            return self.gather(event, can)
        if self.last == 1 or isinstance(self.query.pattern, Or):
            return [self.alone(can[0], event)] if can and self.short(event) and self.is_long(event.start, event) else []
        self.kept = [prefix for prefix in self.kept if self.in_window(start_of(prefix), event)]
        taken, matches = self.extend(event, can)
        gaps = {gap for leaf, gap in self.absent if self.stands(event, leaf)}
        self.kept = [prefix for prefix in self.kept if len(prefix) not in gaps or not end_of(prefix) < event.start]
        if not taken or self.mode == "latest":
            taken |= self.begin(event, can)
        if not taken and self.last in can and self.mode == "continuous":
            self.kept = []
        return matches

    def in_window(self, start: int, event: Event) -> bool:
        return self.width is None or event.end - start <= self.width

    def is_long(self, start: int, event: Event) -> bool:
        return self.exceeds is None or event.end - start > self.exceeds

    def interrupt(self, event: Event) -> None:
        """What began before an event that must not come between is dropped; of an AND, a run as a whole."""
        self.kept = [prefix for prefix in self.kept if min(each.end for each in prefix[0]) >= event.start]
        whole = self.mode in ("first", "cumulative")
        if whole and any(each.end < event.start for slot in self.slots for each in slot):
            self.slots = [[] for _ in self.steps]
        self.slots = [[each for each in slot if each.end >= event.start] for slot in self.slots]

    def short(self, event: Event) -> bool:
        return self.in_window(event.start, event)

    def alone(self, step: int, event: Event) -> Prefix:
        """A match of one event."""
        return tuple((event,) if number == step else () for number in range(1, self.last + 1))

    def begin(self, event: Event, can: list[int]) -> bool:
        """Let an event be the first of a prefix."""
        if 1 not in can or not self.short(event):
            return False
        if self.mode in ("first", "cumulative") and self.kept:
            return False
        if self.mode in ("recent", "snoop_recent", "latest"):
            self.kept = [prefix for prefix in self.kept if len(prefix) != 1]
        self.kept.append(((event,),))
        return True

    def extend(self, event: Event, can: list[int]) -> tuple[bool, list[Prefix]]:
        """Let an event take the last step behind the first that it can; whether it did, and the matches."""
        if self.mode == "cumulative":
            return self.accumulate(event, can)
        matches: list[Prefix] = []
        taken = False
        for step in can:
            if step == 1 or (taken and self.mode != "latest"):
                break
            fitting = [each for each in self.kept if len(each) == step - 1 and end_of(each) < event.start]
            if step == self.last:
                fitting = [each for each in fitting if self.is_long(start_of(each), event)]
            if not fitting:
                continue
            taken = True
            chosen = fitting if self.mode == "continuous" else fitting[:1]
            made: list[Prefix] = [(*prefix, (event,)) for prefix in chosen]
            if self.mode in ("first", "chronicle", "latest"):
                self.kept.remove(chosen[0])
            if self.mode in ("recent", "snoop_recent", "latest"):
                self.kept = [prefix for prefix in self.kept if len(prefix) != step]
            if step < self.last:
                self.kept += made
            else:
                matches += made
                self.kept = [prefix for prefix in self.kept if self.survives(prefix, made[0])]
        return taken, matches

    def survives(self, prefix: Prefix, match: Prefix) -> bool:
        """Whether a prefix is still there after a match."""
        if self.mode == "continuous":
            return False
        if self.mode == "snoop_recent" and len(prefix) == 1:
            return True
        shared = any(event is other for part in prefix for event in part for each in match for other in each)
        return self.mode not in ("recent", "snoop_recent") or not shared

    def accumulate(self, event: Event, can: list[int]) -> tuple[bool, list[Prefix]]:
        """There is at most one prefix, and its parts are sets."""
        if not self.kept:
            return False, []
        (run,) = self.kept
        following: Prefix = (*run, (event,))
        if len(following) in can and end_of(run) < event.start:
            if len(following) < self.last:
                self.kept = [following]
                return True, []
            if self.holds(following):
                self.kept = []
                return True, [following]
        if len(run) in can and self.short(event) and (len(run) == 1 or end_of(run[:-1]) < event.start):
            self.kept = [(*run[:-1], (*run[-1], event))]
            return True, []
        return False, []

    def holds(self, match: Prefix) -> bool:
        bound = self.bound(match)
        if not self.is_long(start_of(match), match[-1][-1]):
            return False
        return all(self.reader.true(expr, bound) for expr in self.having)

    # --- AND -----------------------------------------------------------------------------------------------------

    def gather(self, event: Event, can: list[int]) -> list[Prefix]:
        """AND: each step has events that wait; the match is complete when every step has one."""
        waiting = [each for slot in self.slots for each in slot]
        if self.mode in ("first", "cumulative"):
            if not all(self.in_window(each.start, event) for each in waiting):
                self.slots = [[] for _ in self.steps]
        else:
            self.slots = [[each for each in slot if self.in_window(each.start, event)] for slot in self.slots]
        empty = [step for step in can if not self.slots[step - 1]]
        if not can or not self.short(event) or (self.mode == "first" and not empty):
            return []
        step = empty[0] if empty else can[0]
        if self.mode in ("recent", "snoop_recent", "latest"):
            self.slots[step - 1] = []
        self.slots[step - 1].append(event)
        return self.complete(event, step) if all(self.slots) else []

    def complete(self, event: Event, step: int) -> list[Prefix]:
        slots = self.slots
        match self.mode:
            case "chronicle":
                found: list[Prefix] = [tuple((slot.pop(0),) for slot in slots)]
                return found
            case "cumulative":
                found = [tuple(map(tuple, slots))]
                if not self.holds(found[0]):
                    return []
            case "continuous":
                rest = [[event] if number == step else slot for number, slot in enumerate(slots, 1)]
                found = [tuple((each,) for each in several) for several in product(*rest)]
            case _:
                found = [tuple((slot[0],) for slot in slots)]
        if self.mode != "snoop_recent":
            self.slots = [[] for _ in self.steps]
        return found

    # --- matches -------------------------------------------------------------------------------------------------

    def bound(self, match: Prefix) -> Bound:
        """A match by variables: a set as a tuple."""
        names = [str(leaf.var) for leaf in self.steps]
        return {name: part if name in self.sets else part[0] for name, part in zip(names, match, strict=True) if part}


def start_of(prefix: Prefix) -> int:
    return min(event.start for part in prefix for event in part)


def end_of(prefix: Prefix) -> int:
    """Where the last step of a prefix ends."""
    return max(event.end for event in prefix[-1])
