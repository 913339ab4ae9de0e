"""The matches of a pattern as nested loops: what `staged/matcher` does by functions, written out.

A spot is solved by text that tries every way to bind it; innermost stands the text of what remains. Every solver leaves
a variable that says whether the whole could be completed, because only then an event is selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from tocsin.lang.staged_syntax import (
    COUNTING,
    ONLY,
    AttrOf,
    Compared,
    StableTime,
    StagedExpr,
    TimeOf,
    parts,
)
from tocsin.plan.staged_places import conjuncts_of
from tocsin.staged.bindings import PatternNames
from tocsin.staged.compiled.expressions import (
    ABSENT,
    KINDS,
    Absence,
    Known,
    Value,
    attribute,
    both,
    holding,
)
from tocsin.staged.compiled.layout import NotCompiledError, WordLayout
from tocsin.staged.compiled.library import (
    AT,
    BEFORE,
    COUNT,
    END,
    HEAD,
    LAST,
    NEXT,
    OF_LIST,
    PREV,
    SETS,
    START,
    TAIL,
    WHOLE,
)
from tocsin.staged.compiled.writer import TextWriter
from tocsin.staged.join import NewJoin, Step, new_join
from tocsin.staged.spots import PatternSpot

# Spots that are bound, others are not: "node", "tick", "absent", "every" (`all`: the whole list, for each of which what
# is asked must hold), "whole" (all of a list, counted), "word" (whatever its word says, counted), "counted" (unknown).
Bound: TypeAlias = "Mapping[int, str]"
Rest: TypeAlias = Callable[[Bound], str]  # writes what remains; the text of whether it could be completed
SEVERAL = ("every", "whole", "word")
DEEP = 40_000  # lines of text that are too many to compile


@dataclass(frozen=True, slots=True)
class Ends:
    """Between which ends the events of a leaf must lie: texts, some of them None."""

    low: tuple[str, ...] = ()
    high: tuple[str, ...] = ()


ANYWHERE = Ends()


@dataclass
class SearchWriter:
    """Writes the search of one pattern; `final`: the context ends, so deferred operators are asked."""

    layout: WordLayout
    write: TextWriter
    final: bool = False
    stop: str | None = None  # a text: enough has been counted
    names: PatternNames = field(init=False)
    whole: set[int] = field(default_factory=set)  # leaves of which a match has all that was collected
    sets: set[int] = field(default_factory=set)  # leaves of which a match has a set of events

    def __post_init__(self) -> None:
        self.names = PatternNames(self.layout.root)
        self._conjuncts = list(conjuncts_of(self.layout.statement.where))
        self._homes: dict[int, list[StagedExpr]] = {}
        for each in self._conjuncts:
            mentioned = [self.names.spots[str(part.name)].number for part in self._mentions(each)]
            self._homes.setdefault(max(mentioned, default=0), []).append(each)
        self._join = new_join(self.layout.root, self._conjuncts, self.names, self.layout.apart)

    @staticmethod
    def _mentions(node: StagedExpr) -> list[AttrOf | TimeOf]:
        found = [part for part in parts(node) if isinstance(part, AttrOf | TimeOf)]
        return [part for part in found if getattr(part, "which", "") != "sst"]

    def matches(self, keep: Rest) -> None:
        """Write the search for all matches; `keep` writes what is done with one."""
        with self.write.block(f"if {both(self._possible(self.layout.root), self._holds([0], {}))}:"):
            if self._join is not None:
                self._joined(self._join, keep)
            else:
                self._solve(self.layout.root, keep, {})

    # --- names ---

    def look_up(self, bound: Bound) -> Callable[[object], Known]:
        """What a name, a time or the time of the stage is, given what is bound."""

        def found(node: object) -> Known:
            match node:
                case StableTime():
                    return Value("now", attr="time")
                case TimeOf(which="sst"):
                    leaf = self.names.spots[node.name].leaf
                    lasting = 0 if leaf is None else self.layout.longest.get(leaf.type, 0)
                    return Value(f"(now - {lasting})" if lasting else "now", attr="time")
                case TimeOf():
                    return self._time(self.names.spots[node.name], node.which, bound)
                case AttrOf():
                    return self._attribute(self.names.spots[str(node.name)], node.attr, bound)
            raise NotCompiledError("an aggregate in Where")

        return found

    def _attribute(self, spot: PatternSpot, attr: str, bound: Bound) -> Known:
        state = bound.get(spot.number)
        if state == "absent":
            return ABSENT
        if state != "node":
            return Value("0", "True")
        x = f"x{spot.number}"
        return attribute(self.layout, attr, f"D[{x} + 7 + {{}}]", f"R[{x} + 7 + {{}}]", f"D[{x} + 6]")

    def _time(self, spot: PatternSpot, which: str, bound: Bound) -> Known:
        if bound.get(spot.number) == "absent":
            return ABSENT
        constituents = self.timed(spot)
        if any(bound.get(number) == "counted" for number, _ in constituents):
            raise NotCompiledError("a time of counted events")
        there = [(number, what) for number, what in constituents if bound.get(number) in ("node", "tick")]
        several = [(number, what) for number, what in constituents if bound.get(number) in SEVERAL]
        start = which == "start-ts"
        if several:
            return self._time_of_several(there, several, bound, start=start)
        if not there:
            return Value("D[c + C_OPENED]" if start else "now", attr="time")
        times = [time_of(f"x{number}", what, start=start) for number, what in there]
        text = times[0]
        for each in times[1:]:
            text = f"{'min' if start else 'max'}({text}, {each})"
        return Value(text, attr="time")

    def _time_of_several(
        self, there: list[tuple[int, str]], several: list[tuple[int, str]], bound: Bound, *, start: bool
    ) -> Value:
        """Write the time of a spot of which a match has several events."""
        write, name, pick = self.write, self.write.fresh("t"), "min" if start else "max"
        nothing = 9223372036854775807 if start else -9223372036854775807
        write(f"{name} = {nothing}")
        for number, what in there:
            write(f"{name} = {pick}({name}, {time_of(f'x{number}', what, start=start)})")
        for number, what in several:
            if what == "tick":
                with write.block(f"if x{number} >= 0:"):
                    write(f"{name} = {pick}({name}, now)")
                continue
            with self.each_event(number, str(bound[number])) as node:
                write(f"{name} = {pick}({name}, {time_of(node, what, start=start)})")
        with write.block(f"if {name} == {nothing}:"):
            write(f"{name} = {'D[c + C_OPENED]' if start else 'now'}")
        return Value(name, attr="time")

    @contextmanager
    def each_event(self, number: int, state: str) -> Iterator[str]:
        """A block for each event that a leaf is bound to; the name of the variable that it is in."""
        write, node = self.write, self.write.fresh("y")
        if state == "node":
            write(f"{node} = x{number}")
            yield node
        elif state == "word":
            with each_of_set(write, f"x{number}", node):
                yield node
        else:
            write(f"{node} = D[{self.list_of(number)} + {HEAD}]")
            with write.block(f"while {node} != -1:"):
                yield node
                write(f"{node} = D[{node} + {NEXT}]")

    def constituents(self, spot: PatternSpot) -> list[int]:
        """The leaves that a match has at a spot; none of what is negated."""
        if spot.leaf is not None:
            return [spot.number]
        if spot.operator == "Not":
            return []
        below = spot.spots[:1] if spot.operator == "Unless" else spot.spots
        return [leaf for each in below for leaf in self.constituents(each)]

    def timed(self, spot: PatternSpot) -> list[tuple[int, str]]:
        """What gives a match its times, at a spot: leaves, ticks, and sources that have waited."""
        if spot.operator in (None, "At", "Every"):
            return [(spot.number, "leaf" if spot.operator is None else "tick")]
        if spot.operator == "After":
            return [(spot.spots[0].number, "source")]
        below = () if spot.operator == "Not" else spot.spots[:1] if spot.operator == "Unless" else spot.spots
        return [each for one in below for each in self.timed(one)]

    def _holds(self, homes: Iterable[int], bound: Bound) -> str:
        homes = list(homes)
        asked = [each for home in homes for each in self._homes.get(home, ())]
        apart = (self._is_apart(home, self.layout.apart.get(home, ()), bound) for home in homes)
        return both(*apart, *(self._holds_of_every(each, bound) for each in asked))

    def _holds_of_every(self, asked: StagedExpr, bound: Bound) -> str:
        """The text of: a condition holds, for every event of operands with `all`."""
        spots = [self.names.spots[str(part.name)] for part in self._mentions(asked)]
        return self._of_every(spots, bound, lambda there: holding(self.layout, [asked], self.look_up(there)))

    def _of_every(self, spots: Iterable[PatternSpot], bound: Bound, test: Callable[[Bound], str]) -> str:
        """Write a test for every choice of one event for each operand with `all` among some spots."""
        every = sorted({leaf.number for spot in spots for leaf in spot.leaves() if bound.get(leaf.number) == "every"})
        if not every:
            return test(bound)
        write, held = self.write, self.write.fresh("every")
        write(f"{held} = True")

        def choose(at: int, there: Bound) -> None:
            if at == len(every):
                if (text := test(there)) != "True":
                    with write.block(f"if not {text}:"):
                        write(f"{held} = False")
                return
            x = f"x{every[at]}"
            write(f"{x} = D[{self.list_of(every[at])} + {HEAD}]")
            with write.block(f"while {held} and {x} != -1:"):
                choose(at + 1, {**there, every[at]: "node"})
                write(f"{x} = D[{x} + {NEXT}]")

        choose(0, bound)
        return held

    def _is_apart(self, number: int, others: Iterable[int], bound: Bound) -> str:
        """The text of: the event of a leaf stands at no other one that is bound (`distinct`)."""
        mine = bound.get(number)
        if mine not in ("node", *SEVERAL):
            return "True"
        if any(bound.get(other) == "counted" for other in others):
            raise NotCompiledError("an event is told apart from those that are counted")
        nodes = [other for other in others if mine == bound.get(other) == "node"]
        several = [other for other in others if bound.get(other) in ("node", *SEVERAL) and other not in nodes]
        texts = [f"(D[x{number} + {AT}] != D[x{other} + {AT}])" for other in nodes]
        for other in several:
            texts.append(apart := self.write.fresh("apart"))
            self.write(f"{apart} = True")
            with self.each_event(number, str(mine)) as one, self.each_event(other, str(bound[other])) as two:
                self.write(f"{apart} = {apart} and D[{one} + {AT}] != D[{two} + {AT}]")
        return both(*texts)

    # --- what can be told without a search ---

    def list_of(self, number: int) -> str:
        return f"loc + {self.layout.lists_at(number)}"

    def _possible(self, spot: PatternSpot) -> str:
        if spot.deferred and not self.final:
            return "False"
        inner = [self._possible(each) for each in spot.spots]
        match spot.operator:
            case None:
                return f"D[{self.list_of(spot.number)} + {COUNT}] > 0"
            case "Or":
                ways = [each for each in inner if each != "False"]
                return "True" if "True" in ways else f"({' or '.join(ways)})" if ways else "False"
            case "Unless":
                return inner[0]
            case "At" | "Every":
                return "False" if self.final else f"tick_{spot.number}"
            case "After":
                return "False" if self.final else f"D[{self._due(spot)} + {COUNT}] > 0"
            case "Not" | "Nth" | "AtLeast" | "AtMost":
                return "True"
        return both(*inner)

    # --- solvers ---

    def _solve(self, spot: PatternSpot, rest: Rest, bound: Bound, *, once: bool = False, ends: Ends = ANYWHERE) -> str:
        """Write all ways to bind a spot; the name of the variable that says whether one could be completed."""
        if len(self.write.lines) > DEEP:
            raise NotCompiledError("its loops would be too many")
        found = self.write.fresh("f")
        self.write(f"{found} = False")
        if spot.deferred and not self.final:
            return found
        if spot.operator is not None and spot.number in self._homes:
            inner = rest
            rest = lambda there: self._if(self._holds([spot.number], there), lambda: inner(there))  # noqa: E731
        match spot.operator:
            case None:
                self._leaf(spot, rest, bound, found, once, ends)
            case "Or":
                self._or(spot, rest, bound, found, once)
            case "Not":
                self._not(spot, rest, bound, found)
            case "Unless":
                self._unless(spot, rest, bound, found, once)
            case "Nth" | "AtLeast" | "AtMost":
                self._counting(spot, rest, bound, found)
            case "At" | "Every" | "After" if self.final:
                pass
            case "At" | "Every":
                self._tick(spot, rest, bound, found)
            case "After":
                self._after(spot, rest, bound, found, once)
            case _:
                self._chain(spot, 0, rest, bound, found, once)
        return found

    def _if(self, condition: str, inner: Callable[[], str]) -> str:
        """Write something under a condition; the text of whether it could be completed."""
        if condition == "True":
            return inner()
        done = self.write.fresh("d")
        self.write(f"{done} = False")
        if condition != "False":
            with self.write.block(f"if {condition}:"):
                text = inner()
                self.write(f"{done} = {text}")
        return done

    def _leaf(self, spot: PatternSpot, rest: Rest, bound: Bound, found: str, once: bool, ends: Ends) -> None:
        leaf, n, write = spot.leaf, spot.number, self.write
        assert leaf is not None
        how, x = leaf.quantifier, f"x{spot.number}"
        newest, stop = how.age == "new", self.stop
        self.stop = None
        if how.every:
            self._whole_list(n, rest, bound, found)
            return
        there = {**bound, n: "node"}
        if how.strict:
            low, high = "", ""
        else:
            low, high = self._bounds(spot, ends, bound)
        limited = how.most is not None
        count, last = write.fresh("n"), write.fresh("e")
        if limited:
            write(f"{count} = 0", f"{last} = 0")
        write(f"{x} = D[{self.list_of(n)} + {TAIL if newest else HEAD}]")
        with write.block(f"while {x} != -1:"):
            self._within(x, low, high, newest=newest)
            if limited and how.staged:
                with write.block(f"if {count} == {how.most} and D[{x} + {END}] != {last}:"):
                    write("break")
            done = self._if(self._holds([n], there), lambda: rest(there))
            if done != "True":
                header = f"if {done}:"
                with write.block(header):
                    self._selected(x, found, count if limited else None, last, staged=how.staged, once=once)
                if how.strict:
                    with write.block("else:"):
                        write("break")
            else:
                self._selected(x, found, count if limited else None, last, staged=how.staged, once=once)
            if stop is not None:
                with write.block(f"if {stop}:"):
                    write("break")
            if limited and not how.staged and not once:
                with write.block(f"if {count} == {how.most}:"):
                    write("break")
            write(f"{x} = D[{x} + {PREV if newest else NEXT}]")

    def _whole_list(self, number: int, rest: Rest, bound: Bound, found: str) -> None:
        """The quantifier `all`."""
        there = {**bound, number: "every"}
        self.whole.add(number)
        with self.write.block(f"if D[{self.list_of(number)} + {COUNT}] > 0:"):
            done = self._if(self._holds([number], there), lambda: rest(there))
            self.write(f"{found} = {done}")

    def _selected(self, x: str, found: str, count: str | None, last: str, *, staged: bool, once: bool) -> None:
        self.write(f"{found} = True")
        if once:
            self.write("break")
        elif count is not None and staged:
            with self.write.block(f"if {count} == 0 or D[{x} + {END}] != {last}:"):
                self.write(f"{count} += 1", f"{last} = D[{x} + {END}]")
        elif count is not None:
            self.write(f"{count} += 1")

    def _within(self, x: str, low: str, high: str, *, newest: bool, before: int = PREV) -> None:
        """Write the bounds of a loop over a list in order of ends: skip events on one side, stop at the other."""
        step = f"{x} = D[{x} + {before if newest else NEXT}]"
        for bound, op, first in ((low, "<", newest), (high, ">", not newest)):
            if bound:
                with self.write.block(f"if D[{x} + {END}] {op} {bound}:"):
                    self.write(*(["break"] if first else [step, "continue"]))

    def _bounds(self, spot: PatternSpot, ends: Ends, bound: Bound) -> tuple[str, str]:
        """The names of variables with the least and the greatest end of a leaf; empty: none."""
        low, high = [*ends.low], [*ends.high]
        if not low and not high and self._ends_now(spot):
            low, high = ["now"], ["now"]
        low += self._least_ends(spot, bound)
        names = []
        for name, texts, pick in (("lo", low, "max"), ("hi", high, "min")):
            if not texts:
                names.append("")
                continue
            text = texts[0]
            for each in texts[1:]:
                text = f"{pick}({text}, {each})"
            names.append(self.write.fresh(name))
            self.write(f"{names[-1]} = {text}")
        return names[0], names[1]

    def _ends_now(self, spot: PatternSpot) -> bool:
        """`end-ts(X) = stable-time`"""
        for each in self._homes.get(spot.number, ()):
            if isinstance(each, Compared) and each.op == "=":
                for mine, other in ((each.left, each.right), (each.right, each.left)):
                    if isinstance(mine, TimeOf) and mine.which == "end-ts" and isinstance(other, StableTime):
                        return mine.name == spot.name
        return False

    def _least_ends(self, spot: PatternSpot, bound: Bound) -> list[str]:
        """Where the events of a leaf end at the earliest: what starts later than something also ends later."""
        found = []
        for each in (one for several in self._homes.values() for one in several):
            if not isinstance(each, Compared) or each.op not in ("<", "<=", ">", ">="):
                continue
            later, earlier = (each.left, each.right) if each.op[0] == ">" else (each.right, each.left)
            if not isinstance(later, TimeOf) or not isinstance(earlier, TimeOf):
                continue
            if "sst" in (later.which, earlier.which) or not self._is_part(spot, later):
                continue
            before = self.names.spots[earlier.name]
            leaves = self._parts(before)
            is_plain = set(leaves) == {leaf.number for leaf in before.leaves()}
            if is_plain and leaves and all(bound.get(leaf) == "node" for leaf in leaves):
                time = self._time(before, earlier.which, bound)
                assert isinstance(time, Value)
                found.append(f"{time.text} + 1" if len(each.op) == 1 else time.text)
        return found

    def _is_part(self, spot: PatternSpot, later: TimeOf) -> bool:
        """Whether a time is not after the end of a leaf: its own, or the start of what it is a part of."""
        whole = self.names.spots[later.name]
        return whole is spot or (later.which == "start-ts" and spot.number in self._parts(whole))

    def _parts(self, spot: PatternSpot) -> list[int]:
        """The leaves that every match of a spot binds."""
        if spot.leaf is not None:
            return [spot.number]
        below = spot.spots if spot.operator in ("And", "Sequence", "Concurrent", ONLY) else ()
        return [leaf for each in below for leaf in self._parts(each)]

    # --- operators ---

    def _chain(self, spot: PatternSpot, at: int, rest: Rest, bound: Bound, found: str, once: bool) -> None:
        """Sequence, And, Concurrent, and a leaf in parentheses: one operand after the other."""
        ordered = spot.operator in ("Sequence", "Concurrent") and at > 0
        ends = Ends()
        if ordered and spot.spots[at].leaf is not None:
            end = self._end(spot.spots[at - 1], bound)
            ends = Ends((f"{end} + 1",)) if spot.operator == "Sequence" else Ends((end,), (end,))

        def after(there: Bound) -> str:
            fits = "True"
            if ordered:
                one, other, sign = spot.spots[at - 1], spot.spots[at], "<" if spot.operator == "Sequence" else "=="
                in_order = lambda now: f"({self._end(one, now)} {sign} {self._end(other, now)})"  # noqa: E731
                fits = self._of_every((one, other), there, in_order)
            if at + 1 == len(spot.spots):
                return self._if(fits, lambda: rest(there))
            inner = self.write.fresh("f")
            self.write(f"{inner} = False")

            def go_on() -> str:
                self._chain(spot, at + 1, rest, there, inner, once)
                return inner

            return self._if(fits, go_on)

        one = self._solve(spot.spots[at], after, bound, once=once, ends=ends)
        self.write(f"{found} = {one}")

    def _end(self, spot: PatternSpot, bound: Bound) -> str:
        time = self._time(spot, "end-ts", bound)
        return "now" if isinstance(time, Absence) else time.text

    def _or(self, spot: PatternSpot, rest: Rest, bound: Bound, found: str, once: bool) -> None:
        for at, chosen in enumerate(spot.spots):
            out = [each.number for other in spot.spots if other is not chosen for each in other.all()]
            there = {**bound, **dict.fromkeys(out, "absent")}

            def held(now: Bound, out: list[int] = out) -> str:
                return self._if(self._holds(out, now), lambda: rest(now))

            with self.write.block(f"if not {found}:" if once and at else "if True:"):
                one = self._solve(chosen, held, there, once=once)
                self.write(f"{found} = {found} or {one}")

    def _not(self, spot: PatternSpot, rest: Rest, bound: Bound, found: str) -> None:
        one = self._solve(spot.spots[0], lambda _: "True", bound, once=True)
        with self.write.block(f"if not {one}:"):
            done = rest(bound)
            self.write(f"{found} = {done}")

    def _unless(self, spot: PatternSpot, rest: Rest, bound: Bound, found: str, once: bool) -> None:
        first, second = spot.spots

        def after(there: Bound) -> str:
            blocked = self._solve(second, lambda _: "True", there, once=True)
            return self._if(f"not {blocked}", lambda: rest(there))

        one = self._solve(first, after, bound, once=once)
        self.write(f"{found} = {one}")

    def _tick(self, spot: PatternSpot, rest: Rest, bound: Bound, found: str) -> None:
        with self.write.block(f"if tick_{spot.number}:"):
            done = rest({**bound, spot.number: "tick"})
            self.write(f"{found} = {done}")

    def _due(self, spot: PatternSpot) -> str:
        return f"loc + {self.layout.lists_at(spot.spots[0].number, due=True)}"

    def _after(self, spot: PatternSpot, rest: Rest, bound: Bound, found: str, once: bool) -> None:
        """After binds its leaf to each source that is due now."""
        write, n = self.write, spot.spots[0].number
        there = {**bound, spot.number: "tick", n: "node"}
        write(f"x{n} = D[{self._due(spot)} + {TAIL}]")
        with write.block(f"while x{n} != -1:"):
            done = self._if(self._holds([n], there), lambda: rest(there))
            with write.block(f"if {done}:"):
                write(f"{found} = True", *(["break"] if once else []))
            write(f"x{n} = D[x{n} + {PREV}]")

    def _counting(self, spot: PatternSpot, rest: Rest, bound: Bound, found: str) -> None:
        """Write a counting operator: each match of an operand, found by itself, counts as much as its weight."""
        write, wanted = self.write, spot.call.count or 0
        is_kept = spot.number in self._kept()
        total, before = write.fresh("total"), write.fresh("before")
        write(f"{total} = 0", f"{before} = en")
        enough, apart = wanted + (spot.operator == "Nth"), self.layout.apart
        counted = {each.number: "counted" for each in spot.all() if each is not spot}
        words: dict[int, str] = {}
        for operand in spot.spots:
            leaf = operand.leaf
            weight = 1 if leaf is None or leaf.weight is None else int(leaf.weight)
            how = None if leaf is None else leaf.quantifier
            is_asked = operand.number in self._homes or operand.number in apart
            if how is not None and not is_asked and not how.strict and how.most is None:
                write(f"{total} += {weight} * D[{self.list_of(operand.number)} + {COUNT}]")
                counted[operand.number] = "whole"
                self.whole.add(operand.number)
                continue
            if is_kept:
                words |= self._count_and_keep(operand, total, weight, bound)
                continue

            def count(there: Bound, weight: int = weight, operand: PatternSpot = operand) -> str:
                write(f"{total} += {self._times(operand, there, weight)}")
                return "True"

            self.stop = f"{total} >= {enough}" if how is not None and weight > 0 else None
            self._solve(operand, count, bound)
        fits = {"Nth": "==", "AtLeast": ">=", "AtMost": "<"}[str(spot.operator)]
        with write.block(f"if {total} {fits} {wanted}:"):
            write(*(f"x{number} = {word}" for number, word in words.items()))
            done = rest({**bound, **counted, **dict.fromkeys(words, "word")})
            write(f"{found} = {done}")
        with write.block(f"if not {found}:"):
            write(f"en = {before}")

    def _times(self, operand: PatternSpot, bound: Bound, weight: int) -> str:
        """How much a match of a counted operand counts: operands with `all` count each of their events."""
        every = [leaf.number for leaf in operand.leaves() if bound.get(leaf.number) == "every"]
        return " * ".join([str(weight), *(f"D[{self.list_of(number)} + {COUNT}]" for number in every)])

    def _count_and_keep(self, operand: PatternSpot, total: str, weight: int, bound: Bound) -> dict[int, str]:
        """Write the counting of an operand, and which events its matches have; a variable with a word for each leaf.

        The matches are a table in E, of which then each column becomes a set.
        """
        write, layout = self.write, self.layout
        if any(spot.operator in COUNTING for spot in operand.all()):
            raise NotCompiledError("what is counted counts events that are part of the answer")
        leaves = self.constituents(operand)
        ticks = [spot.number for spot in operand.all() if spot.operator in ("At", "Every")]
        columns = [*leaves, *ticks]
        first, rows, width = write.fresh("first"), write.fresh("rows"), len(columns)
        write(f"{first} = en", f"{rows} = 0")

        def count(there: Bound) -> str:
            write(f"{total} += {self._times(operand, there, weight)}")
            with write.block(f"if en + {width} > EN:"):
                write.more("E", f"en + {width}")
            for at, number in enumerate(columns):
                word = {"node": f"x{number}", "every": "0", "tick": "0"}.get(str(there.get(number)), "-1")
                write(f"E[en + {at}] = {word}")
            write(f"en += {width}", f"{rows} += 1")
            return "True"

        self._solve(operand, count, bound)
        every = {spot.number for spot in operand.leaves() if spot.leaf is not None and spot.leaf.quantifier.every}
        return {number: self._word_of_column(at, number, first, rows, width, is_set=number not in every | {*ticks})
                for at, number in enumerate(columns)
                if number in layout.places_of}  # fmt: skip

    def _word_of_column(self, at: int, number: int, first: str, rows: str, width: int, *, is_set: bool) -> str:
        """Write the word of a leaf or a tick that was counted: the set of its events, or whether it was there."""
        write, word = self.write, self.write.fresh("word")
        if not is_set:
            there = WHOLE if number in self.layout.index else 0
            write(f"{word} = -1")
            with write.block(f"for k in range({rows}):"), write.block(f"if E[{first} + k * {width} + {at}] == 0:"):
                write(f"{word} = {there}")
            return word
        self.sets.add(number)
        with write.block(f"if en + {rows} + 1 > EN:"):
            write.more("E", f"en + {rows} + 1")
        write(f"{word} = {SETS} - en", f"en += 1 + gathered(E, D, {first}, {rows}, {width}, {at}, en)")
        return word

    def _kept(self) -> set[int]:
        """Operators that count events which are asked for: a match has them, or their times count, or who they are."""
        if self.layout.apart:
            return {spot.number for spot in self.layout.spots}
        found = {place.number for place in self.layout.places.operators if not place.negated}
        for spot in self.layout.spots:
            if spot.operator in ("Sequence", "Concurrent") or (spot.leaf is None and spot.name is not None):
                found |= {each.number for each in spot.all()}
        return found

    # --- joins that begin with what is new ---

    def _joined(self, join: NewJoin, keep: Rest) -> None:
        for steps in join.searches:
            self._walk(steps, 0, {}, keep)

    def _walk(self, steps: tuple[Step, ...], at: int, bound: Bound, keep: Rest) -> None:
        if at == len(steps):
            keep(bound)
            return
        step, write = steps[at], self.write
        n, x = step.number, f"x{step.number}"
        low = ["now"] if step.age == "new" else []
        high = ["now - 1"] if step.age == "old" else []
        if step.low is not None:
            end = f"D[x{step.low} + {END}]"
            low.append(end if step.same else f"{end} + 1")
            high += [end] if step.same else []
        if step.high is not None:
            end = f"D[x{step.high} + {END}]"
            high.append(end if step.same else f"{end} - 1")
            low += [end] if step.same else []
        names = []
        for name, texts, pick in (("lo", low, "max"), ("hi", high, "min")):
            text = ""
            for each in texts:
                text = f"{pick}({text}, {each})" if text else each
            names.append(write.fresh(name) if text else "")
            if text:
                write(f"{names[-1]} = {text}")
        there = {**bound, n: "node"}
        before = PREV
        if step.equal is None:
            write(f"{x} = D[{self.list_of(n)} + {TAIL}]")
        else:
            before = self._by_value(n, *step.equal) + BEFORE
        with write.block(f"while {x} != -1:"):
            self._within(x, names[0], names[1], newest=True, before=before)
            holds = both(self._is_apart(n, step.apart, there), holding(self.layout, step.asked, self.look_up(there)))
            with write.block(f"if {holds}:"):
                self._walk(steps, at + 1, there, keep)
            write(f"{x} = D[{x} + {before}]")

    def _by_value(self, number: int, attr: str, other: int, theirs: str) -> int:
        """Write the lookup of the last event of a leaf whose value equals that of a bound one, if there is an index."""
        write, layout, x = self.write, self.layout, f"x{number}"
        mine, wanted = layout.field(attr), self._attribute_of(other, theirs)
        found = None if mine is None else KINDS[mine.kind]
        if wanted.null == "True" or found != wanted.kind:
            raise NotCompiledError(f"{attr} and {theirs} are equal, and of different kinds")
        ((at, off),) = [(at, off) for at, (name, off) in enumerate(layout.by_value(number)) if name == attr]
        write(f"{x} = -1")
        with write.block(f"if not {wanted.null}:"):
            write(f"K[0] = {self.list_of(number)}", f"K[1] = {at}")
            write(f"KR[2] = {wanted.text} + 0.0" if found == "float" else f"K[2] = {wanted.text}")
            home = write.fresh("h")
            write(f"{home} = TV[slot_of(TV, TVN - 1, D, {OF_LIST}, K, 0, 3)]")
            with write.block(f"if {home} != -1:"):
                write(f"{x} = D[{home} + {LAST}]")
        return off

    def _attribute_of(self, number: int, attr: str) -> Value:
        x = f"x{number}"
        return attribute(self.layout, attr, f"D[{x} + 7 + {{}}]", f"R[{x} + 7 + {{}}]", f"D[{x} + 6]")


@contextmanager
def each_of_set(write: TextWriter, word: str, node: str) -> Iterator[None]:
    """A block for each event of a set."""
    place = write.fresh("k")
    with write.block(f"if {word} <= {SETS}:"), write.block(f"for {place} in range(E[{SETS} - {word}]):"):
        write(f"{node} = E[{SETS} - {word} + 1 + {place}]")
        yield


def time_of(word: str, what: str, *, start: bool) -> str:
    """The text of the start or end of what a match has: of a leaf, a tick, or a source that has waited until now."""
    if what == "tick" or (what == "source" and not start):
        return "now"
    return f"D[{word} + {START if start else END}]"
