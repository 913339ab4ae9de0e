"""State as parts: taken up in another process, split and merged by key range, saved bit by bit, refused when wrong."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from tocsin.codec import decode, encode
from tocsin.engine.snapshot import Part
from tocsin.errors import StateError
from tocsin.events import Event
from tocsin.items import advanced
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.harness import Harness, Running, net
from tocsin.testing.oracle import Binding

SCHEMA = Schema(
    types={"A": {}, "B": {}, "C": {}},
    common={"id": Field("id", Kind.INT), "s": Field("s", Kind.TEXT), "v": Field("v", Kind.INT)},
)
QUERIES = {
    "pairs": "EVENT SEQ(A a, B b) WHERE [id] WITHIN 6",
    "negation": "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 6",
    "trailing negation": "EVENT SEQ(A a, !B b) WHERE [id] WITHIN 4",
    "last negation": "EVENT SEQ(A a, B b, !C c) WHERE [id] WITHIN 4",
    "repetition": "EVENT SEQ(A a, B+ b, C c) WHERE [id] WITHIN 8",
    "texts": "EVENT SEQ(A a, B b) WHERE a.s = b.s AND a.v <= b.v WITHIN 9",
    "hidden": "EVENT SEQ(A a, EXISTS b : SEQ(B b, C c)) WHERE [id] WITHIN 8",
    "either": "EVENT OR(SEQ(A a, B b), SEQ(A a, C c)) WHERE a.id = b.id OR a.id = c.id WITHIN 5",
}
QUERY = "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 6"


ORDERS = {True: "in-order", False: "aggressive"}


def started(text: str, *, ordered: bool = True) -> Running:
    return Harness(text, SCHEMA).start(ORDERS[ordered])


def with_detector(text: str, parts: Iterable[Part], *, ordered: bool = True) -> Running:
    """A run whose detector takes up a state: what is split and merged by key range is a detector's."""
    run = started(text, ordered=ordered)
    run.detector.restore(parts)
    return run


def pushed(run: Running, events: Sequence[Event]) -> Counter[Binding]:
    return net([run.push(events)] if events else [])


def ended(run: Running) -> Counter[Binding]:
    return net([run.end()])


def expected(text: str, events: Sequence[Event]) -> Counter[Binding]:
    return Harness(text, SCHEMA).expected(events)


