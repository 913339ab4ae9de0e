"""Text into tokens: every spelling that the papers print becomes one canonical token with its place.

Keywords are not a kind of their own: a token that is a bare name knows its upper-case `word`, and the parser decides
by position whether a keyword is meant. A back-quoted name never is a keyword.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import isinf
from typing import Literal as Choice

from tocsin.errors import Problem
from tocsin.lang.syntax import ALLEN, INTERSECT, Span

# --- words -------------------------------------------------------------------------------------------------------

CLAUSES = ("WHERE", "WITHIN", "PARTITION", "SELECT", "STRATEGY")
STRATEGIES = ("any", "next", "strict")
MARKS = ("NEXT", "FIRST", "LAST", "EACH", "MAYBE")  # in upper case only, where an item of SEQ begins; else names
# Words of clauses that are names everywhere else, with what must follow where a variable could stand, too.
SELECTING = {
    "AFTER": "MATCH", "DISTINCT": "BY", "LIMIT": "", "CONSUME": "", "CONTINUITY": "", "GROUP": "BY", "EVERY": "",
    "UNDER": "",
}  # fmt: skip
# The first words of what follows in a definition of intervals, and names everywhere else.
INTERVAL_CLAUSES = ("TO", "SESSION", "MAX", "UNTIL", "NESTED", "QUEUED", "OUTERMOST", "RESTART")
# What Gu 2011 calls AND, OR and !, and its constraints: functions of a pattern.
OTHER_NAMES = {"CON": "AND", "DIS": "OR"}
CONSTRAINTS = ("PARTITION", "TCONS", "VCONS", "WITHIN", "CONTINUITY")
OPERATORS = ("SEQ", "AND", "OR", "ISEQ", "REL", "EXISTS")
KEYWORDS = frozenset((
    *CLAUSES, *OPERATORS, "QUERY", "EVENT", "BY", "AS", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE",
    "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "CONSTRAINT",
))  # fmt: skip
LATER = frozenset(("INIT", "TERM", "GKEY", "LKEY", "POLICY", "DETECT", "MATCH_RECOGNIZE"))
ANY_WORD = "ANY"  # the leaf type that takes every event, in upper case only

UNIT_NAMES = {
    **dict.fromkeys(("us", "µs", "μs", "usec", "usecs", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hs", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}

ALLEN_NAMES = {
    **{name: name for name in ALLEN},
    "contains": "contain",
    "meets": "meet",
    "overlaps": "overlap",
    "starts": "start",
    "finishes": "finish",
    "equals": "equal",
}
# Between two variables, as in `a OVERLAPS b`.
VERBS = {**ALLEN_NAMES, INTERSECT: INTERSECT, "intersects": INTERSECT}

PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def is_plain(name: str) -> bool:
    """Whether a name can be written without back-quotes.

    >>> is_plain("tag"), is_plain("ins-type"), is_plain("Where")
    (True, False, False)
    """
    word = name.upper()
    return bool(PLAIN_NAME.fullmatch(name)) and word not in KEYWORDS and word not in LATER and word != ANY_WORD


# --- tokens ------------------------------------------------------------------------------------------------------

MOST_PROBLEMS = 10
INT64_LIMIT = 2**63  # one more than the largest int64: only its negative is a number
MOST_NUMBER_DIGITS = 400


@dataclass(frozen=True, slots=True)
class Token:
    """One word of the text. `text` is what it means: the name itself, the operator in its canonical form."""

    kind: Choice["name", "quoted", "number", "text", "op", "end"]
    text: str
    start: int
    end: int
    word: str = ""  # upper case, for bare names only
    value: int | Decimal = 0  # for numbers only

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


LEXEME = re.compile(
    r"""
      (?P<blank> \s+ | --[^\n]* )
    | (?P<number> (?: [0-9]+ (?: \.[0-9]+ )? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
    | (?P<name> [^\W\d]\w* )
    | (?P<quoted> ` (?: [^`] | `` )*+ ` )
    | (?P<text> ' (?: [^'] | '' )*+ ' | " (?: [^"] | "" )*+ " )
    | (?P<open> [`'"] [^\n]* )
    | (?P<op> <= | >= | <> | != | == | \|\| | && | [-+*/%=<>!?(),;:.\[\]{}|^≤≥≠¬∧∨∃−] )
    """,
    re.VERBOSE,
)
JUNK = re.compile(r"""[^\w\s`'"<>!?=|&\-+*/%(),;:.\[\]{}^≤≥≠¬∧∨∃−]+|.""", re.DOTALL)

CANONICAL = {"≤": "<=", "≥": ">=", "≠": "<>", "!=": "<>", "¬": "!", "−": "-", "==": "="}
WORDS = {"∧": "AND", "∨": "OR", "∃": "EXISTS", "&&": "AND"}


def tokenize(text: str, names: Iterable[str] = ()) -> tuple[list[Token], list[Problem]]:
    """The tokens of a text, ending with one of kind "end", and what could not be read.

    >>> [token.text for token in tokenize("SEQ(A a) -- two")[0]]
    ['SEQ', '(', 'A', 'a', ')', '']
    """
    hyphenated = {name for name in names if "-" in name}
    tokens: list[Token] = []
    problems: list[Problem] = []
    at = 0
    while at < len(text) and len(problems) < MOST_PROBLEMS:
        found = LEXEME.match(text, at)
        if found is None:
            at = _junk(text, at, problems)
            continue
        kind, end = found.lastgroup, found.end()
        if kind == "name":
            end = _hyphenated_end(text, at, end, hyphenated)
        if kind != "blank":
            tokens.append(_token(kind or "", text[at:end], at, end, problems))
        at = end
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens, problems


def _token(kind: str, raw: str, start: int, end: int, problems: list[Problem]) -> Token:
    match kind:
        case "name":
            return Token("name", raw, start, end, raw.upper())
        case "quoted":
            if raw == "``":
                problems.append(Problem("a name in back-quotes cannot be empty", Span(start, end)))
            return Token("quoted", raw[1:-1].replace("``", "`"), start, end)
        case "text":
            return Token("text", raw[1:-1].replace(raw[0] * 2, raw[0]), start, end)
        case "number":
            return Token("number", raw, start, end, value=number_of(raw, Span(start, end), problems))
        case "open":
            what = "name" if raw[0] == "`" else "text"
            hint = f"double the quote inside a {what} to write it: {raw[0] * 2}"
            problems.append(Problem(f"this {what} has no closing {raw[0]}", Span(start, start + 1), hint=hint))
            return Token("quoted" if what == "name" else "text", raw[1:], start, end)
    if raw in ("==", "&&"):
        meant = CANONICAL.get(raw) or WORDS[raw]
        problems.append(Problem(f"{raw} is not an operator here", Span(start, end), hint=f"write {meant}"))
    if raw in WORDS:
        return Token("name", raw, start, end, WORDS[raw])
    return Token("op", CANONICAL.get(raw, raw), start, end)


def number_of(raw: str, span: Span, problems: list[Problem]) -> int | Decimal:
    """Integers as int, anything with a point or an exponent as Decimal; the limits keep later arithmetic small."""
    if raw.isdigit():
        if len(raw.lstrip("0")) <= 19 and int(raw) <= INT64_LIMIT:
            return int(raw)
        problems.append(Problem("this integer does not fit into 64 bits", span))
        return 0
    mantissa, _, exponent = raw.lower().partition("e")
    if len(mantissa) <= MOST_NUMBER_DIGITS and len(exponent) <= 5 and abs(int(exponent or "0")) <= MOST_NUMBER_DIGITS:
        if not isinf(float(raw)):
            return Decimal(raw)
        problems.append(Problem("this number is larger than any float", span))
        return Decimal("0.0")
    problems.append(Problem("this number has too many digits or too large an exponent", span))
    return Decimal("0.0")


def _junk(text: str, at: int, problems: list[Problem]) -> int:
    found = JUNK.match(text, at)
    end = found.end() if found else at + 1
    shown = text[at : min(end, at + 20)]
    hint = None
    if shown[0] in "“”„‘’«»":
        hint = "use straight quotes: 'text'"
    elif shown[0] == "&":
        hint = "write AND"
    problems.append(Problem(f"{shown!r} has no meaning in a query", Span(at, end), hint=hint))
    return end


def _hyphenated_end(text: str, start: int, end: int, hyphenated: set[str]) -> int:
    """Where the name ends, if a declared name with hyphens starts here; the longest one wins."""
    if not hyphenated or end >= len(text) or text[end] != "-":
        return end
    most = max(name.count("-") for name in hyphenated)
    ends = list(_hyphen_ends(text, end, most))
    return next((stop for stop in reversed(ends) if text[start:stop] in hyphenated), end)


def _hyphen_ends(text: str, end: int, most: int) -> Iterator[int]:
    more = re.compile(r"-\w+")
    for _ in range(most):
        found = more.match(text, end)
        if found is None:
            return
        end = found.end()
        yield end
