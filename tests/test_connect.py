"""A real server of Spark Connect, with a program that does everything there, and ends when the server is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import Row

from tests.servers import connect
from tests.servers.cluster import ROOT
from tocsin.errors import TocsinError
from tocsin.spark.metrics import numbers
from tocsin.spark.setup.errors import explained
from tocsin.spark.setup.workers import check_spark, check_tocsin
from tocsin.spark.write import JOB, job_of

long = pytest.mark.long


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the program found; it is a process of its own, because one process has sessions of one kind only."""
    pytest.importorskip("grpc")
    folder = tmp_path_factory.mktemp("connect")
    with connect.running(folder / "server") as server:
        environment = {
            **{name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"},
            "TOCSIN_CACHE": str(folder / "client-kernels"),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        pid = str(server.process.process.pid)
        command = [sys.executable, "-m", "tests.connect_program", server.address, str(folder), pid]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:] + server.process.tail()
        found: dict[str, Any] = {}
        for line in done.stdout.splitlines():
            found |= json.loads(line) if line.startswith("{") else {}
        return found


@long
@pytest.mark.parametrize("way", ["batch", "carried over", "sql"])
def test_the_answers_of_an_embedded_run(found: Any, way: str) -> None:
    assert len(found["wanted"]) > 10
    assert found[way] == found["wanted"]


@long
def test_workers_do_not_compile(found: Any) -> None:
    assert found["kernels"]["used"] > 0
    assert found["kernels"]["compiled"] == []


@long
def test_numbers_of_a_stream(found: Any) -> None:
    assert found["metrics"] == {"read": 300, "heard": [[0, 200], [1, 100]]}


@long
def test_explain_says_what_is_left_out(found: Any) -> None:
    (line,) = found["explained"]
    assert "workers cannot read the input themselves: the session is one of Spark Connect" in line


@long
def test_pipelines(found: Any) -> None:
    told = found["pipelines"]
    assert told["matches"] == found["wanted"]
    assert (told["history"], told["live"], told["again"]) == (300, 300, 0)
    assert 0 < told["settled"] <= len(found["wanted"])


@long
def test_workers_without_tocsin(found: Any) -> None:
    kind, text, hint = found["without"]
    assert kind == "TocsinError" and "the workers of this session have no Tocsin" in text
    assert all(way in hint for way in ("addArtifacts", "archive", "cluster library"))


@long
def test_workers_with_another_tocsin(found: Any) -> None:
    kind, text, _ = found["other"]
    assert kind == "TocsinError" and "the workers of this session have Tocsin 0.1.7, and this program has" in text


@long
@pytest.mark.parametrize("way", ["follow", "detect", "start"])
def test_a_server_that_goes_away(found: Any, way: str) -> None:
    kind, text, hint = found["gone"][way]
    assert kind == "TocsinError" and "the server of Spark Connect does not answer" in text
    assert "a stream goes on from its checkpoint" in hint


# --- without a server ----------------------------------------------------------------------------------------------


def test_a_frame_that_detect_did_not_make_has_no_job() -> None:
    """To a frame of Spark Connect every name is a column."""

    class Frame:
        def __getattr__(self, name: str) -> str:
            return f"Column<{name}>"

    frame: Any = Frame()
    assert job_of(frame) is None
    setattr(frame, JOB, "a job")
    assert job_of(frame) == "a job"


def test_numbers_as_spark_connect_tells_them() -> None:
    fields = [{"name": "events", "type": "long"}, {"name": "idle", "type": "string"}]
    row = {"values": [3, None], "schema": {"type": "struct", "fields": fields}}
    for told in (row, Row(**row)):
        assert numbers({"observedMetrics": {"tocsin": told}}) == {"events": 3, "idle": None}
    assert numbers({"observedMetrics": {"tocsin": {"events": 3}}}) == {"events": 3}


def test_versions_that_do_not_fit() -> None:
    import pyspark

    check_spark(pyspark.__version__)
    check_spark("9.0.0-preview1")
    with pytest.raises(TocsinError, match=r"the server runs Spark 3\.5\.4, and this program PySpark"):
        check_spark("3.5.4")
    with pytest.raises(TocsinError, match="have no Tocsin") as raised:
        check_tocsin("")
    assert "addArtifacts" in str(raised.value)
    with pytest.raises(TocsinError, match=r"have Tocsin 0\.0\.1, and this program has"):
        check_tocsin("0.0.1")


class RpcError(Exception):
    """As gRPC raises them."""


RpcError.__module__ = "grpc._channel"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('<_Rendezvous ... status = StatusCode.UNAVAILABLE\n details = "Socket closed">', "does not answer"),
        ("[INVALID_HANDLE.SESSION_CHANGED] The handle x is invalid.", "does not know this session any more"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark",
            "the workers run Python 3.9, and this program",
        ),
        ("ModuleNotFoundError: No module named 'tocsin'", "the executors have no Tocsin"),
        ("(org.apache.spark.SparkException) Python worker failed to connect back.", "did not start in time"),
    ],
)
def test_what_a_server_says_is_explained(text: str, told: str) -> None:
    assert told in str(explained(RpcError(text)))
