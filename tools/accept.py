"""Rewrite what case files expect, where the oracle and the engine give one and the same other answer: `make accept`.

Cases that expect an error, a log of changes or a state are left alone, and so is every case on which the two disagree.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tocsin.app.judge import EngineUnderTest, case_files
from tocsin.errors import TocsinError
from tocsin.lang.parser import parse_all
from tocsin.testing.cases import Answer, Case, flat, oracle_answer, parse_cases, run_case, written
from tocsin.testing.notation import events_of, history


def lines_of(case: Case, answer: Answer) -> list[str]:
    """The settled matches as a case file writes them, sorted."""
    items = history(case.stream)
    events = events_of(items)
    queries = parse_all(case.query)
    found = flat(queries, answer(queries, items, case.options))
    known = events + [event for each in found for event in each.events if event not in events]
    settled: list[str] = []
    for each in found:
        line = written(each, known)
        if each.op > 0:
            settled.append(line)
        else:
            settled.remove(line)
    return sorted(settled)


def agreed(case: Case) -> list[str] | None:
    """What both say, if it is not what the case expects and the case is one that may be rewritten."""
    if case.error is not None or case.log is not None or case.state or run_case(case, oracle_answer).ok:
        return None
    try:
        truth = lines_of(case, oracle_answer)
        return truth if truth == lines_of(case, EngineUnderTest(jit=False)) else None
    except TocsinError:
        return None


def rewritten(text: str, case: Case, expected: list[str]) -> str:
    """The text of a case file with other expected lines; comments and blank lines stay."""
    lines = text.splitlines()
    begin = next(at for at in range(case.line, len(lines)) if lines[at].startswith("----")) + 1
    ends = (at for at in range(begin, len(lines)) if lines[at].split()[:1] in (["query"], ["stream"]))
    end = next(ends, len(lines))
    kept = [line for line in lines[begin:end] if not line.strip() or line.startswith("#")]
    return "\n".join([*lines[:begin], *expected, *kept, *lines[end:]]) + "\n"


def accept(path: Path) -> int:
    """Rewrite one file from its last case to its first, so that places stay right; how many cases changed."""
    text, changed = path.read_text(encoding="utf-8"), 0
    for case in reversed(parse_cases(text, file=path.name)):
        expected = agreed(case)
        if expected is not None:
            text, changed = rewritten(text, case, expected), changed + 1
            print(f"{path}:{case.line}: rewritten")
    if changed:
        path.write_text(text, encoding="utf-8")
    return changed


def main(paths: list[str]) -> int:
    changed = sum(accept(path) for path in case_files(Path(path) for path in paths))
    print(f"{changed} cases rewritten; look at the difference before you keep it")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
