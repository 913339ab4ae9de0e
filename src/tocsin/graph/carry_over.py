"""Carry over: queries that were changed go on with the events that were kept for them before.

State is events, so a changed query is brought to where it would be, had it seen the kept events and no others: they are
pushed into its new operator in canonical order, then what was known of time. Its answers to that belong to the past and
are not given, except those that the old query still waited with. From then on it answers like any other query. Queries
that were not changed are restored as they were, and added ones begin with what comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tocsin.codec import Part, within
from tocsin.encode.content import Words
from tocsin.engine.changes import ChangeBatch
from tocsin.engine.operator import Around
from tocsin.engine.snapshot import ID, answer_names, held_names, kept_events
from tocsin.errors import QueryError, StateError
from tocsin.items import Bools, end
from tocsin.order.kept import unpacked
from tocsin.plan.block import Block, LastEnd, Plan, Scope, Until, WindowHigh
from tocsin.plan.changed_rule import called, losses, other_key, predecessors
from tocsin.plan.expr import Col, walk
from tocsin.plan.facts import reads
from tocsin.spill.snapshot import PIECE
from tocsin.spill.snapshot import SUMMARY as SPILLED

if TYPE_CHECKING:
    from tocsin.graph.stages import Stage

RELEASE = "release"  # the part of an operator that puts answers into order


@dataclass(slots=True)
class CarryOver:
    """What a graph takes over from the queries before it.

    plans        the old queries, bound to the same schema
    around       the operators that stand around queries
    corrects     answers may be withdrawn, so later queries must know the matches that they have read
    ordered      events come in order of time
    accept_loss  go on where a changed query lacks events; what it lacks is among `notes`
    waiting      the names of the answers that each old query waited with, by its identity
    notes        what people should know: queries that are gone, and what is lost
    owed         answers that the old queries still waited with and that the changed ones would have given before
    """

    plans: Sequence[Plan]
    around: Sequence[Around]
    corrects: bool
    ordered: bool
    accept_loss: bool = False
    waiting: dict[str, Words] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    owed: list[ChangeBatch] = field(default_factory=list)
    found: dict[int, int] = field(default_factory=dict)  # for the number of each query the one that it had before
    added: list[int] = field(default_factory=list)  # the numbers of queries that were not there before

    def match(self, stages: Sequence[Stage]) -> None:
        """Find for each stage whose query was there before the number it had; refuse what does not fit together."""
        new = [stage.plan for stage in stages]
        found = predecessors(self.plans, new)
        if not found:
            raise StateError(
                "the state was saved by other queries, and none of them is here",
                detail=f"it has {', '.join(called(plan, at) for at, plan in enumerate(self.plans))}",
                hint="a query is known by its name: QUERY name EVENT ...; or start without a state",
            )
        gone = [called(plan, at) for at, plan in enumerate(self.plans) if at not in found.values()]
        self.added = [number for number in range(len(new)) if number not in found]
        self.notes += [f"{each} is gone: what was kept for it is dropped" for each in gone]
        for number, at in found.items():
            self._check(number, new[number], self.plans[at], stages[number], found)
        self.found = found

    def _check(self, number: int, new: Plan, old: Plan, stage: Stage, found: dict[int, int]) -> None:
        lost = self._lost_matches(stage, new, found)
        if new.identity != old.identity and (new.has_rows_of_its_own or old.has_rows_of_its_own):
            lost = ["what a changed statement or definition has collected: it starts afresh", *lost]
            self.added.append(number)
        elif new.identity != old.identity:
            refuse_other_key(called(new, number), old, new)
            lost = losses(old, new, ordered=self.ordered) + lost_around(old, new, self.around) + lost
        self.notes += admitted(called(new, number), lost, accept_loss=self.accept_loss)

    def _lost_matches(self, stage: Stage, new: Plan, found: dict[int, int]) -> list[str]:
        """What a query lacks of the matches of earlier ones that it has read before the change."""
        lost = []
        for number, composites in stage.sources.items():
            source, name = composites.source, str(composites.source.name)
            before = self.plans[found[number]] if number in found else None
            if before is None:
                continue
            missing = _needed(new, name) - {output.name for output in before.outputs}
            if missing:
                lost.append(f"{', '.join(sorted(missing))} of the matches of {name} so far: it was not selected there")
            if self.corrects and before.identity != source.identity:
                lost.append(f"withdrawals of the matches of {name} so far: the changed rule gives them other ids")
        return lost

    def take_over(self, number: int, stage: Stage, old: Plan, parts: Sequence[Part]) -> None:
        """Bring the operator of a changed query to where it would be; what the old one still owes is noted."""
        if old.has_rows_of_its_own or stage.plan.has_rows_of_its_own:  # it starts afresh
            return
        parts, ripe = list(parts), []
        while parts and not any(part.id == ID for part in parts):  # operators around a detector
            ripe += [part.data for part in parts if part.id == RELEASE]
            parts = within("inner", parts)
        if any(part.id.startswith(PIECE) for part in parts):
            lost = ["events that lie on disk: they stay there"]
            self.notes += admitted(called(old, number), lost, accept_loss=self.accept_loss)
            parts = [part for part in parts if not part.id.startswith(PIECE)]
        if not parts:  # an operator stands in place of the detector, and knows no events
            return
        kept = kept_events([part for part in parts if part.id != SPILLED])
        due: list[ChangeBatch] = []
        for items in kept.items(stage.reader):
            due += stage.push(items)
        due += stage.push(kept.times(stage.reader.types))
        if stage.tap is not None:
            stage.tap.taken()
        waiting = self.waiting[old.identity]
        same = [each.name for each in old.variables] == [each.name for each in stage.plan.variables]
        certain = [batch for data in ripe if same and (batch := unpacked(data, stage.plan, {})) is not None]
        if certain:
            waiting = waiting[~np.isin(waiting, np.concatenate([answer_names(batch) for batch in certain]))]
        self.owed += only_waiting(number, stage, due, waiting)
        if stage.release is not None:  # the old query was certain of these, and they wait for their turn
            stage.release.wait(certain)


def bound_again(bind: Callable[[], tuple[Plan, ...]]) -> tuple[Plan, ...]:
    """The plans of the old queries; a StateError where they cannot be read as they were."""
    try:
        return bind()
    except QueryError as error:
        raise StateError(
            "the queries that kept the state cannot be compared with those of today",
            detail=f"one of them is not understood any more: {error.message}",
            hint="register the functions and declare the attributes that it uses, or start without the state",
        ) from error


def refuse_other_key(name: str, old: Plan, new: Plan) -> None:
    """Refuse a changed rule that keeps events apart in another way."""
    reason = other_key(old, new)
    if reason is not None:
        raise StateError(
            f"{name} has another key than before, so its state cannot be carried over",
            detail=f"{reason}: what was kept was judged within the old key",
            hint="keep the key, or give the changed rule another name: then it begins with what comes from now on",
        )


def lost_around(old: Plan, new: Plan, around: Sequence[Around]) -> list[str]:
    """What the operators around a changed query know, which is more than the kept events tell."""
    changed = new.identity != old.identity
    lost = (
        ["what the operators around it have counted: they begin anew"] if changed and around and not new.hidden else []
    )
    if changed and old.after is not None and new.after is not None:
        lost.append("what its clauses after a match have taken so far: they begin anew")
    if changed and (old.consume is not None or new.consume is not None):
        lost.append("which events its mode has used up, and what waits: it begins anew")
    return lost


def admitted(name: str, lost: Sequence[str], *, accept_loss: bool) -> list[str]:
    """Refuse a change for which events are missing; or say so, where that was accepted."""
    if lost and not accept_loss:
        raise StateError(
            f"{name} was changed so that it needs events that were not kept",
            detail=f"it would lack {'; and '.join(lost)}",
            hint="accept_loss=True goes on without them; or give the changed rule another name, so that it begins anew",
        )
    return [f"{name} goes on without {each}" for each in lost]


def only_waiting(number: int, stage: Stage, due: Sequence[ChangeBatch], waiting: Words) -> list[ChangeBatch]:
    """Let a query that was filled with kept events go on with the answers that the old one waited with.

    It forgets that it waits with any others: the old query has answered them, or decided against them. Those that are
    `due` by now are returned, as changes of the query with this number.
    """
    hold(stage, lambda names: np.isin(names, waiting))
    found = []
    for batch in due:
        mine = batch.pick(np.flatnonzero(np.isin(answer_names(batch), waiting) & (batch.op > 0)))
        mine.stage = number
        found += [mine] if len(mine) else []
    return found


def hold(stage: Stage, wanted: Callable[[Words], Bools]) -> None:
    """Let a query go on waiting with the answers that are wanted, by their names, and no others."""
    for each in stage.operator.detectors:
        for branch in each.branches:
            branch.hold_only(wanted(held_names(each, branch)))
    if stage.release is not None:
        stage.release.hold_only(wanted)


def waiting_in(stage: Stage) -> Words:
    """The names of the answers that a query still waits with: those it would give if the stream ended.

    Where a set is open at its end, also those that have no members yet. The query is not to be used afterwards.
    """
    growing = [
        held_names(each, branch)
        for each in stage.operator.detectors
        for branch in each.branches
        if any(isinstance(scope.high, WindowHigh | LastEnd | Until) for scope in _growing(branch.block))
    ]
    found = [answer_names(batch)[batch.op > 0] for batch in stage.operator.push(end())]
    return np.concatenate([np.zeros(0, np.uint64), *growing, *found])


def _growing(block: Block) -> Iterator[Scope]:
    """The scopes of what may have members still."""
    yield from (scope for _, scope in block.scopes)
    yield from (part.scope for part in block.groups)


def names_held(stage: Stage) -> Words:
    """The names of all answers that a query holds back, also of those that it will find refuted."""
    found = [held_names(each, branch) for each in stage.operator.detectors for branch in each.branches]
    if stage.release is not None:
        found.append(stage.release.names)
    return np.concatenate([np.zeros(0, np.uint64), *found])


def _needed(plan: Plan, type: str) -> set[str]:
    """The attributes of a type that a query reads or shows."""
    found = set(reads(plan).get(type, ()))
    places = {index for index, variable in enumerate(plan.variables) if type in variable.types}
    for output in plan.outputs:
        found |= {node.attr for node in walk(output.expr) if isinstance(node, Col) and node.leaf in places}
    return found
