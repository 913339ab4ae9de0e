"""States whose checksums are right and whose content is not: each is refused before a session works with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tocsin
from tocsin.codec import Part, decode, encode, pack, unpack
from tocsin.constraint.loops import CHAINED, JUST, STATE
from tocsin.errors import StateError
from tools.attack import shard_logs, sides, snapshots

Change = Callable[[dict[str, Any]], object]


def forged(state: bytes, kind: str, change: Change) -> bytes:
    """The state with one change in the words of its only container of a kind."""
    parts, found = list(unpack(state)), 0
    for at, part in enumerate(parts):
        try:
            held = decode(part.data, kind)
        except StateError:
            continue
        words = dict(held.words)
        change(words)
        parts[at] = Part(part.id, part.version, encode(kind, words, held.tables, held.arrays, held.blobs))
        found += 1
    assert found == 1, f"{found} containers of kind {kind}"
    return pack(parts)


def put(*path: Any) -> Change:
    """A change: the last of the arguments is put where the others lead."""
    *steps, last, value = path

    def change(words: Any) -> None:
        for step in steps:
            words = words[step]
        words[last] = value

    return change


CHRONICLE = "EVENT SEQ(A a, B b, C c) WHERE [k] CONSUME chronicle"
CONTINUOUS = "EVENT SEQ(A a, B b, C c) WHERE [k] CONSUME continuous"
CUMULATIVE = "EVENT SEQ(A a, B b, C c) WHERE [k] AND sum(a.v) > 90 CONSUME cumulative"
COUNT = "EVENT SEQ(A a, B b) WHERE a.v < b.v SELECT a.s AS s, count(*) AS n, avg(b.v) AS m GROUP BY a.s EVERY 60"
CHAIN = "EVENT SEQ(A a, B b, C c) WHERE [s] WITHIN 9 SELECT s, count(*) AS n, sum(b.v) AS t GROUP BY s"
LIMIT = "EVENT SEQ(A a, B b) LIMIT 2 PER a.s EVERY 50"
STAGED = "CreateCE X Select A.k as k Event And(A, B<old max 2>) Init C Term 500 GKey *.k"
DELAYED = "CreateCE X Select A.k as a, B.k as b Init Start Event And(A, B)<delayed> Term 500"
FIRST_MATCH = ("machine", "partitions", 0, 2, 0, 4, 0, 2, 0)

FORGED: dict[str, tuple[str, str, str, Change]] = {
    "an event that is not there": (CHRONICLE, "in-order", "process", put("keys", 0, 1, 0, 0, 2, 0, 99)),
    "an event that is not there, corrected": (CHRONICLE, "aggressive(6)", "process", put("open", 0, 2, 0, 99)),
    "a value of another kind": (CUMULATIVE, "aggressive(600)", "process", put("open", 0, 2, 4, "v", "x")),
    "a key of another kind": (CHRONICLE, "in-order", "process", put("keys", 0, 0, 0, "x")),
    "a prefix of another length": (CHRONICLE, "in-order", "process", put("keys", 0, 1, 0, 0, 2, [])),
    "a list too few": (CHRONICLE, "in-order", "process", put("keys", 0, 1, [])),
    "entries that nobody has": (CONTINUOUS, "in-order", "process", put("keys", 0, 1, 2, 0, [0, 999])),
    "an end before the end": (CHRONICLE, "in-order", "settled", put("ended", True)),
    "a truth that is a number": (CHRONICLE, "in-order", "settled", put("ended", 1)),
    "a time that is none": (CHRONICLE, "in-order", "process", put("time", 0, None)),
    "a span that is a text": (COUNT, "in-order", "counting", put("groups", 0, 1, "x")),
    "a row of another kind": (COUNT, "in-order", "counting", put("groups", 0, 2, [7])),
    "half of an aggregate": (COUNT, "in-order", "counting", put("groups", 0, 4, 1, [1, 2])),
    "a key without its number": (CHAIN, "in-order", "prefixes", put("codes", [])),
    "a window with holes": (CHAIN, "in-order", "prefixes", put("window", 1, [])),
    "a state that is a text": (LIMIT, "in-order", "per_key", put("keys", 0, 1, "x")),
    "half of a state": (LIMIT, "in-order", "per_key", put("keys", 0, 1, [1])),
    "counts that are one": (LIMIT, "in-order", "per_key", put("counts", [1])),
    "the next number a list": (STAGED, "in-order", "staged", put("machine", "next", [])),
    "an initiator too many": (STAGED, "in-order", "staged", put("machine", "partitions", 0, 2, 0, 1, 7)),
    "a statement that has ended alone": (STAGED, "in-order", "staged", put("ended", True)),
    "a statement whose end is a number": (STAGED, "in-order", "staged", put("ended", 0)),
    "a binding too short": (DELAYED, "in-order", "staged", put("machine", "partitions", 0, 2, 0, 4, 0, 2, 0, [])),
    "a partition's key of another kind": (STAGED, "in-order", "staged", put("machine", "partitions", 0, 0, 0, 0, 1.5)),
    "a tick at the place of an event": (DELAYED, "in-order", "staged", put(*FIRST_MATCH, 1, ["tick"])),
    "an event at the place of an operator": (DELAYED, "in-order", "staged", put(*FIRST_MATCH, -1, ["every", 0])),
    "a statement's value of another kind": (STAGED, "in-order", "staged", put("machine", "events", 0, 4, "k", "x")),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_what_does_not_fit_together_is_refused(what: str) -> None:
    text, order, kind, change = FORGED[what]
    query = tocsin.query(text)
    state = snapshots.saved(text, order, 40, None)
    options: dict[str, Any] = {"order": order, "jit": False, "endless": False, "eid": "eid"}
    whole, written_again = (query.stream(state=each, **options) for each in (state, forged(state, kind, dict)))
    more = snapshots.rows(40, 8)
    assert sides.found(written_again.push(more)) == sides.found(whole.push(more))
    with pytest.raises(StateError, match="damaged"):
        query.stream(state=forged(state, kind, change), **options)


def test_what_a_shard_remembers_beside_its_log_is_refused_as_well() -> None:
    text = next(text for text in shard_logs.QUERIES if "LIMIT" in text)
    store = shard_logs.stored(text).copy()
    assert store.head is not None
    head = decode(store.head, "shard")
    assert list(head.blobs), "the memories of operators"
    name = next(iter(head.blobs))
    memory = decode(head.blobs[name], "per_key")
    false = encode("per_key", {**memory.words, "counts": [1]}, memory.tables, memory.arrays, memory.blobs)
    store.head = encode("shard", dict(head.words), blobs={**head.blobs, name: false})
    with pytest.raises(StateError, match="damaged"):
        shard_logs.judge({"query": text, "head": store.head, "refuse": True})


def test_answers_that_wait_show_only_events_that_are_there() -> None:
    """Their rows are looked up when they are shown, which may be much later."""
    text = "EVENT SEQ(A a, B+ b) WHERE [k] WITHIN 9 AFTER MATCH SKIP PAST LAST EVENT DISTINCT BY a.s EVERY 4"
    query = tocsin.query(text)
    options: dict[str, Any] = {"order": "conservative(6)", "jit": False, "endless": False, "eid": "eid"}
    parts = list(unpack(snapshots.saved(text, "conservative(6)", 40, None)))
    choosing = {at: decode(part.data, "per_key") for at, part in enumerate(parts) if part.id.endswith("per_key")}
    waiting = {at: decode(each.blobs["open"], "changes") for at, each in choosing.items() if "open" in each.blobs}
    at, held = next((at, each) for at, each in waiting.items() if each.words["count"])
    part, around = parts[at], choosing[at]

    def state(tables: Any, arrays: Any) -> bytes:
        blobs = {"open": encode("changes", held.words, tables, arrays, held.blobs)}
        data = encode("per_key", around.words, around.tables, around.arrays, blobs)
        return pack([*parts[:at], Part(part.id, part.version, data), *parts[at + 1 :]])

    query.stream(state=state(held.tables, held.arrays), **options)
    shorter = {"events": held.tables["events"].slice(1)}
    beyond = {name: array + len(held.arrays["types"]) * (name == "fixed") for name, array in held.arrays.items()}
    for tables, arrays in ((shorter, held.arrays), (held.tables, beyond)):
        with pytest.raises(StateError, match="damaged"):
            query.stream(state=state(tables, arrays), **options)


def test_parts_have_names() -> None:
    with pytest.raises(StateError, match="a part has no name"):
        unpack(pack([Part(1.5, 0, b"")]))  # type: ignore[arg-type]


@pytest.mark.parametrize("word", [JUST, CHAINED, STATE, -1])
def test_a_trace_in_a_state_that_nothing_has_is_refused(word: int) -> None:
    """Compiled loops find a trace by its word."""
    query = tocsin.query("CONSTRAINT c PARTITION BY s AS A (B | C)* A?; EVENT SEQ(A a, B b) WHERE [s] UNDER c CHECKED")
    state = snapshots.saved(str(query), "in-order", 40, None)
    parts = list(unpack(state))
    [at] = [at for at, part in enumerate(parts) if part.id[-1] == "tracker" or str(part.id).endswith("tracker")]
    held = decode(parts[at].data, "tracker")
    arrays = dict(held.arrays)
    arrays["words"] = arrays["words"] | word
    data = encode("tracker", held.words, held.tables, arrays, held.blobs)
    parts[at] = Part(parts[at].id, parts[at].version, data)
    with pytest.raises(StateError, match="damaged"):
        query.stream(state=pack(parts), order="in-order", jit=False, endless=False, eid="eid")
