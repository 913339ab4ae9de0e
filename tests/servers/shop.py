"""The events that the server tests stream, and the only right answer: thefts in a shop, found by the oracle."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.testing import oracle

QUERY = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 50"
SLACK = 20
PER_TICK = 10
FLUSH = "nothing"  # the tag of the events that only move time on

Row = dict[str, Any]
Pair = tuple[int, int]


def rows(count: int, *, tags: int = 300, seed: int = 7) -> list[Row]:
    """Events of some tags, ten a tick, in a random order that the slack covers."""
    draw = Random(seed)
    kinds = ("Shelf", "Shelf", "Counter", "Exit")
    made = [
        {"eid": number, "type": draw.choice(kinds), "time": number // PER_TICK, "tag": f"t{draw.randrange(tags)}"}
        for number in range(count)
    ]
    return sorted(made, key=lambda row: row["time"] + draw.uniform(0, SLACK / 2))


def flush(after: int, sources: int = 1) -> list[Row]:
    """Events that let everything before them settle: later than any window, and of no theft."""
    return [{"eid": after + n, "type": "Exit", "time": after + 10_000, "tag": FLUSH} for n in range(sources)]


def answer(given: Iterable[Row]) -> set[Pair]:
    """The thefts, as eids of shelf and exit: the oracle, asked tag by tag."""
    query = parse(QUERY)
    by_tag: dict[str, list[Event]] = defaultdict(list)
    for row in given:
        event = Event(row["type"], row["time"], row["time"], row["eid"], {"tag": row["tag"]})
        by_tag[row["tag"]].append(event)
    return {_pair(match) for events in by_tag.values() for match in oracle.matches(query, events)}


def _pair(match: oracle.Match) -> Pair:
    bound = dict(match.binding)
    return int(bound["s"][0]), int(bound["e"][0])


def drop(folder: Path, number: int, part: Sequence[Row]) -> None:
    """One file of events, whole from the moment it can be seen."""
    hidden = folder / f".{number:05}.json"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in part))
    hidden.rename(folder / f"{number:05}.json")


def pieces(given: Sequence[Row], count: int) -> list[Sequence[Row]]:
    """The rows cut into so many pieces of about one size."""
    size = -(-len(given) // count)
    return [given[at : at + size] for at in range(0, len(given), size)]