def some_events(count: int = 40, *, keys: int = 6, seed: int = 1) -> list[Event]:
    random = Random(seed)
    events = []
    for eid in range(count):
        end = random.randint(0, count // 2)
        attrs = {"id": random.randint(1, keys), "s": random.choice("xyz"), "v": random.randint(0, 3)}
        start = end - random.choice((0, 0, 0, 1))
        events.append(Event(random.choice("ABC"), start, end, f"e{eid}", attrs))
    return sorted(events, key=lambda event: event.end)


def added(total: Counter[Binding], more: Counter[Binding]) -> None:
    for binding, count in more.items():
        total[binding] += count
        if not total[binding]:
            del total[binding]


# --- a fresh process -----------------------------------------------------------------------------------------------

CHILD = """
import base64, json, sys
sys.path.insert(0, sys.argv[2])
from test_parts import ended, pushed, some_events, started
from tocsin.engine.snapshot import Part
saved = json.load(open(sys.argv[1]))
parts = [Part(id, version, base64.b64decode(data), range) for id, version, data, range in saved["parts"]]
run = started(saved["query"])
run.graph.restore(parts)
found = pushed(run, some_events()[saved["half"]:]) + ended(run)
print(json.dumps(sorted(map(repr, found.elements()))))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["negation", "trailing negation", "repetition", "texts"])
def test_a_fresh_process_goes_on(name: str, tmp_path: Path) -> None:
    run, events, half = started(QUERIES[name]), some_events(), 20
    before = pushed(run, events[:half])
    saved = [[part.id, part.version, base64.b64encode(part.data).decode(), part.range] for part in run.graph.snapshot()]
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"query": QUERIES[name], "half": half, "parts": saved}))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(file), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = sorted([*map(repr, before.elements()), *json.loads(done.stdout)])
    assert found == sorted(map(repr, expected(QUERIES[name], events).elements()))


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", QUERIES)
def test_every_prefix(name: str, ordered: bool) -> None:
    harness, events = Harness(QUERIES[name], SCHEMA), some_events(24)
    if not ordered:
        Random(3).shuffle(events)
    wanted = harness.expected(events)
    for prefix in range(0, len(events) + 1, 3):
        run = harness.start(ORDERS[ordered])
        pushed(run, events[:prefix])
        pushed(run.restart(), events[prefix:])
        run.end()
        assert run.net == wanted, prefix


# --- split and merge -----------------------------------------------------------------------------------------------


def range_of(text: str, event: Event) -> int | None:
    """The key range that the detector gives an event."""
    run = started(text)
    run.push([event])
    return next((part.range for part in run.detector.snapshot() if part.range is not None), None)


@pytest.mark.parametrize("name", ["pairs", "negation", "last negation", "repetition", "hidden"])
def test_split_by_key_range_and_merge_again(name: str) -> None:
    text, events = QUERIES[name], some_events(60)
    thirds = events[:20], events[20:40], events[40:]
    run = started(text)
    total = pushed(run, thirds[0])
    parts = run.detector.snapshot()
    ranges = {event.attrs["id"]: range_of(text, replace(event, type="A")) for event in events}
    middle = sorted(range for range in ranges.values() if range is not None)[len(ranges) // 2]
    low = with_detector(text, [part for part in parts if part.range is None or part.range < middle])
    high = with_detector(text, [part for part in parts if part.range is None or part.range >= middle])
    lower = [event for event in thirds[1] if (ranges[event.attrs["id"]] or 0) < middle]
    assert 0 < len(lower) < len(thirds[1])
    added(total, pushed(low, lower))
    added(total, pushed(high, [event for event in thirds[1] if event not in lower]))
    clock = max(event.end for event in thirds[1])
    for side in (low, high):
        added(total, net([side.tell(advanced(clock - 1))]))
    merged = with_detector(text, [*low.detector.snapshot(), *high.detector.snapshot()])
    added(total, pushed(merged, thirds[2]))
    added(total, ended(merged))
    assert total == expected(text, events)


def test_merged_states_are_promised_what_each_was_promised() -> None:
    """A promise holds for the events of its own state: only what all were promised holds for them together."""
    text = QUERIES["trailing negation"]

    def conservative(parts: Iterable[Part] = ()) -> Running:
        run = Harness(text, SCHEMA).start("conservative")
        if parts:
            run.detector.restore(parts)
        return run

    sides = [conservative(), conservative()]
    for side, until in zip(sides, (20, 3), strict=True):
        side.tell(side.graph.guarantee("B", until))
    for several in (sides, sides[::-1]):
        merged = conservative([part for side in several for part in side.detector.snapshot()])
        first = Event("A", 5, 5, 1, {"id": 1})
        assert not net([merged.push([first])])
        assert not net([merged.push([Event("B", 7, 7, 2, {"id": 1})]), merged.end()])
    both = conservative(sides[0].detector.snapshot())
    assert net([both.push([Event("A", 5, 5, 1, {"id": 1})])]), "alone it knows that no B comes"


# --- only what changed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", QUERIES)
def test_a_store_that_takes_only_what_changed(name: str, ordered: bool) -> None:
    run, events = started(QUERIES[name], ordered=ordered), some_events(40)
    store: dict[str, Part] = {}
    for first in range(0, len(events), 8):
        run.push(events[first : first + 8])
        version = max((part.version for part in store.values()), default=0)
        for part in run.graph.snapshot(version):
            store[part.id] = part
    restored = started(QUERIES[name], ordered=ordered)
    restored.graph.restore(store.values())
    total = run.net
    added(total, ended(restored))
    assert total == expected(QUERIES[name], events)


def test_an_old_part_is_not_saved_again() -> None:
    run, events = started(QUERY, ordered=False), some_events(40)
    run.push(events[:30])
    everything = run.detector.snapshot()
    version = max(part.version for part in everything)
    run.push(events[30:31])
    changed = run.detector.snapshot(version)
    assert len(changed) <= 2 < len(everything)
    assert all(part.version > version for part in changed if part.range is not None)


# --- what is refused -----------------------------------------------------------------------------------------------


def saved_parts(text: str = QUERY) -> list[Part]:
    run = started(text)
    run.push(some_events())
    return run.detector.snapshot()


def test_another_query_is_refused() -> None:
    with pytest.raises(StateError, match="another query"):
        with_detector("EVENT SEQ(A a, B b) WITHIN 6", saved_parts())


def test_another_select_is_not_another_query() -> None:
    assert with_detector(QUERY + " SELECT a.v AS v", saved_parts()).detector.counters.seen == len(some_events())


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_damaged_bytes_are_refused(damage: str) -> None:
    """Each part of a graph: its own, those of its operators, and those of the detector."""
    run = started(QUERY)
    run.push(some_events())
    parts = run.graph.snapshot()
    assert {part.id.rpartition("/")[2] for part in parts} >= {"graph", "lateness", "stages", "stage", "summary"}
    for number, part in enumerate(parts):
        data = {
            "cut": part.data[: len(part.data) // 2],
            "flipped": bytes(byte ^ 0x55 for byte in part.data),
            "empty": b"",
            "text": b"no state at all",
        }[damage]
        with pytest.raises(StateError):
            started(QUERY).graph.restore([*parts[:number], replace(part, data=data), *parts[number + 1 :]])


@pytest.mark.parametrize("name", ["negation", "hidden"])
def test_every_cut_and_every_flipped_bit_is_refused_and_changes_nothing(name: str) -> None:
    """One new detector is given damaged states of every kind, and at last the good one."""
    events = some_events(16)
    saving = started(QUERIES[name])
    total = pushed(saving, events[:10])
    parts = saving.detector.snapshot()
    run = started(QUERIES[name])
    for number, part in enumerate(parts[:3]):
        for place in range(len(part.data)):
            flipped = bytearray(part.data)
            flipped[place] ^= 1 << place % 8
            for data in (bytes(flipped), part.data[:place]):
                with pytest.raises(StateError) as caught:
                    run.detector.restore([*parts[:number], replace(part, data=data), *parts[number + 1 :]])
                assert caught.value.hint
    run.detector.restore(parts)
    added(total, pushed(run, events[10:]))
    added(total, ended(run))
    assert total == expected(QUERIES[name], events)


def test_parts_of_different_queries_do_not_mix() -> None:
    mine, other = saved_parts(), saved_parts(QUERIES["pairs"])
    detector = started(QUERY).detector
    with pytest.raises(StateError, match="another query"):
        detector.restore([*mine, other[1]])
    with pytest.raises(StateError, match="another kind"):
        detector.restore([mine[0], replace(mine[0], id=mine[1].id)])
    detector.restore(mine)
    assert detector.counters.seen == len(some_events())


def test_another_format_is_refused() -> None:
    parts = saved_parts()
    other = parts[0].data[:6] + (999).to_bytes(2, "little") + parts[0].data[8:]  # behind the magic
    with pytest.raises(StateError, match="format 999"):
        with_detector(QUERY, [replace(parts[0], data=other), *parts[1:]])


def test_a_part_of_the_first_release_is_refused() -> None:
    summary = json.dumps({"format": 1, "query": "x"}).encode()
    old = Part("summary", 1, blake2b(summary, digest_size=16).digest() + summary)
    with pytest.raises(StateError, match=r"written by Tocsin 0\.1"):
        with_detector(QUERY, [old])


def test_events_that_do_not_fit_are_refused_and_change_nothing() -> None:
    """Attributes of other kinds than the query reads."""
    detector, parts = started(QUERY).detector, saved_parts()
    with pytest.raises(StateError, match="do not fit the query"):
        detector.restore(text_ids(parts))
    assert detector.next == 0
    detector.restore(parts)
    assert detector.counters.seen == len(some_events())


def text_ids(parts: list[Part]) -> list[Part]:
    """Parts with texts where numbers were."""
    return [part if part.range is None else replace(part, data=with_text_ids(part.data)) for part in parts]


def with_text_ids(data: bytes) -> bytes:
    stored = decode(data, "detector events")
    rows = stored.tables["rows"]
    rows = rows.set_column(rows.schema.get_field_index("id"), "id", pa.array(["text"] * len(rows)))
    return encode("detector events", stored.words, {"rows": rows}, stored.arrays)


def test_parts_without_their_summary_are_refused() -> None:
    with pytest.raises(StateError, match="summary"):
        with_detector(QUERY, saved_parts()[1:])


def test_a_detector_that_has_seen_events_is_not_restored() -> None:
    run = started(QUERY)
    run.push(some_events()[:3])
    with pytest.raises(StateError, match="seen events"):
        run.detector.restore(saved_parts())


# --- bounded state -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pairs", "negation", "trailing negation", "repetition"])
def test_state_stays_flat_over_keys_that_never_repeat(name: str) -> None:
    run, sizes = started(QUERIES[name]), []
    detector = run.detector
    for push in range(60):
        events = [
            Event(
                "ABC"[at % 3], push * 100 + at, push * 100 + at, push * 100 + at, {"id": push * 100 + at // 3, "v": 1}
            )
            for at in range(100)
        ]
        run.push(events)
        arrays = [(branch.H.shape, branch.D.shape, branch.KM.shape, branch.PD.shape) for branch in detector.branches]
        rows = sum(chunk.rows.num_rows for chunk in detector.payload.chunks)
        saved = sum(len(part.data) for part in run.graph.snapshot()) if push % 10 == 9 else 0
        sizes.append((detector.counters.live, arrays, rows, saved))
    most = 300 if name == "trailing negation" else 100  # answers that wait keep the events of their push until a sweep
    assert max(live for live, *_ in sizes) <= most
    assert sizes[-1][1] == sizes[20][1]
    assert max(rows for *_, rows, _ in sizes) <= 300
    assert sizes[-1][3] <= sizes[19][3] * 1.5
