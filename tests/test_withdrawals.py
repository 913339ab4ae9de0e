"""An event that is taken back leaves the answers of a history without it, whatever the order of coming and going."""

from __future__ import annotations

import pytest

from tests.drawn import in_chunks, pairs_of
from tocsin.testing.disorder import with_withdrawals
from tocsin.testing.harness import Harness
from tocsin.testing.strategies import SCHEMA

CHUNKS = 8
QUERIES = 30  # in each chunk


@pytest.mark.slow
@in_chunks(CHUNKS)
def test_withdrawn_events_leave_no_trace(chunk: int) -> None:
    for drawn in pairs_of(chunk, QUERIES):
        events = list({event.eid: event for event in drawn.events}.values())
        drawn.random.shuffle(events)
        items, kept = with_withdrawals(events, drawn.random)
        harness, batch = Harness(drawn.query, SCHEMA), drawn.random.choice((1, 3, 50))
        run = harness.start("aggressive").feed(items, batch=batch)
        run.end()
        assert run.net == harness.expected(kept), str(drawn)
