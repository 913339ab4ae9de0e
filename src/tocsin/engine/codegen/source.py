"""The text of a kernel while it is written: its lines and literals, and how each name is read where it stands."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.program import MASK_BITS, STATE, WHOLE, Stored
from tocsin.engine.expressions import Literals, Names, Scribe, Valued, Writer, both
from tocsin.lang.syntax import DISTINCT
from tocsin.plan.expr import Agg, Bound, Col, Op, Reach, Ref, Time, User
from tocsin.schema import Kind

NEVER_NULL = ("count", DISTINCT, "steps")


class SourceText(Names):
    """Writes lines, and knows by which words each value can be read at the present place."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.writer, self.literals = Writer(), Literals()
        self.scribe = Scribe(self, self.writer, self.literals)
        self.emit = self.writer.emit
        self.aggs: dict[Agg, int] = {}
        self.foreign_calls: list[Op | User] = []
        self.asked: list[User] = []  # calls of user functions that are compiled in
        self.asked_with: list[tuple[tuple[bool, int], ...]] = []  # where each leaves its arguments
        self.declared: list[tuple[str, str]] = []  # functions, with the types of their arguments
        self.batch: int | None = None  # the leaf that is read from the row of a batch, not from what is stored
        self.without_nulls = False  # what is being written runs only while no null came, and for no withdrawal
        self.member: int | None = None  # the repeated leaf whose members are being looked at
        self.spelled: frozenset[int] = frozenset()  # leaves whose times stand in e_7 and s_7 only: it may be unseen

    def column(self, col: Col) -> Valued:
        if col.kind is Kind.NULL:
            return "0", "False"
        if self.batch == col.leaf:
            return f"c{self.layout.columns[col.attr][0]}[i]", self.are_given([col.attr])
        kept = self.layout.stored[col.leaf][col.var, col.attr]
        place = f"{'ip' if col.previous else 'i'}_{col.leaf}"
        return self.kept(kept, place), self._is_known(kept, place)

    def are_given(self, attrs: Iterable[str]) -> str:
        """The condition that a row of the batch has all of some attributes; empty if every row has them."""
        asked = () if self.without_nulls else attrs
        given = " and ".join(f"{self.mark(attr)} == 0" for attr in asked if attr in self.layout.marks)
        return f"(marked == 0 or ({given}))" if given else ""

    def mark(self, name: str) -> str:
        """The mark of the row at hand in a block of `marks`; to be read only where `marked` is not 0."""
        block = self.layout.marks.index(name)
        return f"marks[{f'{block} * marked + ' if block else ''}i]"

    def _is_known(self, kept: Stored, place: str) -> str:
        """The condition that an attribute of a stored event is not null; empty if it never is."""
        if kept.bit is None or (self.without_nulls and not kept.is_optional):
            return ""
        word, bit = divmod(kept.bit, MASK_BITS)
        asked = "1" if kept.is_optional else "nulls"
        return f"(H[{place} * {self.layout.words} + {self.layout.row_nulls + word}] >> {bit}) & {asked} == 0"

    def unpack(self) -> None:
        """The first lines of a function that is given the state as one tuple."""
        self.emit(f"{WHOLE} = S")

    def word(self, leaf: int, row: int) -> str:
        """A word of the event at a leaf: 0 its end, 1 its number, ..."""
        return f"H[i_{leaf} * {self.layout.words}{f' + {row}' if row else ''}]"

    def kept(self, kept: Stored, place: str) -> str:
        return f"{kept.array}[{place} * {self.layout.words} + {kept.row}]"

    def time(self, time: Time) -> Valued:
        here = self.batch == time.leaf  # a row fills the alternative that is being written
        known = self._alternative(time.leaf, time.var) if time.nullable and time.var and not here else ""
        return self.time_of(time.leaf, time.which), known

    def time_of(self, leaf: int, which: str) -> str:
        if leaf == self.batch:
            return "s" if which == "start" else "e"
        if leaf in self.spelled:
            return f"s_{leaf}" if which == "start" and self.layout.shape.intervals else f"e_{leaf}"
        if self.layout.leaves[leaf].repeat is not None and leaf != self.member:
            return f"{'rs' if which == 'start' else 're'}_{leaf}"
        return self.word(leaf, self.layout.row_start if which == "start" else 0)

    def _alternative(self, leaf: int, var: str) -> str:
        alts = [alt.var for alt in self.layout.leaves[leaf].alts]
        if len(alts) == 1:
            return ""
        return f"{self.word(leaf, self.layout.stored[leaf]['', '$alt'].row)} == {alts.index(var)}"

    def reach(self, reach: Reach) -> str:
        times = ", ".join(self.time_of(leaf, reach.which) for leaf in reach.leaves)
        if len(reach.leaves) == 1:
            return times
        return f"{'min' if reach.which == 'start' else 'max'}({times})"

    def event(self, ref: Ref) -> str:
        return "number" if self.batch == ref.leaf else self.word(ref.leaf, 1)

    def bound(self, ref: Ref) -> str:
        return "" if self.batch == ref.leaf else self._alternative(ref.leaf, ref.var)

    def aggregate(self, agg: Agg) -> Valued:
        number = self.aggs.setdefault(agg, len(self.aggs))
        return f"g{number}", "" if agg.function in NEVER_NULL else f"gk{number}"

    def foreign(self, expr: Op | User, args: list[Valued]) -> Valued:
        """A call that leaves the kernel's two kinds of value: compiled in, or only in the plain body."""
        if isinstance(expr, User) and self.layout.inline(expr):
            return self._compiled_in(expr, args)
        value, known = self.writer.fresh(), self.writer.fresh()
        number = len(self.foreign_calls)
        self.foreign_calls.append(expr)
        given = ", ".join(f"({code} if {cond or 'True'} else None)" for code, cond in args)
        self.emit(f"{value} = FOREIGN[{number}]({given})")
        self.emit(f"{known} = {value} is not None")
        self.emit(f"{value} = 0 if {value} is None else {value}")
        return value, known

    def _compiled_in(self, expr: User, args: list[Valued]) -> Valued:
        """A call of machine code. It leaves its arguments behind, so that the host can say with which it raised."""
        value, known, number = self.writer.fresh(), self.writer.fresh(), len(self.asked)
        self.asked.append(expr)
        self.emit(f"{known} = {both(*(cond for _, cond in args)) or 'True'}")
        self.emit(f"{value} = {'0.0' if expr.kind is Kind.FLOAT else '0'}")
        self.emit(f"if {known}:")
        places, given = [], []
        with self.writer.indented():
            self.emit(f"T[ASKED] = {number + 1}")
            for (code, _), arg in zip(args, expr.args, strict=True):
                is_float = arg.kind is Kind.FLOAT
                place = self.literals.room(is_float=is_float)
                self.emit(f"{place} = {code}")
                given.append(f"{place} != 0" if arg.kind is Kind.BOOL else place)
                places.append((is_float, len(self.literals.floats if is_float else self.literals.ints) - 1))
            self.emit(f"{value}, {known} = user_{number}({', '.join(given)})")
            self.emit("T[ASKED] = 0")
        self.asked_with.append(tuple(places))
        return value, known

    def tests(self, predicates: Iterable[Bound], otherwise: str) -> None:
        for predicate in predicates:
            self.test(self.scribe.true(predicate), otherwise)

    def test(self, condition: str, otherwise: str) -> None:
        if condition in ("", "True"):
            return
        self.emit(f"if not ({condition}):")
        self.emit(f"    {otherwise}")

    def pointers(self, names: list[str]) -> None:
        """From arrays to their addresses, once per call: arrays would be counted at every inner call."""
        for name in names:
            self.emit(f"{name} = pointer(array_{name})")

    def open_state(self) -> None:
        """The first lines of an entry point: where the state is."""
        self.lines(f"{STATE} = opened(state)", "nulls = T[NULLS]", f"S = ({WHOLE})")

    def lines(self, *lines: str) -> None:
        for line in lines:
            self.emit(line)

    def loop(self, leaf: int, stop: str) -> None:
        """Open a loop over places from i_leaf to stop; the step comes first, so that `continue` may stand anywhere."""
        self.emit(f"i_{leaf} -= 1")
        self.emit(f"while i_{leaf} + 1 < {stop}:")
        self.writer.depth += 1
        self.emit(f"i_{leaf} += 1")
