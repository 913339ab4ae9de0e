"""The parser's position in the tokens, and recovery from mistakes: note the problem, skip to a safe place, go on.

A fault is raised where the text cannot be understood and caught where reading can go on: at the next item of a list,
at the next clause, at the next query. So one run reports several independent problems.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from typing import TypeVar

from tocsin.errors import Problem, QueryError
from tocsin.lang.syntax import MODES, Span
from tocsin.lang.tokens import CLAUSES, KEYWORDS, LATER, MOST_PROBLEMS, SELECTING, WORDS, Token, tokenize

LONGEST_TEXT = 100_000
DEEPEST_NESTING = 60
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = frozenset(OPENING.values())

T = TypeVar("T")


class ReadError(Exception):
    """The text cannot be understood here; caught at the next safe place."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class GiveUpError(ReadError):
    """Reading on makes no sense: nested too deeply, or enough problems found."""


class Cursor:
    """Tokens, the position in them, and the problems found so far."""

    def __init__(self, text: str, names: Iterable[str] = ()) -> None:
        check_text(text)
        self.text = text
        self.tokens, self.problems = tokenize(text, names)
        self.at = 0
        self.level = 0

    # --- looking ---

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def last(self) -> Token:
        """The token read before this one."""
        return self.tokens[max(0, self.at - 1)]

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def is_op(self, *ops: str) -> bool:
        return self.token.kind == "op" and self.token.text in ops

    def is_word(self, *words: str) -> bool:
        return self.token.word in words

    def ends_here(self, index: int | None = None) -> bool:
        """Whether a clause, the next query or the end of the text stands at this token: no list goes on over it."""
        index = self.at if index is None else index
        token = self.tokens[index]
        if token.kind == "end":
            return True
        if token.kind == "op":
            starts = ("QUERY", "EVENT", "CREATECE", "CONSTRAINT", "INTERVALS")
            return token.text == ";" and self.tokens[index + 1].word in starts
        if token.word not in CLAUSES and token.word not in ("QUERY", "EVENT") and not self.selects_at(index):
            return False
        before = self.tokens[index - 1] if index else None
        return before is None or before.kind != "op" or before.text != "."  # a.where is an attribute

    def selects_at(self, index: int) -> bool:
        """Whether AFTER MATCH, GROUP BY, LIMIT and a number, CONSUME and a mode or the like stands here; else names."""
        word = self.tokens[index].word
        if word not in SELECTING:
            return False
        following = self.tokens[index + 1]
        if word == "CONSUME":
            return following.word.lower() in MODES
        if word == "CONTINUITY":
            return following.word in ("ALL", "OF")
        if word == "UNDER":
            return following.kind == "quoted" or (following.kind == "name" and following.word not in KEYWORDS)
        return following.kind == "number" if word in ("LIMIT", "EVERY") else following.word == SELECTING[word]

    # --- reading ---

    def take(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.at += 1
        return token

    def accept_op(self, *ops: str) -> bool:
        if self.is_op(*ops):
            self.at += 1
            return True
        return False

    def accept_word(self, *words: str) -> bool:
        if self.is_word(*words):
            self.at += 1
            return True
        return False

    def expect_op(self, op: str, where: str) -> Token:
        if not self.is_op(op):
            raise self.fault(f"expected {op!r} {where}, found {shown(self.token)}")
        return self.take()

    def expect_word(self, word: str, where: str) -> Token:
        if not self.is_word(word):
            hint = f"did you mean {word}?" if similar(self.token, (word,)) else None
            raise self.fault(f"expected {word} {where}, found {shown(self.token)}", hint=hint)
        return self.take()

    def name(self, what: str) -> str:
        """A name; keywords need back-quotes, and words reserved for later are refused."""
        token = self.token
        if token.kind not in ("name", "quoted"):
            raise self.fault(f"expected {what}, found {shown(token)}")
        if token.word in KEYWORDS:
            hint = f"to use it as a name, write `{token.text}` in back-quotes"
            raise self.fault(f"expected {what}, found the keyword {token.word}", hint=hint)
        if token.word in LATER:
            self.note_reserved(token)
        return self.take().text

    def any_word(self, what: str) -> str:
        """A name where no keyword could stand, such as an attribute after a dot."""
        token = self.token
        if token.kind == "quoted" or (token.kind == "name" and token.text[0] not in WORDS):
            return self.take().text
        raise self.fault(f"expected {what}, found {shown(token)}")

    def note_reserved(self, token: Token) -> None:
        hint = f"to use it as a name, write `{token.text}` in back-quotes"
        self.note(Problem(f"{token.word} is reserved for later", token.span, hint=hint))

    def since(self, start: Token) -> Span:
        """The place from a token up to what was read last."""
        return Span(start.start, max(start.end, self.last.end))

    def deeper(self) -> None:
        """Enter one more level of nesting and refuse too many; the caller leaves it with `self.level -= 1`."""
        self.level += 1
        if self.level > DEEPEST_NESTING:
            detail = f"patterns and expressions may be nested {DEEPEST_NESTING} levels deep"
            raise GiveUpError(Problem("this is nested too deeply", self.token.span, detail))

    # --- problems ---

    def fault(self, message: str, token: Token | None = None, *, hint: str | None = None) -> ReadError:
        return ReadError(Problem(message, (token or self.token).span, hint=self._quotes_hint() or hint))

    def _quotes_hint(self) -> str | None:
        """Whether a name with colons in it was meant, `case:concept:name`: nothing stands between its parts."""
        first, at = self.last, self.at
        if not self.is_op(":") or first.kind != "name" or first.end != self.token.start:
            return None
        while self.tokens[at].kind in ("op", "name") and self.tokens[at].start == self.tokens[at - 1].end:
            if self.tokens[at].kind == "op" and self.tokens[at].text != ":":
                break
            at += 1
        name = self.text[first.start : self.tokens[at - 1].end]
        return f"a name with a colon in it stands in back-quotes: `{name}`"

    def note(self, problem: Problem) -> None:
        """Record a problem, unless one is recorded at that place: a second one there only follows from the first."""
        start = problem.span.start if problem.span else -1
        if all(known.span is None or known.span.start != start for known in self.problems):
            self.problems.append(problem)
        if len(self.problems) > MOST_PROBLEMS:
            raise GiveUpError(problem)

    def recover(self, fault: ReadError, level: int) -> None:
        """Note what went wrong and come back to the level of nesting where reading goes on."""
        if isinstance(fault, GiveUpError):
            raise fault
        self.note(fault.problem)
        self.level = level

    def skip(self, stops: Collection[str], *, closers: bool = True) -> None:
        """Go on to the next of `stops` outside brackets, to an unmatched closing bracket, or to the next clause."""
        depth = 0
        while not self.ends_here():
            if self.token.kind == "op":
                if depth == 0 and (self.token.text in stops or (closers and self.token.text in CLOSING)):
                    return
                if self.token.text in OPENING:
                    depth += 1
                elif self.token.text in CLOSING:
                    depth = max(0, depth - 1)
            self.at += 1

    def list_of(
        self,
        close: str,
        one: Callable[[], T],
        *,
        separators: Collection[str] = (",",),
        stop: Callable[[], bool] = lambda: False,
    ) -> list[T]:
        """Things with separators between them, up to `close` (which is read) or to where `stop` says so.

        A separator before the closing bracket is allowed.
        """
        found: list[T] = []
        while not self.is_op(close) and not stop():
            level = self.level
            try:
                found.append(one())
                if not self.is_op(close, *separators) or self.ends_here():
                    raise self._unclosed(close)
            except ReadError as fault:
                self.recover(fault, level)
                self.skip(separators)
            if not self.is_op(*separators) or self.ends_here() or stop():
                break
            self.take()
        if self.is_op(close):
            self.take()
        return found

    def _words_before(self) -> list[str]:
        """The names that stand directly before the next token."""
        first = self.at
        while first > 0 and self.tokens[first - 1].kind == "name":
            first -= 1
        return [token.text for token in self.tokens[first : self.at]]

    def _unclosed(self, close: str) -> ReadError:
        token = self.token
        hint = None
        if token.word == "WHERE":
            hint = "a predicate inside the pattern is written (A a : a.x = 1); or close the bracket before WHERE"
        elif len(words := self._words_before()) > 1 and token.kind == "name":
            hint = f"if it is one name with a blank in it, put it in back-quotes: `{' '.join(words)}`"
        return self.fault(f"expected ',' or {close!r}, found {shown(token)}", hint=hint)

    def failure(self) -> QueryError:
        """Return the error that carries all recorded problems, in the order of the text."""
        ordered = sorted(self.problems, key=lambda problem: problem.span.start if problem.span else -1)
        return QueryError(ordered[:MOST_PROBLEMS], self.text)


def check_text(text: str) -> None:
    if len(text) > LONGEST_TEXT:
        detail = f"it has {len(text):,} characters; at most {LONGEST_TEXT:,} are read"
        raise QueryError([Problem("the query text is too long", None, detail)])
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise QueryError([Problem("the query text is not valid Unicode", None, "it contains half of a surrogate pair")])


def shown(token: Token) -> str:
    """How a token is called in a message."""
    if token.kind == "end":
        return "the end of the text"
    if token.word in KEYWORDS:
        return token.word
    if token.kind == "text":
        return "a text"
    text = token.text if len(token.text) <= 30 else token.text[:27] + "..."
    return f"number {text}" if token.kind == "number" else repr(text)


def similar(token: Token, words: Iterable[str]) -> str | None:
    """The word that was probably meant, if the token is a misspelt one.

    >>> similar(tokenize("WIHTIN")[0][0], ("WHERE", "WITHIN"))
    'WITHIN'
    """
    if not 3 <= len(token.word) <= 30:
        return None
    close = get_close_matches(token.word, list(words), n=1, cutoff=0.65)
    return close[0] if close else None
