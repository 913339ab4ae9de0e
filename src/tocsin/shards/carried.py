"""Carried state: what an old checkpoint kept, and which units of a job go on with it.

The log of a shard holds events, whatever was made of them, so a changed query goes on with those that the old ones let
through. Rows are dealt out to the new shards by the rules for a row that arrives; where an event was stored in several
shards, one copy of it is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tocsin.errors import StateError
from tocsin.events import BEGINNING
from tocsin.functions import Function, registered
from tocsin.graph.carry_over import admitted, bound_again, lost_around, refuse_other_key
from tocsin.plan.block import Plan
from tocsin.plan.changed_rule import called, losses, predecessors
from tocsin.plan.facts import types_of
from tocsin.schema import Schema
from tocsin.shards.identity import Known
from tocsin.shards.job import Job, Shards
from tocsin.shards.job import called as functions_called
from tocsin.shards.routes import Group, Unit, groups_of, units_of
from tocsin.shards.shard import Head

Bind = Callable[[Sequence[str]], tuple[Plan, ...]]


@dataclass(frozen=True)
class OldState:
    """The heads of all shards of a checkpoint, and its groups of queries as shards of their own numbers."""

    heads: Mapping[int, Head]
    shards: tuple[Shards, ...]

    @property
    def units(self) -> list[Unit]:
        return [unit for each in self.shards for unit in each.group.units]

    @property
    def clocks(self) -> dict[str, int]:
        """The clock of each source: the largest end that any shard has heard of."""
        found: dict[str, int] = {}
        for head in self.heads.values():
            for source, clock in head.clocks.items():
                found[source] = max(found.get(source, BEGINNING), clock)
        return found

    @property
    def guarantee(self) -> int:
        return max(head.guarantee for head in self.heads.values())

    def known(self, unit: Unit) -> Known:
        """What the checkpoint says of a unit."""
        return next(
            known for head in self.heads.values() for known in head.units.values() if known.queries == unit.fingerprints
        )


def old_state(heads: Mapping[int, Head], job: Job, bind: Bind) -> OldState:
    """The state that heads describe; `bind` gives the plans of texts, for the schema of today's events."""
    if any(head.closed for head in heads.values()):
        raise StateError("the stream was closed", hint="a closed stream does not go on")
    found: list[Shards] = []
    first = numbers = 0
    for count in heads[min(heads)].layout:
        units = []
        some = next(heads[number] for number in sorted(heads) if number >= first)
        for known in some.units.values():
            plans = _plans(known, job, bind)
            units.append(replace(units_of(plans)[0], numbers=tuple(range(numbers, numbers + len(plans)))))
            numbers += len(plans)
        found.append(Shards(_one_group(units), first, count))
        first += count
    return OldState(heads, tuple(found))


def _plans(known: Known, job: Job, bind: Bind) -> tuple[Plan, ...]:
    if known.texts:
        return bound_again(lambda: bind(known.texts))
    here = [unit for each in job.shards for unit in each.group.units if unit.fingerprints == known.queries]
    if not here:
        raise StateError(
            "the checkpoint does not say which queries wrote it, so no others can go on with it",
            detail="it was written before changed queries could",
            hint="let the stream run once more with its own queries, or start with a new checkpoint",
        )
    return here[0].plans


def _one_group(units: Sequence[Unit]) -> Group:
    groups = groups_of(units)
    if len(groups) != 1:
        raise StateError(
            f"the queries {', '.join(unit.name for unit in units)} shared their shards, and would not do so any more",
            detail="a column has another type than when they were stored, so that it keeps events apart in another way",
            hint="cast the columns to what they were, or start with a new checkpoint",
        )
    return groups[0]


# --- what fits -------------------------------------------------------------------------------------------------------


