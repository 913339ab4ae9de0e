"""Where everything of a staged statement stands: operands and operators in order, what a name means, modes, mapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tocsin.lang.staged_syntax import (
    COUNTING,
    AggregateOf,
    AttrOf,
    Collection,
    EventsOf,
    IfNull,
    Initiator,
    LeafOperand,
    Logical,
    Mode,
    NestedBlock,
    OperatorCall,
    PartitionKey,
    StagedExpr,
    StagedPattern,
    Statement,
    Terminator,
    TimeOf,
    parts,
)


@dataclass(frozen=True, slots=True)
class OperandPlace:
    """A leaf or an operator of the pattern.

    number  its place in order of completion: leaves from left to right, an operator after its operands
    above   the operators that it stands in, outermost first, each with the index of the operand
    block   the innermost block that it stands in
    """

    node: LeafOperand | OperatorCall | NestedBlock
    number: int
    above: tuple[tuple[OperatorCall, int], ...]
    block: NestedBlock | None = None

    @property
    def name(self) -> str | None:
        """What it is called: a leaf by its label, else by its type."""
        if isinstance(self.node, NestedBlock):
            return None
        return self.node.called if isinstance(self.node, LeafOperand) else self.node.label

    @property
    def negated(self) -> bool:
        """Whether it stands inside Not or the second operand of Unless, so that no match binds it."""
        return any(call.operator == "Not" or (call.operator == "Unless" and at == 1) for call, at in self.above)

    @property
    def counted_by(self) -> tuple[OperatorCall, int] | None:
        """The innermost counting operator around it, with the index of the operand."""
        return next(((call, at) for call, at in reversed(self.above) if call.operator in COUNTING), None)

    @property
    def closed_in(self) -> list[OperatorCall]:
        """The operators from which nothing is compared with what follows them, outermost first."""
        closing = ("Not", *COUNTING)
        return [call for call, at in self.above if call.operator in closing or (call.operator == "Unless" and at == 1)]


Role: TypeAlias = LeafOperand | Initiator | Terminator


@dataclass(frozen=True)
class StatementPlaces:
    """A statement with what follows from its text alone."""

    statement: Statement

    @cached_property
    def places(self) -> tuple[OperandPlace, ...]:
        return tuple(_placed(self.statement.pattern, (), [0]))

    @property
    def leaves(self) -> list[OperandPlace]:
        return [place for place in self.places if isinstance(place.node, LeafOperand)]

    @property
    def operators(self) -> list[OperandPlace]:
        return [place for place in self.places if isinstance(place.node, OperatorCall)]

    def operands(self, name: str) -> list[OperandPlace]:
        """The leaves and labelled operators of a name."""
        return [place for place in self.places if place.name == name]

    @property
    def blocks(self) -> list[NestedBlock]:
        """The blocks of the pattern, inner ones first."""
        return [place.node for place in self.places if isinstance(place.node, NestedBlock)]

    def initiators(self, name: str) -> list[int]:
        return [at for at, each in enumerate(self.statement.inits) if each.type is not None and each.called == name]

    def terminators(self, name: str) -> list[int]:
        return [at for at, each in enumerate(self.statement.terms) if each.type is not None and each.called == name]

    def key(self, name: str | None) -> PartitionKey | None:
        keys = (*self.statement.gkeys, *self.statement.lkeys)
        return next((key for key in keys if name is not None and key.name == name), None)

    def is_label(self, node: object) -> bool:
        """Whether an attribute is the label of a partition: `RegionKey.labels`."""
        if not isinstance(node, AttrOf) or node.attr not in ("label", "labels") or node.name is None:
            return False
        return self.key(node.name) is not None and not self.operands(node.name)

    @property
    def roles(self) -> list[Role]:
        """All that events can be for the statement; Start and durations are no roles."""
        bounded: list[Statement | NestedBlock] = [self.statement, *self.blocks]
        outside = [role for each in bounded for role in bounds_of(each)]
        leaves = [place.node for place in self.leaves if isinstance(place.node, LeafOperand)]
        return [*leaves, *(each for each in outside if each.type is not None)]

    def roles_in(self, block: NestedBlock) -> list[Role]:
        """All that events can be in a block, and in those inside it."""
        inside = [each for each in parts(block) if isinstance(each, NestedBlock)]
        outside = [role for each in inside for role in bounds_of(each)]
        leaves = [each for each in parts(block.pattern) if isinstance(each, LeafOperand)]
        return [*leaves, *(each for each in outside if each.type is not None)]

    @property
    def types(self) -> set[str]:
        return {str(role.type) for role in self.roles}

    @property
    def mode(self) -> Mode:
        return mode_of(self.statement.pattern)

    @property
    def conjuncts(self) -> list[StagedExpr]:
        return list(conjuncts_of(self.statement.where))

    def mentions(self, node: StagedExpr) -> list[tuple[str, AttrOf | TimeOf]]:
        """The names that a condition mentions; sst is no mention of an operand."""
        found = [part for part in parts(node) if isinstance(part, (AttrOf, TimeOf))]
        return [(each.name, each) for each in found if each.name is not None and not _is_sst(each)]

    @cached_property
    def is_group(self) -> bool:
        """Whether all matches of a run give one event together, not one each."""
        if self.statement.mapping is not None:
            return self.statement.mapping == "group"
        return any(self._groups(part) for part in parts(self.statement) if isinstance(part, Collection))

    def _groups(self, collection: Collection) -> bool:
        if collection.mark is not None:
            return True
        of = collection.of
        if isinstance(of, AggregateOf):
            return False  # its own collection is asked by itself
        name = of.of.name if isinstance(of, IfNull) else of.name
        return any(
            isinstance(place.node, LeafOperand) and place.counted_by is None for place in self.operands(name or "")
        )


def _is_sst(node: AttrOf | TimeOf) -> bool:
    return isinstance(node, TimeOf) and node.which == "sst"


def key_attribute(key: PartitionKey, role: Role) -> str | None:
    """The attribute of a key for a role: an entry of its label, else of its type, else `*`."""
    entries = {entry.name: entry.attr for entry in reversed(key.entries)}
    names = [name for name in (role.label, role.type) if name is not None]
    return next((entries[name] for name in (*names, None) if name in entries), None)


def collected_name(of: AttrOf | IfNull | EventsOf) -> str | None:
    """The name of the role whose events are collected."""
    return of.of.name if isinstance(of, IfNull) else of.name


def bounds_of(node: Statement | NestedBlock) -> list[Initiator | Terminator]:
    """What opens and closes the contexts of a statement or a block."""
    return [*node.inits, *node.terms]


def mode_of(node: StagedPattern) -> Mode:
    """The mode of an operator: as written, or deferred for Not and immediate for all others."""
    if not isinstance(node, OperatorCall):
        return "immediate"
    return node.mode or ("deferred" if node.operator == "Not" else "immediate")


def conjuncts_of(condition: StagedExpr | None) -> Iterator[StagedExpr]:
    """The operands of the ANDs at the top of a condition, as written."""
    if isinstance(condition, Logical) and condition.op == "AND":
        yield from conjuncts_of(condition.left)
        yield from conjuncts_of(condition.right)
    elif condition is not None:
        yield condition


def _placed(
    node: StagedPattern, above: tuple[tuple[OperatorCall, int], ...], counter: list[int],
    block: NestedBlock | None = None,
) -> Iterator[OperandPlace]:  # fmt: skip
    if isinstance(node, NestedBlock):
        yield from _placed(node.pattern, above, counter, node)
    if isinstance(node, OperatorCall):
        for at, each in enumerate(node.operands):
            yield from _placed(each, (*above, (node, at)), counter, block)
    counter[0] += 1
    yield OperandPlace(node, counter[0], above, block)


def tells_creation(statement: Statement) -> bool:
    """Whether answers depend on when the statement was created, which only who sees all events knows.

    A context of Start begins then: its duration and its ticks count from there, and an event of nothing starts there.
    """
    calls = [part for part in parts(statement.pattern) if isinstance(part, OperatorCall)]
    empty = any(call.operator in ("At", "Every", "Not", "AtMost") or call.count == 0 for call in calls)
    starts = not statement.inits or any(init.type is None for init in statement.inits)
    lasts = any(isinstance(part, Terminator) and part.after is not None for part in parts(statement))
    return starts and (empty or lasts)
