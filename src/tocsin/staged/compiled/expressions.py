"""Expressions of staged statements as text of Python: values with when they are Null, conditions with when they hold.

What an operand is bound to is known where the text is written, so what an OR leaves out is left out there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from tocsin.lang.staged_syntax import Arithmetic, Compared, Denied, IfNull, Logical, Negative
from tocsin.lang.syntax import Literal
from tocsin.schema import Kind
from tocsin.staged.compiled.layout import NotCompiledError, WordLayout

EXACT = 53  # bits of a whole number that is a float without loss
SMALL = 31  # bits of what stands in arithmetic


@dataclass(frozen=True, slots=True)
class Value:
    """The text of a value and of the condition that it is Null; `kind` is int, float, text or bool.

    bits  how many a whole number has at most
    attr  the attribute that it is, nothing else; "time" for a time
    """

    text: str
    null: str = "False"
    kind: str = "int"
    bits: int = 63
    attr: str | None = None


class Absence:
    """Of an operand that another branch of an OR has left out."""


ABSENT = Absence()
Known: TypeAlias = "Value | Absence"
LookUp: TypeAlias = "Callable[[Any], Known]"
KINDS = {
    Kind.INT: "int", Kind.TIME: "int", Kind.BOOL: "bool", Kind.TEXT: "text",
    Kind.FLOAT: "float", Kind.DECIMAL: "float", Kind.NULL: "int",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Truth:
    """The texts of: it is TRUE, it is FALSE."""

    holds: str
    fails: str


def both(*texts: str) -> str:
    left = [text for text in texts if text != "True"]
    if "False" in left:
        return "False"
    return f"({' and '.join(left)})" if len(left) > 1 else left[0] if left else "True"


def either(*texts: str) -> str:
    left = [text for text in texts if text != "False"]
    if "True" in left:
        return "True"
    return f"({' or '.join(left)})" if len(left) > 1 else left[0] if left else "False"


def negated(text: str) -> str:
    return {"True": "False", "False": "True"}.get(text) or f"(not {text})"


def attribute(layout: WordLayout, attr: str, words: str, reals: str, nulls: str) -> Value:
    """An attribute of a record whose attributes stand at `words`, as numbers at `reals`; nulls: its word of Nulls."""
    field = layout.field(attr)
    if field is None or field.kind is Kind.NULL:
        return Value("0", "True", "int", 1, attr)
    at = layout.place[attr]
    kind = KINDS[field.kind]
    text = (reals if kind == "float" else words).format(at)
    return Value(text, f"(({nulls} >> {at}) & 1 != 0)", kind, 63, attr)


def value(layout: WordLayout, node: Any, look_up: LookUp) -> Known:
    """The value of an expression."""
    match node:
        case Literal():
            return _literal(layout, node.value)
        case Negative():
            inner = value(layout, node.of, look_up)
            if isinstance(inner, Absence):
                return ABSENT
            inner = _small(layout, inner)
            return Value(f"(-{inner.text})", inner.null, inner.kind, inner.bits)
        case Arithmetic():
            left, right = value(layout, node.left, look_up), value(layout, node.right, look_up)
            if isinstance(left, Absence) or isinstance(right, Absence):
                return ABSENT
            return _computed(layout, node.op, left, right)
        case IfNull():
            inner, other = look_up(node.of), value(layout, node.instead, look_up)
            if isinstance(inner, Absence) or isinstance(other, Absence):
                return ABSENT
            if inner.null == "True":
                return other
            if inner.kind != other.kind:
                raise NotCompiledError("Is-Null gives another kind of value than its attribute")
            text = f"({other.text} if {inner.null} else {inner.text})"
            return Value(text, both(inner.null, other.null), inner.kind, max(inner.bits, other.bits), inner.attr)
    return look_up(node)


def _literal(layout: WordLayout, given: Any) -> Value:
    if given is None:
        return Value("0", "True")
    if isinstance(given, bool):
        return Value(str(int(given)), kind="bool", bits=1)
    if isinstance(given, int):
        if given.bit_length() > 62:
            raise NotCompiledError("a number beyond 64 bits")
        return Value(str(given), bits=given.bit_length())
    if isinstance(given, Decimal | float):
        return Value(repr(float(given)), kind="float")
    if isinstance(given, str):
        return Value(layout.text(given), kind="text")
    raise NotCompiledError(f"a literal {given!r}")


def limited(layout: WordLayout, given: Value, bits: int) -> Value:
    """A value of which whole numbers have so many bits at most."""
    if given.kind not in ("int", "bool") or given.bits <= bits:
        return given
    if given.attr is None:
        raise NotCompiledError("arithmetic beyond 64 bits")
    layout.needs_bits(given.attr, bits)
    return Value(given.text, given.null, given.kind, bits, given.attr)


def _small(layout: WordLayout, given: Value) -> Value:
    return limited(layout, given, EXACT if given.attr == "time" or given.attr is None else SMALL)


def _computed(layout: WordLayout, op: str, left: Value, right: Value) -> Value:
    if "text" in (left.kind, right.kind):
        raise NotCompiledError("arithmetic with texts")
    left, right = _small(layout, left), _small(layout, right)
    null = either(left.null, right.null)
    if op == "/":
        return Value(f"({left.text} / {right.text})", either(null, f"({right.text} == 0)"), "float")
    kind = "float" if "float" in (left.kind, right.kind) else "int"
    bits = left.bits + right.bits if op == "*" else max(left.bits, right.bits) + 1
    if kind == "int" and bits > 62:
        raise NotCompiledError("arithmetic beyond 64 bits")
    return Value(f"({left.text} {op} {right.text})", null, kind, bits)


def truth(layout: WordLayout, node: Any, look_up: LookUp) -> Truth | Absence:
    """When a condition holds and when it fails; else it is unknown."""
    match node:
        case Compared():
            left, right = value(layout, node.left, look_up), value(layout, node.right, look_up)
            if isinstance(left, Absence) or isinstance(right, Absence):
                return ABSENT
            return _compared(layout, node.op, left, right)
        case Denied():
            inner = truth(layout, node.of, look_up)
            return inner if isinstance(inner, Absence) else Truth(inner.fails, inner.holds)
        case Logical():
            one, other = truth(layout, node.left, look_up), truth(layout, node.right, look_up)
            if isinstance(one, Absence) or isinstance(other, Absence):
                return other if isinstance(one, Absence) else one
            if node.op == "AND":
                return Truth(both(one.holds, other.holds), either(one.fails, other.fails))
            return Truth(either(one.holds, other.holds), both(one.fails, other.fails))
    raise NotCompiledError("this is no condition")


def _compared(layout: WordLayout, op: str, left: Value, right: Value) -> Truth:
    known = negated(either(left.null, right.null))
    if known == "False":
        return Truth("False", "False")
    kinds = {left.kind, right.kind}
    if "text" in kinds and (len(kinds) > 1 or op not in ("=", "!=")):
        raise NotCompiledError("a comparison of texts that is not about being equal")
    if "float" in kinds and len(kinds) > 1:
        left, right = limited(layout, left, EXACT), limited(layout, right, EXACT)
    text = f"({left.text} {'==' if op == '=' else op} {right.text})"
    return Truth(both(known, text), both(known, negated(text)))


def holding(layout: WordLayout, conditions: Any, look_up: LookUp) -> str:
    """The text of: all of some conditions hold, or say nothing because all of it is about absent operands."""
    asked = [truth(layout, each, look_up) for each in conditions]
    return both(*(each.holds for each in asked if isinstance(each, Truth)))
