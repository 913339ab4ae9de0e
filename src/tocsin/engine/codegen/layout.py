"""Where values are kept: the words of a stored event, the columns of a batch, the leaves and their buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tocsin.engine.codegen.block_facts import is_terminal, looks_back, reaches_ahead
from tocsin.engine.codegen.program import MASK_BITS, WITHDRAWN, Shape, Stored
from tocsin.engine.codegen.tail_level import level_of_tails
from tocsin.engine.derive import derive
from tocsin.functions import Function
from tocsin.lang.syntax import DISTINCT
from tocsin.plan.block import Block, Leaf, Plan, Scope
from tocsin.plan.endpoints import graph_of
from tocsin.plan.expr import Agg, Bound, Col, User, walk
from tocsin.plan.facts import is_filter, one_for_first, overhangs, reach_of_block
from tocsin.plan.rewrite import blocks_below, with_groups_in_order
from tocsin.schema import Kind


class Layout:
    """What is known of a kernel before a line of it is written; nothing here changes afterwards."""

    def __init__(
        self,
        plan: Plan,
        block: Block,
        shape: Shape,
        functions: Mapping[str, Function],
    ) -> None:
        self.functions = functions

        def inline(user: User) -> bool:
            return functions[user.name].compiled and all(arg.kind is not Kind.TEXT for arg in user.args)

        self.inline = inline
        root, self.derived = derive(block, inline)
        self.root = with_groups_in_order(root)
        self.plan, self.shape = plan, shape
        self.blocks = list(blocks_below(self.root))
        self.leaves = {leaf.id: leaf for each in self.blocks for leaf in each.leaves}
        self.nest = self.root.nest or tuple(leaf.id for leaf in self.root.fixed)
        # one event alone meets no other: its key says only which shard takes it
        self.keys = {} if is_filter(block) else {id: attrs for id, attrs in plan.key if id in self.leaves}
        self.within = plan.within
        self.types = tuple(dict.fromkeys(alt.type for leaf in self.leaves.values() for alt in leaf.alts))
        distinct = (node for node in self.predicate_nodes() if isinstance(node, Agg) and node.function == DISTINCT)
        self.links = {agg: f"$link{number}" for number, agg in enumerate(dict.fromkeys(distinct))}
        self.shared = self._shared()
        self.buffers = [id for id in self.leaves if id not in self.shared]
        self.number = {id: self.buffers.index(self.shared.get(id, id)) for id in self.leaves}
        self.root_order = graph_of(self.root.order, self.nest)
        self._lay_out()
        self.changeable = bool(self.root.forbidden or self.root.repeated)
        self.holds = shape.hold and self.changeable
        self.waits = (
            self.holds
            or any(reaches_ahead(scope) for scope in self.root_scopes())
            or any(overhangs(part.block)[1] for part in self.root.forbidden)
        )

        chain = None if self.waits else one_for_first(plan)
        # levels at which the first event that gives an answer is enough (the pass that orders the loops may be off)
        self.first_only = chain[1:-1] if chain and self.nest == (chain[-1], *chain[:-1]) else ()
        self.tail_level = level_of_tails(self)
        if self.tail_level >= 0:  # one word more: where the tail of an event stands
            self.row_tail = self.words
            self.words += 1

    @property
    def head(self) -> int:
        """Words of a waiting answer before its events."""
        return 4 if self.holds else 2

    @property
    def place_args(self) -> str:
        """How functions of the library are told of stored events: the array, and the words of a place."""
        return f"H, {self.words}"

    def _shared(self) -> dict[int, int]:
        """Leaves that look at the events of an earlier one: absences of the same event, such as those of several NEXT.

        Each is alone in its part, and says nothing of its events but their type and key.
        """
        found: dict[int, int] = {}
        first: dict[tuple[str, tuple[str, ...]], int] = {}
        for part in self.root.negations:
            if len(list(blocks_below(part.block))) > 1 or len(part.block.leaves) > 1 or part.block.predicates:
                continue
            (leaf,) = part.block.leaves
            if leaf.repeat is None and len(leaf.alts) == 1 and not leaf.alts[0].where and not self._columns_of(leaf):
                owner = first.setdefault((leaf.alts[0].type, self.keys.get(leaf.id, ())), leaf.id)
                if owner != leaf.id:
                    found[leaf.id] = owner
        return found

    def _lay_out(self) -> None:
        """Words of H: end, event, [start], [eid, eid], null masks, attributes; and the columns read from a batch."""
        row = 2
        self.row_start = 0
        if self.shape.intervals:
            self.row_start, row = row, row + 1
        self.row_eid = -1
        if self.shape.eids:
            self.row_eid, row = row, row + 2
        kept = {id: self._columns_of(leaf) for id, leaf in self.leaves.items()}
        bits = max(sum(self._may_be_null(leaf, nullable) for *_, nullable in kept[leaf.id]) for leaf in self._each())
        self.row_nulls, row = row, row + max(1, -(-bits // MASK_BITS))
        self.stored: dict[int, dict[tuple[str, str], Stored]] = {id: {} for id in self.leaves}
        self.words = row
        for id, leaf in self.leaves.items():
            bit = 0
            for place, (var, attr, kind, nullable) in enumerate(kept[id], start=row):
                may_be_null = self._may_be_null(leaf, nullable)
                array = "HF" if kind is Kind.FLOAT else "H"
                self.stored[id][var, attr] = Stored(array, place, bit if may_be_null else None, len(leaf.alts) > 1)
                bit += may_be_null
                self.words = max(self.words, place + 1)
        self.keeps_nulls = any(kept.bit is not None for each in self.stored.values() for kept in each.values())
        self._lay_out_batch()

    def _each(self) -> Iterable[Leaf]:
        return self.leaves.values()

    def _may_be_null(self, leaf: Leaf, nullable: bool) -> bool:
        """Whether an attribute of a stored event may be null; those of the other alternatives always are."""
        return nullable or len(leaf.alts) > 1

    def _lay_out_batch(self) -> None:
        """The columns of a batch, and the blocks of `marks`: who is withdrawn, and where each attribute is null."""
        used: dict[str, tuple[bool, bool]] = {}
        for col in self._batch_columns():
            was = used.get(col.attr, (False, False))
            used[col.attr] = (col.kind is Kind.FLOAT, was[1] or col.nullable)
        self.columns = {attr: (number, *used[attr]) for number, attr in enumerate(used)}
        nullable = [attr for attr, (_, may_be_null) in used.items() if may_be_null]
        self.marks = ([WITHDRAWN] if self.shape.eids else []) + nullable

    def _columns_of(self, leaf: Leaf) -> list[tuple[str, str, Kind, bool]]:
        found: dict[tuple[str, str], tuple[Kind, bool]] = {}
        for node in self.predicate_nodes():
            if isinstance(node, Col) and node.leaf == leaf.id and node.kind is not Kind.NULL:
                found[node.var, node.attr] = (node.kind, node.nullable)
        if len(leaf.alts) > 1:
            found["", "$alt"] = (Kind.INT, False)
        if any(isinstance(node, Agg) and node.leaf == leaf.id and looks_back(node) for node in self.predicate_nodes()):
            found["", "$member"] = (Kind.INT, False)
        for agg, link in self.links.items():
            if agg.leaf == leaf.id:
                found["", link] = (Kind.INT, False)
        return [(var, attr, kind, nullable) for (var, attr), (kind, nullable) in found.items()]

    def predicate_nodes(self) -> Iterator[Bound]:
        for each in self.blocks:
            for predicate in each.predicates:
                yield from walk(predicate)

    def _batch_columns(self) -> Iterator[Col]:
        """The attributes that the kernel reads from a batch: stored ones, those of unary predicates, keys."""
        for node in self.predicate_nodes():
            if isinstance(node, Col) and node.kind is not Kind.NULL:
                yield node
        for leaf in self.leaves.values():
            for alt in leaf.alts:
                for where in alt.where:
                    yield from (node for node in walk(where) if isinstance(node, Col) and node.kind is not Kind.NULL)
                for attr in self.keys.get(leaf.id, ()):
                    known = self.plan.schema.field(alt.type, attr)
                    assert known is not None
                    yield Col(leaf.id, alt.var, attr, known.kind, known.scale, known.nullable)

    def root_scopes(self) -> Iterator[Scope]:
        yield from (part.scope for part in self.root.forbidden)
        yield from (scope for _, scope in self.root.scopes)

    def span(self) -> int | None:
        """How far behind the clock events are needed; None: for ever."""
        reach = reach_of_block(self.root, self.within, intervals=self.plan.schema.intervals)
        return None if reach is None else reach.lasting

    def places_of(self, type: str) -> list[tuple[Leaf, int]]:
        """The leaves that keep an event of a type, each with the alternative that it fills."""
        takes = self.plan.schema.takes
        return [
            (leaf, number)
            for leaf in map(self.leaves.__getitem__, self.buffers)
            for number, alt in enumerate(leaf.alts)
            if takes(alt.type, type)
        ]

    def overlap(self, one: int, other: int) -> bool:
        """Whether an event could stand at either of two leaves."""
        takes = self.plan.schema.takes
        pairs = [(x.type, y.type) for x in self.leaves[one].alts for y in self.leaves[other].alts]
        return any(takes(x, y) or takes(y, x) for x, y in pairs)

    def tables(self) -> dict[str, tuple[int, ...]]:
        """What the kernel looks up by leaf and by type."""
        return {
            "levels": tuple(self.nest.index(id) if id in self.nest else -1 for id in self.buffers),
            "terminal": tuple(int(id in self.nest and is_terminal(self.root, id)) for id in self.buffers),
            "covered": tuple(int(id in self.keys) for id in self.buffers),
        }

    def leaf_lists(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(self.number[leaf.id] for leaf, _ in self.places_of(type)) for type in self.types)
