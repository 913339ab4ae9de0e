"""The function of a statement: stage by stage in canonical order, as `staged/machine` does it, written out.

It takes rows (type, start, end, Nulls, attributes), works in records, and gives rows of output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from tocsin.lang.staged_syntax import AggregateOf, AttrOf, EventsOf, KeyRange, PartitionKey, StableTime, TimeOf, parts
from tocsin.schema import Field, Kind
from tocsin.staged.compiled.columns import Pushing, RunningSelectWriter, SelectWriter
from tocsin.staged.compiled.expressions import (
    Known,
    Truth,
    Value,
    attribute,
    both,
    either,
    truth,
    value,
)
from tocsin.staged.compiled.layout import NotCompiledError, RowRole, WordLayout
from tocsin.staged.compiled.library import (
    ABSENT,
    COUNT,
    END,
    ENDS,
    FIRST,
    GROWING,
    HEAD,
    HOME,
    LAST,
    NEXT,
    OF_LIST,
    ONCE_KEY,
    ONCE_SIZE,
    PREV,
    ROOM,
    ROW,
    SETS,
    START,
    TAIL,
    TICKS,
    VALUE_SIZE,
    WHOLE,
)
from tocsin.staged.compiled.running import LATEST_START, RunningAggregate, RunningAggregates
from tocsin.staged.compiled.search import Bound, SearchWriter, each_of_set
from tocsin.staged.compiled.writer import REALS, TextWriter
from tocsin.staged.options import Waking
from tocsin.staged.spots import PatternSpot

WORDS = {"tick": str(TICKS), "absent": str(ABSENT), "whole": str(WHOLE), "every": str(WHOLE)}  # what stands in a match
NO_LENGTHS: Mapping[str, int] = {}
GIVEN = ("X", "C", "P", "K")  # arrays: events, codes of texts, numbers that outlast a call, a key


@dataclass(frozen=True, slots=True)
class StageFunction:
    """The text of a function, and what its host must know."""

    source: str
    layout: WordLayout


def program_of(
    statement: Any, fields: Mapping[str, Field], unit: str | None, kinds: Sequence[Kind],
    longest: Mapping[str, int] = NO_LENGTHS,
) -> StageFunction:  # fmt: skip
    """Write the function of a statement; raises NotCompiledError with the reason if that cannot be done."""
    layout = WordLayout(statement, fields, unit, longest)
    source = _StageWriter(layout, kinds).text()
    return StageFunction(source, layout)


class _StageWriter:
    def __init__(self, layout: WordLayout, kinds: Sequence[Kind]) -> None:
        self.layout, self.kinds, self.write = layout, kinds, TextWriter()
        self.statement, self.words = layout.statement, layout.words
        self.width = len(layout.places_of)
        self._stage_time = "now"

    def text(self) -> str:
        write = self.write
        for name, at in (*self.words.items(), ("XW", ROW + len(self.layout.attrs))):
            write(f"{name} = {at}")
        write("", "")
        arrays = (*GIVEN, *GROWING)
        with write.block(f"def stages(n, until, {', '.join(f'{name}A' for name in arrays)}, host):"):
            write(*(f"{name} = pointer({name}A)" for name in arrays))
            write(*(f"{seen} = reals({name})" for name, seen in REALS.items()))
            write(*(f"{name}N = P[{ROOM + at}]" for at, name in enumerate(GROWING)))
            write("i = 0", "vn = 0", "un = 0", "en = 0", "matched = 0", "c = -1", "loc = 0", "lk = 0", "g = -1")
            for number in self.layout.places_of:
                write(f"x{number} = -1")
            for spot in self.layout.ticking:
                if spot.operator == "At":
                    write(f"at_{spot.number} = P[CLOCK]")
            with write.block("while True:"):
                self._next_stage()
                self._stage()
                write("i = j")
        return write.text

    def _next_stage(self) -> None:
        write = self.write
        write("j = i")
        header = "if"
        if self.layout.timed:
            with write.block("if P[TIMERS] > 0 and Q[0] <= until and (i == n or Q[0] < X[i * XW + 2]):"):
                write("now = Q[0]")
            header = "elif"
        with write.block(f"{header} i < n:"):
            write("now = X[i * XW + 2]")
            with write.block("while j < n and X[j * XW + 2] == now:"):
                write("j += 1")
        with write.block("else:"):
            write("break")

    def _stage(self) -> None:
        write, layout = self.write, self.layout
        with write.block("if P[IS_CREATED] == 0:"):
            write("P[IS_CREATED] = 1", "P[CREATED] = now")
            if not layout.g:
                self._new_partition()
                write("P[UNIVERSAL] = g")
        write("P[CLOCK] = now", "P[STAGE] += 1", "stage = P[STAGE]", "first_row = P[OUT_N]", "rough = False")
        most = max(len(roles) for roles in layout.roles.values())
        with write.block(f"if {3 * most} * (j - i) > WN:"):
            write.more("W", f"{3 * most} * (j - i)")
        write("t = 0", "hn = 0")
        with write.block("for r in range(i, j):"):
            write("kind = X[r * XW + 0]")
            for at, type in enumerate(layout.types):
                with write.block(f"if kind == {at}:"):
                    self._touches(layout.roles[type])
        if self.layout.timed:
            with write.block("while P[TIMERS] > 0 and Q[0] <= now:"):
                write("g = Q[1]", "drop_timer(Q, P)")
                with write.block("if D[g + G_ALIVE] == 1:"):
                    self._touch()
        with write.block("for h in range(hn):"):
            write("g = H[3 * h]", "rows_of_g = H[3 * h + 1]", "first_of_g = P[OUT_N]")
            self._partition()
            self._arrange("first_of_g")
            with write.block("for m in range(first_of_g, P[OUT_N]):"):
                write(f"O[m * {layout.row} + 3] = m - first_of_g")
        write("P[NUMBER] += j - i")
        if layout.g and any(length is not None for length in layout.ranges):
            self._sweep()
        if layout.g:
            with write.block("if not rough:"):
                self._arrange("first_row")
        with write.block("if rough:"):
            write("P[UNSORTED] = 1")
            with write.block("for m in range(first_row, P[OUT_N]):"):
                write(f"O[m * {layout.row} + 3] = -1")

    def _arrange(self, first: str) -> None:
        """Write the sorting of the rows of one stage; `rough` tells the host that it must sort them."""
        reals = sum(1 << at for at, kind in enumerate(self.kinds) if kind is Kind.FLOAT)
        text = f"arranged(O, OR, {first}, P[OUT_N], {self.layout.row}, {self.layout.head}, {reals})"
        with self.write.block(f"if P[OUT_N] - {first} > 1:"):
            self.write("rough = True" if Kind.TEXT in self.kinds else f"rough = rough or not {text}")

    # --- records ---

    def _allocate(self, name: str, free: str, size: str | int) -> None:
        write = self.write
        write(f"{name} = P[{free}]")
        with write.block(f"if {name} >= 0:"):
            write(f"P[{free}] = D[{name}]")
        with write.block("else:"):
            write(f"{name} = P[TOP]", f"P[TOP] += {size}")
            with write.block("if P[TOP] > DN:"):
                write.more("D", "P[TOP]")

    def _free(self, name: str, free: str) -> None:
        self.write(f"D[{name}] = P[{free}]", f"P[{free}] = {name}")

    def _new_partition(self) -> None:
        write = self.write
        self._allocate("g", "FREE_PARTITION", "G_SIZE")
        for name, word in (("G_AT", 0), ("G_ALIVE", 1), ("G_FIRST", -1), ("G_LAST", -1), ("G_SEEN", -1)):
            if name in self.words:
                write(f"D[g + {name}] = {word}")
        if self.layout.starts:
            lasts = [last for last in self.layout.lasts if last is not None]
            with write.block(f"if {both(*(f'P[CREATED] + {last} >= now' for last in lasts))}:"):
                self._open("P[CREATED]", -1)

    def _open(self, time: str, opener: int) -> None:
        """Open a context in g."""
        write = self.write
        self._allocate("c", "FREE_CONTEXT", "C_SIZE")
        write(f"D[c + C_OPENED] = {time}", f"D[c + C_OPENER] = {opener}", "D[c + C_LOCALS] = -1")
        if self.layout.terms:
            write("D[c + C_CLOSED] = -1")
        if self.layout.shows_openers:
            self._no_list("c + C_OPENERS")
        if self.layout.delays:
            write("D[c + C_RUN] = -1", "D[c + C_LAST_RUN] = -1")
        if self.layout.many:
            write("D[c + C_NEXT] = -1", "D[c + C_PREV] = D[g + G_LAST]")
            with write.block("if D[g + G_LAST] == -1:"):
                write("D[g + G_FIRST] = c")
            with write.block("else:"):
                write("D[D[g + G_LAST] + C_NEXT] = c")
            write("D[g + G_LAST] = c")
        else:
            write("D[g + G_FIRST] = c")
        for last in self.layout.lasts:
            if last is not None:
                self._set_timer(f"{time} + {last}")
        for spot in self.layout.ticking:
            self._set_timer(self._next_tick(spot, time, f"max(now - 1, {time})"))

    def _next_tick(self, spot: PatternSpot, opened: str, after: str) -> str:
        """The first time after another at which a tick happens in a context that is open by then."""
        length = self.layout.lengths[spot.number]
        if not length:
            return f"called(host, {self.layout.calendar(spot)}, {after})"
        return f"{opened} + (({after} - {opened}) // {length} + 1) * {length}"

    def _set_timer(self, due: str) -> None:
        with self.write.block("if 2 * (P[TIMERS] + 1) > QN:"):
            self.write.more("Q", "0")
        self.write(f"set_timer(Q, P, {due}, g)")

    def _no_list(self, at: str) -> None:
        self.write(f"D[{at} + {HEAD}] = -1", f"D[{at} + {TAIL}] = -1", f"D[{at} + {COUNT}] = 0")
        if self.layout.counts_ends:
            self.write(f"D[{at} + {ENDS}] = 0")

    def _node(self, name: str, row: str) -> None:
        """A node with the event of a row."""
        write = self.write
        self._allocate(name, "FREE_NODE", self.layout.node)
        write(f"D[{name} + 2] = 0", f"D[{name} + 3] = P[NUMBER] + {row} - i")
        with write.block(f"for k in range({3 + len(self.layout.attrs)}):"):
            write(f"D[{name} + 4 + k] = X[{row} * XW + 1 + k]")

    # --- rows and their partitions ---

    def _read(self, row: str) -> Any:
        """How names in a condition of a role are read from a row."""

        def found(node: object) -> Known:
            match node:
                case AttrOf():
                    known: Known = self._of_row(row)(node.attr)
                    return known
                case TimeOf():
                    return Value(f"X[{row} * XW + {1 if node.which == 'start-ts' else 2}]", attr="time")
                case StableTime():
                    return Value(self._stage_time, attr="time")
            raise NotCompiledError("a condition of a role about others")

        return found

    def _of_row(self, row: str) -> Any:
        return lambda attr: attribute(
            self.layout, attr, f"X[{row} * XW + 4 + {{}}]", f"XR[{row} * XW + 4 + {{}}]", f"X[{row} * XW + 3]"
        )

    def _takes(self, conditions: Sequence[Any], row: str) -> str:
        """Whether a row fulfils conditions of a role."""
        asked = [truth(self.layout, each, self._read(row)) for each in conditions]
        return both(*(each.holds for each in asked if isinstance(each, Truth)))

    def _keyed(self, stack: ExitStack, keys: Sequence[PartitionKey], role: RowRole, row: str, first: int) -> bool:
        """Open blocks in which K has the key of a row in a role, from a place on; False: it never has one."""
        for at, key in enumerate(keys, first):
            attr = self.layout.key_attr(key, role)
            known = None if attr is None else self._of_row(row)(attr)
            if known is None or known.null == "True":
                return False
            stack.enter_context(self.write.block(f"if not {known.null}:"))
            if key.ranges:
                self._ranged(stack, key.ranges, known, at)
            elif known.kind == "float":
                stack.enter_context(self.write.block(f"if {known.text} == {known.text}:"))
                self.write(f"KR[{at}] = {known.text} + 0.0")
            else:
                self.write(f"K[{at}] = {known.text}")
        return True

    def _ranged(self, stack: ExitStack, ranges: Sequence[KeyRange], known: Value, at: int) -> None:
        write = self.write
        write(f"K[{at}] = -1")
        header = "if"
        for place, each in enumerate(ranges):
            if not each.is_rest:
                with write.block(f"{header} {self._in_range(each, known)}:"):
                    write(f"K[{at}] = {place}")
                header = "elif"
        rest = next((place for place, each in enumerate(ranges) if each.is_rest), None)
        if rest is not None:
            with write.block("else:" if header == "elif" else "if True:"):
                write(f"K[{at}] = {rest}")
        stack.enter_context(write.block(f"if K[{at}] >= 0:"))

    def _in_range(self, each: KeyRange, known: Value) -> str:
        if each.between is not None:
            if known.kind == "text":
                raise NotCompiledError("a range of texts")
            low, high = (self._constant(literal.value, known) for literal in each.between)
            return f"{low} <= {known.text} <= {high}"
        return either(*(f"{known.text} == {self._constant(literal.value, known)}" for literal in each.values))

    def _constant(self, given: Any, known: Value) -> str:
        """A literal of a range, where it is compared exactly."""
        if isinstance(given, str) and known.kind == "text":
            return self.layout.text(given)
        if isinstance(given, bool) and known.kind == "bool":
            return str(int(given))
        if known.kind == "float" and isinstance(given, int | Decimal | float) and float(given) == given:
            return repr(float(given))
        if known.kind == "int" and isinstance(given, int) and not isinstance(given, bool) and given.bit_length() < 63:
            return str(given)
        raise NotCompiledError("a range of another kind than its key")

    def _touches(self, roles: Sequence[RowRole]) -> None:
        """Tell the partitions of a row about it: roles with the same key together."""
        groups: dict[tuple[str | None, ...], list[RowRole]] = {}
        for role in roles:
            attrs = tuple(self.layout.key_attr(key, role) for key in self.statement.gkeys)
            groups.setdefault(attrs, []).append(role)
        for several in groups.values():
            with ExitStack() as stack:
                if self._keyed(stack, self.statement.gkeys, several[0], "r", 0):
                    self._find_partition()
                    self._touch()
                    for role in several:
                        self._tell(role)

    def _find_partition(self) -> None:
        write, count = self.write, self.layout.g
        if not count:
            write("g = P[UNIVERSAL]")
            return
        write(f"slot = slot_of(TG, TGN - 1, D, G_KEY, K, 0, {count})", "g = TG[slot]")
        with write.block("if g == -1:"):
            self._new_partition()
            write(*(f"D[g + G_KEY + {k}] = K[{k}]" for k in range(count)), "TG[slot] = g", "P[PARTITIONS] += 1")
            with write.block("if 2 * P[PARTITIONS] > TGN:"):
                write.refill("TG", "G_KEY", count)

    def _touch(self) -> None:
        """Write: find or make the entry h of the partition g in H: its address, first and last row of this stage."""
        write = self.write
        write("h = D[g + G_AT]")
        with write.block("if h >= hn or H[3 * h] != g:"):
            write("h = hn", "hn += 1")
            with write.block("if 3 * hn > HN:"):
                write.more("H", "0")
            write("H[3 * h] = g", "H[3 * h + 1] = -1", "H[3 * h + 2] = -1", "D[g + G_AT] = h")

    def _tell(self, role: RowRole) -> None:
        write = self.write
        write("W[t] = -1", f"W[t + 1] = {role.number}", "W[t + 2] = r")
        with write.block("if H[3 * h + 2] == -1:"):
            write("H[3 * h + 1] = t")
        with write.block("else:"):
            write("W[H[3 * h + 2]] = t")
        write("H[3 * h + 2] = t", "t += 3")

    def _for_rows(self, stack: ExitStack, role: RowRole) -> str:
        """Open blocks in which a variable is each row that has a role in g and fulfils its conditions."""
        write = self.write
        at, row = write.fresh("w"), write.fresh("r")
        write(f"{at} = rows_of_g")
        stack.enter_context(write.block(f"while {at} != -1:"))
        write(f"{row} = W[{at} + 2]", f"is_mine = W[{at} + 1] == {role.number}", f"{at} = W[{at}]")
        stack.enter_context(write.block(f"if {both('is_mine', self._takes(role.role.conditions, row))}:"))
        return row

    # --- a partition at a stage ---

    def _partition(self) -> None:
        layout, write = self.layout, self.write
        if layout.keeps_seen:
            self._see()
        if layout.terms:
            self._terminate()
        write("c = D[g + G_FIRST]")
        with write.block("while c != -1:"):
            self._collect()
            write(f"c = {self._next_context}")
        for at, init in enumerate(layout.inits):
            role = layout.role("init", at)
            if role is not None:
                self._initiate(at, init.add, role)
        if layout.g:
            self._forget()

    def _see(self) -> None:
        """Note the local values of this partition."""
        write, layout = self.write, self.layout
        for role in layout.all_roles():
            if role.what != "leaf":
                continue
            with ExitStack() as stack:
                at, row = write.fresh("w"), write.fresh("r")
                write(f"{at} = rows_of_g")
                stack.enter_context(write.block(f"while {at} != -1:"))
                write(f"{row} = W[{at} + 2]", f"is_mine = W[{at} + 1] == {role.number}", f"{at} = W[{at}]")
                stack.enter_context(write.block("if is_mine:"))
                write("K[0] = g")
                if self._keyed(stack, self.statement.lkeys, role, row, 1):
                    write(f"slot = slot_of(TS, TSN - 1, D, S_PARTITION, K, 0, {1 + layout.l})")
                    with write.block("if TS[slot] == -1:"):
                        self._allocate("s", "FREE_SEEN", "S_SIZE")
                        write("D[s + S_NEXT] = D[g + G_SEEN]", "D[g + G_SEEN] = s", "TS[slot] = s", "P[SEEN] += 1")
                        write(*(f"D[s + S_PARTITION + {k}] = K[{k}]" for k in range(1 + layout.l)))
                        with write.block("if 2 * P[SEEN] > TSN:"):
                            write.refill("TS", "S_PARTITION", 1 + layout.l)

    # --- contexts ---

    def _terminate(self) -> None:
        write, layout = self.write, self.layout
        write("closed = 0")
        for at, term in enumerate(layout.terms):
            last, role = layout.lasts[at], layout.role("term", at)
            if last is not None:
                with self._open_contexts():
                    with write.block(f"if now >= D[c + C_OPENED] + {last}:"):
                        write(f"D[c + C_CLOSED] = {at}", "closed += 1")
                    write(f"c = {self._next_context}")
            elif role is not None:
                self._closed_by(at, term.which, role)
        with write.block("if closed > 0:"):
            write("c = D[g + G_FIRST]")
            with write.block("while c != -1:"):
                write(f"after_c = {self._next_context}")
                with write.block("if D[c + C_CLOSED] >= 0:"):
                    self._unlink()
                    giving = [f"D[c + C_CLOSED] == {at}" for at, term in enumerate(layout.terms) if not term.discard]
                    if (layout.defers or layout.delays) and giving:
                        with write.block(f"if {either(*giving)}:"):
                            self._release() if layout.delays else self._finish()
                    self._free_context()
                write("c = after_c")

    @property
    def _next_context(self) -> str:
        return "D[c + C_NEXT]" if self.layout.many else "-1"

    def _open_contexts(self) -> ExitStack:
        """A block for each context that is still open; it must end with the step to the next."""
        stack = ExitStack()
        self.write("c = D[g + G_FIRST]")
        stack.enter_context(self.write.block("while c != -1:"))
        with self.write.block("if D[c + C_CLOSED] >= 0:"):
            self.write(f"c = {self._next_context}", "continue")
        return stack

    def _closed_by(self, at: int, which: str, role: RowRole) -> None:
        write, term = self.write, self.layout.terms[at]
        crossing = [each for each in term.conditions if any(isinstance(part, AggregateOf) for part in parts(each))]
        acting, own = write.fresh("acting"), RowRole(role.what, role.at, role.number, _without(term, crossing))
        write(f"{acting} = 0")
        with ExitStack() as stack:
            self._for_rows(stack, own)
            write(f"{acting} += 1")
        with write.block(f"if {acting} > 0:"):
            write("oldest = -1", "youngest = -1")
            with self._open_contexts():
                asked = [truth(self.layout, each, self._across(own)) for each in crossing]
                fits = both(*(each.holds for each in asked if isinstance(each, Truth)))
                with write.block(f"if {fits}:"):
                    with write.block("if oldest == -1:"):
                        write("oldest = c")
                    write("youngest = c")
                    if which == "each-matching":
                        write(f"D[c + C_CLOSED] = {at}", "closed += 1")
                write(f"c = {self._next_context}")
            if which in ("new", "old"):
                chosen = "youngest" if which == "new" else "oldest"
                with write.block(f"if {chosen} != -1:"):
                    write(f"D[{chosen} + C_CLOSED] = {at}", "closed += 1")
            elif which == "each":
                with write.block("if oldest != -1:"), self._open_contexts():
                    write(f"D[c + C_CLOSED] = {at}", "closed += 1", f"c = {self._next_context}")

    def _across(self, term: RowRole) -> Any:
        """Write an aggregate over the events that opened the context c, or that close it."""
        columns = SelectWriter(self.layout, self.write, SearchWriter(self.layout, self.write), self.kinds)
        write = self.write

        def found(node: object) -> Known:
            if not isinstance(node, AggregateOf):
                raise NotCompiledError("a comparison with initiators needs an aggregate")
            bad = write.fresh("bad")
            write("vn = 0", f"{bad} = False")
            named = [part for part in parts(node.of) if isinstance(part, AttrOf | EventsOf) and part.name is not None]
            kinds: set[str] = set()
            for part in named:

                def push(read: Any, part: Any = part) -> None:
                    known = Value("1") if isinstance(part, EventsOf) else read(part.attr)
                    kinds.add(known.kind)
                    columns.push(known)

                opened = [at for at, init in enumerate(self.layout.inits)
                          if init.type is not None and init.called == part.name]  # fmt: skip
                if opened:
                    with write.block(f"if {either(*(f'D[c + C_OPENER] == {at}' for at in opened))}:"):
                        columns.opening(push)
                    with write.block("else:"):
                        write(f"{bad} = True")
                else:
                    self._rows_of(term)(term.at, push)
            if len(kinds) > 1:
                raise NotCompiledError("a union of values of different kinds")
            attrs = [part.attr for part in named if isinstance(part, AttrOf)]
            value = columns.computed(node.function, next(iter(kinds), "int"), attrs)
            return Value(value.text, either(bad, value.null), value.kind, value.bits, value.attr)

        return found

    def _rows_of(self, own: RowRole | None = None) -> Any:
        """Writes a loop over the events that close a context."""

        def closers(at: int, push: Pushing) -> None:
            role = own or self.layout.role("term", at)
            if role is None:
                return
            if own is None:
                crossing = [each for each in role.role.conditions
                            if any(isinstance(part, AggregateOf) for part in parts(each))]  # fmt: skip
                role = RowRole(role.what, role.at, role.number, _without(role.role, crossing))
            with ExitStack() as stack:
                row = self._for_rows(stack, role)
                push(self._of_row(row))

        return closers

    def _unlink(self) -> None:
        write = self.write
        if not self.layout.many:
            write("D[g + G_FIRST] = -1")
            return
        for here, there, end in (("C_PREV", "C_NEXT", "G_FIRST"), ("C_NEXT", "C_PREV", "G_LAST")):
            with write.block(f"if D[c + {here}] == -1:"):
                write(f"D[g + {end}] = D[c + {there}]")
            with write.block("else:"):
                write(f"D[D[c + {here}] + {there}] = D[c + {there}]")

    def _finish(self) -> None:
        """The final runs of a context that ends."""
        write, layout = self.write, self.layout
        if not layout.l:
            write("loc = D[c + C_LOCALS]")
            with write.block("if loc == -1:"):
                write("loc = 0")
            self._detect(final=True)
            return
        write("s = D[g + G_SEEN]")
        with write.block("while s != -1:"):
            write("K[0] = c", *(f"K[{1 + k}] = D[s + S_KEY + {k}]" for k in range(layout.l)))
            write(f"loc = TL[slot_of(TL, TLN - 1, D, L_CONTEXT, K, 0, {1 + layout.l})]", "lk = s + S_KEY")
            with write.block("if loc == -1:"):
                write("loc = 0")
            self._detect(final=True)
            write("s = D[s + S_NEXT]")

    def _free_context(self) -> None:
        write = self.write
        write("loc = D[c + C_LOCALS]")
        with write.block("while loc != -1:"):
            write("after = D[loc + L_NEXT]" if self.layout.l else "after = -1")
            for at in range(len(self.layout.leaves)):
                if self.layout.leaves[at].number in self.layout.sources:
                    write(f"P[KEPT] += D[{self._list(at)} + {COUNT}]")  # they are not in the count
                self._forget_values(at)
                write(f"clear(D, P, {self._list(at)}, {self.layout.counts_ends})")
            self._free_local()
            write("loc = after")
        if self.layout.shows_openers:
            write(f"clear(D, P, c + C_OPENERS, {self.layout.counts_ends})")
        if self.layout.delays:
            self._free_runs()
        self._free("c", "FREE_CONTEXT")

    def _forget_values(self, at: int) -> None:
        """Take the events of a leaf out of those that are found by value."""
        write, offs = self.write, [off for _, off in self.layout.by_value(self.layout.leaves[at].number)]
        if offs:
            write(f"y = D[{self._list(at)} + {HEAD}]")
            with write.block("while y != -1:"):
                write(*(f"leave(D, P, TV, TVN - 1, y, {off})" for off in offs), f"y = D[y + {NEXT}]")

    def _free_local(self) -> None:
        """Write the freeing of an empty local partition; it may still be linked in a chain."""
        for each in self._once():
            self.write(f"y = D[loc + L_RUNNING + {each.at + 2}]")
            with self.write.block("while y != -1:"):
                slot = f"slot_of(TU, TUN - 1, D, {ONCE_KEY}, D, y + {ONCE_KEY}, 2)"
                self.write(f"take_out(TU, TUN - 1, D, {ONCE_KEY}, 2, {slot})", "P[ONCES] -= 1", "x = D[y]")
                self._free("y", "FREE_ONCE")
                self.write("y = x")
        if self.layout.l:
            count = 1 + self.layout.l
            slot = f"slot_of(TL, TLN - 1, D, L_CONTEXT, D, loc + L_CONTEXT, {count})"
            self.write(f"take_out(TL, TLN - 1, D, L_CONTEXT, {count}, {slot})")
            self.write("P[LOCALS] -= 1")
        self._free("loc", "FREE_LOCAL")

    def _initiate(self, at: int, add: bool, role: RowRole) -> None:
        write = self.write
        acting = write.fresh("acting")
        write(f"{acting} = 0")
        with ExitStack() as stack:
            self._for_rows(stack, role)
            write(f"{acting} += 1")
        allowed = "" if add else " and D[g + G_FIRST] == -1"
        with write.block(f"if {acting} > 0{allowed}:"):
            self._open("now", at)
            if self.layout.shows_openers:
                with ExitStack() as stack:
                    row = self._for_rows(stack, role)
                    self._node("y", row)
                    write(f"append(D, P, c + C_OPENERS, y, {self.layout.counts_ends})")

    def _forget(self) -> None:
        """Write the dropping of a partition without contents; the next event of its key makes it again."""
        write, layout = self.write, self.layout
        nothing = "D[g + G_FIRST] == -1"
        if layout.starts:
            one = "D[g + G_FIRST] != -1" + (" and D[g + G_FIRST] == D[g + G_LAST]" if layout.many else "")
            as_new = f"{one} and D[D[g + G_FIRST] + C_OPENER] == -1 and D[D[g + G_FIRST] + C_LOCALS] == -1"
            if layout.delays:
                as_new += " and D[D[g + G_FIRST] + C_RUN] == -1"
            if layout.limited:
                lasts = [last for last in layout.lasts if last is not None]
                is_over = either(*(f"P[CREATED] + {last} < now + 1" for last in lasts))
                nothing = f"{is_over} and {nothing}"
            elif layout.ticking:
                return
            else:
                nothing = as_new
        if layout.keeps_seen:
            nothing += " and D[g + G_SEEN] == -1"
        with write.block(f"if {nothing}:"):
            write("c = D[g + G_FIRST]")
            with write.block("if c != -1:"):
                self._free("c", "FREE_CONTEXT")
            slot = f"slot_of(TG, TGN - 1, D, G_KEY, D, g + G_KEY, {layout.g})"
            write(f"take_out(TG, TGN - 1, D, G_KEY, {layout.g}, {slot})")
            write("P[PARTITIONS] -= 1")
            if layout.timed:
                write("D[g + G_ALIVE] = 0")
            self._free("g", "FREE_PARTITION")

    # --- collection and detection ---

    def _collect(self) -> None:
        write, layout = self.write, self.layout
        write("first_loc = -1", "last_loc = -1")
        self._tick()
        for spot in layout.waiting:
            self._fire(spot)
        for number in layout.giving_way:
            self._give_way(layout.index[number])
        for several in layout.waking.values():
            for each in several:
                self._wake(each)
        for role in layout.all_roles():
            if role.what == "leaf":
                with ExitStack() as stack:
                    row = self._for_rows(stack, role)
                    if layout.l:
                        write("K[0] = c")
                    if self._keyed(stack, self.statement.lkeys, role, row, 1):
                        if layout.leaves[role.at].number in layout.sources:
                            self._find_local(touch=False)
                            self._wait(role.at, row)
                        else:
                            self._find_local()
                            self._add(role.at, row)
        if layout.mode == "deferred":
            return
        write("loc = first_loc")
        with write.block("while loc != -1:"):
            write(*(("after_loc = D[loc + L_TOUCHED]", "lk = loc + L_KEY") if layout.l else ("after_loc = -1",)))
            if "repeat" in layout.statement.options:
                with write.block("while True:"):
                    write("kept = P[KEPT]")
                    self._detect(final=False)
                    with write.block("if P[KEPT] == kept:"):  # nothing was consumed
                        write("break")
            else:
                self._detect(final=False)
            for spot in layout.waiting:
                due = self._due(spot)
                write(f"P[KEPT] += D[{due} + {COUNT}]", f"clear(D, P, {due}, {layout.counts_ends})")
            self._drop_if_empty()
            write("loc = after_loc")

    def _drop_if_empty(self) -> None:
        """Forget the local partition loc if it has no events."""
        write, layout = self.write, self.layout
        empty = both(*(f"D[{self._list(at)} + {COUNT}] == 0" for at in range(len(layout.leaves))))
        with write.block(f"if {empty}:"):
            if layout.l:
                self._unlink_local()
            else:
                write("D[c + C_LOCALS] = -1")
            self._free_local()

    def _sweep(self) -> None:
        """Write the sweep: when many partitions are new since the last one, drop those whose events are all too old."""
        write, layout = self.write, self.layout
        with write.block("if P[PARTITIONS] > SOME + 2 * P[LEFT]:"):
            write("swept = 0")
            with write.block("while swept < TGN:"):
                write("g = TG[swept]")
                with write.block("if g == -1:"):
                    write("swept += 1", "continue")
                write("c = D[g + G_FIRST]")
                with write.block("while c != -1:"):
                    write("loc = D[c + C_LOCALS]")
                    with write.block("while loc != -1:"):
                        write("after_loc = D[loc + L_NEXT]" if layout.l else "after_loc = -1")
                        for at, leaf in enumerate(layout.leaves):
                            if leaf.number not in layout.sources:
                                self._expire(at)
                        self._drop_if_empty()
                        write("loc = after_loc")
                    write(f"c = {self._next_context}")
                self._forget()
                with write.block("if TG[swept] == g:"):  # else another one has moved here
                    write("swept += 1")
            write("P[LEFT] = P[PARTITIONS]")

    def _unlink_local(self) -> None:
        write = self.write
        with write.block("if D[loc + L_PREV] == -1:"):
            write("D[c + C_LOCALS] = D[loc + L_NEXT]")
        with write.block("else:"):
            write("D[D[loc + L_PREV] + L_NEXT] = D[loc + L_NEXT]")
        with write.block("if D[loc + L_NEXT] != -1:"):
            write("D[D[loc + L_NEXT] + L_PREV] = D[loc + L_PREV]")

    def _list(self, at: int) -> str:
        """Where the list of a leaf is, in loc."""
        return f"loc + {self.layout.lists_at(self.layout.leaves[at].number)}"

    # --- timers of the pattern ---

    def _tick(self) -> None:
        """Write for each At and Every whether it fires in the context c now; then every local partition runs."""
        write, layout = self.write, self.layout
        for spot in layout.ticking:
            n, length = spot.number, layout.lengths[spot.number]
            if not length:
                with write.block(f"if at_{n} < now:"):
                    write(f"at_{n} = called(host, {layout.calendar(spot)}, now - 1)")
            happens = f"(now - D[c + C_OPENED]) % {length} == 0" if length else f"at_{n} == now"
            write(f"tick_{n} = now > D[c + C_OPENED] and {happens}")
            with write.block(f"if tick_{n}:"):
                self._set_timer(self._next_tick(spot, "D[c + C_OPENED]", "now"))
        if layout.ticking:
            with write.block(f"if {either(*(f'tick_{spot.number}' for spot in layout.ticking))}:"):
                if not layout.l:
                    self._find_local()
                    return
                write("s = D[g + G_SEEN]")
                with write.block("while s != -1:"):
                    write("K[0] = c", *(f"K[{1 + k}] = D[s + S_KEY + {k}]" for k in range(layout.l)))
                    self._find_local()
                    write("s = D[s + S_NEXT]")

    def _due(self, spot: PatternSpot) -> str:
        return f"loc + {self.layout.lists_at(spot.spots[0].number, due=True)}"

    def _fire(self, spot: PatternSpot) -> None:
        """Write for After: move the sources whose time has come to the list of those that this stage uses."""
        write, layout = self.write, self.layout
        wait, pending = layout.lengths[spot.number], f"loc + {layout.lists_at(spot.spots[0].number)}"
        write("loc = D[c + C_LOCALS]")
        with write.block("while loc != -1:"):
            is_due = f"D[{pending} + {HEAD}] != -1 and D[D[{pending} + {HEAD}] + {END}] + {wait} <= now"
            with write.block(f"if {is_due}:"):
                with write.block(f"while {is_due}:"):
                    write(f"pass_on(D, {pending}, {self._due(spot)}, {layout.counts_ends})")
                self._touch_local()
            write("loc = D[loc + L_NEXT]" if layout.l else "loc = -1")

    def _give_way(self, at: int) -> None:
        """Write: mark the local partitions in which an event of a leaf has become too old; they run in this stage."""
        write, head = self.write, f"D[{self._list(at)} + {HEAD}]"
        write("loc = D[c + C_LOCALS]")
        with write.block("while loc != -1:"):
            with write.block(f"if {head} != -1 and D[{head} + {END}] + {self.layout.ranges[at]} <= now:"):
                self._touch_local()
            write("loc = D[loc + L_NEXT]" if self.layout.l else "loc = -1")

    def _wake(self, each: Waking) -> None:
        """Write: mark the local partitions in which sst passes a time of an event; those that wait stand last."""
        write, at = self.write, self.layout.index[each.leaf]
        length = self.layout.ranges[at]
        write("loc = D[c + C_LOCALS]")
        with write.block("while loc != -1:"):
            write(f"x = D[{self._list(at)} + {TAIL}]")
            with write.block(f"while x != -1 and D[x + {END}] + {each.behind} >= now:"):
                passes = f"D[x + {START if each.start else END}] + {each.behind} == now"
                there = "True" if length is None else f"now < D[x + {END}] + {length}"
                with write.block(f"if {both(passes, there)}:"):
                    self._touch_local()
                    write("break")
                write(f"x = D[x + {PREV}]")
            write("loc = D[loc + L_NEXT]" if self.layout.l else "loc = -1")

    def _wait(self, at: int, row: str) -> None:
        """Write for After: let the event of a row wait for its time, if the limit of waiting events allows it."""
        write, layout, here = self.write, self.layout, self._list(at)
        spot = layout.sources[layout.leaves[at].number]
        size, ends = spot.call.size, layout.counts_ends
        full = "False"
        if size is not None and size.unit == "rows":
            full = f"D[{here} + {COUNT}] >= {size.most}"
        elif size is not None:
            full = f"D[{here} + {ENDS}] >= {size.most} and D[D[{here} + {TAIL}] + {END}] != now"
        write(f"takes = not ({full})")
        if size is not None and size.add:
            with write.block("if not takes:"):
                write("takes = True", f"oldest = D[D[{here} + {HEAD}] + {END}]")
                header = "if True:" if size.unit == "rows" else f"while D[D[{here} + {HEAD}] + {END}] == oldest:"
                with write.block(header):
                    write("P[KEPT] += 1", f"remove(D, P, {here}, D[{here} + {HEAD}], {ends})")
                    if size.unit != "rows":
                        with write.block(f"if D[{here} + {HEAD}] == -1:"):
                            write("break")
        with write.block("if takes:"):
            with write.block(f"if D[{here} + {HEAD}] == -1 or D[D[{here} + {TAIL}] + {END}] != now:"):
                self._set_timer(f"now + {layout.lengths[spot.number]}")
            self._node("y", row)
            write(f"append(D, P, {here}, y, {ends})", "P[KEPT] -= 1")

    def _find_local(self, *, touch: bool = True) -> None:
        """Write: find or make the local partition loc of a key; with `touch` it runs in this stage."""
        write, layout = self.write, self.layout
        if layout.l:
            write(f"slot = slot_of(TL, TLN - 1, D, L_CONTEXT, K, 0, {1 + layout.l})", "loc = TL[slot]")
        else:
            write("loc = D[c + C_LOCALS]")
        with write.block("if loc == -1:"):
            self._allocate("loc", "FREE_LOCAL", "L_SIZE")
            for at in range(len(layout.leaves) + len(layout.waiting)):
                self._no_list(f"loc + L_LISTS + {layout.list * at}")
            if layout.running is not None:
                operands, chains = len(layout.running.leaves), {each.at + 2 for each in self._once()}
                for at in range(layout.running.size):
                    word = LATEST_START if at < operands else -1 if at in chains else 0
                    write(f"D[loc + L_RUNNING + {at}] = {word}")
            if layout.l:
                write("D[loc + L_PREV] = -1", "D[loc + L_NEXT] = D[c + C_LOCALS]", "D[loc + L_STAMP] = -1")
                write("D[loc + L_CONTEXT] = c", *(f"D[loc + L_KEY + {k}] = K[{1 + k}]" for k in range(layout.l)))
                with write.block("if D[c + C_LOCALS] != -1:"):
                    write("D[D[c + C_LOCALS] + L_PREV] = loc")
            write("D[c + C_LOCALS] = loc")
            if layout.l:
                write("TL[slot] = loc", "P[LOCALS] += 1")
                with write.block("if 2 * P[LOCALS] > TLN:"):
                    write.refill("TL", "L_CONTEXT", 1 + layout.l)
        if touch:
            self._touch_local()

    def _touch_local(self) -> None:
        write = self.write
        if not self.layout.l:
            write("first_loc = loc")
            return
        with write.block("if D[loc + L_STAMP] != stage:"):
            write("D[loc + L_STAMP] = stage", "D[loc + L_TOUCHED] = -1")
            with write.block("if last_loc == -1:"):
                write("first_loc = loc")
            with write.block("else:"):
                write("D[last_loc + L_TOUCHED] = loc")
            write("last_loc = loc")

    def _add(self, at: int, row: str) -> None:
        """Write: append the event of a row to the list of a leaf, and drop events that its windows have left behind."""
        write, leaf, here = self.write, self.layout.leaves[at].leaf, self._list(at)
        assert leaf is not None
        self._node("y", row)
        ends = self.layout.counts_ends
        write(f"append(D, P, {here}, y, {ends})")
        if self.layout.running is not None:
            self._go_on(self.layout.running, at)
        self._enter_values(at)
        if self.layout.leaves[at].number in self.layout.giving_way:
            self._set_timer(f"now + {self.layout.ranges[at]}")
        for each in self.layout.waking.get(self.layout.leaves[at].number, ()):
            write(f"due = D[y + {START if each.start else END}] + {each.behind}")
            with write.block("if due > now:"):
                self._set_timer("due")
        if leaf.rows is not None:
            with write.block(f"if D[{here} + {COUNT}] > {leaf.rows}:"):
                self._remove(at, f"D[{here} + {HEAD}]")
        if leaf.stages is not None:
            with write.block(f"while D[{here} + {ENDS}] > {leaf.stages}:"):
                self._remove(at, f"D[{here} + {HEAD}]")
        self._expire(at)

    def _expire(self, at: int) -> None:
        """Drop what is older than the range of a leaf."""
        length, here = self.layout.ranges[at], self._list(at)
        if length is None:
            return
        if not self.layout.by_value(self.layout.leaves[at].number):
            self.write(f"expire(D, P, {here}, now - {length}, {self.layout.counts_ends})")
            return
        head = f"D[{here} + {HEAD}]"
        with self.write.block(f"while {head} != -1 and D[{head} + {END}] <= now - {length}:"):
            self._remove(at, head)

    def _remove(self, at: int, node: str) -> None:
        """Take a node out of the list of a leaf."""
        for _, off in self.layout.by_value(self.layout.leaves[at].number):
            self.write(f"leave(D, P, TV, TVN - 1, {node}, {off})")
        self.write(f"remove(D, P, {self._list(at)}, {node}, {self.layout.counts_ends})")

    def _enter_values(self, at: int) -> None:
        """Write: enter the node y into the index by values; Null and NaN equal nothing, so they are not entered."""
        write, layout, number = self.write, self.layout, self.layout.leaves[at].number
        for place, (attr, off) in enumerate(layout.by_value(number)):
            known = attribute(layout, attr, "D[y + 7 + {}]", "R[y + 7 + {}]", "D[y + 6]")
            write(f"D[y + {off + HOME}] = -1")
            is_number = f"{known.text} == {known.text}" if known.kind == "float" else "True"
            with write.block(f"if {both(f'(not {known.null})', is_number)}:"):
                write(f"K[0] = {self._list(at)}", f"K[1] = {place}")
                write(f"KR[2] = {known.text} + 0.0" if known.kind == "float" else f"K[2] = {known.text}")
                write(f"slot = slot_of(TV, TVN - 1, D, {OF_LIST}, K, 0, 3)", "home = TV[slot]")
                with write.block("if home == -1:"):
                    self._allocate("home", "FREE_VALUE", VALUE_SIZE)
                    write(f"D[home + {FIRST}] = -1", f"D[home + {LAST}] = -1", "TV[slot] = home", "P[VALUES] += 1")
                    write(*(f"D[home + {OF_LIST + k}] = K[{k}]" for k in range(3)))
                    with write.block("if 2 * P[VALUES] > TVN:"):
                        write.refill("TV", str(OF_LIST), 3)
                write(f"enter(D, y, {off}, home)")

    def _go_on(self, running: RunningAggregates, at: int) -> None:
        """Add the event of the node y to the aggregates over its operand."""
        write, layout, number = self.write, self.layout, self.layout.leaves[at].number
        place = running.leaves.index(number)
        write(f"D[loc + L_RUNNING + {place}] = min(D[loc + L_RUNNING + {place}], D[y + {START}])")
        for each, of in running.of_leaf(number):
            read = lambda part: attribute(layout, part.attr, "D[y + 7 + {}]", "R[y + 7 + {}]", "D[y + 6]")  # noqa: E731
            known = value(layout, of, read)
            assert isinstance(known, Value)
            if known.null == "True":
                continue
            count = f"D[loc + L_RUNNING + {each.at}]"
            total = f"{'R' if known.kind == 'float' else 'D'}[loc + L_RUNNING + {each.at + 1}]"
            with ExitStack() as stack:
                stack.enter_context(write.block(f"if not {known.null}:"))
                if each.once:
                    self._is_another(stack, each, known)
                if each.function in ("Sum", "Avg"):
                    write(f"{total} = {total} + {known.text} if {count} > 0 else {known.text} + 0")
                elif each.function != "Count":
                    pick = "max" if each.function == "Max" else "min"
                    write(f"{total} = {pick}({total}, {known.text}) if {count} > 0 else {known.text}")
                write(f"{count} += 1")

    def _once(self) -> list[RunningAggregate]:
        """The running aggregates in which each value counts once."""
        running = self.layout.running
        return [] if running is None else [each for each in running.found.values() if each.once]

    def _is_another(self, stack: ExitStack, each: RunningAggregate, known: Value) -> None:
        """Open a block for a value that has not yet counted in an aggregate; each NaN is another one."""
        write, is_float = self.write, known.kind == "float"
        write(f"K[0] = loc + L_RUNNING + {each.at}")
        write(f"KR[1] = {known.text} + 0.0" if is_float else f"K[1] = {known.text}")
        write(f"slot = slot_of(TU, TUN - 1, D, {ONCE_KEY}, K, 0, 2)")
        stack.enter_context(write.block("if TU[slot] == -1:"))
        with write.block(f"if {known.text} == {known.text}:" if is_float else "if True:"):
            self._allocate("home", "FREE_ONCE", ONCE_SIZE)
            chain = f"D[loc + L_RUNNING + {each.at + 2}]"
            write(f"D[home] = {chain}", f"{chain} = home", "TU[slot] = home", "P[ONCES] += 1")
            write(*(f"D[home + {ONCE_KEY + k}] = K[{k}]" for k in range(2)))
            with write.block("if 2 * P[ONCES] > TUN:"):
                write.refill("TU", str(ONCE_KEY), 2)

    def _detect(self, *, final: bool) -> None:
        """Find all matches of the lists at hand, give their rows, and consume their events."""
        write, layout = self.write, self.layout
        if layout.running is not None:
            some = [f"D[{self._list(at)} + {COUNT}] > 0" for at in range(self.width)]
            with write.block(f"if {either(*some) if layout.running.any else both(*some)}:"):
                closers = self._rows_of() if final else None
                RunningSelectWriter(layout, write, SearchWriter(layout, write), self.kinds, closers).rows()
            return
        for at in range(len(layout.leaves)):
            self._expire(at)
        search = SearchWriter(layout, write, final=final)
        write("matched = 0", "en = 0")
        search.matches(self._keep)
        closers = self._rows_of() if final else None
        with write.block("if matched > 0:"):
            if layout.delays:
                self._delay(search)
            else:
                SelectWriter(layout, write, search, self.kinds, closers).rows()
            if not final:
                self._consume(search)

    def _keep(self, bound: Bound) -> str:
        write = self.write
        with write.block(f"if (matched + 1) * {self.width} > MN:"):
            write.more("M", "0")
        for number, at in self.layout.places_of.items():
            state = bound.get(number)
            word = f"x{number}" if state in ("node", "word") else WORDS.get(str(state), "-1")
            write(f"M[matched * {self.width} + {at}] = {word}")
        write("matched += 1")
        return "True"

    # --- matches that wait for the end of their context ---

    def _delay(self, search: SearchWriter) -> None:
        """Write: put the matches of a run behind those that wait, with copies of their events."""
        write, layout = self.write, self.layout
        self._allocate("run", "FREE_RUN", "R_SIZE")
        write("D[run + R_NEXT] = -1", "D[run + R_NOW] = now", "D[run + R_FIRST] = -1", "D[run + R_LAST] = -1")
        write(*(f"D[run + R_KEY + {at}] = D[lk + {at}]" for at in range(layout.l)))
        self._link("run", "R_NEXT", "c + C_RUN", "c + C_LAST_RUN")
        with write.block("for m in range(matched):"):
            self._allocate("match", "FREE_MATCH", "W_SIZE")
            write("D[match + W_NEXT] = -1")
            self._link("match", "W_NEXT", "run + R_FIRST", "run + R_LAST")
            for number, at in layout.places_of.items():
                write(f"word = M[m * {self.width} + {at}]")
                if number in layout.index:
                    write("copies = -1")
                    with write.block("if word >= 0:"):
                        self._copy("word")
                        write("word = y")
                    if number in search.whole:
                        with write.block(f"if word == {WHOLE}:"):
                            write(f"x = D[{self._list(layout.index[number])} + {HEAD}]")
                            with write.block("while x != -1:"):
                                self._copy("x")
                                write(f"D[y + {NEXT}] = copies", "copies = y", f"x = D[x + {NEXT}]")
                            write(f"word = {SETS} - copies")
                    if number in search.sets:
                        with write.block(f"elif word <= {SETS}:" if number in search.whole else f"if word <= {SETS}:"):
                            with each_of_set(write, "word", "x"):
                                self._copy("x")
                                write(f"D[y + {NEXT}] = copies", "copies = y")
                            write(f"word = {SETS} - copies")
                write(f"D[match + W_WORDS + {at}] = word")

    def _link(self, name: str, next: str, first: str, last: str) -> None:
        """Write: put a record at the end of a chain."""
        with self.write.block(f"if D[{last}] == -1:"):
            self.write(f"D[{first}] = {name}")
        with self.write.block("else:"):
            self.write(f"D[D[{last}] + {next}] = {name}")
        self.write(f"D[{last}] = {name}")

    def _copy(self, name: str) -> None:
        """Write: y is a copy of a node, which stands in no list."""
        self._allocate("y", "FREE_NODE", self.layout.node)
        self.write(f"D[y + {NEXT}] = -1", "D[y + 2] = 0")
        with self.write.block(f"for k in range({4 + len(self.layout.attrs)}):"):
            self.write(f"D[y + 3 + k] = D[{name} + 3 + k]")

    def _release(self) -> None:
        """Write the rows of the matches that have waited in the context c, which ends now."""
        write, layout = self.write, self.layout
        search = SearchWriter(layout, write)
        search.sets |= {*layout.index}
        write("ends = now", "run = D[c + C_RUN]", "loc = 0")
        with write.block("while run != -1:"):
            write("now = D[run + R_NOW]", "lk = run + R_KEY", "matched = 0", "en = 0", "match = D[run + R_FIRST]")
            with write.block("while match != -1:"):
                with write.block(f"if (matched + 1) * {self.width} > MN:"):
                    write.more("M", "0")
                for number, at in layout.places_of.items():
                    write(f"word = D[match + W_WORDS + {at}]")
                    if number in layout.index:
                        with write.block(f"if word <= {SETS}:"):
                            self._set_of_copies()
                    write(f"M[matched * {self.width} + {at}] = word")
                write("matched += 1", "match = D[match + W_NEXT]")
            self._stage_time = "ends"
            SelectWriter(layout, write, search, self.kinds, self._rows_of(), end="ends").rows()
            self._stage_time = "now"
            write("run = D[run + R_NEXT]")
        write("now = ends")

    def _set_of_copies(self) -> None:
        """Write: the word of a chain of copies becomes that of a set; the newest stands first in the chain."""
        write = self.write
        write(f"x = {SETS} - word", "k = 0")
        with write.block("while x != -1:"):
            write("k += 1", f"x = D[x + {NEXT}]")
        with write.block("if en + k + 1 > EN:"):
            write.more("E", "en + k + 1")
        write("E[en] = k", f"x = {SETS} - word", f"word = {SETS} - en", "en += k + 1", "k = en")
        with write.block("while x != -1:"):
            write("k -= 1", "E[k] = x", f"x = D[x + {NEXT}]")

    def _free_runs(self) -> None:
        """Write the freeing of the matches that have waited in the context c."""
        write, layout = self.write, self.layout
        write("run = D[c + C_RUN]")
        with write.block("while run != -1:"):
            write("match = D[run + R_FIRST]")
            with write.block("while match != -1:"):
                for at in range(len(layout.leaves)):
                    write(f"word = D[match + W_WORDS + {at}]", f"x = {SETS} - word if word <= {SETS} else word")
                    with write.block("while x >= 0:"):
                        write(f"y = D[x + {NEXT}]", f"D[x + {NEXT}] = P[FREE_NODE]", "P[FREE_NODE] = x", "x = y")
                write("y = D[match + W_NEXT]")
                self._free("match", "FREE_MATCH")
                write("match = y")
            write("y = D[run + R_NEXT]")
            self._free("run", "FREE_RUN")
            write("run = y")

    def _consume(self, search: SearchWriter) -> None:
        write = self.write
        bindable = {*search.constituents(self.layout.root)} - {*self.layout.sources}  # sources are gone when they fire
        used = [at for at, leaf in enumerate(self.layout.leaves)
                if leaf.leaf is not None and leaf.leaf.consume and leaf.number in bindable]  # fmt: skip
        if used:
            with write.block("for m in range(matched):"):
                for at in used:
                    write(f"y = M[m * {self.width} + {at}]")
                    if self.layout.leaves[at].number in search.whole:
                        with write.block(f"if y == {WHOLE}:"):
                            write(f"clear(D, P, {self._list(at)}, {self.layout.counts_ends})")
                    if self.layout.leaves[at].number in search.sets:
                        write("word = y")
                        with each_of_set(write, "word", "y"), write.block("if D[y + 2] != -1:"):
                            self._remove(at, "y")
                        write("y = word")
                    with write.block("if y >= 0 and D[y + 2] != -1:"):
                        self._remove(at, "y")


def _without(role: Any, conditions: Sequence[Any]) -> Any:
    """A role without some of its conditions."""
    return replace(role, conditions=tuple(each for each in role.conditions if each not in conditions))
