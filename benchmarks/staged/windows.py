"""How the work of an event grows with what its operands keep, when the answers stay the same.

    python -m benchmarks.staged.windows

Work is counted: lines of a statement's function that Python runs, per event, once the windows are full. And it is
timed: the CPU time of an event in the compiled function, with windows that are much longer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import pairwise
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from tocsin.staged.compiled import bodies, choice

LENGTHS = (64, 128, 256, 512)
LONG = (1_000, 4_000, 16_000)
TIMED = 4_000  # events of which the time is taken
TOLERANCE = 1.5  # of times, which vary
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


def table(first: int, count: int, filled: int) -> pa.Table:
    """Events as `rows` says them, from one place on."""
    at = np.arange(first, first + count)
    is_b = (at >= filled) & (at % 2 == 1)
    codes = pa.DictionaryArray.from_arrays(is_b.astype(np.int32), pa.array(["A", "B"]))
    return pa.table({"type": codes, "time": at, "x": np.where(is_b, at - 5, at)})


def microseconds_of(text: str, length: int) -> tuple[float, int]:
    """CPU time for each event, the better of two goes, and how many answers there are."""
    statement = text.format(length)
    head = "" if statement.startswith("Select") else "Select B.x as x "
    filled, best, answers = 2 * length, 0.0, 0
    with tocsin.query(f"CreateCE X {head}{statement}").stream() as session:
        session.push(table(0, filled, filled))
        for go in range(3):
            begin = time.process_time()
            answers = len(session.push(table(filled + go * TIMED, TIMED, filled)))
            seconds = time.process_time() - begin
            best = min(best or seconds, seconds) if go else 0.0
        session.close()
    return best / TIMED * 1e6, answers


def timed() -> list[dict[str, Any]]:
    """For each statement the microseconds per event by the length of its windows."""
    before = os.environ.get("TOCSIN_COMPILE_FIRST")
    os.environ["TOCSIN_COMPILE_FIRST"] = "1"
    try:
        found = []
        for name, text in STATEMENTS.items():
            measured = {length: microseconds_of(text, length) for length in LONG}
            taken = {str(length): each for length, (each, _) in measured.items()}
            found.append({"what": name, "times": taken, "answers": sorted({each for _, each in measured.values()})})
        return found
    finally:
        os.environ.pop("TOCSIN_COMPILE_FIRST")
        if before is not None:
            os.environ["TOCSIN_COMPILE_FIRST"] = before


def problems_of_times(found: list[dict[str, Any]]) -> list[str]:
    """Statements that take more time than their windows are longer, or whose answers are not the same."""
    wrong = []
    for each in found:
        if len(each["answers"]) > 1:
            wrong.append(f"{each['what']}: the answers change with the window, {each['answers']}")
        for (length, one), (other, later) in pairwise((int(length), one) for length, one in each["times"].items()):
            if later > one * other / length * TOLERANCE:
                wrong.append(f"{each['what']}: time grows faster than the window, {each['times']}")
    return wrong


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
    measured, taken = work(), timed()
    print(json.dumps(measured + taken, indent=1))
    sys.exit("\n".join(problems(measured) + problems_of_times(taken)) or 0)
