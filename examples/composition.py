"""Queries that build on each other: the matches of one are events for the next."""

from __future__ import annotations

import tocsin

queries = tocsin.query(
    """
    -- a machine that is started and then overheats before it is serviced
    QUERY strain HIDDEN
    EVENT SEQ(Start s, !Service v, Hot h) WHERE [machine] WITHIN 60
    SELECT s.machine AS machine, h.celsius AS celsius;

    -- the same machine twice, the second time hotter
    EVENT SEQ(strain one, strain two)
    WHERE one.machine = two.machine AND two.celsius > one.celsius
    WITHIN 500
    """
)

events = [
    {"type": "Start", "time": 0, "machine": 1, "celsius": 20.0},
    {"type": "Hot", "time": 40, "machine": 1, "celsius": 90.0},
    {"type": "Service", "time": 70, "machine": 1, "celsius": 30.0},
    {"type": "Start", "time": 100, "machine": 1, "celsius": 20.0},
    {"type": "Hot", "time": 150, "machine": 1, "celsius": 95.0},
]

found = queries.detect(events)
print(found)
assert [(match["one"]["celsius"], match["two"]["celsius"]) for match in found] == [(90.0, 95.0)]
print(queries.detect(events, all=True))  # the hidden ones too
