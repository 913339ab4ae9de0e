"""States of past releases: the one before is read and goes on, those of 0.1 are refused, and so is what is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tocsin.codec import Part, decode, pack, unpack
from tocsin.errors import StateError
from tocsin.run.session import Session
from tocsin.shards.blocks import as_table
from tocsin.shards.identity import Identity
from tocsin.shards.shard import Head
from tools.save_states import CHAINED, NEGATION, REPETITION, STATES, events, opened, pushed, settled, truth

FOLDER = Path(__file__).parent / "states"
READ = ("0.2",)  # the releases whose states this one reads
KEPT = [path for release in READ for path in sorted((FOLDER / release).glob("*.state"))]


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_state_of_a_past_release_goes_on(path: Path) -> None:
    told: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    session = opened(told["query"], told["order"], path.read_bytes())
    after = [*pushed(session, told["events"]), *session.close()]
    assert sorted(settled([*told["before"], *after]).elements()) == told["expected"]
    assert told["expected"]


def test_there_is_a_state_of_every_kind() -> None:
    assert {path.stem for path in KEPT} >= set(STATES)


# --- the first release ---------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[bytes], object]] = {
    "session.state": lambda data: opened(NEGATION, "in-order", data),
    "detector-summary.part": lambda data: decode(data, "detector summary"),
    "detector-events.part": lambda data: decode(data, "detector events"),
    "shard.head": Head.read,
    "shard.block": as_table,
    "tocsin.json": Identity.read,
}


@pytest.mark.parametrize("name", READERS)
def test_what_the_first_release_stored_is_refused_in_clear_words(name: str) -> None:
    with pytest.raises(StateError) as caught:
        READERS[name]((FOLDER / "0.1" / name).read_bytes())
    assert "was written by Tocsin 0.1, which this version does not read" in caught.value.message
    assert "docs/upgrading.md" in str(caught.value.hint)


# --- what is refused changes nothing ---------------------------------------------------------------------------------


def saved(text: str, order: str) -> tuple[bytes, list[dict[str, Any]], list[dict[str, Any]]]:
    """A state, what was answered before it, and the events that follow."""
    rows = events(order)
    session = opened(text, order)
    before = pushed(session, rows[:24])
    return session.save(), before, rows[24:]


def goes_on(session: Session, order: str, text: str, before: list[Any], rest: list[dict[str, Any]]) -> None:
    found = settled([*before, *pushed(session, rest), *session.close()])
    assert sorted(found.elements()) == truth(text, events(order))


@pytest.mark.parametrize(
    ("text", "order"),
    [(NEGATION, "in-order"), (NEGATION, "slack(6)"), (REPETITION, "conservative(6)"), (CHAINED, "aggressive(6)")],
)
def test_a_damaged_state_is_refused_and_leaves_the_session_as_it_was(text: str, order: str) -> None:
    """One new session is given states that are cut short or changed in one bit, and at last the good one."""
    state, before, rest = saved(text, order)
    session = opened(text, order)
    for place in [*range(0, len(state), 97), len(state) - 1]:
        flipped = bytes([*state[:place], state[place] ^ 1 << place % 8, *state[place + 1 :]])
        for data in (state[:place], flipped):
            with pytest.raises(StateError) as caught:
                session.restore(data)
            assert caught.value.hint
    session.restore(state)
    goes_on(session, order, text, before, rest)


def test_a_refused_session_still_begins_afresh() -> None:
    state, _, _ = saved(REPETITION, "in-order")
    session = opened(NEGATION, "in-order")
    with pytest.raises(StateError, match="other queries"):
        session.restore(state)
    with pytest.raises(StateError):
        session.restore(state[:-1])
    goes_on(session, "in-order", NEGATION, [], events("in-order"))


@pytest.mark.parametrize("order", ["slack(6)", "conservative(6)", "aggressive(7)"])
def test_a_state_of_another_order_is_refused(order: str) -> None:
    state, before, rest = saved(NEGATION, "aggressive(6)")
    session = opened(NEGATION, order)
    with pytest.raises(StateError, match="saved under order='aggressive"):
        session.restore(state)
    again = opened(NEGATION, "aggressive(6)", state)
    goes_on(again, "aggressive(6)", NEGATION, before, rest)


def test_a_state_that_lacks_a_part_is_refused_and_changes_nothing() -> None:
    state, before, rest = saved(CHAINED, "in-order")
    parts: list[Part] = unpack(state)
    session = opened(CHAINED, "in-order")
    for missing in range(len(parts)):
        if parts[missing].range is None:  # a part with events alone may be of a key range that is elsewhere
            with pytest.raises(StateError):
                session.restore(pack([*parts[:missing], *parts[missing + 1 :]]))
    session.restore(state)
    goes_on(session, "in-order", CHAINED, before, rest)


def test_a_session_with_a_schema_is_left_as_it_was() -> None:
    schema = {type: {"id": "int", "n": "int", "v": "int", "s": "text"} for type in "ABC"}
    rows, state = events("in-order"), saved(NEGATION, "in-order")[0]
    session = tocsin.query(NEGATION).stream(eid="eid", jit=False, schema=schema)
    with pytest.raises(StateError):
        session.restore(state[:-1])
    goes_on(session, "in-order", NEGATION, [], rows)
