"""What a plan publishes about itself: what it reads, what can end a match, how long events matter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from tocsin.events import ANY
from tocsin.lang.staged_syntax import LeafOperand
from tocsin.plan.block import (
    Block,
    Forbidden,
    LastEnd,
    Lasting,
    Leading,
    Plan,
    Point,
    Scope,
    Until,
    WindowHigh,
    WindowLow,
)
from tocsin.plan.endpoints import graph_of, strictly_ordered
from tocsin.plan.expr import Bound, Col, walk
from tocsin.plan.rewrite import all_blocks, all_leaves
from tocsin.plan.staged_memory import staged_memory
from tocsin.plan.staged_places import StatementPlaces, key_attribute
from tocsin.schema import Kind


def types_of(plan: Plan) -> tuple[str, ...]:
    """Every event type that a plan reads, for its matches or for its constraints."""
    constrained = () if plan.under is None else plan.under.types
    return tuple(dict.fromkeys([*pattern_types(plan), *((ANY,) if constrained is None else constrained)]))


def pattern_types(plan: Plan) -> tuple[str, ...]:
    """Every event type that the pattern of a plan reads."""
    return tuple(dict.fromkeys(alt.type for leaf in all_leaves(plan) for alt in leaf.alts))


def takes(plan: Plan, type: str) -> bool:
    """Whether a plan reads events of a type."""
    return any(plan.schema.takes(wanted, type) for wanted in types_of(plan))


def reads(plan: Plan) -> dict[str, set[str]]:
    """The types and, for each, the attributes that detection needs. Nothing else may influence the answer.

    Where the type ANY is among them, events of every type are needed.
    """
    found: dict[str, set[str]] = constrained(plan)
    types: dict[tuple[int, str], str] = {}
    for block in all_blocks(plan):
        for leaf in block.leaves:
            for alt in leaf.alts:
                types[leaf.id, alt.var] = alt.type
                found.setdefault(alt.type, set())
    for node in (node for predicate in _predicates(plan) for node in walk(predicate)):
        if isinstance(node, Col) and (node.leaf, node.var) in types:
            found[types[node.leaf, node.var]].add(node.attr)
    key = dict(plan.key)
    for (leaf_id, _), type in types.items():
        found[type].update(key.get(leaf_id, ()))
    for type, attrs in () if plan.staged is None else plan.staged.reads:
        found.setdefault(type, set()).update(attrs)
    for type in found if plan.derived is not None else ():
        found[type].update(plan.derived.folded)  # type: ignore[union-attr]
    asked = () if plan.consume is None else plan.consume.having
    for node in (node for predicate in asked for node in walk(predicate) if isinstance(node, Col)):
        for type in plan.variables[node.leaf].types:
            found.setdefault(type, set()).add(node.attr)
    return found


def constrained(plan: Plan) -> dict[str, set[str]]:
    """The types that the constraints of a plan see, and what they ask of each."""
    under = plan.under
    return {} if under is None else {type: under.attrs(type) for type in types_of(plan)}


def key_needs(plans: Iterable[Plan]) -> dict[str, frozenset[str]]:
    """The attributes of keys that may be missing, each with the types of events that some plan does not see then."""
    found: dict[str, frozenset[str]] = {}
    plans = list(plans)
    matches = {type for plan in plans for type in plan.emits}
    for plan in plans:
        for attr in plan.needs:
            fields = {type: plan.schema.field(type, attr) for type in plan.mentions if type not in matches}
            mine = {type for type, field in fields.items() if not field or field.nullable or field.kind is Kind.FLOAT}
            if mine:
                found[attr] = found.get(attr, frozenset()) | mine
        for type, attrs in _keys_of_statement(plan).items():
            for attr in attrs if type not in matches else ():
                found[attr] = found.get(attr, frozenset()) | {type}
    return found


def _keys_of_statement(plan: Plan) -> dict[str, set[str]]:
    """By type, the attributes without which an event has no role in a statement at all: keys of all of its roles."""
    if plan.staged is None:
        return {}
    statement = plan.staged.statement
    found: dict[str, set[str]] = {}
    for role in StatementPlaces(statement).roles:
        is_leaf = isinstance(role, LeafOperand)
        keys = (*statement.gkeys, *(statement.lkeys if is_leaf else ()))
        attrs = {attr for key in keys if (attr := key_attribute(key, role)) is not None}
        type = str(role.type)
        found[type] = found[type] & attrs if type in found else attrs
    return found


def _predicates(plan: Plan) -> Iterator[Bound]:
    for block in all_blocks(plan):
        yield from block.predicates
        for leaf in block.leaves:
            for alt in leaf.alts:
                yield from alt.where


def last_leaves(block: Block) -> tuple[int, ...]:
    """Return the fixed leaves whose event may end last in a match: no order constraint puts another one behind."""
    fixed = [leaf.id for leaf in block.fixed]
    graph = graph_of(block.order, fixed)
    later = {id: graph.reach(Point(id, "end")) for id in fixed}
    return tuple(id for id in fixed if not any(later[id].get(Point(other, "end")) for other in fixed))


def terminals(plan: Plan) -> tuple[int, ...]:
    """The leaves whose event can complete a match in ordered input."""
    found: list[int] = []
    for block in plan.alternatives:
        reaching = {leaf for leaf, scope in block.scopes if isinstance(scope.high, WindowHigh | LastEnd | Until)}
        ends = set(last_leaves(block)) | reaching
        found += [leaf.id for leaf in block.leaves if leaf.id in ends]
        ahead = [part.block for part in block.groups if isinstance(part.scope.high, WindowHigh)]
        found += [leaf for inner in ahead for leaf in last_leaves(inner)]
    return tuple(found)


def terminal_types(plan: Plan) -> tuple[str, ...]:
    ends = set(terminals(plan))
    return tuple(dict.fromkeys(alt.type for leaf in all_leaves(plan) if leaf.id in ends for alt in leaf.alts))


def is_filter(block: Block) -> bool:
    """Whether each event is judged alone: one fixed leaf, nothing forbidden, no set.

    Such a rule keeps no state. An event is remembered only until its own time is guaranteed, because a copy with the
    same eid must count once (and can be withdrawn) as long as it may still come: in order that is the last tick, under
    a bound on lateness as long as that, and without any guarantee for ever.
    """
    return len(block.leaves) == 1 == len(block.fixed) and not block.forbidden


def is_alone(block: Block, *, intervals: bool) -> bool:
    """Whether a match is one event, and what it is judged by lies at a known distance: `SEQ(Beat b, !Beat x FOR 5)`.

    An interval may start any time before its end, so that what comes before it has no known distance to that.
    """
    if len(block.leaves) != 1 or len(block.fixed) != 1:
        return False
    ends = [(type(part.scope.low), type(part.scope.high)) for part in block.forbidden]
    return all(high is Lasting or (low is Leading and not intervals) for low, high in ends)


def extent(plan: Plan) -> int | None:
    """How far behind the guarantee events can lie that a match needs: the window, nothing for one event; None: any.

    A definition of intervals folds each reading into its state as soon as it is guaranteed.
    """
    if plan.derived is not None:
        return 0
    alone = all(is_alone(block, intervals=plan.schema.intervals) for block in plan.alternatives)
    return 0 if alone else plan.within


def overhang(part: Forbidden) -> tuple[int, int]:
    """How far before and after the events of its block a forbidden part looks by FOR, its own and those inside it.

    The window is not counted: it reaches as far as it does without FOR.
    """
    before = part.scope.low.by if isinstance(part.scope.low, Leading) else 0
    after = part.scope.high.by if isinstance(part.scope.high, Lasting) else 0
    inner_before, inner_after = overhangs(part.block)
    return before + inner_before, after + inner_after


def overhangs(block: Block) -> tuple[int, int]:
    """The most of any of its forbidden parts."""
    found = [overhang(part) for part in block.forbidden]
    return max((before for before, _ in found), default=0), max((after for _, after in found), default=0)


@dataclass(frozen=True, slots=True)
class TimeReach:
    """How far around a match the events lie that make or decide it, in ticks.

    All its own events lie within `extent`, the window. Events that it is judged by (forbidden ones, members of sets)
    lie there too, unless a scope ends with the window: `back`, a leading one may lie up to a window before the last
    event; `ahead`, a trailing one up to a window after the first event. By FOR they may lie further away: `before` the
    first event, `after` the last one.

    Whoever asks how long an event matters asks it of another point, so the same two facts give three answers. Where
    matches feed further queries, or hidden events justify them, further windows come on top: see `replay_reach`,
    `around_visible` and `justified`. No other module adds up windows.
    """

    extent: int
    back: bool
    ahead: bool
    before: int = 0
    after: int = 0

    @property
    def around_first(self) -> tuple[int, int]:
        """How far before and after the end of a match's first event the others end."""
        return (self.extent if self.back else 0) + self.before, self.extent + self.after

    @property
    def around_last(self) -> tuple[int, int]:
        """How far before and after the end of a match's last event the others end."""
        return self.extent + self.before, (self.extent if self.ahead else 0) + self.after

    @property
    def lasting(self) -> int:
        """For how many ticks after its time is guaranteed an event can matter.

        A leading and a trailing scope together need two windows: the trailing one is decided a window after the first
        event of the match, which itself may come a window after the leading event.
        """
        windows = 2 * self.extent if self.back and self.ahead else self.extent
        return windows + self.before + self.after


