"""Constraints as text: `CONSTRAINT name AS A+ (B | C[x = 1])*`, and the clause `UNDER name` of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

from tocsin.errors import Problem
from tocsin.lang.constraint_syntax import AnyOf, Concat, Constraint, Regex, Repeated, Symbol, UnderClause
from tocsin.lang.constraints import joined
from tocsin.lang.cursor import ReadError, shown, similar
from tocsin.lang.derived_parser import IntervalReader
from tocsin.lang.syntax import Attr, Duration, Name, Query, Repeat, Span
from tocsin.lang.tokens import ANY_WORD

MOST_SYMBOLS = 5000  # of an expression, with {n,m} written out
FORMS = "the forms are A, A[x = 1], A^-, A^+, (r), r s, r | s, r*, r+, r?, r{2}, r{2,} and r{2,4}"
TAILS = ("ENDS", "TIMEOUT", "TIES")
T = TypeVar("T")


class EventConstraintReader(IntervalReader):
    """Reads constraints, and which of them a query is under."""

    def __init__(self, text: str, names: Iterable[str] = ()) -> None:
        super().__init__(text, names)
        self.known: dict[str, Constraint] = {}  # the constraints of the text, and those given with it
        self.used: set[str] = set()
        self._broken: set[str] = set()  # those that could not be read

    def event_constraint(self) -> None:
        """`CONSTRAINT ...`: it is known from here on."""
        start = self.take()
        self._broken.add(self.token.text)
        try:
            found = self._event_constraint()
        except ReadError as fault:
            self.recover(fault, 0)
            self.skip((";",), closers=False)
            return
        self._broken.discard(found.name)
        found = replace(found, span=self.since(start), text=self.text)
        if self.known.setdefault(found.name, found) != found:
            hint = "a name stands for one constraint in a text"
            self.note(Problem(f"a second constraint {found.name}", found.span, hint=hint))

    def _event_constraint(self) -> Constraint:
        name = self.name("the name of the constraint")
        on: tuple[str, ...] | None = None
        key: tuple[str, ...] = ()
        if self.accept_word("ON"):
            on = () if self.accept_op("*") else self._listed(self._event_type)
        if self.accept_word("PARTITION"):
            self.expect_word("BY", "after PARTITION")
            key = self._listed(lambda: self.name("an attribute name"))
        self.expect_word("AS", f"after the name {name} and its clauses")
        regex = self._regex()
        if size(regex) > MOST_SYMBOLS:
            detail = f"written out it has {size(regex):,} symbols, more than {MOST_SYMBOLS:,}"
            self.note(Problem("this expression is too large", regex.span, detail, "repeat with * or + instead"))
        ends, timeout, ties = self._tails()
        if self.token.kind != "end" and not self.is_op(";"):
            meant = similar(self.token, TAILS)
            raise self.fault(f"unexpected {shown(self.token)} in a constraint",
                             hint=f"did you mean {meant}?" if meant else FORMS)  # fmt: skip
        return Constraint(name, regex, on, key, ends, timeout, ties)

    def _tails(self) -> tuple[tuple[str, ...], Duration | None, bool]:
        """`ENDS Type, ...`, `TIMEOUT d`, `TIES ANY`, in any order, each once."""
        ends: tuple[str, ...] = ()
        timeout: Duration | None = None
        seen: set[str] = set()
        while self.is_word(*TAILS):
            word = self.take().word
            if word in seen:
                self.note(Problem(f"a second {word}", self.last.span, hint="a constraint has one of each"))
            seen.add(word)
            if word == "ENDS":
                ends = self._listed(self._event_type)
            elif word == "TIMEOUT":
                timeout = self.duration("how long a trace may pause", "TIMEOUT")
            else:
                self.expect_word(ANY_WORD, "after TIES")
        return ends, timeout, "TIES" in seen

    # --- regular expressions ---

    def _regex(self) -> Regex:
        start = self.token
        parts = [self._regex_chain()]
        while self.accept_op("|"):
            parts.append(self._regex_chain())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts), span=self.since(start))

    def _regex_chain(self) -> Regex:
        start = self.token
        parts: list[Regex] = []
        while self._at_symbol():
            parts.append(self._regex_repeated())
        if not parts:
            raise self.fault(f"expected an event type, found {shown(self.token)}", hint=FORMS)
        return parts[0] if len(parts) == 1 else Concat(tuple(parts), span=self.since(start))

    def _at_symbol(self) -> bool:
        if self.is_op("("):
            return True
        return self.token.kind == "quoted" or (self.token.kind == "name" and not self.is_word(*TAILS))

    def _regex_repeated(self) -> Regex:
        start = self.token
        found = self._regex_atom()
        while self.is_op("*", "+", "?", "{"):
            repeat = Repeat(0, 1) if self.accept_op("?") else self.repetition()
            assert repeat is not None
            found = Repeated(found, repeat, span=self.since(start))
        return found

    def _regex_atom(self) -> Regex:
        start = self.token
        if self.accept_op("("):
            self.deeper()
            if self.accept_op(")"):
                found: Regex = Concat(())
            else:
                found = self._regex()
                self.expect_op(")", "to close the bracket")
            self.level -= 1
            return found
        type = self._event_type()
        where, at = None, ""
        if self.accept_op("^"):
            at = "-" if self.accept_op("-") else "+"
            if at == "+":
                self.expect_op("+", "behind ^: A^- is the start of an A, A^+ its end")
        if self.accept_op("["):
            self.deeper()
            where = self.expr()
            while self.accept_op(","):
                where = joined(where, self.expr())
            self.expect_op("]", "behind the condition")
            self.level -= 1
            where = _of_event(where, type)
        return Symbol(type, where, at, span=self.since(start))

    def _event_type(self) -> str:
        found = self.type_name()
        if not found:
            self.note(Problem("ANY is no type of a constraint", self.last.span, hint="ON * makes it see every type"))
        return found

    def _listed(self, one: Callable[[], T]) -> tuple[T, ...]:
        found = [one()]
        while self.accept_op(","):
            found.append(one())
        return tuple(found)

    # --- the clause of a query ---

    def under(self, query: Query) -> Query:
        """`UNDER name, ... [CHECKED | TRUSTED]`, whose first word was just read."""
        start = self.last
        found: list[Constraint] = []
        while True:
            token = self.token
            name = self.name("the name of a constraint")
            constraint = self.known.get(name)
            if constraint is None and name not in self._broken:
                known = ", ".join(self.known) or "none"
                hint = f"the text has {known}; write CONSTRAINT {name} AS ...; above the query"
                self.note(Problem(f"there is no constraint {name} above", token.span, hint=hint))
            elif constraint in found:
                self.note(Problem(f"{name} is named twice", token.span))
            elif constraint is not None:
                found.append(constraint)
                self.used.add(name)
            if not self.accept_op(","):
                break
        checked = self.accept_word("CHECKED")
        if not checked:
            self.accept_word("TRUSTED")
        return replace(query, under=UnderClause(tuple(found), checked, span=self.since(start)))


def size(regex: Regex) -> int:
    """How many symbols an expression has when its repetitions are written out."""
    match regex:
        case AnyOf(parts) | Concat(parts):
            return sum(map(size, parts))
        case Repeated(part, repeat):
            return size(part) * max(1, repeat.least, repeat.most or 0)
    return 1


def _of_event(node: Any, type: str) -> Any:
    """A condition whose bare names are attributes of the event."""
    match node:
        case Name(name):
            return Attr(type, name, span=node.span)
        case tuple():
            return tuple(_of_event(each, type) for each in node)
    if isinstance(node, Span) or not hasattr(node, "__dataclass_fields__"):
        return node
    return replace(node, **{each.name: _of_event(getattr(node, each.name), type) for each in fields(node)})
