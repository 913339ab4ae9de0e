"""Pipelines: a file that is wrong is refused with its place; one that is right gives the same matches in every way."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

import tocsin
from tocsin.app.cli import main
from tocsin.errors import InputError, QueryError, StateError, TocsinError
from tocsin.jobs import sources
from tocsin.jobs.config import read_pipeline
from tocsin.jobs.lock import Owner, check_owner, claimed
from tocsin.jobs.run import make_ready
from tocsin.jobs.toml import PipelineError
from tocsin.spark.setup.errors import explained

EXAMPLES = Path(__file__).parent.parent / "examples" / "pipelines"
THEFT = "QUERY theft EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 100"
PARTS = {
    "source": '[source.events]\nformat = "jsonl"\npath = "events"\n'
    'schema = "type STRING, time LONG, tag STRING, n LONG"\n',
    "query": f'[[query]]\ntext = "{THEFT}"\n',
    "order": '[order]\nstrategy = "slack(20)"\n',
    "sink": '[sink.matches]\nformat = "parquet"\npath = "out/matches"\n',
    "run": '[run]\ncheckpoint = "out/state"\ntrigger = "availableNow"\nend_of_stream = true\njit = false\n',
}


def written(folder: Path, name: str = "p.toml", **changed: str) -> Path:
    """A pipeline file, some of its parts changed."""
    path = folder / name
    path.write_text("\n".join({**PARTS, **changed}.values()))
    return path


def problems(folder: Path, **changed: str) -> str:
    with pytest.raises(TocsinError) as caught:
        read_pipeline(written(folder, **changed))
    return str(caught.value)


@pytest.fixture
def command(capfd, monkeypatch):
    """Run the command in this process: (exit code, stdout, stderr)."""

    def run(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit:
            main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        lines = err.splitlines(keepends=True)
        said = [line for line in lines if line.strip() and "TransformWithStateInPandas Python worker" not in line]
        return int(exit.value.code or 0), out, "".join(said)  # without what Spark's workers say of themselves

    monkeypatch.setenv("COLUMNS", "200")
    return run


# --- the file ------------------------------------------------------------------------------------------------------


def test_a_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA", "localhost:9092")
    found = read_pipeline(EXAMPLES / "kafka.toml")
    assert found.name == "alarms"
    (source,) = found.sources
    assert source.options["kafka.bootstrap.servers"] == "localhost:9092"
    assert source.source == "kafka_partition"
    assert source.history is not None
    assert (source.history.format, source.history.path) == ("parquet", str(EXAMPLES.absolute() / "archive"))
    assert source.history.options == {"recursiveFileLookup": "true"}
    assert source.history.schema == source.schema
    assert [each.format for each in found.as_history().outputs] == ["parquet", "console"]
    assert found.run.trigger == {}
    assert "spark.jars.packages" in found.spark


def test_paths_are_relative_to_the_file_and_addresses_stay(tmp_path):
    sink = '[sink.matches]\npath = "s3a://bucket/matches"\n'
    found = read_pipeline(written(tmp_path, sink=sink))
    assert found.sources[0].path == str(tmp_path / "events")
    assert found.outputs[0].path == "s3a://bucket/matches"
    assert found.name == "p"


def test_a_query_may_be_under_constraints(tmp_path):
    """Beside the text, or in it; a mistake has its place."""
    constraint = "CONSTRAINT path PARTITION BY tag AS Shelf Counter? Exit"
    beside = f'[[query]]\ntext = "{THEFT}"\nconstraint = "{constraint}"\nchecked = true\n'
    inside = f'[[query]]\ntext = "{constraint}; {THEFT} UNDER path CHECKED"\n'
    found = [read_pipeline(written(tmp_path, query=part)).query() for part in (beside, inside)]
    assert str(found[0]) == str(found[1])
    assert found[0].queries[0].under.checked
    (tmp_path / "path.tocsin").write_text(f"{constraint}; {THEFT} UNDER path")
    assert read_pipeline(written(tmp_path, query='[[query]]\nfile = "path.tocsin"\n')).query().queries[0].under
    with pytest.raises(QueryError, match=r"p.toml, \[\[query\]\] 1"):
        read_pipeline(written(tmp_path, query=beside.replace('Exit"', 'Exit |"'))).query()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"source": '[source.a]\nfromat = "csv"\npath = "x"\n'}, ["p.toml, [source.a], key 'fromat'", "'format'?"]),
        ({"source": '[source.a]\nformat = "parquet"\n'}, ["[source.a], key 'path': is missing"]),
        ({"source": '[source.a]\nformat = "csv"\npath = "x"\n'}, ["[source.a], key 'schema': is missing"]),
        ({"source": "[source.a]\npath = 3\n"}, ["[source.a], key 'path': must be a text, not 3"]),
        ({"source": '[source.a]\npath = "x"\nevent = "A"\ntype = "t"\n'}, ["key 'event'", "so does 'type'"]),
        ({"source": '[source.a]\npath = "x"\ncolumns = { b = 1 }\n'}, ["key 'columns.b': must be a text"]),
        ({"source": '[source.a]\npath = "x"\ndrop = [1]\n'}, ["key 'drop': must hold texts only"]),
        ({"source": '[source.a]\npath = "${NOT_SET_AT_ALL}"\n'}, ["no variable NOT_SET_AT_ALL", "export"]),
        ({"source": '[source.a]\npath = "x"\nvalue_format = "json"\n'}, ["is for Kafka"]),
        (
            {"source": '[source.a]\npath = "x"\n[source.a.batch]\npth = "y"\n'},
            ["[source.a.batch], key 'pth'", "'path'?"],
        ),
        ({"source": '[source.a]\nformat = "kafka"\n'}, ["'kafka.bootstrap.servers' is missing", "'subscribe' or"]),
        ({"source": '[source]\npath = "x"\n'}, ["[source]: needs a name"]),
        ({"source": ""}, ["there is no [source.NAME]"]),
        ({"query": ""}, ["there is no [[query]]"]),
        ({"query": "[[query]]\n"}, ["[[query]] 1, key 'text': is missing"]),
        ({"query": '[[query]]\nfile = "no.tocsin"\n'}, ["[[query]] 1, key 'file': 'no.tocsin': there is no such file"]),
        ({"query": '[[query]]\ntext = "A"\nfile = "b"\n'}, ["give the query once"]),
        ({"query": f'[[query]]\ntext = "{THEFT}"\nchecked = true\n'}, ["key 'checked': there is no constraint"]),
        ({"source": 'query = "EVENT A a"\n' + PARTS["source"], "query": ""}, ["[[query]]: must be a list of tables"]),
        ({"order": '[order]\nstrategy = "slak(10)"\n'}, ["[order], key 'strategy': 'slak(10)' is no order", "slack("]),
        ({"order": '[order]\nstrategy = "slack(10 parsecs)"\n'}, ["[order], key 'strategy'"]),
        ({"order": '[order]\nidle = "5 min"\n'}, ["[order], key 'strategy': is missing"]),
        ({"order": '[order]\nstrategy = "in-order"\nidle = "soon"\n'}, ["[order], key 'idle'"]),
        ({"order": '[order]\nstrategy = "in-order"\nclock = "soon"\n'}, ["[order], key 'clock'"]),
        (
            {"order": '[order]\nstrategy = "in-order"\nlongest = { Exit = "soon" }\n'},
            ["[order], key 'longest': 'soon' is no length of time (of 'Exit')"],
        ),
        ({"sink": ""}, ["there is no [sink.NAME]"]),
        ({"sink": '[sink.a]\nformat = "jsonl"\n'}, ["[sink.a], key 'path': is missing"]),
        ({"sink": '[sink.a]\npath = "x"\nkinds = ["matches"]\n'}, ["'matches' is no kind of row", "'match'?"]),
        ({"sink": '[sink.a]\npath = "x"\nkinds = []\n'}, ["nothing would be written"]),
        ({"sink": '[sink.a]\npath = "x"\n[sink.b]\npath = "x"\n'}, ["[sink.b], key 'path': [sink.a] writes there"]),
        ({"sink": '[sink.a]\nformat = "kafka"\noptions = { topic = "x" }\n'}, ["'kafka.bootstrap.servers' is missing"]),
        ({"run": '[run]\ntrigger = "sometimes"\n'}, ["[run], key 'trigger': 'sometimes' is no trigger"]),
        ({"run": '[run]\ntrigger = "10"\n'}, ["'10' has no unit"]),
        ({"run": "[run]\nbuckets = 0\n"}, ["[run], key 'buckets': is 0"]),
        ({"run": "[run]\nbuckets = true\n"}, ["[run], key 'buckets': must be a whole number, not true"]),
        ({"run": '[run]\ntime_unit = "week"\n'}, ["[run], key 'time_unit': 'week' is not known"]),
        ({"run": '[run]\nbad_rows = "drop"\n'}, ["[run], key 'bad_rows': 'drop' is not known"]),
        ({"run": "[run]\ncheckpont = 'x'\n"}, ["[run], key 'checkpont'", "did you mean 'checkpoint'?"]),
        ({"spark": "[spark]\ncores = 2\n"}, ["[spark], key 'cores': is no setting of Spark"]),
        ({"more": "[sinks.x]\n"}, ["key 'sinks': there is no such key", "did you mean 'sink'?"]),
        ({"more": "x = [\n"}, ["p.toml is not valid TOML"]),
    ],
    ids=lambda value: value[0][:40] if isinstance(value, list) else "",
)
def test_mistakes_are_told_with_their_place(tmp_path, changed, expected):
    said = problems(tmp_path, **changed)
    for text in expected:
        assert text in said


def test_how_long_intervals_may_last(tmp_path):
    types = PARTS["source"] + 'types = ["Shelf", "Exit"]\n'
    order = PARTS["order"] + 'longest = { Shelf = "2 h" }\n'
    frames = {"events": SimpleNamespace(schema=StructType([StructField("tag", StringType())]))}
    found = read_pipeline(written(tmp_path, source=types, order=order))
    assert sources._schema(found, frames).longest == {"Shelf": 7_200_000_000}
    with pytest.raises(InputError, match="not which types it has"):
        sources._schema(read_pipeline(written(tmp_path, order=order)), frames)


def test_everything_that_is_wrong_is_told_at_once(tmp_path):
    with pytest.raises(PipelineError) as caught:
        read_pipeline(written(tmp_path, source="[source.a]\nfoo = 1\n", sink="[sink.b]\nbar = 2\n"))
    assert len(caught.value.problems) == 4  # two unknown keys, two missing paths
    assert str(caught.value).count("error: ") == 4


def test_options_may_be_written_with_dots(tmp_path):
    source = (
        '[source.a]\nformat = "kafka"\nvalue_format = "raw"\n'
        'options.kafka.bootstrap.servers = "here"\noptions.subscribe = "t"\noptions.failOnDataLoss = false\n'
    )
    (found,) = read_pipeline(written(tmp_path, source=source)).sources
    assert found.options == {"kafka.bootstrap.servers": "here", "subscribe": "t", "failOnDataLoss": "false"}


def test_a_file_that_holds_no_query_is_not_shown(tmp_path):
    (tmp_path / "secret.txt").write_text("password: hunter2\n")
    found = read_pipeline(written(tmp_path, query='[[query]]\nfile = "secret.txt"\n'))
    with pytest.raises(InputError, match=r"the file 'secret.txt' holds no query") as caught:
        found.query()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "part",
    [
        {"query": '[[query]]\nfile = "a\\u0000b"\n'},
        {"sink": '[sink.matches]\nformat = "parquet"\npath = "a\\u0000b"\n'},
        {"run": '[run]\ncheckpoint = "a\\u0000b"\n'},
    ],
)
def test_a_path_with_a_nul_character_is_refused(tmp_path, part):
    assert "holds a NUL character" in problems(tmp_path, **part)


def test_a_mistake_in_a_query_is_underlined_in_its_file(tmp_path, command):
    (tmp_path / "q.tocsin").write_text("EVENT SEQ(A a,\n  B b WHERE [id]\n")
    path = written(tmp_path, query='[[query]]\nfile = "q.tocsin"\n')
    code, _, err = command("pipeline", "check", path, "--offline")
    assert code == 2
    assert "p.toml, q.tocsin: " in err
    assert "line 2, column 7" in err
    assert "^" in err


def test_offline_check_finds_what_binding_finds(tmp_path, command):
    text = "EVENT SEQ(A a, B b) WHERE a.x = c.x WITHIN 10"
    path = written(tmp_path, query=f'[[query]]\ntext = "{text}"\n')
    code, _, err = command("pipeline", "check", path, "--offline")
    assert code == 2
    assert "p.toml, [[query]] 1: " in err
    assert "| EVENT SEQ(A a, B b) WHERE a.x = c.x WITHIN 10" in err


def test_a_clock_needs_a_window_in_a_pipeline_too(tmp_path, command):
    order = '[order]\nstrategy = "in-order"\nclock = "30 s"\n'
    for text, said in (("EVENT SEQ(A a, B b)", 2), ("EVENT SEQ(A a, B b) WITHIN 1 h", 0)):
        path = written(tmp_path, order=order, query=f'[[query]]\ntext = "{text}"\n')
        code, _, err = command("pipeline", "check", path, "--offline")
        assert (code, "has no window" in err) == (said, said == 2)


@pytest.mark.parametrize("name", ["theft.toml", "kafka.toml"])
@pytest.mark.parametrize("batch", [(), ("--batch",)])
def test_examples_are_right(name, batch, command, monkeypatch):
    monkeypatch.setenv("KAFKA", "localhost:9092")
    code, out, err = command("pipeline", "check", EXAMPLES / name, "--offline", *batch)
    assert (code, err) == (0, "")
    assert out.startswith("ok: ")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"order": ""}, "a stream needs an order"),
        ({"run": ""}, "a stream needs a checkpoint"),
        ({"run": '[run]\ncheckpoint = "s"\nend_of_stream = true\n'}, "only a run that ends can close its stream"),
        ({"run": '[run]\ncheckpoint = "p.toml/s"\n'}, "the checkpoint"),
        ({"sink": '[sink.a]\npath = "p.toml/x"\n'}, "p.toml, [sink.a], key 'path': "),
    ],
)
def test_a_stream_needs_more_than_a_backfill(tmp_path, command, changed, expected):
    path = written(tmp_path, **changed)
    code, _, err = command("pipeline", "check", path, "--offline")
    assert code == 2
    assert expected in err
    if "sink" not in changed:
        assert command("pipeline", "check", path, "--offline", "--batch")[0] == 0


def test_a_missing_file_is_told(tmp_path, command):
    written(tmp_path)
    code, _, err = command("pipeline", "run", tmp_path / "q.toml")
    assert code == 2
    assert "there is no pipeline file" in err
    assert "p.toml" in err


# --- whose checkpoint ----------------------------------------------------------------------------------------------


def test_two_streams_cannot_hold_one_checkpoint(tmp_path):
    owner = Owner("one", ("a", "b"))
    place = str(tmp_path / "state")
    with claimed(place, owner), pytest.raises(StateError, match="another stream runs"), claimed(place, owner):
        pass
    with claimed(place, owner):
        pass  # free again
    with pytest.raises(StateError, match="belongs to the pipeline 'one'"):
        check_owner(place, Owner("two", ("a", "b")))
    with pytest.raises(StateError, match="sources a, b"):
        check_owner(place, Owner("one", ("b", "a")))
    (tmp_path / "state" / "pipeline.json").write_text("{")
    with pytest.raises(StateError, match="damaged"):
        check_owner(place, owner)


# --- trouble in Spark ----------------------------------------------------------------------------------------------

WORKER = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted
Traceback (most recent call last):
  File "worker.py", line 1, in main
tocsin.errors.InputError: error: an event cannot be used: the time is null
  reason: the row is {"type": "A"}
  hint: filter such rows out
\tat org.apache.spark.api.python.BasePythonRunner
"""


