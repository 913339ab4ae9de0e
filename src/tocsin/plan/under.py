"""The bound form of UNDER: constraints whose conditions are typed, in one schema with the query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from tocsin.lang.constraint_syntax import Constraint, start_of
from tocsin.lang.syntax import Repeat
from tocsin.plan.expr import Bound, Col, walk

TRACE = "#trace"  # the number of the trace among those of its key: it joins the key of a query where traces are divided


@dataclass(frozen=True, slots=True)
class OneEvent:
    """An event of a type for which all tests are TRUE; in them the event is leaf 0, called by its type."""

    type: str
    where: tuple[Bound, ...] = ()
    starts: bool = False  # its start is meant, and not its end

    @property
    def letter(self) -> str:
        """What is read where it stands: the type, or the start of one."""
        return start_of(self.type) if self.starts else self.type


@dataclass(frozen=True, slots=True)
class OneOf:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class InTurn:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Often:
    part: Expression
    repeat: Repeat


Expression: TypeAlias = "OneEvent | OneOf | InTurn | Often"


def events_of(expression: Expression) -> Iterator[OneEvent]:
    """The symbols of an expression."""
    match expression:
        case OneEvent():
            yield expression
        case OneOf(parts) | InTurn(parts):
            for part in parts:
                yield from events_of(part)
        case Often(part):
            yield from events_of(part)


@dataclass(frozen=True, slots=True)
class BoundConstraint:
    """A constraint as it was written, and its expression with bound conditions."""

    written: Constraint
    expression: Expression

    @property
    def name(self) -> str:
        return self.written.name

    def sees(self, letter: str) -> bool:
        """Whether the constraint is about events of a type, or about their starts."""
        return self.written.sees(letter)


@dataclass(frozen=True, slots=True)
class UnderForm:
    """The constraints of a query: they have one key, and divide traces in one way.

    timeout  in ticks
    """

    constraints: tuple[BoundConstraint, ...]
    checked: bool
    timeout: int | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return self.constraints[0].written.key

    @property
    def ends(self) -> tuple[str, ...]:
        return self.constraints[0].written.ends

    @property
    def divides(self) -> bool:
        return self.constraints[0].written.divides

    @property
    def ties(self) -> bool:
        return any(constraint.written.ties for constraint in self.constraints)

    @property
    def starts(self) -> tuple[str, ...]:
        """The types of whose events any of the constraints sees the start, too."""
        return tuple(dict.fromkeys(type for each in self.constraints for type in each.written.starts))

    @property
    def types(self) -> tuple[str, ...] | None:
        """The types that any of the constraints sees; None: every type."""
        found: dict[str, None] = {}
        for constraint in self.constraints:
            alphabet = constraint.written.alphabet
            if alphabet is None:
                return None
            found |= dict.fromkeys(alphabet)
        return tuple(found)

    def attrs(self, type: str) -> set[str]:
        """The attributes that it asks of events of a type."""
        symbols = (symbol for each in self.constraints for symbol in events_of(each.expression) if symbol.type == type)
        nodes = (node for symbol in symbols for test in symbol.where for node in walk(test))
        return {*self.key, *(node.attr for node in nodes if isinstance(node, Col))}

    def identity(self, fingerprint: str) -> str:
        """32 hex digits of a query under these constraints."""
        said = [str(constraint.written) for constraint in self.constraints]
        return blake2b(repr((fingerprint, said, self.checked)).encode(), digest_size=16).hexdigest()

    @property
    def mentioned(self) -> tuple[str, ...]:
        """The types that it names; with `ON *` it sees others, too."""
        named = (each.written.types + (each.written.alphabet or each.written.ends) for each in self.constraints)
        return tuple(dict.fromkeys(type for types in named for type in types))
