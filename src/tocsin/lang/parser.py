"""Query text into syntax nodes: `[QUERY name] [EVENT] pattern` and its clauses in any order.

Query text is untrusted: its length, its nesting and the height of the tree it gives are limited, and the only thing
that ever comes out besides nodes is a QueryError, with every problem that was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal, TypeVar

from tocsin.errors import Problem, QueryError
from tocsin.lang.clauses import NEXT_CLAUSES
from tocsin.lang.constraint_reader import EventConstraintReader
from tocsin.lang.constraint_syntax import Constraint
from tocsin.lang.constraints import joined
from tocsin.lang.cursor import GiveUpError, ReadError, shown, similar
from tocsin.lang.derived_syntax import Intervals
from tocsin.lang.expressions import INFIX_WORDS
from tocsin.lang.staged_parser import STATEMENT, read_statement, statement_end
from tocsin.lang.staged_syntax import Statement
from tocsin.lang.syntax import (
    Binary,
    Comparison,
    Duration,
    Expr,
    Leaf,
    Pattern,
    Query,
    SelectItem,
    children,
    with_group_names,
)
from tocsin.lang.tokens import CLAUSES, LATER, STRATEGIES, Token

HIGHEST_TREE = 150  # levels of nodes: a chain `a AND b AND ...` is a tree as high as it is long
T = TypeVar("T")


def parse(text: str, *, names: Iterable[str] = frozenset()) -> Query:
    """The one query in a text. `names` are declared names with hyphens, such as `ins-type`.

    >>> parse("SEQ(A a, !B b) WITHIN 10").within
    Duration(amount=10, unit=None)
    """
    queries = parse_all(text, names=names)
    if len(queries) > 1:
        problem = Problem("one query was expected", queries[1].span, f"the text has {len(queries)} queries")
        raise QueryError([problem], text)
    return queries[0]


def parse_all(text: str, *, names: Iterable[str] = frozenset()) -> tuple[Query, ...]:
    """All queries of a file, separated by `;`. Their places are offsets into the whole text."""
    found = parse_file(text, names=names)
    if other := next((each for each in found if not isinstance(each, Query)), None):
        what = "statement" if isinstance(other, Statement) else "definition"
        problem = Problem(
            f"the {what} {other.name} cannot stand here", other.span,
            f"only EVENT queries are read here; a {what} runs by tocsin.query(text).detect(events)",
        )  # fmt: skip
        raise QueryError([problem], text)
    return tuple(each for each in found if isinstance(each, Query))


def parse_file(text: str, *, names: Iterable[str] = frozenset()) -> tuple[Query | Statement | Intervals, ...]:
    """All that a file holds, separated by `;`: EVENT queries, staged statements (CreateCE), INTERVALS."""
    reader = _QueryReader(text, names)
    found = reader.read(reader.queries)
    if not found:
        raise QueryError([Problem("there is no query here", None, hint="write EVENT SEQ(A a, B b) WITHIN 10")], text)
    return found


def parse_constraints(text: str, *, names: Iterable[str] = frozenset()) -> tuple[Constraint, ...]:
    """All constraints of a text that holds nothing else, separated by `;`.

    >>> parse_constraints("CONSTRAINT order AS A B+")[0].types
    ('A', 'B')
    """
    reader = _QueryReader(text, names)
    found = reader.read(reader.only_constraints)
    if not found:
        raise QueryError([Problem("there is no constraint here", None, hint="write CONSTRAINT order AS A B+ C?")], text)
    return found


def parse_expr(text: str, *, names: Iterable[str] = frozenset()) -> Expr:
    """One expression by itself.

    >>> parse_expr("a.x")
    Attr(var='a', name='x')
    """
    reader = _QueryReader(text, names)
    return reader.read(reader.only_expr)


def parse_order(text: str, *, names: Iterable[str] = frozenset()) -> tuple[Comparison, ...]:
    """The endpoint comparisons of an ISEQ by themselves: `start(a) < end(b) < end(c)`."""
    reader = _QueryReader(text, names)
    return reader.read(reader.only_order)


def parse_duration(text: str) -> Duration:
    """A length of time by itself, greater than 0: `12 h`."""
    reader = _QueryReader(text, ())
    return reader.read(reader.only_duration)


class _QueryReader(EventConstraintReader):
    """Reads queries: the pattern, then its clauses in any order."""

    def read(self, what: Callable[[], T]) -> T:
        """Run one of the methods below, or raise everything that was noted."""
        try:
            found = what()
        except ReadError as fault:
            if fault.problem not in self.problems:
                self.problems.append(fault.problem)
        except RecursionError:
            self.problems.append(Problem("this is nested too deeply for the stack that is left"))
        if self.problems:
            raise self.failure()
        return found

    def only_expr(self) -> Expr:
        expr = self.expr()
        self._nothing_more()
        self._check_height(expr)
        return expr

    def only_order(self) -> tuple[Comparison, ...]:
        order = self._chains()
        while self.accept_op(","):
            order += self._chains()
        self._nothing_more()
        return tuple(order)

    def only_duration(self) -> Duration:
        found = self.duration("a length of time")
        self._nothing_more()
        return found

    def _nothing_more(self) -> None:
        if self.token.kind != "end":
            raise self._unexpected()

    def queries(self) -> tuple[Query | Statement | Intervals, ...]:
        found: list[Query | Statement | Intervals] = []
        while self.token.kind != "end":
            if self.accept_op(";"):
                continue
            if self.is_word("CONSTRAINT"):
                self.event_constraint()
                continue
            query = self._one()
            if query is not None:
                self._check_height(query)
                found.append(query)
        for constraint in self.known.values():
            if found and constraint.name not in self.used and constraint.text == self.text:
                hint = f"write UNDER {constraint.name} behind the clauses of a query, or leave the constraint out"
                self.note(Problem(f"no query is under the constraint {constraint.name}", constraint.span, hint=hint))
        return tuple(found)

    def only_constraints(self) -> tuple[Constraint, ...]:
        """Constraints and nothing else."""
        while self.token.kind != "end":
            if self.accept_op(";"):
                continue
            if not self.is_word("CONSTRAINT"):
                raise self.fault(f"expected CONSTRAINT, found {shown(self.token)}", hint="CONSTRAINT order AS A B+ C?")
            self.event_constraint()
        for each in self.known.values():
            self._check_height(each.regex)
        return tuple(self.known.values())

    def _one(self) -> Query | Statement | Intervals | None:
        """Whatever stands here, up to the next `;`."""
        if self.is_word(STATEMENT):
            return self._statement()
        return self.intervals() if self.at_intervals() else self._query()

    def _statement(self) -> Statement | None:
        """A staged statement, which has words of its own; what its reader finds wrong is noted here."""
        first, last = self.at, statement_end(self.tokens, self.at)
        found, problems = read_statement(self.text, self.tokens[first].start, self.tokens[last].start)
        self.at = last
        for problem in problems:
            self.note(problem)
        return found

    def _query(self) -> Query | None:
        start = self.token
        self.variables = set()
        self.constraints = []
        self.level = 0
        pattern: Pattern | None = None
        name, hidden = None, False
        try:
            if self.accept_word("QUERY"):
                name = self.name("the name of the query")
                hidden = self.accept_word("HIDDEN")
            self.accept_word("EVENT")
            pattern = self.item("query")
        except ReadError as fault:
            self.recover(fault, 0)
            self.skip((";",), closers=False)
        query = self.constrained(Query(pattern or Leaf("?"), name, hidden=hidden))
        query = with_group_names(self._clauses(query, start))
        return None if pattern is None else replace(query, span=self.since(start), text=self.text)

    def _clauses(self, query: Query, start: Token) -> Query:
        seen: set[str] = set()
        while self.token.kind != "end" and not self.is_op(";"):
            token = self.token
            clause = token.word if token.word in CLAUSES else self.at_selection() or self._odd_clause(start)
            if token.word in ("QUERY", "EVENT", "CONSTRAINT"):
                break
            if clause is None:
                continue
            self.take()
            if clause in seen:
                called = "AFTER MATCH" if clause == "AFTER" else clause
                self.note(Problem(f"a second {called} clause", token.span, hint="a query has one of each clause"))
            elif given := self.given_before(clause, query):
                self.note(Problem(f"{given} was given before", token.span, hint="leave one of them out"))
            seen.add(clause)
            try:
                query = self._clause(clause, query)
            except ReadError as fault:
                self.recover(fault, 0)
                self.skip((";",), closers=False)
        return query

    def _odd_clause(self, start: Token) -> str | None:
        """Report a word where a clause should stand; continue with the clause that was probably meant."""
        fault = self._unexpected(start)
        meant = similar(self.token, CLAUSES)
        self.recover(fault, 0)
        if meant is None and not self.is_word("QUERY", "EVENT"):
            self.at += 1
            self.skip((";",), closers=False)
        return meant

    def _clause(self, clause: str, query: Query) -> Query:
        match clause:
            case "WHERE":
                return replace(query, where=joined(query.where, self._where()))
            case "WITHIN" if self.is_op("("):
                return replace(query, between=self.open_window(self.take()))
            case "WITHIN":
                within = self.duration("the window")
                timeout, early = self._behind("TIMEOUT"), self._behind("EARLY")
                timeout = timeout or self._behind("TIMEOUT")
                return replace(query, within=within, timeout=timeout or query.timeout, early=early or query.early)
            case "PARTITION":
                self.expect_word("BY", "after PARTITION")
                return replace(query, partition=tuple(self._separated(lambda: self.any_word("an attribute name"))))
            case "UNDER":
                return self.under(query)
            case "STRATEGY":
                return replace(query, strategy=self._strategy())
            case "AFTER" | "DISTINCT" | "LIMIT" | "CONSUME" | "CONTINUITY" | "GROUP" | "EVERY":
                return self.selection(clause, query)
        if self.is_op("*"):
            raise self.fault("* cannot be selected", hint="leave SELECT out to get every variable")
        return replace(query, select=tuple(self._separated(self._select_item)))

    def _behind(self, word: str) -> bool:
        """`TIMEOUT` or `EARLY` behind the window, in any case: elsewhere they are names."""
        if self.token.kind == "name" and self.token.word == word:
            self.take()
            return True
        return False

    def _strategy(self) -> Literal["any", "next", "strict"]:
        """`any`, `next` or `strict`, in any case."""
        word = self.token.word.lower()
        if word not in STRATEGIES:
            meant = similar(self.token, [name.upper() for name in STRATEGIES])
            hint = f"did you mean {meant.lower()}?" if meant else "any: all combinations; next: FIRST; strict: NEXT"
            raise self.fault(f"expected any, next or strict after STRATEGY, found {shown(self.token)}", hint=hint)
        self.take()
        return "next" if word == "next" else "strict" if word == "strict" else "any"

    def _where(self) -> Expr:
        start = self.token
        whole = self.expr()
        while self.accept_op(","):
            whole = Binary("AND", whole, self.expr(), span=self.since(start))
        return whole

    def _separated(self, one: Callable[[], T]) -> list[T]:
        found = [one()]
        while self.accept_op(","):
            found.append(one())
        return found

    def _select_item(self) -> SelectItem:
        start = self.token
        expr = self.expr()
        name = None
        if self.accept_word("AS"):
            name = self.name("the name of the column")
        elif self.token.kind == "name" and self.is_separator(self.at + 1) and not self.ends_here():
            raise self.fault("expected AS before the name of a column", hint=f"write AS {self.token.text}")
        return SelectItem(expr, name, span=self.since(start))

    def _unexpected(self, start: Token | None = None) -> ReadError:
        token, before = self.token, self.last
        if token.word in LATER:
            return self.fault(f"{token.word} is reserved for later")
        if token.word in ("QUERY", "EVENT"):
            return self.fault(f"{token.word} inside a query", hint="separate queries with ;")
        if odd := self.odd_selection():
            return odd
        if token.word == "TIMEOUT":
            hint = "it stands behind the window: WITHIN 5 min TIMEOUT"
            return self.fault("TIMEOUT without WITHIN before it", hint=hint)
        meant = similar(token, (*CLAUSES, *INFIX_WORDS))
        earlier = similar(before, CLAUSES) if before.word not in CLAUSES else None
        first = similar(start, ("EVENT", "QUERY")) if start and start.word not in ("EVENT", "QUERY") else None
        hint = NEXT_CLAUSES
        if meant:
            hint = f"did you mean {meant}?"
        elif earlier:
            hint = f"{before.text!r} was read as a variable; did you mean {earlier}?"
        elif first and start:
            hint = f"{start.text!r} was read as a type; did you mean {first}?"
        elif token.kind == "op" and token.text == ")":
            hint = "no bracket is open here"
        elif token.kind == "name" and self.peek().kind == "op" and self.peek().text in (".", "("):
            hint = "join conditions with AND"
        return self.fault(f"unexpected {shown(token)}", hint=hint)

    def _check_height(self, root: object) -> None:
        """A tree that is too high would exhaust the stack of everything that walks it."""
        waiting = [(root, 0)]
        while waiting:
            node, height = waiting.pop()
            if height > HIGHEST_TREE:
                span = getattr(node, "span", None)
                detail = f"a chain of operators may have about {HIGHEST_TREE} parts"
                hint = "group its parts with parentheses, or use IN (...)"
                raise GiveUpError(Problem("this expression is too long", span, detail, hint))
            waiting.extend((child, height + 1) for child in children(node))
