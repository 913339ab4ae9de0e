"""Routing: decide to which shards an event goes, so that every match is found in exactly one of them.

Queries that read each other's matches form a unit and run in the same shard. A unit has one partition key: for every
event type the attributes whose hash selects the shard; a type at a leaf that the key does not cover is sent to all
shards. Units whose keys agree form a group and share their shards. Nothing here knows Spark.

A match that events of several shards could complete has one *home*: the shard that the key of its first fixed leaf
selects. Only the home gives the match, because only there all events that may forbid it are present.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tocsin.constraint.reasoning import why_silent
from tocsin.encode.batch import INNER
from tocsin.engine.ledger import Ledger
from tocsin.events import ANY
from tocsin.plan.block import Block, Plan
from tocsin.plan.expr import Col
from tocsin.plan.facts import extent, horizon, replay_reach, types_of
from tocsin.plan.rewrite import all_leaves
from tocsin.schema import Field, Kind, Schema
from tocsin.shards.statements import divided_by, passes_key_on

Attrs = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """Where events of one type go: by each of these attribute lists, or everywhere."""

    keys: tuple[Attrs, ...] = ()
    everywhere: bool = False

    @property
    def is_single(self) -> bool:
        return len(self.keys) == 1 and not self.everywhere

    def __or__(self, other: Way) -> Way:
        return Way(tuple(dict.fromkeys(self.keys + other.keys)), self.everywhere or other.everywhere)


@dataclass(frozen=True, slots=True)
class Unit:
    """Plans that feed each other, by their numbers among all plans; `ways` is empty if they have no common key."""

    numbers: tuple[int, ...]
    plans: tuple[Plan, ...]
    ways: tuple[tuple[str, Way], ...] = ()
    homes: tuple[Attrs, ...] = ()  # the keys of the leaves that decide where a match is at home, if that must be asked
    announced: bool = False  # whether intervals may be announced when they begin

    @property
    def types(self) -> set[str]:
        """The types of events, without the names of queries."""
        return set().union(*(types_of(plan) for plan in self.plans)).difference(*(plan.emits for plan in self.plans))

    @property
    def chooses(self) -> bool:
        """Whether a query of the unit chooses among its matches, which it must then see together."""
        return any(
            plan.after is not None or plan.consume is not None or plan.has_rows_of_its_own or plan.under is not None
            for plan in self.plans
        )

    @property
    def keeps_state(self) -> bool:
        """Whether a shard stores the state of the queries, not their events: statements, intervals, traces, begins."""
        return self.announced or any(plan.has_rows_of_its_own or plan.under is not None for plan in self.plans)

    @property
    def fingerprints(self) -> list[str]:
        return [plan.identity for plan in self.plans]

    @property
    def name(self) -> str:
        return next((plan.name for plan in reversed(self.plans) if plan.name), f"query {self.numbers[-1] + 1}")


@dataclass(frozen=True, slots=True)
class Group:
    """Units that share their shards. Without a key there is one shard."""

    units: tuple[Unit, ...]
    ways: dict[str, Way] = field(default_factory=dict)

    @property
    def keyed(self) -> bool:
        return bool(self.ways)

    @property
    def types(self) -> set[str]:
        return set().union(*(unit.types for unit in self.units))

    @property
    def keeps_state(self) -> bool:
        """Whether its shards store the state of queries, not their events: all of its units do, or none."""
        return any(unit.keeps_state for unit in self.units)

    @property
    def reach(self) -> int | None:
        """For how many ticks behind the guarantee a shard keeps events; None: for ever."""
        return 0 if self.keeps_state else reach_of(self.units)

    @property
    def broadcast(self) -> list[str]:
        return sorted(type for type, way in self.ways.items() if way.everywhere)

    @property
    def homes(self) -> list[Attrs]:
        """Return the keys that decide the home shard of a match; rows carry one marker column for each."""
        return sorted({home for unit in self.units for home in unit.homes})


def units_of(plans: Sequence[Plan]) -> list[Unit]:
    """Join plans that read each other's matches into units, and find the partition key of each unit."""
    owner = list(range(len(plans)))
    names = {type: number for number, plan in enumerate(plans) for type in plan.emits}
    for number, plan in enumerate(plans):
        for source in sorted(names[type] for type in types_of(plan) if type in names and names[type] < number):
            old, new = owner[source], owner[number]
            owner = [old if each == new else each for each in owner]
    members: dict[int, list[int]] = {}
    for number, first in enumerate(owner):
        members.setdefault(first, []).append(number)
    return [_unit(tuple(each), plans) for each in members.values()]


def groups_of(units: Sequence[Unit]) -> list[Group]:
    """Put units whose partition keys agree into one group."""
    found: list[Group] = []
    for unit in units:
        place = next((at for at, group in enumerate(found) if _agree(group, unit)), None)
        if place is None:
            found.append(Group((unit,), dict(unit.ways)))
        else:
            group = found[place]
            found[place] = Group((*group.units, unit), {**group.ways, **dict(unit.ways)})
    return found


