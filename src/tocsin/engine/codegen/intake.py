"""The kernel: take the rows of a batch, store each event at its leaves, and ask for answers."""

from __future__ import annotations

from tocsin.engine.codegen.block_facts import is_terminal
from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.levels import Levels
from tocsin.engine.codegen.nest import Nest
from tocsin.engine.codegen.program import DELTA, MASK_BITS, NEW, STATE, WHOLE, WITHDRAWN
from tocsin.engine.codegen.row_words import (
    CAN_BE_LAST,
    IS_COVERED,
    IS_INSIDE,
    IS_STORED,
    KEY,
    LEVEL,
    PLACE,
    bounds_at,
    key_at,
    level_of,
    pin_at,
    place_of,
)
from tocsin.engine.codegen.snippets import arrays
from tocsin.engine.codegen.source import SourceText
from tocsin.engine.codegen.tails import Tails
from tocsin.engine.derive import native
from tocsin.engine.too_late import EARLIEST
from tocsin.plan.block import After, Before, Leaf, Point
from tocsin.plan.expr import Agg, Bound, leaves, walk
from tocsin.plan.facts import overhangs
from tocsin.plan.rewrite import blocks_below


class Intake:
    """kernel() and answers()."""

    def __init__(self, layout: Layout, source: SourceText, levels: Levels, nest: Nest, tails: Tails) -> None:
        self.layout, self.source, self.tails = layout, source, tails
        self.levels, self.nest = levels, nest
        self.emit, self.lines = source.emit, source.lines

    def batch_args(self) -> list[str]:
        names = ["types", "end"]
        names += ["start"] if self.layout.shape.intervals else []
        names += ["high", "low"] if self.layout.shape.eids else []
        return names + [f"c{number}" for number, _, _ in self.layout.columns.values()]

    def write_kernel(self) -> None:
        """def kernel(i, n, base, <batch>, <state>): take rows i..n of a batch, whose events are numbered from base.

        That is for input without nulls and withdrawals, which pays nothing for them; careful(), the same with one more
        column, `marks`, is for all other.
        """
        self.source.without_nulls = True
        self._entry_point("kernel", self.batch_args())
        self.source.without_nulls = False
        if self.layout.marks:
            self._entry_point("careful", [*self.batch_args(), "marks"])

    def _entry_point(self, name: str, columns: list[str]) -> None:
        self.lines("@entry", f"def {name}(i, n, base, {arrays(', '.join(columns))}, state):")
        with self.source.writer.indented():
            self.source.pointers(columns)
            self.source.open_state()
            if not self.source.without_nulls:
                self.emit("marked = T[MARKED]")
            self._rows()
        self.emit("")

    def _rows(self) -> None:
        """The loop over rows, to the end of the function."""
        self.lines(
            "clock = T[CLOCK]",
            "ordered = T[ORDERED] != 0",
            "phase = T[PHASE]",
            "local = T[TYPES_AT]",
            "span = T[SPAN]",
            "slack = T[SLACK]",
            "bounded = slack < UNLIMITED",
            "T[PHASE] = 0",
            "rows = T[OUT_N]",
            "members = T[MEM_N]",
            "while i < n:",
        )
        with self.source.writer.indented():
            self._row_head()
            for number, type in enumerate(self.layout.types):
                self.emit(f"{'if' if number == 0 else 'elif'} ty == {number}:")
                with self.source.writer.indented():
                    self.emit("if phase == 0:")
                    with self.source.writer.indented():
                        self._store_type(type)
                    self._answer_type(type)
            self._row_tail()
        self.lines("T[CLOCK] = clock", "T[ROW] = n", "return DONE")

    @property
    def _withdraws(self) -> bool:
        """Whether a row of the loop that is being written may be a withdrawal."""
        return self.layout.shape.eids and not self.source.without_nulls

    def _row_head(self) -> None:
        self.lines(
            "e = end[i]",
            "ty = int(types[i])",
            "if ty >= 0:",
            "    ty = T[local + ty]",
            "late = e < clock",
            *(["if e > clock:", "    T[MOVED] = 1"] if self.layout.holds else []),
            f"if ty < 0 or e < {EARLIEST}:",
            "    if ty >= 0:",
            "        T[LATE] += 1",
            "    clock = max(clock, e)",
            "    i += 1",
            "    continue",
            "clock = max(clock, e)",
            f"s = {'start[i]' if self.layout.shape.intervals else 'e'}",
            "number = base + i",
            "sign = 1",
            "good = True",
        )
        if self._withdraws:  # what stood before a withdrawal is judged again, as after a late event
            self.lines(f"if marked != 0 and {self.source.mark(WITHDRAWN)} != 0:", "    sign = -1", "    late = True")
        if self.layout.waits:
            self.lines("if T[IMMEDIATE] != 0:", "    late = True")  # nothing waits, so any event may correct
        if self.layout.holds and self._withdraws:  # what it has refuted goes before it, or would be held twice
            self.lines(
                "if sign < 0 and phase == 0 and T[WAITING] + T[ASIDE] > 0:",
                "    T[ASK] = 1",
                "    ask_again(-1, S)",
                "    T[ASK] = 0",
            )
        if self.layout.waits:  # what was due before a late event must be answered before it can be corrected
            if self.layout.holds:
                self.lines("T[CLOCK] = clock", "if phase == 0 and T[MOVED] != 0 and is_due(T, PD):")
            else:
                self.lines("if phase == 0 and (late or T[WAITING] > 0 and not ordered):")
                self.lines("    T[CLOCK] = clock")
            self.lines(
                "    if due(S) != DONE:",
                "        T[ROW] = i",
                "        return OUT_FULL",
                "    rows = T[OUT_N]",
                "    members = T[MEM_N]",
            )
        if (
            self.layout.span() is not None
        ):  # in order, what waits is answered between batches only, and keeps its events
            self.lines(f"if {'bounded and not ordered' if self.layout.waits else 'bounded'}:")
            self.lines(f"    T[HORIZON] = max(T[HORIZON], {EARLIEST} - span)")

    def _row_tail(self) -> None:
        self.lines(
            "if not good:",
            "    T[OUT_N] = rows",
            "    T[MEM_N] = members",
            "    T[FRESH] = 0",
            "    T[PHASE] = 1",
            "    T[CLOCK] = clock",
            "    T[ROW] = i",
            "    return OUT_FULL",
            "phase = 0",
            "rows = T[OUT_N]",
        )
        if self.nest.sets:
            self.emit("members = T[MEM_N]")
        if self._withdraws:
            self.emit("if sign < 0:")
            with self.source.writer.indented():
                self._each_leaf(
                    f"if {IS_STORED}:",
                    f"    d = {KEY} * {len(self.layout.buffers)} + leaf",
                    f"    remove({self.layout.place_args}, D, N, d, {PLACE})",
                )
        if self.layout.waits:
            self.lines("if T[FRESH] > 0:", "    T[HELD] += T[FRESH]", "    wait(T, PD)")
        if self.layout.holds and self._is_prompt:
            self._ask_held()
        self.emit("i += 1")

    @property
    def _is_prompt(self) -> bool:
        """Whether an event can settle what is held, or clear what it had failed by: else that shows in its time."""
        return self.nest.sets or any(part.block.forbidden for part in self.layout.root.forbidden)

    def _ask_held(self) -> None:
        """An event at a forbidden or repeated leaf: ask what is held under its key again."""
        everywhere = "-1" if self.layout.keys else "0"
        self.emit("if T[WAITING] + T[ASIDE] > 0:")
        with self.source.writer.indented():
            self._each_leaf(
                f"if {IS_INSIDE}:",
                f"    ask_again({KEY} if {IS_COVERED} else {everywhere}, S)",
            )

    def _each_leaf(self, *lines: str) -> None:
        """A loop over the leaves that an event of the row's type may fill."""
        self.lines("at = T[LEAVES_AT] + ty", "at = T[at]", "while T[at] >= 0:", "    leaf = T[at]", "    at += 1")
        with self.source.writer.indented():
            self.lines(*lines)

    def _store_type(self, type: str) -> None:
        """Decide which leaves take the event and make room there (repeatable), then store it (once)."""
        places = self.layout.places_of(type)
        for leaf, alternative in places:
            self._admit(leaf, alternative, only=len(places) == 1)
        for leaf, alternative in places:
            self._store(leaf, alternative, only=len(places) == 1)
        if len(places) > 1:  # an event is relevant once, at however many leaves it stands
            stored = " or ".join(f"{place_of(self.layout.number[leaf.id])} >= 0" for leaf, _ in places)
            self.lines(f"if {stored}:", "    T[RELEVANT] += 1")

    def _admit(self, leaf: Leaf, alternative: int, *, only: bool) -> None:
        """take_7: whether leaf 7 takes the event. Where several leaves may, room is made in all before any stores."""
        id, keys = leaf.id, self._key_columns(leaf.id)
        self.source.batch = id
        conditions = [self.source.scribe.true(where) for where in leaf.alts[alternative].where]
        self.source.batch = None
        given = self.source.are_given(self.layout.keys.get(id, ()))
        known = [given] if given else []
        window = self.layout.within
        if id in self.layout.nest and self.layout.shape.intervals and window is not None:
            known.append(f"e - s <= {self.levels.ticks(window)}")  # what is longer stands in no match
        known += [f"c{column}[i] == c{column}[i]" for column, is_float, _ in keys if is_float]  # NaN equals nothing
        self.emit(f"{place_of(self.layout.number[id])} = -1")
        self.emit(f"take_{id} = {' and '.join(known + conditions) or 'True'}")
        self._words_of_floats(id)
        if len(keys) > 1:
            self._prefix(id, keys)
        self._promising(leaf)
        if not only:
            self.emit(f"if take_{id}:")
            with self.source.writer.indented():
                self.emit(f"key = ready({self._entry(id)})")
                self._give_up("key")

    def _promising(self, leaf: Leaf) -> None:
        """In order, keep an event only if an earlier event of the leaf before it agrees with it on their predicates.

        Such a look at arrival saves many at the end; `weigh` gives it up where most events pass it anyway.
        """
        id, before = leaf.id, self._before(leaf.id)
        if before is None or len(leaf.alts) > 1 or self._unstored(id):
            return
        shared = [p for p in self.layout.root.predicates if leaves(p) == {id, before} and self._is_native(p)]
        if not shared:
            return
        number, keys = self.layout.number[id], self._key_columns(id)
        low = "-FAR" if self.layout.within is None else "e - T[PARAMS]"
        self.emit(f"if take_{id} and ordered and T[EAGER + {number}] != 0:")
        with self.source.writer.indented():
            self.lines(f"take_{id} = False", "key = 0")
            if keys:
                prefix = f"pre_{id}" if len(keys) > 1 else "0"
                self.emit(f"key = key_of(T, KM, {prefix}, {self._key_word(id, keys[-1])})")
            self.lines(f"d_{before} = {self.levels.buffer(before)}", f"if N[d_{before}] >= {low}:")
            with self.source.writer.indented():
                starts_after = self.layout.root_order.implies(Point(before, "end"), Point(id, "start"), strict=True)
                ends = f"D[4 * d_{before} + 1], D[4 * d_{before} + 2], {low}, {'s' if starts_after else 'e'} - 1"
                self.emit(f"i_{before}, b_{before} = between(H, {self.layout.words}, {ends})")
                self.emit(f"i_{before} -= 1")
                self.emit(f"while i_{before} + 1 < b_{before} and not take_{id}:")
                with self.source.writer.indented():
                    self.emit(f"i_{before} += 1")
                    self.source.batch = id
                    self.source.tests(shared, "continue")
                    self.source.batch = None
                    self.emit(f"take_{id} = True")
            self.emit(f"weigh(T, {number}, take_{id})")

    def _is_native(self, expr: Bound) -> bool:
        return all(native(node, self.layout.inline) and not isinstance(node, Agg) for node in walk(expr))

    def _give_up(self, status: str) -> None:
        self.lines(f"if {status} < -1:", "    T[CLOCK] = clock", "    T[ROW] = i", f"    return -{status}")

    def _key_columns(self, id: int) -> list[tuple[int, bool, bool]]:
        return [self.layout.columns[attr] for attr in self.layout.keys.get(id, ())]

    def _key_word(self, id: int, column: tuple[int, bool, bool]) -> str:
        """A part of the key of the row's event as a whole number."""
        number, is_float, _ = column
        return f"word_{id}_{number}" if is_float else f"c{number}[i]"

    def _words_of_floats(self, id: int) -> None:
        """The bits of floats in a key: equal floats have equal bits once -0.0 is 0.0; the scratch place turns them."""
        scratch = self.layout.number[id] * self.layout.words
        for number, is_float, _ in self._key_columns(id):
            if is_float:
                self.lines(f"HF[{scratch}] = c{number}[i] + 0.0", f"word_{id}_{number} = H[{scratch}]")

    def _prefix(self, id: int, keys: list[tuple[int, bool, bool]]) -> None:
        """All parts of a key but the last, as one code."""
        self.lines(f"pre_{id} = 0", f"if take_{id}:")
        with self.source.writer.indented():
            for column in keys[:-1]:
                word = self._key_word(id, column)
                self.emit(f"pre_{id} = new_key(T, KM, D, {len(self.layout.buffers)}, pre_{id}, {word})")
                self.lines(f"if pre_{id} < 0:", "    T[CLOCK] = clock", "    T[ROW] = i", "    return KEYS_FULL")

    def _entry(self, id: int) -> str:
        """Arguments that lead to the buffer of an event."""
        keyed = self._key(id)
        leaf = f"{len(self.layout.buffers)}, {self.layout.number[id]}"
        return f"T, {self.layout.place_args}, D, N, KM, {leaf}, {self._predecessor(id)}, {keyed}"

    def _key(self, id: int) -> str:
        keys = self._key_columns(id)
        if not keys:
            return "False, 0, 0"
        return f"True, {f'pre_{id}' if len(keys) > 1 else '0'}, {self._key_word(id, keys[-1])}"

    def _predecessor(self, id: int) -> int:
        before = self._before(id)
        return -1 if before is None else self.layout.number[before]

    def _before(self, id: int) -> int | None:
        """A root leaf that must end before this one does: in ordered input, without one the event is useless.

        One that must end before this one starts, if there is one; else the last of those that must end before its end.
        """
        for order in self.layout.root.order if id in self.layout.nest else ():
            ends_before = (order.left.which, order.right.which) == ("end", "start")
            if order.strict and order.right.leaf == id and ends_before and self._same_key(order.left.leaf, id):
                return order.left.leaf
        earlier = [other for other in self._ending_before(id) if self._same_key(other, id)]
        return next((x for x in earlier if not any(x in self._ending_before(y) for y in earlier)), None)

    def _same_key(self, one: int, other: int) -> bool:
        return (one in self.layout.keys) == (other in self.layout.keys)

    def _ending_before(self, id: int) -> list[int]:
        """The root leaves whose events end before those of this one, by what its comparisons imply."""
        if id not in self.layout.nest:
            return []
        end = Point(id, "end")
        implies = self.layout.root_order.implies
        return [other for other in self.layout.nest if other != id and implies(Point(other, "end"), end, strict=True)]

    def _unstored(self, id: int) -> bool:
        """In ordered input the last event of a pattern is needed only at its own arrival, and to know it again.

        Li 2010 calls that purge after use.
        """
        if self.layout.waits or id not in self.layout.nest or self.layout.shape.eids:
            return False
        return len(self._ending_before(id)) == len(self.layout.nest) - 1

    def _store(self, leaf: Leaf, alternative: int, *, only: bool) -> None:
        id = leaf.id
        eid = f"high[i], low[i]{self._alternative_mark(alternative)}" if self.layout.shape.eids else "0, 0"
        event = f"e, s, {eid}, {self.layout.row_start}, {self.layout.row_eid}"
        keep = "not ordered" if self._unstored(id) else "True"
        if self._withdraws:
            number = self.layout.number[id]
            where = f"T, {self.layout.place_args}, D, KM, {len(self.layout.buffers)}, {number}, {self._key(id)}"
            self.lines(f"if sign < 0 and take_{id}:", f"    withdraw({where}, {event})")
            if self.layout.tail_level >= 0:
                self.emit("    T[TAILS_FROM] = T[TAILS]")
        self.emit(f"{'elif' if self._withdraws else 'if'} take_{id}:")
        with self.source.writer.indented():
            self.emit(f"place = enter({self._entry(id)}, number, {event}, {keep})")
            if only:
                self._give_up("place")
            self.emit("if place >= 0:")
            with self.source.writer.indented():
                if only:
                    self.emit("T[RELEVANT] += 1")
                self._fill(leaf, alternative)
                self.tails.stored(id)

    def _alternative_mark(self, alternative: int) -> str:
        """Events of two types are two events, also at one leaf, where only eids and times are compared."""
        return f" ^ {alternative * 2654435761}" if alternative else ""

    def _fill(self, leaf: Leaf, alternative: int) -> None:
        """The attributes that predicates will read, and the masks that say which of them are null."""
        absent: dict[int, int] = {}  # by mask word: the attributes of other alternatives
        given: dict[int, list[str]] = {}  # and those that this row may lack
        for (var, attr), kept in self.layout.stored[leaf.id].items():
            word, bit = divmod(kept.bit or 0, MASK_BITS)
            if kept.bit is not None:
                absent.setdefault(word, 0)
            if not var:  # words of our own: the others are written when members are looked at
                self.emit(f"{self.source.kept(kept, 'place')} = {alternative if attr == '$alt' else 0}")
                continue
            if var != leaf.alts[alternative].var:
                absent[word] |= 1 << bit
                continue
            self.emit(f"{self.source.kept(kept, 'place')} = c{self.layout.columns[attr][0]}[i]")
            if attr in self.layout.marks and kept.bit is not None and not self.source.without_nulls:
                given.setdefault(word, []).append(f"int({self.source.mark(attr)}) * {1 << bit}")
        for word, bits in absent.items():
            self.emit(f"H[place * {self.layout.words} + {self.layout.row_nulls + word}] = {bits}")
        if given:
            self.emit("if marked != 0:")
        for word, marks in given.items():  # sums, not branches: a hundred attributes must not take minutes to compile
            self.emit(f"    H[place * {self.layout.words} + {self.layout.row_nulls + word}] += {' + '.join(marks)}")
        self.emit("pass")

    def _answer_type(self, type: str) -> None:
        """In order, only an event that can come last has answers; with one such leaf the nest stands right here."""
        places = [leaf.id for leaf, _ in self.layout.places_of(type)]
        last = [id for id in self.layout.nest if is_terminal(self.layout.root, id)]
        slow = "good = answers(ty, number, late, sign, e, s, S)"
        if len(last) == 1 and places == last:
            number, level = self.layout.number[last[0]], self.layout.nest.index(last[0])
            self.lines(
                "T[CLOCK] = clock",
                "if late:",
                f"    {slow}",
                f"elif {place_of(number)} >= 0:",
                "    T[SIGN] = 1",
                f"    {pin_at(level)} = {place_of(number)}",
                f"    good = {self._straight(f'{NEW}, number, {key_at(number)}, -FAR, FAR')}",
                f"    {pin_at(level)} = -1",
            )
        elif any(id in last for id in places):
            self.lines("T[CLOCK] = clock", slow)
        else:
            self.lines("if late:", "    T[CLOCK] = clock", f"    {slow}")

    def _straight(self, arguments: str) -> str:
        """The nest inside the loop over rows that knows no nulls: there it reads no masks."""
        return f"nest({arguments}, ({STATE}, 0))" if self.source.without_nulls else f"again({arguments}, S)"

    def write_answers(self) -> None:
        """def answers(...): pin the event to each root leaf that took it; judge again what a late one can change."""
        self.lines("@compiled", "def answers(ty, number, late, sign, e, s, S):")
        self.source.declared.append(("answers", "iibiiiS"))
        with self.source.writer.indented():
            self.lines(f"{WHOLE} = S", "T[SIGN] = sign", "good = True")
            if self.layout.shape.eids:
                self.emit("if sign < 0:")
                with self.source.writer.indented():
                    self._each_leaf(f"if {IS_STORED}:", f"    number = H[{PLACE} * {self.layout.words} + 1]")
            self._each_leaf(
                f"level = {LEVEL}",
                f"if good and level >= 0 and {IS_STORED} and (late or {CAN_BE_LAST}):",
                f"    {pin_at('level')} = {PLACE}",
                f"    good = again({NEW}, number, {KEY}, -FAR, FAR, S)",
                f"    {pin_at('level')} = -1",
            )
            if self.layout.changeable:
                certain = " and (T[CERTAIN] == 0 or sign < 0)" if self.layout.holds else ""
                self.emit(f"if good and late{certain}:")
                with self.source.writer.indented():
                    self._changed()
            if self.layout.holds:
                self._disturb()
            self._count_late()
            self.emit("return good")
        self.emit("")

    def _disturb(self) -> None:
        """Held answers under the keys of a late event must be judged again before they are given."""
        if self.layout.shape.eids:
            self.lines("if sign < 0:", "    disturb(T, -1)")
        key = f"{KEY} if {IS_COVERED} else -1" if self.layout.keys else "0"
        self._each_leaf(f"if {IS_INSIDE}:", f"    disturb(T, {key})")

    def _count_late(self) -> None:
        """Events behind the clock, once each: those at root leaves and all others."""
        self.emit("if good and e < T[CLOCK]:")
        with self.source.writer.indented():
            self.lines("positive = 0", "negative = 0")
            self._each_leaf(
                f"if {IS_STORED}:",
                f"    if {LEVEL} >= 0:",
                "        positive = 1",
                "    else:",
                "        negative = 1",
            )
            self.lines("T[LATE_POSITIVE] += positive", "T[LATE_NEGATIVE] += negative")

    def _changed(self) -> None:
        """A late event at a forbidden or repeated leaf: judge again the bindings it can change, each key once."""
        window = self.layout.within is not None
        before, after = (f" {sign} {self.levels.ticks(ticks)}" if ticks else ""
                         for sign, ticks in zip("+-", overhangs(self.layout.root), strict=True))  # fmt: skip
        self.emit(f"vlow = {f'e - T[PARAMS]{after}' if window else '-FAR'}")
        self.emit(f"vhigh = {f's + T[PARAMS]{before}' if window else 'FAR'}")
        self.lines("everywhere = False", "key = 0")
        self._around()
        if not self.layout.keys:
            self._each_leaf(f"if {IS_INSIDE}:", "    everywhere = True")
            self.lines("if everywhere:", f"    good = again({DELTA}, number, 0, vlow, vhigh, S)")
            return
        self._each_leaf(f"if {IS_INSIDE} and not {IS_COVERED}:", "    everywhere = True")
        self.lines(
            "if everywhere:",
            "    for key in range(1, T[KEYS]):",
            f"        good = good and again({DELTA}, number, key, vlow, vhigh, S)",
        )
        self._each_leaf(
            f"if good and not everywhere and {IS_INSIDE}:",
            f"    key = {KEY}",
            "    back = T[T[LEAVES_AT] + ty]",
            "    fresh = True",
            "    while T[back] != leaf:",
            "        other = T[back]",
            f"        if {level_of('other')} < 0 and {place_of('other')} >= 0 and {key_at('other')} == key:",
            "            fresh = False",
            "        back += 1",
            "    if fresh:",
            f"        good = again({DELTA}, number, key, vlow, vhigh, S)",
        )

    def _around(self) -> None:
        """Where a binding must lie that the event can change: around the scopes of the leaves that took it."""
        for level in range(len(self.layout.nest)):
            lows, highs = bounds_at(level)
            self.lines(f"{lows} = FAR", f"{highs} = -FAR")
        scopes = [
            (part.scope, each.leaves, each is part.block or overhangs(part.block) == (0, 0))
            for part in self.layout.root.forbidden
            for each in blocks_below(part.block)
        ]
        scopes += [(dict(self.layout.root.scopes)[leaf.id], (leaf,), True) for leaf in self.layout.root.repeated]
        for scope, inside, is_inside in scopes:  # by a FOR of its own, a part looks at events outside of its scope
            taken = " or ".join(f"{place_of(self.layout.number[leaf.id])} >= 0" for leaf in inside)
            self.emit(f"if {taken}:" if taken else "if False:")
            with self.source.writer.indented():
                for level, leaf in enumerate(self.layout.nest):
                    before = is_inside and isinstance(scope.low, After) and leaf in scope.low.leaves
                    after = is_inside and isinstance(scope.high, Before) and leaf in scope.high.leaves
                    low, high = "e + 1" if after else "-FAR", "s - 1" if before else "FAR"
                    lows, highs = bounds_at(level)
                    self.lines(f"{lows} = min({lows}, {low})", f"{highs} = max({highs}, {high})")
