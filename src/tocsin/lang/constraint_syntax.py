"""The syntax nodes of a constraint: a regular expression over event types, and what makes events one trace.

    CONSTRAINT name [ON Type, ... | ON *] [PARTITION BY attr, ...] AS regex [ENDS Type, ...] [TIMEOUT d] [TIES ANY]

Paper: Li 2010, 3.2. Nodes are frozen, hashable, and compared without their place in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tocsin.lang.syntax import Duration, Expr, Repeat, Span


def _place() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Symbol:
    """`Type` or `Type[condition]`: one event. In the condition `x` is `Attr(type, x)`.

    An event with a length stands where it ends. `Type^-` is its start, `Type^+` says that its end is meant.
    """

    type: str
    where: Expr | None = None
    at: str = ""  # "-" or "+", as it was written
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """`r | s`"""

    parts: tuple[Regex, ...]
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Concat:
    """`r s t`, one after the other; without parts it is the empty word."""

    parts: tuple[Regex, ...] = ()
    span: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Repeated:
    """`r*`, `r+`, `r?` (Repeat(0, 1)), `r{2,4}`"""

    part: Regex
    repeat: Repeat
    span: Span | None = _place()


Regex: TypeAlias = "Symbol | AnyOf | Concat | Repeated"


@dataclass(frozen=True, slots=True)
class Constraint:
    """In which order the events of a trace can come.

    on     the types that it is about; None: those of the expression; empty: every type (`ON *`)
    key    the attributes whose values tell traces apart
    ends   an event of these types is the last of its trace
    ties   events of one time may stand in any order; otherwise no two events of a trace have one time
    """

    name: str
    regex: Regex
    on: tuple[str, ...] | None = None
    key: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    timeout: Duration | None = None
    ties: bool = False
    span: Span | None = _place()
    text: str = field(default="", compare=False, repr=False, kw_only=True)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the expression."""
        return tuple(dict.fromkeys(symbol.type for symbol in symbols_of(self.regex)))

    @property
    def starts(self) -> tuple[str, ...]:
        """The types of whose events it sees the start, too."""
        return tuple(dict.fromkeys(symbol.type for symbol in symbols_of(self.regex) if symbol.at == "-"))

    def sees(self, letter: str) -> bool:
        """Whether it is about events of a type, or about their starts (`start_of`)."""
        if is_start(letter):
            return whole_of(letter) in self.starts
        return self.alphabet is None or letter in self.alphabet

    @property
    def alphabet(self) -> tuple[str, ...] | None:
        """The types that it sees; None: every type."""
        if self.on == ():
            return None
        return tuple(dict.fromkeys((*(self.types if self.on is None else self.on), *self.ends)))

    @property
    def divides(self) -> bool:
        """Whether one value of the key may have several traces, one after the other."""
        return bool(self.ends) or self.timeout is not None

    def __str__(self) -> str:
        from tocsin.lang.constraint_printer import print_constraint

        return print_constraint(self)


@dataclass(frozen=True, slots=True)
class UnderClause:
    """`UNDER name, ... [CHECKED | TRUSTED]`: the constraints of a query.

    checked  nothing is released early, and every violation is found
    """

    constraints: tuple[Constraint, ...]
    checked: bool = False
    span: Span | None = _place()


START = "\x00^-"


def start_of(type: str) -> str:
    """What the starts of events of a type are called, where ends have the name of the type."""
    return type + START


def is_start(letter: str) -> bool:
    return letter.endswith(START)


def whole_of(letter: str) -> str:
    """The type of events whose start or end a letter is."""
    return letter.removesuffix(START)


def symbols_of(regex: Regex) -> Iterator[Symbol]:
    """The symbols of an expression in the order of the text."""
    match regex:
        case Symbol():
            yield regex
        case AnyOf(parts) | Concat(parts):
            for part in parts:
                yield from symbols_of(part)
        case Repeated(part):
            yield from symbols_of(part)
