"""The same answers from every kind of Spark session: classic here, Spark Connect in a process of its own."""

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
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*has no key.*")]


def differences(found: dict[str, Any]) -> list[str]:
    """Which answers are not those of an embedded run; as JSON has them."""
    wanted = json.loads(json.dumps(expected()))
    assert len(wanted["batch"]) > 100
    return [name for name in wanted if json.loads(json.dumps(found.get(name))) != wanted[name]]


def run_apart(kind: str, folder: Path, python: str = sys.executable) -> dict[str, Any]:
    """Run the suite in a process of its own: one process has sessions of one kind only. Servers stay on loopback."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [python, "-m", "tests.spark_suite", kind, str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_classic_session(spark: Any, tmp_path: Path) -> None:
    assert differences(answers(spark, tmp_path)) == []


@pytest.mark.long
def test_a_session_of_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    assert differences(run_apart("connect", tmp_path)) == []
