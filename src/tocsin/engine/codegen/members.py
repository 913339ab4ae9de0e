"""Repetitions: the members of a set, and aggregates over them."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.engine.codegen import taken
from tocsin.engine.codegen.block_facts import ending, looks_back, scope_leaves
from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.levels import Levels
from tocsin.engine.codegen.source import NEVER_NULL, SourceText
from tocsin.lang import syntax
from tocsin.lang.syntax import DISTINCT, MEMBER
from tocsin.plan.block import Block, Forbidden, Leaf, Taking
from tocsin.plan.expr import Agg, Bound, bare_leaves, leaves
from tocsin.schema import Kind

TAKES_ALL = Taking()


class MemberSets:
    """One loop per repetition: n_7 counts its members, rs_7 and re_7 are their span, g3 is aggregate 3."""

    def __init__(self, layout: Layout, source: SourceText, levels: Levels) -> None:
        self.layout, self.source = layout, source
        self.levels = levels
        self.breaking: Callable[[Forbidden, str, str], str] | None = None  # the call that looks for what ends a run
        self.emit, self.lines = source.emit, source.lines

    def repetitions(self, block: Block, fixed: tuple[int, ...], *, root: bool, fail: str) -> None:
        """Find the members of every repetition of a block, then ask what is asked of the sets.

        At the root a binding that still waits must not be judged by its count, so the caller does the second half.
        """
        for leaf in self._repeated_in_order(block):
            self._members(block, leaf, fixed, root)
        if not root:
            self.sets(block, fail)

    def sets(self, block: Block, fail: str) -> None:
        for leaf in block.repeated:
            assert leaf.repeat is not None
            if leaf.taking is not None and leaf.taking.last is not None:
                self.source.test(f"f_{leaf.id}", fail)
            most = "" if leaf.repeat.most is None else f" and n_{leaf.id} <= {leaf.repeat.most}"
            self.source.test(f"n_{leaf.id} >= {leaf.repeat.least}{most}", fail)
        repeated = {leaf.id for leaf in block.repeated}
        for predicate in block.predicates:
            if leaves(predicate) & repeated and not bare_leaves(predicate) & repeated:
                self.source.test(self.source.scribe.true(predicate), fail)

    def _repeated_in_order(self, block: Block) -> list[Leaf]:
        """Repetitions whose scope ends at another one come after it."""
        scopes, waiting, done = dict(block.scopes), list(block.repeated), []
        while waiting:
            ready = next(
                (leaf for leaf in waiting if not (scope_leaves(scopes[leaf.id]) & {x.id for x in waiting})), waiting[0]
            )
            waiting.remove(ready)
            done.append(ready)
        return done

    def _members(self, block: Block, leaf: Leaf, fixed: tuple[int, ...], root: bool) -> None:
        id, aggs = leaf.id, self._aggregates_of(leaf)
        self._nobody_yet(block, leaf, fixed, root)
        for agg in aggs:
            self._aggregate_start(agg)
        if root:
            column = 2 + len(self.layout.nest) + 2 * [other.id for other in block.repeated].index(id)
            self.emit("if write != 0:")
            self.emit(f"    OUT[write - 1 + T[OUT_SIZE] * {column}] = T[MEM_N]")
        self.find(leaf)
        mark = self._mark_of(id)
        if any(agg.function == "steps" for agg in aggs):
            self.emit(f"ip_{id} = -1")
        self.source.loop(id, f"b_{id}")
        self.source.member = id
        if mark:
            self.emit(f"{mark} = 0")
        self.qualify(block, leaf, fixed)
        taken.choose(self, block, leaf)
        self.emit(f"n_{id} += 1")
        if root and taken.is_signed(block):
            self.emit(f"set_{id} = {taken.signed(f'set_{id}', self.source.word(id, 1))}")
        self.emit(f"rs_{id} = min(rs_{id}, {self.source.word(id, self.layout.row_start)})")
        self.emit(f"re_{id} = max(re_{id}, {self.source.word(id, 0)})")
        for agg in aggs:
            self._aggregate_step(agg)
        if mark:
            self.emit(f"{mark} = 1")
        if any(agg.function == "steps" for agg in aggs):
            self.emit(f"ip_{id} = i_{id}")
        if root:
            self._write_member(id)
        taken.stop(self, leaf)
        self.source.member = None
        self.source.writer.depth -= 1
        if root:
            self.emit("if write != 0:")
            self.emit(f"    OUT[write - 1 + T[OUT_SIZE] * {column + 1}] = n_{id}")
        if mark:
            self.emit(f"z_{id} = i_{id} + 1")  # behind the last that was looked at
        for agg in aggs:
            self._aggregate_end(agg)

    def each_member(self, block: Block, leaf: Leaf, fixed: tuple[int, ...], then: Callable[[], None]) -> None:
        """A loop over the members of a repetition whose set holds."""
        id = leaf.id
        self._nobody_yet(block, leaf, fixed, root=False)
        self.find(leaf)
        self.source.loop(id, f"b_{id}")
        self.source.member = id
        self.qualify(block, leaf, fixed)
        taken.choose(self, block, leaf)
        self.emit(f"n_{id} += 1")
        then()
        taken.stop(self, leaf)
        self.source.member = None
        self.source.writer.depth -= 1

    def _nobody_yet(self, block: Block, leaf: Leaf, fixed: tuple[int, ...], root: bool) -> None:
        """The gap of a repetition, and an empty set."""
        id, taking = leaf.id, leaf.taking or TAKES_ALL
        low, high = self.levels.ends(dict(block.scopes)[id])
        self.emit(f"lo_{id} = {low}")
        self.emit(f"hi_{id} = {high}")
        for part in ending(block, id):
            self._ends_before(part, leaf)
        self.emit(f"d_{id} = {self.levels.buffer(id)}")
        taken.count(self, block, leaf, fixed)
        self.emit(f"n_{id} = 0")
        self.emit(f"rs_{id} = FAR")
        self.emit(f"re_{id} = -FAR")
        if root and taken.is_signed(block):
            self.emit(f"set_{id} = 0")
        if taking.last is not None:
            self.emit(f"f_{id} = False")

    def find(self, leaf: Leaf) -> None:
        """The stored events among which members are looked for; a first member that is known lies before their gap."""
        id, first = leaf.id, f"lo_{leaf.id}"
        if leaf.taking is not None and leaf.taking.head is not None:
            first = self.source.time_of(leaf.taking.head, "end")
        ends = f"D[4 * d_{id} + 1], D[4 * d_{id} + 2], {first}, hi_{id}"
        self.emit(f"i_{id}, b_{id} = between(H, {self.layout.words}, {ends})")

    def qualify(self, block: Block, leaf: Leaf, fixed: tuple[int, ...]) -> None:
        """Leave out what does not qualify: outside the gap, held by another variable, or a condition is not TRUE."""
        id, taking = leaf.id, leaf.taking or TAKES_ALL
        tests = [f"{self.source.word(id, 1)} != excl"]
        after = f"{self.source.word(id, self.layout.row_start)} >= lo_{id}"
        if taking.head is not None:
            tests.append(f"({self.source.word(id, 1)} == {self.source.word(taking.head, 1)} or {after})")
        elif self.layout.shape.intervals:
            tests.append(after)
        own = {taking.head, taking.last} | taken.last_members(block)
        tests += [f"{self.source.word(id, 1)} != {self.source.word(other, 1)}" for other in fixed
                  if self.layout.overlap(id, other) and other not in own]  # fmt: skip
        self.source.test(" and ".join(tests), "continue")
        self.source.tests((p for p in block.predicates if id in bare_leaves(p)), "continue")

    def _mark_of(self, id: int) -> str:
        """The word of a stored event that says if it is a member of the set at hand; empty if nobody asks."""
        kept = self.layout.stored[id].get(("", "$member"))
        return "" if kept is None else self.source.kept(kept, f"i_{id}")

    def _ends_before(self, part: Forbidden, leaf: Leaf) -> None:
        """UNTIL: the gap of a repetition ends where the first event starts that ends it; top_7 is where it ended.

        That event lies wholly in the gap, which may reach beyond a last member that is known. A first member that is
        known ends its own repetition if the condition is TRUE for it: then nothing begins there.
        """
        (ender,) = part.block.leaves
        id, end, head = leaf.id, ender.id, (leaf.taking or TAKES_ALL).head
        first = f"lo_{id}" if head is None else self.source.time_of(head, "end")
        last = self.levels.end(part.scope.high, "high") if self.layout.shape.intervals else f"hi_{id}"
        self.emit(f"d_{end} = {self.levels.buffer(end)}")
        self.emit(f"top_{id} = {last}")
        ends = f"D[4 * d_{end} + 1], D[4 * d_{end} + 2], {first}, top_{id}"
        self.emit(f"i_{end}, b_{end} = between(H, {self.layout.words}, {ends})")
        self.source.loop(end, f"b_{end}")
        tests = [f"{self.source.word(end, 1)} != excl"]
        after = f"{self.source.word(end, self.layout.row_start)} >= lo_{id}"
        if head is not None:
            tests.append(f"({self.source.word(end, 1)} == {self.source.word(head, 1)} or {after})")
        elif self.layout.shape.intervals:
            tests.append(after)
        self.source.test(" and ".join(tests), "continue")
        self.source.tests(part.block.predicates, "continue")
        self.emit(f"hi_{id} = min(hi_{id}, {self.source.word(end, self.layout.row_start)} - 1)")
        if not self.layout.shape.intervals:
            self.lines(f"top_{id} = hi_{id}", "break")  # they are sorted
        self.source.writer.depth -= 1

    def _write_member(self, id: int) -> None:
        self.emit("if write != 0:")
        self.emit("    if T[MEM_N] >= T[MEM_SIZE]:")
        self.emit("        return -1, 0, 0")
        self.emit(f"    MEM[T[MEM_N]] = {self.source.word(id, 1)}")
        self.emit("    T[MEM_N] += 1")

    def _aggregates_of(self, leaf: Leaf) -> list[Agg]:
        nodes = (node for node in self.layout.predicate_nodes() if isinstance(node, Agg) and node.leaf == leaf.id)
        found = list(dict.fromkeys(nodes))
        for agg in found:
            self.source.aggregate(agg)
        return found

    def _aggregate_start(self, agg: Agg) -> None:
        number, real = self.source.aggs[agg], agg.arg is not None and agg.arg.kind is Kind.FLOAT
        zero = "0.0" if real else "0"
        if agg.function in ("count", DISTINCT):
            self.emit(f"g{number} = 0")
            if agg.function == DISTINCT:
                self.emit(f"u{number} = -1")
            return
        if agg.function == "steps":
            self.emit(f"g{number} = True")
            return
        self.emit(f"x{number} = {zero}")
        self.emit(f"m{number} = 0")
        if agg.function in ("first", "last", MEMBER):
            self.emit(f"k{number} = False")
        elif not real:
            self.emit(f"w{number} = 0")

    def _aggregate_step(self, agg: Agg) -> None:
        number = self.source.aggs[agg]
        if agg.arg is None:
            self.emit(f"g{number} += 1")
            return
        if agg.function == "steps":
            self._step(agg, agg.arg)
            return
        if looks_back(agg):
            self.emit(f"m{number} += 1")
            return
        value, known = self.source.scribe.value(agg.arg)
        real = agg.arg.kind is Kind.FLOAT
        if agg.function == MEMBER:
            self.lines(f"m{number} += 1", f"if m{number} == {agg.place}:", f"    x{number} = {value}")
            self.emit(f"    k{number} = {known or 'True'}")
            return
        if agg.function in ("first", "last"):
            first = f"m{number} == 0" if agg.function == "first" else "True"
            self.emit(f"if {first}:")
            self.emit(f"    x{number} = {value}")
            self.emit(f"    k{number} = {known or 'True'}")
            self.emit(f"    m{number} = 1")
            return
        self.emit(f"if {known or 'True'}:")
        with self.source.writer.indented():
            match agg.function:
                case "count":
                    self.emit(f"g{number} += 1")
                case syntax.DISTINCT:
                    self._if_new(agg, agg.arg, value)
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

    def _step(self, agg: Agg, condition: Bound) -> None:
        """Ask a condition of two members that follow on each other."""
        number = self.source.aggs[agg]
        self.emit(f"if g{number} and ip_{agg.leaf} >= 0:")
        with self.source.writer.indented():
            self.emit(f"g{number} = False")
            self.emit(f"if {self.source.scribe.true(condition) or 'True'}:")
            self.emit(f"    g{number} = True")

    def _if_new(self, agg: Agg, arg: Bound, value: str) -> None:
        """Count a value that no earlier member has. Members with a new value are linked, each to the one before it."""
        id, number = agg.leaf, self.source.aggs[agg]
        link = self.source.kept(self.layout.stored[id]["", self.layout.links[agg]], f"i_{id}")
        self.lines(f"v{number} = {value}", f"h{number} = i_{id}", f"i_{id} = u{number}")
        self.emit(f"while i_{id} >= 0:")
        with self.source.writer.indented():
            other, _ = self.source.scribe.value(arg)  # nulls are not linked
            self.emit(f"o{number} = {other}")
            nan = f" or (o{number} != o{number} and v{number} != v{number})" if arg.kind is Kind.FLOAT else ""
            self.lines(f"if o{number} == v{number}{nan}:", "    break", f"i_{id} = {link}")
        self.lines(f"found = i_{id} >= 0", f"i_{id} = h{number}", "if not found:")
        self.lines(f"    g{number} += 1", f"    {link} = u{number}", f"    u{number} = i_{id}")

    def _from_the_end(self, agg: Agg, arg: Bound) -> None:
        """The value of a member counted from the last one."""
        id, number = agg.leaf, self.source.aggs[agg]
        self.emit(f"if m{number} >= {-agg.place}:")
        with self.source.writer.indented():
            self.lines(f"i_{id} = z_{id}", f"m{number} = {-agg.place}", f"while m{number} > 0:")
            self.lines(f"    i_{id} -= 1", f"    if {self._mark_of(id)} != 0:", f"        m{number} -= 1")
            self.source.member = id
            value, known = self.source.scribe.value(arg)
            self.source.member = None
            self.lines(f"x{number} = {value}", f"k{number} = {known or 'True'}")

    def _aggregate_end(self, agg: Agg) -> None:
        number = self.source.aggs[agg]
        if agg.function in NEVER_NULL:
            return
        if looks_back(agg) and agg.arg is not None:
            self._from_the_end(agg, agg.arg)
        if agg.function in ("first", "last", MEMBER):
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
