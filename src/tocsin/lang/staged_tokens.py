"""The text of a staged statement into tokens: its names may have hyphens (`end-ts`), and `..` is an operator."""

from __future__ import annotations

import re

from tocsin.errors import Problem
from tocsin.lang.syntax import Span
from tocsin.lang.tokens import MOST_PROBLEMS, Token, number_of

LEXEME = re.compile(
    r"""
      (?P<blank> \s+ | --[^\n]* )
    | (?P<number> (?: [0-9]+ (?: \.[0-9]+ )? | (?<!\.) \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
    | (?P<name> [^\W\d]\w* (?: (?<=[^\W\d]) - (?=[^\W\d]) \w+ )* )
    | (?P<quoted> ` (?: [^`] | `` )*+ ` )
    | (?P<text> ' (?: [^'] | '' )*+ ' | " (?: [^"] | "" )*+ " )
    | (?P<op> <= | >= | <> | != | \.\. | [-+*/=<>!(),;.\[\]{}] )
    """,
    re.VERBOSE,
)
HYPHENATED_NAME = re.compile(r"[^\W\d]\w*(?:(?<=[^\W\d])-(?=[^\W\d])\w+)*")
RESERVED = frozenset((
    "CREATECE", "SELECT", "INIT", "EVENT", "WHERE", "TERM", "GKEY", "GKEYS", "LKEY", "LKEYS", "DETECT", "AS", "IN",
    "AND", "OR", "NOT", "TRUE", "FALSE", "NULL", "UNION", "START", "REST", "STABLE-TIME",
))  # fmt: skip


def needs_quotes(name: str) -> bool:
    """Whether a name must be written in back-quotes.

    >>> needs_quotes("max-rate"), needs_quotes("two words"), needs_quotes("Term")
    (False, True, True)
    """
    return not HYPHENATED_NAME.fullmatch(name) or name.upper() in RESERVED


def staged_tokens(text: str, start: int, end: int) -> tuple[list[Token], list[Problem]]:
    """The tokens of text[start:end], with places in the whole text, and what could not be read.

    >>> [token.text for token in staged_tokens("end-ts(A) - 1..5", 0, 16)[0]]
    ['end-ts', '(', 'A', ')', '-', '1', '..', '5', '']
    """
    tokens: list[Token] = []
    problems: list[Problem] = []
    at = start
    while at < end and len(problems) < MOST_PROBLEMS:
        found = LEXEME.match(text, at, end)
        if found is None:
            problems.append(_unreadable(text, at))
            at += 1
            continue
        if found.lastgroup != "blank":
            tokens.append(_token(found.lastgroup or "", found.group(), at, problems))
        at = found.end()
    tokens.append(Token("end", "", end, end))
    return tokens, problems


def _token(kind: str, raw: str, at: int, problems: list[Problem]) -> Token:
    end = at + len(raw)
    if kind == "name":
        return Token("name", raw, at, end, raw.upper())
    if kind == "quoted":
        return Token("quoted", raw[1:-1].replace("``", "`"), at, end)
    if kind == "text":
        return Token("text", raw[1:-1].replace(raw[0] * 2, raw[0]), at, end)
    if kind == "number":
        return Token("number", raw, at, end, value=number_of(raw, Span(at, end), problems))
    return Token("op", "!=" if raw == "<>" else raw, at, end)


def _unreadable(text: str, at: int) -> Problem:
    if text[at] in "`'\"":
        what = "name" if text[at] == "`" else "text"
        return Problem(f"this {what} has no closing {text[at]}", Span(at, at + 1))
    hint = "use straight quotes: 'text'" if text[at] in "“”„‘’«»" else None
    return Problem(f"{text[at]!r} has no meaning in a statement", Span(at, at + 1), hint=hint)
