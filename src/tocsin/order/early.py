"""Early answers: a binding with open intervals is told as soon as it is certain, whatever their ends will be.

Stands in front of the begins and looks at every item that passes: it keeps the events of a window, and the intervals
that have begun. When an event comes, or an interval begins, the bindings that contain it and something open are put
together; each is asked again only when what it lacks is guaranteed. Its rows are of kind `early`. They go away where
the match comes; what turns out otherwise is withdrawn.

Paper: Li 2010, 5.4 delivers results at the end of an interval; that a begin is enough where only starts are asked is
what its begin punctuations make possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, Scalar, as_shape, decode, encode, nested, only_part, reading, within
from tocsin.encode.auto_eids import AutoEids
from tocsin.encode.merge import join, replaced, take
from tocsin.encode.stored import RowReader, stored_rows
from tocsin.engine.changes import Changes
from tocsin.engine.kinds import EARLY
from tocsin.engine.operator import Counters, Nesting
from tocsin.engine.payload import Payload
from tocsin.engine.texts import joined, of_rows
from tocsin.events import BEGINNING, eid_number
from tocsin.functions import Function
from tocsin.items import Ints, ItemKind, Items
from tocsin.order.begins import Begins
from tocsin.order.decided import EndsToTry, EventSoFar, Held, Outlook, Span, accepts
from tocsin.order.early_rows import EarlyRows
from tocsin.order.keyed_events import KeyedEvents
from tocsin.order.keyed_process import OWN, kept_rows
from tocsin.order.strategy import Strategy
from tocsin.plan.block import Leaf, Plan
from tocsin.plan.facts import overhangs, types_of
from tocsin.plan.rewrite import all_leaves, blocks_below
from tocsin.schema import fits

Name: TypeAlias = tuple[int, int]
Id: TypeAlias = tuple[int, tuple[int, ...]]  # of a binding: its alternative, and the numbers of its events by leaf
SavedEvents: TypeAlias = list[tuple[int, str, int, int | None, dict[str, Scalar]]]
Shown: TypeAlias = tuple[tuple[str, Name], ...]  # the visible variables of a binding, with the eids of their events
MANY, FEW = 4096, 64  # rows, and events of a query, that are not worth a look


@dataclass(slots=True, eq=False)
class Binding:
    """Events at all leaves of an alternative, of which some are open intervals."""

    id: Id
    held: Held
    shown: Shown
    given: bool = False

    @property
    def open(self) -> list[int]:
        return [leaf for leaf, (_, event) in self.held.items() if event.end is None]


class Watch:
    """What is kept for one query, and which of its bindings are decided.

    relied   by type up to when the absence of events may be relied upon
    ending   by type, every interval to come ends after this
    """

    def __init__(self, number: int, plan: Plan, functions: Mapping[str, Function], time: _Time) -> None:
        assert plan.within is not None
        self.number, self.plan, self.functions, self.time, self.width = number, plan, functions, time, plan.within
        self._keys = dict(plan.key)
        self.trials = [EndsToTry(block, plan, functions, self.candidates) for block in plan.alternatives]
        self._of_leaf = {leaf.id: leaf for leaf in all_leaves(plan)}
        self._negated = {
            alt.type
            for block in plan.alternatives
            for part in block.forbidden
            for inner in blocks_below(part.block)
            for leaf in inner.leaves
            for alt in leaf.alts
        }
        self.positive = {alt.type for block in plan.alternatives for leaf in block.leaves for alt in leaf.alts}
        self._behind = max((sum(overhangs(block)) for block in plan.alternatives), default=0)
        self.store: dict[int, dict[tuple[Any, ...], dict[int, tuple[str, EventSoFar]]]] = {}
        self.events: dict[int, EventSoFar] = {}
        self.names: dict[tuple[Name, str, int, int | None], int] = {}
        self.whole: dict[Name, int] = {}
        self.open: dict[Name, EventSoFar] = {}
        self.bindings: dict[Id, Binding] = {}
        self._of_event: dict[int, set[Id]] = {}
        self._waiting: dict[tuple[str, str], list[tuple[int, Id]]] = {}  # by measure and type: (tick, binding)
        self._standing: dict[Shown, set[Id]] = {}
        self.enough = FEW
        self.said: list[tuple[int, Binding]] = []  # signed answers, not handed over yet

    # --- what is kept --------------------------------------------------------------------------------------------

    def candidates(self, leaf: int, key: tuple[Any, ...]) -> Iterable[tuple[str, EventSoFar]]:
        """The events that may stand at a leaf, with a key."""
        return list(self.store.get(leaf, {}).get(key, {}).values())

    def add(self, event: EventSoFar) -> bool:
        """Keep an event, or an interval that has begun; False if it is there."""
        same = (event.name, event.type, event.start, event.end)
        if same in self.names:
            return False
        wanted = False
        for leaf in self._of_leaf.values():
            for alt in leaf.alts:
                if not self.plan.schema.takes(alt.type, event.type):
                    continue
                key = self._key(leaf, event)
                if key is not None and accepts(event, alt.var, leaf.id, alt.where, self.functions):
                    self.store.setdefault(leaf.id, {}).setdefault(key, {})[event.number] = alt.var, event
                    wanted = True
        if wanted:
            self.names[same] = event.number
            if event.end is not None:
                self.whole[event.name] = event.number
            self.events[event.number] = event
        return wanted

    def _key(self, leaf: Leaf, event: EventSoFar) -> tuple[Any, ...] | None:
        """The key of an event at a leaf; None: it lacks a part of it."""
        attrs = self._keys.get(leaf.id, ())
        key = tuple(event.values.get(attr) for attr in (*attrs, *self.plan.needs))
        if any(value is None or value != value for value in key):
            return None
        return key[: len(attrs)]

    def drop(self, event: EventSoFar) -> None:
        self.events.pop(event.number, None)
        self.names.pop((event.name, event.type, event.start, event.end), None)
        if self.whole.get(event.name) == event.number:
            del self.whole[event.name]
        for leaf in self._of_leaf.values():
            key = self._key(leaf, event)
            if key is not None:
                self.store.get(leaf.id, {}).get(key, {}).pop(event.number, None)

    def purge(self) -> None:
        """Drop the events that can stand in no binding with an open interval, and that no negated part can look at."""
        first = min(map(self.time.ending, self.positive)) + 1 - self.width
        back = first - self.width - self._behind
        for event in [each for each in self.events.values() if each.end is not None and each.end < first]:
            negated = any(self.plan.schema.takes(type, event.type) for type in self._negated)
            if not negated or (event.end is not None and event.end < back):
                self.drop(event)

    # --- what happens --------------------------------------------------------------------------------------------

    def came(self, event: EventSoFar) -> None:
        """An event came, or an interval has begun."""
        if event.end is None and event.name in self.whole:  # its interval came before begins were looked at
            return
        if not self.add(event):
            return
        if event.end is None:
            self.open[event.name] = event
        if self.open:
            self._combine(event)
        if any(self.plan.schema.takes(type, event.type) for type in self._negated):
            for several in list(self._standing.values()):
                for id in list(several):
                    self._ask(self.bindings[id])

    def closed(self, name: Name, event: EventSoFar | None) -> None:
        """An interval has ended, as it was announced; `event` None: it was not, comes too late, or never ends."""
        opened = self.open.pop(name, None)
        if opened is None:
            return
        mine = [self.bindings[id] for id in self._of_event.get(opened.number, ())]
        self.drop(opened)
        for binding in mine:
            self._forget(binding)
            if not binding.given:
                continue
            after = None if event is None else self._ended(binding, opened, event)
            if after is None:
                self._fall(binding)
                continue
            several = self._standing[binding.shown]
            several.discard(binding.id)
            if after.open:
                self._keep(after)
                several.add(after.id)
                self._ask(after)
            elif not several:  # the match follows
                del self._standing[binding.shown]

    def _ended(self, binding: Binding, opened: EventSoFar, event: EventSoFar) -> Binding | None:
        """A binding in which an open interval has got its end; None if that breaks the window."""
        held = {leaf: (var, event if one is opened else one) for leaf, (var, one) in binding.held.items()}
        assert event.end is not None
        if event.end > min(one.start for _, one in held.values()) + self.width:
            return None
        numbers = tuple(one.number for _, one in held.values())
        return Binding((binding.id[0], numbers), held, binding.shown, given=True)

    def _fall(self, binding: Binding) -> None:
        """Withdraw an answer that was given, if nothing else justifies it."""
        several = self._standing.get(binding.shown, set())
        several.discard(binding.id)
        if not several:
            self._standing.pop(binding.shown, None)
            self.said.append((-1, binding))

    def advance(self) -> None:
        """What is guaranteed has grown: ask those that waited for it."""
        for (measure, type), heap in list(self._waiting.items()):
            until = self.time.ending(type) if measure == "end" else self.time.relied(type)
            while heap and heap[0][0] <= until:
                _, id = heappop(heap)
                if id in self.bindings:
                    self._ask(self.bindings[id])

    # --- bindings ------------------------------------------------------------------------------------------------

    def _combine(self, event: EventSoFar) -> None:
        """All bindings that hold an event and something open."""
        for at, trial in enumerate(self.trials):
            fixed = [leaf.id for leaf in trial.block.fixed]
            for leaf in fixed:
                var = self._stands(leaf, event)
                if var is None:
                    continue
                if event.end is None:
                    self._fill(at, {leaf: (var, event)}, fixed)
                    continue
                for opened in list(self.open.values()):
                    for other in fixed:
                        name = self._stands(other, opened) if other != leaf else None
                        if name is not None:
                            self._fill(at, {leaf: (var, event), other: (name, opened)}, fixed)

    def _stands(self, leaf: int, event: EventSoFar) -> str | None:
        """The variable that an event is at a leaf; None if it cannot stand there."""
        key = self._key(self._of_leaf[leaf], event)
        found = None if key is None else self.store.get(leaf, {}).get(key, {}).get(event.number)
        return None if found is None else found[0]

    def _fill(self, at: int, held: Held, fixed: Sequence[int]) -> None:
        """Bind the leaves that are still free to stored events, in every way that may become a match."""
        trial = self.trials[at]
        if not self._fits(trial, held):
            return
        rest = [leaf for leaf in fixed if leaf not in held]
        if not rest:
            self._found(at, {leaf: held[leaf] for leaf in fixed})
            return
        covered = any(leaf in self._keys for leaf in held)
        buckets = self.store.get(rest[0], {})
        chosen = [trial.key_of(rest[0], held)] if covered or rest[0] not in self._keys else list(buckets)
        for key in chosen:
            for var, event in list(buckets.get(key, {}).values()):
                if not any(event is other for _, other in held.values()):
                    self._fill(at, {**held, rest[0]: (var, event)}, fixed)

    def _fits(self, trial: EndsToTry, held: Held) -> bool:
        keys = {
            tuple(event.values.get(attr) for attr in self._keys[leaf])
            for leaf, (_, event) in held.items()
            if leaf in self._keys
        }
        first = min(event.start for _, event in held.values())
        last = max(event.start if event.end is None else event.end for _, event in held.values())
        return len(keys) <= 1 and last - first <= self.width and trial.fits(held)

    def _found(self, at: int, held: Held) -> None:
        trial = self.trials[at]
        for leaf, (_, event) in held.items():  # what is not known decides nothing
            if event.end is None and any(event.values.get(attr) is None for attr in trial.mentioned[leaf]):
                return
        id = at, tuple(event.number for _, event in held.values())
        if id in self.bindings:
            return
        visible = {variable.name for variable in self.plan.variables if not variable.hidden}
        shown = tuple(sorted((var, event.name) for var, event in held.values() if var in visible))
        binding = Binding(id, held, shown)
        self._keep(binding)
        self._ask(binding)

    def _keep(self, binding: Binding) -> None:
        self.bindings[binding.id] = binding
        for leaf in binding.open:
            self._of_event.setdefault(binding.held[leaf][1].number, set()).add(binding.id)

    def _forget(self, binding: Binding) -> None:
        self.bindings.pop(binding.id, None)
        for leaf in binding.open:
            several = self._of_event.get(binding.held[leaf][1].number, set())
            several.discard(binding.id)
            if not several:
                self._of_event.pop(binding.held[leaf][1].number, None)

    def _ranges(self, binding: Binding) -> dict[int, Span]:
        """For each open interval of a binding, the first and the last tick at which it can still end."""
        last = min(event.start for _, event in binding.held.values()) + self.width
        ranges = {}
        for leaf in binding.open:
            event = binding.held[leaf][1]
            longest = self.time.longest.get(event.type)
            high = last if longest is None else min(last, event.start + longest)
            ranges[leaf] = max(event.start, self.time.ending(event.type) + 1), high
        return ranges

    def _ask(self, binding: Binding) -> None:
        """Decide about a binding: give it, withdraw it, or wait until what it lacks is guaranteed."""
        trial, ranges = self.trials[binding.id[0]], self._ranges(binding)
        outlook = trial.outlook(binding.held, ranges)
        lacking = self._lacking(trial, binding, ranges) if outlook.decided else None
        if outlook.decided and lacking is None:
            for leaf, (_, high) in ranges.items():  # then its window is broken
                self._wait("end", binding.held[leaf][1].type, high, binding)
            if not binding.given:
                binding.given = True
                several = self._standing.setdefault(binding.shown, set())
                if not several:
                    self.said.append((1, binding))
                several.add(binding.id)
            return
        if binding.given:
            binding.given = False
            self._fall(binding)
        if outlook.never:
            self._forget(binding)
        elif lacking is not None:
            self._wait("gap", *lacking, binding)
        else:
            self._wait_for_ends(binding, ranges, outlook)

    def _lacking(self, trial: EndsToTry, binding: Binding, ranges: Mapping[int, Span]) -> tuple[str, int] | None:
        """A type whose events could still refute the binding, and the tick up to which it must be guaranteed."""
        owed = trial.owed(binding.held, ranges)
        return next(((type, until) for type, until in owed.items() if self.time.relied(type) < until), None)

    def _wait_for_ends(self, binding: Binding, ranges: Mapping[int, Span], outlook: Outlook) -> None:
        for leaf, (low, _) in ranges.items():
            until = low if outlook.fails_at is None else outlook.fails_at
            self._wait("end", binding.held[leaf][1].type, until, binding)

    def _wait(self, measure: str, type: str, until: int, binding: Binding) -> None:
        heappush(self._waiting.setdefault((measure, type), []), (until, binding.id))

    def again(self) -> None:
        """Build all bindings from the stored events again, as an event was withdrawn; say what differs from before."""
        given = {binding.id: binding for binding in self.bindings.values() if binding.given}
        self.bindings, self._of_event, self._waiting = {}, {}, {}
        before, self._standing = self._standing, {}
        said, self.said = self.said, []
        for opened in list(self.open.values()):
            self._combine(opened)
        now, self.said = self._standing, said
        shown = {binding.shown: binding for binding in (*given.values(), *self.bindings.values()) if binding.given}
        for each in (*before, *now):
            if (each in before) != (each in now):
                self.said.append((1 if each in now else -1, shown[each]))

    def take_up(self, known: Iterable[EventSoFar]) -> None:
        """Restore the events and open intervals of a saved state, whose answers were given before."""
        for event in known:
            self.add(event)
            if event.end is None:
                self.open[event.name] = event
        for opened in list(self.open.values()):
            self._combine(opened)
        self.said = []

    def owes(self, binding: Binding) -> dict[str, int]:
        """The debt of a binding: for each type the last tick that must be guaranteed before its match is certain."""
        trial, ranges = self.trials[binding.id[0]], self._ranges(binding)
        owed = {
            type: until
            for type, until in trial.owed(binding.held, ranges).items()
            if self.time.ending(type) < until
        } if all(low <= high for low, high in ranges.values()) else {}  # fmt: skip
        for leaf, (_, high) in ranges.items():
            type = binding.held[leaf][1].type
            owed[type] = max(high, owed.get(type, BEGINNING))
        return owed

    @property
    def standing(self) -> Iterator[Binding]:
        """The answers that were given, and whose intervals are open."""
        return (self.bindings[next(iter(several))] for several in self._standing.values() if several)


class _Time:
    """What may be relied upon, as the strategy lets time pass."""

    def __init__(self, begins: Begins, order: Strategy, held: frozenset[str], longest: Mapping[str, int]) -> None:
        self._begins, self._sorts, self._held, self.longest = begins, order.sorts, held, longest

    @property
    def clock(self) -> int:
        return self._begins.inner[0].clock

    def ending(self, type: str) -> int:
        """Every interval of a type that is to come ends after this."""
        return self._begins.guaranteed(type)

    def relied(self, type: str) -> int:
        """Up to when answers take the events of a type to be complete."""
        known = self.ending(type)
        return known if self._sorts or type in self._held else max(known, self.clock - 1)


class EarlyAnswers(Nesting):
    """Lets items pass one by one, and adds the early answers that each brings."""

    def __init__(
        self, begins: Begins, plans: Sequence[Plan], order: Strategy, reader: RowReader,
        functions: Mapping[str, Function], longest: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.inner: tuple[Begins, ...] = (begins,)
        self._begins, self._reader = begins, reader
        self.watches = [
            Watch(number, plan, functions, _Time(begins, order, order.held_types(types_of(plan)), longest))
            for number, plan in enumerate(plans)
            if plan.early
        ]
        self._names = AutoEids()
        self._payload = Payload(ordered=False)
        self._next = 0
        self._before: list[Items] = []  # events of the time before the first begin
        self._enough = MANY

    @property
    def counters(self) -> Counters:
        return self._begins.counters

    @property
    def texts_in_use(self) -> Ints:
        return joined([self._begins.texts_in_use, of_rows(self._before)])

    def push(self, items: Items) -> Changes:
        items = items.copy() if items.single else items  # type: ignore[attr-defined]  # `single`: it is a LentRow
        if not self._begins.used and (items.kinds is None or not (items.kinds > ItemKind.WITHDRAWAL).any()):
            found = self._begins.push(items)
            stays = np.ones(len(items), np.bool_)
            stays[list(found.late)] = False
            self._before.append(items if stays.all() else take(items, stays))
            self._forget_before()
            return found
        said, late, unended = Changes(), list[int](), list[Any]()
        for at in range(len(items)):
            found = self._one(take(items, np.array([at])))
            said.add(found)
            late += [at] if found.late else []
            unended += self._begins.unended
        self._begins.unended = unended
        said.late = late
        self._forget()
        return said

    def _forget_before(self) -> None:
        """Of the time before the first begin, only the last window is needed."""
        if len(self._before) < 64:
            return
        rows = join(self._before)
        floor = min(
            min(map(watch.time.ending, types_of(watch.plan))) - 3 * watch.width - watch._behind
            for watch in self.watches
        )
        self._before = [take(rows, rows.end >= floor)] if (rows.end >= floor).any() else []

    def _one(self, one: Items) -> Changes:
        """Let one item pass, and look at what it was."""
        kind = ItemKind.EVENT if one.kinds is None else ItemKind(one.kinds[0])
        name = (
            (int(one.eid_high[0]), int(one.eid_low[0]))
            if one.eid_high is not None and one.eid_low is not None
            else None
        )
        was_open, differing = name in self._begins.open, self._begins.counts["differing_begins"]
        found = self._begins.push(one)
        if self._begins.used and self._before:
            before, self._before = self._before, []
            for items in before:
                for each in self._known(items):
                    self._came(each)
        for unended in self._begins.unended:
            self._close(eid_number(unended.eid), None)
        match kind:
            case ItemKind.EVENT if int(one.types[0]) >= 0:
                same = self._begins.counts["differing_begins"] == differing and not found.late
                event = None if found.late else next(self._known(one))
                if was_open and name is not None:
                    self._close(name, event if same else None)
                if event is not None:
                    self._came(event)
            case ItemKind.BEGIN if name in self._begins.open and not was_open:
                self._came(next(self._known(one)))
            case ItemKind.WITHDRAWAL if not found.late:
                self._withdraw(name, one)
        for watch in self.watches:
            watch.advance()
        gone, told = self._answers()
        return Changes([*gone, *found.batches, *told], found.frontier, found.late)

    def _came(self, event: EventSoFar) -> None:
        for watch in self.watches:
            watch.came(event)

    def _close(self, name: Name, event: EventSoFar | None) -> None:
        for watch in self.watches:
            watch.closed(name, event)

    def _withdraw(self, name: Name | None, one: Items) -> None:
        place = (int(one.start[0]), int(one.end[0]))
        for watch in self.watches:
            gone = [each for each in watch.events.values() if each.name == name and (each.start, each.end) == place]
            for event in gone:
                watch.drop(event)
            if gone:
                watch.again()

    def _known(self, items: Items) -> Iterator[EventSoFar]:
        """Rows as events that are known; begins have no end."""
        rows = self._names.named(take(items, items.types >= 0))
        if not len(rows):
            return
        assert rows.eid_high is not None and rows.eid_low is not None
        kinds = [ItemKind.EVENT] * len(rows) if rows.kinds is None else rows.kinds.tolist()
        self._payload.add(self._next, replaced(rows, kinds=None), None, 0)
        batch = KeyedEvents(rows, self._next, (), self._reader.strings)
        self._next += len(rows)
        names = zip(rows.eid_high.tolist(), rows.eid_low.tolist(), strict=True)
        for (_, event), name, kind in zip(batch.events(self._reader.types), names, kinds, strict=True):
            end = None if kind == ItemKind.BEGIN else event.end
            yield EventSoFar(event.number, name, event.type, event.start, end, event.values)

    # --- answers -------------------------------------------------------------------------------------------------

    def _answers(self) -> tuple[list[EarlyRows], list[EarlyRows]]:
        """What is withdrawn, and what is told; the match of the same item stands between, which has the same id."""
        found: tuple[list[EarlyRows], list[EarlyRows]] = [], []
        for watch in self.watches:
            said, watch.said = watch.said, []
            for op, rows in zip((-1, 1), found, strict=True):
                mine = [each for each in said if each[0] == op]
                rows += [self._rows(watch, mine)] if mine else []
        return found

    def _rows(self, watch: Watch, said: Sequence[tuple[int, Binding]]) -> EarlyRows:
        plan = watch.plan
        place = {variable.name: at for at, variable in enumerate(plan.variables)}
        fixed = [np.full(len(said), -1, np.int64) for _ in plan.variables]
        for at, (_, binding) in enumerate(said):
            for var, event in binding.held.values():
                if var in place:
                    fixed[place[var]][at] = event.number
        ops = np.array([op for op, _ in said], np.int8)
        starts = [max(event.start for _, event in binding.held.values()) for _, binding in said]
        clocks = np.maximum(np.array(starts, np.int64), watch.time.clock)
        return EarlyRows(
            plan, ops, clocks, fixed, {}, self._payload.view([]), watch.functions, EARLY,
            stage=watch.number, owing=[watch.owes(binding) if op > 0 else {} for op, binding in said],
        )  # fmt: skip

    # --- what is kept --------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Purge events and their rows, each time that twice as many are stored as were left by the last purge."""
        for watch in self.watches:
            if len(watch.events) > watch.enough:
                watch.purge()
                watch.enough = max(FEW, 2 * len(watch.events))
        if self._payload.count < self._enough:
            return
        self._payload.keep(self._used)
        self._enough = max(MANY, 2 * self._payload.count)

    @property
    def kept(self) -> int:
        """How many events and open intervals are kept."""
        return self._payload.count + sum(map(len, self._before))

    def debts(self) -> Iterator[tuple[Plan, list[EventSoFar], dict[str, int]]]:
        """The answers that stand before their match: their events, and what is missing until they are certain."""
        for watch in self.watches:
            for binding in watch.standing:
                yield watch.plan, [event for _, event in binding.held.values()], watch.owes(binding)

    def eids(self, events: Sequence[EventSoFar]) -> list[Any]:
        """The eids of events as people see them."""
        numbers = np.array([event.number for event in events], np.int64)
        rows = self._payload.rows(np.sort(numbers))
        return list(rows.eids.take(pa.array(rows.at(numbers))).to_pylist()) if len(numbers) else []

    @property
    def _used(self) -> Ints:
        used = {number for watch in self.watches for number in watch.events}
        for watch in self.watches:
            for binding in watch.bindings.values():
                used.update(event.number for _, event in binding.held.values())
        return np.array(sorted(used), np.int64)

    # --- state ---------------------------------------------------------------------------------------------------

    def snapshot(self, since: int = 0) -> list[Part]:
        self._payload.keep(used := self._used)
        rows = self._payload.rows(used)
        known = {number: event for watch in self.watches for number, event in watch.events.items()}
        words = {
            "next": self._next,
            "known": [
                [each.number, each.type, each.start, each.end, dict(each.values)] for _, each in sorted(known.items())
            ],
        }
        own = (rows.numbers, rows.types, rows.start, rows.end, *rows.names)
        arrays: dict[str, Any] = dict(zip(OWN, own, strict=True)) | self._names.saved()
        tables = {"rows": rows.table} if len(used) else {}
        tables |= {f"before {at}": stored_rows(items) for at, items in enumerate(self._before)}
        return [
            Part("early", 0, encode("early", words, tables, arrays)),
            *nested("begins", self._begins.snapshot(since)),
        ]

    def restore(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        stored = decode(only_part("early", parts).data, "early")
        with reading():
            payload, chunk = Payload(ordered=False), kept_rows(stored, self._reader.types)
            columns = [stored.arrays[name].tolist() for name in ("numbers", "high", "low")]
            names = {number: (high, low) for number, high, low in zip(*columns, strict=True)}
            words = as_shape(SavedEvents, stored.words["known"])
            known = [EventSoFar(number, names[number], *rest) for number, *rest in words]
            if not all(map(self._is_read, known)):
                raise ValueError("early answers need events that are not there")
            if chunk is not None:
                payload.chunks.append(chunk)
                payload.has_eid = True
            before = self._reader.all(table for name, table in stored.tables.items() if name.startswith("before "))
            following = as_shape(int, stored.words["next"])
        self._begins.restore(within("begins", parts))
        self._payload, self._before, self._next = payload, before, following
        self._names.restore(stored.arrays)
        for watch in self.watches:
            watch.take_up(known)

    def _is_read(self, event: EventSoFar) -> bool:
        """Whether a stored event has values of the kinds that the queries know."""
        fields = {attr: self._reader.schema.field(event.type, attr) for attr in event.values}
        kinds = {attr: field.kind for attr, field in fields.items() if field is not None}
        return all(fits(kinds[attr], event.values[attr]) for attr in kinds)