def going_on(job: Job, old: OldState, schema: Schema, *, accept_loss: bool) -> tuple[Job, list[str]]:
    """The job with what its units go on from; and notes: what is dropped, what is lost. Refuses what does not fit.

    `schema` is that of all columns of the events: the old queries may have read some that the new ones do not.
    """
    if kept := [unit.name for unit in (*old.units, *job.units) if unit.keeps_state]:
        raise StateError(
            "a stream with statements or begins cannot go on with another checkpoint: "
            + ", ".join(dict.fromkeys(kept)),
            detail="what is stored of them is their state, which cannot be dealt out to other shards",
            hint="go on with the checkpoint as it is, with the same queries and buckets, or start with a new one",
        )
    numbered = {number: plan for unit in job.units for number, plan in zip(unit.numbers, unit.plans, strict=True)}
    before = [plan for unit in old.units for plan in unit.plans]
    owner = [unit for unit in old.units for _ in unit.plans]
    found = predecessors(before, [numbered[number] for number in sorted(numbered)])
    if not found:
        raise StateError(
            "the checkpoint was written by other queries, and none of them is here",
            detail=f"it has {', '.join(called(plan, at) for at, plan in enumerate(before))}",
            hint="a query is known by its name: QUERY name EVENT ...; or start with a new checkpoint",
        )
    gone = [called(plan, at) for at, plan in enumerate(before) if at not in found.values()]
    notes = [f"{each} is gone: what was kept for it is dropped" for each in gone]
    mine: dict[str, tuple[Unit, ...]] = {}
    for unit in job.units:
        olds = {owner[found[number]].numbers: owner[found[number]] for number in unit.numbers if number in found}
        if not olds:
            continue
        mine[unit.name] = tuple(olds.values())
        lost = _lost(job, unit, mine[unit.name], old, {n: before[found[n]] for n in unit.numbers if n in found})
        notes += admitted(unit.name, lost, accept_loss=accept_loss)
        _seen_from_the_beginning(unit, mine[unit.name], old)
    functions = {**_functions(before), **job.functions}
    return replace(job, before=mine, schema_before=schema, functions=functions), notes


def _lost(job: Job, unit: Unit, olds: Sequence[Unit], old: OldState, matched: Mapping[int, Plan]) -> list[str]:
    """What a unit lacks: for its changed queries, for those that were added to it, and in the columns stored for it."""
    lost: list[str] = []
    there = set().union(*(each.types for each in olds))
    for number, plan in zip(unit.numbers, unit.plans, strict=True):
        if number in matched:
            refuse_other_key(called(plan, number), matched[number], plan)
            lost += losses(matched[number], plan, log=True)
            lost += lost_around(matched[number], plan, job.around)
        else:
            lost += [f"events of type {type} so far: only {called(plan, number)}, which is new, reads them"
                     for type in types_of(plan) if type in unit.types and type not in there]  # fmt: skip
    stored = {name: type for each in olds for name, type in old.known(each).columns.items()}
    for column, type in job.columns_of[unit.name].items():
        if column not in stored:
            lost.append(f"{column} of the events so far: it was not stored")
        elif stored[column] != type:
            raise StateError(
                f"column {column!r} is {type} now and was {stored[column]} in the stored events",
                hint="cast it to what it was, or start with a new checkpoint",
            )
    return lost


def _seen_from_the_beginning(unit: Unit, olds: Sequence[Unit], old: OldState) -> None:
    """Refuse a unit that was added to a checkpoint while its log still has events from before."""
    fingerprints = [each.fingerprints for each in olds]
    for head in old.heads.values():
        for known in head.units.values():
            if known.queries in fingerprints and any(
                block.size and block.number < known.since for block in head.blocks
            ):
                raise StateError(
                    f"{unit.name} was added to that checkpoint later, and some stored events are older than that",
                    detail="which of them it has seen is not known once they are dealt out anew",
                    hint="wait until its stream has run for as long as the longest window, or start it anew",
                )


def _functions(plans: Sequence[Plan]) -> Mapping[str, Function]:
    return {name: registered()[name] for name in functions_called(plans)}


# --- which copy ------------------------------------------------------------------------------------------------------


def sources_of(job: Job, old: OldState) -> list[tuple[Shards, list[Shards]]]:
    """For each group of a job that goes on the old groups whose rows it needs.

    Raises where one event may come from two of them and nothing tells that it is the same.
    """
    found = []
    for each in job.shards:
        olds = {unit.numbers for mine in each.group.units for unit in job.before.get(mine.name, ())}
        needed = [shards for shards in old.shards if olds & {unit.numbers for unit in shards.group.units}]
        if len(needed) > 1 and job.columns.eid is None:
            raise StateError(
                "queries that were kept apart share their events now, and without an eid no two can be told to be one",
                detail=f"they are {', '.join(unit.name for unit in each.group.units)}",
                hint="use a stream with an eid column, or start with a new checkpoint",
            )
        if needed:
            found.append((each, needed))
    return found
