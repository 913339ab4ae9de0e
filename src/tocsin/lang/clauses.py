"""The clauses that choose among matches, or count them: CONSUME, CONTINUITY, SKIP, DISTINCT BY, LIMIT, GROUP BY, EVERY.

Their words are words only where a clause can stand: AFTER before MATCH, DISTINCT and GROUP before BY, LIMIT and
EVERY before a number, CONSUME before a mode, CONTINUITY before ALL and OF. Everywhere else they are names, as they have
always been.
"""

from __future__ import annotations

from dataclasses import replace

from tocsin.errors import Problem
from tocsin.lang.constraints import ConstraintReader
from tocsin.lang.cursor import ReadError, shown, similar
from tocsin.lang.syntax import (
    MODES,
    ConsumeClause,
    DistinctClause,
    Duration,
    Expr,
    LimitClause,
    Name,
    Query,
    Same,
    SkipClause,
)
from tocsin.lang.tokens import Token

NEXT_CLAUSES = (
    "next can come WHERE, WITHIN, PARTITION BY, STRATEGY, CONTINUITY, CONSUME, AFTER MATCH SKIP, DISTINCT BY, LIMIT, "
    "SELECT, GROUP BY, EVERY, UNDER, or ; and another query"
)
SKIPS = "the forms are SKIP PAST LAST EVENT, SKIP TO NEXT EVENT, SKIP TO FIRST x and SKIP TO LAST x"


class ClauseReader(ConstraintReader):
    """Reads the clauses that choose among matches."""

    def at_selection(self) -> str | None:
        """The first word of the one that begins at this token, where only a clause can stand."""
        word, following = self.token.word, self.peek()
        if word == "SKIP" and following.word in ("PAST", "TO"):
            return "AFTER"
        negative = word == "LIMIT" and following.kind == "op" and following.text == "-"
        return word if negative or self.selects_at(self.at) else None

    def odd_selection(self) -> ReadError | None:
        """What is wrong where one of their words stands alone."""
        match self.token.word:
            case "SKIP" | "AFTER":
                return self.fault("this clause begins with AFTER MATCH SKIP", hint=SKIPS)
            case "DISTINCT":
                return self.fault("DISTINCT needs BY behind it", hint="write DISTINCT BY a.x EVERY 10 min")
            case "LIMIT":
                return self.fault("LIMIT needs a number behind it", hint="write LIMIT 5, or LIMIT 5 PER user EVERY 1 h")
            case "GROUP":
                return self.fault("GROUP needs BY behind it", hint="write SELECT user, count(*) GROUP BY user")
            case "EVERY":
                hint = "write SELECT count(*) EVERY 1 h, or put it behind DISTINCT BY or LIMIT"
                return self.fault("EVERY needs a length of time behind it", hint=hint)
            case "CONSUME":
                meant = similar(self.peek(), [name.upper() for name in MODES])
                hint = f"did you mean {meant.lower()}?" if meant else f"the modes are {', '.join(MODES)}"
                return self.fault(f"expected a mode after CONSUME, found {shown(self.peek())}", hint=hint)
            case "UNDER":
                hint = "write CONSTRAINT order AS A B; EVENT SEQ(A a, B b) UNDER order"
                return self.fault("UNDER needs the name of a constraint behind it", hint=hint)
            case "CONTINUITY":
                hint = "CONTINUITY ALL, or CONTINUITY OF (C, D)"
                return self.fault(f"expected ALL or OF after CONTINUITY, found {shown(self.peek())}", hint=hint)
        return None

    def selection(self, clause: str, query: Query) -> Query:
        """The query with the clause whose first word was just read."""
        start = self.last
        match clause:
            case "AFTER":
                return replace(query, skip=self._skip(start))
            case "DISTINCT":
                return replace(query, distinct=self._distinct(start))
            case "GROUP":
                return replace(query, group=self._groups())
            case "EVERY":
                return replace(query, every=self.duration("the length of EVERY", "EVERY"))
            case "CONSUME":
                return replace(query, consume=ConsumeClause(self.take().word.lower(), span=self.since(start)))
            case "CONTINUITY":
                return replace(query, continuity=self.continuity_of(start, self.named_types()))
        return replace(query, limit=self._limit(start))

    def _skip(self, start: Token) -> SkipClause:
        if start.word == "SKIP":
            hint = "write AFTER MATCH SKIP PAST LAST EVENT"
            self.note(Problem("SKIP stands behind AFTER MATCH", start.span, hint=hint))
        else:
            self.take()  # MATCH: it was seen already
            self.expect_word("SKIP", "after AFTER MATCH")
        if self.accept_word("PAST"):
            self.expect_word("LAST", "after SKIP PAST")
            self.expect_word("EVENT", "after SKIP PAST LAST")
            return SkipClause("past last", span=self.since(start))
        if not self.accept_word("TO"):
            raise self.fault(f"expected PAST or TO after SKIP, found {shown(self.token)}", hint=SKIPS)
        if self.is_word("NEXT") and self.peek().word == "EVENT":
            self.take()
            self.take()
            return SkipClause("next", span=self.since(start))
        if not self.is_word("FIRST", "LAST"):
            raise self.fault(f"expected NEXT EVENT, FIRST or LAST after SKIP TO, found {shown(self.token)}", hint=SKIPS)
        which = self.take().word
        token = self.token
        var = Name(self.name(f"a variable after SKIP TO {which}"), span=token.span)
        return SkipClause("first" if which == "FIRST" else "last", var, span=self.since(start))

    def _distinct(self, start: Token) -> DistinctClause:
        self.take()  # BY: it was seen already
        by = self._grouping()
        if self.is_op(","):
            raise self.fault("DISTINCT BY takes one value", hint="join several: DISTINCT BY a.x || ' ' || a.y")
        every = self._every()
        return DistinctClause(by, every, span=self.since(start))

    def _limit(self, start: Token) -> LimitClause:
        negative = self.accept_op("-")
        token = self.token
        if token.kind != "number":
            raise self.fault(f"expected a number after LIMIT, found {shown(token)}", hint="write LIMIT 5")
        self.take()
        most = token.value
        if negative or not isinstance(most, int) or most < 1:
            hint = "the smallest is LIMIT 1; to report nothing, make the query HIDDEN"
            self.note(Problem("LIMIT takes a whole number of at least 1", self.since(start), hint=hint))
            most = 1
        per: list[Expr] = []
        if self.accept_word("PER"):
            per.append(self._grouping())
            while self.accept_op(","):
                per.append(self._grouping())
        every = self._every()
        return LimitClause(most, tuple(per), every, span=self.since(start))

    def _groups(self) -> tuple[Expr, ...]:
        self.take()  # BY: it was seen already
        groups = [self._grouping()]
        while self.accept_op(","):
            groups.append(self._grouping())
        return tuple(groups)

    def _grouping(self) -> Expr:
        """An expression over the events of a match; a name by itself is an attribute of the key."""
        found = self.expr()
        return Same((found.name,), span=found.span) if isinstance(found, Name) else found

    def _every(self) -> Duration | None:
        return self.duration("the length of EVERY", "EVERY") if self.accept_word("EVERY") else None