class FakeError(Exception):
    pass


FakeError.__module__ = "pyspark.errors"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (WORKER, "an event cannot be used: the time is null", "filter such rows out"),
        ("Traceback\nModuleNotFoundError: No module named 'mine'\n", "no Python module 'mine'", "--py-files"),
        ("java.lang.OutOfMemoryError: Java heap space", "out of memory", "spark.driver.memory"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka. Make sure", "'kafka'", "spark-sql-kafka"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/no/such. SQLSTATE: 1", "nothing at /no/such", "check the path"),
        (
            "x\nTraceback (most recent call last):\n  File\nmine.BadError: went wrong\n\n\tat java",
            "BadError: went wrong",
            "--verbose",
        ),
        ("some\nCaused by: java.io.IOException: disk full\n\tat x", "Spark failed: some", "--verbose"),
    ],
)
def test_trouble_is_explained(text, message, hint):
    found = explained(FakeError(text))
    assert found is not None
    assert message in found.message
    assert hint in str(found.hint)


def test_our_own_errors_keep_their_kind():
    found = explained(FakeError(WORKER))
    assert isinstance(found, InputError)
    assert found.detail == 'the row is {"type": "A"}'
    assert explained(ValueError("not Spark")) is None
    own = StateError("mine")
    assert explained(own) is own


