"""Measure a corpus of random tests: how many pairs match, are rejected by a negation, touch a boundary.

Random tests that never match anything prove little; these numbers say whether they do, and a test keeps them up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal as Choice

from tocsin.events import Event
from tocsin.lang.syntax import (
    AGGREGATES,
    And,
    Attr,
    Between,
    Binary,
    Call,
    CaseWhen,
    Exists,
    In,
    Iseq,
    IsNull,
    Leaf,
    Like,
    Marked,
    Maybe,
    Name,
    Not,
    Or,
    Pattern,
    Query,
    Rel,
    Same,
    Seq,
    Unary,
    conjuncts,
    items_of,
    leaves_of,
    named,
    rebuilt,
    walk,
)
from tocsin.testing.oracle import Match, matches
from tocsin.testing.oracle_marks import with_strategy

NOTHING = "Nothing_of_this_type"


@dataclass(slots=True)
class Corpus:
    """Counts over pairs of a query and a history."""

    pairs: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def share(self, what: str) -> float:
        return self.counts[what] / max(1, self.pairs)

    def add(self, query: Query, events: list[Event]) -> None:
        self.pairs += 1
        self.counts.update({*constructs(query), *happenings(query, events)})

    def __str__(self) -> str:
        rows = sorted(self.counts, key=lambda what: -self.counts[what])
        return "\n".join([f"{self.pairs} pairs", *(f"{100 * self.share(what):5.1f} %  {what}" for what in rows)])


def measured(pairs: Iterable[tuple[Query, list[Event]]]) -> Corpus:
    """The measures of a corpus."""
    corpus = Corpus()
    for query, events in pairs:
        corpus.add(query, events)
    return corpus


# --- what happens in a history -------------------------------------------------------------------------------------


def happenings(query: Query, events: list[Event]) -> Iterator[str]:
    found = matches(query, events)
    if found:
        yield "has matches"
        if any(isinstance(node, Not) for node in walk(query.pattern)):
            yield "has matches beside a negation"
    if len(found) > 1:
        yield "has several matches"
    width = query.within.amount if query.within else None
    if any(match.end - match.start == width for match in found):
        yield "a span equals the window"
    if any(isinstance(node, Not) for node in walk(query.pattern)):
        without = matches(without_violations(query), events)
        if {match.binding for match in without} - {match.binding for match in found}:
            yield "a negation or a mark rejects"
        if at_gap_end(query, events, without):
            yield "an event stands at the end of a gap"
    if len({event.end for event in events}) < len({(event.end, event.eid) for event in events}):
        yield "ties"


def without_violations(query: Query) -> Query:
    """The query with negated parts that never occur, and without marks that reject a match."""
    full = with_strategy(named(query))  # a mark also says where a repetition begins
    return replace(full, pattern=_emptied(full.pattern, negated=False), strategy=None)


def _emptied(pattern: Pattern, *, negated: bool) -> Pattern:
    if isinstance(pattern, Leaf):
        return replace(pattern, type=f"{NOTHING}_{pattern.var}") if negated else pattern
    if isinstance(pattern, Marked):
        inner = _emptied(pattern.pattern, negated=negated)
        if not (isinstance(inner, Leaf) and inner.repeat is not None):
            return inner  # before what may be absent, a mark says nothing more
        weaker: Choice["EACH", "FIRST"] = "EACH" if pattern.mark.startswith("EACH") else "FIRST"
        return replace(pattern, mark=weaker if pattern.mark != "LAST" else "LAST", pattern=inner, of=())
    negated = negated or isinstance(pattern, Not)
    return rebuilt(pattern, [_emptied(item, negated=negated) for item in items_of(pattern)])


def at_gap_end(query: Query, events: list[Event], found: list[Match]) -> bool:
    """Does an event of a negated type touch an event that would match, where a strict order must keep it out?"""
    types = {leaf.type for node in walk(query.pattern) if isinstance(node, Not) for leaf in leaves_of(node.pattern)}
    bound = {eid for match in found for _, eids in match.binding for eid in eids}
    ends = {event.end for event in events if event.eid in bound}
    starts = {event.start for event in events if event.eid in bound}
    return any(
        event.type in types and (event.start in ends or event.end in starts)
        for event in events
        if event.eid not in bound
    )


# --- what a query is made of ---------------------------------------------------------------------------------------

PATTERNS = {
    Seq: "SEQ",
    And: "AND",
    Or: "OR",
    Exists: "EXISTS",
    Iseq: "ISEQ",
    Rel: "REL",
    Not: "negation",
    Marked: "mark",
    Maybe: "MAYBE",
}
EXPRESSIONS = {
    In: "IN", Between: "BETWEEN", Like: "LIKE", IsNull: "IS NULL", CaseWhen: "CASE", Same: "[attr]", Unary: "NOT or -",
}  # fmt: skip


def constructs(query: Query) -> Iterator[str]:
    """The names of everything that a query uses."""
    yield from ("WITHIN",) if query.within else ("no WITHIN",)
    yield from ("PARTITION BY",) if query.partition else ()
    yield from ("SELECT",) if query.select else ()
    yield from ("WHERE",) if query.where is not None else ()
    for node in walk(query):
        if type(node) in PATTERNS:
            yield PATTERNS[type(node)]
        elif type(node) in EXPRESSIONS:
            yield EXPRESSIONS[type(node)]
        match node:
            case Leaf():
                yield from _of_leaf(node)
            case Call(function):
                yield function if function in (*AGGREGATES, "start", "end") else "other functions"
            case Binary("=" | "<>", Name(), Name()):
                yield "identity"
            case Binary("+" | "-" | "*" | "/" | "%" | "||"):
                yield "arithmetic"
            case Binary("OR"):
                yield "OR of conditions"
    yield from _places(query.pattern, 0)
    yield f"depth {_depth(query.pattern)}"
    if _correlated(query):
        yield "a correlated predicate in a negated part"


def _of_leaf(leaf: Leaf) -> Iterator[str]:
    if leaf.repeat is not None:
        yield "repetition"
    if leaf.var is None:
        yield "unnamed leaf"
    if leaf.where is not None:
        yield "leaf predicate"


def _places(pattern: Pattern, negated: int) -> Iterator[str]:
    """Where negations and repetitions stand."""
    items = items_of(pattern)
    for at, item in enumerate(items):
        what = "negation" if isinstance(item, Not) else "repetition" if getattr(item, "repeat", None) else None
        if what and isinstance(pattern, Seq):
            yield f"{what} {'first' if at == 0 else 'last' if at == len(items) - 1 else 'in the middle'}"
        elif what and isinstance(pattern, And):
            yield f"{what} under AND"
        if what == "repetition" and negated:
            yield "repetition inside a negation"
        if isinstance(item, Not):
            if not isinstance(item.pattern, Leaf):
                yield "negation over a composite"
            if negated:
                yield "negation inside a negation"
            if negated > 1:
                yield "negation three deep"
        yield from _places(item, negated + isinstance(item, Not))


def _depth(pattern: Pattern) -> int:
    if isinstance(pattern, Not):
        return _depth(pattern.pattern)
    return 1 + max(map(_depth, items_of(pattern)), default=-1)


def _correlated(query: Query) -> bool:
    """Does a predicate of a negated part mention a variable from outside it?"""
    regions = dict(_regions(query.pattern, ()))
    asked = [conjunct for leaf in leaves_of(query.pattern) for conjunct in conjuncts(leaf.where)]
    for conjunct in (*asked, *conjuncts(query.where)):
        names = {node.var for node in walk(conjunct) if isinstance(node, Attr)}
        if len({regions[name] for name in names if name in regions}) > 1:
            return True
    return False


def _regions(pattern: Pattern, region: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    if isinstance(pattern, Leaf):
        yield str(pattern.var), region
    for at, item in enumerate(items_of(pattern)):
        yield from _regions(item, (*region, at) if isinstance(item, Not) else region)
