"""The command line: exit codes, messages, live pipes; and that garbage never brings a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tocsin.app.cli import joined_options, main
from tocsin.app.jobs import spinning

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

QUERY = "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 10"
CSV = "type,time,id\nA,1,7\nB,3,7\nA,4,8\nC,5,8\nB,6,8\n"
ROWS = [dict(zip(("type", "time", "id"), line.split(","), strict=True)) for line in CSV.splitlines()[1:]]
JSONL = "".join(json.dumps({**row, "time": int(row["time"]), "id": int(row["id"])}) + "\n" for row in ROWS)


class Stdin(io.TextIOWrapper):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))


@pytest.fixture
def tocsin(capfd, monkeypatch, tmp_path):
    """Run the command in this process: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: object, stdin: bytes | str = b"") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", Stdin(data))
        with pytest.raises(SystemExit) as exit:
            main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return int(exit.value.code or 0), out, err

    return run


@pytest.fixture
def events(tmp_path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(CSV)
    return path


def run(*args, **options):
    return ("run", *args, "--no-jit", *(word for name, value in options.items() for word in (f"--{name}", value)))


# --- help ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], ["check"], ["explain"], ["run"], ["test"], ["bench"], ["demo"]])
def test_help_teaches(tocsin, command):
    code, out, _ = tocsin(*command, "--help")
    assert code == 0
    assert "Usage: tocsin" in out
    if command not in (["bench"], []):
        assert f"tocsin {command[0]} " in out


def test_without_arguments_help_is_shown(tocsin):
    code, out, err = tocsin()
    assert code in (0, 2)
    assert "Examples" in out + err


def test_the_version_is_told(tocsin):
    assert tocsin("--version")[:2] == (0, f"tocsin {version('tocsin')}\n")


# --- check and explain ---------------------------------------------------------------------------------------------


def test_check_accepts_a_good_query(tocsin, events):
    code, out, _ = tocsin("check", QUERY)
    assert (code, out.splitlines()[0]) == (0, "ok: 1 query")
    assert tocsin("check", f"{QUERY}; {QUERY}")[1].startswith("ok: 2 queries\n")
    assert tocsin("check", QUERY, "--input", events)[0] == 0


def test_check_underlines_the_place(tocsin, events):
    code, out, err = tocsin("check", "EVENT SEQ(A a, B b) WHERE a.id = 'x'", "--input", events)
    assert (code, out) == (2, "")
    assert "^" in err
    assert "id" in err


def test_check_warns_of_what_can_never_match(tocsin):
    code, _, err = tocsin("check", "EVENT AND(A a, !A x)")
    assert code == 0
    assert "warning" in err


def test_queries_come_from_files(tocsin, tmp_path):
    path = tmp_path / "q.tocsin"
    path.write_text(f"-- a comment\n{QUERY};\n")
    assert tocsin("check", path)[0] == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"  \n", "is empty"), (b"\xff\xfe\x00", "not valid UTF-8"), (b"EVENT SEQ(", "error")],
)
def test_broken_query_files_are_exit_2(tocsin, tmp_path, content, message):
    (tmp_path / "q.tocsin").write_bytes(content)
    code, _, err = tocsin("check", "q.tocsin")
    assert code == 2
    assert message in err


@pytest.mark.parametrize("text", ["missing.tocsin", ".", "", "   ", "EVENT", "EVENT SEQ(A a", "nonsense (", "\x00"])
def test_wrong_queries_are_exit_2(tocsin, text):
    code, out, err = tocsin("check", text)
    assert (code, out) == (2, "")
    assert "error" in err.lower()


def test_deeply_nested_queries_are_refused(tocsin):
    code, _, err = tocsin("check", "EVENT " + "SEQ(" * 5000 + "A" + ")" * 5000)
    assert code == 2
    assert "error" in err
    assert tocsin("check", "EVENT A a WHERE " + "(" * 20000 + "1" + ")" * 20000)[0] == 2


