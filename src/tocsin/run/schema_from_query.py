"""Guess a schema from the queries alone, for checks without data: kinds follow from how attributes are used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal

from tocsin.lang.derived_syntax import Intervals, of_reading
from tocsin.lang.staged_syntax import AttrOf, Compared, IfNull, PartitionKey, Statement, parts
from tocsin.lang.syntax import (
    Attr,
    Between,
    Binary,
    Call,
    Duration,
    Expr,
    In,
    Leaf,
    Like,
    Literal,
    Query,
    Same,
    conjuncts,
    walk,
)
from tocsin.plan.points_in_time import PARTS, TIMESTAMP
from tocsin.plan.staged_places import StatementPlaces
from tocsin.schema import OWN, Field, Kind, Schema

TEXT_FUNCTIONS = ("lower", "upper", "trim", "length", "substr", "concat", "starts_with", "contains")
KEEPING = ("first", "last", "min", "max", "coalesce", "nullif", "least", "greatest")  # the kind of what they are asked
OWN_NAMES = (*OWN, "time")  # without data, `x.time` is what every event has of its own
OF_EVENTS = "eid(x)"  # the name under which the kind of eids is guessed
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def guessed_schema(queries: Iterable[Query | Statement | Intervals], unit: str | None = "us") -> Schema:
    """Any type, with every attribute that is mentioned: texts and booleans where they are used as such, else numbers.

    >>> from tocsin.lang.parser import parse
    >>> guessed_schema([parse("EVENT SEQ(A a, B b) WHERE a.name = b.name AND b.name LIKE 'x%'")]).common["name"].kind
    <Kind.TEXT: 'text'>
    """
    kinds: dict[str, Kind] = {}
    pairs: list[tuple[str, str]] = []
    queries = list(queries)
    names = {query.name for query in queries}
    for query in queries:
        if isinstance(query, Statement):
            _look_at_statement(query, kinds, pairs, names)
            continue
        if isinstance(query, Intervals):
            _look_at_intervals(query, kinds, pairs)
            continue
        for node in walk(query):
            _look(node, kinds, pairs)
    for _ in range(len(pairs)):
        for one, other in pairs:  # a kind spreads over equalities between attributes
            for here, there in ((one, other), (other, one)):
                if kinds.get(here, Kind.INT) is not Kind.INT and kinds.get(there, Kind.INT) is Kind.INT:
                    kinds[there] = kinds[here]
    eid = Kind.TEXT if kinds.pop(OF_EVENTS, Kind.INT) is Kind.TEXT else Kind.INT
    common = {name: Field(name, kind) for name, kind in kinds.items()}
    return Schema(common=common, open_types=True, unit=unit, eid=eid)


def guessed_unit(queries: Iterable[Query | Statement | Intervals]) -> str | None:
    """What a tick is where there is no data: a microsecond if the queries say durations in units, else just a tick."""
    said = any(isinstance(query, Statement) or any(map(_is_about_time, walk(query))) for query in queries)
    return "us" if said else None


def _is_about_time(node: object) -> bool:
    """Whether a node means nothing among ticks of unknown length."""
    if isinstance(node, Call):
        return node.function in (*PARTS, TIMESTAMP)
    return isinstance(node, Duration) and node.unit is not None


def _look_at_intervals(given: Intervals, kinds: dict[str, Kind], pairs: list[tuple[str, str]]) -> None:
    """The attributes of readings."""
    _mentioned(given.by, kinds)
    conditions = [each.where for each in (*given.readings, *given.ends) if each.where is not None]
    conditions += [state.when for state in given.states]
    for expr in (*conditions, *(item.expr for item in given.select)):
        for node in walk(of_reading(expr)):
            _look(node, kinds, pairs)
    for expr in conditions:
        _truths(conjuncts(of_reading(expr)), kinds)


def _look_at_statement(
    statement: Statement, kinds: dict[str, Kind], pairs: list[tuple[str, str]], names: Collection[str | None]
) -> None:
    """The attributes of a staged statement: texts and truths where they are compared with such, else numbers.

    Not those of other queries (`names`), whose columns have kinds of their own.
    """
    for node in _of_events(statement, names):
        match node:
            case AttrOf() if node.attr not in ("label", "labels"):
                _mentioned((node.attr,), kinds)
            case PartitionKey():
                values = [value for each in node.ranges for value in (*each.values, *(each.between or ()))]
                for entry in node.entries:
                    _mentioned((entry.attr,), kinds)
                    kinds.update((entry.attr, kind) for value in values if (kind := _kind(value.value)) is not None)
            case IfNull() if (kind := _kind(node.instead.value)) is not None:
                kinds[node.of.attr] = kind
    for node in (node for node in _of_events(statement, names) if isinstance(node, Compared)):
        attrs = [side.attr for side in (node.left, node.right) if isinstance(side, AttrOf)]
        pairs += [(attrs[0], other) for other in attrs[1:]]
        for side in (node.left, node.right):
            if isinstance(side, Literal) and (kind := _kind(side.value)) is not None:
                kinds.update(dict.fromkeys(attrs, kind))


def _of_events(statement: Statement, names: Collection[str | None]) -> Iterator[object]:
    """The parts of a statement that do not speak of matches of other queries."""
    above = [role for role in StatementPlaces(statement).roles if role.type in names]
    called = {role.called for role in above}
    inner = {id(part) for role in above for each in role.conditions for part in parts(each)}
    for node in parts(statement):
        mentioned: set[str | None] = set()
        match node:
            case Compared():
                mentioned = {part.name for part in parts(node) if isinstance(part, AttrOf)}
            case AttrOf():
                mentioned = {node.name}
            case PartitionKey():
                mentioned = {entry.name for entry in node.entries}
        if id(node) not in inner and not mentioned & called:
            yield node


def _look(node: object, kinds: dict[str, Kind], pairs: list[tuple[str, str]]) -> None:
    match node:
        case Attr():
            _mentioned((node.name,), kinds)
        case Same():
            _mentioned(node.attrs, kinds)
        case Query():
            _mentioned(node.partition, kinds)
        case Binary() if node.op in COMPARISONS:
            _compared((node.left, node.right), kinds, pairs)
        case Binary() if node.op == "||":
            _texts((node.left, node.right), kinds)
        case Binary() if node.op in ("AND", "OR"):
            _truths((node.left, node.right), kinds)
        case In():
            _compared((node.operand, *node.options), kinds, pairs)
        case Between():
            _compared((node.operand, node.low, node.high), kinds, pairs)
        case Like():
            _texts((node.operand, node.pattern), kinds)
        case Call() if node.function in KEEPING:
            _compared(node.args, kinds, pairs)
        case Call() if node.function in PARTS:
            kinds.update(dict.fromkeys(_attributes(node.args[:1]), Kind.TIME))
        case Call() if node.function in TEXT_FUNCTIONS:
            _texts(node.args[:2] if node.function != "substr" else node.args[:1], kinds)
        case Leaf() if node.where is not None:
            _truths(conjuncts(node.where), kinds)


def _mentioned(attrs: Iterable[str], kinds: dict[str, Kind]) -> None:
    for attr in attrs:
        if attr not in OWN_NAMES:
            kinds.setdefault(attr, Kind.INT)


def _compared(sides: tuple[Expr, ...], kinds: dict[str, Kind], pairs: list[tuple[str, str]]) -> None:
    attrs = _attributes(sides)
    pairs += [(attrs[0], other) for other in attrs[1:]]
    for side in sides:
        if isinstance(side, Literal) and (kind := _kind(side.value)) is not None:
            for attr in attrs:
                kinds[attr] = kind


def _attributes(sides: tuple[Expr, ...]) -> list[str]:
    """The attributes that stand on some sides, and eid(x) under its own name."""
    found = []
    for side in sides:
        match side:
            case Attr(_, "eid") | Call("eid"):
                found.append(OF_EVENTS)
            case Attr(_, name) if name not in OWN_NAMES:
                found.append(name)
            case Call(function, args) if function in KEEPING:
                found += _attributes(args)
    return found


def _kind(value: object) -> Kind | None:
    match value:
        case bool():
            return Kind.BOOL
        case str():
            return Kind.TEXT
        case Decimal():
            return Kind.FLOAT
    return None


def _texts(sides: tuple[Expr, ...], kinds: dict[str, Kind]) -> None:
    kinds.update(dict.fromkeys(_attributes(sides), Kind.TEXT))


def _truths(sides: tuple[Expr, ...], kinds: dict[str, Kind]) -> None:
    kinds.update({side.name: Kind.BOOL for side in sides if isinstance(side, Attr)})
