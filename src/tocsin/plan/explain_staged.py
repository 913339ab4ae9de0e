"""A staged statement as text that says what it does: its types, partitions, contexts, operands and memory."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.lang.staged_printer import operand
from tocsin.lang.staged_syntax import LeafOperand, NestedBlock, PartitionKey, Statement
from tocsin.plan.block import Plan
from tocsin.plan.staged_memory import staged_memory
from tocsin.plan.staged_places import StatementPlaces, mode_of


def explain_staged(plan: Plan) -> str:
    """What a statement does, line by line."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    assert plan.staged is not None
    statement = plan.staged.statement
    places = StatementPlaces(statement)
    yield f"statement {statement.name}"
    for type, attrs in plan.staged.reads:
        yield f"reads     {type}" + (f" ({', '.join(attrs)})" if attrs else "")
    for name, keys in (("global", statement.gkeys), ("local", statement.lkeys)):
        for key in keys:
            yield f"{name:9} one partition for each {_shown(key)}"
    if not statement.gkeys:
        yield "global    one partition for all events: a run on Spark has one shard"
    yield f"context   {_bounds(statement)}"
    for block in places.blocks:
        by = ", ".join(_shown(key) for key in (*block.gkeys, *block.lkeys))
        yield f"block     {_bounds(block)}" + (f"; partitions by {by}" if by else "")
    mapping = "one event for all matches of a stage" if places.is_group else "one event for each match"
    how = ", ".join((mode_of(statement.pattern), *statement.options))
    yield f"pattern   {how}; {mapping}"
    for place in places.leaves:
        leaf = place.node
        assert isinstance(leaf, LeafOperand)
        yield f"operand   {operand(leaf)}"
    yield f"memory    {staged_memory(statement)}"


def _bounds(node: Statement | NestedBlock) -> str:
    opened = ", ".join(_opener(init.called, init.add) for init in node.inits) or "Start"
    return f"opened by {opened}; closed by {_closers(node.terms)}"


def _opener(name: str, add: bool) -> str:
    return f"{name}, also beside open ones" if add else name


def _closers(terms: tuple[object, ...]) -> str:
    return ", ".join(str(term.called) for term in terms) or "nothing"  # type: ignore[attr-defined]


def _shown(key: PartitionKey) -> str:
    entries = ", ".join(f"{entry.name or '*'}.{entry.attr}" for entry in key.entries)
    return entries + (f" in {len(key.ranges)} ranges" if key.ranges else "")
