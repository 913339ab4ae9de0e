"""The state of a compiled statement as plain values, those of the machine in plain Python: either goes on from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from tocsin.lang.staged_printer import key_range
from tocsin.lang.staged_syntax import AttrOf, IfNull, PartitionKey
from tocsin.plan.staged_places import Role, key_attribute
from tocsin.schema import Kind
from tocsin.staged.compiled import library
from tocsin.staged.compiled.core import Core
from tocsin.staged.compiled.library import ABSENT, ATTRS, COUNT, ENDS, GROWING, HEAD, NEXT, NIL, NULLS, SETS, TAIL
from tocsin.staged.compiled.library import AT as NUMBER_OF
from tocsin.staged.compiled.running import LATEST_START, RunningAggregate, RunningAggregates, folded
from tocsin.staged.spots import PatternSpot

Words = dict[str, Any]


def saved(core: Core) -> Words:
    """The state of a compiled statement in the form of `Machine.save`."""
    return _StateReader(core).all()


def load(core: Core, words: Mapping[str, Any]) -> None:
    """Restore a saved state in a new core."""
    _StateWriter(core).all(words)


class _Values:
    """Values and words of attributes and keys."""

    def __init__(self, core: Core) -> None:
        self.core, self.layout, self.strings = core, core.layout, core.strings
        self.names = core.layout.words
        leaves = [spot.leaf for spot in core.layout.leaves if spot.leaf is not None]
        statement = core.layout.statement
        roles: list[Role] = [*leaves, *core.layout.inits, *statement.terms]
        self.kinds = {
            key: next((self._kind(attr) for role in roles if (attr := key_attribute(key, role)) is not None), Kind.INT)
            for key in (*statement.gkeys, *statement.lkeys)
        }

    def _kind(self, attr: str) -> Kind:
        field = self.layout.field(attr)
        return Kind.INT if field is None else field.kind

    def value(self, word: int, kind: Kind) -> Any:
        if kind in (Kind.FLOAT, Kind.DECIMAL):
            return float(np.int64(word).view(np.float64))
        if kind is Kind.TEXT:
            return self.strings.text(int(word))
        return bool(word) if kind is Kind.BOOL else int(word)

    def word(self, value: Any, kind: Kind) -> int:
        if kind in (Kind.FLOAT, Kind.DECIMAL):
            return int(np.float64(value).view(np.int64))
        return self.strings.code(value) if kind is Kind.TEXT else int(value)

    def key(self, clauses: Sequence[PartitionKey], words: Sequence[int]) -> list[list[Any]]:
        """Words of a partition as its key: for each clause the value and its label."""
        found = []
        for clause, word in zip(clauses, words, strict=True):
            if clause.ranges:
                each = clause.ranges[int(word)]
                found.append([int(word), each.label or key_range(each, labelled=False)])
            else:
                found.append([self.value(word, self.kinds[clause])] * 2)
        return found

    def key_words(self, clauses: Sequence[PartitionKey], key: Sequence[Sequence[Any]]) -> list[int]:
        pairs = zip(clauses, key, strict=True)
        return [int(one[0]) if clause.ranges else self.word(one[0], self.kinds[clause]) for clause, one in pairs]


class _StateReader(_Values):
    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.D = core.arrays["D"]
        self.events: dict[int, list[Any]] = {}

    def all(self) -> Words:
        core, table = self.core, self.core.arrays["TG"]
        partitions: list[Any] = []
        if self.layout.g:
            partitions = [self._partition(int(at)) for at in table[table != NIL]]
        elif core.created is not None:
            partitions = [self._partition(int(core.P[library.UNIVERSAL]))]
        return {
            "created": core.created, "clock": core.clock, "next": core.next, "partitions": partitions,
            "events": list(self.events.values()),
        }  # fmt: skip

    def _partition(self, at: int) -> list[Any]:
        names, D, statement = self.names, self.D, self.layout.statement
        first = at + names["G_KEY"]
        key = self.key(statement.gkeys, D[first : first + self.layout.g].tolist())
        seen: list[Any] = [] if self.layout.l else [[]]
        place = int(D[at + names["G_SEEN"]]) if self.layout.keeps_seen else NIL
        while place != NIL:
            words = D[place + names["S_KEY"] : place + names["S_KEY"] + self.layout.l]
            seen.append(self.key(statement.lkeys, words.tolist()))
            place = int(D[place + names["S_NEXT"]])
        contexts = []
        place = int(D[at + names["G_FIRST"]])
        while place != NIL:
            contexts.append(self._context(place))
            place = int(D[place + names["C_NEXT"]]) if self.layout.many else NIL
        return [key, seen, contexts]

    def _context(self, at: int) -> list[Any]:
        names, D, layout = self.names, self.D, self.layout
        opener = int(D[at + names["C_OPENER"]])
        type = None if opener < 0 else layout.inits[opener].type
        nodes = self._nodes(at + names["C_OPENERS"]) if layout.shows_openers else ()
        openers = [self._event(node, str(type)) for node in nodes]
        locals_ = []
        place = int(D[at + names["C_LOCALS"]])
        while place != NIL:
            words = D[place + names["L_KEY"] : place + names["L_KEY"] + layout.l]
            lists: list[Any] = []
            pending: list[Any] = []
            for spot in layout.leaves:
                assert spot.leaf is not None
                nodes = self._nodes(place + layout.lists_at(spot.number))
                events = [self._event(node, spot.leaf.type) for node in nodes]
                after = layout.sources.get(spot.number)
                (lists if after is None else pending).append([(after or spot).number, events])
            locals_.append([self.key(layout.statement.lkeys, words.tolist()), lists, pending])
            place = int(D[place + names["L_NEXT"]]) if layout.l else NIL
        delayed = list(self._runs(at)) if layout.delays else []
        return [int(D[at + names["C_OPENED"]]), None if opener < 0 else opener, openers, locals_, delayed]

    def _runs(self, context: int) -> Iterator[list[Any]]:
        """The matches that wait for the end of a context, run by run."""
        names, D, layout = self.names, self.D, self.layout
        run = int(D[context + names["C_RUN"]])
        while run != NIL:
            key = self.key(layout.statement.lkeys, D[run + names["R_KEY"] : run + names["R_KEY"] + layout.l].tolist())
            matches = []
            match = int(D[run + names["R_FIRST"]])
            while match != NIL:
                matches.append(self._match(match + names["W_WORDS"]))
                match = int(D[match + names["W_NEXT"]])
            yield [int(D[run + names["R_NOW"]]), key, matches]
            run = int(D[run + names["R_NEXT"]])

    def _match(self, at: int) -> list[list[Any]]:
        """A match as the machine in plain Python has it: what each spot is bound to, by its number."""
        layout = self.layout
        found: list[list[Any]] = [["none"] for _ in range(1 + layout.root.number)]
        for spot in layout.spots:
            if spot.number in layout.places_of:
                found[spot.number] = self._bound(spot, int(self.D[at + layout.places_of[spot.number]]))
            elif all(found[each.number] == ["absent"] for each in spot.all() if each.number in layout.places_of):
                found[spot.number] = ["absent"]
            elif spot.operator == "After" and found[spot.spots[0].number] != ["none"]:
                found[spot.number] = ["tick"]
        return found

    def _bound(self, spot: PatternSpot, word: int) -> list[Any]:
        if word == ABSENT:
            return ["absent"]
        if word == NIL:
            return ["none"]
        if spot.leaf is None:
            return ["tick"]
        type = str(spot.leaf.type)
        if word >= 0:
            return ["event", self._event(word, type)]
        nodes, node = list[int](), SETS - word
        while node != NIL:
            nodes.append(node)
            node = int(self.D[node + NEXT])
        kind = "every" if spot.number in self.layout.members else "counted"
        return [kind, *(self._event(node, type) for node in reversed(nodes))]

    def _nodes(self, at: int) -> Iterator[int]:
        node = int(self.D[at + HEAD])
        while node != NIL:
            yield node
            node = int(self.D[node + NEXT])

    def _event(self, node: int, type: str) -> int:
        D, layout = self.D, self.layout
        number, start, end, nulls = (int(D[node + NUMBER_OF + k]) for k in range(4))
        words = D[node + ATTRS : node + ATTRS + len(layout.attrs)].tolist()
        values = {
            attr: None if nulls >> at & 1 else self.value(word, layout.fields[attr].kind)
            for at, (attr, word) in enumerate(zip(layout.attrs, words, strict=True))
        }
        self.events[number] = [number, type, start, end, values]
        return number


class _StateWriter(_Values):
    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.P, self.arrays = core.P, core.arrays
        self.events: dict[int, list[Any]] = {}

    def all(self, words: Mapping[str, Any]) -> None:
        P, core = self.P, self.core
        self.events = {number: [number, *rest] for number, *rest in words["events"]}
        P[library.CLOCK], P[library.NUMBER] = words["clock"], words["next"]
        if words["created"] is not None:
            P[library.CREATED], P[library.IS_CREATED] = words["created"], 1
        for key, seen, contexts in words["partitions"]:
            self._partition(key, seen, contexts)
        for attr in core.mass:
            known = (values.get(attr) for *_, values in self.events.values())
            core.mass[attr] = float(sum(abs(each) for each in known if each is not None))

    def _record(self, size: int) -> int:
        at = int(self.P[library.TOP])
        self.P[library.TOP] += size
        if at + size > len(self.arrays["D"]):
            self.arrays.grow(GROWING.index("D"), at + size)
        return at

    def _enter(self, table: str, at: int, off: int, count: int, which: int) -> None:
        """Put a record into a table by its key."""
        D, rows = self.arrays["D"], self.arrays[table]
        rows[library.slot_of(rows, len(rows) - 1, D, off, D, at + off, count)] = at
        self.P[which] += 1
        if 2 * self.P[which] > len(rows):
            more = self.arrays.grow(GROWING.index(table), 0)
            library.refill(rows, len(rows), more, len(more) - 1, D, off, count)

    def _partition(self, key: Any, seen: Any, contexts: Any) -> None:
        names, layout = self.names, self.layout
        at = self._record(names["G_SIZE"])
        D = self.arrays["D"]
        for name, word in (("G_AT", 0), ("G_ALIVE", 1), ("G_FIRST", NIL), ("G_LAST", NIL), ("G_SEEN", NIL)):
            if name in names:
                D[at + names[name]] = word
        if layout.g:
            D[at + names["G_KEY"] : at + names["G_KEY"] + layout.g] = self.key_words(layout.statement.gkeys, key)
            self._enter("TG", at, names["G_KEY"], layout.g, library.PARTITIONS)
        else:
            self.P[library.UNIVERSAL] = at
        for local in seen if layout.keeps_seen else ():
            place = self._record(names["S_SIZE"])
            D = self.arrays["D"]
            D[place + names["S_NEXT"]], D[at + names["G_SEEN"]] = D[at + names["G_SEEN"]], place
            D[place + names["S_PARTITION"]] = at
            first = place + names["S_KEY"]
            D[first : first + layout.l] = self.key_words(layout.statement.lkeys, local)
            self._enter("TS", place, names["S_PARTITION"], 1 + layout.l, library.SEEN)
        for context in contexts:
            self._context(at, *context)

    def _context(
        self, partition: int, opened: int, opener: int | None, openers: Any, locals_: Any, delayed: Any
    ) -> None:
        names, layout = self.names, self.layout
        at = self._record(names["C_SIZE"])
        D = self.arrays["D"]
        last = int(D[partition + names["G_LAST"]]) if layout.many else NIL
        given = {"C_NEXT": NIL, "C_PREV": last, "C_OPENED": opened, "C_OPENER": NIL if opener is None else opener,
                 "C_LOCALS": NIL, "C_CLOSED": NIL, "C_RUN": NIL, "C_LAST_RUN": NIL}  # fmt: skip
        for name, word in given.items():
            if name in names:
                D[at + names[name]] = word
        D[(partition + names["G_FIRST"]) if last == NIL else (last + names["C_NEXT"])] = at
        if layout.many:
            D[partition + names["G_LAST"]] = at
        if layout.shows_openers:
            self._no_list(at + names["C_OPENERS"])
        for length in layout.lasts:
            if length is not None:
                self._set_timer(opened + length, partition)
        for number in openers if layout.shows_openers else ():
            self._append(at + names["C_OPENERS"], number, None)
        for spot in layout.ticking:
            self._set_timer(layout.next_tick(spot, opened, int(self.P[library.CLOCK])), partition)
        for key, lists, pending in locals_:
            sources = {spot.number: spot.spots[0].number for spot in layout.waiting}
            self._local(at, key, [*lists, *([sources[after], numbers] for after, numbers in pending)])
            for after, number in ((after, number) for after, numbers in pending for number in numbers):
                self._set_timer(self.events[number][3] + layout.lengths[after], partition)
            self._set_alarms(partition, dict(lists))
        for run in delayed:
            self._run(at, *run)

    def _set_alarms(self, partition: int, lists: Mapping[int, Sequence[int]]) -> None:
        """For `active`: when the events of a local partition are too old, and when sst passes times of them."""
        layout = self.layout
        for number in layout.giving_way:
            length = layout.ranges[layout.index[number]]
            for event in lists.get(number, ()) if length is not None else ():
                self._set_timer(self.events[event][3] + length, partition)
        for number, several in layout.waking.items():
            stored = [self.events[event] for event in lists.get(number, ())]
            for due in (event[2 if each.start else 3] + each.behind for event in stored for each in several):
                if due > self.P[library.CLOCK]:
                    self._set_timer(due, partition)

    def _run(self, context: int, now: int, key: Any, matches: Any) -> None:
        """Put matches that wait behind those of a context."""
        names, layout = self.names, self.layout
        run = self._record(names["R_SIZE"])
        D = self.arrays["D"]
        D[run + names["R_NEXT"]], D[run + names["R_NOW"]] = NIL, now
        D[run + names["R_FIRST"]] = D[run + names["R_LAST"]] = NIL
        D[run + names["R_KEY"] : run + names["R_KEY"] + layout.l] = self.key_words(layout.statement.lkeys, key)
        self._link(run, "R_NEXT", context + names["C_RUN"], context + names["C_LAST_RUN"])
        for bound in matches:
            match = self._record(names["W_SIZE"])
            self.arrays["D"][match + names["W_NEXT"]] = NIL
            self._link(match, "W_NEXT", run + names["R_FIRST"], run + names["R_LAST"])
            for number, place in layout.places_of.items():
                word = self._word(*bound[number])
                self.arrays["D"][match + names["W_WORDS"] + place] = word

    def _link(self, record: int, next: str, first: int, last: int) -> None:
        D = self.arrays["D"]
        D[first if D[last] == NIL else int(D[last]) + self.names[next]] = record
        D[last] = record

    def _word(self, kind: str, *numbers: int) -> int:
        """The word of what a place of a match is bound to; its events become nodes that stand in no list."""
        if kind in ("none", "absent", "tick"):
            return {"none": NIL, "absent": ABSENT, "tick": library.TICKS}[kind]
        before = NIL
        for number in numbers:
            node = self._node(number)
            self.arrays["D"][node + NEXT] = before
            before = node
        return before if kind == "event" else SETS - before

    def _set_timer(self, due: int, partition: int) -> None:
        if 2 * (self.P[library.TIMERS] + 1) > len(self.arrays["Q"]):
            self.arrays.grow(GROWING.index("Q"), 0)
        library.set_timer(self.arrays["Q"], self.P, due, partition)

    def _local(self, context: int, key: Any, lists: Any) -> None:
        names, layout = self.names, self.layout
        at = self._record(names["L_SIZE"])
        D = self.arrays["D"]
        first = int(D[context + names["C_LOCALS"]])
        D[context + names["C_LOCALS"]] = at
        for place in range(len(layout.leaves) + len(layout.waiting)):
            self._no_list(at + names["L_LISTS"] + layout.list * place)
        if layout.l:
            D[at + names["L_NEXT"]], D[at + names["L_PREV"]], D[at + names["L_STAMP"]] = first, NIL, NIL
            if first != NIL:
                D[first + names["L_PREV"]] = at
            D[at + names["L_CONTEXT"]] = context
            D[at + names["L_KEY"] : at + names["L_KEY"] + layout.l] = self.key_words(layout.statement.lkeys, key)
            self._enter("TL", at, names["L_CONTEXT"], 1 + layout.l, library.LOCALS)
        for spot, numbers in lists:
            for number in numbers:
                self._append(at + layout.lists_at(spot), number, spot)
            if spot in layout.sources:
                self.P[library.KEPT] -= len(numbers)
        if layout.running is not None:
            self._run_again(layout.running, at + names["L_RUNNING"], dict(lists))

    def _run_again(self, running: RunningAggregates, at: int, lists: Mapping[int, Sequence[int]]) -> None:
        """Compute running aggregates again, from the stored events of their operands."""
        D = self.arrays["D"]
        for place, spot in enumerate(running.leaves):
            D[at + place] = min((self.events[number][2] for number in lists.get(spot, ())), default=LATEST_START)
        for each in running.found.values():
            values = [value for of, spot in each.terms for value in self._values(of, lists.get(spot, ()))]
            if each.once:
                D[at + each.at + 2] = NIL
                values = self._each_once(values, at + each.at, each)
                D = self.arrays["D"]
            total: Any = 0
            for count, value in enumerate(values):
                total = folded(each.function, count, total, value)
            D[at + each.at], D[at + each.at + 1] = len(values), 0
            if each.function != "Count":
                is_real = any(isinstance(value, float | Decimal) for value in values)
                D[at + each.at + 1] = np.float64(total).view(np.int64) if is_real else int(total)

    def _values(self, of: AttrOf | IfNull, numbers: Sequence[int]) -> Iterator[Any]:
        """The values of the stored events of an operand that are not Null."""
        shown = of.of if isinstance(of, IfNull) else of
        for number in numbers:
            value = self.events[number][4].get(shown.attr)
            if value is None and isinstance(of, IfNull):
                value = of.instead.value
            if value is not None:
                yield value

    def _each_once(self, values: Sequence[Any], aggregate: int, each: RunningAggregate) -> list[Any]:
        """Different values; each of them is entered into the table of those that have counted."""
        of = each.terms[0][0]
        kind = self._kind(of.of.attr if isinstance(of, IfNull) else of.attr)
        found = []
        for value in values:
            value = value + 0.0 if isinstance(value, float) else value
            key, rows = np.array([aggregate, self.word(value, kind)], np.int64), self.arrays["TU"]
            slot = library.slot_of(rows, len(rows) - 1, self.arrays["D"], library.ONCE_KEY, key, 0, 2)
            if rows[slot] != NIL:
                continue
            found.append(value)
            if value == value:
                home = self._record(library.ONCE_SIZE)
                D = self.arrays["D"]
                D[home], D[aggregate + 2] = D[aggregate + 2], home
                D[home + library.ONCE_KEY : home + library.ONCE_SIZE] = key
                self._enter("TU", home, library.ONCE_KEY, 2, library.ONCES)
        return found

    def _no_list(self, at: int) -> None:
        D = self.arrays["D"]
        D[at + HEAD], D[at + TAIL], D[at + COUNT] = NIL, NIL, 0
        if self.layout.counts_ends:
            D[at + ENDS] = 0

    def _node(self, number: int) -> int:
        """A new node with an event."""
        layout, node = self.layout, self._record(self.layout.node)
        D = self.arrays["D"]
        _, _, start, end, values = self.events[number]
        D[node + 2], D[node + NUMBER_OF], D[node + NUMBER_OF + 1], D[node + NUMBER_OF + 2] = 0, number, start, end
        D[node + NULLS] = 0
        for place, attr in enumerate(layout.attrs):
            value = values.get(attr)
            if value is None:
                D[node + NULLS] |= 1 << place
                D[node + ATTRS + place] = 0
            else:
                D[node + ATTRS + place] = self.word(value, layout.fields[attr].kind)
        return node

    def _append(self, at: int, number: int, spot: int | None) -> None:
        layout, node, values = self.layout, self._node(number), self.events[number][4]
        D = self.arrays["D"]
        library.append(D, self.P, at, node, layout.counts_ends)
        for place, (attr, off) in enumerate(layout.by_value(spot) if spot is not None else ()):
            value = values.get(attr)
            D[node + off + library.HOME] = NIL
            if value is not None and value == value:
                self._enter_value(at, place, self.word(value + 0.0 if isinstance(value, float) else value,
                                                       layout.fields[attr].kind), node, off)  # fmt: skip
                D = self.arrays["D"]

    def _enter_value(self, at: int, place: int, word: int, node: int, off: int) -> None:
        key, rows = np.array([at, place, word], np.int64), self.arrays["TV"]
        home = int(rows[library.slot_of(rows, len(rows) - 1, self.arrays["D"], library.OF_LIST, key, 0, 3)])
        if home == NIL:
            home = self._record(library.VALUE_SIZE)
            D = self.arrays["D"]
            D[home + library.FIRST] = D[home + library.LAST] = NIL
            D[home + library.OF_LIST : home + library.OF_LIST + 3] = key
            self._enter("TV", home, library.OF_LIST, 3, library.VALUES)
        library.enter(self.arrays["D"], node, off, home)
