"""Staged statements in Python: a thin skin over their syntax nodes, equal to what the same text would give.

    speeding = (
        create_ce("Speeding", unless(
            operand("Car", None, col.speed > 60, stages=1),
            at_least(10, operand("Car", "Others", col.speed > 60)),
        ))
        .select(col.Car.speed, region=col.Region.labels)
        .init("At8am")
        .where(col.Others.speed > col.Car.speed)
        .term("At6pm")
        .lkey("*.linkId", name="Region", ranges=[between(1, 50, "one"), rest("other")])
    )
    tocsin.query(speeding).detect(events)

Expressions are those of `fluent`: `col`, `start`, `end`, `avg`, `count`, ... Beside them stand `sst`, `bag`, `set_of`,
`union`, `median`, `if_null` and `stable_time`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Self, TypeAlias
from typing import Literal as Choice

from tocsin.errors import TocsinError
from tocsin.lang.fluent import Constant, FluentExpr, Value, expr_of, named_text, window_of
from tocsin.lang.parser import parse_file
from tocsin.lang.staged_printer import operand as operand_text
from tocsin.lang.staged_printer import to_text
from tocsin.lang.staged_syntax import (
    ONLY,
    OPTIONS,
    AfterSize,
    AggregateOf,
    Arithmetic,
    AttrOf,
    Collection,
    Compared,
    Denied,
    DetectPolicy,
    EventsOf,
    IfNull,
    Initiator,
    KeyEntry,
    KeyRange,
    LeafOperand,
    Logical,
    Mode,
    Negative,
    NestedBlock,
    OperatorCall,
    OutputColumn,
    PartitionKey,
    Quantifier,
    StableTime,
    StagedExpr,
    StagedPattern,
    Statement,
    Terminator,
    TimeOf,
    UnionOf,
)
from tocsin.lang.syntax import Attr, Binary, Call, Duration, Expr, Literal, Name, Unary

Length: TypeAlias = int | str | timedelta
AGGREGATES = {"max": "Max", "min": "Min", "sum": "Sum", "avg": "Avg", "median": "Median", "count": "Count"}
MARKS: dict[str, Choice["Set", "Bag"]] = {"set": "Set", "bag": "Bag"}
TIMES: dict[str, Choice["start-ts", "end-ts", "sst"]] = {"start": "start-ts", "end": "end-ts", "sst": "sst"}

# --- expressions -------------------------------------------------------------------------------------------------

stable_time = FluentExpr(Call("stable_time", ()))


def sst(operand: str) -> FluentExpr:
    """A lower bound on the starts of later events of an operand."""
    return FluentExpr(Call("sst", (Name(named_text(operand)),)))


def bag(what: FluentExpr) -> FluentExpr:
    """In an aggregate over a group: one value for each event."""
    return FluentExpr(Call("bag", (what.node,)))


def set_of(what: FluentExpr) -> FluentExpr:
    """In an aggregate over a group: each value once."""
    return FluentExpr(Call("set", (what.node,)))


def union(*several: FluentExpr) -> FluentExpr:
    """Several collections as one, in an aggregate: `avg(union(col.A.x, col.B.x))`."""
    return FluentExpr(Call("union", tuple(each.node for each in several)))


def median(what: FluentExpr) -> FluentExpr:
    return FluentExpr(Call("median", (what.node,)))


def if_null(what: FluentExpr, instead: Constant) -> FluentExpr:
    return FluentExpr(Call("is_null", (what.node, expr_of(instead))))


def staged_expr(given: Value) -> StagedExpr:
    """An expression as the node of a statement."""
    return _staged(expr_of(given))


def _staged(node: Expr) -> StagedExpr:
    match node:
        case Literal():
            return node
        case Attr():
            return AttrOf(node.var, node.name)
        case Name():
            return AttrOf(None, node.name)
        case Unary(op="NOT"):
            return Denied(_staged(node.operand))
        case Unary():
            return Negative(_staged(node.operand))
        case Binary():
            left, right = _staged(node.left), _staged(node.right)
            if node.op in ("AND", "OR"):
                return Logical(node.op, left, right)  # type: ignore[arg-type]
            if node.op in ("+", "-", "*", "/"):
                return Arithmetic(node.op, left, right)  # type: ignore[arg-type]
            if node.op in ("=", "<>", "<", ">", "<=", ">="):
                return Compared("!=" if node.op == "<>" else node.op, left, right)  # type: ignore[arg-type]
        case Call() if (found := _called(node)) is not None:
            return found
    raise TocsinError(f"a statement has no such expression: {FluentExpr(node)}")


def _called(node: Call) -> StagedExpr | None:
    """A time, an aggregate or Is-Null, which are calls in EVENT queries."""
    match node:
        case Call(function="stable_time"):
            return StableTime()
        case Call(function="is_null"):
            attr, instead = (_staged(each) for each in node.args)
            if isinstance(attr, AttrOf) and isinstance(instead, Literal):
                return IfNull(attr, instead)
        case Call(function=("start" | "end" | "sst") as which, args=(Name() as of,)):
            return TimeOf(TIMES[which], of.name)
        case Call() if node.function in AGGREGATES and len(node.args) == 1:
            return AggregateOf(AGGREGATES[node.function], _collected(node.args[0]))
    return None


def _collected(node: Expr) -> Collection | UnionOf:
    """What an aggregate runs over."""
    if isinstance(node, Call) and node.function == "union":
        found, *others = (_collected(each) for each in node.args)
        for each in others:
            if isinstance(each, UnionOf):
                raise TocsinError("a union stands in a union", hint="give all collections to one of them")
            found = UnionOf(found, each)
        return found
    mark = None
    if isinstance(node, Call) and node.function in MARKS:
        mark, (node,) = MARKS[node.function], node.args
    of = EventsOf(node.name) if isinstance(node, Name) else _staged(node)
    if not isinstance(of, AttrOf | IfNull | EventsOf | AggregateOf):
        raise TocsinError(f"nothing can be collected of {FluentExpr(node)}", hint="aggregate attributes: avg(col.A.x)")
    return Collection(of, mark)


def _conditions(given: Iterable[Value]) -> tuple[StagedExpr, ...]:
    return tuple(staged_expr(each) for each in given)


# --- patterns ----------------------------------------------------------------------------------------------------


class FluentOperand:
    """An operand of a pattern."""

    __slots__ = ("node",)

    def __init__(self, node: StagedPattern) -> None:
        self.node = node

    def __str__(self) -> str:
        return operand_text(self.node)

    def __repr__(self) -> str:
        return f"<{self}>"

    def deferred(self) -> FluentOperand:
        """Detected when the context ends."""
        return self._in_mode("deferred")

    def delayed(self) -> FluentOperand:
        """Detected at once, told when the context ends."""
        return self._in_mode("delayed")

    def immediate(self) -> FluentOperand:
        return self._in_mode("immediate")

    def incremental(self) -> FluentOperand:
        """Only matches with something that ends in this stage."""
        return self._looked_for("incremental")

    def distinct(self) -> FluentOperand:
        """No event stands at two operands of a match."""
        return self._looked_for("distinct")

    def repeat(self) -> FluentOperand:
        """Looked for again in the same stage, as long as matches consume events."""
        return self._looked_for("repeat")

    def active(self) -> FluentOperand:
        """Looked for also when an event leaves a negated or counted operand by its range."""
        return self._looked_for("active")

    def _looked_for(self, option: str) -> FluentOperand:
        node = self.node
        if isinstance(node, NestedBlock):
            raise TocsinError("a block has no options", hint="they belong to the pattern that the block stands in")
        call = node if isinstance(node, OperatorCall) else OperatorCall(ONLY, (node,))
        options = {*call.options, option}
        return FluentOperand(replace(call, options=tuple(each for each in OPTIONS if each in options)))

    def _in_mode(self, mode: Mode) -> FluentOperand:
        if isinstance(self.node, OperatorCall):
            return FluentOperand(replace(self.node, mode=mode))
        if isinstance(self.node, LeafOperand):
            return FluentOperand(OperatorCall(ONLY, (self.node,), mode))
        raise TocsinError("a block has no mode", hint="its pattern has: block(and_(a, b).deferred())")

    def named(self, label: str) -> FluentOperand:
        """What the operand is called in Where and Select."""
        if isinstance(self.node, NestedBlock):
            raise TocsinError("a block has no name", hint="name what stands in it")
        return FluentOperand(replace(self.node, label=named_text(label)))


def operand(
    type: str,
    label: str | None = None,
    *conditions: Value,
    rows: int | None = None,
    stages: int | None = None,
    range: Length | None = None,
    newest: int | bool | None = None,
    oldest: int | bool | None = None,
    every: bool = False,
    strict: bool = False,
    staged: bool = False,
    consume: bool = False,
    weight: int | Decimal | None = None,
) -> FluentOperand:
    """An event type with what it collects (rows, stages, range), selects and consumes.

    `newest=3` is `new max 3`, `oldest=True` is `old +`, `every` is `all`.
    """
    if newest is not None and oldest is not None:
        raise TocsinError("an operand selects its newest or its oldest events", hint="give one of newest and oldest")
    most = oldest if oldest is not None else newest
    how = Quantifier(
        every, "new" if oldest is None else "old", None if isinstance(most, bool) else most, strict, staged
    )
    length = None if range is None else window_of(range)
    return FluentOperand(LeafOperand(
        named_text(type), label, _conditions(conditions), rows, stages, length, how, consume, weight
    ))  # fmt: skip


def _pattern(given: FluentOperand | str) -> StagedPattern:
    """A text is an event type by itself."""
    return (operand(given) if isinstance(given, str) else given).node


def _listed(operator: str, *operands: FluentOperand | str, **more: Any) -> FluentOperand:
    return FluentOperand(OperatorCall(operator, tuple(map(_pattern, operands)), **more))


def sequence(*operands: FluentOperand | str) -> FluentOperand:
    return _listed("Sequence", *operands)


def and_(*operands: FluentOperand | str) -> FluentOperand:
    return _listed("And", *operands)


def or_(*operands: FluentOperand | str) -> FluentOperand:
    return _listed("Or", *operands)


def concurrent(*operands: FluentOperand | str) -> FluentOperand:
    return _listed("Concurrent", *operands)


def not_(operand: FluentOperand | str) -> FluentOperand:
    return _listed("Not", operand)


def unless(wanted: FluentOperand | str, forbidden: FluentOperand | str) -> FluentOperand:
    return _listed("Unless", wanted, forbidden)


def nth(number: int, *operands: FluentOperand | str) -> FluentOperand:
    return _listed("Nth", *operands, count=number)


def at_least(number: int, *operands: FluentOperand | str) -> FluentOperand:
    return _listed("AtLeast", *operands, count=number)


def at_most(number: int, *operands: FluentOperand | str) -> FluentOperand:
    return _listed("AtMost", *operands, count=number)


def at(pattern: str) -> FluentOperand:
    """`at("****/**/**/12:00:00.000")`: at noon, every day."""
    return _listed("At", pattern=pattern)


def every(interval: Length) -> FluentOperand:
    return _listed("Every", interval=window_of(interval))


def after(
    source: FluentOperand | str,
    interval: Length,
    *,
    rows: int | None = None,
    stages: int | None = None,
    add: bool = False,
) -> FluentOperand:
    """A length of time after each event.

    `rows`, `stages`: so many may wait; then a newcomer is left out, or (`add`) replaces the oldest.
    """
    size = None
    if rows is not None or stages is not None:
        size = AfterSize("rows" if rows is not None else "stages", int(rows or stages or 0), add)
    return _listed("After", source, size=size, interval=window_of(interval))


# --- contexts and keys -------------------------------------------------------------------------------------------


def among(*values: Constant, label: str | None = None) -> KeyRange:
    """Some values of a key that are one partition together."""
    return KeyRange(tuple(map(_literal, values)), label=label)


def between(low: Constant, high: Constant, label: str | None = None) -> KeyRange:
    """The values of a key from one to another, both of them too."""
    return KeyRange(between=(_literal(low), _literal(high)), label=label)


def rest(label: str | None = None) -> KeyRange:
    """All other values of a key."""
    return KeyRange(label=label)


def _literal(value: Constant) -> Literal:
    found = expr_of(value)
    if not isinstance(found, Literal):
        raise TocsinError(f"{value!r} is no value of a key")
    return found


def _key(entries: tuple[str, ...], name: str | None, ranges: Iterable[KeyRange]) -> PartitionKey:
    found = []
    for each in entries:
        role, dot, attr = each.rpartition(".")
        if not dot:
            raise TocsinError(f"{each!r} is no key", hint='write "*.k", or "A.k" for each operand')
        found.append(KeyEntry(None if role == "*" else role, attr))
    return PartitionKey(tuple(found), name, tuple(ranges))


class _WithContexts:
    """What has contexts and keys: a statement, or a block."""

    node: Any

    def _with(self, **clauses: Any) -> Self:
        found = object.__new__(type(self))
        found.node = replace(self.node, **clauses)
        return found

    def init(self, type: str | None = None, label: str | None = None, *conditions: Value, add: bool = False) -> Self:
        """What opens contexts: an event, or `init()` for Start."""
        return self._with(inits=(*self.node.inits, Initiator(type, label, _conditions(conditions), add)))

    def term(
        self,
        type: str | None = None,
        label: str | None = None,
        *conditions: Value,
        which: Choice["each", "new", "old", "each-matching"] = "each",
        discard: bool = False,
        after: Length | None = None,
    ) -> Self:
        """What closes contexts: an event, or `after`, a length of time."""
        if (type is None) == (after is None):
            raise TocsinError("a context is closed by an event or by a length of time", hint="give type, or after=")
        length: Duration | None = None if after is None else window_of(after)
        added = Terminator(type, length, label, _conditions(conditions), which, discard=discard)
        return self._with(terms=(*self.node.terms, added))

    def gkey(self, *entries: str, name: str | None = None, ranges: Iterable[KeyRange] = ()) -> Self:
        """A global key: `gkey("*.k")`, `gkey("A.k", "B.x")`."""
        return self._with(gkeys=(*self.node.gkeys, _key(entries, name, ranges)))

    def lkey(self, *entries: str, name: str | None = None, ranges: Iterable[KeyRange] = ()) -> Self:
        """A local key, of operands alone."""
        return self._with(lkeys=(*self.node.lkeys, _key(entries, name, ranges)))


class FluentBlock(_WithContexts, FluentOperand):
    """A pattern with contexts and keys of its own, as an operand."""


def block(pattern: FluentOperand | str) -> FluentBlock:
    return FluentBlock(NestedBlock(_pattern(pattern)))


class FluentStatement(_WithContexts):
    """A statement; methods may be called in any order."""

    def __init__(self, node: Statement) -> None:
        self.node = node

    def __str__(self) -> str:
        return to_text(self.node)

    def __repr__(self) -> str:
        return f"<{self.node.name}>"

    def select(self, *exprs: FluentExpr, **columns: FluentExpr) -> FluentStatement:
        """Columns of the result: `select(col.A.x, n=count("B"))`."""
        return self._selected(None, exprs, columns)

    def select_tuple(self, *exprs: FluentExpr, **columns: FluentExpr) -> FluentStatement:
        """Columns, in a row for each match."""
        return self._selected("tuple", exprs, columns)

    def select_group(self, *exprs: FluentExpr, **columns: FluentExpr) -> FluentStatement:
        """Columns, in one row for all matches of a stage."""
        return self._selected("group", exprs, columns)

    def _selected(
        self, mapping: str | None, exprs: tuple[FluentExpr, ...], columns: dict[str, FluentExpr]
    ) -> FluentStatement:
        items = [OutputColumn(staged_expr(each)) for each in exprs]
        items += [OutputColumn(staged_expr(each), name) for name, each in columns.items()]
        return self._with(select=tuple(items), mapping=mapping)

    def where(self, *conditions: Value) -> FluentStatement:
        """Conditions; several are joined by AND."""
        found: StagedExpr | None = self.node.where
        for each in _conditions(conditions):
            found = each if found is None else Logical("AND", found, each)
        return self._with(where=found)

    def policy(self, kind: str, *, timeout: Length | None = None, level: Decimal | None = None) -> FluentStatement:
        """`DETECT GUARANTEED`: what is done about late and missing events."""
        length = None if timeout is None else window_of(timeout)
        return self._with(policy=DetectPolicy(kind, length, level))

    @property
    def statement(self) -> Statement:
        """The finished statement. It is read back from its own text, so that errors can show the place."""
        (found,) = parse_file(str(self))
        assert isinstance(found, Statement)
        return found


def create_ce(name: str, pattern: FluentOperand | str) -> FluentStatement:
    """`CreateCE name Event pattern`, to which clauses are added."""
    return FluentStatement(Statement(named_text(name), _pattern(pattern)))
