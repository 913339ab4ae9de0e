"""Both sides of a comparison: what Tocsin answers, and what the oracle says of the same events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tocsin.events import Event, Value
from tocsin.lang.parser import parse
from tocsin.run.matches import Matches
from tocsin.testing.oracle import matches
from tools.attack.core import WrongAnswerError

Found = Counter[str]
HEAD = ("query", "kind", "match_id", "op", "start", "end", "settled_at")


def found(answers: Iterable[Mapping[str, Any]]) -> Found:
    """Return the net matches by the eids of their events, as texts that can be compared and shown."""
    net: Found = Counter()
    for row in answers:
        eids = [(name, _eids(value)) for name, value in row.items() if name not in HEAD]
        net[spelled((name, each) for name, each in eids if each)] += int(row["op"])
    return Counter({binding: count for binding, count in net.items() if count})


def _eids(value: Any) -> tuple[Any, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(each["eid"] for each in listed if each is not None)


def spelled(binding: Iterable[tuple[str, Iterable[Any]]]) -> str:
    return " ".join(f"{name}={','.join(map(str, eids))}" for name, eids in binding)


def defined(text: str, events: Sequence[Event], functions: Mapping[str, Any] | None = None) -> Found:
    """Return what the oracle finds, in the same form."""
    return Counter(spelled(match.binding) for match in matches(parse(text), events, functions=functions or {}))


def event(row: Mapping[str, Value]) -> Event:
    """Return a plain row (type, time, eid, attributes) as the event that the oracle takes."""
    attrs = {name: value for name, value in row.items() if name not in ("type", "time", "eid")}
    time = row["time"]
    assert isinstance(time, int)
    return Event(str(row["type"]), time, time, str(row["eid"]), attrs)


def same(what: str, one: Found, other: Found) -> None:
    """Demand that two answers are equal; `what` says which two, up to a colon."""
    if one != other:
        raise WrongAnswerError(f"{what}: {dict(one - other)} against {dict(other - one)}")


def of(matches: Matches) -> Found:
    return found(matches)
