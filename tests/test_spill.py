"""Spilling: with a memory limit far below what is needed, the answers of the oracle; nothing is lost, come what may."""

from __future__ import annotations

import errno
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import tocsin
from tests.effort import examples, some
from tocsin.encode import Columns, infer_schema
from tocsin.engine.partial_state import bytes_used
from tocsin.errors import StateError, TocsinError, TocsinWarning
from tocsin.events import Event
from tocsin.lang.syntax import Query
from tocsin.spill.budget import MemoryBudget
from tocsin.spill.detector import Spilling
from tocsin.spill.folder import make_folder, remove_leftovers
from tocsin.testing.agree import Bench, Trial, mistake
from tocsin.testing.delays import Uniform
from tocsin.testing.disorder import with_withdrawals
from tocsin.testing.harness import Harness, Limit, Running, net
from tocsin.testing.modes import EVERY, Mode, driven
from tocsin.testing.oracle import Binding
from tocsin.testing.strategies import SCHEMA, history, pair
from tocsin.testing.streams import Arrivals, table

QUERIES = 60  # for each way
pytestmark = pytest.mark.filterwarnings("ignore:the memory limit")


# fmt: off
SPILLING = (
    Trial("every event at once", Mode("aggressive", batch=1, limit=Limit(1, 1, 0)), 1),
    Trial("in batches", Mode("aggressive", batch=3, limit=Limit(1, 3, 4)), 2, twice=True),
    Trial("all at the end", Mode("aggressive", batch=1, limit=Limit(1, 1000, 1000)), 3),
    Trial("larger frames", Mode("aggressive", batch=2, limit=Limit(4000, 2, 5)), 4),
    Trial("by default", Mode("aggressive", batch=1, limit=Limit(2000)), 5, twice=True),
    Trial("forgetting", Mode("aggressive", batch=1, late=True, limit=Limit(1, 2, 3)), 6),
    Trial("promises", Mode("aggressive", batch=2, promises=1, limit=Limit(1, 4, 6)), 7),
    Trial("immediate", Mode("aggressive", batch=1, promises=2, immediate=True, limit=Limit(1, 2, 2)), 8),
    Trial("restart", Mode("aggressive", batch=2, promises=3, restart=EVERY, limit=Limit(1, 3, 3)), 9, twice=True),
    Trial("held", Mode("conservative", batch=1, promises=4, limit=Limit(1, 1, 0)), 10, twice=True),
    Trial("held, deferred", Mode("conservative", batch=2, promises=5, limit=Limit(1, 50, 50)), 11),
    Trial("held, awake", Mode("conservative", batch=1, promises=6, limit=Limit(5000, 2, 3)), 12),
    Trial("held, known delay", Mode("conservative", batch=1, late=True, limit=Limit(1, 2, 3)), 13),
    Trial("held, restart", Mode("conservative", batch=1, promises=7, restart=EVERY, limit=Limit(1, 2, 0)), 14),
    Trial("some held", Mode("hybrid", batch=1, promises=8, held=1, limit=Limit(1, 2, 2)), 15, twice=True),
    Trial("some held, immediate", Mode("hybrid", batch=1, promises=9, held=3, immediate=True, limit=Limit(1, 3, 3)), 1),
)
# fmt: on
NAMELESS = Mode("aggressive", batch=1, promises=1, limit=Limit(1, 2, 3), eids=False)


def spilled_run(harness: Harness, events: Sequence[Event], mode: Mode, folder: Path) -> Running:
    """A run with a limit that has left nothing on disk at its end."""
    assert mode.limit is not None
    run = driven(harness, events, replace(mode, limit=replace(mode.limit, folder=folder)))
    state = spilling(run).state
    assert not state.frames.all and not state.runs.pieces and not state.runs.store.size
    return run


def spilling(run: Running) -> Spilling:
    assert isinstance(run.operator, Spilling)
    return run.operator


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


def disagreements(trial: Trial, seeds: range, folder: Path) -> tuple[list[str], int]:
    """What is wrong with drawn pairs, and how many frames were spilled."""
    wrong, spilled = [], 0
    for seed in (1000 * (trial.shuffle or 0) + each for each in seeds):
        query, events = drawn(seed)
        bench = Bench(query, SCHEMA)
        run = spilled_run(bench, trial.arranged(events), trial.mode, folder)
        found = mistake(run, trial.mode, bench.oracle(events))
        wrong += [] if found is None else [f"seed {seed}: {query}: {found}"]
        spilled += spilling(run).spilled.frames_spilled
        run.close()
    return wrong, spilled


