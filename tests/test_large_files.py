"""Files that are larger than what they may take of memory: read piece by piece, with the same answers."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from pyarrow import parquet

import tocsin
from tests.effort import examples
from tocsin.errors import InputError
from tocsin.run import large_input, row_groups, time_sort
from tocsin.run.text_blocks import csv_blocks, line_blocks, row_end

QUERIES = (
    "EVENT SEQ(A a, B b, C c) WHERE [k] AND c.v > 2 WITHIN 9",
    "EVENT SEQ(A a, !B b, C c) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, B+ b, C c) WHERE [k] WITHIN 9",
    "EVENT SEQ(A a, B b, !C c) WITHIN 5",
    "EVENT OR(SEQ(A a, B b), AND(A a, C c)) WHERE [k] WITHIN 5",
    "EVENT SEQ(A a, C c) WHERE a.v > 3 AND c.v > 3 WITHIN 6",
    "QUERY x EVENT SEQ(A a, B b) WHERE [k] WITHIN 4 SELECT a.v AS v; EVENT SEQ(x y, C c) WITHIN 9",
    "EVENT SEQ(A a, B b) WITHIN 9 CONSUME recent",
    "EVENT SEQ(A a, C c) WHERE [k] WITHIN 9 AFTER MATCH SKIP PAST LAST EVENT",
)
TEXTS = ("u", "ü", 'x,"y"', "two\nlines", "", None)
SCHEMA = pa.schema([
    ("type", pa.string()), ("time", pa.int64()), ("k", pa.string()), ("v", pa.float64()), ("w", pa.int64()),
])  # fmt: skip
FORMATS = ("csv", "csv.gz", "jsonl", "parquet", "arrow", "arrows")


@pytest.fixture(autouse=True)
def tiny_pieces(monkeypatch):
    """Pieces of a few rows; and with `memory_limit=10` no file fits."""
    monkeypatch.setattr(large_input, "LEAST", 300)


def drawn(draw: random.Random) -> pa.Table:
    """Events, in order of time or not, some of which are equal."""
    count = draw.randrange(1, 200)
    times = [draw.randrange(count) for _ in range(count)]
    times = sorted(times) if draw.random() < 0.6 else times
    rows = [
        {
            "type": draw.choice("AABBCCD"), "time": at, "k": draw.choice(TEXTS),
            "v": draw.choice([1, 2, 3, 4, 5, 5, 5, 2.5, None]), "w": draw.randrange(3),
        }
        for at in times
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)


def written(table: pa.Table, folder: Path, kind: str, draw: random.Random) -> Path:
    path = folder / f"events.{kind}"
    match kind:
        case "csv" | "csv.gz":
            with pa.output_stream(str(path), compression="detect") as out:
                pyarrow.csv.write_csv(table, out)
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        case "parquet":
            parquet.write_table(table, path, row_group_size=draw.choice([7, 50, 1000]))
        case _:
            make = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
            with pa.OSFile(str(path), "wb") as out, make(out, table.schema) as file:
                file.write_table(table, max_chunksize=40)
    return path


def shown(found: tocsin.Matches, *, in_order: bool = True) -> tuple[Any, ...]:
    """Everything that a result says: rows and their order, ids, counters, notes."""
    rows = list(found) if in_order else sorted(found, key=lambda row: row["match_id"])
    return rows, found.table().schema, found.counters, found.notes


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_large_file_says_what_a_small_one_says(kind, text, tmp_path):
    for seed in range(examples(30, least=2)):
        draw = random.Random(f"{kind}{text}{seed}")
        path = written(drawn(draw), tmp_path, kind, draw)
        query = tocsin.query(text)
        whole = query.detect(path, jit=False)
        pieces = query.detect(path, jit=False, memory_limit=10, threads=draw.choice([1, 2]))
        in_order = "SKIP" not in text  # those that choose among matches give them push by push, in no other order
        assert shown(pieces, in_order=in_order) == shown(whole, in_order=in_order), seed


def test_files_of_a_directory_are_read_one_after_the_other(tmp_path):
    draw = random.Random(3)
    for at in range(4):
        (tmp_path / f"{at}").mkdir()
        written(drawn(draw), tmp_path / f"{at}", draw.choice(("csv", "jsonl", "parquet")), draw)
    query = tocsin.query(QUERIES[0])
    assert shown(query.detect(tmp_path, jit=False, memory_limit=10)) == shown(query.detect(tmp_path, jit=False))


@pytest.mark.parametrize("order", ["slack(5)", "aggressive(300)", "conservative(300)"])
def test_other_orders_take_the_rows_as_they_come(order, tmp_path, monkeypatch):
    for seed in range(examples(20, least=3)):
        draw = random.Random(f"{order}{seed}")
        path = written(drawn(draw), tmp_path, draw.choice(FORMATS), draw)
        query = tocsin.query(QUERIES[draw.randrange(4)])
        whole = query.detect(path, jit=False, order=order)
        with monkeypatch.context() as little:
            little.setattr(sys.modules["tocsin.run.query"], "room", lambda _: 10)
            pieces = query.detect(path, jit=False, order=order)
        assert {row["match_id"] for row in pieces} == {row["match_id"] for row in whole}
        assert pieces.counters["late"] == whole.counters["late"]


def test_kinds_are_those_of_the_whole_column(tmp_path):
    rows = [f"A,{at},{at if at < 60 else at + 0.5},{at if at < 90 else 'n' + str(at)}" for at in range(100)]
    (tmp_path / "e.csv").write_text("type,time,v,name\n" + "\n".join(rows) + "\n")
    query = tocsin.query("EVENT SEQ(A a, A b) WHERE b.v > 97 AND a.name = '95' OR a.name = 'n95' WITHIN 5")
    assert shown(query.detect(tmp_path / "e.csv", memory_limit=10)) == shown(query.detect(tmp_path / "e.csv"))


BAD = {
    "a field too many": ("csv", b"A,97,1,2,3\n", "line 98: has 5 fields instead of 3"),
    "no time": ("csv", b"A,,1\n", "line 98: the time is null"),
    "no UTF-8": ("csv", b"A,97,\xff\xfe\n", "line 98: 'k' is not valid UTF-8"),
    "no JSON": ("jsonl", b'{"type": "A"\n', "line 97: is not JSON"),
    "no type": ("jsonl", b'{"time": 97, "k": "x"}\n', "line 97: the type is null"),
}


@pytest.mark.parametrize(("kind", "line", "message"), BAD.values(), ids=BAD)
def test_a_bad_row_has_the_line_of_the_file(kind, line, message, tmp_path):
    lines = [json.dumps({"type": "A", "time": at, "k": "x"}).encode() + b"\n" for at in range(120)]
    if kind == "csv":
        lines = [f"A,{at},x\n".encode() for at in range(120)]
    path, head = tmp_path / f"e.{kind}", b"type,time,k\n" if kind == "csv" else b""
    path.write_bytes(head + b"".join([*lines[:96], line, *lines[96:]]))
    query = tocsin.query("EVENT SEQ(A a, A b) WHERE [k] WITHIN 1")
    with pytest.raises(InputError, match=message):
        query.detect(path, jit=False, memory_limit=10)
    assert not list(Path(tmp_path).glob("tocsin-spill-*"))
    found = query.detect(path, jit=False, memory_limit=10, bad_rows="skip")
    assert found.counters["skipped"] == 1 and len(found) == 119
    assert shown(found) == shown(query.detect(path, jit=False, bad_rows="skip"))


def test_a_parquet_file_that_was_cut_is_an_error_with_its_name(tmp_path):
    path = written(pa.concat_tables([drawn(random.Random(1))] * 20), tmp_path, "parquet", random.Random(5))
    raw = bytearray(path.read_bytes())
    raw[40:400] = bytes(360)
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"events\.parquet cannot be read as parquet"):
        tocsin.query(QUERIES[0]).detect(path, jit=False, memory_limit=10)


# --- blocks --------------------------------------------------------------------------------------------------------


def test_blocks_are_whole_rows_wherever_they_are_cut(tmp_path):
    path, names = tmp_path / "e.csv", "a,b\n"
    for seed in range(examples(300, least=40)):
        draw = random.Random(seed)
        fields = ("x", "", '"q"', '"two\nlines"', '"a ""b"" c"', 'mid"dle', "ü", '"a,b"')
        end = draw.choice(("\n", "\r\n", "\r"))
        rows = [f"{draw.choice(fields)},{draw.choice(fields)}" for _ in range(draw.randrange(1, 12))]
        text = names + end.join(rows) + draw.choice((end, ""))
        path.write_text(text, newline="")
        blocks = [raw for raw, _ in csv_blocks(path, ",", draw.randrange(1, 40))]
        bodies = [block.decode().removeprefix(names) for block in blocks]
        assert "".join(bodies) == text.removeprefix(names), seed
        counted = sum(len(pyarrow_rows(names + body)) for body in bodies if body)
        assert counted == len(pyarrow_rows(text)), (seed, bodies)


def pyarrow_rows(text: str) -> pa.Table:
    options = pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    return pyarrow.csv.read_csv(pa.BufferReader(text.encode()), parse_options=options)


def test_blocks_know_how_many_lines_stand_before_them(tmp_path):
    path = tmp_path / "e.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\n" + b"".join(b'%d,"x\ny"\n' % at for at in range(50)))
    for raw, before in csv_blocks(path, ",", 30):
        number = int(raw.split(b"\n")[1].partition(b",")[0])
        assert before + 2 == 2 + 2 * number  # its first row is the second line of the block
    path.write_bytes(b"".join(b"%d\n" % at for at in range(50)))
    assert all(int(raw.split(b"\n")[0]) == before for raw, before in line_blocks(path, 9))


def test_a_row_that_does_not_end_is_not_cut():
    assert row_end(b'a,"b\nc', ",") == 0
    assert row_end(b'1,2\na,"b\nc', ",") == 4
    assert row_end(b'1,2\na,"b\nc"\n', ",") == 12
    assert row_end(b'x"y,2\na,"b\nc', ",") == 6


# --- row groups ----------------------------------------------------------------------------------------------------


def groups_read(monkeypatch) -> dict[str, int]:
    counts = {"read": 0, "skipped": 0}
    skips = row_groups.Skip.skips

    def counted(self, *group):
        said = skips(self, *group)
        counts["skipped" if said else "read"] += 1
        return said

    monkeypatch.setattr(row_groups.Skip, "skips", counted)
    return counts


def grouped(folder: Path, **columns: list[Any]) -> Path:
    """A file with a row group for each type."""
    rows = {"type": [type for type in "ABZC" for _ in range(10)], "time": list(range(40)), **columns}
    parquet.write_table(pa.table(rows), folder / "e.parquet", row_group_size=10)
    return folder / "e.parquet"


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        ("EVENT SEQ(A a, B b) WITHIN 40", 2),
        ("EVENT SEQ(A a, B b, C c) WITHIN 40", 1),
        ("EVENT SEQ(A a, C c) WHERE c.v > 100 WITHIN 40", 3),
        ("EVENT SEQ(A a, C c) WHERE c.v >= 39 WITHIN 40", 2),
        ("EVENT SEQ(A a, C c) WHERE [k] AND c.v > 100 WITHIN 40", 3),
        ("EVENT SEQ(A a, C c) WHERE [n] AND c.v > 100 WITHIN 40", 2),  # rows without a key are counted
        ("EVENT SEQ(ANY a, C c) WITHIN 40", 0),
    ],
)
def test_row_groups_that_matter_to_nobody_are_not_read(text, skipped, tmp_path, monkeypatch):
    path = grouped(tmp_path, v=list(range(40)), k=["x"] * 40, n=[None, *["y"] * 39][::-1])
    counts, query = groups_read(monkeypatch), tocsin.query(text)
    pieces = query.detect(path, jit=False, memory_limit=10)
    assert counts == {"read": 4 - skipped, "skipped": skipped}
    assert shown(pieces) == shown(query.detect(path, jit=False))


def test_a_row_group_with_a_row_that_is_bad_is_read(tmp_path, monkeypatch):
    path = tmp_path / "e.parquet"
    table = pa.table({"type": ["A", "Z", "Z", "B"], "time": [1, 2, None, 4]})
    parquet.write_table(table, path, row_group_size=1)
    counts = groups_read(monkeypatch)
    with pytest.raises(InputError, match="row 3: the time is null"):
        tocsin.query("EVENT SEQ(A a, B b) WITHIN 9").detect(path, jit=False, memory_limit=10)
    found = tocsin.query("EVENT SEQ(A a, B b) WITHIN 9").detect(path, jit=False, memory_limit=10, bad_rows="skip")
    assert (len(found), found.counters["skipped"], counts["skipped"] > 0) == (1, 1, True)


# --- sorting -------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    path = tmp_path / "e.csv"
    path.write_text("type,time\nA,5\nB,1\n" + "A,7\n" * 200)
    monkeypatch.setattr(time_sort.tempfile, "gettempdir", lambda: str(tmp_path))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(time_sort.pa.ipc, "new_file", full)
    with pytest.raises(InputError, match="cannot be sorted on disk") as error:
        tocsin.query("EVENT SEQ(A a, B b) WITHIN 9").detect(path, jit=False, memory_limit=10)
    assert "TMPDIR" in str(error.value) and not list(tmp_path.glob("tocsin-*"))


def test_nothing_is_left_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(time_sort.tempfile, "gettempdir", lambda: str(tmp_path / "spill"))
    path = tmp_path / "e.csv"
    path.write_text("type,time\n" + "".join(f"{'AB'[at % 2]},{1000 - at}\n" for at in range(1000)))
    found = tocsin.query("EVENT SEQ(A a, B b) WITHIN 1").detect(path, jit=False, memory_limit=10)
    assert len(found) == 499 and not list((tmp_path / "spill").iterdir())
    found = tocsin.query("EVENT SEQ(A a, B b) WITHIN 1").detect(path, jit=False, memory_limit=10, limit=3)
    assert len(found) == 3 and not list((tmp_path / "spill").iterdir())


# --- interrupts ----------------------------------------------------------------------------------------------------

INTERRUPTED = """
import signal, sys, tempfile, threading
import tocsin
from tocsin.run.large_input import LargeInput
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests behind itself has them ignore it
tempfile.tempdir = sys.argv[2]
begun = []
def watch(rows, matches):
    if not begun and rows:
        begun.append(print("begun", flush=True))
