"""Where values are kept, and how names are read from there in generated code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tocsin.engine.codegen.program import MASK_BITS, WHOLE, WITHDRAWN, Shape, Stored
from tocsin.engine.codegen.readings import reaches_ahead
from tocsin.engine.derive import derive
from tocsin.engine.expressions import Literals, Names, Scribe, Valued, Writer, both
from tocsin.functions import Function
from tocsin.plan.block import Block, Leaf, Plan, Scope
from tocsin.plan.expr import Agg, Bound, Col, Op, Reach, Ref, Time, User, walk
from tocsin.plan.rewrite import blocks_below
from tocsin.schema import Kind


class Layout(Names):
    """Rows of stored events, columns of batches, and the words that reach them."""

    def __init__(
        self,
        plan: Plan,
        block: Block,
        shape: Shape,
        functions: Mapping[str, Function],
        inlinable: Callable[[Function], bool],
    ) -> None:
        self.functions = functions

        def inline(user: User) -> bool:
            numeric = all(arg.kind is not Kind.TEXT for arg in user.args) and user.kind is not Kind.TEXT
            return numeric and inlinable(functions[user.name])

        self.inline = inline
        self.root, self.derived = derive(block, inline)
        self.plan, self.shape = plan, shape
        self.writer = Writer()
        self.literals = Literals()
        self.scribe = Scribe(self, self.writer, self.literals)
        self.emit = self.writer.emit
        self.blocks = list(blocks_below(self.root))
        self.leaves = {leaf.id: leaf for each in self.blocks for leaf in each.leaves}
        self.number = {id: number for number, id in enumerate(self.leaves)}
        self.nest = self.root.nest or tuple(leaf.id for leaf in self.root.fixed)
        self.keys = dict(plan.key) if plan.key else {}
        self.keys = {id: attrs for id, attrs in self.keys.items() if id in self.leaves}
        self.within = plan.within
        self.params = self._types()
        self._lay_out()
        self.aggs: dict[Agg, int] = {}
        self.foreign_calls: list[Op | User] = []
        self.inlined: list[str] = []
        self.changeable = bool(self.root.forbidden or self.root.repeated)
        self.holds = shape.hold and self.changeable
        self.waits = self.holds or any(reaches_ahead(scope) for scope in self._root_scopes())
        self.declared: list[tuple[str, str]] = []
        self.batch: int | None = None  # the leaf that is read from the row of a batch, not from what is stored

    @property
    def _width(self) -> int:
        """Words of a row of OUT."""
        return 2 + len(self.nest) + 2 * len(self.root.repeated)

    @property
    def _head(self) -> int:
        """Words of a waiting answer before its events."""
        return 4 if self.holds else 2

    @property
    def _tables(self) -> str:
        return f"H, {self.words}"

    # --- layout ---------------------------------------------------------------------------------------------------

    def _types(self) -> tuple[str, ...]:
        names = dict.fromkeys(alt.type for leaf in self.leaves.values() for alt in leaf.alts)
        self.types = tuple(names)
        return self.types

    def _lay_out(self) -> None:
        """Words of H: end, event, [start], [eid, eid], null masks, attributes; and the columns read from a batch."""
        row = 2
        self.row_start = 0
        if self.shape.intervals:
            self.row_start, row = row, row + 1
        self.row_eid = -1
        if self.shape.eids:
            self.row_eid, row = row, row + 2
        kept = {id: self._columns_of(leaf) for id, leaf in self.leaves.items()}
        bits = max(sum(self._may_be_null(leaf, nullable) for *_, nullable in kept[leaf.id]) for leaf in self._each())
        self.row_nulls, row = row, row + max(1, -(-bits // MASK_BITS))
        self.stored: dict[int, dict[tuple[str, str], Stored]] = {id: {} for id in self.leaves}
        self.words = row
        for id, leaf in self.leaves.items():
            bit = 0
            for place, (var, attr, kind, nullable) in enumerate(kept[id], start=row):
                may_be_null = self._may_be_null(leaf, nullable)
                array = "HF" if kind is Kind.FLOAT else "H"
                self.stored[id][var, attr] = Stored(array, place, bit if may_be_null else None, len(leaf.alts) > 1)
                bit += may_be_null
                self.words = max(self.words, place + 1)
        self.keeps_nulls = any(kept.bit is not None for each in self.stored.values() for kept in each.values())
        self._lay_out_batch()

    def _each(self) -> Iterable[Leaf]:
        return self.leaves.values()

    def _may_be_null(self, leaf: Leaf, nullable: bool) -> bool:
        """Whether an attribute of a stored event may be null; those of the other alternatives always are."""
        return nullable or len(leaf.alts) > 1

    def _lay_out_batch(self) -> None:
        """The columns of a batch, and the blocks of `marks`: who is withdrawn, and where each attribute is null."""
        used: dict[str, tuple[bool, bool]] = {}
        for col in self._batch_columns():
            was = used.get(col.attr, (False, False))
            used[col.attr] = (col.kind is Kind.FLOAT, was[1] or col.nullable)
        self.columns = {attr: (number, *used[attr]) for number, attr in enumerate(used)}
        nullable = [attr for attr, (_, may_be_null) in used.items() if may_be_null]
        self.marks = ([WITHDRAWN] if self.shape.eids else []) + nullable

    def _columns_of(self, leaf: Leaf) -> list[tuple[str, str, Kind, bool]]:
        found: dict[tuple[str, str], tuple[Kind, bool]] = {}
        for node in self._predicate_nodes():
            if isinstance(node, Col) and node.leaf == leaf.id and node.kind is not Kind.NULL:
                found[node.var, node.attr] = (node.kind, node.nullable)
        if len(leaf.alts) > 1:
            found["", "$alt"] = (Kind.INT, False)
        return [(var, attr, kind, nullable) for (var, attr), (kind, nullable) in found.items()]

    def _predicate_nodes(self) -> Iterator[Bound]:
        for each in self.blocks:
            for predicate in each.predicates:
                yield from walk(predicate)

    def _batch_columns(self) -> Iterator[Col]:
        """The attributes that the kernel reads from a batch: stored ones, those of unary predicates, keys."""
        for node in self._predicate_nodes():
            if isinstance(node, Col) and node.kind is not Kind.NULL:
                yield node
        for leaf in self.leaves.values():
            for alt in leaf.alts:
                for where in alt.where:
                    yield from (node for node in walk(where) if isinstance(node, Col) and node.kind is not Kind.NULL)
                for attr in self.keys.get(leaf.id, ()):
                    known = self.plan.schema.field(alt.type, attr)
                    assert known is not None
                    yield Col(leaf.id, alt.var, attr, known.kind, known.scale, known.nullable)

    def _root_scopes(self) -> Iterator[Scope]:
        yield from (part.scope for part in self.root.forbidden)
        yield from (scope for _, scope in self.root.scopes)

    # --- reading names --------------------------------------------------------------------------------------------

    def column(self, col: Col) -> Valued:
        if col.kind is Kind.NULL:
            return "0", "False"
        if self.batch == col.leaf:
            return f"c{self.columns[col.attr][0]}[i]", self._are_given([col.attr])
        kept = self.stored[col.leaf][col.var, col.attr]
        return self._kept(kept, f"i_{col.leaf}"), self._is_known(kept, col.leaf)

    without_nulls = False  # what is being written runs only while no null came, and for no withdrawal

    def _are_given(self, attrs: Iterable[str]) -> str:
        """The condition that a row of the batch has all of some attributes; empty if every row has them."""
        asked = () if self.without_nulls else attrs
        given = " and ".join(f"{self._mark(attr)} == 0" for attr in asked if attr in self.marks)
        return f"(marked == 0 or ({given}))" if given else ""

    def _mark(self, name: str) -> str:
        """The mark of the row at hand in a block of `marks`; to be read only where `marked` is not 0."""
        block = self.marks.index(name)
        return f"marks[{f'{block} * marked + ' if block else ''}i]"

    def _is_known(self, kept: Stored, leaf: int) -> str:
        """The condition that an attribute of a stored event is not null; empty if it never is."""
        if kept.bit is None or (self.without_nulls and not kept.is_optional):
            return ""
        word, bit = divmod(kept.bit, MASK_BITS)
        asked = "1" if kept.is_optional else "nulls"
        return f"({self._word(leaf, self.row_nulls + word)} >> {bit}) & {asked} == 0"

    def _unpack(self) -> None:
        """The first lines of a function that is given the state as one tuple."""
        self.emit(f"{WHOLE} = S")

    def _word(self, leaf: int, row: int) -> str:
        """A word of the event at a leaf: 0 its end, 1 its number, ..."""
        return f"H[i_{leaf} * {self.words}{f' + {row}' if row else ''}]"

    def _kept(self, kept: Stored, place: str) -> str:
        return f"{kept.array}[{place} * {self.words} + {kept.row}]"

    def time(self, time: Time) -> Valued:
        here = self.batch == time.leaf  # a row fills the alternative that is being written
        known = self._alternative(time.leaf, time.var) if time.nullable and time.var and not here else ""
        return self._time(time.leaf, time.which), known

    def _time(self, leaf: int, which: str) -> str:
        if leaf == self.batch:
            return "s" if which == "start" else "e"
        if leaf in self.spelled:
            return f"s_{leaf}" if which == "start" and self.shape.intervals else f"e_{leaf}"
        if self.leaves[leaf].repeat is not None and leaf != self.member:
            return f"{'rs' if which == 'start' else 're'}_{leaf}"
        return self._word(leaf, self.row_start if which == "start" else 0)

    member: int | None = None  # the repeated leaf whose members are being looked at
    spelled: frozenset[int] = frozenset()  # leaves whose times stand in e_7 and s_7 only: their event may be unseen

    def _alternative(self, leaf: int, var: str) -> str:
        alts = [alt.var for alt in self.leaves[leaf].alts]
        if len(alts) == 1:
            return ""
        return f"{self._word(leaf, self.stored[leaf]['', '$alt'].row)} == {alts.index(var)}"

    def reach(self, reach: Reach) -> str:
        times = ", ".join(self._time(leaf, reach.which) for leaf in reach.leaves)
        if len(reach.leaves) == 1:
            return times
        return f"{'min' if reach.which == 'start' else 'max'}({times})"

    def event(self, ref: Ref) -> str:
        return "number" if self.batch == ref.leaf else self._word(ref.leaf, 1)

    def bound(self, ref: Ref) -> str:
        return "" if self.batch == ref.leaf else self._alternative(ref.leaf, ref.var)

    def aggregate(self, agg: Agg) -> Valued:
        number = self.aggs.setdefault(agg, len(self.aggs))
        return f"g{number}", "" if agg.function == "count" else f"gk{number}"

    def foreign(self, expr: Op | User, args: list[Valued]) -> Valued:
        """A call that leaves the kernel's two kinds of value: inlined if Numba can, else only in the plain body."""
        value, known = self.writer.fresh(), self.writer.fresh()
        if isinstance(expr, User) and self.inline(expr) and not self.functions[expr.name].nulls:
            if expr.name not in self.inlined:
                self.inlined.append(expr.name)
            call = f"user_{expr.name}({', '.join(code for code, _ in args)})"
            zero = "0.0" if expr.kind is Kind.FLOAT else "0"
            self.emit(f"{known} = {both(*(cond for _, cond in args)) or 'True'}")
            self.emit(f"{value} = {zero}")
            self.emit(f"if {known}:")
            self.emit(f"    {value} = {'float' if expr.kind is Kind.FLOAT else 'int'}({call})")
            return value, known
        number = len(self.foreign_calls)
        self.foreign_calls.append(expr)
        given = ", ".join(f"({code} if {cond or 'True'} else None)" for code, cond in args)
        self.emit(f"{value} = FOREIGN[{number}]({given})")
        self.emit(f"{known} = {value} is not None")
        self.emit(f"{value} = 0 if {value} is None else {value}")
        return value, known

    def _tests(self, predicates: Iterable[Bound], otherwise: str) -> None:
        for predicate in predicates:
            self._test(self.scribe.true(predicate), otherwise)

    def _test(self, condition: str, otherwise: str) -> None:
        if condition in ("", "True"):
            return
        self.emit(f"if not ({condition}):")
        self.emit(f"    {otherwise}")

    def _pointers(self, names: list[str]) -> None:
        """From arrays to their addresses, once per call: arrays would be counted at every inner call."""
        for name in names:
            self.emit(f"{name} = pointer(array_{name})")

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self.emit(line)

    def _loop(self, leaf: int, stop: str) -> None:
        """Open a loop over places from i_leaf to stop; the step comes first, so that `continue` may stand anywhere."""
        self.emit(f"i_{leaf} -= 1")
        self.emit(f"while i_{leaf} + 1 < {stop}:")
        self.writer.depth += 1
        self.emit(f"i_{leaf} += 1")