def reach(plan: Plan) -> TimeReach | None:
    """How far the events around a match lie; None without a window, where every event may meet every other."""
    length = extent(plan)
    return None if length is None else _reach(plan.alternatives, length)


def reach_of_block(block: Block, within: int | None, *, intervals: bool) -> TimeReach | None:
    """The reach of one alternative of a plan."""
    length = 0 if is_alone(block, intervals=intervals) else within
    return None if length is None else _reach([block], length)


def _reach(blocks: Iterable[Block], length: int) -> TimeReach:
    blocks = list(blocks)
    scopes = [scope for block in blocks for scope in root_scopes(block)]
    back = any(isinstance(scope.low, WindowLow) for scope in scopes)
    ahead = any(isinstance(scope.high, WindowHigh) for scope in scopes)
    before, after = (max(several) for several in zip((0, 0), *map(overhangs, blocks), strict=True))
    # FOR counts from the start of an event, everybody else from its end: they lie a window apart at most
    return TimeReach(length, back, ahead, before + length if before else 0, after)


def horizon(plan: Plan) -> int | None:
    """For how many ticks after it is guaranteed an event can matter; None without a window; 0 for a filter."""
    found = reach(plan)
    return None if found is None else found.lasting


def replay_reach(plans: Iterable[Plan]) -> int | None:
    """How far back matches lie that queries over queries may need again, when stored events are replayed; None: any.

    Each query adds its own window, the window of the query before it, and one more in which the match is judged.
    """
    lengths = [widest(plan) for plan in plans]
    return None if any(length is None for length in lengths) else sum(3 * (length or 0) for length in lengths)


