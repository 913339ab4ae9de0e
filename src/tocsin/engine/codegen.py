"""The code generator: one block tree becomes one kernel, for every construct and any arrival order.

A kernel stores each relevant event in the sorted buffer of its leaf and key, then looks for answers that contain it: one
loop nest over the fixed leaves of the root block, in which the new event is *pinned* to its leaf. Each level scans a
contiguous range of its buffer, bounded by the order constraints and the window; each predicate is tested at the first
level where its leaves are bound. A forbidden block is a function of its own that returns at the first violation.

A late event also changes answers that do not contain it. The nest then runs in mode DELTA: the status of each binding
with the event minus its status without it (`excl` hides one event from forbidden blocks and repetitions).

Names in generated code: i_7 place of leaf 7, e_7 and s_7 its end and start; a_k, b_k the range of level k.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tocsin.engine.derive import Derived, derive
from tocsin.engine.expressions import Literals, Names, Scribe, Valued, Writer, both
from tocsin.functions import Function
from tocsin.plan.block import (
    After, Before, Block, Enclosing, End, Forbidden, LastEnd, Leaf, Plan, Scope, WindowHigh, WindowLow,
)  # fmt: skip
from tocsin.plan.expr import Agg, Bound, Col, Op, Reach, Ref, Time, User, bare_leaves, leaves, walk
from tocsin.schema import Kind

STATE = "T, H, HF, D, N, KM, PD, OUT, MEM, LF, RK"  # passed between the functions of a kernel as one tuple, S
NEW, DELTA, SETTLE = 0, 1, 2  # modes of the nest
FAILS, HOLDS, WAITS = 0, 1, 2  # status of a binding


@dataclass(frozen=True, slots=True)
class Shape:
    """What the kernel may rely on about its input."""

    intervals: bool
    eids: bool
    signs: bool = False
    nulls: bool = True  # False: no attribute was ever null


@dataclass(slots=True)
class Stored:
    """Where an attribute of a leaf is kept: a row of H ("i") or HF ("f"), and its bit in the row of nulls."""

    array: str
    row: int
    bit: int | None
    tested: bool = True  # False: never null as far as this kernel goes


@dataclass(slots=True)
class Program:
    """A generated kernel and all the host must know to feed it."""

    source: str
    block: Block
    shape: Shape
    leaf_ids: tuple[int, ...]  # buffer number of each leaf
    nest: tuple[int, ...]  # fixed root leaves in nest order: the order of OUT columns and pins
    repeated: tuple[int, ...]  # repeated root leaves: pairs of OUT columns
    types: tuple[str, ...]  # local type numbers
    columns: tuple[tuple[str, bool, bool], ...]  # batch columns: attribute, is float, may be null
    derived: tuple[Derived, ...]
    ints: tuple[int | str, ...]  # the window, then integer literals; texts become codes
    floats: tuple[float, ...]
    keyed: bool
    waits: bool
    ranks: bool  # texts are compared by order
    words: int  # words of H per stored event
    span: int | None  # how far behind the clock events are needed; None: for ever
    foreign: tuple[Op | User, ...]  # called from the plain body only
    inlined: tuple[str, ...]  # user functions compiled into the kernel
    batch_args: str
    functions: tuple[tuple[str, str], ...]  # inner functions in order, with the types of their arguments: i f b S
    tables: dict[str, tuple[int, ...]]
    leaf_lists: tuple[tuple[int, ...], ...]  # leaves that an event of each local type may fill
    key: str = field(default="")

    @property
    def plain_only(self) -> bool:
        return bool(self.foreign)

    @property
    def width(self) -> int:
        return 2 + len(self.nest) + 2 * len(self.repeated)


def generate(
    plan: Plan,
    block: Block,
    shape: Shape,
    functions: Mapping[str, Function],
    inlinable: Callable[[Function], bool],
) -> Program:
    """The kernel of one alternative of a plan; the last ones are remembered."""
    key = (id(plan), id(block), shape, id(functions))
    if key not in _recent:
        if len(_recent) >= 64:
            _recent.pop(next(iter(_recent)))
        _recent[key] = (plan, functions, _Generator(plan, block, shape, functions, inlinable).program())
    return _recent[key][2]


# the plan and the functions are kept, so that their ids stay theirs
_recent: dict[tuple[object, ...], tuple[Plan, Mapping[str, Function], Program]] = {}


def all_blocks(block: Block) -> Iterator[Block]:
    yield block
    for part in block.forbidden:
        yield from all_blocks(part.block)


class _Generator(Names):
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
        self.blocks = list(all_blocks(self.root))
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
        self.waits = any(_reaches_ahead(scope) for scope in self._root_scopes())
        self.changeable = bool(self.root.forbidden or self.root.repeated)
        self.declared: list[tuple[str, str]] = []
        self.batch: str | None = None  # set while the code speaks of a row of the batch, not of stored events

    @property
    def _width(self) -> int:
        """Words of a row of OUT."""
        return 2 + len(self.nest) + 2 * len(self.root.repeated)

    @property
    def _tables(self) -> str:
        return f"H, {self.words}"

    # --- layout ---------------------------------------------------------------------------------------------------

    def _types(self) -> tuple[str, ...]:
        names = dict.fromkeys(alt.type for leaf in self.leaves.values() for alt in leaf.alts)
        self.types = tuple(names)
        return self.types

    def _lay_out(self) -> None:
        """Rows of H: end, event, [start], [eid, eid], [nulls], attributes; and the columns read from a batch."""
        row = 2
        self.row_start = 0
        if self.shape.intervals:
            self.row_start, row = row, row + 1
        self.row_eid = -1
        if self.shape.eids:
            self.row_eid, row = row, row + 2
        self.row_nulls, row = row, row + 1
        self.stored: dict[int, dict[tuple[str, str], Stored]] = {id: {} for id in self.leaves}
        used: dict[str, tuple[bool, bool]] = {}
        self.words = row
        for id, leaf in self.leaves.items():
            bit = 0
            for place, (var, attr, kind, nullable) in enumerate(self._columns_of(leaf), start=row):
                may_be_null = nullable or len(leaf.alts) > 1
                tested = len(leaf.alts) > 1 or self.shape.nulls
                array = "HF" if kind is Kind.FLOAT else "H"
                self.stored[id][var, attr] = Stored(array, place, bit if may_be_null else None, tested)
                bit += may_be_null
                self.words = max(self.words, place + 1)
        for col in self._batch_columns():
            was = used.get(col.attr, (False, False))
            used[col.attr] = (col.kind is Kind.FLOAT, was[1] or (col.nullable and self.shape.nulls))
        self.columns = {attr: (number, *used[attr]) for number, attr in enumerate(used)}

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

    # --- the program ----------------------------------------------------------------------------------------------

    def program(self) -> Program:
        for each in self.blocks[1:][::-1]:
            self._violated(each)
        if self._judged:
            self._judge()
        self._nest()
        self._again()
        self._answers()
        if self.waits:
            self._settle()
        self._kernel()
        names = ", ".join(self._batch_args())
        source = "\n".join(self.writer.lines) + "\n"
        return Program(
            source=source,
            block=self.root,
            shape=self.shape,
            leaf_ids=tuple(self.leaves),
            nest=self.nest,
            repeated=tuple(leaf.id for leaf in self.root.repeated),
            types=self.types,
            columns=tuple((attr, is_float, nullable) for attr, (_, is_float, nullable) in self.columns.items()),
            derived=self.derived,
            ints=tuple(self.literals.ints),
            floats=tuple(self.literals.floats),
            keyed=bool(self.keys),
            waits=self.waits,
            ranks="RK[" in source,
            words=self.words,
            span=self._span(),
            foreign=tuple(self.foreign_calls),
            inlined=tuple(self.inlined),
            batch_args=names,
            functions=tuple(self.declared),
            tables=self.tables(),
            leaf_lists=self.leaf_lists(),
            key=hashlib.blake2b(source.encode(), digest_size=12).hexdigest(),
        )

    def _span(self) -> int | None:
        """Events are needed for a window behind the clock; for two where an answer that waits looks back as well."""
        if self.within is None:
            return None
        ahead = any(isinstance(scope.high, WindowHigh) for scope in self._root_scopes())
        back = any(isinstance(scope.low, WindowLow) for scope in self._root_scopes())
        return 2 * self.within if ahead and back else self.within

    @property
    def _judged(self) -> bool:
        """Whether a complete binding needs more than its own predicates."""
        return self.waits or bool(self.root.repeated) or any(self._late(part) for part in self.root.forbidden)

    # --- reading names --------------------------------------------------------------------------------------------

    def column(self, col: Col) -> Valued:
        if col.kind is Kind.NULL:
            return "0", "False"
        if self.batch is not None:
            number, _, nullable = self.columns[col.attr]
            return f"c{number}[i]", f"v{number}[i] != 0" if nullable else ""
        kept = self.stored[col.leaf][col.var, col.attr]
        known = "" if kept.bit is None or not kept.tested else f"({self._word(col.leaf, self.row_nulls)} >> {kept.bit}) & 1 == 0"
        return self._kept(kept, f"i_{col.leaf}"), known

    def _word(self, leaf: int, row: int) -> str:
        """A word of the event at a leaf: 0 its end, 1 its number, ..."""
        return f"H[i_{leaf} * {self.words}{f' + {row}' if row else ''}]"

    def _kept(self, kept: Stored, place: str) -> str:
        return f"{kept.array}[{place} * {self.words} + {kept.row}]"

    def time(self, time: Time) -> Valued:
        if self.batch is not None:
            return ("s" if time.which == "start" else "e"), ""
        known = self._alternative(time.leaf, time.var) if time.nullable and time.var else ""
        return self._time(time.leaf, time.which), known

    def _time(self, leaf: int, which: str) -> str:
        if self.leaves[leaf].repeat is not None and leaf != self.member:
            return f"{'rs' if which == 'start' else 're'}_{leaf}"
        return self._word(leaf, self.row_start if which == "start" else 0)

    member: int | None = None  # the repeated leaf whose members are being looked at

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
        return "number" if self.batch is not None else self._word(ref.leaf, 1)

    def bound(self, ref: Ref) -> str:
        return "" if self.batch is not None else self._alternative(ref.leaf, ref.var)

    def aggregate(self, agg: Agg) -> Valued:
        number = self.aggs.setdefault(agg, len(self.aggs))
        return f"g{number}", "" if agg.function == "count" else f"gk{number}"

    def foreign(self, expr: Op | User, args: list[Valued], scribe: Scribe) -> Valued:
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

    # --- levels of a nest -----------------------------------------------------------------------------------------

    def _buffer(self, leaf: int) -> str:
        """The number of the buffer of a leaf for the key at hand."""
        number = self.number[leaf]
        return f"key * {len(self.leaves)} + {number}" if leaf in self.keys else str(number)

    def _bounds(self, block: Block, leaf: int, exact: tuple[int, ...], loose: tuple[int, ...]) -> tuple[list[str], list[str]]:
        """Lower and upper bounds on the end of a leaf that its order constraints imply.

        `exact` leaves are bound; of `loose` ones only the range they lie in is known (l_ and h_ names).
        """
        low, high = [], []
        for order in block.order:
            strict = 1 if order.strict else 0
            if order.right.leaf == leaf and order.left.leaf != leaf:
                other = order.left
                if other.leaf in exact:
                    low.append(_plus(self._bound_time(other.leaf, other.which), strict))
                elif other.leaf in loose:
                    low.append(_plus(self._loose("l", other.leaf, other.which), strict))
            if order.left.leaf == leaf and order.right.leaf != leaf and (order.left.which == "end" or not self.shape.intervals):
                other = order.right
                if other.leaf in exact:
                    high.append(_plus(self._bound_time(other.leaf, other.which), -strict))
                elif other.leaf in loose:
                    high.append(_plus(self._loose("h", other.leaf, other.which), -strict))
        return low, high

    def _bound_time(self, leaf: int, which: str) -> str:
        return f"s_{leaf}" if which == "start" and self.shape.intervals else f"e_{leaf}"

    def _loose(self, side: str, leaf: int, which: str) -> str:
        """l_7 / h_7: the end of leaf 7 lies between them; ls_7: its start is not before. h_7 bounds its start too."""
        return f"ls_{leaf}" if side == "l" and which == "start" and self.shape.intervals else f"{side}_{leaf}"

    def _exact_tests(self, block: Block, leaf: int, exact: tuple[int, ...]) -> list[str]:
        """Order constraints on the start of a leaf, which its range of ends does not settle."""
        tests = []
        for order in block.order:
            sign = "<" if order.strict else "<="
            sides = (order.left, order.right)
            mine = [side for side in sides if side.leaf == leaf]
            others = [side for side in sides if side.leaf != leaf]
            if len(mine) == 2 or (self.shape.intervals and mine and mine[0].which == "start" and others and others[0].leaf in exact):
                left, right = (self._bound_time(side.leaf, side.which) for side in sides)
                tests.append(f"{left} {sign} {right}")
        return tests

    def _distinct(self, block: Block, leaf: int, others: Iterable[int]) -> list[str]:
        """One event stands at one leaf only: needed where types overlap and no strict order keeps them apart."""
        ordered = _strictly_ordered(block)
        types = {alt.type for alt in self.leaves[leaf].alts}
        return [
            f"{self._word(leaf, 1)} != {self._word(other, 1)}"
            for other in others
            if types & {alt.type for alt in self.leaves[other].alts}
            and (leaf, other) not in ordered
            and (other, leaf) not in ordered
        ]

    def _plain_predicates(self, block: Block) -> dict[int, list[Bound]]:
        """Predicates without repetitions of this block, by the level at which they are tested (-1: before all)."""
        order = block.nest or tuple(leaf.id for leaf in block.fixed)
        repeated = {leaf.id for leaf in block.repeated}
        placed: dict[int, list[Bound]] = {}
        for predicate in block.predicates:
            mine = leaves(predicate)
            if mine & repeated:
                continue
            levels = [level for level, leaf in enumerate(order) if leaf in mine]
            level = max(levels, default=-1) if block.early else len(order) - 1
            placed.setdefault(level, []).append(predicate)
        return placed

    # --- forbidden blocks -----------------------------------------------------------------------------------------

    def _violated(self, block: Block) -> None:
        """def violated_n(low, high, key, excl, <outer>): 1 as soon as one match of the block lies in [low, high]."""
        name = self.blocks.index(block)
        inner = "".join(f", {outer}" for outer in self._outer(block))
        self.emit("@inlined")
        self.emit(f"def violated_{name}(low, high, key, excl{inner}, S):")
        self.declared.append((f"violated_{name}", "iiii" + "".join(map(self._letter, self._outer(block))) + "S"))
        with self.writer.indented():
            self.emit(f"{STATE} = S")
            placed = self._plain_predicates(block)
            self._tests(placed.get(-1, []), "return 0")
            order = block.nest or tuple(leaf.id for leaf in block.fixed)
            depth = self.writer.depth
            fail = "return 0"
            for level, leaf in enumerate(order):
                self._inner_level(block, order, level, placed, fail)
                fail = "continue"
            self._finish_inner(block, fail)
            self.emit("return 1")
            self.writer.depth = depth
            self.emit("return 0")
        self.emit("")

    def _inner_level(self, block: Block, order: tuple[int, ...], level: int, placed: dict[int, list[Bound]], fail: str) -> None:
        leaf, exact = order[level], order[:level]
        low, high = self._bounds(block, leaf, exact, ())
        buffer = self._buffer(leaf)
        self.emit(f"d_{leaf} = {buffer}")
        bounds = f"{_most(['low', *low])}, {_least(['high', *high])}"
        self.emit(f"i_{leaf}, b_{leaf} = between(H, {self.words}, D[4 * d_{leaf} + 1], D[4 * d_{leaf} + 2], {bounds})")
        self._loop(leaf, f"b_{leaf}")
        tests = [f"{self._word(leaf, 1)} != excl"]
        self.emit(f"e_{leaf} = {self._word(leaf, 0)}")
        if self.shape.intervals:
            self.emit(f"s_{leaf} = {self._word(leaf, self.row_start)}")
            tests.append(f"s_{leaf} >= low")
        tests += self._exact_tests(block, leaf, exact) + self._distinct(block, leaf, exact)
        self._test(" and ".join(tests), "continue")
        self._tests(placed.get(level, []), "continue")

    def _finish_inner(self, block: Block, fail: str) -> None:
        fixed = tuple(leaf.id for leaf in block.fixed)
        self._repetitions(block, fixed, root=False, fail=fail)
        for part in block.forbidden:
            self.emit(f"if {self._violation(block, part, 'excl', root=False)} != 0:")
            self.emit(f"    {fail}")

    def _violation(self, block: Block, part: Forbidden, excl: str, *, root: bool) -> str:
        """The call that looks for a violation of one forbidden part."""
        low, high = self._ends(block, part.scope, root=root)
        inner = "".join(f", {outer}" for outer in self._outer(part.block))
        return f"violated_{self.blocks.index(part.block)}({low}, {high}, key, {excl}{inner}, S)"

    def _outer(self, block: Block) -> list[str]:
        """Names that a block needs from the blocks around it: places, spans of repetitions, aggregates."""
        own = {leaf.id for each in all_blocks(block) for leaf in each.leaves}
        names: dict[str, None] = {}
        for each in all_blocks(block):
            for predicate in each.predicates:
                for node in walk(predicate):
                    self._outer_names(node, own, names)
        return list(names)

    def _letter(self, name: str) -> str:
        """The type of a name that is handed to a forbidden block."""
        if name.startswith("gk"):
            return "b"
        real = [f"g{number}" for agg, number in self.aggs.items() if agg.kind is Kind.FLOAT]
        return "f" if name in real else "i"

    def _outer_names(self, node: Bound, own: set[int], names: dict[str, None]) -> None:
        match node:
            case Agg(_, leaf) if leaf not in own:
                value, known = self.aggregate(node)
                names[value] = None
                if known:
                    names[known] = None
            case Time(leaf) if leaf not in own and self.leaves[leaf].repeat is not None:
                names[self._time(leaf, node.which)] = None
            case Col(leaf) | Time(leaf) | Ref(leaf) if leaf not in own and self.leaves[leaf].repeat is None:
                names[f"i_{leaf}"] = None
            case Reach(several):
                for leaf in several:
                    self._outer_names(Time(leaf, node.which), own, names)

    # --- scopes ---------------------------------------------------------------------------------------------------

    def _ends(self, block: Block, scope: Scope, *, root: bool) -> tuple[str, str]:
        return self._end(scope.low, "low", root), self._end(scope.high, "high", root)

    def _end(self, end: End, side: str, root: bool) -> str:
        match end:
            case After(several):
                return f"{_most([self._time(leaf, 'end') for leaf in several])} + 1"
            case Before(several):
                return f"{_least([self._time(leaf, 'start') for leaf in several])} - 1"
            case Enclosing():
                return side
            case WindowLow():
                return "-FAR" if self.within is None else "mx - T[PARAMS]"
            case WindowHigh():
                return "FAR" if self.within is None else "mn + T[PARAMS]"
            case LastEnd():
                return "mx"
        raise AssertionError(end)

    # --- repetitions ----------------------------------------------------------------------------------------------

    def _repetitions(self, block: Block, fixed: tuple[int, ...], *, root: bool, fail: str) -> None:
        """Find the members of every repetition of a block, then ask what is asked of the sets.

        At the root a binding that still waits must not be judged by its count, so the caller does the second half.
        """
        for leaf in self._repeated_in_order(block):
            self._members(block, leaf, fixed, root)
        if not root:
            self._sets(block, fail)

    def _sets(self, block: Block, fail: str) -> None:
        for leaf in block.repeated:
            assert leaf.repeat is not None
            most = "" if leaf.repeat.most is None else f" and n_{leaf.id} <= {leaf.repeat.most}"
            self._test(f"n_{leaf.id} >= {leaf.repeat.least}{most}", fail)
        repeated = {leaf.id for leaf in block.repeated}
        for predicate in block.predicates:
            if leaves(predicate) & repeated and not bare_leaves(predicate) & repeated:
                self._test(self.scribe.true(predicate), fail)

    def _repeated_in_order(self, block: Block) -> list[Leaf]:
        """Repetitions whose scope ends at another one come after it."""
        scopes, waiting, done = dict(block.scopes), list(block.repeated), []
        while waiting:
            ready = next((leaf for leaf in waiting if not (_scope_leaves(scopes[leaf.id]) & {x.id for x in waiting})), waiting[0])
            waiting.remove(ready)
            done.append(ready)
        return done

    def _members(self, block: Block, leaf: Leaf, fixed: tuple[int, ...], root: bool) -> None:
        id = leaf.id
        low, high = self._ends(block, dict(block.scopes)[id], root=root)
        aggs = self._aggregates_of(leaf)
        self.emit(f"lo_{id} = {low}")
        self.emit(f"hi_{id} = {high}")
        self.emit(f"n_{id} = 0")
        self.emit(f"rs_{id} = FAR")
        self.emit(f"re_{id} = -FAR")
        for agg in aggs:
            self._aggregate_start(agg)
        if root:
            column = 2 + len(self.nest) + 2 * [other.id for other in block.repeated].index(id)
            self.emit("if write != 0:")
            self.emit(f"    OUT[(write - 1) * {self._width} + {column}] = T[MEM_N]")
        self.emit(f"d_{id} = {self._buffer(id)}")
        self.emit(f"i_{id}, b_{id} = between(H, {self.words}, D[4 * d_{id} + 1], D[4 * d_{id} + 2], lo_{id}, hi_{id})")
        self._loop(id, f"b_{id}")
        self.member = id
        tests = [f"{self._word(id, 1)} != excl"]
        if self.shape.intervals:
            tests.append(f"{self._word(id, self.row_start)} >= lo_{id}")
        types = {alt.type for alt in leaf.alts}
        tests += [f"{self._word(id, 1)} != {self._word(other, 1)}" for other in fixed
                  if types & {alt.type for alt in self.leaves[other].alts}]  # fmt: skip
        self._test(" and ".join(tests), "continue")
        self._tests((p for p in block.predicates if id in bare_leaves(p)), "continue")
        self.emit(f"n_{id} += 1")
        self.emit(f"rs_{id} = min(rs_{id}, {self._word(id, self.row_start)})")
        self.emit(f"re_{id} = max(re_{id}, {self._word(id, 0)})")
        for agg in aggs:
            self._aggregate_step(agg)
        if root:
            self._write_member(id)
        self.member = None
        self.writer.depth -= 1
        if root:
            self.emit("if write != 0:")
            self.emit(f"    OUT[(write - 1) * {self._width} + {column + 1}] = n_{id}")
        for agg in aggs:
            self._aggregate_end(agg)

    def _write_member(self, id: int) -> None:
        self.emit("if write != 0:")
        self.emit("    if T[MEM_N] >= T[MEM_SIZE]:")
        self.emit("        return -1, 0, 0")
        self.emit(f"    MEM[T[MEM_N]] = {self._word(id, 1)}")
        self.emit("    T[MEM_N] += 1")

    def _aggregates_of(self, leaf: Leaf) -> list[Agg]:
        nodes = (node for node in self._predicate_nodes() if isinstance(node, Agg) and node.leaf == leaf.id)
        found = list(dict.fromkeys(nodes))
        for agg in found:
            self.aggregate(agg)
        return found

    def _aggregate_start(self, agg: Agg) -> None:
        number, real = self.aggs[agg], agg.arg is not None and agg.arg.kind is Kind.FLOAT
        zero = "0.0" if real else "0"
        if agg.function == "count":
            self.emit(f"g{number} = 0")
            return
        self.emit(f"x{number} = {zero}")
        self.emit(f"m{number} = 0")
        if agg.function in ("first", "last"):
            self.emit(f"k{number} = False")
        elif not real:
            self.emit(f"w{number} = 0")

    def _aggregate_step(self, agg: Agg) -> None:
        number = self.aggs[agg]
        if agg.arg is None:
            self.emit(f"g{number} += 1")
            return
        value, known = self.scribe.value(agg.arg)
        real = agg.arg.kind is Kind.FLOAT
        if agg.function in ("first", "last"):
            first = f"m{number} == 0" if agg.function == "first" else "True"
            self.emit(f"if {first}:")
            self.emit(f"    x{number} = {value}")
            self.emit(f"    k{number} = {known or 'True'}")
            self.emit(f"    m{number} = 1")
            return
        self.emit(f"if {known or 'True'}:")
        with self.writer.indented():
            match agg.function:
                case "count":
                    self.emit(f"g{number} += 1")
                case "sum" | "avg" if real:
                    self.emit(f"x{number} += {value}")
                    self.emit(f"m{number} += 1")
                case "sum" | "avg":
                    self.emit(f"x{number}, w{number} = carry_add(x{number}, w{number}, {value})")
                    self.emit(f"m{number} += 1")
                case _:
                    sign = "<" if agg.function == "min" else ">"
                    text = agg.arg.kind is Kind.TEXT
                    better = f"RK[{value}] {sign} RK[x{number}]" if text else f"{value} {sign} x{number}"
                    nan = f" or {value} != {value}" if real else ""
                    self.emit(f"if m{number} == 0 or {better}{nan}:")
                    self.emit(f"    x{number} = {value}")
                    self.emit(f"m{number} += 1")

    def _aggregate_end(self, agg: Agg) -> None:
        number = self.aggs[agg]
        if agg.function == "count":
            return
        if agg.function in ("first", "last"):
            self.emit(f"g{number} = x{number}")
            self.emit(f"gk{number} = k{number}")
            return
        assert agg.arg is not None
        exact = agg.function in ("sum", "avg") and agg.arg.kind is not Kind.FLOAT
        fine = f" and w{number} == 0" if exact else ""
        self.emit(f"gk{number} = m{number} > 0{fine}")
        if agg.function == "avg":
            scale = f" / {10.0**agg.arg.scale!r}" if agg.arg.scale else ""
            self.emit(f"g{number} = float(x{number}){scale} / max(m{number}, 1)")
        else:
            self.emit(f"g{number} = x{number}")

    # --- the root -------------------------------------------------------------------------------------------------

    def _late(self, part: Forbidden) -> bool:
        """A forbidden part that can be judged only when the binding is complete."""
        return self._forbidden_level(part) is None

    def _forbidden_level(self, part: Forbidden) -> int | None:
        if self.waits or not self.root.early:
            return None
        used = _scope_leaves(part.scope)
        if any(isinstance(end, WindowLow | WindowHigh | LastEnd) for end in (part.scope.low, part.scope.high)):
            return None
        own = {leaf.id for leaf in self.root.leaves}
        for each in all_blocks(part.block):
            for predicate in each.predicates:
                used |= leaves(predicate) & own
        if used & {leaf.id for leaf in self.root.repeated}:
            return None
        return max((self.nest.index(leaf) for leaf in used), default=0)

    def _judge(self) -> None:
        """def judge(...): the status of a complete binding without the event `excl`, and the time it waits for."""
        root = self.root
        places = ", ".join(f"i_{leaf}" for leaf in self.nest)
        self.emit("@inlined")
        self.emit(f"def judge(excl, write, key, {places}, S):")
        self.declared.append(("judge", "iii" + "i" * len(self.nest) + "S"))
        with self.writer.indented():
            self.emit(f"{STATE} = S")
            self.emit(f"mn = {_least([self._time(leaf, 'start') for leaf in self.nest])}")
            self.emit(f"mx = {_most([self._time(leaf, 'end') for leaf in self.nest])}")
            self._repetitions(root, self.nest, root=True, fail="")
            self.emit(f"total = {' + '.join(f'n_{leaf.id}' for leaf in root.repeated) or '0'}")
            self._until()
            for leaf in root.repeated:
                self.emit(f"mn = min(mn, rs_{leaf.id})")
                self.emit(f"mx = max(mx, re_{leaf.id})")
            if self.waits:
                self.emit("if write == 0 and T[ENDED] == 0 and until >= T[CLOCK]:")
                self.emit(f"    return {WAITS}, until, total")
            self._sets(root, f"return {FAILS}, 0, 0")
            for part in root.forbidden:
                if self._late(part):
                    self.emit(f"if {self._violation(root, part, 'excl', root=True)} != 0:")
                    self.emit(f"    return {FAILS}, 0, 0")
            self.emit(f"return {HOLDS}, until, total")
        self.emit("")

    def _until(self) -> None:
        """How long a binding waits: until its scopes have closed, as far as its fixed leaves can tell.

        Members of a repetition may close them sooner, but late members come and go: this time never changes.
        """
        self.emit("until = -FAR")
        for scope in self._root_scopes():
            if _reaches_ahead(scope):
                self.emit(f"until = max(until, {self._end(scope.high, 'high', True)})")

    def _nest(self) -> None:
        """def nest(mode, v, key, vlow, vhigh): all answers with the pinned events; False if OUT or PD is full."""
        self.emit("@inlined")
        self.emit("def nest(mode, v, key, vlow, vhigh, S):")
        self.declared.append(("nest", "iiiiiS"))
        with self.writer.indented():
            self.emit(f"{STATE} = S")
            if self.changeable:
                self.emit("q = True")
                self.emit(f"p = mode == {DELTA}")
            placed = self._plain_predicates(self.root)
            self._tests(placed.get(-1, []), "return True")
            self._ranges()
            depth = self.writer.depth
            for level in range(len(self.nest)):
                self._level(level, placed)
            self._answer()
            self.writer.depth = depth
            self.emit("return True")
        self.emit("")

    def _ranges(self) -> None:
        """Before the loops: the range of every leaf, narrowed by the pins and by the ranges of the others."""
        window = self.within is not None
        if window:
            self.emit("W = T[PARAMS]")
            self.emit("mn = FAR")
            self.emit("mx = -FAR")
        for level, leaf in enumerate(self.nest):
            self.emit(f"a_{leaf} = T[PINS + {level}]")
            self.emit(f"l_{leaf}, h_{leaf} = pinned(H, {self.words}, a_{leaf})")
            if self.shape.intervals:
                self.emit(f"ls_{leaf} = H[a_{leaf} * {self.words} + {self.row_start}] if a_{leaf} >= 0 else -FAR")
            if window:
                self.emit(f"mn = min(mn, h_{leaf})")
                self.emit(f"mx = max(mx, l_{leaf})")
        for leaf in self.nest:
            self._narrow(leaf, window)

    def _narrow(self, leaf: int, window: bool) -> None:
        others = tuple(other for other in self.nest if other != leaf)
        low, high = self._bounds(self.root, leaf, (), others)
        low, high = ["vlow", *low], ["vhigh", *high]
        if window:
            low.append("mx - W")
            high.append("mn + W")
        bounds = f"{_most(low)}, {_least(high)}"
        at = f"H, {self.words}, D, N, {self._buffer(leaf)}"
        self.emit(f"a_{leaf}, b_{leaf}, l_{leaf}, h_{leaf} = narrow({at}, a_{leaf}, {bounds})")
        self.emit(f"if a_{leaf} >= b_{leaf}:")
        self.emit("    return True")
        if window:
            self.emit(f"mn = min(mn, h_{leaf})")
            self.emit(f"mx = max(mx, l_{leaf})")

    def _loop(self, leaf: int, stop: str) -> None:
        """Open a loop over places from i_leaf to stop; the step comes first, so that `continue` may stand anywhere."""
        self.emit(f"i_{leaf} -= 1")
        self.emit(f"while i_{leaf} + 1 < {stop}:")
        self.writer.depth += 1
        self.emit(f"i_{leaf} += 1")

    def _level(self, level: int, placed: dict[int, list[Bound]]) -> None:
        leaf, exact, loose = self.nest[level], self.nest[:level], self.nest[level + 1 :]
        window = self.within is not None
        low, high = self._bounds(self.root, leaf, exact, loose)
        mn, mx = ("mn", "mx") if level == 0 else (f"mn_{self.nest[level - 1]}", f"mx_{self.nest[level - 1]}")
        if window:
            low.append(f"{mx} - W")
            high.append(f"{mn} + W")
        if low or high:
            bounds = f"{_most(low or ['-FAR'])}, {_least(high or ['FAR'])}"
            if self.shape.intervals or level == 0:
                self.emit(f"y_{leaf}, z_{leaf} = between(H, {self.words}, a_{leaf}, b_{leaf}, {bounds})")
            else:  # with points the bounds grow as the loop around goes on
                self.emit(f"y_{leaf}, z_{leaf} = slide(H, {self.words}, y_{leaf}, z_{leaf}, b_{leaf}, {bounds})")
        else:
            self.emit(f"y_{leaf}, z_{leaf} = a_{leaf}, b_{leaf}")
        if loose and not self.shape.intervals:
            self.emit(f"y_{loose[0]}, z_{loose[0]} = a_{loose[0]}, a_{loose[0]}")
        self.emit(f"i_{leaf} = y_{leaf}")
        self._loop(leaf, f"z_{leaf}")
        self.emit(f"e_{leaf} = {self._word(leaf, 0)}")
        tests = []
        if self.shape.intervals:
            self.emit(f"s_{leaf} = {self._word(leaf, self.row_start)}")
        start = f"s_{leaf}" if self.shape.intervals else f"e_{leaf}"
        if window:
            self.emit(f"mn_{leaf} = min({mn}, {start})")
            self.emit(f"mx_{leaf} = max({mx}, e_{leaf})")
            if self.shape.intervals:
                tests.append(f"mx_{leaf} - {start} <= W")
        if self.changeable:
            tests.append(f"(mode != {DELTA} or {self._word(leaf, 1)} != v)")
        tests += self._exact_tests(self.root, leaf, exact) + self._distinct(self.root, leaf, exact)
        self._test(" and ".join(tests), "continue")
        self._tests(placed.get(level, []), "continue")
        self._early_forbidden(level)

    def _early_forbidden(self, level: int) -> None:
        """Forbidden parts whose leaves are bound at this level: q is the status with v, p the one without it."""
        parts = [part for part in self.root.forbidden if self._forbidden_level(part) == level]
        if not parts:
            if self.changeable:
                self.emit(f"q_{level} = {f'q_{level - 1}' if level else 'q'}")
                self.emit(f"p_{level} = {f'p_{level - 1}' if level else 'p'}")
            return
        before = f"_{level - 1}" if level else ""
        self.emit(f"q_{level} = q{before}")
        self.emit(f"p_{level} = p{before}")
        for part in parts:
            self.emit(f"if q_{level} and {self._violation(self.root, part, '-1', root=True)} != 0:")
            self.emit(f"    q_{level} = False")
            self.emit(f"if p_{level} and {self._violation(self.root, part, 'v', root=True)} != 0:")
            self.emit(f"    p_{level} = False")
            self.emit(f"if not (q_{level} or p_{level}):")
            self.emit("    continue")

    def _answer(self) -> None:
        """What to do with a complete binding."""
        last = len(self.nest) - 1
        if not self.changeable:
            self._out("T[SIGN]", "-1")
            return
        self.emit(f"now = {HOLDS} if q_{last} else {FAILS}")
        self.emit(f"was = {HOLDS} if p_{last} else {FAILS}")
        self.emit("until = T[CLOCK]")
        self.emit("total = 0")
        self.emit("former = 0")
        if self._judged:
            places = ", ".join(f"i_{leaf}" for leaf in self.nest)
            self.emit(f"if q_{last}:")
            self.emit(f"    now, until, total = judge(-1, 0, key, {places}, S)")
            self.emit(f"if p_{last}:")
            self.emit(f"    was, other, former = judge(v, 0, key, {places}, S)")
        self.emit(f"if mode != {DELTA}:")
        with self.writer.indented():
            self.emit(f"if now == {HOLDS}:")
            with self.writer.indented():
                self._out("T[SIGN]", "-1")
            if self.waits:
                self._wait_for(f"now == {WAITS} and T[SIGN] > 0")
            self.emit("continue")
        self._difference()

    def _difference(self) -> None:
        """Mode DELTA: with the event minus without it; withdrawing swaps the two."""
        self.emit("after, before = now, was")
        self.emit("hidden_after, hidden_before = -1, v")
        self.emit("if T[SIGN] < 0:")
        self.emit("    after, before = was, now")
        self.emit("    hidden_after, hidden_before = v, -1")
        self.emit(f"if before == {WAITS}:")
        self.emit("    continue")
        same = f"before == {HOLDS} and after == {HOLDS}"
        members = " and total == former" if self.root.repeated else ""
        self.emit(f"if {same}{members}:")
        self.emit("    continue")
        self.emit(f"if before == {HOLDS}:")
        with self.writer.indented():
            self._out("-1", "hidden_before")
        self.emit(f"if after == {HOLDS}:")
        with self.writer.indented():
            self._out("1", "hidden_after")
        if self.waits:
            self._wait_for(f"after == {WAITS}")

    def _out(self, op: str, excl: str) -> None:
        """Write one change; members of repetitions go to MEM."""
        self.emit("at = T[OUT_N]")
        self.emit("if at >= T[OUT_SIZE]:")
        self.emit("    return False")
        self.emit(f"OUT[at * {self._width}] = {op}")
        self.emit(f"OUT[at * {self._width} + 1] = T[CLOCK]")
        for number, leaf in enumerate(self.nest):
            self.emit(f"OUT[at * {self._width} + {2 + number}] = {self._word(leaf, 1)}")
        if self.root.repeated:
            places = ", ".join(f"i_{leaf}" for leaf in self.nest)
            self.emit(f"good, other, count = judge({excl}, at + 1, key, {places}, S)")
            self.emit("if good < 0:")
            self.emit("    return False")
        self.emit("T[OUT_N] = at + 1")

    def _wait_for(self, condition: str) -> None:
        self.emit(f"if {condition}:")
        with self.writer.indented():
            self.emit(f"if mode == {SETTLE}:")
            self.emit("    T[REWAIT] = until")
            self.emit("    continue")
            self.emit("at = T[WAITING] + T[FRESH]")
            self.emit("if at >= T[PD_SIZE]:")
            self.emit("    return False")
            self.emit(f"at *= {2 + 2 * len(self.nest)}")
            self.emit("PD[at] = until")
            self.emit("PD[at + 1] = key")
            for number, leaf in enumerate(self.nest):
                self.emit(f"PD[at + {2 + 2 * number}] = {self._word(leaf, 1)}")
                self.emit(f"PD[at + {3 + 2 * number}] = e_{leaf}")
            self.emit("T[FRESH] += 1")

    def _again(self) -> None:
        """def again(...): the nest out of the way of the fast path."""
        self._lines("@compiled", "def again(mode, v, key, vlow, vhigh, S):")
        self.declared.append(("again", "iiiiiS"))
        self._lines("    return nest(mode, v, key, vlow, vhigh, S)", "")

    def _settle(self) -> None:
        """def due(S): judge every waiting answer whose time has come; OUT_FULL where it could not go on."""
        self._lines("@compiled", "def due(S):")
        self.declared.append(("due", "S"))
        with self.writer.indented():
            self.emit(f"{STATE} = S")
            self.emit("while T[WAITING] > 0 and (PD[0] < T[CLOCK] or T[ENDED] != 0):")
            with self.writer.indented():
                self.emit("key = PD[1]")
                self.emit("found = True")
                for level, leaf in enumerate(self.nest):
                    self.emit(
                        f"place = find(H, {self.words}, D, {self._buffer(leaf)}, PD[{3 + 2 * level}], PD[{2 + 2 * level}])"
                    )
                    self.emit(f"T[PINS + {level}] = place")
                    self.emit("found = found and place >= 0")
                self.emit("rows = T[OUT_N]")
                self.emit("members = T[MEM_N]")
                self.emit("T[SIGN] = 1")
                self.emit("T[REWAIT] = -FAR")
                self.emit("good = True")
                self.emit("if found:")
                self.emit(f"    good = again({SETTLE}, -1, key, -FAR, FAR, S)")
                for level in range(len(self.nest)):
                    self.emit(f"T[PINS + {level}] = -1")
                self.emit("if not good:")
                self.emit("    T[OUT_N] = rows")
                self.emit("    T[MEM_N] = members")
                self.emit("    return OUT_FULL")
                self.emit("if T[REWAIT] > -FAR:")
                self.emit("    rewait(T, PD)")
                self.emit("else:")
                self.emit("    unwait(T, PD)")
            self.emit("return DONE")
        self._lines("", "@compiled", f"def settle({_arrays(STATE)}):")
        with self.writer.indented():
            self._pointers(STATE.split(", "))
            self._lines(f"return due(({STATE}))", "")

    # --- the kernel -----------------------------------------------------------------------------------------------

    def _batch_args(self) -> list[str]:
        names = ["types", "end"]
        names += ["start"] if self.shape.intervals else []
        names += ["high", "low"] if self.shape.eids else []
        names += ["signs"] if self.shape.signs else []
        for number, _, nullable in self.columns.values():
            names += [f"c{number}", f"v{number}"] if nullable else [f"c{number}"]
        return names

    def _kernel(self) -> None:
        """def kernel(i, n, base, <batch>, <state>): take rows i..n of a batch, whose events are numbered from base."""
        self.emit("@compiled")
        self.emit(f"def kernel(i, n, base, {_arrays(', '.join([*self._batch_args(), STATE]))}):")
        with self.writer.indented():
            self._pointers([*self._batch_args(), *STATE.split(", ")])
            self._lines(f"S = ({STATE})", "clock = T[CLOCK]", "ordered = T[ORDERED] != 0", "phase = T[PHASE]")
            self._lines("local = T[TYPES_AT]", "span = T[SPAN]", "T[PHASE] = 0", "rows = T[OUT_N]", "members = T[MEM_N]", "while i < n:")
            with self.writer.indented():
                self._row_head()
                for number, type in enumerate(self.types):
                    self.emit(f"{'if' if number == 0 else 'elif'} ty == {number}:")
                    with self.writer.indented():
                        self.emit("if phase == 0:")
                        with self.writer.indented():
                            self._store_type(type)
                        self._answer_type(type)
                self._row_tail()
            self._lines("T[CLOCK] = clock", "T[ROW] = n", "return DONE")

    def _pointers(self, names: list[str]) -> None:
        """From arrays to their addresses, once per call: arrays would be counted at every inner call."""
        for name in names:
            self.emit(f"{name} = pointer(array_{name})")

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self.emit(line)

    def _row_head(self) -> None:
        self._lines(
            "e = end[i]",
            "ty = int(types[i])",
            "if ty >= 0:",
            "    ty = T[local + ty]",
            "late = e < clock",
            "if ty < 0 or (late and ordered):",
            "    if ty >= 0:",
            "        T[LATE] += 1",
            "    clock = max(clock, e)",
            "    i += 1",
            "    continue",
            "clock = max(clock, e)",
            f"s = {'start[i]' if self.shape.intervals else 'e'}",
            "number = base + i",
            f"sign = {'int(signs[i])' if self.shape.signs else '1'}",
            "good = True",
        )
        if not self.waits and self.within is not None:
            self._lines("if ordered:", "    T[HORIZON] = e - span")
        if self.waits:  # what was due before a late event must be answered before it can be corrected
            self._lines(
                "if phase == 0 and (late or sign < 0):",
                "    T[CLOCK] = clock",
                "    if due(S) != DONE:",
                "        T[ROW] = i",
                "        return OUT_FULL",
                "    rows = T[OUT_N]",
                "    members = T[MEM_N]",
            )

    def _row_tail(self) -> None:
        self._lines(
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
        if self.root.repeated:
            self.emit("members = T[MEM_N]")
        if self.shape.signs:
            self.emit("if sign < 0:")
            with self.writer.indented():
                self._each_leaf(
                    "if T[PLACES + leaf] >= 0:",
                    f"    remove({self._tables}, D, N, T[ROW_KEYS + leaf] * {len(self.leaves)} + leaf, T[PLACES + leaf])",
                )
        if self.waits:
            self.emit("wait(T, PD)")
        self.emit("i += 1")

    def _each_leaf(self, *lines: str) -> None:
        """A loop over the leaves that an event of the row's type may fill."""
        self._lines("at = T[LEAVES_AT] + ty", "at = T[at]", "while T[at] >= 0:", "    leaf = T[at]", "    at += 1")
        with self.writer.indented():
            self._lines(*lines)

    def _places_of(self, type: str) -> list[tuple[Leaf, int]]:
        """The leaves that an event of a type can fill, each with the alternative it fills."""
        return [
            (leaf, number)
            for leaf in self.leaves.values()
            for number, alt in enumerate(leaf.alts)
            if alt.type == type
        ]

    # --- storing one row -------------------------------------------------------------------------------------------

    def _store_type(self, type: str) -> None:
        """Decide which leaves take the event and make room there (repeatable), then store it (once)."""
        places = self._places_of(type)
        for leaf, alternative in places:
            self._admit(leaf, alternative, only=len(places) == 1)
        for leaf, alternative in places:
            self._store(leaf, alternative, only=len(places) == 1)

    def _admit(self, leaf: Leaf, alternative: int, *, only: bool) -> None:
        """take_7: whether leaf 7 takes the event. Where several leaves may, room is made in all before any stores."""
        id, keys = leaf.id, self._key_columns(leaf.id)
        self.batch = "row"
        conditions = [self.scribe.true(where) for where in leaf.alts[alternative].where]
        self.batch = None
        known = [f"v{column}[i] != 0" for column, _, nullable in keys if nullable]
        self.emit(f"T[PLACES + {self.number[id]}] = -1")
        self.emit(f"take_{id} = {' and '.join(known + conditions) or 'True'}")
        if len(keys) > 1:
            self._prefix(id, keys)
        if not only:
            self.emit(f"if take_{id}:")
            with self.writer.indented():
                self.emit(f"key = ready({self._entry(id)})")
                self._give_up("key")

    def _give_up(self, status: str) -> None:
        self._lines(f"if {status} < -1:", "    T[CLOCK] = clock", "    T[ROW] = i", f"    return -{status}")

    def _key_columns(self, id: int) -> list[tuple[int, bool, bool]]:
        return [self.columns[attr] for attr in self.keys.get(id, ())]

    def _prefix(self, id: int, keys: list[tuple[int, bool, bool]]) -> None:
        """All parts of a key but the last, as one code."""
        self._lines(f"pre_{id} = 0", f"if take_{id}:")
        with self.writer.indented():
            for column, _, _ in keys[:-1]:
                self.emit(f"pre_{id} = new_key(T, KM, D, {len(self.leaves)}, pre_{id}, c{column}[i])")
                self._lines(f"if pre_{id} < 0:", "    T[CLOCK] = clock", "    T[ROW] = i", "    return KEYS_FULL")

    def _entry(self, id: int) -> str:
        """Arguments that lead to the buffer of an event."""
        keyed = self._key(id)
        return f"T, {self._tables}, D, N, KM, {len(self.leaves)}, {self.number[id]}, {self._predecessor(id)}, {keyed}"

    def _key(self, id: int) -> str:
        keys = self._key_columns(id)
        if not keys:
            return "False, 0, 0"
        return f"True, {f'pre_{id}' if len(keys) > 1 else '0'}, c{keys[-1][0]}[i]"

    def _predecessor(self, id: int) -> int:
        """A root leaf that must end before this one starts: in ordered input, without one the event is useless."""
        for order in self.root.order if id in self.nest else ():
            ends_before = (order.left.which, order.right.which) == ("end", "start")
            same_key = (order.left.leaf in self.keys) == (id in self.keys)
            if order.strict and order.right.leaf == id and ends_before and same_key:
                return self.number[order.left.leaf]
        return -1

    def _unstored(self, id: int) -> bool:
        """In ordered input the last event of a pattern is needed only at its own arrival, and to know it again."""
        if self.waits or id not in self.nest or self.shape.eids:
            return False
        ordered = _strictly_ordered(self.root, before=True)
        return all((other, id) in ordered for other in self.nest if other != id)

    def _store(self, leaf: Leaf, alternative: int, *, only: bool) -> None:
        id = leaf.id
        event = f"e, s, {'high[i], low[i]' if self.shape.eids else '0, 0'}, {self.row_start}, {self.row_eid}"
        keep = "not ordered" if self._unstored(id) else "True"
        if self.shape.signs:
            self._lines(
                f"if take_{id} and sign < 0:",
                f"    withdraw(T, H, {self.words}, D, KM, {len(self.leaves)}, {self.number[id]}, {self._key(id)}, {event})",
            )
        self.emit(f"if take_{id}{' and sign > 0' if self.shape.signs else ''}:")
        with self.writer.indented():
            self.emit(f"place = enter({self._entry(id)}, number, {event}, {keep})")
            if only:
                self._give_up("place")
            self.emit("if place >= 0:")
            with self.writer.indented():
                if only:
                    self.emit("T[RELEVANT] += 1")
                self._fill(leaf, alternative)
        if not only and alternative >= 0 and leaf.id == self._places_of(leaf.alts[alternative].type)[-1][0].id:
            mine = self._places_of(leaf.alts[alternative].type)
            some = " or ".join(f"T[PLACES + {self.number[other.id]}] >= 0" for other, _ in mine)
            self._lines(f"if {some}:", "    T[RELEVANT] += 1")

    def _fill(self, leaf: Leaf, alternative: int) -> None:
        """The attributes that predicates will read."""
        nulls = []
        for (var, attr), kept in self.stored[leaf.id].items():
            if attr == "$alt":
                self.emit(f"{self._kept(kept, 'place')} = {alternative}")
                continue
            if var != leaf.alts[alternative].var:
                nulls.append(str(1 << (kept.bit or 0)))
                continue
            column, _, nullable = self.columns[attr]
            self.emit(f"{self._kept(kept, 'place')} = c{column}[i]")
            if nullable and kept.bit is not None:
                nulls.append(f"(0 if v{column}[i] != 0 else {1 << kept.bit})")
        if any(kept.bit is not None for kept in self.stored[leaf.id].values()):
            self.emit(f"H[place * {self.words} + {self.row_nulls}] = {' + '.join(nulls) or '0'}")
        self.emit("pass")

    # --- answers of one row ----------------------------------------------------------------------------------------

    def _answer_type(self, type: str) -> None:
        """In order, only an event that can come last has answers; with one such leaf the nest stands right here."""
        places = [leaf.id for leaf, _ in self._places_of(type)]
        last = [id for id in self.nest if _is_terminal(self.root, id)]
        slow = "good = answers(ty, number, late, sign, e, s, S)"
        if len(last) == 1 and places == last:
            number, level = self.number[last[0]], self.nest.index(last[0])
            self._lines(
                "T[CLOCK] = clock",
                "if late or sign < 0:",
                f"    {slow}",
                f"elif T[PLACES + {number}] >= 0:",
                "    T[SIGN] = 1",
                f"    T[PINS + {level}] = T[PLACES + {number}]",
                f"    good = nest({NEW}, number, T[ROW_KEYS + {number}], -FAR, FAR, S)",
                f"    T[PINS + {level}] = -1",
            )
        elif any(id in last for id in places):
            self._lines("T[CLOCK] = clock", slow)
        else:
            self._lines("if late or sign < 0:", "    T[CLOCK] = clock", f"    {slow}")

    def _answers(self) -> None:
        """def answers(...): pin the event to each root leaf that took it; judge again what a late one can change."""
        self._lines("@compiled", "def answers(ty, number, late, sign, e, s, S):")
        self.declared.append(("answers", "iibiiiS"))
        with self.writer.indented():
            self._lines(f"{STATE} = S", "T[SIGN] = sign", "good = True")
            if self.shape.signs:
                self.emit("if sign < 0:")
                with self.writer.indented():
                    self._each_leaf(
                        "if T[PLACES + leaf] >= 0:", f"    number = H[T[PLACES + leaf] * {self.words} + 1]"
                    )
            self._each_leaf(
                "level = T[LEVELS + leaf]",
                "if good and level >= 0 and T[PLACES + leaf] >= 0 and (late or sign < 0 or T[TERMINAL + leaf] != 0):",
                "    T[PINS + level] = T[PLACES + leaf]",
                f"    good = again({NEW}, number, T[ROW_KEYS + leaf], -FAR, FAR, S)",
                "    T[PINS + level] = -1",
            )
            if self.changeable:
                self.emit("if good and (late or sign < 0):")
                with self.writer.indented():
                    self._changed()
            self.emit("return good")
        self.emit("")

    def _changed(self) -> None:
        """A late event at a forbidden or repeated leaf: judge again the bindings it can change, each key once."""
        window = self.within is not None
        self._lines(f"vlow = {'e - T[PARAMS]' if window else '-FAR'}", f"vhigh = {'s + T[PARAMS]' if window else 'FAR'}")
        self._lines("everywhere = False", "key = 0")
        deep = "T[LEVELS + leaf] < 0 and T[PLACES + leaf] >= 0"
        if not self.keys:
            self._each_leaf(f"if {deep}:", "    everywhere = True")
            self._lines("if everywhere:", f"    good = again({DELTA}, number, 0, vlow, vhigh, S)")
            return
        self._each_leaf(f"if {deep} and T[COVERED + leaf] == 0:", "    everywhere = True")
        self._lines(
            "if everywhere:",
            "    for key in range(1, T[KEYS]):",
            f"        good = good and again({DELTA}, number, key, vlow, vhigh, S)",
        )
        self._each_leaf(
            f"if good and not everywhere and {deep}:",
            "    key = T[ROW_KEYS + leaf]",
            "    back = T[T[LEAVES_AT] + ty]",
            "    fresh = True",
            "    while T[back] != leaf:",
            "        other = T[back]",
            "        if T[LEVELS + other] < 0 and T[PLACES + other] >= 0 and T[ROW_KEYS + other] == key:",
            "            fresh = False",
            "        back += 1",
            "    if fresh:",
            f"        good = again({DELTA}, number, key, vlow, vhigh, S)",
        )

    def tables(self) -> dict[str, tuple[int, ...]]:
        """What the kernel looks up by leaf and by type."""
        return {
            "levels": tuple(self.nest.index(id) if id in self.nest else -1 for id in self.leaves),
            "terminal": tuple(int(id in self.nest and _is_terminal(self.root, id)) for id in self.leaves),
            "covered": tuple(int(id in self.keys) for id in self.leaves),
        }

    def leaf_lists(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(self.number[leaf.id] for leaf, _ in self._places_of(type)) for type in self.types)


