"""Patterns: SEQ, AND, OR, EXISTS, ISEQ, REL, negations and leaves, in every form that the papers print.

    (A a : p)   (A a) : p   ∃c: q   ∃x.q   SEQ(A; B)   SEQ((A, B))   OR(P|Q)   Rel[..](..)   BEFORE(A, B)
    CON(A, B)   DIS(A, B)   NEG(A)   endpoints: A.ts   A^-   A-   start(a)

What a pattern means is not judged here (see the binder); only what cannot be written down as nodes is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal as Choice

from tocsin.errors import Problem
from tocsin.events import ANY
from tocsin.lang.cursor import shown, similar
from tocsin.lang.expressions import ExpressionReader
from tocsin.lang.syntax import (
    ALLEN,
    And,
    Comparison,
    Duration,
    Endpoint,
    Exists,
    Grouped,
    Iseq,
    Leaf,
    Marked,
    Maybe,
    Not,
    Or,
    Pattern,
    Rel,
    Repeat,
    Seq,
    Span,
)
from tocsin.lang.tokens import (
    ALLEN_NAMES,
    ANY_WORD,
    CLAUSES,
    CONSTRAINTS,
    KEYWORDS,
    LATER,
    MARKS,
    OPERATORS,
    OTHER_NAMES,
    Token,
)

ENDPOINTS = {"ts": "start", "start": "start", "te": "end", "end": "end"}


@dataclass(frozen=True, slots=True)
class _Several:
    """A list of patterns in parentheses without an operator; right only as `SEQ((A a, B b))`."""

    items: tuple[Pattern, ...]
    span: Span


class PatternReader(ExpressionReader):
    """Reads patterns. `host` says what the pattern is a part of, since `!` may stand only under SEQ and AND."""

    def __init__(self, text: str, names: Iterable[str] = ()) -> None:
        super().__init__(text, names)
        self.variables: set[str] = set()  # declared so far, to tell an attribute from a type with dots

    def item(self, host: str) -> Pattern:
        found = self._item(host)
        if isinstance(found, _Several):
            self._refuse(found)
            return Leaf("?")
        return found

    def _item(self, host: str) -> Pattern | _Several:
        start = self.token
        if self.accept_op("!") or self.accept_word("NOT") or self._accept_neg():
            return self._negation(host, start)
        if self._mark_at(self.at):
            return self._maybe(host) if self.token.text == "MAYBE" else self._marked(host)
        found = self._positive(host)
        if self.is_op("+", "*", "?", "{"):
            found = self._grouped(found, start)
        found = self._with_predicates(found, start) if self.is_op(":") else found
        if self._until_at(self.at):
            found = self._until(found, start)
        if self._lasts_at(self.at) and host not in ("!", "EXISTS"):
            self._refuse_lasting()
        return found

    def _accept_neg(self) -> bool:
        """`NEG(C c)` is `!(C c)`; NEG by itself is a name."""
        found = self._is_form(self.at, "NEG")
        self.at += found
        return found

    def _is_form(self, index: int, *words: str) -> bool:
        """Whether one of the words of Gu 2011 stands here, with a bracket behind it."""
        token = self.tokens[index]
        return token.kind == "name" and token.word in words and self._is_op_at(index + 1, "(")

    def _grouped(self, found: Pattern | _Several, start: Token) -> Pattern | _Several:
        """`(SEQ(A a, B b))+ g`"""
        written = self.text[self.token.span.start :][:1]
        repeat = None if self.accept_op("?") else self.repetition()
        name = self._variable() if self._is_name_at(self.at) else None
        if isinstance(found, Leaf) and found.repeat is None and not found.optional:
            hint = f"write {found.type or ANY_WORD}{'{2}' if written == '{' else written} {found.var or ''}".rstrip()
            self.note(Problem("a repetition is written after the type", self.since(start), hint=hint))
        elif repeat is None or repeat.least == 0:
            hint = "write MAYBE before it: SEQ(C c, MAYBE SEQ(A a, B b), D d)"
            self.note(Problem("a group must come at least once", self.since(start), hint=hint))
        elif not isinstance(found, _Several):
            return Grouped(found, repeat, name, span=self.since(start))
        return found

    def _negation(self, host: str, start: Token) -> Pattern:
        doubled = self.last if host == "!" else None
        while self.is_op("!") or self.is_word("NOT"):
            doubled = self.take()
        if doubled is not None:
            hint = "leave both out, or write the nested pattern: !SEQ(A a, !B b)"
            self.note(Problem("a negation of a negation", doubled.span, hint=hint))
        elif host not in ("SEQ", "AND"):
            hint = "put it into a SEQ or AND with a positive part: SEQ(A a, !B b)"
            self.note(Problem(f"a negation cannot stand {_under(host)}", start.span, hint=hint))
        self.deeper()
        inner = self.item("!")
        self.level -= 1
        lasting = self._lasting() if self._lasts_at(self.at) else None
        return Not(inner, lasting, span=self.since(start))

    def _until_at(self, index: int) -> bool:
        """Whether UNTIL with something behind it stands here; by itself it is a name."""
        token = self.tokens[index]
        if token.kind != "name" or token.text != "UNTIL":
            return False
        return not self.is_separator(index + 1) and self.tokens[index + 1].text != "UNTIL"

    def _until(self, found: Pattern | _Several, start: Token) -> Pattern | _Several:
        """`B+ b UNTIL b.v > 3`, `B+ b UNTIL A a : a.v > 3`, `B+ b UNTIL A`."""
        word = self.take()
        if not isinstance(found, Leaf) or found.repeat is None:
            hint = "it ends a repetition: SEQ(A a, B+ b UNTIL b.v > 3, C c)"
            self.note(Problem("UNTIL stands behind a repetition only", word.span, hint=hint))
            self.skip((",", ";"))
            return found
        begin = self.token
        if not self._is_event_at(self.at):
            until = Leaf(found.type, found.var, self.expr(), span=self.since(begin))
        else:
            type = self.type_name()
            name = self._variable() if self._is_name_at(self.at) else None
            where = self.expr() if self.accept_op(":") else None
            until = Leaf(type, name, where, span=self.since(begin))
        return replace(found, until=until, span=self.since(start))

    def _is_event_at(self, index: int) -> bool:
        """Whether `A a`, `A : c` or `A` stands here, and no condition."""
        first = self.tokens[index]
        if first.kind not in ("name", "quoted") or first.word in KEYWORDS:
            return False
        after = self._after_dots(index)
        if self.is_separator(after):
            return after == index + 1 or first.text not in self.variables
        return self._is_name_at(after)

    def _lasts_at(self, index: int) -> bool:
        """Whether `FOR 5 min` stands here; FOR by itself is a name."""
        token = self.tokens[index]
        behind = self.tokens[index + 1 if token.kind != "end" else index]
        return token.kind == "name" and token.text == "FOR" and (behind.kind == "number" or behind.text == "-")

    def _lasting(self) -> Duration:
        self.take()
        return self.duration("how long it is absent", "FOR")

    def _refuse_lasting(self) -> None:
        """`A a FOR 5 min`: only what is absent can be so for a time."""
        start = self.take()
        self.duration("how long it is absent", "FOR")
        hint = "it says how long a negated part is absent: SEQ(A a, !B b FOR 5 min)"
        self.note(Problem("FOR stands behind a negation only", self.since(start), hint=hint))

    # --- marks ---

    def _mark_at(self, index: int) -> bool:
        """Whether a word is a mark: in upper case, and an item begins behind it. Elsewhere it is a name."""
        if self.tokens[index].kind != "name" or self.tokens[index].text not in MARKS:
            return False
        behind = self.tokens[index + 1]
        return behind.kind in ("name", "quoted") or self._is_op_at(index + 1, "(", "!")

    def _marked(self, host: str) -> Pattern:
        """`NEXT item`, `NEXT OF (C, D) item`, `FIRST item`, `LAST item`, `EACH item`, `EACH NEXT item`."""
        start = self.take()
        mark = start.text
        if mark == "EACH" and self._mark_at(self.at) and self.token.text == "NEXT":
            self.take()
            mark = "EACH NEXT"
        of = self._of() if mark in ("NEXT", "EACH NEXT") else ()
        known = len(self.problems)
        if self._mark_at(self.at):
            hint = "choose one of them; NEXT is the stricter one"
            if self.token.text == "MAYBE":
                hint = f"write MAYBE {start.text}"
            self.note(Problem(f"a second mark, {self.token.text}", self.token.span, hint=hint))
        elif self.is_op("!") or self.is_word("NOT"):
            hint = "mark the item behind it: a negation says by itself that nothing of a kind comes between"
            self.note(Problem(f"{start.text} cannot stand before a negation", start.span, hint=hint))
        self.deeper()
        inner = self.item(host)
        self.level -= 1
        if isinstance(inner, (Not, Marked, Maybe)):
            return inner  # that was refused
        if mark == "FIRST" and isinstance(inner, Grouped):
            return replace(inner, first=True, span=self.since(start))
        alone = host == "query" and isinstance(inner, Leaf) and inner.repeat is not None
        if host != "SEQ" and not alone and len(self.problems) == known:
            hint = "a mark stands before an item of SEQ, whose other items say where it looks: SEQ(A a, FIRST B b)"
            self.note(Problem(f"{mark} cannot stand {_under(host)}", start.span, hint=hint))
        return Marked(_MARKS[mark], inner, of, span=self.since(start))

    def _maybe(self, host: str) -> Pattern:
        """`MAYBE item`, `MAYBE FIRST item`."""
        start = self.take()
        if host != "SEQ":
            hint = "it stands before an item of SEQ that has another one: SEQ(A a, MAYBE B b)"
            self.note(Problem(f"MAYBE cannot stand {_under(host)}", start.span, hint=hint))
        if self._mark_at(self.at) and self.token.text == "MAYBE":
            self.note(Problem("a second MAYBE", self.token.span, hint="one says already that the item may be missing"))
        elif self.is_op("!") or self.is_word("NOT"):
            hint = "with it and without it, every match would be there: leave out both"
            self.note(Problem("MAYBE cannot stand before a negation", start.span, hint=hint))
        self.deeper()
        inner = self.item(host)
        self.level -= 1
        return inner if isinstance(inner, (Not, Maybe)) else Maybe(inner, span=self.since(start))

    def _of(self) -> tuple[str, ...]:
        """`OF (C, D)` behind NEXT: the types that must not come between."""
        if self.token.kind != "name" or self.token.text != "OF" or not self._is_op_at(self.at + 1, "("):
            return ()
        start = self.take()
        self.take()
        found = self.list_of(")", self.type_name)
        if not found:
            self.note(Problem("NEXT OF needs at least one type", self.since(start), hint="write NEXT OF (C, D) B b"))
        if ANY in found:
            self.note(Problem("NEXT OF (ANY) is NEXT", self.since(start), hint="leave OF (ANY) out"))
        return tuple(dict.fromkeys(found))

    def _positive(self, host: str) -> Pattern | _Several:
        token, following = self.token, self.peek()
        before_list = following.kind == "op" and following.text == "("
        if self.is_op("("):
            return self._group(host)
        if token.word in ("SEQ", "AND", "OR"):
            return self._operator(self.take(), token.word)
        if before_list and token.word in OTHER_NAMES and token.kind == "name":
            return self._operator(self.take(), OTHER_NAMES[token.word])
        if self._is_form(self.at, *CONSTRAINTS):
            return self.constraint(host)
        if token.word == "EXISTS":
            return self._exists()
        if token.word == "ISEQ":
            return self._iseq()
        if token.word == "REL" or _is_numbered_rel(token, following):
            return self._rel()
        if before_list and _allen(token):
            return self._related((_allen(token),), self.take())
        if before_list and token.kind == "name" and token.word not in KEYWORDS:
            return self._misspelt_operator()
        return self._leaf()

    def constraint(self, host: str) -> Pattern:
        """A constraint of Gu 2011 around a pattern (see `lang/constraints`)."""
        raise NotImplementedError

    # --- operators ---

    def _operator(self, start: Token, word: str) -> Pattern:
        self.expect_op("(", f"after {word}")
        separators = (",", ";", "|") if word == "OR" else (",", ";")
        items = self._items(word, separators, start)
        span = self.since(start)
        match word:
            case "SEQ":
                return Seq(items, span=span)
            case "AND":
                return And(items, span=span)
        return Or(items, span=span)

    def _misspelt_operator(self) -> Pattern:
        token = self.take()
        meant = similar(token, (*OPERATORS, *(name.upper() for name in ALLEN_NAMES)))
        if token.word.startswith("SEQ"):
            meant = "SEQ"
        hint = f"did you mean {meant}?" if meant else "the operators are SEQ, AND, OR, ISEQ, REL and EXISTS"
        self.note(Problem(f"{token.text!r} is not an operator", token.span, hint=hint))
        return self._operator(token, "SEQ")

    def _items(self, host: str, separators: tuple[str, ...], start: Token) -> tuple[Pattern, ...]:
        """The items between the brackets of an operator; also `SEQ((A a, B b))`."""
        known = len(self.problems)
        self.deeper()
        found = self.list_of(")", lambda: self._item(host), separators=separators, stop=self._at_window)
        self.level -= 1
        if len(found) == 1 and isinstance(found[0], _Several):
            return found[0].items
        if not found and len(self.problems) == known:
            self.note(Problem(f"{host} needs at least one item", self.since(start)))
        return self._singles(found)

    def _singles(self, found: list[Pattern | _Several]) -> tuple[Pattern, ...]:
        for item in found:
            if isinstance(item, _Several):
                self._refuse(item)
        return tuple(item for item in found if not isinstance(item, _Several))

    def _at_window(self) -> bool:
        """Whether `; 10 min` stands here, the window of an ISEQ."""
        return self.is_op(";") and self.peek().kind == "number"

    def _group(self, host: str) -> Pattern | _Several:
        """`(A a : p)`, `(A a) : p`, or any pattern in parentheses."""
        start = self.take()
        known = len(self.problems)
        self.deeper()
        found = self.list_of(")", lambda: self._item(host), separators=(",", ";"))
        self.level -= 1
        if not found:
            if len(self.problems) == known:
                raise self.fault("these parentheses are empty", start)
            return Leaf("?")  # the problem is known; go on looking for others
        if len(found) > 1:
            return _Several(self._singles(found), self.since(start))
        return found[0]

    def _with_predicates(self, pattern: Pattern | _Several, start: Token) -> Leaf:
        if not isinstance(pattern, Leaf):
            hint = "write it at a leaf inside, or in WHERE"
            raise self.fault("only a leaf takes a predicate", hint=hint)
        if pattern.where is not None:
            raise self.fault("this leaf has its predicates already", hint="join them with AND")
        self.take()
        where = self.predicates()
        return replace(pattern, where=where, span=self.since(start))

    def _refuse(self, several: _Several) -> None:
        hint = "write SEQ(...), AND(...) or OR(...)"
        self.note(Problem("a list of patterns needs an operator in front", several.span, hint=hint))

    def _exists(self) -> Pattern:
        start = self.take()
        if self.token.kind not in ("name", "quoted"):
            hint = "write EXISTS c : SEQ(A a, C c)"
            raise self.fault(f"expected a variable after EXISTS, found {shown(self.token)}", hint=hint)
        variables = [self.name("a variable after EXISTS")]
        while self.accept_op(","):
            variables.append(self.name("a variable"))
        if not self.accept_op(":", "."):
            raise self.fault(f"expected ':' after the variables of EXISTS, found {shown(self.token)}")
        self.deeper()
        inner = self.item("EXISTS")
        self.level -= 1
        return Exists(tuple(variables), inner, span=self.since(start))

    # --- leaves ---

    def _leaf(self) -> Leaf:
        start = self.token
        type = self.type_name()
        optional = self.accept_op("?")
        repeat = self.repetition()
        if optional and repeat is not None:
            hint = "B* is none or more, B{0,3} none to three"
            self.note(Problem("? does not combine with a repetition", self.since(start), hint=hint))
        variable = None
        if self._is_name_at(self.at):
            variable = self._variable()
        self.variables.add(variable or type or ANY_WORD)
        leaf = Leaf(type, variable, None, repeat, optional, span=self.since(start))
        if variable and self.is_op("+", "{", "*", "?"):
            counted = self.is_op("{")
            hint = f"write {type}{'{...}' if counted else self.token.text} {variable}"
            if counted or self.peek().kind == "name":
                hint += f"; or, if it is one name with a blank in it, put it in back-quotes: `{type} {variable}`"
            raise self.fault("a repetition is written after the type", hint=hint)
        return leaf

    def type_name(self) -> str:
        """A type, with dots if it has parts: `SUPPLIER.WAREHOUSE`."""
        token = self.token
        if token.kind not in ("name", "quoted"):
            raise self.fault(f"expected a pattern, found {shown(token)}", hint="write a type, or SEQ(...)")
        if token.kind == "name" and token.word == "SELECT":
            raise self.fault(
                "SELECT is the last clause of a query", hint="EVENT SEQ(A a, B b) WHERE [id] WITHIN 1 h SELECT a.id"
            )
        parts = [self.name("a pattern")]
        if token.kind == "name" and token.text == ANY_WORD and not self.is_op("."):
            return ANY
        while self.is_op(".") and self.peek().kind in ("name", "quoted"):
            self.take()
            parts.append(self.any_word("a part of the type"))
        return ".".join(parts)

    def _variable(self) -> str:
        token = self.token
        if token.word in LATER and not self.is_separator(self.at + 1):
            self.note(Problem(f"{token.word} is reserved for later", token.span))
            self.skip((",", ";"))
            return token.text
        return self.name("a variable")

    def repetition(self) -> Repeat | None:
        start = self.token
        if self.accept_op("+"):
            return Repeat(1, None)
        if self.accept_op("*"):
            return Repeat(0, None)
        if not self.accept_op("{"):
            return None
        least = self._times()
        most: int | None = least
        if self.accept_op(","):
            most = None if self.is_op("}") else self._times()
        self.expect_op("}", "after the numbers of repetitions")
        if most == 0 or (most is not None and most < least):
            detail = "at least 1 event must be allowed, and the second number is not smaller than the first"
            self.note(Problem("this repetition is impossible", self.since(start), detail))
        return Repeat(least, most)

    def _times(self) -> int:
        token = self.take()
        if not isinstance(token.value, int) or token.kind != "number":
            hint = "the forms are B{3}, B{2,} and B{2,4}"
            raise self.fault(f"expected a whole number, found {shown(token)}", token, hint=hint)
        return token.value

    # --- a comma after a predicate: another predicate, or the next item? ---

    def predicate_follows(self) -> bool:
        return super().predicate_follows() and not self._item_at(self.at + 1)

    def _item_at(self, index: int) -> bool:
        """Whether an item of a pattern starts at a token (looking ahead only as far as needed)."""
        tokens = self.tokens
        while tokens[index].word == "NOT" or (tokens[index].kind == "op" and tokens[index].text in ("(", "!")):
            index += 1
        if self._mark_at(index):  # FIRST(b.v) is an expression, FIRST (B b) is not
            return not self._is_op_at(index + 1, "(") or self._item_at(index + 2)
        first = tokens[index]
        if self._is_form(index, *OTHER_NAMES, *CONSTRAINTS, "NEG"):
            return self._item_at(index + 2)
        if first.word in OPERATORS or _is_numbered_rel(first, tokens[index + 1 if first.kind != "end" else index]):
            return True
        if first.kind not in ("name", "quoted") or first.word in KEYWORDS or self.relates_at(index + 1):
            return False
        after = self._after_dots(index)
        if self._is_op_at(after, "("):
            return bool(_allen(first)) and self.is_separator(self._after_bracket(after))
        if self._is_op_at(after, "+", "*", "?"):
            return self.is_separator(after + 1) or (self._is_name_at(after + 1) and self.is_separator(after + 2))
        if self.is_separator(after):
            return after == index + 1 or first.text not in self.variables  # a.flag is an attribute, A.B a type
        return self._is_name_at(after) or self._is_op_at(after, "{")

    def is_separator(self, index: int) -> bool:
        return self.ends_here(index) or self._is_op_at(index, ",", ";", ":", ")", "|") or self._ends_leaf(index)

    def _ends_leaf(self, index: int) -> bool:
        return self._lasts_at(index) or self._until_at(index)

    def _is_op_at(self, index: int, *ops: str) -> bool:
        return self.tokens[index].kind == "op" and self.tokens[index].text in ops

    def _is_name_at(self, index: int) -> bool:
        token = self.tokens[index]
        named = token.kind == "name" and token.word not in KEYWORDS and not self.selects_at(index)
        return token.kind == "quoted" or (named and not self._lasts_at(index) and not self._until_at(index))

    def _after_dots(self, index: int) -> int:
        while self._is_op_at(index + 1, ".") and self.tokens[index + 2].kind in ("name", "quoted"):
            index += 2
        return index + 1

    def _after_bracket(self, index: int) -> int:
        depth = 0
        while self.tokens[index].kind != "end":
            if self._is_op_at(index, "(", "[", "{"):
                depth += 1
            elif self._is_op_at(index, ")", "]", "}"):
                depth -= 1
            index += 1
            if depth == 0:
                break
        return index

    # --- intervals ---

    def _iseq(self) -> Pattern:
        start = self.take()
        self.expect_op("[", "after ISEQ")
        order = self.order("]")
        self.expect_op("(", "after the comparisons of ISEQ")
        items = self._items("ISEQ", (",", ";"), start)
        within = None
        if self._at_window():
            self.take()
            within = self.duration("the window of ISEQ")
            self.expect_op(")", "after the window of ISEQ")
        for item in items:
            if not isinstance(item, (Leaf, Not)):  # a negation is refused already
                self.note(Problem("ISEQ takes leaves only", item.span, hint="write A a, or (A a : a.x = 1)"))
        leaves = tuple(item for item in items if isinstance(item, Leaf))
        return Iseq(order, leaves, within, span=self.since(start))

    def order(self, close: str) -> tuple[Comparison, ...]:
        """The TList: comparisons of endpoints, joined by AND, ∧ or commas."""
        start = self.token
        known = len(self.problems)
        found = self.list_of(close, self._chains)
        if not found and len(self.problems) == known:
            hint = "for events in any order use AND(...)"
            raise self.fault("ISEQ needs at least one comparison", start, hint=hint)
        return tuple(comparison for chains in found for comparison in chains)

    def _chains(self) -> list[Comparison]:
        found = self._chain()
        while self.accept_word("AND"):
            found += self._chain()
        return found

    def _chain(self) -> list[Comparison]:
        """`a < b < c` is two comparisons; parentheses around a chain are allowed."""
        if self.accept_op("("):
            self.deeper()
            found = self._chains()
            self.level -= 1
            self.expect_op(")", "after the comparison")
            return found
        start = self.token
        left = self._endpoint()
        found = []
        while not found or self.is_op("<", "<=", "=", ">", ">=", "<>"):
            if not self.is_op("<", "<=", "=", ">", ">="):
                hint = "endpoints are compared with < <= = > >="
                raise self.fault(f"expected a comparison, found {shown(self.token)}", hint=hint)
            op = self.take().text
            right = self._endpoint()
            found.append(Comparison(left, op, right, span=self.since(start)))
            left = right
        return found

    def _endpoint(self) -> Endpoint:
        start = self.token
        if start.word in ("START", "END") and self._is_op_at(self.at + 1, "("):
            self.at += 2
            variable = self._dotted()
            self.expect_op(")", "after the variable")
            which = start.word.lower()
            return Endpoint(variable, "start" if which == "start" else "end", span=self.since(start))
        variable = self._dotted()
        if self.accept_op("^") and not self.is_op("+", "-"):
            raise self.fault(f"expected + or - after ^, found {shown(self.token)}")
        if self.is_op("-", "+"):
            which = "start" if self.take().text == "-" else "end"
        else:
            variable, _, suffix = variable.rpartition(".")
            which = ENDPOINTS.get(suffix.lower(), "")
        if not variable or not which:
            hint = "write start(a), a.ts or a^- for the start, end(a), a.te or a^+ for the end"
            raise self.fault("expected an endpoint", start, hint=hint)
        return Endpoint(variable, "start" if which == "start" else "end", span=self.since(start))

    def _dotted(self) -> str:
        parts = [self.name("a variable")]
        while self.accept_op("."):
            parts.append(self.any_word("a name"))
        return ".".join(parts)

    def _rel(self) -> Pattern:
        start = self.take()
        self.expect_op("[", f"after {start.text}")
        known = len(self.problems)
        relations = self.list_of("]", self._relation, separators=(",", "|"))
        if not relations and len(self.problems) == known:
            self.note(Problem("REL needs at least one relation", self.since(start), hint="write REL[before](A, B)"))
        return self._related(tuple(relations), start)

    def _relation(self) -> str:
        start = self.token
        words = []
        while self.token.kind == "name" and self.token.word != "OR":
            words.append(self.take().text)
            self.accept_op("-")
        if self.is_word("OR"):
            raise self.fault("relations are separated by commas", hint="REL[before, meet] means one of them")
        name = " ".join(words).lower().replace("_", " ")
        if name not in ALLEN_NAMES:
            if not words:
                raise self.fault(f"expected an interval relation, found {shown(self.token)}")
            meant = similar(replace(start, word=name), ALLEN_NAMES)
            hint = f"did you mean {meant}?" if meant else "the relations are " + ", ".join(ALLEN)
            self.note(Problem(f"{name!r} is not an interval relation", self.since(start), hint=hint))
        return ALLEN_NAMES.get(name, "before")

    def _related(self, relations: tuple[str, ...], start: Token) -> Pattern:
        known = len(self.problems)
        self.expect_op("(", "after the relation")
        items = self._items("REL", (",", ";"), start)
        span = self.since(start)
        if len(items) != 2:
            if len(self.problems) == known:
                detail = f"it stands between 2 parts, here are {len(items)}"
                hint = "nest it: REL[overlap](REL[contain](A, B), C)"
                self.note(Problem("a relation needs two parts", span, detail, hint))
            return Leaf("?")
        left, right = items
        if not isinstance(right, Leaf):
            hint = "swap the parts and use the inverse relation, for example after for before"
            self.note(Problem("the second part of a relation must be a leaf", right.span, hint=hint))
            return left
        return Rel(relations, left, right, span=span)

    def duration(self, what: str, word: str = "WITHIN") -> Duration:
        """NUMBER [unit], greater than 0."""
        start = self.token
        negative = self.accept_op("-")
        if self.token.kind != "number":
            raise self.fault(f"expected {what}, found {shown(self.token)}", hint=f"write {word} 10 or {word} 12 h")
        amount = self.take().value
        unit = self.unit() if self.is_unit(*CLAUSES) else None
        span = self.since(start)
        if negative or amount <= 0:
            self.note(Problem(f"{what} must be greater than 0", span, hint=f"write {word} 10 or {word} 12 h"))
        elif unit is None and not isinstance(amount, int):
            self.note(Problem("a number of ticks must be whole", span, hint="add a unit: 1.5 h"))
        return Duration(amount, unit, span=span)


_MARKS: dict[str, Choice["NEXT", "FIRST", "LAST", "EACH", "EACH NEXT"]] = {
    "NEXT": "NEXT", "FIRST": "FIRST", "LAST": "LAST", "EACH": "EACH", "EACH NEXT": "EACH NEXT",
}  # fmt: skip


def _under(host: str) -> str:
    return "by itself" if host == "query" else f"directly under {host}"


def _allen(token: Token) -> str:
    """The interval relation that a single word names, such as BEFORE or MET_BY; else empty."""
    return ALLEN_NAMES.get(token.word.lower().replace("_", " "), "") if token.word else ""


def _is_numbered_rel(token: Token, following: Token) -> bool:
    """`Rel_1[..](..)`: the papers number nested relations."""
    bracket = following.kind == "op" and following.text == "["
    return bracket and token.word.startswith("REL_") and token.word[4:].isdigit()