@pytest.mark.parametrize("trial", some(SPILLING, least=6), ids=lambda trial: trial.name)
def test_answers_of_the_oracle(trial: Trial, tmp_path: Path) -> None:
    wrong, spilled = disagreements(trial, range(3), tmp_path)
    assert not wrong
    assert spilled > 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("trial", SPILLING, ids=lambda trial: trial.name)
def test_answers_of_the_oracle_at_length(trial: Trial, tmp_path: Path) -> None:
    assert not disagreements(trial, range(3, 3 + examples(QUERIES - 3)), tmp_path)[0]


# --- a theft, at any size ------------------------------------------------------------------------------------------

THEFT = "SEQ(A a, !C c, B b) WHERE [id] WITHIN 40"


@dataclass
class Stream:
    """A query and a stream in disorder, to be run in memory or spilling, a batch after the other."""

    text: str = THEFT
    count: int = 600
    disorder: float = 0.2
    most: int = 300
    held: bool = False
    known: bool = False
    jit: bool = False
    batch: int = 20
    duplicates: float = 0.03

    @cached_property
    def rows(self) -> pa.Table:
        arrivals = Arrivals(
            events=self.count, types={"A": 1, "B": 1, "C": 0.5}, unit=1, disorder=self.disorder,
            delay=Uniform(self.most), keys=8, duplicates=self.duplicates, seed=5,
        )  # fmt: skip
        return table(arrivals)

    @cached_property
    def harness(self) -> Harness:
        schema = infer_schema(self.rows.schema, Columns().resolve(self.rows.schema.names), types={"A", "B", "C"})
        return Harness(self.text, schema)

    @property
    def batches(self) -> list[pa.RecordBatch]:
        return self.rows.combine_chunks().to_batches(max_chunksize=self.batch)

    def start(self, limit: Limit | None = None) -> Running:
        order = "conservative" if self.held else "aggressive"
        return self.harness.start(f"{order}({self.most})" if self.known else order, jit=self.jit, limit=limit)

    @cached_property
    def expected(self) -> Counter[Binding]:
        """What is said without a limit."""
        run = played(self.start(), self.batches)
        run.end()
        return run.net

    @cached_property
    def state(self) -> int:
        """The most bytes that are held without a limit."""
        run, most = self.start(), 0
        for batch in self.batches:
            run.push(batch)
            most = max(most, bytes_used(run.detector))
        return most