def test_check_takes_a_schema(tocsin, tmp_path):
    (tmp_path / "schema.json").write_text('{"A": {"id": "int"}, "B": {"id": "int"}}')
    assert tocsin("check", "EVENT SEQ(A a, B b) WHERE [id]", "--schema", "schema.json")[0] == 0
    for text, warning in (
        ("EVENT SEQ(A a, X b)", "no event of type X occurs"),
        ("EVENT SEQ(A a, B b) WHERE a.idd = 1", "did you mean id?"),
    ):
        code, _, err = tocsin("check", text, "--schema", "schema.json")
        assert code == 0 and warning in err
        assert tocsin("check", text, "--schema", "schema.json", "--strict")[0] == 2
    assert tocsin("check", "EVENT A a", "--strict")[0] == 2
    (tmp_path / "schema.json").write_text("{")
    assert tocsin("check", QUERY, "--schema", "schema.json")[0] == 2
    assert tocsin("check", QUERY, "--schema", "missing.json")[0] == 2


def test_explain_shows_the_plan_and_the_source(tocsin):
    code, out, _ = tocsin("explain", QUERY)
    assert code == 0
    assert "forbidden" in out
    assert "def " in tocsin("explain", QUERY, "--source")[1]


# --- run -----------------------------------------------------------------------------------------------------------


def test_run_shows_matches_and_a_summary(tocsin, events):
    code, out, err = tocsin(*run(QUERY, input=events))
    assert code == 0
    assert out.splitlines()[2].split()[:2] == ["1", "3"]
    assert "5 events (5 relevant), 1 match," in err
    assert tocsin(*run(QUERY, "--quiet", input=events))[2] == ""


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_run_writes_every_format(tocsin, events, tmp_path, format):
    code, out, _ = tocsin(*run(QUERY, input=events, output=f"out.{format}"))
    assert (code, out) == (0, "")
    path = tmp_path / f"out.{format}"
    match format:
        case "jsonl":
            assert json.loads(path.read_text())["a"]["id"] == 7
        case "csv":
            assert "a.id" in path.read_text().splitlines()[0]
        case "parquet":
            assert pyarrow.parquet.read_table(path)["b"].to_pylist()[0]["start"] == 3


def test_formats_go_to_stdout_too(tocsin, events):
    assert json.loads(tocsin(*run(QUERY, input=events, format="jsonl"))[1])["end"] == 3
    assert tocsin(*run(QUERY, input=events, format="csv"))[1].splitlines()[0].startswith('"query"')


def test_limit_and_all_and_order(tocsin, events):
    assert len(tocsin(*run("EVENT SEQ(A a, B b)", input=events, format="jsonl", limit=2))[1].splitlines()) == 2
    text = "QUERY p HIDDEN EVENT SEQ(A a, B b); EVENT SEQ(p x, C c)"
    assert len(tocsin(*run(text, "--all", input=events, format="jsonl"))[1].splitlines()) == 4
    assert len(tocsin(*run(QUERY, input=events, format="jsonl", order="any"))[1].splitlines()) == 1


def test_run_draws(tocsin, events, tmp_path):
    pytest.importorskip("matplotlib")
    assert tocsin(*run(QUERY, input=events, plot="t.png"))[0] == 0
    assert (tmp_path / "t.png").stat().st_size > 1000


def test_units_of_integer_time(tocsin, events):
    text = "EVENT SEQ(A a, B b) WITHIN 2 s"
    code, _, err = tocsin(*run(text, input=events))
    assert code == 2
    assert "unit" in err
    assert len(tocsin(*run(text, **{"input": events, "time-unit": "s", "format": "jsonl"}))[1].splitlines()) == 2
    assert tocsin(*run(text, **{"input": events, "time-unit": "eon"}))[0] == 2


