"""The language of a query: which words of letters hold a match (Li 2010, 3.3).

A thread is one way to fill the pattern, letter by letter: which leaves are bound, how many members each repetition has,
and how far each forbidden block has come in its gap. Threads choose (a letter is bound, or is not), forbidden blocks do
not: of them a thread keeps every way at once. So the language is that of a nondeterministic automaton, whatever nests.

What is not regular is left out so that the language only grows: conditions over several events count as true, a
negated part with one is dropped, a window is no bound, and a negated part that the window bounds is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tocsin.constraint.letters import Letters, as_own
from tocsin.events import ANY
from tocsin.lang.constraint_syntax import is_start, start_of
from tocsin.plan.block import (
    After,
    Before,
    Block,
    Enclosing,
    Forbidden,
    LastEnd,
    Lasting,
    Leaf,
    Plan,
    Scope,
    WindowHigh,
    WindowLow,
)
from tocsin.plan.expr import Agg, Bound, Op, Reach, Ref, Time, leaves, walk
from tocsin.plan.rewrite import all_blocks, attribute, blocks_below, equality

CLOSED = -1  # a scope that lies behind us


@dataclass(frozen=True, slots=True)
class Thread:
    """One way that a block is being filled.

    bound    the fixed leaves that hold an event, as bits
    counts   the members of each repetition so far, no more than matter; CLOSED: its gap is over
    inside   for each forbidden part its threads, while its gap lasts; None before it, CLOSED behind it
    begun    the fixed leaves whose event has begun, as far as starts are letters
    """

    bound: int
    counts: tuple[int, ...]
    inside: tuple[frozenset[Thread] | int | None, ...]
    begun: int = 0


@dataclass(slots=True)
class Abstracted:
    """What was left out, whether a negated part was among it, and the letters of which such a part could be made."""

    reasons: list[str] = field(default_factory=list)
    negations: bool = False
    refuting: set[int] = field(default_factory=set)

    def note(self, reason: str, *, negation: bool = False) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.negations |= negation


@dataclass(frozen=True, slots=True)
class Gap:
    """When a scope opens and closes: leaves (bits) that must be bound first, and of which the first one closes it.

    whole  it reaches to the last event of the match, that event included
    """

    after: int
    before: int
    whole: bool = False

    def is_open(self, bound: int) -> bool:
        """Whether an event that comes now lies behind its begin, and its end has not come."""
        return self.after & ~bound == 0 and not self.before & bound


@dataclass(frozen=True, slots=True)
class CountedLeaf:
    """A repeated leaf: which letters qualify, how many members are needed, and how many there may be (None: any)."""

    letters: frozenset[int]
    least: int
    most: int | None
    gap: Gap

    @property
    def cap(self) -> int:
        """Beyond so many members, more of them change nothing."""
        return self.least if self.most is None else self.most + 1

    def is_filled(self, count: int) -> bool:
        return count == CLOSED or (count >= self.least and (self.most is None or count <= self.most))


class PatternMachine:
    """The automaton of a block. `intervals`: events have lengths, and letters come in the order of their ends."""

    def __init__(self, block: Block, setting: LetterSetting) -> None:
        self.fixed = block.fixed
        place = {leaf.id: at for at, leaf in enumerate(self.fixed)}
        tests = _tests(block, setting)
        self.takes = [setting.letters_at(leaf, tests.get(leaf.id, ())) for leaf in self.fixed]
        self.opening = [setting.opening(leaf, tests.get(leaf.id, ())) for leaf in self.fixed]
        self.before = Befores.of(block, place, [each is not None for each in self.opening], setting)
        self.all = (1 << len(self.fixed)) - 1
        self.repetitions = tuple(_repetitions(block, place, setting, tests))
        self.parts: tuple[tuple[PatternMachine, Gap], ...] = tuple(_parts(block, place, setting))

    # --- threads ---

    def begin(self) -> Thread:
        counts = tuple(0 for _ in self.repetitions)
        inside = tuple(self._opened(part, gap, 0) for part, gap in self.parts)
        return Thread(0, counts, inside)

    def _opened(self, part: PatternMachine, gap: Gap, bound: int) -> frozenset[Thread] | None:
        return frozenset((part.begin(),)) if gap.after & ~bound == 0 else None

    def step(self, thread: Thread, letter: int) -> Iterator[tuple[Thread, bool]]:
        """The threads behind a letter, and whether it became an event of the match."""
        counts, used = self._counted(thread, letter)
        inside = self._judged(thread, letter, 0)
        due = self._due(thread, letter)
        if inside is not None and due is None:
            yield Thread(thread.bound, counts, inside, thread.begun), used
        for at, takes in enumerate(self.takes):
            bit, opening = 1 << at, self.opening[at]
            if opening is not None and letter in opening.starts and not thread.begun & bit:
                if inside is not None and self.before.may_begin(at, thread):
                    yield Thread(thread.bound, counts, inside, thread.begun | bit), True
            elif letter in takes and not thread.bound & bit and due in (None, at):
                found = self._bind(thread, letter, bit) if self.before.may_end(at, thread) else None
                if found is not None:
                    yield found, True

    def _due(self, thread: Thread, letter: int) -> int | None:
        """The leaf whose event ends with this letter, because no other one of its type is open."""
        for at, opening in enumerate(self.opening):
            is_open = opening is not None and opening.serial and thread.begun & ~thread.bound & 1 << at
            if is_open and opening is not None and letter in opening.ends:
                return at
        return None

    def _counted(self, thread: Thread, letter: int) -> tuple[tuple[int, ...], bool]:
        """The counts behind a letter that no leaf holds."""
        counts, used = list(thread.counts), False
        for at, each in enumerate(self.repetitions):
            if counts[at] != CLOSED and each.gap.is_open(thread.bound) and letter in each.letters:
                counts[at], used = min(counts[at] + 1, each.cap), True
        return tuple(counts), used

    def _bind(self, thread: Thread, letter: int, bit: int) -> Thread | None:
        """The thread in which a leaf holds the letter; None where that breaks it."""
        bound = thread.bound | bit
        counts = list(thread.counts)
        for at, each in enumerate(self.repetitions):
            if counts[at] != CLOSED and each.gap.before & bit:
                if not each.is_filled(counts[at]):
                    return None
                counts[at] = CLOSED
        inside = self._judged(thread, letter, bit)
        if inside is None:
            return None
        states = list(inside)
        for at, (part, gap) in enumerate(self.parts):
            if states[at] is None:
                states[at] = self._opened(part, gap, bound)
            elif gap.before & bit or (gap.whole and bound == self.all):
                if any(map(part.accepts, states[at])):  # type: ignore[arg-type]
                    return None
                states[at] = CLOSED
        return Thread(bound, tuple(counts), tuple(states), thread.begun)

    def _judged(self, thread: Thread, letter: int, bit: int) -> tuple[frozenset[Thread] | int | None, ...] | None:
        """The forbidden parts behind a letter; None if one of them can no longer be kept out."""
        found: list[frozenset[Thread] | int | None] = []
        for (part, gap), threads in zip(self.parts, thread.inside, strict=True):
            if not isinstance(threads, frozenset) or gap.before & bit:
                found.append(threads)
                continue
            there = frozenset(each for one in threads for each, _ in part.step(one, letter))
            if any(map(part.is_done, there)):
                return None
            found.append(there)
        return tuple(found)

    # --- what a thread is ---

    def accepts(self, thread: Thread) -> bool:
        """Whether it is a match if nothing more comes."""
        if thread.bound != self.all:
            return False
        if not all(each.is_filled(count) for each, count in zip(self.repetitions, thread.counts, strict=True)):
            return False
        return not any(
            any(map(part.accepts, threads))
            for (part, _), threads in zip(self.parts, thread.inside, strict=True)
            if isinstance(threads, frozenset)
        )

    def is_done(self, thread: Thread) -> bool:
        """Whether it is a match, whatever comes."""
        if thread.bound != self.all:
            return False
        return all(count == CLOSED for count in thread.counts) and all(state == CLOSED for state in thread.inside)


@dataclass(frozen=True, slots=True)
class Opening:
    """A fixed leaf that takes events of a type whose starts are letters.

    starts  the letters with which its event may begin; `ends`: all with which events of the type end
    serial  no two of these events are open at once, so an event ends with the next of the ends
    """

    starts: frozenset[int]
    ends: frozenset[int]
    serial: bool


@dataclass(slots=True)
class Befores:
    """For each fixed leaf which leaves (as bits) must have ended, and begun, before its own event begins, and ends."""

    opening: list[bool]
    begin: list[tuple[int, int]]
    end: list[tuple[int, int]]

    @staticmethod
    def of(block: Block, place: Mapping[int, int], opening: list[bool], setting: LetterSetting) -> Befores:
        found = Befores(opening, [(0, 0)] * len(place), [(0, 0)] * len(place))
        for order in block.order:
            left, right = order.left, order.right
            if not setting.intervals:
                left, right = replace(left, which="end"), replace(right, which="end")
            if left.leaf == right.leaf:
                if order.strict and setting.intervals:
                    setting.left_out.note("that an event is no point counts as true")
                continue
            if left.leaf not in place or right.leaf not in place:
                continue
            one, other = place[left.leaf], place[right.leaf]
            if any(point.which == "start" and not opening[place[point.leaf]] for point in (left, right)):
                setting.left_out.note("events may have lengths")
            if left.which == "start" and not opening[one]:
                continue  # nobody knows when it began
            ended, begun = (1 << one, 0) if left.which == "end" else (0, 1 << one)
            needs = found.begin if right.which == "start" and opening[other] else found.end
            needs[other] = needs[other][0] | ended, needs[other][1] | begun
        return found

    def may_begin(self, at: int, thread: Thread) -> bool:
        ended, begun = self.begin[at]
        return not (ended & ~thread.bound or begun & ~thread.begun)

    def may_end(self, at: int, thread: Thread) -> bool:
        ended, begun = self.end[at]
        return not (ended & ~thread.bound or begun & ~thread.begun or (self.opening[at] and not thread.begun >> at & 1))


# --- what a plan says of its language -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LetterSetting:
    """What all blocks of a plan share.

    key        the attributes of a trace: equality of these is always true
    seen       whether the constraints see events of a type; of others nobody knows how they are ordered at one time
    intervals  events may have lengths
    windowed   the query has a window
    loose      every negated part is left out
    starts     types whose starts are letters; `serial`: those of which no two events are open at once
    """

    letters: Letters
    key: Collection[str]
    seen: Mapping[str, bool]
    intervals: bool
    windowed: bool
    loose: bool
    left_out: Abstracted
    starts: frozenset[str] = frozenset()
    serial: frozenset[str] = frozenset()

    def letters_at(self, leaf: Leaf, tests: Collection[Bound]) -> frozenset[int]:
        """The letters that a leaf takes."""
        found: set[int] = set()
        for alt in leaf.alts:
            if alt.type == ANY:
                found |= {at for at in range(len(self.letters)) if not is_start(self.letters.all[at].type)}
                continue
            where = [as_own(test, alt.type) for test in (*alt.where, *tests) if is_of_one_event(test)]
            found |= {at for at in range(len(self.letters)) if self.letters.takes(at, alt.type, where)}
        return frozenset(found)

    def opening(self, leaf: Leaf, tests: Collection[Bound]) -> Opening | None:
        """How the event of a leaf begins; None where that is no letter."""
        if len(leaf.alts) != 1 or leaf.alts[0].type not in self.starts:
            return None
        type = leaf.alts[0].type
        if type not in self.serial:
            self.left_out.note(f"events of {type} may overlap each other")
        where = [as_own(test, type) for test in (*leaf.alts[0].where, *tests) if is_of_one_event(test)]
        every = range(len(self.letters))
        starts = frozenset(at for at in every if self.letters.takes(at, start_of(type), where))
        ends = frozenset(at for at in every if self.letters.takes(at, type, ()))
        return Opening(starts, ends, type in self.serial)

    def always(self, predicate: Bound, block: Block) -> bool:
        """Whether a condition over several events is true of all that can meet: their key, and that they differ."""
        sides = equality(predicate)
        if sides is not None:
            one, other = attribute(sides[0]), attribute(sides[1])
            return one is not None and other is not None and one[1] == other[1] and one[1] in self.key
        match predicate:
            case Op("not", (Op("same", (Ref(one_leaf), Ref(other_leaf))),)):
                inside = {leaf.id for leaf in block.leaves}
                return one_leaf != other_leaf and {one_leaf, other_leaf} <= inside
        return False


def is_of_one_event(test: Bound) -> bool:
    """Whether a condition asks for attributes of one event, and nothing else."""
    nodes = list(walk(test))
    return len(leaves(test)) <= 1 and not any(isinstance(node, Agg | Time | Ref | Reach) for node in nodes)


def conditions_of(plan: Plan) -> dict[str, list[Bound]]:
    """The conditions on one event that the leaves of a plan ask, by type."""
    found: dict[str, list[Bound]] = {}
    for block in all_blocks(plan):
        own = {leaf.id: leaf for leaf in block.leaves}
        for leaf in block.leaves:
            for alt in leaf.alts:
                if alt.type != ANY:
                    tests = [test for test in alt.where if is_of_one_event(test)]
                    found.setdefault(alt.type, []).extend(as_own(test, alt.type) for test in tests)
        for predicate in block.predicates:
            mine = [own[id] for id in leaves(predicate) if id in own]
            if is_of_one_event(predicate) and len(mine) == 1 and len(mine[0].alts) == 1 and mine[0].alts[0].type != ANY:
                type = mine[0].alts[0].type
                found.setdefault(type, []).append(as_own(predicate, type))
    return found


def machines_of(plan: Plan, setting: LetterSetting) -> list[PatternMachine]:
    """The automata of the alternatives of a plan."""
    if setting.windowed:
        setting.left_out.note("WITHIN: verdicts depend on the order of events only")
    return [PatternMachine(block, setting) for block in plan.alternatives if block.missing is None]


def awaited_letters(plan: Plan, setting: LetterSetting) -> frozenset[int]:
    """The letters of events for which an answer may wait behind its last one: of a negated part, or of a repetition.

    Where a TIMEOUT tells of what has not come, nothing is ever certain before its time.
    """
    found: set[int] = set()
    for block in plan.alternatives if not plan.has_timeouts else ():
        tests = _tests(block, replace(setting, left_out=Abstracted()))
        for part in block.forbidden:
            if isinstance(part.scope.high, WindowHigh | Lasting):
                found |= _deciding_letters(part, setting)
        for leaf in block.repeated:
            if isinstance(dict(block.scopes)[leaf.id].high, WindowHigh | Lasting):
                found |= setting.letters_at(leaf, tests.get(leaf.id, ()))
    return frozenset(found)


def _deciding_letters(part: Forbidden, setting: LetterSetting) -> set[int]:
    """The letters of which one must come last to make a match of a forbidden part, or to unmake one."""
    block, several = part.block, list(blocks_below(part.block))
    own = replace(setting, left_out=Abstracted())
    if len(several) > 1 or part.gathers is not None:
        return {at for each in several for leaf in each.leaves for at in own.letters_at(leaf, ())}
    tests = _tests(block, own)
    needs = _before(block, {leaf.id: at for at, leaf in enumerate(block.fixed)}, intervals=setting.intervals)
    followed = {leaf.id for at, leaf in enumerate(block.fixed) if any(need >> at & 1 for need in needs)}
    last = [leaf for leaf in block.leaves if leaf.id not in followed]
    return {at for leaf in last for at in own.letters_at(leaf, tests.get(leaf.id, ()))}


def _tests(block: Block, setting: LetterSetting) -> dict[int, list[Bound]]:
    """The conditions of a block that are about one event each, by leaf; what else it asks is noted."""
    found: dict[int, list[Bound]] = {}
    single = {leaf.id for leaf in block.leaves if len(leaf.alts) == 1 and leaf.alts[0].type != ANY}
    for predicate in block.predicates:
        mine = leaves(predicate)
        if is_of_one_event(predicate) and mine and mine <= single:
            found.setdefault(next(iter(mine)), []).append(predicate)
        elif not setting.always(predicate, block):
            setting.left_out.note("a condition over several events counts as true")
    for leaf in block.leaves:
        for alt in leaf.alts:
            if not all(map(is_of_one_event, alt.where)) or (alt.type == ANY and alt.where):
                setting.left_out.note("a condition on times or on ANY counts as true")
    return found


def _before(block: Block, place: Mapping[int, int], *, intervals: bool) -> list[int]:
    """For each fixed leaf those (as bits) whose event comes before its own."""
    needs = [0] * len(place)
    for order in block.order:
        left, right = order.left, order.right
        if left.leaf == right.leaf or (intervals and left.which != "end"):
            continue
        if left.leaf in place and right.leaf in place:
            needs[place[right.leaf]] |= 1 << place[left.leaf]
    for at in range(len(needs)):  # closed: the order of some pairs follows from others
        for other in range(len(needs)):
            if needs[other] >> at & 1:
                needs[other] |= needs[at]
    return needs


def _gap(scope: Scope, place: Mapping[int, int]) -> Gap | None:
    """When a scope is open; None if it depends on times, or on members of repetitions."""
    after = before = 0
    whole = False
    match scope.low:
        case After(ids, by) if by == 1 and set(ids) <= place.keys():
            after = sum(1 << place[id] for id in ids)
        case WindowLow() | Enclosing():
            pass
        case _:
            return None
    match scope.high:
        case Before(ids) if set(ids) <= place.keys():
            before = sum(1 << place[id] for id in ids)
        case WindowHigh() | Enclosing():
            pass
        case LastEnd():
            whole = True
        case _:
            return None
    return Gap(after, before, whole)


def _is_window(scope: Scope) -> bool:
    return isinstance(scope.low, WindowLow) or isinstance(scope.high, WindowHigh | LastEnd)


def _repetitions(
    block: Block, place: Mapping[int, int], setting: LetterSetting, tests: Mapping[int, list[Bound]]
) -> Iterator[CountedLeaf]:
    scopes = dict(block.scopes)
    narrowed = {part.breaks for part in block.forbidden} | {part.ends for part in block.forbidden}
    filtered = {id for predicate in block.predicates if not is_of_one_event(predicate)
                and not setting.always(predicate, block) for id in leaves(predicate)}  # fmt: skip
    for leaf in block.repeated:
        assert leaf.repeat is not None
        gap = _gap(scopes[leaf.id], place)
        if gap is None or gap.whole or setting.intervals or leaf.taking is not None or leaf.id in narrowed:
            setting.left_out.note("a repetition with marks, UNTIL or members of another counts as there")
            continue
        most = leaf.repeat.most
        if most is not None and (leaf.id in filtered or (setting.windowed and _is_window(scopes[leaf.id]))):
            setting.left_out.note("{n,m} of members that are chosen counts as {n,}")
            most = None
        yield CountedLeaf(setting.letters_at(leaf, tests.get(leaf.id, ())), leaf.repeat.least, most, gap)


def _parts(block: Block, place: Mapping[int, int], setting: LetterSetting) -> Iterator[tuple[PatternMachine, Gap]]:
    """The forbidden parts of a block, without those that are left out."""
    for part in block.forbidden:
        if part.gathers is not None:
            setting.left_out.note("a group counts as there")
        if not part.forbids:
            continue
        gap = _gap(part.scope, place)
        why = _why_dropped(part, gap, block, setting)
        if why is not None or gap is None:
            setting.left_out.note(f"a negated part is left out: {why}", negation=True)
            for each in blocks_below(part.block):
                for leaf in each.leaves:
                    setting.left_out.refuting |= setting.letters_at(leaf, ())
            continue
        yield PatternMachine(part.block, setting), gap


def _why_dropped(part: Forbidden, gap: Gap | None, block: Block, setting: LetterSetting) -> str | None:
    """Why an outermost negated part cannot be said in letters."""
    if gap is None or (gap.whole and block.repeated):
        return "its gap depends on times or on members of a repetition"
    if setting.loose:
        return "events of one time may stand in any order"
    if setting.intervals:
        return "events may have lengths"
    if setting.windowed and _is_window(part.scope):
        return "the window bounds it"
    own = Abstracted()
    inner = LetterSetting(setting.letters, setting.key, setting.seen, False, False, False, own)
    PatternMachine(part.block, inner)
    if own.reasons:
        return own.reasons[0]
    types = {alt.type for each in blocks_below(part.block) for leaf in each.leaves for alt in leaf.alts}
    if not all(setting.seen.get(type, False) for type in types):
        return "it has types that no constraint sees"
    return None
