"""Staged statements into syntax nodes: `CreateCE name` and its clauses (O'Keeffe 2010, with the forms it prints)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from tocsin.errors import Problem
from tocsin.lang.cursor import CLOSING, OPENING, GiveUpError, ReadError, shown, similar
from tocsin.lang.staged_expressions import StagedExpressionReader
from tocsin.lang.staged_syntax import (
    COUNTING,
    LISTS,
    ONLY,
    OPTIONS,
    TIMED,
    AfterSize,
    DetectPolicy,
    Initiator,
    KeyEntry,
    KeyRange,
    LeafOperand,
    Mode,
    NestedBlock,
    OperatorCall,
    OutputColumn,
    PartitionKey,
    Quantifier,
    StagedExpr,
    StagedPattern,
    Statement,
    Terminator,
)
from tocsin.lang.syntax import Literal
from tocsin.lang.tokens import Token

STATEMENT = "CREATECE"
CLAUSE_WORDS = ("SELECT", "INIT", "EVENT", "WHERE", "TERM", "GKEY", "LKEY", "DETECT")
SPELLINGS = {"GKEYS": "GKEY", "LKEYS": "LKEY"}
OPERATOR_WORDS = {name.upper(): name for name in (*LISTS, *COUNTING, *TIMED)}
MODES = ("IMMEDIATE", "DEFERRED", "DELAYED")
POLICIES = ("BEST-EFFORT", "GUARANTEED", "MP-GUARANTEED", "NFP", "MP-NFP", "NFN")
EXAMPLE = "CreateCE Pair Event And(A, B)"
T = TypeVar("T")


def read_statement(text: str, start: int, end: int) -> tuple[Statement | None, list[Problem]]:
    """The statement in text[start:end], which begins with CreateCE; and everything that is wrong with it."""
    reader = StatementReader(text, start, end)
    found: Statement | None = None
    try:
        found = reader.statement()
    except ReadError as fault:
        if fault.problem not in reader.problems:
            reader.problems.append(fault.problem)
    except RecursionError:
        reader.problems.append(Problem("this is nested too deeply for the stack that is left"))
    return (None if reader.problems else found), reader.problems


class StatementReader(StagedExpressionReader):
    """Reads one statement: its clauses in any order, keys as often as wanted."""

    def statement(self) -> Statement:
        start = self.take()
        found: dict[str, Any] = {"name": self.name("the name of the complex event"), "gkeys": (), "lkeys": ()}
        seen: set[str] = set()
        while self.token.kind != "end":
            try:
                self._clause(found, seen)
            except ReadError as fault:
                if isinstance(fault, GiveUpError):
                    raise
                self.note(fault.problem)
                self.level, self.angled = 0, False
                self._skip_clause()
        if "pattern" not in found and not self.problems:
            raise self.fault("the statement has no Event clause", start, hint=f"write for example: {EXAMPLE}")
        return Statement(**{"pattern": LeafOperand("?"), **found}, span=self.since(start), text=self.text)

    def _skip_clause(self) -> None:
        depth = 0
        while self.token.kind != "end" and (depth > 0 or self._clause_word() is None):
            if self.token.kind == "op":
                depth += (self.token.text in OPENING) - (self.token.text in CLOSING)
            self.at += 1

    def _clause_word(self) -> str | None:
        word = SPELLINGS.get(self.token.word, self.token.word)
        return word if word in CLAUSE_WORDS else None

    def _clause(self, found: dict[str, Any], seen: set[str]) -> None:
        token, word = self.token, self._clause_word()
        if word is None:
            meant = similar(token, CLAUSE_WORDS)
            hint = f"did you mean {meant}?" if meant else "clauses are Select Init Event Where Term GKey LKey DETECT"
            fault = self.fault(f"expected a clause, found {shown(token)}", hint=hint)
            self.at += 1
            raise fault
        if word in seen and word not in ("GKEY", "LKEY"):
            self.note(Problem(f"a second {token.text} clause", token.span, hint="a statement has one of each"))
        seen.add(word)
        self.take()
        if word == "SELECT":
            found["mapping"], found["select"] = self._select()
        elif word == "WHERE":
            found["where"] = self.condition()
        elif word == "DETECT":
            found["policy"] = self._policy()
        else:
            self._shared_clause(word, found)

    def _shared_clause(self, word: str, found: dict[str, Any]) -> None:
        """A clause that blocks have, too."""
        match word:
            case "INIT":
                found["inits"] = tuple(self._listed(self._initiator))
            case "EVENT":
                found["pattern"] = self.operand()
            case "TERM":
                found["terms"] = tuple(self._listed(self._terminator))
            case "GKEY":
                found["gkeys"] = (*found.get("gkeys", ()), self._key())
            case "LKEY":
                found["lkeys"] = (*found.get("lkeys", ()), self._key())

    def _listed(self, one: Callable[[], T]) -> list[T]:
        found = [one()]
        while self.accept_op(","):
            found.append(one())
        return found

    # --- Select, DETECT ---

    def _select(self) -> tuple[str | None, tuple[OutputColumn, ...]]:
        mapping = None
        if self.is_word("TUPLE", "GROUP") and not (self.peek().kind == "op" and self.peek().text in (".", ",")):
            mapping = self.take().text.lower()
        return mapping, tuple(self._listed(self._column))

    def _column(self) -> OutputColumn:
        start = self.token
        expr = self.value()
        name = self.name("the name of the column") if self.accept_word("AS") else None
        return OutputColumn(expr, name, span=self.since(start))

    def _policy(self) -> DetectPolicy:
        start = self.token
        if start.word not in POLICIES:
            raise self.fault(
                f"expected a policy after DETECT, found {shown(start)}", hint=f"one of {', '.join(POLICIES)}"
            )
        policy = DetectPolicy(self.take().word)
        if self.accept_word("TIMEOUT"):
            policy = replace(policy, timeout=self.duration())
        elif self.accept_word("C-LEVEL"):
            level = self.literal()
            if isinstance(level.value, (bool, str)) or level.value is None:
                raise ReadError(Problem("C-LEVEL needs a number", level.span))
            policy = replace(policy, level=level.value)
        return replace(policy, span=self.since(start))

    # --- contexts ---

    def _initiator(self) -> Initiator:
        start = self.token
        if self.is_word("START") and not (self.peek().kind == "op" and self.peek().text == "<"):
            self.take()
            return Initiator(span=start.span)
        found: dict[str, Any] = {"type": self.name("an event type, or Start"), "label": self._label()}
        self._params(found, self._initiator_param)
        return Initiator(**found, span=self.since(start))

    def _initiator_param(self, found: dict[str, Any]) -> None:
        if self._is_param("ADD", "IGNORE"):
            found["add"] = self.take().word == "ADD"
        else:
            self._add_condition(found)

    def _terminator(self) -> Terminator:
        start = self.token
        found: dict[str, Any] = {}
        if start.kind == "number":
            found["after"] = self.duration()
        else:
            found["type"], found["label"] = self.name("an event type, or a duration"), self._label()
        self._params(found, self._terminator_param)
        return Terminator(**found, span=self.since(start))

    def _terminator_param(self, found: dict[str, Any]) -> None:
        if self._is_param("DISCARD"):
            self.take()
            found["discard"] = True
        elif self._is_param("NEW", "OLD", "EACH", "EACH-MATCHING") or (
            "after" in found and self.is_word("NEW", "OLD", "EACH")
        ):
            found["which"] = self.take().word.lower()
            if "after" in found and self.token.kind == "number":
                found["number"] = self.whole("a number of contexts")
        elif "after" in found:
            raise self.fault("a duration takes no condition", hint="it closes the context that it is measured from")
        else:
            self._add_condition(found)

    def _label(self) -> str | None:
        return self.name("a label") if self.accept_word("AS") else None

    # --- parameters in < > ---

    def _params(self, found: dict[str, Any], one: Callable[[dict[str, Any]], None]) -> None:
        if not self.accept_op("<"):
            return
        self.angled = True
        one(found)
        while self.accept_op(","):
            one(found)
        self.angled = False
        self.expect_op(">", "to close the parameters")

    def _is_param(self, *words: str) -> bool:
        """Whether one of the words stands here as a parameter of its own, not as an attribute."""
        following = self.peek()
        return self.is_word(*words) and following.kind == "op" and following.text in (",", ">")

    def _add_condition(self, found: dict[str, Any]) -> None:
        token = self.token
        if token.kind == "text" and self.text[token.start] == '"' and self._closes(self.peek()):
            condition = self._quoted(self.take())
        else:
            condition = self.condition()
        found["conditions"] = (*found.get("conditions", ()), condition)

    def _closes(self, token: Token) -> bool:
        return token.kind == "op" and token.text in (",", ">")

    def _quoted(self, token: Token) -> StagedExpr:
        """A condition in quotes, read in its place; texts inside it are quoted with '."""
        inner = StatementReader(self.text, token.start + 1, token.end - 1)
        self.problems += inner.problems
        found = inner.condition()
        if inner.token.kind != "end":
            raise inner.fault(f"unexpected {shown(inner.token)} in a quoted condition")
        return found

    # --- patterns ---

    def operand(self) -> StagedPattern:
        self.deeper()
        try:
            if self.is_op("{"):
                return self._block()
            if self.is_op("("):
                return self._only()
            following = self.peek()
            if self.token.kind == "name" and following.kind == "op" and following.text == "(":
                return self._operator()
            return self.leaf()
        finally:
            self.level -= 1

    def leaf(self) -> LeafOperand:
        start = self.token
        found: dict[str, Any] = {"type": self.name("an event type or an operator"), "label": self._label()}
        self._params(found, self._leaf_param)
        if self.is_word("AS"):
            if found["label"] is not None:
                raise self.fault("a second label", hint="an operand has one: before or after its parameters")
            found["label"] = self._label()
        self._no_bare_label(found)
        return LeafOperand(**found, span=self.since(start))

    def _no_bare_label(self, found: dict[str, Any]) -> None:
        """`Shelf s`, as a query would name an event: what is meant is plain, and so is what to write."""
        token, following = self.token, self.peek()
        ends = following.kind == "end" or following.text in (",", ")", "<") or following.word in CLAUSE_WORDS
        if token.kind == "name" and self._clause_word() is None and token.word != "AS" and ends:
            hint = f"an operand is named by as: {found['type']} as {token.text}"
            raise self.fault(f"unexpected {shown(token)} behind {found['type']}", hint=hint)

    def _leaf_param(self, found: dict[str, Any]) -> None:
        token, following = self.token, self.peek()
        sized = following.kind == "number" or following.word == "UNBOUNDED"
        if token.word in ("ROWS", "STAGES", "STAGE") and sized:
            self.take()
            unit = "rows" if token.word == "ROWS" else "stages"
            self._once(found, unit, token, None if self.accept_word("UNBOUNDED") else self.whole("a number"))
        elif token.word == "RANGE" and sized:
            self.take()
            self._once(found, "range", token, None if self.accept_word("UNBOUNDED") else self.duration())
        elif self._is_param("CONSUME"):
            self._once(found, "consume", self.take(), True)
        elif self.is_op("!") and following.word == "CONSUME":
            self.take()
            self._once(found, "consume", self.take(), False)
        elif token.word == "WEIGHT" and following.kind == "number":
            self.take()
            self._once(found, "weight", token, self.take().value)
        elif self._is_quantifier():
            self._once(found, "quantifier", token, self._quantifier())
        else:
            self._add_condition(found)

    def _once(self, found: dict[str, Any], name: str, token: Token, value: Any) -> None:
        if name in found:
            raise self.fault(f"a second {name}", token, hint="an operand has one of each parameter")
        found[name] = value

    def _is_quantifier(self) -> bool:
        if self.is_op("+") or self._is_param("ALL"):
            return True
        following = self.peek()
        if self.is_word("MAX"):
            return following.kind == "number"
        return self.is_word("STRICT", "NEW", "OLD") and not (following.kind == "op" and following.text != "+")

    def _quantifier(self) -> Quantifier:
        if self.accept_word("ALL"):
            return Quantifier(every=True)
        strict = self.accept_word("STRICT")
        age = self.take().word.lower() if self.is_word("NEW", "OLD") else "new"
        self.accept_word("ROWS")  # the opposite of `staged`, and so nothing
        if self.accept_word("MAX"):
            most: int | None = self.whole("how many at most")
        elif self.accept_op("+"):
            most = None
        else:
            raise self.fault(f"expected max or + in a quantifier, found {shown(self.token)}", hint="write <old max 1>")
        return Quantifier(False, age, most, strict, self.accept_word("STAGED"))  # type: ignore[arg-type]

    def _how(self) -> tuple[Mode | None, tuple[str, ...]]:
        """What stands in `< >` behind an operator: a mode, and the options of the whole pattern."""
        found: dict[str, Any] = {}
        self._params(found, self._operator_param)
        options = found.get("options", ())
        return found.get("mode"), tuple(each for each in OPTIONS if each in options)

    def _operator_param(self, found: dict[str, Any]) -> None:
        token = self.token
        if token.word in MODES:
            self._once(found, "mode", self.take(), token.word.lower())
        elif token.word.lower() in OPTIONS:
            found["options"] = (*found.get("options", ()), self.take().word.lower())
        else:
            hint = f"or one of {', '.join(OPTIONS)}; windows, quantifiers and conditions belong to its leaves"
            raise self.fault(f"expected immediate, deferred or delayed, found {shown(token)}", hint=hint)

    def _only(self) -> StagedPattern:
        start = self.take()
        inner = self.operand()
        self.expect_op(")", "to close the bracket")
        mode, options = self._how()
        if mode is None and not options:
            return inner
        if not isinstance(inner, LeafOperand):
            raise self.fault("the mode of an operator stands right after it", start, hint="write And(A, B)<deferred>")
        return OperatorCall(ONLY, (inner,), mode, options=options, span=self.since(start))

    def _operator(self) -> OperatorCall:
        start = self.token
        if start.word not in OPERATOR_WORDS:
            meant = similar(start, OPERATOR_WORDS)
            hint = f"did you mean {OPERATOR_WORDS[meant]}?" if meant else f"one of {', '.join(OPERATOR_WORDS.values())}"
            raise self.fault(f"there is no operator {start.text}", hint=hint)
        operator = OPERATOR_WORDS[self.take().word]
        self.take()
        found = self._arguments(operator)
        self.expect_op(")", f"to close {operator}(")
        found["mode"], found["options"] = self._how()
        found["label"] = self._label()
        return OperatorCall(operator, **found, span=self.since(start))

    def _arguments(self, operator: str) -> dict[str, Any]:
        if operator == "At":
            if self.token.kind != "text":
                raise self.fault("At needs a time pattern in quotes", hint='write At("****/**/**/12:00:00.000")')
            return {"pattern": self.take().text}
        if operator == "Every":
            return {"interval": self.duration()}
        if operator == "After":
            return self._after()
        count = None
        if operator in COUNTING:
            count = self.whole(f"the number of {operator}")
            self.expect_op(",", "after the number")
        return {"count": count, "operands": tuple(self._listed(self.operand))}

    def _after(self) -> dict[str, Any]:
        source, size = self.operand(), None
        if self.accept_op("["):
            unit = self.take()
            if unit.word not in ("ROWS", "STAGES"):
                raise self.fault(f"expected rows or stages, found {shown(unit)}", unit, hint="write [rows 1, add]")
            most = self.whole("how many may be pending")
            self.expect_op(",", "after the number")
            word = self.take()
            if word.word not in ("ADD", "IGNORE"):
                raise self.fault(f"expected add or ignore, found {shown(word)}", word, hint="write [rows 1, add]")
            size = AfterSize("rows" if unit.word == "ROWS" else "stages", most, word.word == "ADD")
            self.expect_op("]", "to close the size")
        self.expect_op(",", "before the interval of After")
        return {"operands": (source,), "size": size, "interval": self.duration()}

    def _block(self) -> NestedBlock:
        start = self.take()
        found: dict[str, Any] = {}
        while not self.is_op("}") and self.token.kind != "end":
            word = self._clause_word()
            if word not in ("INIT", "EVENT", "TERM", "GKEY", "LKEY"):
                raise self.fault(
                    f"expected a clause of a block, found {shown(self.token)}", hint="a block has no Where"
                )
            self.take()
            self._shared_clause(word, found)
        self.expect_op("}", "to close the block")
        if "pattern" not in found:
            raise self.fault("the block has no Event clause", start)
        return NestedBlock(**found, span=self.since(start))

    # --- keys ---

    def _key(self) -> PartitionKey:
        start = self.token
        entries = tuple(self._listed(self._entry))
        name = self._label()
        ranges: tuple[KeyRange, ...] = ()
        bracket = self.is_op("(") and self.peek().word == "IN"
        if bracket:
            self.take()
        if self.accept_word("IN"):
            ranges = tuple(self._listed(self._range))
            if bracket:
                self.expect_op(")", "to close the ranges")
        return PartitionKey(entries, name, ranges, span=self.since(start))

    def _entry(self) -> KeyEntry:
        start = self.token
        name = None if self.accept_op("*") else self.name("an operand, or *")
        self.expect_op(".", "between an operand and its attribute")
        return KeyEntry(name, self.any_word("the name of an attribute"), span=self.since(start))

    def _range(self) -> KeyRange:
        start = self.token
        values: tuple[Literal, ...] = ()
        between = None
        if self.accept_op("{"):
            values = tuple(self._listed(self.literal))
            self.expect_op("}", "to close the values")
        elif not self.accept_word("REST"):
            first = self.literal()
            if self.accept_op(".."):
                between = (first, self.literal())
            else:
                values = (first,)
        return KeyRange(values, between, self._label(), span=self.since(start))


def statement_end(tokens: list[Token], at: int) -> int:
    """The place among the tokens where the statement that begins at one ends: at `;`, or at the next CreateCE."""
    for place in range(at + 1, len(tokens)):
        token = tokens[place]
        if token.kind == "end" or (token.kind == "op" and token.text == ";") or token.word == STATEMENT:
            return place
    return len(tokens) - 1