def test_other_column_names(tocsin, tmp_path):
    (tmp_path / "e.csv").write_text("kind,begin,till,nr\nA,1,2,1\nB,3,9,2\n")
    options = {"input": "e.csv", "type": "kind", "time": "begin", "end": "till", "eid": "nr", "format": "jsonl"}
    assert json.loads(tocsin(*run("EVENT SEQ(A a, B b)", **options))[1])["end"] == 9


# --- bad input -----------------------------------------------------------------------------------------------------

BAD = "type,time,id\nA,1,7\nA,x,7\nB,3,7\n"
PAIR = "EVENT SEQ(A a, B b) WHERE [id] WITHIN 10"
BAD_RUNS = {
    "unknown function": ("EVENT SEQ(A a) WHERE frobnicate(a.id) = 1", CSV, "frobnicate"),
    "text against number": ("EVENT SEQ(A a) WHERE a.id = 'x'", CSV, "text"),
    "negated variable outside": ("EVENT SEQ(A a, !(B b), C c) SELECT b.id", CSV, "b"),
    "contradictory TList": ("EVENT ISEQ[start(a) < end(b), end(b) < start(a)](A a, B b)", CSV, "error"),
    "window of nothing": ("EVENT SEQ(A a, B b) WITHIN 0", CSV, "window"),
    "negative window": ("EVENT SEQ(A a, B b) WITHIN -5", CSV, "error"),
    "unknown unit": ("EVENT SEQ(A a, B b) WITHIN 5 parsecs", CSV, "parsecs"),
    "no time column": (QUERY, "type,id\nA,1\n", "no time column"),
    "no type column": (QUERY, "time,id\n1,1\n", "no type column"),
    "null time": (PAIR, "type,time,id\nA,1,7\nB,,7\n", "line 3: the time is null"),
    "end before start": (PAIR, "type,time,end,id\nB,1,1,7\nA,3,2,7\n", "line 3: the end is before the start"),
    "unparseable row": (PAIR, BAD, "line 3"),
    "empty file": (QUERY, "", "is empty"),
}


@pytest.mark.parametrize(("text", "data", "message"), BAD_RUNS.values(), ids=BAD_RUNS)
def test_bad_input_is_exit_2_and_writes_nothing(tocsin, tmp_path, text, data, message):
    (tmp_path / "e.csv").write_text(data)
    code, out, err = tocsin(*run(text, input="e.csv", output="out.jsonl"))
    assert (code, out) == (2, "")
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


def test_bad_rows_are_skipped_or_kept(tocsin, tmp_path):
    (tmp_path / "e.csv").write_text(BAD)
    code, out, err = tocsin(*run(PAIR, "--bad-rows", "skip", input="e.csv", format="jsonl"))
    assert (code, len(out.splitlines())) == (0, 1)
    assert "1 skipped" in err
    assert "e.csv, line 3" in err
    code, out, err = tocsin(*run(PAIR, "--bad-rows", "file", "bad.jsonl", input="e.csv", format="jsonl"))
    assert (code, len(out.splitlines())) == (0, 1)
    assert json.loads((tmp_path / "bad.jsonl").read_text())["row"]["time"]
    assert tocsin(*run(PAIR, "--bad-rows", "perhaps", input="e.csv"))[0] == 2


def test_two_words_after_bad_rows_are_one_option():
    assert joined_options(["run", "--bad-rows", "file", "x"]) == ["run", "--bad-rows", "file:x"]
    assert joined_options(["run", "--bad-rows=file", "x"]) == ["run", "--bad-rows=file:x"]
    assert joined_options(["run", "file", "x", "--bad-rows"]) == ["run", "file", "x", "--bad-rows"]
    assert joined_options(["--bad-rows", "file"]) == ["--bad-rows", "file"]


