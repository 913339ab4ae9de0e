"""Both sides of a comparison: what Tocsin answers, and what the oracle says of the same events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tocsin.events import Event, Value
from tocsin.lang.parser import parse_file
from tocsin.lang.staged_syntax import Statement
from tocsin.run.matches import Matches
from tocsin.testing.oracle import Match, matches
from tocsin.testing.staged_oracle import staged_events
from tools.attack.core import WrongAnswerError

Found = Counter[str]
HEAD = ("query", "kind", "match_id", "op", "start", "end", "settled_at")


def found(answers: Iterable[Mapping[str, Any]]) -> Found:
    """Return the net rows as texts: events by their eids, and values where rows have them."""
    net: Found = Counter()
    for row in answers:
        shown = [(name, _shown(value)) for name, value in row.items() if name not in HEAD]
        bound = spelled((name, each) for name, each in shown if each)
        net[f"{row['kind']} {bound}"] += int(row["op"])
    return Counter({binding: count for binding, count in net.items() if count})


def _shown(value: Any) -> tuple[Any, ...]:
    """Return the eids of an event or of a list of events; or the value, if it is one."""
    listed = value if isinstance(value, list) else [value]
    events = [each for each in listed if each is not None]
    if all(isinstance(each, dict) and "eid" in each for each in events):
        return tuple(each["eid"] for each in events)
    return (plain(value),)


def plain(value: Any) -> str:
    """Return a value as a text: NaN is equal to itself, zeros are one, and large integers are decimals in a table."""
    if isinstance(value, Decimal) and value == int(value):
        value = int(value)
    return repr(value + 0.0 if isinstance(value, float) else value)


def spelled(binding: Iterable[tuple[str, Iterable[Any]]]) -> str:
    return " ".join(f"{name}={','.join(map(str, eids))}" for name, eids in binding)


def defined(text: str, events: Sequence[Event], functions: Mapping[str, Any] | None = None) -> Found:
    """Return what the oracle finds, in the same form."""
    (query,) = parse_file(text)
    if isinstance(query, Statement):
        rows = staged_events([query], sorted(events, key=Event.order))
        return Counter(_of_values("match", row.attrs) for row in rows)
    return Counter(map(_spelled, matches(query, events, functions=functions or {})))


def _spelled(match: Match) -> str:
    if match.group is not None:
        return _of_values("count", match.select or {})
    step = [] if match.step is None else [("step", (plain(match.step),))]
    return f"{'match' if match.step is None else 'timeout'} {spelled([*step, *match.binding])}"


def _of_values(kind: str, values: Mapping[str, Any]) -> str:
    return f"{kind} {spelled((name, (plain(value),)) for name, value in values.items() if value is not None)}"


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
