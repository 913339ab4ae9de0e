"""A live run of the command line: late rows as they come, an interrupt in good order, a state that goes on."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tests.taking import Taking
from tocsin.app.live import Ending, follow, heeded
from tocsin.app.live_run import LINES_SHOWN, KeptState
from tocsin.run.bad_rows import BadRows

QUERY = "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 10"
ROWS = [("A", 1, 1), ("A", 2, 2), ("C", 3, 1), ("B", 5, 1), ("B", 6, 2), ("A", 7, 3), ("B", 30, 3), ("B", 12, 3)]


def lines_of(rows: Any) -> str:
    return "".join(json.dumps({"type": type, "time": time, "id": id}) + "\n" for type, time, id in rows)


def tocsin_run(*args: str, stdin: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tocsin", "run", *args, "--input", "-", "--no-jit"]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=folder, timeout=120, check=False)


def ends(out: str) -> list[int]:
    return [json.loads(line)["end"] for line in out.splitlines()]


# --- late rows -----------------------------------------------------------------------------------------------------


def late_in(lines: list[bytes]) -> list[int]:
    session = tocsin.query(QUERY).stream(jit=False)
    taking = Taking(lambda _: True)
    assert follow(session, io.BytesIO(b"".join(lines)), BadRows("skip"), taking) is Ending.CLOSED
    assert session.counters["late"] == len(taking.lines)
    return [number for number, _ in taking.lines]


def test_late_lines_are_named_by_their_numbers_however_they_are_read() -> None:
    clean = [json.dumps({"type": "AB"[at % 2], "time": at, "id": 1}).encode() + b"\n" for at in range(600)]
    late = [json.dumps({"type": "A", "time": 5, "id": 1}).encode() + b"\n"]
    for place in (10, 300, 599):
        assert late_in([*clean[:place], *late, *clean[place:]]) == ([] if place < 6 else [place + 1])
    odd = [b"garbage\n", b"\n", b'{"type": "A"}\n']
    assert late_in([*clean[:300], *odd, *late, *clean[300:]]) == [304]
    assert late_in([*clean[:9], *odd, *late, *clean[9:12]]) == [13]


def test_late_rows_are_shown_or_kept(tmp_path: Path) -> None:
    told = tocsin_run(QUERY, stdin=lines_of(ROWS), folder=tmp_path)
    assert (told.returncode, ends(told.stdout)) == (0, [6])
    assert 'late: line 8: {"type": "B", "time": 12, "id": 3}' in told.stderr
    assert "1 late" in told.stderr
    for _ in range(2):  # a second run writes behind the first
        kept = tocsin_run(QUERY, "--late", "late.jsonl", stdin=lines_of(ROWS), folder=tmp_path)
        assert "late: line" not in kept.stderr
    assert [json.loads(line) for line in (tmp_path / "late.jsonl").read_text().splitlines()] == [
        {"type": "B", "time": 12, "id": 3}
    ] * 2


def test_many_late_rows_do_not_flood_the_screen(tmp_path: Path) -> None:
    rows = [("A", 50, 1), *(("B", time, 1) for time in range(30))]
    told = tocsin_run(QUERY, stdin=lines_of(rows), folder=tmp_path)
    assert told.stderr.count("late: line") == LINES_SHOWN
    assert "--late PATH keeps them" in told.stderr
    assert "30 late" in told.stderr
    assert "late: line" not in tocsin_run(QUERY, "--quiet", stdin=lines_of(rows), folder=tmp_path).stderr


# --- interrupts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_writes_what_was_found_and_the_summary(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tocsin", "run", QUERY, "--input", "-", "--no-jit", "--output", "found.csv"]
    command += ["--state", "alarm.state", "--late", "late.jsonl"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(lines_of([*ROWS, ROWS[0]]))
        process.stdin.flush()
        late = tmp_path / "late.jsonl"
        while not late.exists() or len(late.read_text().splitlines()) < 2:
            assert process.poll() is None
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(60) == 130
    assert "9 events" in said and "1 match" in said and "interrupted" in said and "Traceback" not in said
    assert len((tmp_path / "found.csv").read_text().splitlines()) == 2
    assert (tmp_path / "alarm.state").exists()


@pytest.fixture
def usual_interrupts() -> Iterator[None]:
    """As in a terminal; the process that runs the tests may have others."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_during_a_push_waits_for_its_end_and_a_second_one_does_not(usual_interrupts: None) -> None:
    done = []

    def one() -> None:
        with heeded() as waiting:
            signal.raise_signal(signal.SIGINT)
            done.append("the rest of the push")
            with waiting():
                done.append("never")

    def two() -> None:
        with heeded():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("never")

    for interrupted in (one, two):
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    assert done == ["the rest of the push"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- the state -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(len(ROWS)))
def test_a_run_goes_on_where_the_last_one_ended(cut: int, tmp_path: Path) -> None:
    rows = ROWS[:-1]
    first = tocsin_run(QUERY, "--state", "s", stdin=lines_of(rows[:cut]), folder=tmp_path)
    then = tocsin_run(QUERY, "--state", "s", stdin=lines_of(rows[cut:]), folder=tmp_path)
    assert (first.returncode, then.returncode) == (0, 0)
    assert ends(first.stdout) + ends(then.stdout) == [6]


