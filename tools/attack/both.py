"""One history put to the engine and to the definition: whatever queries are asked, both give the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tocsin.app.judge import EngineUnderTest, settled
from tocsin.errors import TocsinError
from tocsin.events import Eid, Event
from tocsin.lang.derived_syntax import Intervals
from tocsin.lang.staged_syntax import LeafOperand, parts
from tocsin.lang.syntax import Query, leaves_of
from tocsin.testing.cases import AnyQuery, FoundMatch, oracle_answer
from tocsin.testing.notation import Item, events_of
from tocsin.testing.staged_cases import is_staged
from tools.attack import sides
from tools.attack.core import WrongAnswerError

LARGE = 6  # leaves of a query, or operands of a statement; the definitions take long with more


def is_large(queries: Sequence[AnyQuery]) -> bool:
    """Tell whether some query is too large for the definitions."""
    return max(map(_size, queries), default=0) > LARGE


def _size(query: AnyQuery) -> int:
    if isinstance(query, Query):
        return len(leaves_of(query.pattern))
    if isinstance(query, Intervals):
        return len(query.select)
    return sum(isinstance(each, LeafOperand) for each in parts(query))


def agree(queries: Sequence[AnyQuery], items: Sequence[Item], options: Mapping[str, str]) -> None:
    """Put the history to both; what the engine refuses is refused, whatever the definition says."""
    try:
        answers = EngineUnderTest(jit=False)(queries, items, options)
    except TocsinError as error:
        if error.message.startswith("the engine "):  # its ways to answer differ among themselves
            raise WrongAnswerError(f"{error.message}: {error.detail}") from None
        raise
    if options.get("end") == "no":
        return
    try:
        expected = oracle_answer(queries, items, options)
    except TocsinError as refused:
        raise WrongAnswerError(f"the oracle refuses what the engine answers: {refused.message}") from None
    eids = {event.eid for event in events_of(items)}
    standing = answers if is_staged(queries) else settled(answers)
    sides.same("engine and oracle", _found(standing, eids), _found(expected, eids))


def _found(answers: Sequence[FoundMatch], given: set[Eid]) -> sides.Found:
    """Return the answers as texts that can be compared."""
    return sides.Found(_spelled(each, given) for each in answers)


def _spelled(answer: FoundMatch, given: set[Eid]) -> str:
    """Return an answer by the eids of its events; those of other queries have names of their own in the oracle."""

    def spelled(event: Event) -> object:
        return event.eid if event.eid in given else (event.type, event.start, event.end)

    bound = sides.spelled((name, map(spelled, events)) for name, events in answer.binding)
    row = "" if answer.row is None else repr(answer.row)
    return " ".join(filter(None, (answer.kind if answer.kind != "match" else "", bound, answer.text, row)))