# --- small readings of blocks -------------------------------------------------------------------------------------


def _arrays(names: str) -> str:
    return ", ".join(f"array_{name}" for name in names.split(", "))


def _plus(code: str, number: int) -> str:
    return code if number == 0 else f"{code} {'+' if number > 0 else '-'} {abs(number)}"


def _least(codes: list[str]) -> str:
    return codes[0] if len(codes) == 1 else f"min({', '.join(codes)})"


def _most(codes: list[str]) -> str:
    return codes[0] if len(codes) == 1 else f"max({', '.join(codes)})"


def _reaches_ahead(scope: Scope) -> bool:
    """A scope that is not closed when the last event of the match has come."""
    return isinstance(scope.high, WindowHigh | LastEnd)


def _scope_leaves(scope: Scope) -> set[int]:
    return {leaf for end in (scope.low, scope.high) if isinstance(end, After | Before) for leaf in end.leaves}


def _is_terminal(block: Block, leaf: int) -> bool:
    """Whether the leaf can hold the event that arrives last: nothing must end or start strictly after its end."""
    return not any(
        order.strict and (order.left.leaf, order.left.which) == (leaf, "end") and order.right.leaf != leaf
        for order in block.order
    )


def _strictly_ordered(block: Block, *, before: bool = False) -> set[tuple[int, int]]:
    """Pairs of leaves kept apart by a strict order; with `before`, pairs where one ends before the other starts."""
    points = [(leaf.id, which) for leaf in block.fixed for which in ("start", "end")]
    reach: dict[tuple[tuple[int, str], tuple[int, str]], bool] = {}
    for leaf in block.fixed:
        reach[(leaf.id, "start"), (leaf.id, "end")] = False
    for order in block.order:
        pair = (order.left.leaf, order.left.which), (order.right.leaf, order.right.which)
        reach[pair] = reach.get(pair, False) or order.strict
    for middle in points:
        for left in points:
            for right in points:
                if (left, middle) in reach and (middle, right) in reach:
                    strict = reach[left, middle] or reach[middle, right]
                    reach[left, right] = reach.get((left, right), False) or strict
    kinds = {("end", "start")} if before else {("end", "start"), ("start", "start"), ("end", "end")}
    return {(a[0], b[0]) for (a, b), strict in reach.items() if strict and a[0] != b[0] and (a[1], b[1]) in kinds}

