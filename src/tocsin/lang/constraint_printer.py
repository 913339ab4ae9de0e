"""Constraints into text: the canonical spelling, so that `parse_constraints(print_constraint(c)) == (c,)`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from tocsin.lang.constraint_syntax import AnyOf, Concat, Constraint, Regex, Repeated, Symbol
from tocsin.lang.printer import print_duration, print_expr, print_name, print_repeat, print_type
from tocsin.lang.syntax import Attr, Name, Repeat, Span

WORDS = ("ENDS", "TIMEOUT", "TIES")  # they end an expression, so a type that is called so stands in back-quotes


def print_constraint(constraint: Constraint) -> str:
    """The whole constraint on one line.

    >>> from tocsin.lang.parser import parse_constraints
    >>> print(print_constraint(parse_constraints("constraint c as (A|B[x=1])+ C{2,} ends C")[0]))
    CONSTRAINT c AS (A | B[x = 1])+ C{2,} ENDS C
    """
    parts = [f"CONSTRAINT {print_name(constraint.name)}"]
    if constraint.on is not None:
        parts.append(f"ON {', '.join(map(type_text, constraint.on)) or '*'}")
    if constraint.key:
        parts.append(f"PARTITION BY {', '.join(map(print_name, constraint.key))}")
    parts.append(f"AS {print_regex(constraint.regex)}")
    if constraint.ends:
        parts.append(f"ENDS {', '.join(map(type_text, constraint.ends))}")
    if constraint.timeout is not None:
        parts.append(f"TIMEOUT {print_duration(constraint.timeout)}")
    if constraint.ties:
        parts.append("TIES ANY")
    return " ".join(parts)


def print_regex(regex: Regex, least: int = 0) -> str:
    """An expression, in parentheses where it binds less tightly than `least`: 0 `|`, 1 a chain, 2 what is repeated."""
    match regex:
        case Symbol(type, where, at):
            text = type_text(type) + (f"^{at}" if at else "")
            return text + ("" if where is None else f"[{print_expr(bare(where, type))}]")
        case AnyOf(parts):
            text, binding = " | ".join(print_regex(part, 1) for part in parts), 0
        case Concat(parts):
            text, binding = " ".join(print_regex(part, 2 if len(parts) > 1 else 0) for part in parts), 1
            if not parts:
                return "()"
        case Repeated(part, repeat):
            text, binding = print_regex(part, 3) + ("?" if repeat == Repeat(0, 1) else print_repeat(repeat)), 2
    return text if binding >= least else f"({text})"


def type_text(type: str) -> str:
    """A type; one that is called like a word that ends the expression stands in back-quotes."""
    return f"`{type}`" if type.upper() in WORDS else print_type(type)


def bare(node: Any, type: str) -> Any:
    """A condition in which the attributes of the event stand by themselves."""
    match node:
        case Attr(var, name) if var == type:
            return Name(name, span=node.span)
        case tuple():
            return tuple(bare(each, type) for each in node)
    if isinstance(node, Span) or not hasattr(node, "__dataclass_fields__"):
        return node
    return replace(node, **{each.name: bare(getattr(node, each.name), type) for each in fields(node)})
