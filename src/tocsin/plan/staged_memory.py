"""How much a staged statement keeps: its memory class, from its windows, contexts, consumption and keys."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.lang.staged_syntax import LeafOperand, OperatorCall, Statement
from tocsin.plan.staged_places import StatementPlaces, mode_of


def staged_memory(statement: Statement) -> str:
    """Name the memory class, with the operands that decide it."""
    places = StatementPlaces(statement)
    leaves = [place.node for place in places.leaves if isinstance(place.node, LeafOperand)]
    by = " for each partition and open context" if statement.gkeys or statement.lkeys else ""
    open_ended = [leaf for leaf in leaves if leaf.rows is None and leaf.stages is None and leaf.range is None]
    if open_ended and not any(term.after is not None for term in statement.terms):
        kept = ", ".join(leaf.called for leaf in open_ended)
        ends = [
            *(["consumed"] if any(leaf.consume for leaf in open_ended) else []),
            *(["their context ends"] * bool(statement.terms)),
        ]
        until = (
            f" until {' or '.join('they are ' + each if each == 'consumed' else each for each in ends)}" if ends else ""
        )
        found = f"grows with the stream: events of {kept} stay{until}"
    elif all(leaf.rows is not None for leaf in leaves):
        found = f"bounded by rows{by}"
    else:
        found = f"bounded by windows and the rate of events{by}"
    return found + _of_partitions(statement)


def _of_partitions(statement: Statement) -> str:
    """Why partitions, or the local values that they have seen, are not forgotten."""
    reasons = [why for why in _never_forgotten(statement) if why]
    return f"; {reasons[0]}: memory grows with the keys ever seen" if reasons else ""


def _never_forgotten(statement: Statement) -> Iterator[str]:
    places = StatementPlaces(statement)
    ticks = any(
        isinstance(place.node, OperatorCall) and place.node.operator in ("At", "Every") for place in places.places
    )
    defers = any(mode_of(place.node) == "deferred" for place in places.operators)
    started = not statement.inits or any(init.type is None for init in statement.inits)
    lasting = any(term.after is not None for term in statement.terms)  # then what Start has opened is over once
    if statement.gkeys and places.blocks:
        yield "a partition with blocks is remembered until its context ends"
    if statement.lkeys and (defers or ticks or places.blocks):
        yield "the local values that have come are remembered, for the run at the end or at a tick"
    if statement.gkeys and started and ticks and not lasting:
        yield "in each partition ticks go on"
    if statement.gkeys and started and statement.terms and not lasting:
        yield "a partition whose first context has ended is remembered for ever"
