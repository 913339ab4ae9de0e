"""The root block: the loop nest that finds bindings, the judge that gives their status, and what to do with them."""

from __future__ import annotations

from tocsin.engine.codegen import taken
from tocsin.engine.codegen.block_facts import ending, is_terminal, reaches_ahead, scope_leaves
from tocsin.engine.codegen.certainty import Certainty
from tocsin.engine.codegen.forbidden import ForbiddenBlocks
from tocsin.engine.codegen.groups import Groups
from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.levels import Levels
from tocsin.engine.codegen.members import MemberSets
from tocsin.engine.codegen.program import DELTA, FAILS, HOLDS, WAITS, WHOLE
from tocsin.engine.codegen.row_words import bounds_at, pin_at
from tocsin.engine.codegen.snippets import in_column, least, most
from tocsin.engine.codegen.source import SourceText
from tocsin.engine.codegen.tails import Tails
from tocsin.plan.block import Forbidden, LastEnd, WindowHigh, WindowLow
from tocsin.plan.endpoints import strictly_ordered
from tocsin.plan.expr import Bound, leaves
from tocsin.plan.facts import overhangs
from tocsin.plan.rewrite import blocks_below

STAMP = "T[STAMPS + (key & (STAMPED - 1))]"  # of what concerns held answers under a key


