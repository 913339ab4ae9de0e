"""Save the states that every later release must read: `python tools/save_states.py 0.2` writes tests/states/0.2/.

Names behind the release save these only.

Run it once for each release, before it is tagged. Each state is a session that was saved half way (`NAME.state`), with
what is needed to go on (`NAME.json`): the queries, the order, what was answered before, the events that come after, and
the rows that the oracle gives for all events together; where operators choose among matches, or rows are no matches,
those that a history gives in one piece. The release after this one reads them (tests/test_states.py).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import tocsin
from tocsin.events import Event
from tocsin.lang.parser import parse_all
from tocsin.run.session import Session
from tocsin.testing.oracle import matches_of_all

FOLDER = Path(__file__).parent.parent / "tests" / "states"
STEP = 8  # rows that are pushed together
LATE = 6  # how far behind the clock an event comes at most
NEGATION = "EVENT SEQ(A a, !C c, B b) WHERE [id] AND c.v > 1 WITHIN 8 SELECT a.n AS first, b.n AS last, a.s AS text"
REPETITION = "EVENT SEQ(A a, B+ b, C c) WHERE [id] WITHIN 8 SELECT a.n AS first, sum(b.n) AS total, c.n AS last"
HIDDEN = "EVENT SEQ(A a, EXISTS b : SEQ(B b, C c)) WHERE [s] WITHIN 8 SELECT a.n AS first, c.n AS last"
CHAINED = """
QUERY Pair HIDDEN EVENT SEQ(A a, B b) WHERE [id] WITHIN 6 SELECT a.id AS id, a.n AS first, b.n AS second;
QUERY Lone EVENT SEQ(Pair p, !C c) WHERE [id] WITHIN 9 SELECT p.first AS first, p.second AS second
"""
PAIRS = "EVENT SEQ(A a, B b) WHERE [id] WITHIN 8"
CONSTRAINT = "CONSTRAINT c ON A, B, C PARTITION BY id AS (A | B)* C? TIES ANY TIMEOUT 4"
STATEMENT = """
CreateCE both Select A.n as first, B.n as last Event And(A<old max 9, consume>, B<old max 3, consume>) GKey *.id
"""
ROWS = {  # whose rows are chosen among matches, or are none
    "skip": (f"{PAIRS} AFTER MATCH SKIP PAST LAST EVENT SELECT a.n AS first, b.n AS last", "in-order"),
    "aggressive-skip": (
        f"{PAIRS} AFTER MATCH SKIP PAST LAST EVENT SELECT a.n AS first, b.n AS last",
        f"aggressive({LATE})",
    ),
    "consume": (f"{PAIRS} CONSUME chronicle SELECT a.n AS first, b.n AS last", "in-order"),
    "count": (f"{PAIRS} SELECT count(*) AS pairs EVERY 6", "in-order"),
    "constraint": (f"{CONSTRAINT}; {PAIRS} UNDER c CHECKED SELECT a.n AS first, b.n AS last", "in-order"),
    "interval": ("INTERVALS busy FROM A BY id AS HIGH WHEN v > 1", "in-order"),
    "statement": (STATEMENT, "in-order"),
}
STATES = {
    "negation": (NEGATION, "in-order"),
    "repetition": (REPETITION, "in-order"),
    "hidden": (HIDDEN, "in-order"),
    "chained": (CHAINED, "in-order"),
    "slack": (NEGATION, f"slack({LATE})"),
    "conservative": (NEGATION, f"conservative({LATE})"),
    "conservative-repetition": (REPETITION, f"conservative({LATE})"),
    "aggressive": (NEGATION, f"aggressive({LATE})"),
    "aggressive-hidden": (HIDDEN, f"aggressive({LATE})"),
    "aggressive-chained": (CHAINED, f"aggressive({LATE})"),
    "hybrid": (NEGATION, f"hybrid(C=conservative, {LATE})"),
    "auto": (NEGATION, f"auto({LATE})"),
    **ROWS,
}
Row = dict[str, Any]


def events(order: str, *, count: int = 48, seed: int = 7) -> list[Row]:
    """A small history; where the order allows it, it comes shuffled."""
    random = Random(seed)  # noqa: S311 - a history, no secret
    made = []
    for number in range(count):
        row: Row = {"type": random.choice("ABC"), "time": number // 2, "eid": f"e{number}", "id": random.randint(1, 3)}
        made.append(row | {"n": number, "v": random.choice((0, 1, 2, 3, None)), "s": random.choice(("x", "ÿ", None))})
    if order != "in-order":
        made.sort(key=lambda row: row["time"] + random.uniform(0, LATE))
    return made


def opened(text: str, order: str, state: bytes | None = None) -> Session:
    return tocsin.query(text).stream(order=order, eid="eid", jit=False, state=state)


def settled(found: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The selected columns of all matches that were given and not retracted."""
    total: Counter[str] = Counter()
    for match in found:
        shown = {name: match[name] for name in list(match)[len(HEAD) :]}
        total[json.dumps(shown, ensure_ascii=False)] += match["op"]
    return +total


def pushed(session: Session, rows: list[Row]) -> list[Row]:
    """Push rows, a few at a time; the matches that are known by then."""
    return [match for begin in range(0, len(rows), STEP) for match in session.push(rows[begin : begin + STEP])]


HEAD = ("query", "kind", "match_id", "op", "start", "end", "settled_at")


def truth(text: str, rows: list[Row]) -> list[str]:
    """What the oracle gives for the last query, sorted; of ROWS what the rows give in one piece and in order."""
    if text in {text for text, _ in ROWS.values()}:
        ordered = sorted(rows, key=lambda row: (row["time"], row["n"]))
        session = opened(text, "in-order")
        return sorted(settled([*session.push(ordered), *session.close()]).elements())
    own = ("type", "time", "eid")
    history = [
        Event(row["type"], row["time"], row["time"], row["eid"], {k: v for k, v in row.items() if k not in own})
        for row in rows
    ]
    last = list(matches_of_all(parse_all(text), history).values())[-1]
    return sorted(json.dumps(match.select, ensure_ascii=False) for match in last)


def save(folder: Path, name: str) -> None:
    text, order = STATES[name]
    rows = events(order)
    half = len(rows) // 2
    session = opened(text, order)
    before = pushed(session, rows[:half])
    (folder / f"{name}.state").write_bytes(session.save())
    after = [*pushed(session, rows[half:]), *session.close()]
    expected = truth(text, rows)
    if sorted(settled(before + after).elements()) != expected or not expected:
        raise SystemExit(f"{name}: the engine and the oracle disagree, or there is nothing to find")
    told = {"query": text, "order": order, "before": before, "events": rows[half:], "expected": expected}
    (folder / f"{name}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    folder = FOLDER / sys.argv[1]
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or STATES:
        save(folder, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