# --- on Spark ------------------------------------------------------------------------------------------------------


def shop(seed: int, things: int = 60) -> list[dict[str, Any]]:
    """Things taken, most of them paid, and carried out; nearly in order, and then a little mixed."""
    draw = random.Random(seed)
    rows = []
    for number in range(things):
        start, tag = draw.randrange(500), f"t{draw.randrange(things // 2)}"
        rows.append({"type": "Shelf", "time": start, "tag": tag, "n": number})
        if draw.random() < 0.6:
            rows.append({"type": "Counter", "time": start + draw.randrange(1, 60), "tag": tag, "n": number})
        rows.append({"type": "Exit", "time": start + draw.randrange(1, 120), "tag": tag, "n": number})
    rows.append({"type": "Other", "time": 700, "tag": None, "n": None})
    return sorted(rows, key=lambda row: row["time"] + draw.randrange(15))


def laid_out(folder: Path, rows: list[dict[str, Any]], *, files: int, first: int = 0) -> None:
    """The rows as JSONL files, in order of coming; Spark reads files by their age."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(rows) // files)
    for number in range(files):
        path = folder / f"{first + number:03}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows[number * size : (number + 1) * size]))
        os.utime(path, (1_700_000_000 + first + number,) * 2)


def by_id(table: pa.Table) -> dict[str, Any]:
    """The matches by their id; each must be there once."""
    rows = [row for row in table.to_pylist() if row["kind"] == "match"]
    found = {row["match_id"]: (row["s"]["n"], row["e"]["n"], row["start"], row["end"]) for row in rows}
    assert len(found) == len(rows)
    return found


def embedded(rows: list[dict[str, Any]], text: str = THEFT) -> dict[str, Any]:
    return by_id(tocsin.query(text).detect(rows, jit=False).table())


def stored(spark: SparkSession, folder: Path) -> pa.Table:
    return spark.read.parquet(str(folder)).toArrow()


@pytest.mark.slow
def test_stream_backfill_and_embedded_agree(spark, tmp_path, command):
    rows = shop(1)
    laid_out(tmp_path / "events", rows, files=4)
    source = PARTS["source"] + "options = { maxFilesPerTrigger = 1 }\n"
    path = written(tmp_path, source=source)
    expected = embedded(rows)
    assert len(expected) > 5

    code, _, err = command("pipeline", "check", path)
    assert code == 0, err
    assert not (tmp_path / "out").exists()

    code, out, err = command("pipeline", "run", path)
    assert code == 0, err
    assert out == ""
    assert f"{len(rows)} events, {len(expected)} matches" in err
    assert by_id(stored(spark, tmp_path / "out" / "matches")) == expected

    shutil.rmtree(tmp_path / "out")
    for _ in range(2):  # the second replaces the first
        code, _, err = command("pipeline", "run", path, "--batch")
        assert code == 0, err
        assert f"{len(rows)} events, {len(expected)} matches" in err
    assert by_id(stored(spark, tmp_path / "out" / "matches")) == expected
    assert not (tmp_path / "out" / "state").exists()

    code, out, err = command("run", THEFT, "--input", tmp_path / "events", "--no-jit", "--format", "jsonl")
    assert {json.loads(line)["match_id"] for line in out.splitlines()} == set(expected)


@pytest.mark.slow
def test_a_stream_goes_on_where_it_stopped_and_writes_nothing_twice(spark, tmp_path, command):
    rows = shop(2)
    half = len(rows) // 2
    laid_out(tmp_path / "events", rows[:half], files=1)
    open_run = PARTS["run"].replace("end_of_stream = true\n", "")
    sinks = PARTS["sink"] + '[sink.all]\nformat = "jsonl"\npath = "out/all"\nkinds = ["match", "late", "metrics"]\n'
    path = written(tmp_path, run=open_run, sink=sinks)
    code, _, err = command("pipeline", "run", path)
    assert code == 0, err

    laid_out(tmp_path / "events", rows[half:], files=2, first=1)
    late = {"type": "Exit", "time": 1, "tag": "t1", "n": -1}
    laid_out(tmp_path / "events", [late], files=1, first=9)
    source = PARTS["source"] + "options = { maxFilesPerTrigger = 1 }\n"
    path = written(tmp_path, source=source, run=open_run, sink=sinks)
    code, _, err = command("pipeline", "run", path)
    assert code == 0, err
    assert "1 late" in err

    state = tmp_path / "out" / "state"
    last = max((state / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
    last.unlink()  # as if the process had died after writing and before saying so
    for each in (state / "commits").glob(f".{last.name}.*"):
        each.unlink()
    path = written(tmp_path, source=source, sink=sinks, run=PARTS["run"])
    code, _, err = command("pipeline", "run", path)
    assert code == 0, err

    expected = embedded(rows)
    assert by_id(stored(spark, tmp_path / "out" / "matches")) == expected
    lines = spark.read.json(str(tmp_path / "out" / "all")).toArrow()
    assert by_id(lines.select([n for n in lines.column_names if n != "batch"])) == expected
    kinds = lines.column("kind").to_pylist()
    assert kinds.count("late") == 1
    assert kinds.count("metrics") > 3
    (told,) = [json.loads(row["details"]) for row in lines.to_pylist() if row["kind"] == "late"]
    assert told["n"] == -1


@pytest.mark.slow
def test_sources_are_mapped_and_put_together(spark, tmp_path, command):
    """The example: shelves as CSV under other names, tills and doors as JSON; each source has its own clock."""
    shutil.copytree(EXAMPLES, tmp_path / "p")
    rows = [row for row in shop(3) if row["type"] != "Other"]
    clock = lambda t: f"2026-03-01T{9 + t // 60:02}:{t % 60:02}:00"  # noqa: E731
    shelves = "".join(f"{clock(row['time'])},{row['tag']}\n" for row in rows if row["type"] == "Shelf")
    (tmp_path / "p" / "data" / "shelves").mkdir(parents=True)
    (tmp_path / "p" / "data" / "shelves" / "1.csv").write_text("at,label\n" + shelves)
    others = [{**row, "time": clock(row["time"])} for row in rows if row["type"] != "Shelf"]
    for row in others:
        del row["n"]
    laid_out(tmp_path / "p" / "data" / "readers", others, files=2)
    path = tmp_path / "p" / "theft.toml"
    text = path.read_text().replace(
        'trigger = "10 seconds"', 'trigger = "availableNow"\nend_of_stream = true\njit = false'
    )
    path.write_text(text)

    code, _, err = command("pipeline", "run", path)
    assert code == 0, err
    stream = stored(spark, tmp_path / "p" / "out" / "thefts")
    shutil.rmtree(tmp_path / "p" / "out")
    code, _, err = command("pipeline", "run", path, "--batch")
    assert code == 0, err
    batch = stored(spark, tmp_path / "p" / "out" / "history")

    short = (EXAMPLES / "theft.tocsin").read_text()
    plain = [{"type": r["type"], "time": clock(r["time"]), "tag": r["tag"]} for r in rows]
    wanted = tocsin.query(short).detect(plain, jit=False)
    what = lambda found: sorted((m["s"]["tag"], str(m["start"])[:19], str(m["end"])[:19]) for m in found)  # noqa: E731
    assert len(wanted) > 3
    assert what(stream.to_pylist()) == what(batch.to_pylist()) == what(wanted)
    assert {row["s"]["source"] for row in batch.to_pylist()} == {"shelves"}
    assert set(stream.column("match_id").to_pylist()) == set(batch.column("match_id").to_pylist())


@pytest.mark.slow
def test_messages_of_kafka_become_events(spark, tmp_path, command, monkeypatch):
    """The example over a stand-in for Kafka's source, which is no part of Spark itself; and over its archive."""
    monkeypatch.setenv("KAFKA", "localhost:9092")
    shutil.copytree(EXAMPLES, tmp_path / "p")
    path = tmp_path / "p" / "kafka.toml"
    path.write_text(path.read_text().partition("[spark]")[0] + "jit = false\n")
    rows = [row for row in shop(9) if row["tag"]]
    for row in rows:
        row["time"] = f"2026-03-01T{9 + row['time'] // 60:02}:{row['time'] % 60:02}:00Z"
        del row["n"]
    values = [json.dumps(row) for row in rows]
    messages = spark.createDataFrame(
        [
            (b"k", value.encode(), "events", n % 3, n, datetime(2026, 3, 1, tzinfo=UTC), 0)
            for n, value in enumerate(values)
        ],
        "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT",
    )
    messages.write.parquet(str(tmp_path / "messages"))

    def stand_in(spark, source, *, live, keep_bad):
        return spark.readStream.schema(messages.schema).parquet(str(tmp_path / "messages"))

    found = read_pipeline(path)
    with monkeypatch.context() as patch:
        patch.setattr(sources, "_read", stand_in)
        ready = make_ready(found, spark, live=True)
    df = ready.events.df
    assert df.isStreaming
    assert dict(df.dtypes) == {"type": "string", "time": "timestamp", "tag": "string", "source": "string"}
    assert ready.prepared.order is not None

    events = spark.createDataFrame(
        [(r["type"], datetime.fromisoformat(r["time"]), r["tag"]) for r in rows], ["type", "time", "tag"]
    )
    events.write.parquet(str(tmp_path / "p" / "archive" / "day=1"))
    code, _, err = command("pipeline", "run", path, "--batch")
    assert code == 0, err
    table = stored(spark, tmp_path / "p" / "out" / "thefts")
    wanted = tocsin.query(found.texts[0].text).detect(rows, jit=False)
    assert len(wanted) > 3
    assert sorted(table.column("match_id").to_pylist()) == sorted(match["match_id"] for match in wanted)
    assert sorted(table.column("tag").to_pylist()) == sorted(match["tag"] for match in wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"source": PARTS["source"] + 'time = "tme"\n'},
            ["[source.events], key 'time': there is no column 'tme'", "'time'?"],
        ),
        (
            {"source": PARTS["source"].replace("time LONG", "time STRING")},
            ["key 'time': column 'time' is string", "to_timestamp(time)"],
        ),
        ({"source": PARTS["source"].replace("LONG", "LNG")}, ["[source.events]: the schema", "as in SQL"]),
        (
            {"source": PARTS["source"] + 'columns = { x = "tagg" }\n'},
            ["key 'columns.x': there is no column 'tagg'", "tag"],
        ),
        ({"source": PARTS["source"] + 'columns = { x = "1 +" }\n'}, ["key 'columns.x': this is no SQL expression"]),
        ({"source": PARTS["source"] + 'where = "tag ="\n'}, ["key 'where': this is no SQL expression"]),
        ({"source": PARTS["source"] + 'drop = ["x"]\n'}, ["key 'drop': there is no column 'x'"]),
        ({"source": PARTS["source"] + 'rename = { a = "b" }\n'}, ["key 'rename.a': there is no column 'b'"]),
        ({"source": PARTS["source"] + 'event = "Shelf"\ntypes = ["A"]\n'}, ["so does 'types'"]),
        ({"source": PARTS["source"].replace('"events"', '"nothing"')}, ["[source.events]: there is nothing at"]),
        ({"source": '[source.a]\nformat = "quux"\n'}, ["[source.a]: Spark has no data source 'quux'"]),
        (
            {"source": PARTS["source"] + '[source.more]\nformat = "rate"\n'},
            ["[source.more], key 'type': there is no column"],
        ),
        ({"query": PARTS["query"].replace("[tag]", "s.tag = 1")}, ["p.toml, [[query]] 1: ", "s.tag", "^"]),
        ({"sink": '[sink.a]\nformat = "csv"\npath = "out"\n'}, ["[sink.a]: CSV cannot hold", "SELECT"]),
        ({"sink": '[sink.a]\npath = "out"\nkinds = ["bad"]\n'}, ["[sink.a], key 'kinds'", 'bad_rows = "keep"']),
    ],
)
def test_check_finds_what_spark_knows(spark, tmp_path, command, changed, expected):
    laid_out(tmp_path / "events", shop(4, things=3), files=1)
    code, _, err = command("pipeline", "check", written(tmp_path, **changed))
    assert code == 2, err
    for text in expected:
        assert text in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_bad_rows_end_the_run_or_are_kept(spark, tmp_path, command):
    rows = [*shop(5, things=10), {"type": "Exit", "time": None, "tag": "t1", "n": 1}]
    laid_out(tmp_path / "events", rows, files=1)
    path = written(tmp_path)
    for mode in ((), ("--batch",)):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)  # a backfill does not write beside a stream
        code, _, err = command("pipeline", "run", path, *mode)
        assert code == 2
        assert "an event cannot be used: the time is null" in err
        assert "Traceback" not in err
        assert "at org.apache" not in err
    code, _, err = command("pipeline", "run", path, "--batch", "--verbose")
    assert code == 2
    assert "Traceback" in err

    with (tmp_path / "events" / "000.jsonl").open("a") as file:
        file.write('{"type": "Exit", "time": "soon", "tag": "t1", "n": 1}\n')
    code, _, err = command("pipeline", "run", path, "--batch")
    assert code == 2
    assert "a row of the input cannot be read" in err
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    kept = '[sink.bad]\nformat = "jsonl"\npath = "out/bad"\nkinds = ["bad"]\n'
    path = written(tmp_path, sink=PARTS["sink"] + kept, run=PARTS["run"] + 'bad_rows = "keep"\n')
    for mode in ((), ("--batch",)):
        code, _, err = command("pipeline", "run", path, *mode)
        assert code == 0, err
        assert "2 bad" in err
        lines = spark.read.json(str(tmp_path / "out" / "bad")).toArrow().to_pylist()
        assert [json.loads(line["details"])["reason"] for line in lines] == ["the time is null"] * 2
        assert by_id(stored(spark, tmp_path / "out" / "matches")) == embedded(rows[:-1])
        shutil.rmtree(tmp_path / "out")


