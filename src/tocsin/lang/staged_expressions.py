"""Expressions of staged statements: conditions, arithmetic, aggregates and collections, read by precedence."""

from __future__ import annotations

from tocsin.errors import Problem
from tocsin.lang.cursor import Cursor, ReadError, shown, similar
from tocsin.lang.staged_syntax import (
    AGGREGATE_FUNCTIONS,
    AggregateOf,
    Arithmetic,
    AttrOf,
    Collection,
    Compared,
    Denied,
    EventsOf,
    IfNull,
    Logical,
    Negative,
    StableTime,
    StagedExpr,
    TimeOf,
    UnionOf,
)
from tocsin.lang.staged_tokens import RESERVED, staged_tokens
from tocsin.lang.syntax import Duration, Literal
from tocsin.lang.tokens import UNIT_NAMES

COMPARING = ("=", "!=", "<", ">", "<=", ">=")
AGGREGATE_WORDS = {name.upper(): name for name in AGGREGATE_FUNCTIONS}
TIME_WORDS = ("START-TS", "END-TS", "SST")
CONDITIONS = (Compared, Logical, Denied)


class StagedExpressionReader(Cursor):
    """Reads expressions from the tokens of one statement."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.tokens, self.problems = staged_tokens(text, start, end)
        self.at = 0
        self.level = 0
        self.angled = False  # inside < >: a `>` that no operand follows closes

    def ends_here(self, index: int | None = None) -> bool:
        return self.tokens[self.at if index is None else index].kind == "end"

    def name(self, what: str) -> str:
        token = self.token
        if token.kind not in ("name", "quoted"):
            raise self.fault(f"expected {what}, found {shown(token)}")
        if token.word in RESERVED:
            hint = f"to use it as a name, write `{token.text}` in back-quotes"
            raise self.fault(f"expected {what}, found {token.word}", hint=hint)
        return self.take().text

    # --- conditions ---

    def condition(self) -> StagedExpr:
        """A condition: something that holds or does not."""
        start = self.token
        found = self.expression()
        if not isinstance(found, CONDITIONS):
            hint = "compare it with something: = != < > <= >="
            raise ReadError(Problem("this is a value, not a condition", self.since(start), hint=hint))
        return found

    def value(self) -> StagedExpr:
        """A value, not a condition."""
        start = self.token
        found = self.expression()
        if isinstance(found, CONDITIONS):
            raise ReadError(Problem("this is a condition, not a value", self.since(start)))
        return found

    def expression(self) -> StagedExpr:
        self.deeper()
        start = self.token
        found = self._conjunction()
        while self.accept_word("OR"):
            found = Logical("OR", self._asked(found), self._asked(self._conjunction()), span=self.since(start))
        self.level -= 1
        return found

    def _conjunction(self) -> StagedExpr:
        start = self.token
        found = self._denial()
        while self.accept_word("AND"):
            found = Logical("AND", self._asked(found), self._asked(self._denial()), span=self.since(start))
        return found

    def _denial(self) -> StagedExpr:
        start = self.token
        if not self.accept_word("NOT"):
            return self._comparison()
        self.deeper()
        found = Denied(self._asked(self._denial()), span=self.since(start))
        self.level -= 1
        return found

    def _comparison(self) -> StagedExpr:
        start = self.token
        left = self._sum()
        if not self._compares():
            return left
        op = self.take().text
        right = self._sum()
        for side in (left, right):
            self._valued(side)
        return Compared(op, left, right, span=self.since(start))  # type: ignore[arg-type]

    def _compares(self) -> bool:
        """Whether a comparison stands here; inside < > a `>` compares only if an operand follows."""
        if not self.is_op(*COMPARING):
            return False
        if self.token.text != ">" or not self.angled:
            return True
        following = self.peek()
        if following.kind == "op":
            return following.text in ("(", "-")
        return following.kind != "end" and (following.word not in RESERVED or following.word in ("TRUE", "FALSE"))

    def _asked(self, node: StagedExpr) -> StagedExpr:
        if not isinstance(node, CONDITIONS):
            raise ReadError(Problem("this is a value, not a condition", node.span, hint="compare it with something"))
        return node

    def _valued(self, node: StagedExpr) -> StagedExpr:
        if isinstance(node, CONDITIONS):
            raise ReadError(Problem("this is a condition, not a value", node.span))
        return node

    # --- values ---

    def _sum(self) -> StagedExpr:
        start = self.token
        found = self._product()
        while self.is_op("+", "-"):
            op = self.take().text
            found = Arithmetic(op, self._valued(found), self._valued(self._product()), span=self.since(start))  # type: ignore[arg-type]
        return found

    def _product(self) -> StagedExpr:
        start = self.token
        found = self._signed()
        while self.is_op("*", "/"):
            op = self.take().text
            found = Arithmetic(op, self._valued(found), self._valued(self._signed()), span=self.since(start))  # type: ignore[arg-type]
        return found

    def _signed(self) -> StagedExpr:
        start = self.token
        if not self.accept_op("-"):
            return self._primary()
        self.deeper()
        found = self._valued(self._signed())
        self.level -= 1
        if isinstance(found, Literal) and isinstance(found.value, int) and not isinstance(found.value, bool):
            return Literal(-found.value, span=self.since(start))
        return Negative(found, span=self.since(start))

    def _primary(self) -> StagedExpr:
        token = self.token
        if self.accept_op("("):
            angled, self.angled = self.angled, False
            found = self.expression()
            self.expect_op(")", "to close the bracket")
            self.angled = angled
            return found
        if token.kind in ("number", "text") or token.word in ("TRUE", "FALSE", "NULL"):
            return self.literal()
        if self.accept_word("STABLE-TIME"):
            return StableTime(span=token.span)
        if token.kind == "name" and self._is_call():
            return self._call()
        return self._attribute()

    def literal(self) -> Literal:
        start = self.token
        negative = self.accept_op("-")
        token = self.take()
        if token.kind == "number":
            return Literal(-token.value if negative else token.value, span=self.since(start))
        if token.kind == "text" and not negative:
            return Literal(token.text, span=token.span)
        if token.word in ("TRUE", "FALSE", "NULL") and not negative:
            return Literal({"TRUE": True, "FALSE": False, "NULL": None}[token.word], span=token.span)
        raise self.fault(f"expected a number or a text, found {shown(token)}", token)

    def _is_call(self) -> bool:
        return self.peek().kind == "op" and self.peek().text == "("

    def _call(self) -> StagedExpr:
        start = self.take()
        word = start.word
        self.expect_op("(", "after the function")
        if word in AGGREGATE_WORDS:
            found: StagedExpr = AggregateOf(AGGREGATE_WORDS[word], self._collection(word == "COUNT"))
        elif word in TIME_WORDS:
            found = TimeOf(word.lower(), self.name("the name of an operand"))  # type: ignore[arg-type]
        elif word == "IS-NULL":
            found = self._if_null()
        else:
            known = (*AGGREGATE_WORDS, *TIME_WORDS, "IS-NULL")
            meant = similar(start, known)
            hint = f"did you mean {meant}?" if meant else "there are Max Min Sum Avg Median Count, start-ts end-ts sst"
            raise self.fault(f"there is no function {start.text}", start, hint=hint)
        self.expect_op(")", f"to close {start.text}(")
        return _placed(found, self, start)

    def _if_null(self) -> IfNull:
        of = self._attribute()
        self.expect_op(",", "between the two parts of Is-Null")
        return IfNull(of, self.literal())

    def _attribute(self) -> AttrOf:
        start = self.token
        name = self.name("an attribute, such as A.x")
        if not self.accept_op("."):
            return AttrOf(None, name, span=start.span)
        return AttrOf(name, self.any_word("the name of an attribute"), span=self.since(start))

    # --- collections ---

    def _collection(self, counts: bool) -> Collection | UnionOf:
        start = self.token
        found: Collection | UnionOf = self._part(counts)
        while self.accept_word("UNION"):
            found = UnionOf(found, self._part(counts), span=self.since(start))
        return found

    def _part(self, counts: bool) -> Collection:
        start = self.token
        if start.word in ("SET", "BAG") and self.peek().text != ".":
            self.take()
            bracket = self.accept_op("(")
            found = self._member(counts)
            if bracket:
                self.expect_op(")", f"to close {start.text}(")
            return Collection(found, "Set" if start.word == "SET" else "Bag", span=self.since(start))
        return Collection(self._member(counts), span=self.since(start))

    def _member(self, counts: bool) -> AttrOf | IfNull | EventsOf | AggregateOf:
        start = self.token
        if self._is_call():
            found = self._call()
            if not isinstance(found, (IfNull, AggregateOf)):
                raise ReadError(Problem("only an attribute can be collected here", self.since(start)))
            return found
        found = self._attribute()
        if found.name is not None:
            return found
        if not counts:
            hint = f"write the attribute: {found.attr}.x; only Count counts events themselves"
            raise ReadError(Problem("an aggregate needs an attribute", found.span, hint=hint))
        return EventsOf(found.attr, span=found.span)

    # --- durations ---

    def duration(self) -> Duration:
        """A length of time: a number, with a unit or in the unit of the times."""
        start = self.token
        if start.kind != "number" or start.value <= 0:
            hint = "write 5 mins, 24 hrs, 10 s, or a number in the unit of the times"
            raise self.fault(f"expected a length of time, found {shown(start)}", hint=hint)
        self.take()
        unit = self.token.text.lower()
        if self.token.kind == "name" and unit in UNIT_NAMES:
            self.take()
            return Duration(start.value, UNIT_NAMES[unit], span=self.since(start))
        return Duration(start.value, None, span=start.span)

    def whole(self, what: str, least: int = 1) -> int:
        token = self.token
        if token.kind != "number" or not isinstance(token.value, int) or token.value < least:
            raise self.fault(f"expected {what}, a whole number of at least {least}, found {shown(token)}")
        return int(self.take().value)


def _placed(node: StagedExpr, reader: StagedExpressionReader, start: object) -> StagedExpr:
    from dataclasses import replace

    return replace(node, span=reader.since(start))  # type: ignore[arg-type]