@pytest.mark.parametrize("option", [("--output", "missing/out.csv"), ("--output", "."), ("--plot", "missing/t.png")])
def test_places_that_cannot_be_written_are_found_first(tocsin, events, option):
    assert tocsin(*run(QUERY, *option, input=events))[0] == 2


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["run"],
        ["run", QUERY],
        ["run", QUERY, "--input"],
        ["run", QUERY, "--input", "nowhere.csv"],
        ["run", QUERY, "--input", "x", "--format", "xml"],
        ["run", QUERY, "--input", "x", "--limit", "-1"],
        ["run", QUERY, "--input", "x", "--limit", "many"],
        ["check"],
        ["test"],
        ["test", "nowhere.case"],
        ["--nonsense"],
        ["demo", "--things", "0"],
        ["demo", "--folder", "/dev/null/x", "--no-jit"],
        ["check", QUERY, "--input", "-"],
    ],
)
def test_wrong_arguments_are_exit_2(tocsin, args):
    code, _, err = tocsin(*args)
    assert code == 2
    assert err


# --- live ----------------------------------------------------------------------------------------------------------


def test_lines_from_stdin_give_matches(tocsin):
    code, out, err = tocsin(*run(QUERY, input="-"), stdin=JSONL)
    assert (code, [json.loads(line)["end"] for line in out.splitlines()]) == (0, [3])
    assert "5 events" in err


def test_the_last_line_needs_no_newline_and_empty_input_is_fine(tocsin):
    assert len(tocsin(*run(QUERY, input="-"), stdin=JSONL[: JSONL.index("\n", 40)])[1].splitlines()) == 1
    assert tocsin(*run(QUERY, input="-"), stdin="")[:2] == (0, "")
    assert tocsin(*run(QUERY, input="-"), stdin="\n\n")[:2] == (0, "")


def test_late_lines_are_reported(tocsin):
    reverse = "\n".join(JSONL.splitlines()[::-1])
    assert "4 late" in tocsin(*run(QUERY, input="-"), stdin=reverse)[2]
    code, out, _ = tocsin(*run(QUERY, input="-", order="any"), stdin=reverse)
    assert code == 0
    assert sum(json.loads(line)["op"] for line in out.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 3: is not JSON"),
        (b"[1]", "line 3: is JSON but not an object"),
        (b"\xff", "line 3: is not valid UTF-8"),
        (b'{"type": "A"}', "line 3: the"),
        (b'{"time": 3}', "line 3: the"),
        (b'{"type": "A", "time": 3, "id": "x"}', "line 3: 'id'"),
        (b'{"type": "A", "time": "soon", "id": 1}', "line 3"),
        (b'{"type": "A", "time": 3, "id": 1e999}', None),
        (b'{"type": "A", "time": 3, "id": ' + b"9" * 40 + b"}", "line 3: 'id' does not fit"),
        (b"[" * 100_000, "line 3"),
        (b'{"type": "A", "time": 1, "time": 2}', "line 3: has the name 'time' twice"),
        (b'{"a": "\\ud800"}', "line 3"),
    ],
)
def test_bad_lines_fail_or_are_skipped(tocsin, line, message):
    lines = JSONL.encode().splitlines()
    data = b"\n".join([*lines[:2], line, *lines[2:]]) + b"\n"
    code, out, err = tocsin(*run(QUERY, "--bad-rows", "skip", input="-"), stdin=data)
    assert (code, len(out.splitlines())) == (0, 1)
    if message is not None:
        assert message in err
        code, _, err = tocsin(*run(QUERY, input="-"), stdin=data)
        assert code == 2
        assert message in err


def test_live_matches_can_go_to_a_file_or_be_limited(tocsin, tmp_path):
    code, out, _ = tocsin(*run(QUERY, input="-", output="out.csv"), stdin=JSONL)
    assert (code, out, len((tmp_path / "out.csv").read_text().splitlines())) == (0, "", 2)
    assert len(tocsin(*run("EVENT SEQ(A a, B b)", input="-", limit=1), stdin=JSONL)[1].splitlines()) == 1
    assert "1" in tocsin(*run(QUERY, input="-", format="table"), stdin=JSONL)[1]


