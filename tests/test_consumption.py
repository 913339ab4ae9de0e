"""Consumption modes: what their definition says, in every way of running, by hand and compiled."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.effort import examples, is_long
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.lang.printer import print_query
from tocsin.lang.syntax import MODES, Query
from tocsin.testing.agree import PLAIN, Bench, Trial
from tocsin.testing.draw_consumption import consuming_query
from tocsin.testing.modes import EVERY, Mode
from tocsin.testing.oracle import matches
from tocsin.testing.strategies import SCHEMA, history

MORE = (
    Trial("chosen by itself", Mode("auto", batch=1), shuffle=23),
    Trial("chosen by itself, restart", Mode("auto", batch=2, restart=EVERY, promises=24), shuffle=24),
)


def drawn(seed: str, mode: str | None = None) -> tuple[Query, list[Event]]:
    """A query with a mode, and a history in which several events stand for each step."""
    random = Random(seed)
    query = consuming_query(random, mode)
    events: list[Event] = []
    for round_ in range(3):
        more = history(random, query, most=8)
        events += [
            Event(each.type, each.start + 3 * round_, each.end + 3 * round_, f"{round_}{each.eid}", each.attrs)
            for each in more
        ]
    return query, events[:20]


@pytest.mark.parametrize("mode", MODES[1:])
def test_drawn_modes_agree_with_the_oracle_in_every_way_of_running(mode: str) -> None:
    """In order, sorted first, held, corrected, chosen; cut anywhere, restarted, twice, without single passes."""
    seen: Counter[str] = Counter()
    for number in range(examples(120, least=8)):
        query, events = drawn(f"consume {mode} {number}", mode)
        assert parse(print_query(query)) == query
        trials = (*PLAIN, *MORE) if is_long() else Random(number).sample((*PLAIN, *MORE), 6)
        found = Bench(query, SCHEMA).disagreement(events, trials)
        assert found is None, (number, str(query), events, found)
        seen["matches"] += len(matches(query, events))
    assert seen["matches"] > 5, seen
