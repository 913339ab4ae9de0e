"""A small measurement for installations without the benchmarks: the shop, many times over."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tocsin.run.query import query
from tocsin.testing.shop import QUERY, shop


def measure(things: int = 50_000, rounds: int = 3) -> Iterator[str]:
    """Events per CPU-second of the demo query, conversion included; the best of a few rounds."""
    made = shop(things=things, thefts=50, noise=things)
    theft = query(QUERY)
    theft.detect(made.events.slice(0, 1000))  # compile first
    best = float("inf")
    found = 0
    for _ in range(rounds):
        began = time.process_time()
        found = len(theft.detect(made.events))
        best = min(best, time.process_time() - began)
    yield f"{QUERY}"
    yield f"{made.events.num_rows:,} events, {found} matches, {made.events.num_rows / best:,.0f} events per CPU-second"
    yield "the full benchmarks are in the source tree: make bench"