def test_a_limit_ends_the_search(tocsin, tmp_path):
    lines = "\n".join(json.dumps({"type": "AB"[t % 2], "time": t, "id": 1}) for t in range(2000))
    (tmp_path / "many.jsonl").write_text(lines)
    text = "EVENT SEQ(A a, B b, A c, B d)"
    for args, stdin in ((("--input", "many.jsonl"), b""), (("--input", "-"), lines.encode())):
        code, out, err = tocsin("run", text, *args, "--limit", "1", "--format", "jsonl", "--no-jit", stdin=stdin)
        assert (code, len(out.splitlines())) == (0, 1)
        assert "16 events" in err


def test_an_endless_stream_refuses_what_it_could_never_answer(tocsin):
    code, _, err = tocsin(*run("EVENT SEQ(A a, !B b)", input="-"), stdin=JSONL)
    assert code == 2
    assert "end of the stream" in err


def command(*args: str, **options):
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen([sys.executable, "-m", "tocsin", *args], env=env, text=True, **options)


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def test_a_line_in_gives_its_matches_out_at_once():
    with command("run", QUERY, "--input", "-", "--no-jit", **PIPES) as process:
        for line in JSONL.splitlines()[:2]:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        assert json.loads(process.stdout.readline())["end"] == 3  # while the pipe is still open
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_reader_that_goes_away_ends_the_run_quietly():
    rows = "".join(json.dumps({"type": "A", "time": time}) + "\n" for time in range(20_000))
    with command("run", "EVENT A a", "--input", "-", "--no-jit", **PIPES) as process:
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.write(rows * 20)
            process.stdin.flush()
        with suppress(BrokenPipeError):
            process.stdin.close()
        err = process.stderr.read()
        assert process.wait(30) == 141
    assert "Traceback" not in err
    assert "Exception" not in err


def test_an_interrupt_is_exit_130():
    with command("run", QUERY, "--input", "-", "--no-jit", **PIPES) as process:
        process.stdin.write(JSONL)
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(2)
        assert process.wait(30) == 130
        assert "Traceback" not in process.stderr.read()


# --- cases and demo ------------------------------------------------------------------------------------------------

CASE = "query\nEVENT SEQ(A a, !C c, B b) WITHIN 10\nstream\na1 b2 c2 b3\n----\n{expected}\n"


def test_cases_that_hold_are_exit_0_and_others_exit_1(tocsin, tmp_path):
    (tmp_path / "good.case").write_text(CASE.format(expected="a1 b2"))
    assert tocsin("test", "good.case")[:2] == (0, "1 passed, 0 failed\n")
    (tmp_path / "bad.case").write_text(CASE.format(expected="a1 b3"))
    code, out, _ = tocsin("test", tmp_path)
    assert code == 1
    assert "1 passed, 1 failed" in out
    assert "oracle: missing: a1 b3" in out
    assert "engine: missing: a1 b3" in out


def test_composed_cases_and_errors_are_judged(tocsin, tmp_path):
    (tmp_path / "c.case").write_text(
        "query\nQUERY p EVENT SEQ(A a, B b); EVENT SEQ(p x, C c)\nstream\na1 b2 c3\n----\np@[1,2] c3\n"
    )
    (tmp_path / "e.case").write_text("query\nEVENT SEQ(A a, B b) WITHIN 0\nstream\na1\n----\nerror: window\n")
    # refused at binding; the definition alone would look at no condition and find nothing
    (tmp_path / "b.case").write_text("query\nEVENT A a WHERE nosuch(a.v) = 1\nstream\nc1\n----\nerror: nosuch\n")
    code, out, _ = tocsin("test", "c.case", "e.case", "b.case")
    assert (code, out) == (0, "3 passed, 0 failed\n"), out


