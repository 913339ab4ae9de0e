"""The keyword arguments of detect, detector and explain are real: for editors and `help`, and for mypy."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import tocsin.spark
from tocsin.spark.detect import prepare

ROOT = Path(__file__).parent.parent


def test_arguments_are_those_that_are_checked() -> None:
    wanted = inspect.signature(prepare).parameters
    assert inspect.signature(tocsin.spark.detect).parameters == wanted
    assert inspect.signature(tocsin.spark.explain).parameters == wanted
    assert list(inspect.signature(tocsin.spark.detector).parameters) == list(wanted)[1:]
    assert inspect.signature(tocsin.spark.detect).return_annotation == "DataFrame"
    assert wanted["bad_rows"].annotation == "Literal['fail', 'keep']"


def test_every_argument_is_explained() -> None:
    told = inspect.getdoc(tocsin.spark.detect) or ""
    missing = [name for name in inspect.signature(tocsin.spark.detect).parameters if name not in told]
    assert missing == []


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda query: query.detect([], jti=False), "detect has no option 'jti'", "did you mean jit?"),
        (lambda query: query.stream(odrer="in-order"), "stream has no option 'odrer'", "did you mean order?"),
        (lambda query: query.check(tim="at"), "has no option 'tim'", "did you mean time?"),
        (lambda query: query.explain(quite_another="at"), "has no option 'quite_another'", "there are: "),
        (lambda _: tocsin.query("EVENT A a", zoen="UTC"), "query has no option 'zoen'", "did you mean zone?"),
        (
            lambda query: tocsin.spark.detect(None, query, orde="x"),
            "detect has no option 'orde'",
            "did you mean order?",
        ),
    ],
)
def test_a_misspelt_option_gets_the_one_that_was_meant(call: Any, message: str, hint: str) -> None:
    with pytest.raises(TypeError) as refused:
        call(tocsin.query("EVENT A a"))
    assert message in str(refused.value)
    assert hint in str(refused.value)


RIGHT = """
from pyspark.sql import DataFrame
import tocsin.spark

def use(df: DataFrame) -> DataFrame:
    tocsin.spark.explain(df, "EVENT A a", time="at").upper()
    df.transform(tocsin.spark.detector("EVENT A a", time="at"))
    return tocsin.spark.detect({"A": df}, "EVENT A a", order="in-order", buckets=4, bad_rows="keep")
"""
WRONG = """
from pyspark.sql import DataFrame
import tocsin.spark

def use(df: DataFrame) -> None:
    tocsin.spark.detect(df, "EVENT A a", tiem="at")
    tocsin.spark.detect(df, "EVENT A a", buckets="4")
    tocsin.spark.detector("EVENT A a", bad_rows="burn")
    tocsin.spark.explain(df)
"""


@pytest.mark.long
def test_mypy_knows_them(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    done = subprocess.run([*command, str(tmp_path / "right.py")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    done = subprocess.run([*command, str(tmp_path / "wrong.py")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line] == ["6", "7", "8", "9"]
