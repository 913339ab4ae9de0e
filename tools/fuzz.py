"""Random queries against the oracle, as many as asked; each kind of failure is made small and kept as a case file.

    python tools/fuzz.py --queries 5000 [--seed 1] [--jit] [--into FOLDER]

Exit code 1 if anything disagreed. The files go to tests/cases/found/ and are run with all others from then on.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random

from tocsin.errors import TocsinError
from tocsin.events import Event, Value
from tocsin.lang.syntax import Query
from tocsin.testing.agree import COMPILED, PLAIN, Bench, Trial
from tocsin.testing.corpus import Corpus
from tocsin.testing.notation import spell, write
from tocsin.testing.oracle import matches
from tocsin.testing.shrink import shrunk
from tocsin.testing.strategies import SCHEMA, pair

FOUND = Path(__file__).parent.parent / "tests" / "cases" / "found"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=2000, help="how many queries to draw")
    parser.add_argument("--seed", type=int, default=None, help="where to begin; default: the time")
    parser.add_argument("--jit", action="store_true", help="compile each query too (about two seconds each)")
    parser.add_argument("--into", type=Path, default=FOUND, help="where failures are written")
    given = parser.parse_args(arguments)
    first = int(time.time()) if given.seed is None else given.seed
    trials = PLAIN + COMPILED if given.jit else PLAIN
    corpus, kept = Corpus(), 0
    seen: set[str] = set()
    print(f"drawing {given.queries} queries from seed {first}")
    for number in range(first, first + given.queries):
        query, events = pair(Random(number))  # noqa: S311 - not for secrets
        corpus.add(query, events)
        problem = Bench(query, SCHEMA).disagreement(events, trials)
        if problem is not None and kind(problem) not in seen:
            seen.add(kind(problem))
            kept += 1
            print(f"seed {number}: {keep(query, events, trials, problem, number, given.into)}")
    print(f"{corpus}\n\n{kept} kinds of failure")
    return 1 if kept else 0


def kind(problem: str) -> str:
    """What failures have in common: the mode and the words before any detail."""
    return re.sub(r"[\d(\['].*", "", problem)[:60]


def keep(query: Query, events: list[Event], trials: Sequence[Trial], problem: str, number: int, into: Path) -> Path:
    """The failure as a case file, as small as it can be made."""

    def fails(query: Query, events: Sequence[Event]) -> bool:
        found = Bench(query, SCHEMA).disagreement(events, trials)
        return found is not None and kind(found) == kind(problem)

    query, events = shrunk(query, events, fails)
    into.mkdir(parents=True, exist_ok=True)
    path = into / f"seed_{number}.case"
    path.write_text("\n".join(case_lines(query, events, problem, number)) + "\n", encoding="utf-8")
    return path


def case_lines(query: Query, events: list[Event], problem: str, number: int) -> Iterator[str]:
    """A case whose expectation is what the oracle says."""
    yield f"# found by make fuzz, seed {number}: {problem.splitlines()[0]}"
    yield from ("query", str(query), "stream", " ".join(map(spelled, events)), "----")
    by_eid = {event.eid: event for event in events}
    try:
        for match in matches(query, events):
            yield " ".join(write(by_eid[eid], events) for _, eids in match.binding for eid in eids)
    except TocsinError as error:
        yield f"error: {error.message}"


def spelled(event: Event) -> str:
    """The event with its eid and attributes, in the notation of case files."""
    attrs = ",".join(f"{name}={value_text(value)}" for name, value in event.attrs.items())
    return f"{spell(event.type, event.start, event.end)}#{event.eid}" + (f"{{{attrs}}}" if attrs else "")


def value_text(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Decimal():
            return str(float(value))
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
