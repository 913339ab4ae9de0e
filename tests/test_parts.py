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
from tocsin.encode import Encoder, from_dicts
from tocsin.engine.detector import Detector
from tocsin.engine.snapshot import Part
from tocsin.errors import StateError
from tocsin.events import Event
from tocsin.items import Strings, advanced, end
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.facts import types_of
from tocsin.plan.passes import optimize
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.modes import net
from tocsin.testing.oracle import Binding, matches

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


class Works:
    """A query and the means to feed it."""

    def __init__(self, text: str, *, ordered: bool = True) -> None:
        self.query = parse(text)
        self.plan = optimize(bind(self.query, SCHEMA, {}))
        self.types, self.strings, self.ordered = types_of(self.plan), Strings(), ordered

    def detector(self, parts: Iterable[Part] | None = None) -> Detector:
        new = Detector(self.plan, self.types, self.strings, jit=False, ordered=self.ordered)
        if parts is not None:
            new.restore(parts)
        return new

    def push(self, detector: Detector, events: Sequence[Event]) -> Counter[Binding]:
        encoder = Encoder(SCHEMA, self.types, self.strings, wanted=detector.reads)
        return net([detector.push(encoder.encode(from_dicts(events)))] if events else [])

    def end(self, detector: Detector) -> Counter[Binding]:
        return net([detector.push(end())])

    def expected(self, events: Sequence[Event]) -> Counter[Binding]:
        return Counter(match.binding for match in matches(self.query, events))


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
from test_parts import Works, some_events
from tocsin.engine.snapshot import Part
saved = json.load(open(sys.argv[1]))
parts = [Part(id, version, base64.b64decode(data), range) for id, version, data, range in saved["parts"]]
works = Works(saved["query"])
detector = works.detector(parts)
found = works.push(detector, some_events()[saved["half"]:]) + works.end(detector)
print(json.dumps(sorted(map(repr, found.elements()))))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["negation", "trailing negation", "repetition", "texts"])
def test_a_fresh_process_goes_on(name: str, tmp_path: Path) -> None:
    works, events, half = Works(QUERIES[name]), some_events(), 20
    detector = works.detector()
    before = works.push(detector, events[:half])
    parts = [[part.id, part.version, base64.b64encode(part.data).decode(), part.range] for part in detector.snapshot()]
    saved = tmp_path / "state.json"
    saved.write_text(json.dumps({"query": QUERIES[name], "half": half, "parts": parts}))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(saved), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = sorted([*map(repr, before.elements()), *json.loads(done.stdout)])
    assert found == sorted(map(repr, works.expected(events).elements()))


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", QUERIES)
def test_every_prefix(name: str, ordered: bool) -> None:
    works, events = Works(QUERIES[name], ordered=ordered), some_events(24)
    if not ordered:
        Random(3).shuffle(events)
    for prefix in range(0, len(events) + 1, 3):
        detector = works.detector()
        total = works.push(detector, events[:prefix])
        detector = works.detector(detector.snapshot())
        added(total, works.push(detector, events[prefix:]))
        added(total, works.end(detector))
        assert total == works.expected(events), prefix


# --- split and merge -----------------------------------------------------------------------------------------------


def range_of(works: Works, event: Event) -> int | None:
    """The key range that the detector gives an event."""
    detector = works.detector()
    works.push(detector, [event])
    return next((part.range for part in detector.snapshot() if part.range is not None), None)


