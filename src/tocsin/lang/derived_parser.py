"""The clauses of a definition of intervals, `INTERVALS name FROM ...`, in any order.

Its words are words only here: everywhere else INTERVALS, FROM, SESSION, GAP and the policies are names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

from tocsin.errors import Problem
from tocsin.lang.clauses import ClauseReader
from tocsin.lang.cursor import ReadError, shown, similar
from tocsin.lang.derived_syntax import FOLDS, POLICIES, Intervals, Policy, Reading, State
from tocsin.lang.syntax import Attr, Call, Expr, Name, Same, SelectItem, walk
from tocsin.lang.tokens import CLAUSES, INTERVAL_CLAUSES, Token

INTERVALS = "INTERVALS"
T = TypeVar("T")
FORMS = (
    "runs: AS Label WHEN condition; sessions: SESSION GAP 5 min; pairs: TO Type. Each may have BY attr and SELECT"
)  # fmt: skip


class IntervalReader(ClauseReader):
    """Reads definitions of intervals."""

    def at_intervals(self) -> bool:
        """Whether `INTERVALS name FROM` or the like begins here, and not a pattern over a type of that name."""
        if not self.is_word(INTERVALS) or self.peek().kind not in ("name", "quoted"):
            return False
        behind = self.peek(2)
        return behind.kind == "name" and behind.word not in CLAUSES and not self.ends_here(self.at + 2)

    def intervals(self) -> Intervals | None:
        """The definition that begins here; None if it cannot be understood."""
        start = self.take()
        found: Intervals | None = None
        try:
            name = self.name("the name of the intervals")
            hidden = self.accept_word("HIDDEN")
            self.expect_word("FROM", f"after INTERVALS {name}")
            found = Intervals(name, self._readings(), hidden=hidden)
            found = self._clauses_of(found)
        except ReadError as fault:
            self.recover(fault, 0)
            while self.token.kind != "end" and not self.is_op(";"):
                self.take()
        if found is None:
            return None
        found = replace(found, span=self.since(start), text=self.text)
        if not self.problems:
            self._check_form(found, start)
        return found

    def _clauses_of(self, given: Intervals) -> Intervals:
        seen: set[str] = set()
        while self.token.kind != "end" and not self.is_op(";") and not self.is_word("QUERY", "EVENT"):
            token = self.take()
            clause = "POLICY" if token.word.lower() in POLICIES else token.word
            if clause in seen:
                self.note(Problem(f"a second {token.word} clause", token.span, hint="each clause stands once"))
            seen.add(clause)
            given = self._clause_of(clause, token, given)
        return given

    def _clause_of(self, clause: str, token: Token, given: Intervals) -> Intervals:
        match clause:
            case "TO":
                return replace(given, ends=self._readings())
            case "BY":
                return replace(given, by=self._several(lambda: self.name("an attribute after BY")))
            case "AS":
                return replace(given, states=self._several(self._state))
            case "SESSION":
                self.expect_word("GAP", "after SESSION")
                return replace(given, gap=self.duration("the longest gap of a session", "SESSION GAP"))
            case "MAX":
                self.expect_word("GAP", "after MAX")
                return replace(given, max_gap=self.duration("the longest gap of a run", "MAX GAP"))
            case "UNTIL":
                self.expect_word("NEXT", "after UNTIL")
                return replace(given, end_last=False)
            case "END":
                self.expect_word("LAST", "after END")
                return replace(given, end_last=True)
            case "POLICY":
                return replace(given, policy=cast("Policy", token.word.lower()))
            case "SELECT":
                return replace(given, select=self._several(self._fold))
        meant = similar(token, (*INTERVAL_CLAUSES, "BY", "AS", "SELECT"))
        hint = f"did you mean {meant}?" if meant else FORMS
        raise self.fault(f"unexpected {shown(token)}", token, hint=hint)

    def _several(self, one: Callable[[], T]) -> tuple[T, ...]:
        found = [one()]
        while self.accept_op(","):
            found.append(one())
        return tuple(found)

    def _readings(self) -> tuple[Reading, ...]:
        return self._several(self._reading)

    def _reading(self) -> Reading:
        start = self.token
        type = self.name("an event type")
        while self.accept_op("."):
            type += "." + self.any_word("the rest of an event type")
        where = self._condition() if self.accept_op(":") else None
        return Reading(type, where, span=self.since(start))

    def _state(self) -> State:
        self.accept_word("AS")  # it may be repeated in front of each
        start = self.token
        label = self.name("the label of a state")
        self.expect_word("WHEN", f"after the label {label}")
        return State(label, self._condition(), span=self.since(start))

    def _condition(self) -> Expr:
        """A condition on one reading: its names are attributes."""
        found = self.expr()
        for node in walk(found):
            if isinstance(node, Attr):
                hint = f"here names are attributes of the reading: write {node.name}"
                self.note(Problem("a condition on a reading has no variables", node.span, hint=hint))
            elif isinstance(node, Same):
                self.note(Problem("[attr] relates several events", node.span, hint="the key is said by BY attr"))
        return found

    def _fold(self) -> SelectItem:
        start = self.token
        expr = self.expr()
        is_fold = isinstance(expr, Call) and expr.function in FOLDS
        plain = is_fold and all(isinstance(arg, Name) for arg in expr.args)  # type: ignore[union-attr]
        if not plain or len(expr.args) > 1 or (not expr.args and expr.function != "count"):  # type: ignore[union-attr]
            hint = "count(*), count(x), min(x), max(x), first(x), last(x); the key is a column already"
            self.note(Problem("SELECT of intervals takes folds of one attribute", self.since(start), hint=hint))
        name = self.name("the name of the column") if self.accept_word("AS") else None
        return SelectItem(expr, name, span=self.since(start))

    def _check_form(self, found: Intervals, start: Token) -> None:
        """Exactly one of states, SESSION GAP and TO; the other clauses where they mean something."""
        given = [
            word
            for word, there in (("AS", found.states), ("SESSION GAP", found.gap), ("TO", found.ends))
            if there
        ]  # fmt: skip
        if len(given) != 1:
            what = "nothing that says" if not given else f"{' and '.join(given)}, which both say"
            self.note(Problem(f"{found.name} has {what} what its intervals are", start.span, hint=FORMS))
        elif not found.states and (found.end_last or found.max_gap is not None):
            word = "END LAST" if found.end_last else "MAX GAP"
            self.note(Problem(f"{word} is about runs of a state", found.span, hint=FORMS))
        elif not found.ends and found.policy != "nested":
            hint = "it says which begin an end belongs to: FROM Begin TO End"
            self.note(Problem(f"{found.policy.upper()} is about pairs of a begin and an end", found.span, hint=hint))
