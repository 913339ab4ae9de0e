"""Expressions: SQL scalars over `var.attr`, read by precedence climbing.

    OR  <  AND  <  NOT  <  = <> < <= > >= IN BETWEEN LIKE IS  <  ||  <  + -  <  * / %  <  unary minus

Comparisons do not chain. A minus directly before a number belongs to the number, so that the smallest 64-bit integer
can be written.
"""

from __future__ import annotations

from decimal import Decimal

from tocsin.errors import Problem
from tocsin.lang.cursor import Cursor, GiveUpError, shown, similar
from tocsin.lang.syntax import (
    DISTINCT,
    EVERYTHING,
    MEMBER,
    Attr,
    Between,
    Binary,
    Call,
    CaseWhen,
    Duration,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Relates,
    Same,
    Unary,
    children,
)
from tocsin.lang.tokens import (
    CLAUSES,
    INT64_LIMIT,
    INTERVAL_CLAUSES,
    KEYWORDS,
    LATER,
    SELECTING,
    UNIT_NAMES,
    VERBS,
    Token,
)

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
PRECEDENCE = {
    "OR": 1,
    "AND": 2,
    "NOT": 3,
    **dict.fromkeys((*COMPARISONS, "IN", "BETWEEN", "LIKE", "IS", "OVERLAPS"), 4),
    "||": 5,
    **dict.fromkeys(("+", "-"), 6),
    **dict.fromkeys(("*", "/", "%"), 7),
    "minus": 8,
}
COMPARISON = PRECEDENCE["="]
OPERAND = PRECEDENCE["||"]  # what stands beside a comparison

CASTS = {
    **dict.fromkeys(("INT", "INTEGER", "BIGINT"), "int"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "REAL"), "float"),
    **dict.fromkeys(("TEXT", "STRING", "VARCHAR"), "text"),
}
CASE_WORDS = ("WHEN", "THEN", "ELSE", "END")
RELATES = "OVERLAPS"  # stands for all verbs between two variables
INFIX_WORDS = ("AND", "OR", "IN", "BETWEEN", "LIKE", "IS", "NOT")
VALUES = ("name", "quoted", "number", "text")  # kinds of tokens with which a value begins
NO_UNITS = {*SELECTING, *INTERVAL_CLAUSES, "SKIP", "EVERY", "FOR", "UNTIL", "TIMEOUT", "EARLY"}
MOST_COPIES = 20_000  # nodes that CASE x WHEN ... may add by repeating x