@pytest.mark.slow
def test_a_checkpoint_of_other_queries_is_refused_before_anything_moves(spark, tmp_path, command):
    laid_out(tmp_path / "events", shop(6, things=5), files=1)
    path = written(tmp_path, run=PARTS["run"].replace("end_of_stream = true\n", ""))
    assert command("pipeline", "run", path, "--quiet")[::2] == (0, "")
    other = written(tmp_path, name="other.toml")
    code, _, err = command("pipeline", "run", other)
    assert code == 2
    assert "belongs to the pipeline 'p', not to 'other'" in err
    changed = written(tmp_path, query=PARTS["query"].replace("WITHIN 100", "WITHIN 99"))
    code, _, err = command("pipeline", "check", changed)
    assert code == 2
    assert "the checkpoint belongs to another query" in err


@pytest.mark.slow
def test_ctrl_c_lets_the_batch_end_and_says_how_to_go_on(spark, tmp_path, command):
    """Events from nowhere: the rate source, its columns computed, to the console and to files."""
    source = """[source.ticks]
format = "rate"
options = { rowsPerSecond = 50 }
columns = { type = "IF(value % 2 = 0, 'A', 'B')", k = "value DIV 2" }
time = "timestamp"
"""
    query = '[[query]]\ntext = "EVENT SEQ(A a, B b) WHERE [k] WITHIN 1 min SELECT a.k AS k"\n'
    sinks = '[sink.screen]\nformat = "console"\n[sink.files]\nformat = "csv"\npath = "out/pairs"\n'
    run = '[run]\ncheckpoint = "out/state"\ntrigger = "1 second"\njit = false\n'
    path = written(tmp_path, source=source, query=query, sink=sinks, run=run, order='[order]\nstrategy = "in-order"\n')

    def interrupt() -> None:
        commits = tmp_path / "out" / "state" / "commits"
        for _ in range(600):
            with suppress(OSError):
                if any(each.name.isdigit() and int(each.name) >= 2 for each in commits.iterdir()):
                    break
            if ended.wait(0.2):  # it failed by itself, and the interrupt would hit whoever runs the tests
                return
        os.kill(os.getpid(), signal.SIGINT)

    ended = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    waiting = threading.Thread(target=interrupt, daemon=True)
    waiting.start()
    code, out, err = command("pipeline", "run", path)
    ended.set()
    waiting.join()
    assert code == 130, err
    assert "stopping after this micro-batch" in err
    assert f"to continue: tocsin pipeline run {path}" in err
    assert "match_id" in out
    assert signal.getsignal(signal.SIGINT) is before
    offsets, commits = (
        {int(each.name) for each in (tmp_path / "out" / "state" / name).iterdir() if each.name.isdigit()}
        for name in ("offsets", "commits")
    )
    assert max(offsets) - max(commits) <= 1
    written_rows = spark.read.option("header", "false").csv(str(tmp_path / "out" / "pairs")).count()
    assert written_rows > 10
    code, _, err = command("pipeline", "run", path, "--batch")
    assert code == 2
    assert "rate has no history" in err


