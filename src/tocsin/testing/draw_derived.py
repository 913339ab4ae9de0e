"""Random definitions of intervals over every clause, and histories with ties, copies and gaps."""

from __future__ import annotations

from random import Random

from tocsin.events import Event, Value
from tocsin.lang.derived_syntax import POLICIES, Intervals
from tocsin.lang.parser import parse_file

CONDITIONS = (
    "v > 2", "v <= 1", "v = 3", "v BETWEEN 1 AND 2", "v IS NULL", "v > 1 AND w < 2", "NOT v > 2", "s = 'x'",
    "v + w > 4", "v IN (0, 4)", "s IS NOT NULL OR v = 2", "TRUE", "b", "gone = 1", "gone IS NULL AND v > 0",
)  # fmt: skip
FOLDS = (
    "count(*)", "count(v)", "min(v)", "max(v)", "first(v)", "last(v)", "first(s)", "last(s)", "min(w)", "max(w)",
    "last(w)", "first(b)",
)  # fmt: skip
KEYS = ("", "BY k", "BY k", "BY k, s")


def drawn_intervals(random: Random, name: str = "derived", types: tuple[str, ...] = ("A", "B")) -> Intervals:
    """One definition."""
    clauses = [random.choice(KEYS)]
    match random.choice(("runs", "runs", "sessions", "pairs")):
        case "runs":
            labels = random.sample(("High", "Low", "Mid"), random.randint(1, 3))
            clauses.append("AS " + ", ".join(f"{label} WHEN {random.choice(CONDITIONS)}" for label in labels))
            clauses.append(random.choice(("", "", "END LAST", "UNTIL NEXT")))
            clauses.append(random.choice(("", f"MAX GAP {random.randint(1, 4)}")))
        case "sessions":
            clauses.append(f"SESSION GAP {random.randint(1, 4)}")
        case "pairs":
            clauses += [f"TO {_readings(random, types)}", random.choice(("", *POLICIES)).upper()]
    folds = random.sample(FOLDS, random.choice((0, 1, 3)))
    clauses.append(f"SELECT {', '.join(f'{fold} AS f{at}' for at, fold in enumerate(folds))}" if folds else "")
    text = " ".join([f"INTERVALS {name} FROM {_readings(random, types)}", *filter(None, clauses)])
    (found,) = parse_file(text)
    assert isinstance(found, Intervals)
    return found


def _readings(random: Random, types: tuple[str, ...]) -> str:
    chosen = random.sample(types, random.randint(1, len(types)))
    return ", ".join(f"{type} : {random.choice(CONDITIONS)}" if random.random() < 0.4 else type for type in chosen)


def drawn_readings(random: Random, types: tuple[str, ...] = ("A", "B", "C"), most: int = 14) -> list[Event]:
    """Readings in order of time, of a few keys, with equal times; some last a while, lack a key or come twice."""
    found: list[Event] = []
    time = 0
    for number in range(random.randint(1, most)):
        time += random.choice((0, 0, 0, 1, 1, 2, 3, 6))
        attrs: dict[str, Value] = {
            "k": random.choice((1, 1, 2, 2, None)), "s": random.choice(("x", "y", None)),
            "v": random.choice((0, 1, 2, 3, 4, None)), "w": random.choice((0.5, 1.5, 2.5, -0.5, None)),
            "b": random.choice((True, False, None)),
        }  # fmt: skip
        start = time - random.choice((0, 0, 0, 0, 2))
        eid = f"{random.choice('ex0123456789')}{number:02d}"
        found.append(Event(random.choice(types), start, time, eid, attrs))
        if random.random() < 0.1:
            found.append(found[-1])
    return found