query = tocsin.query("EVENT SEQ(A a, B b, A c, B d) WHERE a.k + b.k + c.k + d.k < 0 WITHIN 50")
survey = LargeInput._survey
def opening(given):
    print("opening", flush=True)
    return survey(given)
LargeInput._survey = opening
try:
    query.detect(sys.argv[1], time_unit="us", memory_limit=10_000, threads=2, watch=watch, jit=False)
except KeyboardInterrupt as stop:
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("tocsin_")]
    print(*stop.__notes__, left, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["begun", pytest.param("opening", marks=pytest.mark.long)])
def test_an_interrupt_says_how_far_it_came_and_leaves_nothing(when, tmp_path):
    """In the first reading, or while pieces are fed, of which the rest would take minutes."""
    path, spill = tmp_path / "e.csv", tmp_path / "spill"
    spill.mkdir()
    count = 100_000 if when == "begun" else 2_000_000
    path.write_text("type,time,k\n" + "".join(f"{'AB'[at % 2]},{at ^ 1},{at % 50}\n" for at in range(count)))
    command = [sys.executable, "-c", INTERRUPTED, str(path), str(spill)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    while child.stdout.readline() != f"{when}\n":
        pass
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    told = f"stopped after [0-9,]+ of {count:,} rows, with 0 matches"
    if when == "opening":
        told = "stopped in the first reading, after [0-9,]+ rows"
    assert child.returncode == 0
    assert re.fullmatch(rf"{told} \[\]\n", out), out
    assert not list(spill.glob("tocsin-*"))


# --- memory --------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import tocsin
path, limit = sys.argv[1:]
found = tocsin.query("EVENT SEQ(A a, B b, C c) WHERE [k] AND c.v > 900 WITHIN 500").detect(
    path, time_unit="us", memory_limit=None if limit == "none" else limit, threads=2
)
print(len(found), hash(tuple(sorted(found.table().column("match_id").to_pylist()))))
print(next(int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak(path: Path, limit: str) -> tuple[str, int]:
    """What a process finds in a file, and the most memory that it took, in MiB; a compiler is in all of them."""
    run = [sys.executable, "-c", PROGRAM, str(path), limit]
    environment = {"PYTHONHASHSEED": "0", "TOCSIN_COMPILE_FIRST": "1"}
    done = subprocess.run(run, capture_output=True, text=True, check=True, env=environment)
    found, size = done.stdout.splitlines()
    return found, int(size)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the most memory of a process")
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_file_larger_than_its_share_of_memory_works(kind, ordered, tmp_path):
    import numpy as np

    count, draw = 1_500_000, np.random.default_rng(1)
    times = np.arange(count) if ordered else draw.permutation(count)
    notes = pa.array([f"a note of some length, number {at}" for at in range(1000)])
    table = pa.table({
        "type": pa.array(np.array(["A", "B", "C", "D"])[draw.integers(0, 4, count)]),
        "time": times,
        "k": pa.array(draw.integers(0, 1000, count).astype(str)),
        "v": draw.integers(0, 1000, count),
        "note": notes.take(pa.array(draw.integers(0, 1000, count))),
    })  # fmt: skip
    path = tmp_path / f"e.{kind}"
    match kind:
        case "parquet":
            parquet.write_table(table, path, row_group_size=100_000)
        case "csv":
            pyarrow.csv.write_csv(table, path)
        case _:
            with path.open("w") as out:
                for batch in table.to_batches(max_chunksize=50_000):
                    out.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())
    empty = tmp_path / f"none.{kind}"
    match kind:
        case "parquet":
            parquet.write_table(table.slice(0, 0), empty)
        case "csv":
            pyarrow.csv.write_csv(table.slice(0, 0), empty)
        case _:
            empty.write_text("")
    base = peak(empty, "none")[1]
    whole, pieces = peak(path, "none"), peak(path, "60 MB")
    assert pieces[0] == whole[0]
    assert pieces[1] - base < 220, (base, whole[1], pieces[1])
    if kind != "parquet":  # of which the whole way, too, reads only what the query needs
        assert whole[1] - base > 1.5 * (pieces[1] - base), (base, whole[1], pieces[1])
