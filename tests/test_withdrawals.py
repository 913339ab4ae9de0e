"""An event that is taken back leaves the answers of a history without it, whatever the order of coming and going."""

from __future__ import annotations

from random import Random

import pytest

from tests.effort import examples
from tocsin.testing.disorder import with_withdrawals
from tocsin.testing.harness import Harness
from tocsin.testing.strategies import SCHEMA, pair

CHUNKS = 8
QUERIES = 30  # in each chunk


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(examples(CHUNKS)))
def test_withdrawn_events_leave_no_trace(chunk: int) -> None:
    for seed in range(chunk * QUERIES, (chunk + 1) * QUERIES):
        random = Random(seed)
        query, drawn = pair(random)
        events = list({event.eid: event for event in drawn}.values())
        random.shuffle(events)
        items, kept = with_withdrawals(events, random)
        harness, batch = Harness(query, SCHEMA), random.choice((1, 3, 50))
        run = harness.start("aggressive").feed(items, batch=batch)
        run.end()
        assert run.net == harness.expected(kept), f"seed {seed}: {query}"