@pytest.mark.parametrize("name", ["pairs", "negation", "last negation", "repetition", "hidden"])
def test_split_by_key_range_and_merge_again(name: str) -> None:
    works, events = Works(QUERIES[name]), some_events(60)
    thirds = events[:20], events[20:40], events[40:]
    detector = works.detector()
    total = works.push(detector, thirds[0])
    parts = detector.snapshot()
    ranges = {event.attrs["id"]: range_of(works, replace(event, type="A")) for event in events}
    middle = sorted(range for range in ranges.values() if range is not None)[len(ranges) // 2]
    low = works.detector([part for part in parts if part.range is None or part.range < middle])
    high = works.detector([part for part in parts if part.range is None or part.range >= middle])
    lower = [event for event in thirds[1] if (ranges[event.attrs["id"]] or 0) < middle]
    assert 0 < len(lower) < len(thirds[1])
    added(total, works.push(low, lower))
    added(total, works.push(high, [event for event in thirds[1] if event not in lower]))
    clock = max(event.end for event in thirds[1])
    for side in (low, high):
        added(total, net([side.push(advanced(clock - 1))]))
    merged = works.detector([*low.snapshot(), *high.snapshot()])
    added(total, works.push(merged, thirds[2]))
    added(total, works.end(merged))
    assert total == works.expected(events)


# --- only what changed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", QUERIES)
def test_a_store_that_takes_only_what_changed(name: str, ordered: bool) -> None:
    works, events = Works(QUERIES[name], ordered=ordered), some_events(40)
    detector, total = works.detector(), Counter[Binding]()
    store: dict[str, Part] = {}
    for first in range(0, len(events), 8):
        added(total, works.push(detector, events[first : first + 8]))
        version = max((part.version for part in store.values()), default=0)
        for part in detector.snapshot(version):
            store[part.id] = part
    restored = works.detector(store.values())
    added(total, works.end(restored))
    assert total == works.expected(events)


def test_an_old_part_is_not_saved_again() -> None:
    works, events = Works(QUERY, ordered=False), some_events(40)
    detector = works.detector()
    works.push(detector, events[:30])
    everything = detector.snapshot()
    version = max(part.version for part in everything)
    works.push(detector, events[30:31])
    changed = detector.snapshot(version)
    assert len(changed) <= 2 < len(everything)
    assert all(part.version > version for part in changed if part.range is not None)


# --- what is refused -----------------------------------------------------------------------------------------------


def saved_parts(text: str = QUERY) -> list[Part]:
    works = Works(text)
    detector = works.detector()
    works.push(detector, some_events())
    return detector.snapshot()


def test_another_query_is_refused() -> None:
    with pytest.raises(StateError, match="another query"):
        Works("EVENT SEQ(A a, B b) WITHIN 6").detector(saved_parts())


def test_another_select_is_not_another_query() -> None:
    works = Works(QUERY + " SELECT a.v AS v")
    assert works.detector(saved_parts()).counters.seen == len(some_events())


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_damaged_bytes_are_refused(damage: str) -> None:
    works = Works(QUERY)
    for number, part in enumerate(saved_parts()):
        data = {
            "cut": part.data[: len(part.data) // 2],
            "flipped": bytes(byte ^ 0x55 for byte in part.data),
            "empty": b"",
            "text": b"no state at all",
        }[damage]
        parts = saved_parts()
        parts[number] = replace(part, data=data)
        with pytest.raises(StateError):
            works.detector(parts)


@pytest.mark.parametrize("name", ["negation", "hidden"])
def test_every_cut_and_every_flipped_bit_is_refused_and_changes_nothing(name: str) -> None:
    """One new detector is given damaged states of every kind, and at last the good one."""
    works, events = Works(QUERIES[name]), some_events(16)
    saving = works.detector()
    total = works.push(saving, events[:10])
    parts = saving.snapshot()
    detector = works.detector()
    for number, part in enumerate(parts[:3]):
        for place in range(len(part.data)):
            flipped = bytearray(part.data)
            flipped[place] ^= 1 << place % 8
            for data in (bytes(flipped), part.data[:place]):
                with pytest.raises(StateError) as caught:
                    detector.restore([*parts[:number], replace(part, data=data), *parts[number + 1 :]])
                assert caught.value.hint
    detector.restore(parts)
    added(total, works.push(detector, events[10:]))
    added(total, works.end(detector))
    assert total == works.expected(events)


def test_parts_of_different_queries_do_not_mix() -> None:
    works, mine, other = Works(QUERY), saved_parts(), saved_parts(QUERIES["pairs"])
    detector = works.detector()
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
        Works(QUERY).detector([replace(parts[0], data=other), *parts[1:]])


def test_a_part_of_the_first_release_is_refused() -> None:
    summary = json.dumps({"format": 1, "query": "x"}).encode()
    old = Part("summary", 1, blake2b(summary, digest_size=16).digest() + summary)
    with pytest.raises(StateError, match=r"written by Tocsin 0\.1"):
        Works(QUERY).detector([old])


def test_events_that_do_not_fit_are_refused_and_change_nothing() -> None:
    """Attributes of other kinds than the query reads."""
    works = Works(QUERY)
    detector, parts = works.detector(), saved_parts()
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
        Works(QUERY).detector(saved_parts()[1:])


def test_a_detector_that_has_seen_events_is_not_restored() -> None:
    works = Works(QUERY)
    detector = works.detector()
    works.push(detector, some_events()[:3])
    with pytest.raises(StateError, match="seen events"):
        detector.restore(saved_parts())


# --- bounded state -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pairs", "negation", "trailing negation", "repetition"])
def test_state_stays_flat_over_keys_that_never_repeat(name: str) -> None:
    works = Works(QUERIES[name])
    detector, sizes = works.detector(), []
    for push in range(60):
        events = [
            Event(
                "ABC"[at % 3], push * 100 + at, push * 100 + at, push * 100 + at, {"id": push * 100 + at // 3, "v": 1}
            )
            for at in range(100)
        ]
        works.push(detector, events)
        arrays = [(branch.H.shape, branch.D.shape, branch.KM.shape, branch.PD.shape) for branch in detector.branches]
        rows = sum(chunk.rows.num_rows for chunk in detector.payload.chunks)
        saved = sum(len(part.data) for part in detector.snapshot()) if push % 10 == 9 else 0
        sizes.append((detector.counters.live, arrays, rows, saved))
    assert max(live for live, *_ in sizes) <= 100
    assert sizes[-1][1] == sizes[20][1]
    assert max(rows for *_, rows, _ in sizes) <= 300
    assert sizes[-1][3] <= sizes[19][3] * 1.5