def justified(plan: Plan) -> int | None:
    """For how many ticks after a visible binding starts its hidden justifications come and go; None: for ever.

    All events of a justification lie within a window of where its binding starts, and it is judged a window after them
    at the latest.
    """
    length = widest(plan)
    return None if length is None else 2 * length


def around_visible(plan: Plan) -> tuple[int, int] | None:
    """How far before and after the end of a match the events lie that justify it, hidden ones too; None: any.

    Hidden events lie up to a window around the visible ones: their own windows come on top on both sides.
    """
    found, within = reach(plan), plan.within
    return None if found is None or within is None else (2 * within + found.before, 2 * within + found.after)


def corrected(plan: Plan) -> int | None:
    """How far behind what is guaranteed a match can end that an event to come still corrects; None: any."""
    over = max((overhangs(block)[1] for block in plan.alternatives), default=0)
    return None if plan.within is None else stretched(plan.within, over)


def stretched(within: int, *overhang: int) -> int:
    """A window, and what a part looks at by FOR beyond its ends."""
    return within + sum(overhang)


def widest(plan: Plan) -> int | None:
    """The window of a plan, and how far it looks beyond it by FOR; None: any, as derived intervals are."""
    if plan.derived is not None:
        return None
    found = reach(plan)
    return None if found is None else found.extent + found.before + found.after


def root_scopes(block: Block) -> list[Scope]:
    return [scope for _, scope in block.scopes] + [forbidden.scope for forbidden in block.forbidden]


def waits(plan: Plan) -> bool:
    """Tell whether an answer must wait until its window has passed: a negation or repetition reaches ahead."""
    return any(
        isinstance(scope.high, WindowHigh) or (isinstance(scope.high, Lasting) and scope.high.ahead)
        for block in plan.alternatives
        for scope in root_scopes(block)
    ) or any(overhangs(part.block)[1] for block in plan.alternatives for part in block.forbidden)


def waits_for_time(plan: Plan) -> bool:
    """Tell whether an answer waits for a FOR to pass, however long its window is."""
    scopes = (scope for block in plan.alternatives for scope in root_scopes(block))
    return any(isinstance(scope.high, Lasting) and scope.high.ahead for scope in scopes)


def can_wait(plan: Plan) -> bool:
    """Tell whether an answer may wait: for its window to pass, or because an event of the same tick can undo it."""
    scopes = (scope for block in all_blocks(plan) for scope in root_scopes(block))
    return any(isinstance(scope.high, WindowHigh | LastEnd | Lasting | Until) for scope in scopes)


def one_for_first(plan: Plan) -> tuple[int, ...] | None:
    """The leaves in their order, where of all matches with one first and one last event SKIP can keep the first only.

    A match that SKIP takes drops all others that begin with its first event, and one that it drops is dropped for where
    it begins. So of those that begin and end together the first in order of completion stands for all. That is the one
    whose other events come first, if they follow one another and each is bound by a variable of its own.
    """
    if plan.after is None or plan.after.skip is None or len(plan.alternatives) > 1 or waits(plan):
        return None
    block = plan.alternatives[0]
    before = strictly_ordered(block, before=True)
    chain = tuple(sorted((leaf.id for leaf in block.fixed), key=lambda mine: sum(later == mine for _, later in before)))
    names = [variable.name for variable in plan.variables if not variable.hidden]
    inner = [leaf.alts for leaf in map(block.leaf, chain[1:-1])]
    if (
        len(chain) < 3
        or block.repeated
        or block.groups
        or any(variable.hidden for variable in plan.variables)
        or not all(pair in before for pair in pairwise(chain))
        or any(len(alts) > 1 for alts in inner)
    ):
        return None
    places = [names.index(alts[0].var) for alts in inner]
    return chain if places == sorted(places) else None


def memory(plan: Plan) -> str:
    """Name the memory class: how the state of the plan grows."""
    if plan.derived is not None:
        return "open intervals"
    if plan.staged is not None:
        return staged_memory(plan.staged.statement)
    if horizon(plan) == 0:
        return "none: each event is judged alone"
    if plan.within is None and horizon(plan) is not None:
        return "bounded by FOR"
    return "grows with the stream" if plan.within is None else "bounded by the window"