def _agree(group: Group, unit: Unit) -> bool:
    ways = dict(unit.ways)
    if bool(ways) != group.keyed or unit.keeps_state != group.keeps_state:
        return False
    if not ways:  # those that choose among matches do not keep others from being cut in time
        return group.units[0].chooses == unit.chooses
    types = {*ways, *group.ways}
    both = [(way_of(ways, type), way_of(group.ways, type)) for type in types]
    arity = {len(key) for way in (*ways.values(), *group.ways.values()) for key in way.keys}
    return len(arity) == 1 and all(mine is None or other is None or mine == other for mine, other in both)


def way_of(ways: Mapping[str, Way], type: str) -> Way | None:
    """Where events of a type go: where a type that is not named goes, ANY says."""
    return ways.get(type) or ways.get(ANY)


def _unit(numbers: tuple[int, ...], plans: Sequence[Plan]) -> Unit:
    mine = tuple(plans[number] for number in numbers)
    plain = Unit(numbers, mine)
    divided = tuple(_divided(plan) for plan in mine)
    if not all(_can_be_divided(plan) for plan in divided):
        return plain
    ways: dict[str, Way] = {}
    sources = {type: plan for plan in divided for type in plan.emits}
    for plan in divided:
        for type, attrs in _keys_by_type(plan):
            if type in sources:
                if attrs is None or not _inherited(sources[type], attrs):
                    return plain
                continue
            way = Way((attrs,)) if attrs is not None else Way(everywhere=True)
            ways[type] = ways.get(type, Way()) | way
    if ANY in ways:  # it takes events of the other types, too
        ways = {type: way | ways[ANY] for type, way in ways.items()}
    asked = any(way.keys and not way.is_single for way in ways.values())
    if asked and (len(mine) > 1 or divided != mine):
        return plain
    return Unit(numbers, mine, tuple(ways.items()), _homes(mine[0]) if asked else ())


def _can_be_divided(plan: Plan) -> bool:
    """Whether a key tells for every answer of a plan the one shard that finds it."""
    if plan.staged is not None:
        return isinstance(divided_by(plan), dict)
    if plan.under is not None:
        return bool(plan.under.key) and why_silent(plan) is None
    return bool(plan.key) and _has_one_home(plan)


def _keys_by_type(plan: Plan) -> Iterator[tuple[str, Attrs | None]]:
    """Each type that a plan reads, with the attributes of the key; None: the key does not cover it."""
    if plan.staged is not None:
        ways = divided_by(plan)
        yield from ways.items() if isinstance(ways, dict) else ()
        return
    if plan.under is not None:  # a trace lies in one shard, and with it the matches, whose key contains that of traces
        yield from ((type, plan.under.key) for type in types_of(plan))
        return
    key = dict(plan.key)
    yield from ((alt.type, key.get(leaf.id)) for leaf in all_leaves(plan) for alt in leaf.alts)


def _divided(plan: Plan) -> Plan:
    """The plan with the key that selects its shard: where it chooses among matches, only what they are kept apart by.

    The key that the planner finds may have more attributes than WHERE [...] says. Events divided by all of them would
    divide matches that one clause must see together.
    """
    if plan.after is None or not plan.key:
        return plan
    by = plan.after.divides_by
    arity = len(plan.key[0][1])
    stays = [at for at in range(arity) if all(attrs[at] in by for _, attrs in plan.key)]
    same = [at for at in stays if len({attrs[at] for _, attrs in plan.key}) == 1]
    if len(same) == arity:
        return plan
    key = tuple((leaf, tuple(attrs[at] for at in same)) for leaf, attrs in plan.key) if same else ()
    return replace(plan, key=key)


def needs_one_shard(unit: Unit) -> str | None:
    """Why all matches of a unit must be seen in one place, where a clause is the reason."""
    for plan in unit.plans:
        if plan.under is not None and not _can_be_divided(plan):
            names = ", ".join(each.name for each in plan.under.constraints)
            why = why_silent(plan) if plan.under.key else f"without PARTITION BY all events are one trace of {names}"
            return f"UNDER {names}: {why}"
        if plan.staged is not None:
            ways = divided_by(plan)
            return ways if isinstance(ways, str) else f"what {unit.name} reads is not divided by its key"
        if plan.derived is not None and not plan.key:
            return f"INTERVALS {plan.name}: without BY its readings are one sequence"
        if plan.consume is not None and not plan.key:
            return f"CONSUME {plan.consume.mode}: without a key it uses up all events together"
        if plan.after is not None and not _divided(plan).key:
            lacks = "a key" if not plan.after.attrs else "PER with an attribute of the key"
            return f"{'; '.join(plan.after.lines)}: without {lacks} it chooses among all matches"
    return None


