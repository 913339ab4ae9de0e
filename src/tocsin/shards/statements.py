"""How a staged statement is divided: each of its global partitions runs in one shard, chosen by the values of GKey.

Partitions are independent (O'Keeffe 2010, 3.2.1), so any division of them gives the same events, as long as all events
of a partition come to one shard. Keys with ranges choose no shard: one partition has many values of them.
"""

from __future__ import annotations

from typing import TypeAlias

from tocsin.lang.staged_syntax import AttrOf, PartitionKey, Statement
from tocsin.plan.block import Plan
from tocsin.plan.staged_check_keys import entry_for
from tocsin.plan.staged_places import StatementPlaces, tells_creation

Attrs: TypeAlias = tuple[str, ...]


def dividing_keys(statement: Statement) -> list[PartitionKey]:
    """The global keys that choose a shard."""
    return [key for key in statement.gkeys if not key.ranges]


def divided_by(plan: Plan) -> dict[str, Attrs] | str:
    """For each type that a statement reads, the attributes whose values choose the shard; or why there is only one."""
    assert plan.staged is not None
    statement = plan.staged.statement
    keys = dividing_keys(statement)
    if not keys:
        without = "its global key has ranges" if statement.gkeys else "it has no global key"
        return f"the statement {plan.name} runs in one shard: {without}; GKey *.attr divides its events by a value"
    if tells_creation(statement):
        return f"the statement {plan.name} runs in one shard: what Start finds depends on its very first event"
    found: dict[str, Attrs] = {}
    for role in StatementPlaces(statement).roles:
        entries = [entry_for(key, role) for key in keys]
        attrs = tuple(entry.attr for entry in entries if entry is not None)
        if found.setdefault(str(role.type), attrs) != attrs:
            return f"the statement {plan.name} runs in one shard: its roles take {role.type} by different attributes"
    for place in range(len(keys)):
        fields = [plan.schema.field(type, attrs[place]) for type, attrs in found.items()]
        if len({(field.kind, field.scale) if field is not None else None for field in fields}) > 1:
            return f"the statement {plan.name} runs in one shard: its global key is of one kind here and another there"
    return found


def passes_key_on(source: Plan, attrs: Attrs) -> bool:
    """Whether the Select of a statement passes on, under these names, the values that choose the shard."""
    assert source.staged is not None
    statement = source.staged.statement
    keys, places = dividing_keys(statement), StatementPlaces(statement)
    columns = dict(zip(source.staged.columns, statement.select, strict=True))
    if len(attrs) != len(keys) or not isinstance(divided_by(source), dict):
        return False
    for key, attr in zip(keys, attrs, strict=True):
        expr = columns[attr].expr if attr in columns else None
        if not isinstance(expr, AttrOf):
            return False
        if places.is_label(expr):
            if expr.name != key.name:
                return False
            continue
        roles = [role for role in places.roles if role.called == expr.name]
        entries = [entry_for(key, role) for role in roles]
        if not roles or any(entry is None or entry.attr != expr.attr for entry in entries):
            return False
    return True
