"""An event that is taken back leaves the answers of a history without it, whatever the order of coming and going."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.effort import examples
from tocsin.encode import Encoder, from_dicts
from tocsin.engine.detector import Detector
from tocsin.events import Event
from tocsin.items import Strings, end
from tocsin.lang.syntax import Query
from tocsin.plan.bind import bind
from tocsin.plan.facts import types_of
from tocsin.plan.passes import optimize
from tocsin.testing.modes import net
from tocsin.testing.oracle import Binding, matches
from tocsin.testing.strategies import SCHEMA, pair

CHUNKS = 8
QUERIES = 30  # in each chunk


def answers(query: Query, log: list[tuple[Event, int]], batch: int) -> Counter[Binding]:
    """The net answers to a log of events and withdrawals."""
    plan, strings = optimize(bind(query, SCHEMA)), Strings()
    types = types_of(plan)
    detector = Detector(plan, types, strings, jit=False, ordered=False)
    encoder = Encoder(SCHEMA, types, strings, wanted=detector.reads)
    rows = from_dicts([event for event, _ in log])
    kinds = np.array([sign < 0 for _, sign in log], np.int8)  # a withdrawal is 1
    pieces = []
    for first in range(0, len(log), batch):
        items = encoder.encode(rows.slice(first, batch))
        pieces.append(detector.push(replace(items, kinds=kinds[first : first + batch])))
    return net([*pieces, detector.push(end())])


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(CHUNKS)))
def test_withdrawn_events_leave_no_trace(chunk: int) -> None:
    for seed in range(chunk * QUERIES, (chunk + 1) * QUERIES):
        random = Random(seed)
        query, drawn = pair(random)
        events = list({event.eid: event for event in drawn}.values())
        random.shuffle(events)
        gone = {event.eid for event in events if random.random() < 0.4}
        log = [(event, 1) for event in events]
        for event in events:
            if event.eid in gone:
                came = next(at for at, (other, sign) in enumerate(log) if sign > 0 and other.eid == event.eid)
                log.insert(random.randint(came + 1, len(log)), (event, -1))
        kept = [event for event in events if event.eid not in gone]
        expected = Counter({match.binding: 1 for match in matches(query, kept)})
        assert answers(query, log, random.choice((1, 3, 50))) == expected, f"seed {seed}: {query}"
