"""How the work of an event grows with what its operands keep, when the answers stay the same.

    python -m benchmarks.staged.windows

Work is counted, not timed: lines of a statement's function that Python runs, per event, once the windows are full.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from types import FrameType
from typing import Any

import tocsin
from tocsin.staged.compiled import bodies, choice

LENGTHS = (64, 128, 256, 512)
STATEMENTS = {
    "equal to one of the last": "Event And(A<rows {}>, B<consume>) Where A.x = B.x",
    "equal to one within": "Event Sequence(A<range {}>, B<consume>) Where A.x = B.x",
    "unless one of the last is equal": "Event Unless(B<rows 1, consume>, A<rows {}>) Where A.x = B.x + 1000000",
    "unless two of the last are equal": "Event Unless(B<rows 1, consume>, AtLeast(2, A<rows {}>)) Where A.x = B.x",
    "aggregates of all so far": "Select Group Sum(Bag(A.x)) as s, Count(B) as n Event And(A, B)",
}
ASKED = 64  # events of which the work is counted


def rows(filled: int) -> list[dict[str, Any]]:
    """So many events A, then A and B in turn; each B has the x of the A four before it."""
    found = [{"type": "A", "time": at, "x": at} for at in range(filled)]
    found += [
        {"type": "AB"[at % 2], "time": at, "x": at - 4 * (at % 2) - at % 2} for at in range(filled, filled + ASKED)
    ]
    return found


def lines_of(text: str, length: int) -> tuple[float, int]:
    """Lines for each event, and how many answers there are."""
    events = rows(2 * length)
    counted = 0

    def trace(frame: FrameType, what: str, _: object) -> Any:
        nonlocal counted
        if what == "call" and frame.f_code.co_filename not in ("<stages>", bodies.library.__file__):
            return None
        counted += what == "line"
        return trace

    statement = text.format(length)
    head = "" if statement.startswith("Select") else "Select B.x as x "
    with tocsin.query(f"CreateCE X {head}{statement}").stream() as session:
        session.push(events[:-ASKED])
        sys.settrace(trace)
        try:
            found = session.push(events[-ASKED:])
        finally:
            sys.settrace(None)
        answers = len(found) + len(session.close())
    return counted / ASKED, answers


def work() -> list[dict[str, Any]]:
    """For each statement the lines per event by the length of its windows."""
    before = bodies.compiled, choice.WORTH
    bodies.compiled, choice.WORTH = bodies.plain, 0  # type: ignore[assignment]
    try:
        found = []
        for name, text in STATEMENTS.items():
            counted = {length: lines_of(text, length) for length in LENGTHS}
            lines = {str(length): each for length, (each, _) in counted.items()}
            found.append({"what": name, "lines": lines, "answers": sorted({each for _, each in counted.values()})})
        return found
    finally:
        bodies.compiled, choice.WORTH = before


def problems(found: list[dict[str, Any]]) -> list[str]:
    """Statements whose work grows faster than their windows, or whose answers are not the same."""
    wrong = []
    for each in found:
        lines = list(each["lines"].values())
        if len(each["answers"]) > 1:
            wrong.append(f"{each['what']}: the answers change with the window, {each['answers']}")
        if any(later > 2.02 * one for one, later in pairwise(lines)):
            wrong.append(f"{each['what']}: work grows faster than the window, {lines}")
    return wrong


if __name__ == "__main__":
    measured = work()
    print(json.dumps(measured, indent=1))
    sys.exit("\n".join(problems(measured)) or 0)
