"""Spilling: with a memory limit far below what is needed, the answers of the oracle; nothing is lost, come what may."""

from __future__ import annotations

import errno
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples, some
from tocsin.encode import Columns, Encoder, from_dicts, infer_schema
from tocsin.encode.row import RowEncoder
from tocsin.engine.changes import ChangeBatch
from tocsin.engine.detector import Detector
from tocsin.engine.partial_state import bytes_used
from tocsin.errors import StateError, TocsinError, TocsinWarning
from tocsin.events import Event
from tocsin.items import EVERY as ALL_TYPES
from tocsin.items import Items, Strings, end, guarantee
from tocsin.lang.parser import parse
from tocsin.lang.syntax import Query
from tocsin.plan.bind import bind
from tocsin.plan.block import Plan
from tocsin.plan.facts import types_of
from tocsin.plan.passes import optimize
from tocsin.spill.detector import Spilling
from tocsin.testing.agree import Bench, Trial, difference
from tocsin.testing.delays import Uniform
from tocsin.testing.modes import ALL, EVERY, Mode, held_types, net, promises, smallest_slack
from tocsin.testing.oracle import Binding
from tocsin.testing.strategies import SCHEMA, history, pair
from tocsin.testing.streams import Arrivals, table

QUERIES = 60  # for each way
pytestmark = pytest.mark.filterwarnings("ignore:the memory limit")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to spill: a mode of the engine, a limit, and the two thresholds."""

    name: str
    mode: Mode
    limit: int = 1
    many: int | None = 1
    patience: int | None = 0
    seed: int = 1
    twice: bool = False
    nameless: bool = False


# fmt: off
WAYS = (
    Way("every event at once", Mode(ordered=False, batch=1)),
    Way("in batches", Mode(ordered=False, batch=3), many=3, patience=4, seed=2, twice=True),
    Way("all at the end", Mode(ordered=False, batch=1), many=1000, patience=1000, seed=3),
    Way("larger frames", Mode(ordered=False, batch=2), limit=4000, many=2, patience=5, seed=4),
    Way("by default", Mode(ordered=False, batch=1), limit=2000, many=None, patience=None, seed=5, twice=True),
    Way("forgetting", Mode(ordered=False, batch=1, late=True), many=2, patience=3, seed=6),
    Way("promises", Mode(ordered=False, batch=2, promises=1), many=4, patience=6, seed=7),
    Way("immediate", Mode(ordered=False, batch=1, promises=2, immediate=True), many=2, patience=2, seed=8),
    Way("restart", Mode(ordered=False, batch=2, promises=3, restart=EVERY), many=3, patience=3, seed=9, twice=True),
    Way("held", Mode(ordered=False, batch=1, promises=4, hold=ALL), seed=10, twice=True),
    Way("held, deferred", Mode(ordered=False, batch=2, promises=5, hold=ALL), many=50, patience=50, seed=11),
    Way("held, awake", Mode(ordered=False, batch=1, promises=6, hold=ALL), limit=5000, many=2, patience=3, seed=12),
    Way("held, known delay", Mode(ordered=False, batch=1, late=True, hold=ALL), many=2, patience=3, seed=13),
    Way("held, restart", Mode(ordered=False, batch=1, promises=7, hold=ALL, restart=EVERY), many=2, seed=14),
    Way("some held", Mode(ordered=False, batch=1, promises=8, hold=1), many=2, patience=2, seed=15, twice=True),
    Way("some held, immediate", Mode(ordered=False, batch=1, promises=9, hold=3, immediate=True), many=3, patience=3),
    Way("without names", Mode(ordered=False, batch=1, promises=1), many=2, patience=3, seed=16, nameless=True),
)
# fmt: on


def changes(plan: Plan, events: Sequence[Event], way: Way, folder: Path) -> Iterator[ChangeBatch | Spilling]:
    """Everything that a run with spilling says; at last itself."""
    mode, types, strings = way.mode, types_of(plan), Strings()
    rows = from_dicts(events)
    if way.nameless:
        rows = rows.drop_columns(["eid"])

    def new() -> Spilling:
        detector = Detector(
            plan, types, strings, jit=mode.jit, ordered=False, late=smallest_slack(events) if mode.late else None,
            hold=held_types(types, mode.hold), immediate=mode.immediate,
        )  # fmt: skip
        return Spilling(detector, way.limit, folder, many=way.many, patience=way.patience)

    spilling = new()
    encoder = Encoder(plan.schema, types, strings, wanted=spilling.live.reads)
    step = mode.batch or max(1, len(events))
    for push, first in enumerate(range(0, len(events), step)):
        if mode.restart is not None:
            parts = spilling.snapshot()
            spilling.close()
            spilling = new()
            spilling.restore(parts)
        yield from spilling.push(encoder.encode(rows.slice(first, step)))
        for type, time in promises(events[first + step :], types, mode.promises, push):
            yield from spilling.push(guarantee(time, encoder.type_code(type)))
    yield from spilling.push(end())
    assert not spilling.state.frames.all and not spilling.state.runs.pieces and not spilling.state.runs.store.size
    yield spilling
    spilling.close()


def problem(bench: Bench, way: Way, events: Sequence[Event], folder: Path) -> tuple[str | None, int]:
    """What is wrong with a run, and how many frames it spilled."""
    arranged = Trial(way.name, way.mode, shuffle=way.seed, twice=way.twice).arranged(events)
    expected = {match.binding: match for match in bench.oracle(events)}
    net: Counter[Binding] = Counter()
    frames = 0
    for piece in changes(bench.plan(frozenset()), arranged, way, folder):
        if isinstance(piece, Spilling):
            frames = piece.spilled.frames_spilled
            continue
        starts, ends = (end.tolist() for end in piece.span)
        columns = {out.name: piece.selected(out).to_pylist() for out in piece.plan.outputs}
        for at, (op, binding) in enumerate(piece.bindings()):
            net[binding] += op
            if net[binding] not in (0, 1):
                return f"{binding} is counted {net[binding]} times on the way", frames
            if op < 0 and way.mode.hold == ALL:
                return f"{binding} is withdrawn although it was held", frames
            shown = starts[at], ends[at], {name: column[at] for name, column in columns.items()}
            if op > 0 and binding in expected and (wrong := difference(expected[binding], shown)):
                return wrong, frames
    found = {binding for binding, count in net.items() if count}
    if found != expected.keys():
        return f"missing {sorted(expected.keys() - found)}, not expected {sorted(found - expected.keys())}", frames
    return None, frames


def drawn(seed: int) -> tuple[Query, list[Event]]:
    """A query with a window, and several histories for it one after the other."""
    random = Random(seed)
    while True:
        query, events = pair(random, leaves=4)
        if query.within is not None:
            break
    stretches = [events, *(history(random, query, most=9) for _ in range(random.choice((0, 1, 2))))]
    moved = []
    for number, stretch in enumerate(stretches):
        for event in stretch:
            shift, eid = 8 * number, event.eid if not number else f"{event.eid}+{number}"
            moved.append(replace(event, start=event.start + shift, end=event.end + shift, eid=str(eid)))
    return query, moved


SPILLING = [way for way in WAYS if not way.nameless]


def disagreements(way: Way, seeds: range, folder: Path) -> tuple[list[str], int]:
    """What is wrong with drawn pairs, and how many frames were spilled."""
    wrong, spilled = [], 0
    for seed in seeds:
        query, events = drawn(1000 * way.seed + seed)
        found, frames = problem(Bench(query, SCHEMA), way, events, folder)
        wrong += [] if found is None else [f"seed {1000 * way.seed + seed}: {query}: {found}"]
        spilled += frames
    return wrong, spilled


@pytest.mark.parametrize("way", some(SPILLING, least=6), ids=lambda way: way.name)
def test_answers_of_the_oracle(way: Way, tmp_path: Path) -> None:
    wrong, spilled = disagreements(way, range(3), tmp_path)
    assert not wrong
    assert spilled > 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("way", SPILLING, ids=lambda way: way.name)
def test_answers_of_the_oracle_at_length(way: Way, tmp_path: Path) -> None:
    assert not disagreements(way, range(3, 3 + examples(QUERIES - 3)), tmp_path)[0]


# --- a theft, at any size ------------------------------------------------------------------------------------------

THEFT = "SEQ(A a, !C c, B b) WHERE [id] WITHIN 40"


@dataclass
class Run:
    """A query over a stream in disorder, in memory or spilling, a batch after the other."""

    text: str = THEFT
    count: int = 600
    disorder: float = 0.2
    most: int = 300
    held: bool = False
    known: bool = False
    jit: bool = False
    batch: int = 20
    duplicates: float = 0.03
    strings: Strings = field(default_factory=Strings)

    @cached_property
    def rows(self) -> pa.Table:
        arrivals = Arrivals(
            events=self.count, types={"A": 1, "B": 1, "C": 0.5}, unit=1, disorder=self.disorder,
            delay=Uniform(self.most), keys=8, duplicates=self.duplicates, seed=5,
        )  # fmt: skip
        return table(arrivals)

    @cached_property
    def plan(self) -> Plan:
        schema = infer_schema(self.rows.schema, Columns().resolve(self.rows.schema.names), types={"A", "B", "C"})
        return optimize(bind(parse(self.text), schema, {}), frozenset())

    def detector(self) -> Detector:
        types = types_of(self.plan)
        late = self.most if self.known else None
        hold = types if self.held else ()
        return Detector(self.plan, types, self.strings, jit=self.jit, ordered=False, late=late, hold=hold)

    @cached_property
    def encoder(self) -> Encoder:
        return Encoder(self.plan.schema, types_of(self.plan), self.strings, wanted=self.detector().reads)

    @property
    def batches(self) -> list[Items]:
        return [self.encoder.encode(batch) for batch in self.rows.combine_chunks().to_batches(max_chunksize=self.batch)]

    @cached_property
    def expected(self) -> Counter[Binding]:
        """What a detector without a limit says."""
        detector = self.detector()
        return net([*(detector.push(items) for items in self.batches), detector.push(end())])

    @cached_property
    def state(self) -> int:
        """Bytes that a detector without a limit holds at the end."""
        detector, most = self.detector(), 0
        for items in self.batches:
            detector.push(items)
            most = max(most, bytes_used(detector))
        return most


def played(spilling: Spilling, batches: Sequence[Items]) -> list[ChangeBatch]:
    return [changes for items in batches for changes in spilling.push(items)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        Run(count=1000, most=700, batch=50),
        Run(count=1000, most=700, batch=50, held=True, known=True),
        Run(count=600, most=300, batch=30, known=True),
        Run("SEQ(A a, B+ b, C c) WHERE [id] WITHIN 20 SELECT sum(b.v) AS s", count=500, most=400),
        Run("SEQ(!C c, A a, B b, !C d) WHERE [id] WITHIN 12", count=500, most=400),
        Run("SEQ(A a, B b) WHERE a.v = b.v WITHIN 15", count=500, most=400, held=True, known=True),
        Run(count=20_000, most=15_000, jit=True, batch=2000),
    ],
    ids=lambda run: f"{run.text} {'held' if run.held else ''} {run.count}",
)
def test_a_twentieth_of_the_memory_is_enough(run: Run, tmp_path: Path) -> None:
    spilling = Spilling(run.detector(), run.state // 20, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TocsinWarning)  # the window alone needs more in some of them
        found = played(spilling, run.batches)
    shown = spilling.spilled
    assert shown.frames_spilled > 3 and shown.bytes_on_disk > 0
    assert net([*found, *spilling.push(end())]) == run.expected
    assert spilling.spilled.frames_loaded > 0 and not spilling.spilled.deferred
    assert spilling.counters.seen == len(run.rows)
    assert spilling.counters.matches - spilling.counters.retracted == sum(run.expected.values())


@pytest.mark.slow
def test_memory_stays_below_the_limit(tmp_path: Path) -> None:
    run = Run(text=THEFT.replace("40", "100"), count=20_000, most=15_000, jit=True, batch=1000)
    limit = run.state // 20
    spilling = Spilling(run.detector(), limit, tmp_path)
    played(spilling, run.batches)
    assert spilling.spilled.memory_most < 1.4 * limit  # at this size what a frame will need is a rough guess
    assert spilling.spilled.bytes_on_disk > 10 * limit


def test_a_rule_of_one_event_needs_no_window(tmp_path: Path) -> None:
    """It remembers its events only to know copies of them, and those come from disk as well."""
    run = Run("OR(A a, C c) WHERE a.v >= 0", count=600, duplicates=0.2)
    spilling = Spilling(run.detector(), 8000, tmp_path)
    found = played(spilling, run.batches)
    assert spilling.spilled.frames_spilled > 1 and spilling.spilled.bytes_on_disk > 0
    assert net([*found, *spilling.push(end())]) == run.expected


def test_single_events(tmp_path: Path) -> None:
    run = Run(count=400, most=250)
    spilling = Spilling(run.detector(), 30_000, tmp_path)
    rows = run.rows.select(["type", "time", "eid", "id", "v"]).cast(
        pa.schema([("type", pa.string()), *((name, pa.int64()) for name in ("time", "eid", "id", "v"))])
    )
    run.encoder.encode(rows.slice(0, 1))
    single = RowEncoder(run.encoder, Columns().resolve(rows.schema.names))
    found = []
    for row in rows.to_pylist():
        assert single.read(row)
        found += spilling.push(single.one)
    assert spilling.spilled.frames_spilled > 0
    assert net([*found, *spilling.push(end())]) == run.expected


def test_events_without_names_keep_their_identity(tmp_path: Path) -> None:
    way = next(way for way in WAYS if way.nameless)
    spilled = 0
    for seed in range(8):
        query, events = drawn(1000 * way.seed + seed)
        plan = Bench(query, SCHEMA).plan(frozenset())
        arranged = Trial("", way.mode, shuffle=seed, twice=True).arranged(events)
        alone = replace(way, limit=10**9)
        said = [[*changes(plan, arranged, each, tmp_path)] for each in (way, alone)]
        found, expected = (net(piece for piece in each if isinstance(piece, ChangeBatch)) for each in said)
        assert found == expected, f"seed {seed}: {query}"
        spilled += sum(piece.spilled.frames_spilled for piece in said[0] if isinstance(piece, Spilling))
    assert spilled > 8


def test_withdrawn_events_leave_no_trace(tmp_path: Path) -> None:
    spilled = 0
    for seed in range(6):
        random = Random(seed)
        query, given = drawn(seed)
        events = list({event.eid: event for event in given}.values())
        random.shuffle(events)
        gone = {event.eid for event in events if random.random() < 0.4}
        log = [(event, 1) for event in events]
        for event in events:
            if event.eid in gone:
                log.insert(random.randint(log.index((event, 1)) + 1, len(log)), (event, -1))
        bench = Bench(query, SCHEMA)
        plan, strings = bench.plan(frozenset()), Strings()
        detector = Detector(plan, types_of(plan), strings, jit=False, ordered=False)
        spilling = Spilling(detector, 1, tmp_path, many=2, patience=3)
        encoder = Encoder(SCHEMA, types_of(plan), strings, wanted=detector.reads)
        rows, kinds = from_dicts([event for event, _ in log]), np.array([sign < 0 for _, sign in log], np.int8)
        found = []
        for first in range(0, len(log), 2):
            items = encoder.encode(rows.slice(first, 2))
            found += spilling.push(replace(items, kinds=kinds[first : first + 2]))
        spilled += spilling.spilled.frames_spilled
        expected = {match.binding: 1 for match in bench.oracle([event for event in events if event.eid not in gone])}
        assert net([*found, *spilling.push(end())]) == expected, f"seed {seed}: {query}"
    assert spilled > 6


# --- when frames are loaded ----------------------------------------------------------------------------------------


def small(folder: Path, *, many: int, patience: int, held: bool = False) -> tuple[Run, Spilling]:
    """A run that has spilled everything up to time 160; the clock is 200."""
    run = Run(disorder=0, count=201, held=held, duplicates=0)
    spilling = Spilling(run.detector(), 1, folder, many=many, patience=patience)
    played(spilling, run.batches)
    assert spilling.state.cut <= 160 and spilling.state.frames.all
    return run, spilling


def late(run: Run, time: int, eid: int, type: str = "C", id: int = 1) -> Items:
    row = {"type": type, "time": time, "eid": eid, "source": "s1", "seq": eid, "arrival": 0, "id": id, "v": 1}
    return run.encoder.encode(pa.Table.from_pylist([row]).cast(run.rows.schema))


def test_a_frame_is_loaded_when_enough_events_wait(tmp_path: Path) -> None:
    run, spilling = small(tmp_path, many=3, patience=1000)
    before = spilling.spilled
    for number in (1, 2):
        assert not len(spilling.push(late(run, 20, 1000 + number)))
    waiting = spilling.spilled
    assert waiting.deferred >= 2 and waiting.frames_loaded == before.frames_loaded
    spilling.push(late(run, 20, 1003))
    assert spilling.spilled.frames_loaded > before.frames_loaded
    assert spilling.spilled.deferred < waiting.deferred + 3
    assert spilling.spilled.deferred_most >= 2


def test_a_frame_is_loaded_when_an_event_has_waited_long_enough(tmp_path: Path) -> None:
    run, spilling = small(tmp_path, many=1000, patience=5)
    before = spilling.spilled.frames_loaded
    spilling.push(late(run, 20, 1000))
    for number in range(4):
        spilling.push(late(run, 300 + number, 2000 + number))
        assert spilling.spilled.frames_loaded == before
    for number in range(2):
        spilling.push(late(run, 310 + number, 3000 + number))
    assert spilling.spilled.frames_loaded > before and not spilling.spilled.deferred


def test_a_deferred_event_comes_before_later_guarantees(tmp_path: Path) -> None:
    """The late C forbids a held answer; it waits for its frame, and then C is promised. Nothing may be answered."""
    run, spilling = small(tmp_path, many=1000, patience=1000, held=True)
    expected = run.detector()
    for items in run.batches:
        expected.push(items)
    late_ones = [late(run, time, 1000 + 8 * time + id, id=id) for time in range(10, 60, 12) for id in range(0, 8, 2)]
    said = [changes for items in late_ones for changes in spilling.push(items)]
    answer = [expected.push(items) for items in late_ones]
    for type, time in (("C", 100), ("A", 100), (None, 150)):
        told = guarantee(time, ALL_TYPES if type is None else expected.types.index(type))
        said += spilling.push(told)
        answer.append(expected.push(told))
    assert net(said) == net(answer)
    assert all((changes.op > 0).all() for changes in said)


def test_an_idle_stream_waits_for_nothing(tmp_path: Path) -> None:
    """Without thresholds a guarantee may be used late while events come; when none come it is used at once."""
    run = Run(disorder=0, count=401, held=True, duplicates=0)
    spilling, detector = Spilling(run.detector(), 6000, tmp_path), run.detector()
    found, expected = played(spilling, run.batches), [detector.push(items) for items in run.batches]
    assert spilling.state.frames.all
    for time in (150, 151):
        found += spilling.push(guarantee(time))
        expected.append(detector.push(guarantee(time)))
    assert net(found) == net(expected) and sum(net(found).values()) > 10


def test_guarantees_remove_files(tmp_path: Path) -> None:
    _, spilling = small(tmp_path, many=1000, patience=1000)
    written = spilling.spilled.bytes_on_disk
    assert written > 0
    spilling.push(guarantee(120))
    less = spilling.spilled.bytes_on_disk
    assert 0 < less < written and spilling.state.frames.all[0].low > 40
    spilling.push(guarantee(1000))
    assert not spilling.state.frames.all
    spilling.push(end())
    assert spilling.spilled.bytes_on_disk == 0 and not list(tmp_path.rglob("*.arrows"))
    spilling.close()
    assert not list(tmp_path.iterdir())


def test_a_stream_that_comes_backwards(tmp_path: Path) -> None:
    """The first frame has no beginning: it must be cut when it grows; and many runs must become few."""
    run = Run(count=1000, disorder=0, duplicates=0, batch=25)
    run.rows = run.rows.take(pa.array(range(999, -1, -1)))
    spilling = Spilling(run.detector(), 20_000, tmp_path)
    found = played(spilling, run.batches)
    assert len(spilling.state.frames) > 4
    assert max(piece.level for piece in spilling.state.runs.pieces) > 1
    assert net([*found, *spilling.push(end())]) == run.expected


# --- saved states --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [False, True])
def test_a_snapshot_needs_no_file(held: bool, tmp_path: Path) -> None:
    run = Run(count=400, most=250, held=held)
    spilling = Spilling(run.detector(), 8000, tmp_path / "one")
    batches = run.batches
    found = played(spilling, batches[:12])
    parts = spilling.snapshot()
    assert spilling.spilled.deferred > 0 and spilling.spilled.bytes_on_disk > 0
    spilling.close()
    assert not list((tmp_path / "one").iterdir())
    again = Spilling(run.detector(), 8000, tmp_path / "two")
    again.restore(parts)
    assert again.spilled.deferred == sum(frame.pending for frame in spilling.state.frames)
    found += played(again, batches[12:])
    assert net([*found, *again.push(end())]) == run.expected
    assert again.counters.matches - again.counters.retracted == sum(run.expected.values())


def test_parts_that_did_not_change_are_not_saved_again(tmp_path: Path) -> None:
    run = Run(count=400, most=250)
    spilling = Spilling(run.detector(), 8000, tmp_path)
    batches = run.batches
    saved, version, found, skipped = {}, 0, [], 0
    for items in batches[:14]:
        found += spilling.push(items)
        parts = spilling.snapshot(version)
        skipped += len(spilling.snapshot()) - len(parts)
        saved |= {part.id: part for part in parts}
        version = next(part.version for part in parts if part.id == "summary")
    assert skipped > 10
    again = Spilling(run.detector(), 8000, tmp_path)
    again.restore(saved.values())
    found += played(again, batches[14:])
    assert net([*found, *again.push(end())]) == run.expected


def test_a_state_saved_without_spilling_can_be_taken_up(tmp_path: Path) -> None:
    run = Run("SEQ(A a, EXISTS c : C c, B b) WHERE [id] WITHIN 40", count=400, most=250)
    detector, batches = run.detector(), run.batches
    found = [detector.push(items) for items in batches[:12]]
    spilling = Spilling(run.detector(), 8000, tmp_path)
    spilling.restore(detector.snapshot())
    found += played(spilling, batches[12:])
    assert spilling.spilled.frames_spilled > 0
    assert net([*found, *spilling.push(end())]) == run.expected


def test_a_state_that_lacks_a_part_is_refused(tmp_path: Path) -> None:
    run, spilling = small(tmp_path, many=10, patience=10)
    parts = [part for part in spilling.snapshot() if not part.id.startswith("spill.")]
    with pytest.raises(StateError, match="not complete"):
        Spilling(run.detector(), 1, tmp_path).restore(parts)


# --- what can go wrong ---------------------------------------------------------------------------------------------


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(count=400, most=250)
    spilling = Spilling(run.detector(), 10_000, tmp_path)
    found, errors = [], []
    for at, items in enumerate(run.batches):
        with monkeypatch.context() as patched:
            if at % 3 == 2:
                full_disk(patched)
            try:
                found += spilling.push(items)
                continue
            except TocsinError as error:
                errors.append(error)
        assert not list(tmp_path.rglob("*.part"))
        found += spilling.push(items)  # there is room again: the same events once more
    assert len(errors) > 3
    assert all(str(tmp_path) in str(error) and "No space left" in str(error) and error.hint for error in errors)
    assert net([*found, *spilling.push(end())]) == run.expected


def test_after_a_full_disk_the_last_snapshot_is_as_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(count=400, most=250)
    spilling, batches = Spilling(run.detector(), 10_000, tmp_path), run.batches
    found = played(spilling, batches[:10])
    parts = spilling.snapshot()
    with monkeypatch.context() as patched:
        full_disk(patched)
        with pytest.raises(TocsinError):
            played(spilling, batches[10:])
    again = Spilling(run.detector(), 10_000, tmp_path)
    again.restore(parts)
    found += played(again, batches[10:])
    assert net([*found, *again.push(end())]) == run.expected


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = Run()
    spilling = Spilling(run.detector(), 1000, tmp_path / "file" / "spill")
    with pytest.raises(TocsinError, match=str(tmp_path / "file" / "spill")):
        played(spilling, run.batches)


def test_damaged_files_are_noticed(tmp_path: Path) -> None:
    run, spilling = small(tmp_path, many=1000, patience=1000)
    spilling.push(late(run, 20, 1000))
    for file in tmp_path.rglob("*.arrows"):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    with pytest.raises(StateError, match=r"arrows cannot be read\n(.|\n)*checksum(.|\n)*snapshot"):
        spilling.push(end())


def test_a_file_that_is_gone_is_noticed(tmp_path: Path) -> None:
    run, spilling = small(tmp_path, many=1000, patience=1000)
    spilling.push(late(run, 20, 1000))
    for file in tmp_path.rglob("*.arrows"):
        file.unlink()
    with pytest.raises(StateError, match=r"cannot be read\n(.|\n)*No such file"):
        spilling.snapshot()


@pytest.mark.parametrize("text", [THEFT, "SEQ(A a, !C c, B b) WHERE [id]"])
def test_a_limit_that_is_too_small_is_told_once(text: str, tmp_path: Path) -> None:
    run = Run(text.replace("40", "4000"), count=300, most=200)
    spilling = Spilling(run.detector(), 1000, tmp_path)
    with pytest.warns(TocsinWarning, match="memory limit of 1000 bytes is too small") as told:
        found = played(spilling, run.batches)
    assert len(told) == 1
    assert spilling.spilled.frames_spilled == 0
    assert net([*found, *spilling.push(end())]) == run.expected


def test_what_cannot_be_meant_is_refused() -> None:
    run = Run()
    with pytest.raises(TocsinError, match="leaves no room"):
        Spilling(run.detector(), 0)
    ordered = Detector(run.plan, types_of(run.plan), run.strings, jit=False)
    with pytest.raises(TocsinError, match="in order need no disk"):
        Spilling(ordered, 1000)


# --- columns of every kind -----------------------------------------------------------------------------------------

COUNT = 3000
COLUMNS = {
    "text codes": pa.array(["x", "y", None] * (COUNT // 3)).dictionary_encode(),
    "large texts": pa.array(["x"] * COUNT, pa.large_string()),
    "dates": pa.array([date(2026, 1, 1 + at % 9) for at in range(COUNT)]),
    "times of day": pa.array([at % 60 for at in range(COUNT)], pa.time32("s")),
    "lists": pa.array([[at % 3, 1] for at in range(COUNT)]),
    "bytes": pa.array([b"\xff\x00"] * COUNT),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_that_nobody_reads_come_back_from_disk(kind: str) -> None:
    """Events have no eid, so each is named by its content: this column too."""
    types = pa.array(["A", "B"] * (COUNT // 2)).dictionary_encode()
    times = [at + (40 if at % 7 == 0 else 0) for at in range(COUNT)]
    table = pa.table({"type": types, "time": times, "id": [at % 3 for at in range(COUNT)], "x": COLUMNS[kind]})
    query = tocsin.query("EVENT SEQ(A a, B b) WHERE [id] WITHIN 5")
    order = {"order": "aggressive(2000)", "jit": False}
    whole = query.detect(table, **order)
    session, found = query.stream(memory_limit="20 kB", **order), set()
    for batch in table.to_batches(max_chunksize=100):
        found |= {row["match_id"] for row in session.push(batch)}
    assert session._graph.stages[0].operator.spilled.frames > 1  # type: ignore[union-attr]
    assert len(found) > 100
    assert found == set(whole.table()["match_id"].to_pylist())
