"""Constraints as Gu 2011 writes them, around a pattern: Partition, Within, TCons, VCons and Continuity.

    Within(Continuity(SEQ(A a, B b), ALL), 1 s, 5 s)     VCons(A a, a.v > 3)     Partition(SEQ(A, B), id)

Around the whole pattern they are clauses, around an event conditions at its leaf; so nothing here is a node of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from tocsin.errors import Problem
from tocsin.lang.patterns import PatternReader
from tocsin.lang.syntax import (
    Binary,
    Call,
    ContinuityClause,
    Duration,
    Expr,
    Leaf,
    Literal,
    Name,
    OpenWindow,
    Pattern,
    Query,
)
from tocsin.lang.tokens import ANY_WORD, Token

Constraint: TypeAlias = "Expr | OpenWindow | ContinuityClause | tuple[str, ...]"  # names: attributes of the key
AROUND_ALL = "name the inner part with QUERY, and use that name as an event type"


class ConstraintReader(PatternReader):
    """Reads constraints. `constraints` are those around the whole pattern of the query that is being read."""

    def __init__(self, text: str, names: Iterable[str] = ()) -> None:
        super().__init__(text, names)
        self.constraints: list[tuple[Constraint, Token]] = []

    def constraint(self, host: str) -> Pattern:
        start = self.take()
        self.take()
        self.deeper()
        inner = self.item(host)
        self.level -= 1
        self.expect_op(",", f"and what it asks, in {start.text}")
        found = self._asked(start)
        if host == "query":
            self.constraints.append((found, start))
            return inner
        if isinstance(inner, Leaf) and not isinstance(found, (ContinuityClause, tuple)):
            called: Expr = Name(inner.var or inner.type or ANY_WORD, span=inner.span)
            where = _length(called, found) if isinstance(found, OpenWindow) else found
            return replace(inner, where=joined(inner.where, where), span=self.since(start))
        what = "the whole pattern" if isinstance(inner, Leaf) else "the whole pattern, or around one event"
        self.note(Problem(f"{start.text} stands around {what}", start.span, hint=AROUND_ALL))
        return inner

    def _asked(self, start: Token) -> Constraint:
        """What stands behind the pattern, up to the closing bracket."""
        match start.word:
            case "PARTITION":
                return tuple(self.list_of(")", lambda: self.name("an attribute name")))
            case "CONTINUITY":
                if self.token.word == "ALL" and self._is_op_at(self.at + 1, ")"):
                    self.at += 2
                    return self.continuity_of(start, ())
                return self.continuity_of(start, self._types(start))
            case "WITHIN":
                return self.open_window(start)
            case "TCONS" if self._is_form(self.at, "WITHIN"):
                self.at += 2
                found = self.open_window(start)
                self.expect_op(")", "after TCons")
                return found
        where = self.predicates()
        self.expect_op(")", f"after the condition of {start.text}")
        return where

    def constrained(self, query: Query) -> Query:
        """The query with the constraints around its pattern, the innermost first."""
        for found, start in self.constraints:
            match found:
                case tuple():
                    query = replace(query, partition=tuple(dict.fromkeys((*query.partition, *found))))
                    continue
                case OpenWindow() if query.between is None:
                    query = replace(query, between=found)
                    continue
                case ContinuityClause() if query.continuity is None:
                    query = replace(query, continuity=found)
                    continue
                case OpenWindow() | ContinuityClause():
                    self.note(Problem(f"a second {start.text}", start.span, hint="leave one of them out"))
                    continue
            query = replace(query, where=joined(query.where, found))
        return query

    def given_before(self, clause: str, query: Query) -> str | None:
        """What a clause would give a second time."""
        match clause:
            case "WITHIN" if query.within is not None or query.between is not None:
                return "the window"
            case "PARTITION" if query.partition:
                return "the partition"
            case "CONTINUITY" if query.continuity is not None:
                return "the continuity"
        return None

    def open_window(self, start: Token) -> OpenWindow:
        """`1 s, 5 s)`: longer than the one and shorter than the other."""
        zero = self.token
        if zero.kind == "number" and zero.value == 0:
            self.take()
            more = Duration(0, self.unit() if self.is_unit() else None, span=self.since(zero))
        else:
            more = self.duration("the length that it must exceed")
        self.expect_op(",", "between the two lengths")
        less = self.duration("the length that it must stay below")
        self.expect_op(")", "after the two lengths")
        return OpenWindow(more, less, span=self.since(start))

    def named_types(self) -> tuple[str, ...]:
        """`ALL` or `OF (C, D)`, behind CONTINUITY."""
        if self.accept_word("ALL"):
            return ()
        self.take()
        self.expect_op("(", "after CONTINUITY OF")
        return self._types(self.last)

    def _types(self, start: Token) -> tuple[str, ...]:
        found = tuple(self.list_of(")", self.type_name))
        if not found:
            self.note(Problem("continuity needs a type, or ALL", self.since(start), hint="CONTINUITY OF (C, D)"))
        return found

    def continuity_of(self, start: Token, types: tuple[str, ...]) -> ContinuityClause:
        if "" in types:
            hint = "CONTINUITY ALL lets no other type come between; STRATEGY strict lets nothing"
            self.note(Problem("ANY is no type that could come between", self.since(start), hint=hint))
        return ContinuityClause(tuple(dict.fromkeys(types)), span=self.since(start))


def joined(one: Expr | None, other: Expr) -> Expr:
    """The conjunction of what was said so far and more."""
    return other if one is None else Binary("AND", one, other, span=other.span)


def _length(called: Expr, window: OpenWindow) -> Expr:
    """The condition that an event is longer than the one and shorter than the other."""
    length = Binary("-", Call("end", (called,)), Call("start", (called,)))
    low = Binary(">", length, as_value(window.more), span=window.span)
    return Binary("AND", low, Binary("<", length, as_value(window.less), span=window.span), span=window.span)


def as_value(length: Duration) -> Expr:
    """A length of time as an expression has it: without a unit it is a number."""
    return Literal(length.amount) if length.unit is None else length
