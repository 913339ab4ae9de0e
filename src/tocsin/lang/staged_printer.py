"""Staged statements into text: the canonical spelling, so that `parse(print(s)) == s`."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tocsin.lang.staged_syntax import (
    AggregateOf,
    Arithmetic,
    AttrOf,
    Collection,
    Compared,
    Denied,
    EventsOf,
    IfNull,
    Initiator,
    KeyRange,
    LeafOperand,
    Logical,
    Negative,
    NestedBlock,
    OperatorCall,
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
from tocsin.lang.staged_tokens import needs_quotes
from tocsin.lang.syntax import Duration, Literal

# How tightly an expression binds; a part that binds less tightly than it must gets parentheses.
OR, AND, NOT, COMPARING, SUM, PRODUCT, SIGN, WHOLE = range(8)


def to_text(statement: Statement) -> str:
    """The statement as text, a line for each clause."""
    lines = [f"CreateCE {named(statement.name)}"]
    if statement.select:
        columns = [expression(each.expr) + _as(each.name) for each in statement.select]
        mapping = f"{statement.mapping.title()} " if statement.mapping else ""
        lines.append(f"Select {mapping}{', '.join(columns)}")
    lines += _clauses(statement.inits, statement.pattern)
    if statement.where is not None:
        lines.append(f"Where {expression(statement.where)}")
    lines += _ending(statement.terms, statement.gkeys, statement.lkeys)
    if statement.policy is not None:
        policy = statement.policy
        bound = f" TIMEOUT {duration(policy.timeout)}" if policy.timeout else ""
        lines.append(f"DETECT {policy.kind}{bound}" + (f" C-LEVEL {policy.level}" if policy.level is not None else ""))
    return "\n".join(lines)


def named(name: str) -> str:
    return "`" + name.replace("`", "``") + "`" if needs_quotes(name) else name


def duration(length: Duration) -> str:
    return f"{_number(length.amount)} {length.unit}" if length.unit else _number(length.amount)


def _as(label: str | None) -> str:
    return "" if label is None else f" as {named(label)}"


def _clauses(inits: tuple[Initiator, ...], pattern: StagedPattern) -> Iterator[str]:
    if inits:
        yield f"Init {', '.join(map(_initiator, inits))}"
    yield f"Event {operand(pattern)}"


def _ending(
    terms: tuple[Terminator, ...], gkeys: tuple[PartitionKey, ...], lkeys: tuple[PartitionKey, ...]
) -> Iterator[str]:
    if terms:
        yield f"Term {', '.join(map(_terminator, terms))}"
    yield from (f"GKey {_key(key)}" for key in gkeys)
    yield from (f"LKey {_key(key)}" for key in lkeys)


def _params(params: list[str]) -> str:
    return f"<{', '.join(params)}>" if params else ""


def _conditions(conditions: tuple[StagedExpr, ...]) -> list[str]:
    """Conditions inside < > stand in quotes, so that `>` is never in doubt."""
    return ['"' + expression(each).replace('"', '""') + '"' for each in conditions]


def _initiator(init: Initiator) -> str:
    if init.type is None:
        return "Start"
    return named(init.type) + _as(init.label) + _params([*_conditions(init.conditions), *["add"] * init.add])


def _terminator(term: Terminator) -> str:
    which: list[str] = [] if term.which == "each" and term.number is None else [term.which]
    if which and term.number is not None:
        which = [f"{term.which} {term.number}"]
    params = _params([*_conditions(term.conditions), *which, *["discard"] * term.discard])
    if term.after is not None:
        return duration(term.after) + params
    return named(term.type or "") + _as(term.label) + params


def operand(node: StagedPattern) -> str:
    """A pattern as text."""
    if isinstance(node, LeafOperand):
        return _leaf(node)
    if isinstance(node, NestedBlock):
        inside = [*_clauses(node.inits, node.pattern), *_ending(node.terms, node.gkeys, node.lkeys)]
        return f"{{ {' '.join(inside)} }}"
    mode = _params([*([node.mode] if node.mode else []), *node.options])
    return f"{node.operator}({', '.join(_arguments(node))}){mode}{_as(node.label)}"


def _arguments(node: OperatorCall) -> Iterator[str]:
    if node.count is not None:
        yield str(node.count)
    if node.pattern is not None:
        yield '"' + node.pattern.replace('"', '""') + '"'
    for at, each in enumerate(node.operands):
        size = node.size
        yield operand(each) + (
            f"[{size.unit} {size.most}, {'add' if size.add else 'ignore'}]" if size and at == 0 else ""
        )
    if node.interval is not None:
        yield duration(node.interval)


def _leaf(leaf: LeafOperand) -> str:
    params = _conditions(leaf.conditions)
    params += [f"{unit} {most}" for unit, most in (("rows", leaf.rows), ("stages", leaf.stages)) if most is not None]
    if leaf.range is not None:
        params.append(f"range {duration(leaf.range)}")
    if leaf.quantifier != Quantifier():
        params.append(_quantifier(leaf.quantifier))
    if leaf.consume:
        params.append("consume")
    if leaf.weight is not None:
        params.append(f"weight {_number(leaf.weight)}")
    return named(leaf.type) + _as(leaf.label) + _params(params)


def _quantifier(quantifier: Quantifier) -> str:
    if quantifier.every:
        return "all"
    most = "+" if quantifier.most is None else f"max {quantifier.most}"
    return f"{'strict ' * quantifier.strict}{quantifier.age} {most}{' staged' * quantifier.staged}"


def _key(key: PartitionKey) -> str:
    entries = [f"{'*' if each.name is None else named(each.name)}.{_attr(each.attr)}" for each in key.entries]
    ranges = f" (In {', '.join(map(key_range, key.ranges))})" if key.ranges else ""
    return ", ".join(entries) + _as(key.name) + ranges


def key_range(each: KeyRange, *, labelled: bool = True) -> str:
    """A range of key values as it is written."""
    if each.is_rest:
        text = "Rest"
    elif each.between is not None:
        text = f"{_literal(each.between[0])}..{_literal(each.between[1])}"
    elif len(each.values) == 1:
        text = _literal(each.values[0])
    else:
        text = f"{{{', '.join(map(_literal, each.values))}}}"
    return text + (_as(each.label) if labelled else "")


# --- expressions -------------------------------------------------------------------------------------------------


def expression(node: StagedExpr, least: int = OR) -> str:
    """An expression as text, in parentheses if it binds less tightly than `least`."""
    tight, text = _bound(node)
    return text if tight >= least else f"({text})"


def _bound(node: StagedExpr) -> tuple[int, str]:
    match node:
        case Logical():
            tight = OR if node.op == "OR" else AND
            return tight, f"{expression(node.left, tight)} {node.op} {expression(node.right, tight + 1)}"
        case Denied():
            return NOT, f"NOT {expression(node.of, NOT)}"
        case Compared():
            return COMPARING, f"{expression(node.left, SUM)} {node.op} {expression(node.right, SUM)}"
        case Arithmetic():
            tight = SUM if node.op in "+-" else PRODUCT
            return tight, f"{expression(node.left, tight)} {node.op} {expression(node.right, tight + 1)}"
        case Negative():
            inner = expression(node.of, SIGN)
            return SIGN, f"-({inner})" if inner[0] in "-0123456789." else f"-{inner}"
        case Literal():
            text = _literal(node)
            return (SIGN if text.startswith("-") else WHOLE), text
        case AttrOf():
            return WHOLE, _attribute(node)
        case TimeOf():
            return WHOLE, f"{node.which}({named(node.name)})"
        case StableTime():
            return WHOLE, "stable-time"
        case IfNull():
            return WHOLE, f"Is-Null({_attribute(node.of)}, {_literal(node.instead)})"
    return WHOLE, f"{node.function}({_collection(node.of)})"


def _attribute(node: AttrOf) -> str:
    return named(node.attr) if node.name is None else f"{named(node.name)}.{_attr(node.attr)}"


def _attr(name: str) -> str:
    """An attribute after a dot, where no word is reserved."""
    return name if not needs_quotes(name.replace("-", "_")) and not needs_quotes(name) else named(name)


def _collection(node: Collection | UnionOf) -> str:
    if isinstance(node, UnionOf):
        return f"{_collection(node.left)} Union {_collection(node.right)}"
    inner = named(node.of.name) if isinstance(node.of, EventsOf) else expression(node.of)
    return inner if node.mark is None else f"{node.mark}({inner})"


def _literal(literal: Literal) -> str:
    value = literal.value
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return _number(value)


def _number(value: int | Decimal) -> str:
    return str(value) if isinstance(value, int) else f"{value:f}" if "." in f"{value:f}" else f"{value}"


__all__ = ["AggregateOf", "expression", "key_range", "to_text"]