def played(run: Running, batches: Sequence[pa.RecordBatch]) -> Running:
    for batch in batches:
        run.push(batch)
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "stream",
    [
        Stream(count=1000, most=700, batch=50),
        Stream(count=1000, most=700, batch=50, held=True, known=True),
        Stream(count=600, most=300, batch=30, known=True),
        Stream("SEQ(A a, B+ b, C c) WHERE [id] WITHIN 20 SELECT sum(b.v) AS s", count=500, most=400),
        Stream("SEQ(!C c, A a, B b, !C d) WHERE [id] WITHIN 12", count=500, most=400),
        Stream("SEQ(A a, B b) WHERE a.v = b.v WITHIN 15", count=500, most=400, held=True, known=True),
        Stream(count=20_000, most=15_000, jit=True, batch=2000),
    ],
    ids=lambda stream: f"{stream.text} {'held' if stream.held else ''} {stream.count}",
)
def test_a_twentieth_of_the_memory_is_enough(stream: Stream, tmp_path: Path) -> None:
    run = stream.start(Limit(stream.state // 20, folder=tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TocsinWarning)  # the window alone needs more in some of them
        played(run, stream.batches)
    shown = spilling(run).spilled
    assert shown.frames_spilled > 3 and shown.bytes_on_disk > 0
    run.end()
    assert run.net == stream.expected
    shown, counters = spilling(run).spilled, run.operator.counters
    assert shown.frames_loaded > 0 and not shown.deferred
    assert counters.seen == len(stream.rows)
    assert counters.matches - counters.retracted == sum(stream.expected.values())


@pytest.mark.slow
def test_memory_stays_below_the_limit(tmp_path: Path) -> None:
    stream = Stream(text=THEFT.replace("40", "100"), count=20_000, most=15_000, jit=True, batch=1000)
    limit = stream.state // 20
    shown = spilling(played(stream.start(Limit(limit, folder=tmp_path)), stream.batches)).spilled
    assert shown.memory_most < 1.4 * limit  # at this size what a frame will need is a rough guess
    assert shown.bytes_on_disk > 10 * limit


def test_a_rule_of_one_event_needs_no_window(tmp_path: Path) -> None:
    """It remembers its events only to know copies of them, and those come from disk as well."""
    stream = Stream("OR(A a, C c) WHERE a.v >= 0", count=600, duplicates=0.2)
    run = played(stream.start(Limit(8000, folder=tmp_path)), stream.batches)
    shown = spilling(run).spilled
    assert shown.frames_spilled > 1 and shown.bytes_on_disk > 0
    run.end()
    assert run.net == stream.expected


def test_single_events(tmp_path: Path) -> None:
    stream = Stream(count=400, most=250)
    run = stream.start(Limit(30_000, folder=tmp_path))
    rows = stream.rows.select(["type", "time", "eid", "id", "v"]).cast(
        pa.schema([("type", pa.string()), *((name, pa.int64()) for name in ("time", "eid", "id", "v"))])
    )
    run.encoded(rows.slice(0, 1))
    for row in rows.to_pylist():
        run.push_one(row)
    assert spilling(run).spilled.frames_spilled > 0
    run.end()
    assert run.net == stream.expected


def test_events_without_names_keep_their_identity(tmp_path: Path) -> None:
    spilled = 0
    for seed in range(8):
        query, events = drawn(16_000 + seed)
        harness, arranged = Harness(query, SCHEMA), Trial("", NAMELESS, shuffle=seed, twice=True).arranged(events)
        run = spilled_run(harness, arranged, NAMELESS, tmp_path)
        alone = driven(harness, arranged, replace(NAMELESS, limit=Limit(10**9)))
        assert run.net == alone.net, f"seed {seed}: {query}"
        spilled += spilling(run).spilled.frames_spilled
    assert spilled > 8


def test_withdrawn_events_leave_no_trace(tmp_path: Path) -> None:
    spilled = 0
    for seed in range(6):
        random = Random(seed)
        query, given = drawn(seed)
        events = list({event.eid: event for event in given}.values())
        random.shuffle(events)
        items, kept = with_withdrawals(events, random)
        harness = Harness(query, SCHEMA)
        run = harness.start("aggressive", limit=Limit(1, 2, 3, tmp_path)).feed(items, batch=2)
        spilled += spilling(run).spilled.frames_spilled
        run.end()
        assert run.net == harness.expected(kept), f"seed {seed}: {query}"
    assert spilled > 6


# --- when frames are loaded ----------------------------------------------------------------------------------------


def small(folder: Path, *, many: int, patience: int, held: bool = False) -> Running:
    """A run that has spilled everything up to time 160; the clock is 200."""
    stream = Stream(disorder=0, count=201, held=held, duplicates=0)
    run = played(stream.start(Limit(1, many, patience, folder)), stream.batches)
    assert spilling(run).state.cut <= 160 and spilling(run).state.frames.all
    return run


def late(time: int, eid: int, type: str = "C", id: int = 1) -> pa.Table:
    row = {"type": type, "time": time, "eid": eid, "source": "s1", "seq": eid, "arrival": 0, "id": id, "v": 1}
    return pa.Table.from_pylist([row]).cast(Stream(count=1).rows.schema)


def test_a_frame_is_loaded_when_enough_events_wait(tmp_path: Path) -> None:
    run = small(tmp_path, many=3, patience=1000)
    before = spilling(run).spilled
    for number in (1, 2):
        assert not len(run.push(late(20, 1000 + number)))
    waiting = spilling(run).spilled
    assert waiting.deferred >= 2 and waiting.frames_loaded == before.frames_loaded
    run.push(late(20, 1003))
    after = spilling(run).spilled
    assert after.frames_loaded > before.frames_loaded
    assert after.deferred < waiting.deferred + 3
    assert after.deferred_most >= 2


def test_a_frame_is_loaded_when_an_event_has_waited_long_enough(tmp_path: Path) -> None:
    run = small(tmp_path, many=1000, patience=5)
    before = spilling(run).spilled.frames_loaded
    run.push(late(20, 1000))
    for number in range(4):
        run.push(late(300 + number, 2000 + number))
        assert spilling(run).spilled.frames_loaded == before
    for number in range(2):
        run.push(late(310 + number, 3000 + number))
    assert spilling(run).spilled.frames_loaded > before and not spilling(run).spilled.deferred


def test_a_deferred_event_comes_before_later_guarantees(tmp_path: Path) -> None:
    """The late C forbids a held answer; it waits for its frame, and then C is promised. Nothing may be answered."""
    run = small(tmp_path, many=1000, patience=1000, held=True)
    stream = Stream(disorder=0, count=201, held=True, duplicates=0)
    whole = played(stream.start(), stream.batches)
    said = []
    for each in (run, whole):
        begun = len(each.log)
        for time in range(10, 60, 12):
            for id in range(0, 8, 2):
                each.push(late(time, 1000 + 8 * time + id, id=id))
        for type, until in (("C", 100), ("A", 100), (None, 150)):
            each.promise(type, until)
        said.append(net(each.log[begun:]))
    assert said[0] == said[1] and said[0]
    assert all(op > 0 for op, _ in run.changes)


def test_an_idle_stream_waits_for_nothing(tmp_path: Path) -> None:
    """Without thresholds a guarantee may be used late while events come; when none come it is used at once."""
    stream = Stream(disorder=0, count=401, held=True, duplicates=0)
    run, whole = (played(stream.start(limit), stream.batches) for limit in (Limit(6000, folder=tmp_path), None))
    assert spilling(run).state.frames.all
    for time in (150, 151):
        run.promise(None, time)
        whole.promise(None, time)
    assert run.net == whole.net and sum(run.net.values()) > 10


def test_guarantees_remove_files(tmp_path: Path) -> None:
    run = small(tmp_path, many=1000, patience=1000)
    written = spilling(run).spilled.bytes_on_disk
    assert written > 0
    run.promise(None, 120)
    less = spilling(run).spilled.bytes_on_disk
    assert 0 < less < written and spilling(run).state.frames.all[0].low > 40
    run.promise(None, 1000)
    assert not spilling(run).state.frames.all
    run.end()
    assert spilling(run).spilled.bytes_on_disk == 0 and not list(tmp_path.rglob("*.arrows"))
    run.close()
    assert not list(tmp_path.iterdir())


def test_a_stream_that_comes_backwards(tmp_path: Path) -> None:
    """The first frame has no beginning: it must be cut when it grows; and many runs must become few."""
    stream = Stream(count=1000, disorder=0, duplicates=0, batch=25)
    stream.rows = stream.rows.take(pa.array(range(999, -1, -1)))
    run = played(stream.start(Limit(20_000, folder=tmp_path)), stream.batches)
    assert len(spilling(run).state.frames) > 4
    assert max(piece.level for piece in spilling(run).state.runs.pieces) > 1
    run.end()
    assert run.net == stream.expected


# --- saved states --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [False, True])
def test_a_snapshot_needs_no_file(held: bool, tmp_path: Path) -> None:
    stream = Stream(count=400, most=250, held=held)
    run = played(stream.start(Limit(8000, folder=tmp_path / "one")), stream.batches[:12])
    parts, shown = run.graph.snapshot(), spilling(run).spilled
    assert shown.deferred > 0 and shown.bytes_on_disk > 0
    run.close()
    assert not list((tmp_path / "one").iterdir())
    again = stream.start(Limit(8000, folder=tmp_path / "two"))
    again.graph.restore(parts)
    assert spilling(again).spilled.deferred == sum(frame.pending for frame in spilling(run).state.frames)
    played(again, stream.batches[12:]).end()
    assert net([*run.log, *again.log]) == stream.expected
    counters = again.operator.counters
    assert counters.matches - counters.retracted == sum(stream.expected.values())


def test_parts_that_did_not_change_are_not_saved_again(tmp_path: Path) -> None:
    stream = Stream(count=400, most=250)
    run, batches = stream.start(Limit(8000, folder=tmp_path)), stream.batches
    saved, version, skipped = {}, 0, 0
    for batch in batches[:14]:
        run.push(batch)
        parts = run.graph.snapshot(version)
        skipped += len(run.graph.snapshot()) - len(parts)
        saved |= {part.id: part for part in parts}
        version = next(part.version for part in parts if part.id.endswith("operator/summary"))
    assert skipped > 10
    again = stream.start(Limit(8000, folder=tmp_path))
    again.graph.restore(saved.values())
    played(again, batches[14:]).end()
    assert net([*run.log, *again.log]) == stream.expected


def test_a_state_saved_without_spilling_can_be_taken_up(tmp_path: Path) -> None:
    stream = Stream("SEQ(A a, EXISTS c : C c, B b) WHERE [id] WITHIN 40", count=400, most=250)
    whole = played(stream.start(), stream.batches[:12])
    run = stream.start(Limit(8000, folder=tmp_path))
    run.graph.restore(whole.graph.snapshot())
    played(run, stream.batches[12:])
    assert spilling(run).spilled.frames_spilled > 0
    run.end()
    assert net([*whole.log, *run.log]) == stream.expected


def test_a_state_that_lacks_a_part_is_refused(tmp_path: Path) -> None:
    run = small(tmp_path, many=10, patience=10)
    parts = [part for part in run.graph.snapshot() if "/spill." not in part.id]
    with pytest.raises(StateError, match="not complete"):
        Stream(disorder=0, count=201, duplicates=0).start(Limit(1, folder=tmp_path)).graph.restore(parts)


# --- what can go wrong ---------------------------------------------------------------------------------------------


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(count=400, most=250)
    run, errors = stream.start(Limit(10_000, folder=tmp_path)), []
    for at, batch in enumerate(stream.batches):
        with monkeypatch.context() as patched:
            if at % 3 == 2:
                full_disk(patched)
            try:
                run.push(batch)
                continue
            except TocsinError as error:
                errors.append(error)
        assert not list(tmp_path.rglob("*.part"))
        run.push(batch)  # there is room again: the same events once more
    assert len(errors) > 3
    assert all(str(tmp_path) in str(error) and "No space left" in str(error) and error.hint for error in errors)
    run.end()
    assert run.net == stream.expected


def test_after_a_full_disk_the_last_snapshot_is_as_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(count=400, most=250)
    run, batches = stream.start(Limit(10_000, folder=tmp_path)), stream.batches
    found = list(played(run, batches[:10]).log)
    parts = run.graph.snapshot()
    with monkeypatch.context() as patched:
        full_disk(patched)
        with pytest.raises(TocsinError):
            played(run, batches[10:])
    again = stream.start(Limit(10_000, folder=tmp_path))
    again.graph.restore(parts)
    played(again, batches[10:]).end()
    assert net([*found, *again.log]) == stream.expected


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    stream = Stream()
    run = stream.start(Limit(1000, folder=tmp_path / "file" / "spill"))
    with pytest.raises(TocsinError, match=str(tmp_path / "file" / "spill")):
        played(run, stream.batches)


def test_damaged_files_are_noticed(tmp_path: Path) -> None:
    run = small(tmp_path, many=1000, patience=1000)
    run.push(late(20, 1000))
    for file in tmp_path.rglob("*.arrows"):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    with pytest.raises(StateError, match=r"arrows cannot be read\n(.|\n)*checksum(.|\n)*snapshot"):
        run.end()


def test_a_file_that_is_gone_is_noticed(tmp_path: Path) -> None:
    run = small(tmp_path, many=1000, patience=1000)
    run.push(late(20, 1000))
    for file in tmp_path.rglob("*.arrows"):
        file.unlink()
    with pytest.raises(StateError, match=r"cannot be read\n(.|\n)*No such file"):
        run.graph.snapshot()


@pytest.mark.parametrize("text", [THEFT, "SEQ(A a, !C c, B b) WHERE [id]"])
def test_a_limit_that_is_too_small_is_told_once(text: str, tmp_path: Path) -> None:
    stream = Stream(text.replace("40", "4000"), count=300, most=200)
    run = stream.start(Limit(1000, folder=tmp_path))
    with pytest.warns(TocsinWarning, match="memory limit of 1000 bytes is too small") as told:
        played(run, stream.batches)
    assert len(told) == 1
    assert spilling(run).spilled.frames_spilled == 0
    run.end()
    assert run.net == stream.expected


def test_what_cannot_be_meant_is_refused() -> None:
    stream = Stream()
    with pytest.raises(TocsinError, match="leaves no room"):
        stream.start(Limit(0))
    with pytest.raises(TocsinError, match="in order need no disk"):
        Spilling(stream.harness.start().detector, 1000)


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


# --- folders -------------------------------------------------------------------------------------------------------


def test_what_a_killed_process_left_is_removed_by_the_next_run(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; from tocsin.spill.folder import make_folder\n"
        "folder, lock = make_folder(Path(sys.argv[1])); (folder / 'x').write_text('x')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    mine, lock = make_folder(tmp_path)
    assert list(tmp_path.iterdir()) == [mine]
    other, second = make_folder(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([mine, other])
    for file in (lock, second):
        file.close()


def test_folders_that_are_not_ours_to_remove_stay(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".lock").write_text("")
    (tmp_path / "tocsin-spill-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "tocsin-spill-strange").mkdir()
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"elsewhere", "tocsin-spill-link", "tocsin-spill-strange"}


def test_what_the_live_detector_and_stored_events_take_is_no_room_for_frames() -> None:
    state: Any = SimpleNamespace(limit=1000, runs=SimpleNamespace(tail_bytes=100))
    budget = MemoryBudget(state)
    assert budget.room == 800
    budget.grow(300)
    assert budget.room == 500
    state.runs.tail_bytes = 0
    assert budget.room == 600
