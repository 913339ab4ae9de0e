"""A live stream: events one by one, alarms at once, and a session that is saved and continued."""

from __future__ import annotations

import tocsin

alarm = tocsin.query(
    """
    QUERY alarm
    EVENT SEQ(Failed+ f, Login l)
    WHERE [user] AND count(f) >= 3
    WITHIN 60
    SELECT l.user AS user, count(f) AS failures, start(f) AS since
    """
)

EVENTS = [
    {"type": "Failed", "time": 1, "user": "eve"},
    {"type": "Failed", "time": 5, "user": "bob"},
    {"type": "Failed", "time": 9, "user": "eve"},
    {"type": "Login", "time": 12, "user": "bob"},
    {"type": "Failed", "time": 20, "user": "eve"},
    {"type": "Login", "time": 30, "user": "eve"},
]


def tell(match: dict[str, object]) -> None:
    print(f"{match['user']}: {match['failures']} failures since {match['since']}, then a login at {match['end']}")


session = alarm.stream(on_match=tell)
for event in EVENTS[:3]:
    session.push(event)

state = session.save()  # bytes: keep them anywhere
session = alarm.stream(on_match=tell, state=state)
for event in EVENTS[3:]:
    session.push(event)
assert session.counters["matches"] == 1