@pytest.mark.parametrize("text", ["garbage", "query\n", "query\nEVENT SEQ(A a)\nstream\n]]]\n----\n", "\x00\x01"])
def test_broken_case_files_are_no_traceback(tocsin, tmp_path, text):
    (tmp_path / "x.case").write_text(text)
    code, out, err = tocsin("test", "x.case")
    assert code in (1, 2), out + err


def test_the_demo_shows_thefts_and_draws(tocsin, tmp_path):
    check_demo(tocsin, tmp_path, "embedded")


@pytest.mark.slow
def test_the_demo_on_spark(lasting_spark, tocsin, tmp_path):
    check_demo(tocsin, tmp_path, "spark")


def check_demo(tocsin, tmp_path, engine):
    pytest.importorskip("matplotlib")
    code, out, err = tocsin("demo", "--things", "200", "--thefts", "3", "--no-jit", "--engine", engine)
    assert (code, err) == (0, "")
    assert len([line for line in out.splitlines() if " tag-0" in line]) == 3
    assert "found 3 thefts" in out
    assert {path.name for path in (tmp_path / "tocsin-demo").iterdir()} == {
        "events.csv",
        "theft.tocsin",
        "timeline.png",
    }
    again = next(line for line in out.splitlines() if line.strip().startswith("tocsin run"))
    code, out, _ = tocsin(*again.split()[1:], "--no-jit")
    assert (code, len(out.splitlines())) == (0, 5)


# --- garbage -------------------------------------------------------------------------------------------------------


def trying(most: int) -> settings:
    """Settings for tests that draw arguments and files."""
    unusual = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=examples(most, least=20), suppress_health_check=unusual)


WORDS = st.one_of(
    st.sampled_from(
        [
            "run",
            "check",
            "explain",
            "test",
            "demo",
            "bench-not",
            "--input",
            "-",
            "--format",
            "jsonl",
            "--bad-rows",
            "file",
            "skip",
            "--order",
            "any",
            "--limit",
            "3",
            "--type",
            "--time",
            "--time-unit",
            "s",
            "--schema",
            "--output",
            "-o",
            "--no-jit",
            "--all",
            QUERY,
            "EVENT A a",
            "EVENT SEQ(",
            "g.csv",
            "g.jsonl",
            "g.parquet",
            "/",
            "..",
            "--help",
            "--truncate",
            "--end",
            "--eid",
        ]
    ),
    st.text(st.characters(blacklist_categories=("Cs",)), max_size=12),
)


def quiet_main(args: list[str], stdin: bytes, monkeypatch) -> int:
    monkeypatch.setattr(sys, "stdin", Stdin(stdin))
    with pytest.raises(SystemExit) as exit:
        main(args)
    return int(exit.value.code or 0)


@pytest.mark.slow
@trying(150)
@given(args=st.lists(WORDS, max_size=7), content=st.binary(max_size=60))
def test_garbage_arguments_and_files_end_in_order(args, content, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    args = [arg for arg in args if arg not in ("demo", "bench")]
    for ending in ("csv", "jsonl", "parquet"):
        Path(f"g.{ending}").write_bytes(content)
    code = quiet_main(args, content, monkeypatch)
    out, err = capfd.readouterr()
    assert code in (0, 1, 2), (args, err)
    assert "Traceback" not in out + err


CELLS = st.one_of(
    st.sampled_from(["A", "B", "C", "", "1", "2", "-1", '"', "x\ny", "1e5", "nan", "é", "2024-01-01", "0x1"]),
    st.text(max_size=4),
)


@pytest.mark.slow
@trying(100)
@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=6), policy=st.sampled_from(["fail", "skip"]))
def test_garbage_tables_end_in_order(rows, policy, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("g.csv").write_bytes(("type,time,id\n" + "\n".join(",".join(row) for row in rows)).encode("utf-8", "replace"))
    code = quiet_main(
        ["run", "EVENT SEQ(A a, B b)", "--input", "g.csv", "--bad-rows", policy, "--no-jit"], b"", monkeypatch
    )
    out, err = capfd.readouterr()
    assert code in (0, 2), err
    assert "Traceback" not in out + err


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.sampled_from(["type", "time", "end", "eid", "id", "x"]), VALUES, max_size=5)