class ExpressionReader(Cursor):
    copies = 0

    def expr(self, least: int = 0) -> Expr:
        """An expression whose operators all bind at least as tightly as `least`."""
        start = self.token
        left = self._prefix(least)
        compared = False
        while True:
            op = RELATES if isinstance(left, Name) and self.relates_at(self.at) else self._infix()
            if not op or PRECEDENCE[op] < least:
                self._check_verb(left)
                return left
            if PRECEDENCE[op] == COMPARISON:
                if compared:
                    raise self.fault("comparisons cannot be chained", hint="write a < b AND b < c")
                left, compared = self._comparison(op, left, start), True
            else:
                self.take()
                right = self.expr(PRECEDENCE[op] + 1)
                left, compared = Binary(op, left, right, span=self.since(start)), False

    def predicates(self) -> Expr:
        """Expressions with commas between them: a conjunction."""
        start = self.token
        whole = self.expr()
        while self.is_op(",") and self.predicate_follows():
            self.take()
            whole = Binary("AND", whole, self.expr(), span=self.since(start))
        return whole

    def predicate_follows(self) -> bool:
        """Whether a predicate comes after this comma (and not the next item of a list, or nothing)."""
        following = self.at + 1
        token = self.tokens[following]
        return not self.ends_here(following) and not (token.kind == "op" and token.text in (")", ",", ";"))

    # --- operators ---

    def _infix(self) -> str:
        token = self.token
        if token.kind == "op":
            return token.text if token.text in PRECEDENCE else ""
        if token.word == "NOT":
            return self.peek().word if self.peek().word in ("IN", "BETWEEN", "LIKE") else ""
        return token.word if token.word in INFIX_WORDS else ""

    def relates_at(self, index: int) -> int:
        """Where the second variable of `a OVERLAPS b` stands, if a verb stands at a token; else 0."""
        for length in (2, 1):
            words = self.tokens[index : index + length]
            verb = " ".join(token.word.lower() for token in words).replace("_", " ")
            if verb in VERBS and self._names_at(index + length):
                return index + length
        return 0

    def _names_at(self, index: int) -> bool:
        token = self.tokens[min(index, len(self.tokens) - 1)]
        if token.kind == "quoted":
            return True
        return token.kind == "name" and token.word not in KEYWORDS and token.word not in ("MATCH", "FOR", "UNTIL")

    def _check_verb(self, left: Expr) -> None:
        """`a OVERLAPPS b` is a misspelt relation, and `a.v OVERLAPS b` relates a value."""
        if not isinstance(left, Name) and self.token.kind == "name" and self.relates_at(self.at):
            raise self.fault(f"{self.token.word} stands between two variables", hint="a OVERLAPS b")
        if isinstance(left, Name) and self.token.kind == "name" and self._names_at(self.at + 1):
            meant = similar(self.token, [verb.upper() for verb in VERBS])
            if meant is not None and self.token.word not in (*SELECTING, *CLAUSES, *INFIX_WORDS):
                raise self.fault(f"{self.token.text!r} is not an interval relation", hint=f"did you mean {meant}?")

    def _relation_of(self, left: Name, start: Token) -> Expr:
        second = self.relates_at(self.at)
        verb = " ".join(token.word.lower() for token in self.tokens[self.at : second]).replace("_", " ")
        self.at = second
        right = Name(self.name("a variable"), span=self.since(self.tokens[second]))
        if self.is_op("."):
            raise self.fault(f"{verb.upper()} stands between two variables", hint=f"leave .{self.peek().text} out")
        return Relates(left, VERBS[verb], right, span=self.since(start))

    def _comparison(self, op: str, left: Expr, start: Token) -> Expr:
        if op == RELATES and isinstance(left, Name):
            return self._relation_of(left, start)
        negated = self.accept_word("NOT")
        self.take()
        match op:
            case "IN":
                opening = self.expect_op("(", "after IN")
                options = self._nested_list(opening, "IN needs at least one value")
                return In(left, options, negated, span=self.since(start))
            case "BETWEEN":
                low = self.expr(OPERAND)
                self.expect_word("AND", "between the bounds of BETWEEN")
                high = self.expr(OPERAND)
                return Between(left, low, high, negated, span=self.since(start))
            case "LIKE":
                return Like(left, self.expr(OPERAND), negated, span=self.since(start))
            case "IS":
                negated = self.accept_word("NOT")
                self.expect_word("NULL", "after IS")
                return IsNull(left, negated, span=self.since(start))
        right = self.expr(OPERAND)
        return Binary(op, left, right, span=self.since(start))

    def _prefix(self, least: int) -> Expr:
        start = self.token
        if self.is_op("!") or self.is_word("NOT"):
            if least > PRECEDENCE["NOT"]:
                raise self.fault("NOT needs parentheses here", hint="write (NOT ...)")
            self.take()
            return Unary("NOT", self._deeper(PRECEDENCE["NOT"]), span=self.since(start))
        if self.accept_op("-"):
            if self.token.kind == "number":
                return self._negative(start)
            return Unary("-", self._deeper(PRECEDENCE["minus"]), span=self.since(start))
        return self._primary()

    def _deeper(self, least: int = 0) -> Expr:
        self.deeper()
        inner = self.expr(least)
        self.level -= 1
        return inner

    def _negative(self, minus: Token) -> Expr:
        number = self._number(INT64_LIMIT)
        if isinstance(number, Literal):
            value = number.value
            if isinstance(value, int):
                return Literal(-value, span=self.since(minus))
            if isinstance(value, Decimal):
                return Literal(value.copy_negate(), span=self.since(minus))  # exact, whatever the context
        return Unary("-", number, span=self.since(minus))

    # --- operands ---

    def _primary(self) -> Expr:
        token = self.token
        if token.kind == "number":
            return self._number(INT64_LIMIT - 1)
        if token.kind == "text":
            return Literal(self.take().text, span=token.span)
        if token.kind == "op" and token.text == "(":
            return self._parenthesised()
        if token.kind == "op" and token.text == "[":
            return self._same()
        if self._at_call():
            return self._call()
        if token.word == "TIMESTAMP" and token.kind == "name" and self.peek().kind == "text":
            start, text = self.take(), self.take()
            return Call("timestamp", (Literal(text.text, span=text.span),), span=self.since(start))
        match token.word:
            case "TRUE" | "FALSE":
                return Literal(self.take().word == "TRUE", span=token.span)
            case "NULL":
                return Literal(None, span=self.take().span)
            case "CASE":
                return self._case()
            case "CAST":
                return self._cast()
        if token.kind in ("name", "quoted") and token.word not in KEYWORDS:
            return self._reference()
        hint = "the smallest forms are a.x, 5, 'text', f(a.x)" if token.kind == "op" else None
        raise self.fault(f"expected a value, found {shown(token)}", hint=hint)

    def _at_call(self) -> bool:
        """Whether `name(` stands here; END is a keyword, but end(x) is a function."""
        token, following = self.token, self.peek()
        if token.kind not in ("name", "quoted") or (token.word in KEYWORDS and token.word != "END"):
            return False
        return following.kind == "op" and following.text == "("

    def _parenthesised(self) -> Expr:
        opening = self.take()
        inner = self._deeper()
        if not self.accept_op(")"):
            where = f"to close the bracket at column {self._column(opening)}"
            hint = self._infix_hint()
            raise self.fault(f"expected ')' {where}, found {shown(self.token)}", hint=hint)
        return inner

    def _column(self, token: Token) -> int:
        return token.start - self.text.rfind("\n", 0, token.start)

    def _infix_hint(self) -> str | None:
        meant = similar(self.token, INFIX_WORDS)
        return f"did you mean {meant}?" if meant else None

    def _number(self, largest: int) -> Literal | Duration:
        """A number, or a length of time if a unit follows."""
        token = self.take()
        if self.is_unit(*CLAUSES, *INFIX_WORDS, *CASE_WORDS):
            unit = self.unit()
            return Duration(token.value, unit, span=self.since(token))
        if self.is_op(".") and self.peek().kind == "name":
            hint = "a variable starts with a letter; was the letter o meant?" if token.text == "0" else None
            raise self.fault(f"{token.text}.{self.peek().text} is not an attribute", token, hint=hint)
        if isinstance(token.value, int) and token.value > largest:
            self.note(Problem("this integer does not fit into 64 bits", token.span))
        return Literal(token.value, span=token.span)

    def is_unit(self, *words: str) -> bool:
        """Tell whether the next word is meant as a unit of time: a known one, or one that misspells no keyword."""
        token = self.token
        if token.kind != "name" or token.word in KEYWORDS or token.word in LATER:
            return False
        if token.word in NO_UNITS:
            return False
        if self.peek().kind == "op" and self.peek().text in (".", "("):  # 5 a.x: something is missing between them
            return False
        return token.text.lower() in UNIT_NAMES or similar(token, words) is None

    def unit(self) -> str:
        token = self.take()
        unit = UNIT_NAMES.get(token.text.lower())
        if unit is not None:
            return unit
        if token.text.lower() == "m":
            self.note(Problem("the unit m is ambiguous", token.span, hint="write min for minutes, ms for milliseconds"))
        else:
            meant = similar(token, [name.upper() for name in UNIT_NAMES if len(name) > 2])
            hint = f"did you mean {meant.lower()}? " if meant else ""
            hint += "the units are us, ms, s, min, h and d"
            self.note(Problem(f"{token.text!r} is not a unit of time", token.span, hint=hint))
        return "s"

    def _reference(self) -> Expr:
        """`var`, `var.attr`, and `Part.Type.attr` where an unnamed leaf is called by its dotted type."""
        start = self.token
        parts = [self.name("a name")]
        while self.accept_op("."):
            if self.accept_op("*"):
                variable = Name(".".join(parts), span=start.span)
                return Call(EVERYTHING, (variable,), span=self.since(start))
            parts.append(self.any_word("an attribute name"))
        if self.is_op("["):
            return self._member(".".join(parts), start)
        if len(parts) == 1:
            return Name(parts[0], span=start.span)
        return Attr(".".join(parts[:-1]), parts[-1], span=self.since(start))

    def _member(self, variable: str, start: Token) -> Expr:
        """`b[2].v`, `b[-1].v`: an attribute of one member of a repetition."""
        bracket = self.take()
        negative = self.accept_op("-")
        token = self.take()
        if token.kind != "number" or not isinstance(token.value, int):
            hint = f"{variable}[1].x is of the first member, {variable}[-1].x of the last"
            raise self.fault(f"expected the number of a member, found {shown(token)}", token, hint=hint)
        self.expect_op("]", "after the number of a member")
        number = Literal(-token.value if negative else token.value, span=token.span)
        if token.value == 0:
            hint = f"members are counted from {variable}[1], and from the end by {variable}[-1]"
            self.note(Problem("there is no member 0", self.since(bracket), hint=hint))
        self.expect_op(".", f"and an attribute after {variable}[{number.value}]")
        attr = Attr(variable, self.any_word("an attribute name"), span=self.since(start))
        return Call(MEMBER, (attr, number), span=self.since(start))

    def _call(self) -> Expr:
        start = self.token
        if start.word != "END":
            self.name("a function")
        else:
            self.take()
        self.take()
        function = start.text.lower()
        if self.is_op("*"):
            if function != "count":
                raise self.fault(f"{function} of * means nothing", hint="count(*) counts matches; sum(b.x) adds values")
            self.take()
            self.expect_op(")", "to close count(*")
            return Call(function, (), span=self.since(start))
        if function == "count" and self._at_distinct():
            self.take()
            function = DISTINCT
        args = self._nested_list(start, None)
        return Call(function, args, span=self.since(start))

    def _at_distinct(self) -> bool:
        """Whether DISTINCT stands before a value; by itself, before a dot or a bracket it is a name."""
        return self.token.kind == "name" and self.token.word == "DISTINCT" and self.peek().kind in VALUES

    def _nested_list(self, opening: Token, empty: str | None) -> tuple[Expr, ...]:
        before = len(self.problems)
        self.deeper()
        found = self.list_of(")", self.expr)
        self.level -= 1
        if not found and empty and len(self.problems) == before:
            raise self.fault(empty, opening)
        return tuple(found)

    def _same(self) -> Expr:
        start = self.take()
        attrs = self.list_of("]", lambda: self.any_word("an attribute name"))
        if not attrs and not self.problems:
            raise self.fault("[ ] needs at least one attribute", start, hint="[tag]: tag is equal over all variables")
        return Same(tuple(attrs), span=self.since(start))

    def _cast(self) -> Expr:
        start = self.take()
        self.expect_op("(", "after CAST")
        operand = self._deeper()
        self.expect_word("AS", "in CAST")
        token = self.take()
        if token.word not in CASTS:
            hint = "the kinds are INT, FLOAT and TEXT"
            raise self.fault(f"expected a kind after AS, found {shown(token)}", token, hint=hint)
        self.expect_op(")", "after the kind in CAST")
        return Call(CASTS[token.word], (operand,), span=self.since(start))

    # --- CASE ---

    def _case(self) -> Expr:
        start = self.take()
        self.deeper()
        subject = None if self.is_word("WHEN") else self.expr()
        whens = [self._when(subject)]
        while self.is_word("WHEN"):
            whens.append(self._when(subject))
        otherwise = self.expr() if self.accept_word("ELSE") else None
        self.expect_word("END", "at the end of CASE")
        self.level -= 1
        if subject is not None:
            self._count_copies(subject, len(whens) - 1)
        return CaseWhen(tuple(whens), otherwise, span=self.since(start))

    def _when(self, subject: Expr | None) -> tuple[Expr, Expr]:
        self.expect_word("WHEN", "in CASE")
        condition = self.expr() if subject is None else self._equal_to(subject)
        self.expect_word("THEN", "after the condition of WHEN")
        return condition, self.expr()

    def _equal_to(self, subject: Expr) -> Expr:
        value = self.expr(OPERAND)
        return Binary("=", subject, value, span=value.span)

    def _count_copies(self, subject: Expr, times: int) -> None:
        """CASE x WHEN repeats x; nested, that would grow without bound, so the sum is limited."""
        waiting: list[object] = [subject]
        while waiting and times:
            waiting.extend(children(waiting.pop()))
            self.copies += times
            if self.copies > MOST_COPIES:
                raise GiveUpError(
                    Problem("this CASE grows too large", subject.span, hint="write CASE WHEN x = ... THEN")
                )
