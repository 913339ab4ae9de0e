"""The same answers from every kind of Spark session: classic here, others and an older Spark in processes apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark_suite import answers, expected

ROOT = Path(__file__).parent.parent
OLDER = {"4.0.0": "all", "3.5.9": "batches"}  # what each version can do; `make spark-oldest` makes their environments
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*has no key.*")]


def differences(found: dict[str, Any]) -> list[str]:
    """Which answers are not those of an embedded run; as JSON has them."""
    wanted = json.loads(json.dumps(expected()))
    assert len(wanted["batch"]) > 100
    return [name for name in found if json.loads(json.dumps(found[name])) != wanted[name]]


def run_apart(kind: str, folder: Path, python: str = sys.executable, part: str = "all") -> dict[str, Any]:
    """Run the suite in a process of its own: one process has sessions of one kind only. Servers stay on loopback."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [python, "-m", "tests.spark_suite", kind, str(folder), part]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_classic_session(spark: Any, tmp_path: Path) -> None:
    found = answers(spark, tmp_path)
    assert found.keys() == expected().keys()
    assert differences(found) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["connect", "own"])
def test_other_sessions(kind: str, tmp_path: Path) -> None:
    """Spark Connect; and a session made without us, with 200 partitions, Kryo, dynamic allocation and tiny batches."""
    if kind == "connect":
        pytest.importorskip("grpc")
    found = run_apart(kind, tmp_path)
    assert found.keys() == expected().keys()
    assert differences(found) == []


def environment(version: str) -> Path:
    return ROOT / f".venv-spark-{version}"


@pytest.mark.long
@pytest.mark.parametrize("version", OLDER)
def test_an_older_spark(version: str, tmp_path: Path) -> None:
    """An environment of its own is made if it is not there yet."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    command = ["make", f"{environment(version).name}/.installed"]
    made = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-4000:]
    found = run_apart("classic", tmp_path, str(environment(version) / "bin" / "python"), OLDER[version])
    assert found.keys() == (expected().keys() if OLDER[version] == "all" else {"batch", "files"})
    assert differences(found) == []


def test_an_older_spark_briefly(tmp_path: Path) -> None:
    if not (environment("4.0.0") / ".installed").exists():
        pytest.skip("`make spark-oldest` was never run here")
    python = str(environment("4.0.0") / "bin" / "python")
    assert differences(run_apart("classic", tmp_path, python, "batches")) == []