@pytest.mark.slow
@trying(100)
@given(rows=st.lists(OBJECTS, max_size=5), live=st.booleans(), policy=st.sampled_from(["fail", "skip"]))
def test_garbage_objects_end_in_order(rows, live, policy, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    data = "\n".join(map(json.dumps, rows)).encode()
    Path("g.jsonl").write_bytes(data)
    where = "-" if live else "g.jsonl"
    args = ["run", "EVENT SEQ(A a, B b)", "--input", where, "--bad-rows", policy, "--no-jit"]
    code = quiet_main(args, data, monkeypatch)
    out, err = capfd.readouterr()
    assert code in (0, 2), err
    assert "Traceback" not in out + err


# --- what newcomers stumble over -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("EVENT SEQ(A a, B b) WHERE id WITHIN 9", ["unknown variable id", "a.id"]),
        ("EVENT SEQ(A a, B b) WHERE a.id = AA WITHIN 9", ["unknown variable AA", "in quotes: 'AA'"]),
        ("SELECT a.id", ["SELECT is the last clause", "EVENT SEQ("]),
    ],
)
def test_one_mistake_is_one_error(tocsin, events, text, says):
    code, _, err = tocsin(*run(text, input=events))
    assert code == 2 and err.count("error:") == 1
    assert all(each in err for each in says), err


def test_a_limit_tells_how_many_matches_were_written(tocsin, events):
    code, out, err = tocsin(*run("EVENT SEQ(A a, B b) WITHIN 10", input=events), "--limit", "1", "--format", "jsonl")
    assert code == 0 and len(out.splitlines()) == 1
    assert "1 match," in err and "the first match" in err


def test_a_part_of_a_name_finds_the_name(tocsin, tmp_path):
    (tmp_path / "log.csv").write_text("type,time,case:concept:name\nA,1,x\nB,2,x\n")
    code, _, err = tocsin(*run("EVENT SEQ(A a, B b) WHERE [case] WITHIN 9", input="log.csv"))
    assert code == 0
    assert "no event has an attribute case, so it is null; did you mean `case:concept:name`?" in err


def test_a_query_that_never_matches_counts_no_events_without_a_key(tocsin, events):
    """Its key was read by nobody, and every event was counted as one that lacks it."""
    code, _, err = tocsin(*run("EVENT SEQ(A a, B b) WHERE [id] AND a.idd > 5 WITHIN 9", input=events))
    assert code == 0 and "did you mean id?" in err
    assert "without a key" not in err


def test_a_live_stream_says_zones_for_all_times_or_none(tocsin):
    rows = [{"type": "A", "time": "2026-03-01T10:00:00Z"}, {"type": "B", "time": "2026-03-01T10:00:05"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    code, _, err = tocsin(*run("EVENT SEQ(A a, B b) WITHIN 9 s", input="-"), stdin=lines)
    assert code == 2
    assert "line 2: the time has no zone, and those before have one: say it for all or none" in err


def test_the_file_of_bad_rows_may_stand_in_quotes(tocsin, tmp_path):
    (tmp_path / "bad.csv").write_text("type,time\nA,1\nB,x\n")
    code, _, err = tocsin(*run("EVENT SEQ(A a, B b) WITHIN 9", input="bad.csv"), "--bad-rows", "file kept.jsonl")
    assert code == 0, err
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 1


def test_a_line_that_says_how_far_a_run_is_stays_out_of_what_is_piped(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # it is drawn though nobody looks
    with spinning("Spark begins", quiet=False) as tell:
        tell("two batches")
    told = capsys.readouterr()
    assert told.out == ""
    assert "two batches" in told.err
