"""How much a staged statement keeps: its memory class, from its windows, contexts, consumption and keys."""

from __future__ import annotations

from tocsin.lang.staged_syntax import LeafOperand, NestedBlock, Statement, parts
from tocsin.plan.staged_places import StatementPlaces


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
    """Whether partitions are forgotten."""
    if statement.gkeys and any(isinstance(part, NestedBlock) for part in parts(statement)):
        return "; a partition with blocks is remembered until its context ends: memory grows with the keys ever seen"
    started = not statement.inits or any(init.type is None for init in statement.inits)
    if statement.gkeys and started and statement.terms:
        return (
            "; a partition whose first context has ended is remembered for ever: memory grows with the keys ever seen"
        )
    return ""