class Nest:
    """nest(), judge(), due() and their helpers."""

    def __init__(
        self,
        layout: Layout,
        source: SourceText,
        levels: Levels,
        members: MemberSets,
        forbidden: ForbiddenBlocks,
        certainty: Certainty,
        groups: Groups,
        tails: Tails,
    ) -> None:
        self.layout, self.source, self.groups, self.tails = layout, source, groups, tails
        self.levels, self.members, self.forbidden, self.certainty = levels, members, forbidden, certainty
        self.emit, self.lines = source.emit, source.lines
        self.spans: list[
            tuple[str, str]
        ] = []  # by level: the names of the first start and last end of what is bound before it

    @property
    def is_judged(self) -> bool:
        """Whether a complete binding needs more than its own predicates."""
        return self.layout.waits or self.sets or any(self._late(part) for part in self.layout.root.negations)

    @property
    def sets(self) -> bool:
        """Whether a binding has sets of members beside its single events."""
        return bool(self.layout.root.repeated or self.layout.root.groups)

    def _late(self, part: Forbidden) -> bool:
        """A forbidden part that can be judged only when the binding is complete."""
        return self._forbidden_level(part) is None

    def _forbidden_level(self, part: Forbidden) -> int | None:
        if not self.layout.root.early or (self.layout.waits and not self.layout.holds):
            return None
        if self.layout.holds and (
            part.block.forbidden or self.certainty.is_rough(part.block)
        ):  # violated now is not violated for good
            return None
        used = scope_leaves(part.scope)
        if any(isinstance(end, WindowLow | WindowHigh | LastEnd) for end in (part.scope.low, part.scope.high)):
            return None
        own = {leaf.id for leaf in self.layout.root.leaves}
        for each in blocks_below(part.block):
            for predicate in each.predicates:
                used |= leaves(predicate) & own
        if used & {leaf.id for leaf in self.layout.root.repeated}:
            return None
        return max((self.layout.nest.index(leaf) for leaf in used), default=0)

    def write_judge(self) -> None:
        """def judge(...): the status of a complete binding without the event `excl`, and the time it waits for.

        With `known` the parts that the nest looks at are not violated by stored events.
        """
        root = self.layout.root
        places = ", ".join(f"i_{leaf}" for leaf in self.layout.nest)
        self.emit("@inlined")
        self.emit(f"def judge(excl, write, known, key, {places}, S):")
        self.source.declared.append(("judge", "iiii" + "i" * len(self.layout.nest) + "S"))
        with self.source.writer.indented():
            self.source.unpack()
            self.emit(f"mn = {least([self.source.time_of(leaf, 'start') for leaf in self.layout.nest])}")
            self.emit(f"mx = {most([self.source.time_of(leaf, 'end') for leaf in self.layout.nest])}")
            self.members.repetitions(root, self.layout.nest, root=True, fail="")
            self.groups.find()
            self._tell_sets_apart()
            if self.layout.holds:
                self._settled()
                return
            self._until()
            for leaf in root.repeated:
                self.emit(f"mn = min(mn, rs_{leaf.id})")
                self.emit(f"mx = max(mx, re_{leaf.id})")
            self.groups.reach()
            if self.layout.waits:
                self.emit("if write == 0 and T[ENDED] == 0 and T[IMMEDIATE] == 0 and until >= T[CLOCK]:")
                self.emit(f"    return {WAITS}, until, total")
            self.members.sets(root, f"return {FAILS}, 0, 0")
            self.groups.sets(root, f"return {FAILS}, 0, 0")
            for part in root.negations:
                if self._late(part):
                    self.emit(f"if {self.forbidden.violation(part, 'excl')} != 0:")
                    self.emit(f"    return {FAILS}, 0, 0")
            self.emit(f"return {HOLDS}, until, total")
        self.emit("")

    def _tell_sets_apart(self) -> None:
        """total: what differs where the members do. Where nothing cuts a set, an event makes it larger or nothing."""
        root = self.layout.root
        if not taken.is_signed(root):
            self.emit(f"total = {' + '.join(f'n_{leaf.id}' for leaf in root.repeated) or '0'}")
            return
        self.emit("total = 0")
        for leaf in root.repeated:
            self.emit(f"total = {taken.signed(taken.signed('total', f'n_{leaf.id}'), f'set_{leaf.id}')}")
        for part in root.groups:
            id = self.groups.name(part)
            self.emit(f"total = {taken.signed(taken.signed('total', f'ng_{id}'), f'sg_{id}')}")

    def _settled(self) -> None:
        """The rest of judge() where answers are held: what can still change a binding, as far as is promised.

        It waits while a set may grow, or while a forbidden part may still be violated or cleared. The time it waits
        for is one before which no guarantee can settle it: of a part that is searched, its first tick.
        """
        root = self.layout.root
        self.lines("if write != 0:", f"    return {HOLDS}, 0, total", "until = -FAR")
        for leaf in root.repeated:
            breaks = [each for part in root.forbidden if part.breaks == leaf.id for each in part.block.leaves]
            unseen = f"max(lo_{leaf.id}, {self.certainty.guaranteed([leaf, *breaks])} + 1)"
            self.lines(f"if {unseen} <= hi_{leaf.id}:", f"    until = max(until, hi_{leaf.id})")
            for part in ending(root, leaf.id):
                unseen = f"max(lo_{leaf.id}, {self.certainty.guaranteed(part.block.leaves)} + 1)"
                self.lines(f"if {unseen} <= top_{leaf.id}:", f"    until = max(until, top_{leaf.id})")
        for group in root.groups:
            low, high = self.levels.ends(group.scope)
            unseen = self.certainty.guaranteed(leaf for each in blocks_below(group.block) for leaf in each.leaves)
            self.lines(f"if max({low}, {unseen} + 1) <= {high}:", f"    until = max(until, {high})")
        if self.sets:
            self.lines("if until > -FAR:", "    T[WATCHED] = -1", f"    return {WAITS}, until, total")
        for leaf in root.repeated:
            self.lines(f"mn = min(mn, rs_{leaf.id})", f"mx = max(mx, re_{leaf.id})")
        self.groups.reach()
        self.members.sets(root, f"return {FAILS}, 0, 0")
        self.groups.sets(root, f"return {FAILS}, 0, 0")
        for part in root.negations:
            known = "" if self._late(part) else "known == 0 and "
            self.lines(f"if {known}{self.certainty.will_be_violated(part, 'excl')}:", f"    return {FAILS}, 0, 0")
        searched = [
            part
            for part in root.negations
            if not self.certainty.is_rough(part.block) and not self.certainty.is_single(part.block)
        ]
        self.lines("open = False", *(["until = FAR"] if searched else []))
        for part in searched:
            self.emit(f"until = min(until, {self.levels.end(part.scope.low, 'low')})")
        for part in root.negations:
            self.emit(f"if {self.certainty.may_be_violated(part, 'excl')}:")
            with self.source.writer.indented():
                self.emit("open = True")
                high = self.certainty.last_tick(part)
                if searched:
                    self.lines("T[WATCHED] = -1", *([] if part in searched else [f"until = min(until, {high})"]))
                    continue
                self.lines(
                    f"if {high} > until:", f"    until = {high}", f"    T[WATCHED] = {self.certainty.watched(part)}"
                )
        self.lines("if open:", f"    return {WAITS}, max(until, 1 - FAR), total", f"return {HOLDS}, until, total")
        self.emit("")

    def _until(self) -> None:
        """How long a binding waits: until its scopes have closed, as far as its fixed leaves can tell.

        Members of a repetition may close them sooner, but late members come and go: this time never changes.
        """
        self.emit("until = -FAR")
        for _, scope in self.layout.root.scopes:
            if reaches_ahead(scope):
                self.emit(f"until = max(until, {self.levels.end(scope.high, 'high')})")
        for part in self.layout.root.forbidden if self.layout.shape.intervals else ():
            if part.ends is not None and reaches_ahead(part.scope):
                self.emit(f"until = max(until, {self.levels.end(part.scope.high, 'high')})")
        for part in (*self.layout.root.negations, *self.layout.root.groups):
            if reaches_ahead(part.scope) or overhangs(part.block)[1]:
                self.emit(f"until = max(until, {self.certainty.last_tick(part)})")

    def write_nest(self) -> None:
        """def nest(mode, v, key, vlow, vhigh): all answers with the pinned events; False if OUT or PD is full."""
        self.emit("@inlined")
        self.emit("def nest(mode, v, key, vlow, vhigh, S):")
        self.source.declared.append(("nest", "iiiiiS"))
        with self.source.writer.indented():
            self.source.unpack()
            if self.layout.changeable:
                self.emit("q = True")
                self.emit(f"p = mode == {DELTA}")
            placed = self.levels.plain_predicates(self.layout.root)
            self.source.tests(placed.get(-1, []), "return True")
            self._ranges()
            self.spans = [("mn", "mx")]
            depth = self.source.writer.depth
            for level in range(len(self.layout.nest)):
                self._level(level, placed)
            self._answer()
            self.source.writer.depth = depth
            self.emit("return True")
        self.emit("")

    def _ranges(self) -> None:
        """Before the loops: the range of every leaf, narrowed by the pins and by the ranges of the others."""
        window, words = self.layout.within is not None, self.layout.words
        for level, leaf in enumerate(self.layout.nest):
            self.emit(f"a_{leaf}, l_{leaf}, h_{leaf} = pinned(T, H, {self.layout.words}, {level})")
            if self.layout.shape.intervals:
                self.emit(f"ls_{leaf} = H[a_{leaf} * {words} + {self.layout.row_start}] if a_{leaf} >= 0 else -FAR")
        self.tails.begin()
        self.emit("W = T[PARAMS]")
        self.emit(f"mn = {least([f'h_{leaf}' for leaf in self.layout.nest])}")
        self.emit(f"mx = {most([f'l_{leaf}' for leaf in self.layout.nest])}")
        for leaf in self.layout.nest:
            self._narrow(leaf, window)
        self._narrow_again()

    def _narrow(self, leaf: int, window: bool) -> None:
        others = tuple(other for other in self.layout.nest if other != leaf)
        low, high = self.levels.bounds(self.layout.root, leaf, (), others)
        low, high = ["vlow", *low], ["vhigh", *high]
        if self.layout.changeable:
            lows, highs = bounds_at(self.layout.nest.index(leaf))
            low.append(f"({lows} if mode == {DELTA} else -FAR)")
            high.append(f"({highs} if mode == {DELTA} else FAR)")
        if window:
            low.append("mx - W")
            high.append("mn + W")
        at = f"H, {self.layout.words}, D, N, {self.levels.buffer(leaf)}, a_{leaf}, {most(low)}, {least(high)}, mn, mx"
        narrow = "narrow_near" if self.layout.shape.intervals else "narrow"
        self.emit(f"a_{leaf}, b_{leaf}, l_{leaf}, h_{leaf}, mn, mx = {narrow}({at})")
        self.emit(f"if a_{leaf} >= b_{leaf}:")
        self.emit("    return True")

    def _narrow_again(self) -> None:
        """Ranges that were narrowed before much was known, from the innermost: where not the first level is pinned."""
        root, nest = self.layout.root, self.layout.nest
        if not self.layout.shape.intervals or sum(is_terminal(root, leaf) for leaf in nest) < 2:
            return
        self.emit(f"if {pin_at(0)} < 0:")
        with self.source.writer.indented():
            for level in range(len(nest) - 2, -1, -1):
                leaf = nest[level]
                low, high = self.levels.bounds(root, leaf, (), nest[level + 1 :])
                if low or high:
                    bounds = f"{most(low or ['-FAR'])}, {least(high or ['FAR'])}"
                    self.lines(
                        f"a_{leaf}, b_{leaf} = near(H, {self.layout.words}, a_{leaf}, b_{leaf}, {bounds})",
                        f"if a_{leaf} >= b_{leaf}:",
                        "    return True",
                        f"l_{leaf} = H[a_{leaf} * {self.layout.words}]",
                        f"h_{leaf} = H[(b_{leaf} - 1) * {self.layout.words}]",
                    )
            self.emit("pass")

    def _level(self, level: int, placed: dict[int, list[Bound]]) -> None:
        leaf, exact, loose = self.layout.nest[level], self.layout.nest[:level], self.layout.nest[level + 1 :]
        window = self.layout.within is not None
        low, high = self.levels.bounds(self.layout.root, leaf, exact, loose)
        mn, mx = self.spans[-1]
        if window:
            low.append(f"{mx} - W")
            high.append(f"{mn} + W")
        if low or high:
            bounds = f"{most(low or ['-FAR'])}, {least(high or ['FAR'])}"
            if self.layout.shape.intervals or level == 0:
                search = "near" if self.layout.shape.intervals else "between"
                self.emit(f"y_{leaf}, z_{leaf} = {search}(H, {self.layout.words}, a_{leaf}, b_{leaf}, {bounds})")
            else:  # with points the bounds grow as the loop around goes on
                self.emit(f"y_{leaf}, z_{leaf} = slide(H, {self.layout.words}, y_{leaf}, z_{leaf}, b_{leaf}, {bounds})")
        else:
            self.emit(f"y_{leaf}, z_{leaf} = a_{leaf}, b_{leaf}")
        if loose and not self.layout.shape.intervals:
            self.emit(f"y_{loose[0]}, z_{loose[0]} = a_{loose[0]}, a_{loose[0]}")
        self.emit(f"i_{leaf} = y_{leaf}")
        if leaf in self.layout.first_only:
            self.emit(f"t_{leaf} = FAR")
        self.source.loop(leaf, f"z_{leaf}")
        self.emit(f"e_{leaf} = {self.source.word(leaf, 0)}")
        if leaf in self.layout.first_only:  # those that end together are told apart by who chooses
            self.lines(f"if e_{leaf} > t_{leaf}:", "    break")
        tests = []
        if self.layout.shape.intervals:
            self.emit(f"s_{leaf} = {self.source.word(leaf, self.layout.row_start)}")
        start = f"s_{leaf}" if self.layout.shape.intervals else f"e_{leaf}"
        if window:
            mn, mx = self._span_names(level, start)
            if self.layout.shape.intervals:
                tests.append(f"{mx} - {start} <= W")
        if self.layout.changeable:
            tests.append(f"(mode != {DELTA} or {self.source.word(leaf, 1)} != v)")
        tests += self.levels.exact_tests(self.layout.root, leaf, exact) + self.levels.distinct(
            self.layout.root, leaf, exact
        )
        self.source.test(" and ".join(tests), "continue")
        self.source.tests(placed.get(level, []), "continue")
        self._early_forbidden(level)
        self.tails.use(level, mn, mx)

    def _span_names(self, level: int, start: str) -> tuple[str, str]:
        """Names of the first start and last end with this level taken in; new ones only where it can change them."""
        leaf, exact, (mn, mx) = self.layout.nest[level], self.layout.nest[:level], self.spans[-1]
        apart = strictly_ordered(self.layout.root, before=True)
        used = self.layout.shape.intervals or level + 1 < len(self.layout.nest)
        if used and not any((other, leaf) in apart for other in exact):
            self.emit(f"mn_{leaf} = min({mn}, {start})")
            mn = f"mn_{leaf}"
        if used and not any((leaf, other) in apart for other in exact):
            self.emit(f"mx_{leaf} = max({mx}, e_{leaf})")
            mx = f"mx_{leaf}"
        self.spans.append((mn, mx))
        return mn, mx

    def _early_forbidden(self, level: int) -> None:
        """Forbidden parts whose leaves are bound at this level: q is the status with v, p the one without it."""
        parts = [part for part in self.layout.root.negations if self._forbidden_level(part) == level]
        if not parts:
            if self.layout.changeable:
                self.emit(f"q_{level} = {f'q_{level - 1}' if level else 'q'}")
                self.emit(f"p_{level} = {f'p_{level - 1}' if level else 'p'}")
            return
        before = f"_{level - 1}" if level else ""
        self.emit(f"q_{level} = q{before}")
        self.emit(f"p_{level} = p{before}")
        for part in parts:
            self.emit(f"if q_{level} and {self.forbidden.violation(part, '-1')} != 0:")
            self.emit(f"    q_{level} = False")
            self.emit(f"if p_{level} and {self.forbidden.violation(part, 'v')} != 0:")
            self.emit(f"    p_{level} = False")
            self.emit(f"if not (q_{level} or p_{level}):")
            self.emit("    continue")

    def _answer(self) -> None:
        """What to do with a complete binding."""
        last = len(self.layout.nest) - 1
        if not self.layout.changeable:
            self._out("T[SIGN]", "-1")
            self._enough()
            return
        self.emit(f"now = {HOLDS} if q_{last} else {FAILS}")
        self.emit(f"was = {HOLDS} if p_{last} else {FAILS}")
        self.emit("until = T[CLOCK]")
        self.emit("total = 0")
        self.emit("former = 0")
        if self.is_judged:
            places = ", ".join(f"i_{leaf}" for leaf in self.layout.nest)
            self.emit(f"if q_{last}:")
            self.emit(f"    now, until, total = judge(-1, 0, 1, key, {places}, S)")
            self.emit(f"if p_{last}:")
            self.emit(f"    was, other, former = judge(v, 0, 1, key, {places}, S)")
        self.emit(f"if mode != {DELTA}:")
        with self.source.writer.indented():
            self.emit(f"if now == {HOLDS}:")
            with self.source.writer.indented():
                self._out("T[SIGN]", "-1")
                self._enough()
            if self.layout.waits:
                self._wait_for(f"now == {WAITS} and T[SIGN] > 0")
            self.emit("continue")
        self._difference()

    def _enough(self) -> None:
        """In order, later events at these levels can only give answers that are dropped (`one_for_first`)."""
        if self.layout.first_only:
            self.emit("if T[ORDERED] != 0:")
            for leaf in self.layout.first_only:
                self.emit(f"    t_{leaf} = e_{leaf}")

    def _difference(self) -> None:
        """Mode DELTA: with the event minus without it; withdrawing swaps the two."""
        self.emit("after, before = now, was")
        self.emit("hidden_after, hidden_before = -1, v")
        self.emit("if T[SIGN] < 0:")
        self.emit("    after, before = was, now")
        self.emit("    hidden_after, hidden_before = v, -1")
        self.emit(f"if before == {WAITS}:")
        self.emit("    continue")  # it waits on; or it was held, and what is held is asked again
        same = f"before == {HOLDS} and after == {HOLDS}"
        members = " and total == former" if self.sets else ""
        self.emit(f"if {same}{members}:")
        self.emit("    continue")
        self.emit(f"if before == {HOLDS}:")
        with self.source.writer.indented():
            self._out("-1", "hidden_before")
        self.emit(f"if after == {HOLDS}:")
        with self.source.writer.indented():
            self._out("1", "hidden_after")
        if self.layout.waits:
            self._wait_for(f"after == {WAITS}")

    def _out(self, op: str, excl: str, *, known: str = "T[CLOCK]", undo: bool = False) -> None:
        """Write one change, known since `known`; members of repetitions go to MEM.

        `undo`: it alone is taken back if there is no room.
        """
        self.lines("at = T[OUT_N]", "room = T[OUT_SIZE]", "if at >= room:", "    return False")
        words = [op, known, *(self.source.word(leaf, 1) for leaf in self.layout.nest)]
        self.lines(*(f"OUT[{in_column(column)}] = {word}" for column, word in enumerate(words)))
        if self.sets:
            places = ", ".join(f"i_{leaf}" for leaf in self.layout.nest)
            self.emit(f"good, other, count = judge({excl}, at + 1, 0, key, {places}, S)")
            self.lines("if good < 0:", *(["    T[MEM_N] = members"] if undo else []), "    return False")
        self.emit("T[OUT_N] = at + 1")

    def _wait_for(self, condition: str) -> None:
        self.emit(f"if {condition}:")
        with self.source.writer.indented():
            self.emit("at = T[WAITING] + T[FRESH]")
            self.emit(f"if at{' + T[ASIDE]' if self.layout.holds else ''} >= T[PD_SIZE]:")
            self.emit("    return False")
            self.emit(f"at *= {self.layout.head + 2 * len(self.layout.nest)}")
            self.emit("PD[at] = until")
            self.emit("PD[at + 1] = key")
            if self.layout.holds:
                self.lines("PD[at + 2] = T[WATCHED]", f"PD[at + 3] = {STAMP}")
            for number, leaf in enumerate(self.layout.nest):
                self.emit(f"PD[at + {self.layout.head + 2 * number}] = {self.source.word(leaf, 1)}")
                self.emit(f"PD[at + {self.layout.head + 2 * number + 1}] = e_{leaf}")
            self.emit("T[FRESH] += 1")

    def write_again(self) -> None:
        """def again(...): the nest out of the way of the fast path."""
        self.lines("@compiled", "def again(mode, v, key, vlow, vhigh, S):")
        self.source.declared.append(("again", "iiiiiS"))
        self.lines("    return nest(mode, v, key, vlow, vhigh, S)", "")

    def write_settle(self) -> None:
        """def settle(<state>): judge the waiting answers whose time has come."""
        self._recall()
        if self.layout.holds:
            self._ask()
            self._due_by_guarantee()
        else:
            self._due_by_clock()
        self.lines("", "@entry", "def settle(state):")
        with self.source.writer.indented():
            self.source.open_state()
            if self.layout.holds:
                self.lines("if T[ASK] != 0:", "    ask_again(-1, S)", "    T[ASK] = 0")
            self.lines("return due(S)", "")

    def _recall(self) -> None:
        """def recall(row, S): judge the waiting answer in a row of PD; False if OUT is full. REWAIT: it waits on."""
        places = ", ".join(f"i_{leaf}" for leaf in self.layout.nest)
        self.lines("@compiled", "def recall(row, S):")
        self.source.declared.append(("recall", "iS"))
        with self.source.writer.indented():
            self.lines(f"{WHOLE} = S", "row *= T[WAIT_WIDTH]", "key = PD[row + 1]", "T[REWAIT] = -FAR")
            if self._lasts:
                self._undisturbed()
            for level, leaf in enumerate(self.layout.nest):
                self.lines(f"i_{leaf} = {self._place(level)}", f"if i_{leaf} < 0:", "    return True")
            self.lines(
                f"now, until, total = judge(-1, 0, 0, key, {places}, S)",
                f"if now == {WAITS}:",
                "    T[REWAIT] = until",
                f"if now == {FAILS}:",
                "    T[PRUNED] += 1",
                f"if now == {HOLDS}:",
            )
            with self.source.writer.indented():
                self.emit("members = T[MEM_N]")
                self._out("1", "-1", known=self._known_since, undo=True)
                self.emit("T[RELEASED] += 1")
            self.lines("return True", "")

    @property
    def _known_since(self) -> str:
        """The text of: when a waiting answer became certain. In order it is the time that it had to wait for.

        That is `until`: where a part reaches on behind the last member of a set, the entry says less until it is asked.
        Where the host knows when nothing could refute it any more (ENDED is 2), the entry says that.
        """
        if self.layout.holds:
            return "T[CLOCK]"
        waited = "max(PD[row], until if T[ENDED] != 2 else PD[row])"
        return f"(min({waited}, T[CLOCK]) if T[ORDERED] != 0 else T[CLOCK])"

    @property
    def _lasts(self) -> bool:
        """Whether a held answer that no late event concerns stays true: its scopes were closed when it was found."""
        simple = all(
            self.certainty.is_single(part.block) and not self._late(part) and not reaches_ahead(part.scope)
            for part in self.layout.root.forbidden
        )
        return bool(self.layout.holds and self.layout.root.forbidden) and simple and not self.sets

    def _undisturbed(self) -> None:
        """Such an answer is given as it stands, once all that it waits for is promised."""
        promised = self.certainty.guaranteed(leaf for part in self.layout.root.forbidden for leaf in part.block.leaves)
        self.lines(
            f"if PD[row + 3] == {STAMP} and {promised} >= PD[row]:",
            "    at = T[OUT_N]",
            "    room = T[OUT_SIZE]",
            "    if at >= room:",
            "        return False",
            "    OUT[at] = 1",
            "    OUT[at + room] = T[CLOCK]",
            *(
                f"    OUT[{in_column(2 + level)}] = PD[row + {self.layout.head + 2 * level}]"
                for level in range(len(self.layout.nest))
            ),
            "    T[OUT_N] = at + 1",
            "    T[RELEASED] += 1",
            "    return True",
        )

    def _place(self, level: int) -> str:
        """Where the event of a level of a waiting answer stands now, or -1."""
        at = self.layout.head + 2 * level
        event = f"PD[row + {at + 1}], PD[row + {at}]"
        return f"find(H, {self.layout.words}, D, {self.levels.buffer(self.layout.nest[level])}, {event})"

    def _due_by_clock(self) -> None:
        """def due(S): judge every waiting answer whose time has come; OUT_FULL where it could not go on."""
        self.lines("@compiled", "def due(S):")
        self.source.declared.append(("due", "S"))
        with self.source.writer.indented():
            self.lines(
                f"{WHOLE} = S",
                "while T[WAITING] > 0 and (PD[0] < T[CLOCK] or T[ENDED] != 0):",
                "    if not recall(0, S):",
                "        return OUT_FULL",
                "    if T[REWAIT] > -FAR:",
                "        rewait(T, PD)",
                "    else:",
                "        unwait(T, PD)",
                "return DONE",
            )

    def _due_by_guarantee(self) -> None:
        """Judge held answers again: those whose time a guarantee has reached, then those on the side."""
        self.lines("@compiled", "def due(S):")
        self.source.declared.append(("due", "S"))
        with self.source.writer.indented():
            self.lines(
                f"{WHOLE} = S",
                "reached = furthest(T)",
                "while T[WAITING] > 0 and PD[0] <= reached:",
                "    if not recall(0, S):",
                "        return OUT_FULL",
                "    if T[REWAIT] > -FAR:",
                "        PD[0] = T[REWAIT]",
                "        PD[2] = T[WATCHED]",
                "        set_aside(T, PD)",
                "    else:",
                "        unwait(T, PD)",
                "if T[MOVED] == 0:",
                "    return DONE",
                "row = T[PD_SIZE] - 1",
                "while row >= T[PD_SIZE] - T[ASIDE]:",
                "    at = row * T[WAIT_WIDTH]",
                "    if PD[at + 2] >= 0 and promised(T, PD[at + 2]) < PD[at]:",
                "        row -= 1",
                "        continue",
                "    if not recall(row, S):",
                "        return OUT_FULL",
                "    if T[REWAIT] > -FAR:",
                "        PD[at] = T[REWAIT]",
                "        PD[at + 2] = T[WATCHED]",
                "        row -= 1",
                "    else:",
                "        forget_aside(T, PD, row)",
                "T[MOVED] = 0",
                "return DONE",
            )

    def _ask(self) -> None:
        """def ask_again(key, S): have the held answers under a key (-1: all) settled that an event has decided."""
        self.lines("@compiled", "def ask_again(only, S):")
        self.source.declared.append(("ask_again", "iS"))
        with self.source.writer.indented():
            self.lines(
                f"{WHOLE} = S",
                "T[MOVED] = 1",
                "changed = False",
                "entries = T[WAITING]",
                "if T[ASK] != 0:",
                "    entries += T[ASIDE]",  # else those on the side are asked anyway
                "for entry in range(entries):",
            )
            with self.source.writer.indented():
                self.lines(
                    "row = entry * T[WAIT_WIDTH]",
                    "if entry >= T[WAITING]:",
                    "    row = (T[PD_SIZE] - 1 - entry + T[WAITING]) * T[WAIT_WIDTH]",
                    "key = PD[row + 1]",
                )
                self.lines("if only >= 0 and key != only:", "    continue", "found = True")
                for level, leaf in enumerate(self.layout.nest):
                    self.lines(f"i_{leaf} = {self._place(level)}", f"found = found and i_{leaf} >= 0")
                places = ", ".join(f"i_{leaf}" for leaf in self.layout.nest)
                self.lines(
                    f"status = {FAILS}",
                    "if found:",
                    f"    status, until, total = judge(-1, 0, 0, key, {places}, S)",
                    f"if status == {FAILS} or (status == {HOLDS} and T[ASK] == 0):",
                    "    PD[row] = -FAR",
                    "    PD[row + 2] = -1",
                    "    PD[row + 3] = -1",
                    "    changed = True",
                )
            self.lines("if changed:", "    rank_again(T, PD)", "")