def _inherited(source: Plan, attrs: Attrs) -> bool:
    """Tell whether the SELECT of `source` passes on the partition key of its events under the names `attrs`."""
    if source.staged is not None:
        return passes_key_on(source, attrs)
    if not source.outputs:
        return False
    key = dict(source.key)
    if source.derived is not None:  # the key is among its columns, under the same names
        return attrs == source.needs
    fixed = {alt.var: key[leaf.id] for block in source.alternatives for leaf in block.fixed for alt in leaf.alts}
    outputs = {output.name: output.expr for output in source.outputs}
    if len(attrs) != len(next(iter(fixed.values()))) or len(source.alternatives) > 1:
        return False
    for place, attr in enumerate(attrs):
        expr = outputs.get(attr)
        if not isinstance(expr, Col) or expr.var not in fixed or fixed[expr.var][place] != expr.attr:
            return False
    return True


def _has_one_home(plan: Plan) -> bool:
    """Tell whether one shard sees everything that justifies a match, so that the match is counted and given once.

    Hidden events or several alternatives can justify one visible match. Then the key of a visible event must select
    the shard, and must select the same one in every alternative.
    """
    if Ledger.of(plan) is None:
        return True
    key, hidden = dict(plan.key), {variable.name for variable in plan.variables if variable.hidden}
    told: dict[str, set[Attrs]] = {}
    for block in plan.alternatives:
        shown = [leaf for leaf in block.fixed if not hidden & {alt.var for alt in leaf.alts}]
        if not shown:
            return False
        for leaf in shown:
            for alt in leaf.alts:
                told.setdefault(alt.var, set()).add(key[leaf.id])
    return all(len(ways) == 1 for ways in told.values())


def shows_nothing(plan: Plan) -> bool:
    """Tell whether a match may have no visible event at all; there is only one such match."""
    hidden = {variable.name for variable in plan.variables if variable.hidden}
    shown = ([leaf for leaf in block.leaves if not hidden & {a.var for a in leaf.alts}] for block in plan.alternatives)
    return not all(shown)


def _homes(plan: Plan) -> tuple[Attrs, ...]:
    """The keys of the first fixed leaf of each alternative."""
    key = dict(plan.key)
    return tuple(dict.fromkeys(key[block.fixed[0].id] for block in plan.alternatives))


def reach_of(units: Iterable[Unit]) -> int | None:
    """Return for how many ticks behind the guarantee an event can still matter to a query; None: for ever.

    A query by itself forgets by its own horizon (`facts.TimeReach`). Where matches feed others or hidden events count,
    replaying the log must also find earlier matches again. So each query adds its own window, the window of the query
    before it, and one more in which the match is judged.
    """
    reach = 0
    for unit in units:
        if any(extent(plan) is None or shows_nothing(plan) for plan in unit.plans):
            return None
        if len(unit.plans) == 1 and Ledger.of(unit.plans[0]) is None:
            mine = horizon(unit.plans[0]) or 0
        else:
            mine = replay_reach(unit.plans) or 0
        reach = max(reach, mine)
    return reach


# --- home --------------------------------------------------------------------------------------------------------


def own_columns(group: Group) -> dict[Attrs, str]:
    """Return for each home key the marker column that says whether an event is in the shard of that key.

    The name of the column contains the group and the key: stored events keep their markers when queries are added,
    and groups with different shards have different columns.
    """
    return {home: INNER + json.dumps([group.units[0].name, *home]) for home in group.homes}


def at_home(unit: Unit, columns: dict[Attrs, str]) -> tuple[Plan, ...]:
    """Return the plans with a condition that lets only the home shard of a match find it.

    An event is sent to several shards if its type stands at leaves with different keys. Without the condition it could
    complete a match in a shard that lacks the events which forbid that match.
    """
    if not unit.homes:
        return unit.plans
    return tuple(_tied_plan(plan, columns) for plan in unit.plans)


def with_own(schema: Schema, columns: Iterable[str]) -> Schema:
    return replace(schema, common={**schema.common, **{name: Field(name, Kind.BOOL) for name in columns}})


def _tied_plan(plan: Plan, columns: dict[Attrs, str]) -> Plan:
    key = dict(plan.key)
    blocks = tuple(_tied(block, columns[key[block.fixed[0].id]]) for block in plan.alternatives)
    return replace(plan, schema=with_own(plan.schema, columns.values()), alternatives=blocks)


def _tied(block: Block, column: str) -> Block:
    home = block.fixed[0]
    alts = tuple(replace(a, where=(*a.where, Col(home.id, a.var, column, Kind.BOOL))) for a in home.alts)
    return replace(block, leaves=tuple(replace(leaf, alts=alts) if leaf is home else leaf for leaf in block.leaves))
