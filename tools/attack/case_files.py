"""Case files: garbled ones are refused, or the engine finds in them what the oracle finds."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tocsin.app.judge import EngineUnderTest, settled
from tocsin.errors import TocsinError
from tocsin.events import Eid, Event
from tocsin.lang.parser import parse_all
from tocsin.lang.syntax import leaves_of
from tocsin.testing.cases import FoundMatch, oracle_answer, parse_cases, run_case
from tocsin.testing.notation import events_of, history
from tools.attack import sides
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import garbled

CASES = Path(__file__).parent.parent.parent / "tests" / "cases"
WORDS = (
    "query stream ---- a1 b2 c3 a1#x b2{id=7} h[3,8] h[3, @A>5 @*>5 @s:A>5 a1'2 order=slack(3) order=conservative"
    ' end=no batch=1 error: state: + - order=aggressive Shelf@9 {v=null} {s="x"} {v=1.5} a-1 a9223372036854775807'
    " WITHIN WHERE"
).split()  # fmt: skip
LARGE = 6  # leaves; the oracle takes long with more


def make(random: Random) -> Input:
    """Draw a few sections of a case file, garbled."""
    path = random.choice(sorted(CASES.rglob("*.case")))
    sections = path.read_text(encoding="utf-8").split("\nquery\n")
    text = "query\n" + random.choice(sections[1:] or sections)
    return {"text": garbled(random, text, WORDS, most=4) if random.random() < 0.9 else text}


def found(matches: list[FoundMatch], given: set[Eid]) -> sides.Found:
    """Return the matches by the eids of their events; those of other queries have names of their own in the oracle."""

    def spelled(event: Event) -> object:
        return event.eid if event.eid in given else (event.type, event.start, event.end)

    bindings = [[(name, map(spelled, events)) for name, events in each.binding] for each in matches]
    return sides.Found(sides.spelled(binding) for binding in bindings)


def judge(given: Input) -> None:
    """Put each case to both."""
    for case in parse_cases(given["text"]):
        run_case(case, EngineUnderTest(jit=False), log="order" in case.options)
        items, queries = history(case.stream), parse_all(case.query)
        if max(len(leaves_of(each.pattern)) for each in queries) > LARGE:
            continue
        answers = EngineUnderTest(jit=False)(queries, items, case.options)
        if case.options.get("end") == "no":
            continue
        try:
            expected = oracle_answer(queries, items, case.options)
        except TocsinError as refused:
            raise WrongAnswerError(f"the oracle refuses what the engine answers: {refused.message}") from None
        eids = {event.eid for event in events_of(items)}
        sides.same("engine and oracle", found(settled(answers), eids), found(expected, eids))


SURFACE = Surface("case_files", make, judge, share=3)
