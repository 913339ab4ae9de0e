"""Case files: garbled ones are refused, or the engine finds in them what the oracle finds."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tocsin.app.judge import EngineUnderTest
from tocsin.lang.parser import parse_file
from tocsin.testing.cases import parse_cases, run_case
from tocsin.testing.notation import history
from tools.attack.both import agree, is_large
from tools.attack.core import Input, Surface
from tools.attack.mutate import garbled

TESTS = Path(__file__).parent.parent.parent / "tests"
CASES = tuple(TESTS / name for name in ("cases", "staged_cases", "derived_cases", "begin_cases"))
WORDS = (
    "query stream ---- a1 b2 c3 a1#x b2{id=7} h[3,8] h[3, @A>5 @*>5 @s:A>5 a1'2 order=slack(3) order=conservative"
    ' end=no batch=1 error: state: + - order=aggressive Shelf@9 {v=null} {s="x"} {v=1.5} a-1 a9223372036854775807'
    " WITHIN WHERE h[2, h[2,9] @H[>4 @*[>3 a[1, longest=H:10 [3,8]: 3: null Shelf@09:00 @2026-03-01T09:00 time-unit"
    " engine=spark file=x.tocsin expected: violated: unended:"
).split()  # fmt: skip


def make(random: Random) -> Input:
    """Draw a few sections of a case file, garbled."""
    path = random.choice([path for folder in CASES for path in sorted(folder.rglob("*.case"))])
    sections = path.read_text(encoding="utf-8").split("\nquery\n")
    text = "query\n" + random.choice(sections[1:] or sections)
    return {"text": garbled(random, text, WORDS, most=4) if random.random() < 0.9 else text}


def judge(given: Input) -> None:
    """Put each case to both."""
    for case in parse_cases(given["text"]):
        run_case(case, EngineUnderTest(jit=False), log="order" in case.options)
        items, queries = history(case.stream), parse_file(case.query)
        if not is_large(queries):
            agree(queries, items, case.options)


SURFACE = Surface("case_files", make, judge, share=3)
