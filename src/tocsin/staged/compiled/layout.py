"""Where a compiled statement keeps things: which attributes a node has, where records have their parts, what roles are.

And what is not compiled: whoever writes the function says so by `NotCompiledError`, with the reason in plain words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tocsin.events import END_OF_TIME
from tocsin.lang.staged_syntax import AttrOf, EventsOf, Initiator, LeafOperand, Statement, Terminator, parts
from tocsin.lang.syntax import UNITS
from tocsin.lang.time_patterns import next_time
from tocsin.plan.staged_places import StatementPlaces, conjuncts_of, key_attribute, mode_of
from tocsin.schema import Field, Kind
from tocsin.staged.bindings import PatternNames
from tocsin.staged.compiled.library import GROWING
from tocsin.staged.compiled.running import running_aggregates
from tocsin.staged.join import new_join
from tocsin.staged.options import Waking, giving_way, kept_apart, waking, written_out
from tocsin.staged.spots import BLOCK, PatternSpot, spots_of, ticks

REAL = (Kind.FLOAT, Kind.DECIMAL)
WHOLE = (Kind.INT, Kind.TIME, Kind.BOOL, Kind.TEXT)


class NotCompiledError(Exception):
    """A statement has something that is not compiled: it runs as plain Python, with the same meaning."""


@dataclass(frozen=True, slots=True)
class RowRole:
    """What an event of a type can be: `what` is leaf, init or term; `at` the place among them."""

    what: str
    at: int
    number: int
    role: LeafOperand | Initiator | Terminator


class WordLayout:
    """Everything about a statement that its function and its host must agree on.

    attrs    the attributes of a node, in order
    fields   what they are
    limits   how many bits their values may have, and "time" those of times: beyond that, arithmetic would not be exact
    ordinary attributes that must not be NaN
    sums     attributes whose values are added
    texts    literals of texts; the function is given their codes
    longest  how long events of types may last of which `sst` is asked
    """

    def __init__(
        self, statement: Statement, fields: Mapping[str, Field], unit: str | None, longest: Mapping[str, int]
    ) -> None:
        statement = written_out(statement)
        self.statement, self.fields, self.unit, self.longest = statement, dict(fields), unit, dict(longest)
        self.root = spots_of(statement.pattern)
        self.places = StatementPlaces(statement)
        self.spots = list(self.root.all())
        self.leaves: list[PatternSpot] = [spot for spot in self.spots if spot.leaf is not None]
        self.index = {spot.number: at for at, spot in enumerate(self.leaves)}
        self.ticking = [spot for spot in self.spots if spot.operator in ("At", "Every")]
        self.waiting = [spot for spot in self.spots if spot.operator == "After"]  # sources are in the lists of leaves
        self.sources = {spot.spots[0].number: spot for spot in self.waiting}
        self.places_of = {spot.number: at for at, spot in enumerate((*self.leaves, *self.ticking))}  # in a match
        counted = self.root.counted()
        self.members = [  # operands with `all`: each of their events gives a row of its own
            spot.number for spot in self.leaves
            if spot.leaf is not None and spot.leaf.quantifier.every and spot.number not in counted
        ]  # fmt: skip
        self.inits = statement.inits or (Initiator(),)
        self.terms = statement.terms
        self.attrs = sorted(self.fields)
        self.place = {attr: at for at, attr in enumerate(self.attrs)}
        self.limits: dict[str, int] = {}
        self.ordinary: set[str] = set()
        self.sums: set[str] = set()
        self.texts: list[str] = []
        self._check()
        self.mode = mode_of(statement.pattern)
        self.defers = any(spot.deferred for spot in self.spots)
        self.delays = self.mode == "delayed"
        self.keeps_seen = (self.defers or bool(self.ticking)) and bool(statement.lkeys)
        self.lasts = [None if term.after is None else self.ticks(term.after) for term in self.terms]
        self.ranges = [None if leaf.leaf is None or leaf.leaf.range is None else self.ticks(leaf.leaf.range)
                       for leaf in self.leaves]  # fmt: skip
        self.starts = any(init.type is None for init in self.inits)
        self.lengths = {spot.number: self._length(spot) for spot in (*self.ticking, *self.waiting)}
        self.apart = kept_apart(self.root) if "distinct" in statement.options else {}
        self.giving_way = giving_way(self.root) if "active" in statement.options else []
        self.waking: dict[int, list[Waking]] = {}
        for each in waking(self.statement, self.root, self.longest) if "active" in statement.options else ():
            self.waking.setdefault(each.leaf, []).append(each)
        self.limited = any(last is not None for last in self.lasts)
        self.timed = self.limited or any((self.ticking, self.waiting, self.giving_way, self.waking))
        self.many = any(init.add for init in self.inits)  # contexts of a partition may be open at once
        sizes = [spot.call.size for spot in self.waiting]
        self.counts_ends = (
            any(spot.leaf is not None and spot.leaf.stages is not None for spot in self.leaves)
            or any(size is not None and size.unit == "stages" for size in sizes)
        )  # fmt: skip
        self.shows_openers = self._mentioned_outside(self.inits)
        self.running = running_aggregates(self.places, self.root, self._is_whole)
        self.roles = self._roles()
        self.types = sorted(self.roles)
        self._records()

    def _check(self) -> None:
        if len(self.attrs) > 60:
            raise NotCompiledError("it reads more than 60 attributes")
        for spot in self.spots:
            if spot.operator == BLOCK:
                raise NotCompiledError("a block has contexts and keys of its own")
            if spot.operator == "At" and self.unit is None:
                raise NotCompiledError("At needs times with a unit")
            leaf = spot.leaf
            if leaf is not None and leaf.weight is not None and not isinstance(leaf.weight, int):
                raise NotCompiledError("a weight is no whole number")

    def _length(self, spot: PatternSpot) -> int:
        """How long a timer waits; 0: it goes by the calendar."""
        if spot.operator == "At":
            return 0
        length = self.ticks(spot.call.interval)
        if length <= 0:
            raise NotCompiledError(f"{spot.operator} does not wait")
        return length

    def _looked_up(self) -> dict[int, list[str]]:
        """By the number of a leaf, the attributes by whose values its events are found."""
        found: dict[int, list[str]] = {}
        join = new_join(self.root, list(conjuncts_of(self.statement.where)), PatternNames(self.root), self.apart)
        for number, attr in () if join is None else join.looked_up:
            if attr not in found.setdefault(number, []):
                found[number].append(attr)
        return found

    def by_value(self, number: int) -> list[tuple[str, int]]:
        """The attributes by whose values the events of a leaf are found, with where a node has its words for each."""
        first = 7 + len(self.attrs)
        return [(attr, first + 3 * at) for at, attr in enumerate(self.looked_up.get(number, ()))]

    def calendars(self) -> list[Callable[[int], int]]:
        """What each At says is the first time after another."""
        return [partial(self._next_time, str(spot.call.pattern)) for spot in self.ticking if spot.operator == "At"]

    def calendar(self, spot: PatternSpot) -> int:
        """The number by which the host is asked for the next time of an At."""
        return len(GROWING) + [each for each in self.ticking if each.operator == "At"].index(spot)

    def _next_time(self, pattern: str, after: int) -> int:
        found = next_time(pattern, after, UNITS[str(self.unit)])
        return END_OF_TIME if found is None else found

    def next_tick(self, spot: PatternSpot, opened: int, after: int) -> int:
        """The first time after another at which a tick happens in a context that was opened then."""
        after, length = max(after, opened), self.lengths[spot.number]
        if not length:
            return self._next_time(str(spot.call.pattern), after)
        return opened + ((after - opened) // length + 1) * length

    def lists_at(self, number: int, *, due: bool = False) -> int:
        """Where the list of a leaf stands in a local partition; `due`: of sources whose time has come."""
        at = self.index[number]
        if due:
            at = len(self.leaves) + self.waiting.index(self.sources[number])
        return self.words["L_LISTS"] + self.list * at

    def _is_whole(self, attr: str) -> bool:
        """Whether an attribute has whole numbers, or nothing."""
        field = self.fields.get(attr)
        return field is None or field.kind not in (*REAL, Kind.TEXT)

    def ticks(self, duration: Any) -> int:
        return ticks(duration, self.unit, self.statement.text)

    def _mentioned_outside(self, roles: tuple[Initiator | Terminator, ...]) -> bool:
        """Whether Select or a condition of a terminator mentions such roles by name."""
        names = {role.called for role in roles if role.type is not None}
        conditions = [each for term in self.terms for each in term.conditions]
        asked = [part for node in (*self.statement.select, *conditions) for part in parts(node)]
        return any(isinstance(part, AttrOf | EventsOf) and part.name in names for part in asked)

    def _roles(self) -> dict[str, list[RowRole]]:
        every: list[tuple[str, int, Any]] = [("leaf", at, spot.leaf) for at, spot in enumerate(self.leaves)]
        every += [("init", at, init) for at, init in enumerate(self.inits)]
        every += [("term", at, term) for at, term in enumerate(self.terms)]
        found: dict[str, list[RowRole]] = {}
        for number, (what, at, role) in enumerate(every):
            if role.type is not None:
                found.setdefault(role.type, []).append(RowRole(what, at, number, role))
        return found

    def all_roles(self) -> list[RowRole]:
        return sorted((role for several in self.roles.values() for role in several), key=lambda role: role.number)

    def role(self, what: str, at: int) -> RowRole | None:
        return next((each for each in self.all_roles() if (each.what, each.at) == (what, at)), None)

    def _records(self) -> None:
        """The words of every record, by name, as offsets from its address; only those that the statement needs."""
        g, l = len(self.statement.gkeys), len(self.statement.lkeys)
        self.looked_up = self._looked_up()
        self.node = 7 + len(self.attrs) + 3 * max(map(len, self.looked_up.values()), default=0)
        self.list = 3 + self.counts_ends
        self.words = {
            # a partition: where its rows of the stage are, its contexts, the local values that it has seen
            **_record("G", G_AT=1, G_ALIVE=self.timed, G_FIRST=1, G_LAST=self.many, G_SEEN=self.keeps_seen, G_KEY=g),
            # a context: what opened it, its local partitions, and what closes it
            **_record("C", C_OPENED=1, C_OPENER=1, C_LOCALS=1, C_NEXT=self.many, C_PREV=self.many,
                      C_CLOSED=bool(self.terms), C_OPENERS=self.list * self.shows_openers,
                      C_RUN=self.delays, C_LAST_RUN=self.delays),
            # a local partition: its context and key, and a list for each leaf
            **_record("L", L_NEXT=l > 0, L_PREV=l > 0, L_STAMP=l > 0, L_TOUCHED=l > 0, L_CONTEXT=l > 0, L_KEY=l,
                      L_LISTS=self.list * (len(self.leaves) + len(self.waiting)),
                      L_RUNNING=0 if self.running is None else self.running.size),
            # a local value that a partition has seen
            **_record("S", S_NEXT=1, S_PARTITION=1, S_KEY=l),
            # the matches of a run that wait for the end of their context (delayed); they have copies of their events
            **_record("R", R_NEXT=1, R_NOW=1, R_FIRST=1, R_LAST=1, R_KEY=l),
            **_record("W", W_NEXT=1, W_WORDS=len(self.places_of)),
        }  # fmt: skip
        self.g, self.l = g, l
        self.head = 4 + g  # of a row of output: its end, start, Nulls, place in its partition, and the key of that
        self.row = self.head + len(self.statement.select)

    # --- values ---

    def field(self, attr: str) -> Field | None:
        return self.fields.get(attr)

    def needs_bits(self, attr: str, bits: int) -> None:
        self.limits[attr] = min(bits, self.limits.get(attr, 63))

    def text(self, literal: str) -> str:
        if literal not in self.texts:
            self.texts.append(literal)
        return f"C[{self.texts.index(literal)}]"

    def key_attr(self, key: Any, role: RowRole) -> str | None:
        return key_attribute(key, role.role)


def _record(name: str, **parts: int) -> dict[str, int]:
    """Where the parts of a record stand, that have so many words each, and how many it has in all."""
    found, at = dict[str, int](), 0
    for part, size in parts.items():
        if size or part.endswith(("_KEY", "_LISTS", "_WORDS")):
            found[part] = at
        at += size
    return {**found, f"{name}_SIZE": max(at, 1)}