# --- tocsin run --engine spark -------------------------------------------------------------------------------------


def as_file(rows: list[dict[str, Any]], folder: Path, ending: str) -> Path:
    path = folder / f"events.{ending}"
    match ending:
        case "csv":
            lines = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
            path.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def answers(text: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
        del row["settled_at"]
    return sorted(rows, key=lambda row: (row["query"], row["match_id"]))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_run_on_spark_answers_as_embedded(spark, tmp_path, command, ending):
    rows = [{**row, "empty": None, "x": row["n"] and row["n"] / 4} for row in shop(7)]
    path = as_file(rows, tmp_path, ending)
    several = (
        f"{THEFT}; EVENT SEQ(Shelf s, Exit+ e) WHERE [tag] AND e.x > 1.5 WITHIN 50 SELECT s.tag AS tag, count(e) AS n"
    )
    args = ("run", several, "--input", path, "--no-jit", "--format", "jsonl")
    code, plain, err = command(*args)
    assert code == 0, err
    code, on_spark, said = command(*args, "--engine", "spark")
    assert code == 0, said
    assert answers(on_spark) == answers(plain)
    assert len(answers(plain)) > 10
    assert err.rpartition(", ")[0] in said  # the same summary, but for the time

    output = tmp_path / "out.parquet"
    assert command(*args[:-2], "--engine", "spark", "--output", output, "--limit", 3, "-q")[::2] == (0, "")
    assert pq.read_table(output).num_rows == 3


@pytest.mark.slow
def test_run_on_spark_keeps_times_as_they_are(spark, tmp_path, command):
    zone = pa.timestamp("us", "Europe/Berlin")
    table = pa.table(
        {
            "kind": pa.array(["A", "B", "A", "B"]),
            "at": pa.array([1_700_000_000_000_000 + n for n in (0, 5, 10, 4_000_000)], zone),
            "seen": pa.array([1, 2, None, 3], pa.timestamp("us")),
            "small": pa.array([1, 1, 2, 2], pa.int16()),
        }
    )
    pq.write_table(table, tmp_path / "e.parquet")
    args = ("run", "EVENT SEQ(A a, B b) WHERE [small] WITHIN 1 h", "--input", tmp_path / "e.parquet")
    args = (*args, "--no-jit", "-q", "--type", "kind", "--time", "at", "--output", tmp_path / "out.parquet")
    found = []
    for engine in ("embedded", "spark"):
        assert command(*args, "--engine", engine)[0] == 0
        found.append(pq.read_table(tmp_path / "out.parquet").drop_columns("settled_at").sort_by("match_id"))
    assert found[0].num_rows == 2
    coded = "dictionary<values=string, indices=int32, ordered=0>"  # how a text is kept, not what it is
    shapes = [[str(field).replace(coded, "string") for field in each.schema] for each in found]
    assert shapes[1] == shapes[0]
    assert found[1].to_pylist() == found[0].to_pylist()


@pytest.mark.slow
def test_run_on_spark_with_bad_input(spark, tmp_path, command):
    rows = [*shop(8, things=10), {"type": "Exit", "time": None, "tag": "t1", "n": 5}]
    for ending in ("jsonl", "parquet"):
        path = as_file(rows, tmp_path, ending)
        args = ("run", THEFT, "--input", path, "--no-jit", "--format", "jsonl", "--engine", "spark")
        code, out, err = command(*args)
        assert (code, out) == (2, "")
        assert "the time is null" in err
        assert "Traceback" not in err
        code, out, err = command(*args, "--bad-rows", "file", tmp_path / "bad.jsonl")
        assert code == 0, err
        assert {row["match_id"] for row in answers(out)} == set(embedded(rows[:-1]))
        (bad,) = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
        assert bad["reason"] == "the time is null"
        assert bad["row"]["n"] == 5
        assert "1 skipped" in err
    code, _, err = command("run", THEFT, "--input", tmp_path / "no.csv", "--engine", "spark")
    assert (code, "there is no file" in err) == (2, True)
    code, _, err = command("run", THEFT, "--input", "-", "--engine", "spark")
    assert (code, "does not read standard input" in err) == (2, True)
    (tmp_path / "none.csv").write_text("type,time,tag\n")
    code, out, err = command("run", THEFT, "--input", tmp_path / "none.csv", "--engine", "spark", "--format", "jsonl")
    assert (code, out) == (0, "")


@pytest.mark.slow
def test_a_backfill_never_doubles_the_folder_of_a_stream(spark, tmp_path, command):
    rows = shop(1, things=10)
    laid_out(tmp_path / "events", rows, files=2)
    path = written(tmp_path)
    expected = embedded(rows)
    assert command("pipeline", "run", path)[0] == 0
    for verb in ("check", "run"):
        code, _, err = command("pipeline", verb, path, "--batch")
        assert code == 2
        assert "p.toml, [sink.matches]: " in err and "holds the answers of a stream" in err
    assert by_id(stored(spark, tmp_path / "out" / "matches")) == expected  # each once

    apart = written(tmp_path, sink=PARTS["sink"] + '[sink.matches.batch]\npath = "out/history"\n')
    for _ in range(2):
        assert command("pipeline", "run", apart, "--batch")[0] == 0
    assert by_id(stored(spark, tmp_path / "out" / "history")) == expected
    assert by_id(stored(spark, tmp_path / "out" / "matches")) == expected

    shutil.rmtree(tmp_path / "out" / "state")  # the stream begins anew, in a folder that is full
    code, _, err = command("pipeline", "run", path)
    assert code == 2 and "holds the answers of an earlier run" in err
    assert by_id(stored(spark, tmp_path / "out" / "matches")) == expected