def test_with_a_state_the_end_of_a_pipe_is_not_the_end_of_the_stream(tmp_path: Path) -> None:
    silence = "EVENT SEQ(A a, !B b) WHERE [id] WITHIN 10"
    first = tocsin_run(silence, "--state", "s", stdin=lines_of([("A", 1, 1), ("A", 2, 2)]), folder=tmp_path)
    assert first.stdout == ""
    assert "2 waiting" in first.stderr
    then = tocsin_run(silence, "--state", "s", stdin=lines_of([("B", 5, 1), ("A", 40, 9)]), folder=tmp_path)
    assert ends(then.stdout) == [2]


def test_a_changed_rule_goes_on_with_its_state(tmp_path: Path) -> None:
    asked = "QUERY alarm EVENT SEQ(A a, B b) WHERE [id] AND start(b) - start(a) > {} WITHIN 10"
    tocsin_run(asked.format(1), "--state", "s", stdin=lines_of([("A", 1, 1), ("A", 4, 2)]), folder=tmp_path)
    then = tocsin_run(asked.format(5), "--state", "s", stdin=lines_of([("B", 7, 1), ("B", 8, 2)]), folder=tmp_path)
    assert (then.returncode, ends(then.stdout)) == (0, [7])


@pytest.mark.parametrize(
    ("state", "says"),
    [(b"", "state"), (b"garbage" * 100, "state"), (None, "is a directory")],
)
def test_a_state_that_cannot_be_read_is_refused_and_kept(state: bytes | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.mkdir() if state is None else path.write_bytes(state)
    told = tocsin_run(QUERY, "--state", "s", stdin=lines_of(ROWS), folder=tmp_path)
    assert (told.returncode, told.stdout) == (2, "")
    assert says in told.stderr and "hint" in told.stderr
    assert state is None or path.read_bytes() == state


def test_an_error_about_the_state_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("type,time\nA,1\n")
    told = tocsin_run(QUERY, "--state", "events.csv", stdin="", folder=tmp_path)
    assert (told.returncode, "error: events.csv: " in told.stderr) == (2, True)


def test_the_state_of_another_rule_is_refused(tmp_path: Path) -> None:
    tocsin_run("QUERY a EVENT SEQ(A a, B b) WITHIN 10", "--state", "s", stdin=lines_of(ROWS), folder=tmp_path)
    before = (tmp_path / "s").read_bytes()
    told = tocsin_run("QUERY z EVENT SEQ(X x, Y y) WHERE [id] WITHIN 90", "--state", "s", stdin="", folder=tmp_path)
    assert told.returncode == 2, told.stderr
    assert "hint" in told.stderr
    assert (tmp_path / "s").read_bytes() == before


def test_the_state_is_saved_now_and_then(tmp_path: Path) -> None:
    now = [0.0]
    kept = KeptState(tmp_path / "s", clock=lambda: now[0])
    session = tocsin.query(QUERY).stream(jit=False)
    session.push({"type": "A", "time": 1, "id": 1})
    kept.save_if_due(session)
    assert kept.read() is None
    now[0] = 61
    kept.save_if_due(session)
    first = kept.read()
    assert first is not None
    session.push({"type": "A", "time": 2, "id": 2})
    kept.save_if_due(session)
    assert kept.read() == first


def test_a_file_needs_neither(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text(lines_of(ROWS))
    for option in ("--late", "--state"):
        command = [sys.executable, "-m", "tocsin", "run", QUERY, "--input", "e.jsonl", option, "x"]
        told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
        assert told.returncode == 2
        assert f"{option} is for a live stream" in told.stderr
