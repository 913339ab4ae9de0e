"""Every example runs: the programs, and the cells of the notebook in order.

Those without Spark are processes of their own, as a user starts them; those with Spark run in this process, where they
find the one session of the tests.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
ON_SPARK = sorted(EXAMPLES.glob("spark_*.py"))
DAY = sorted((EXAMPLES / "day").glob("step_*.py"))
PLAIN = sorted(set(EXAMPLES.glob("*.py")) - set(ON_SPARK))


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_every_example_runs(path: Path) -> None:
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("path", [path for path in DAY if "spark" not in path.stem], ids=lambda path: path.stem)
def test_every_step_of_the_day_runs(path: Path, tmp_path: Path) -> None:
    """A day of use, as a newcomer would spend it; each step compares its answers with those of SQL, or of a file."""
    usual = {name: value for name, value in os.environ.items() if name != "TOCSIN_COMPILE_FIRST"}  # nobody waits
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, cwd=tmp_path, env=usual)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.long
@pytest.mark.parametrize("path", [path for path in DAY if "spark" in path.stem], ids=lambda path: path.stem)
def test_every_step_of_the_day_on_spark_runs(
    lasting_spark: object, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(path.parent)
    assert runpy.run_path(str(path), run_name="__main__")


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("path", ON_SPARK, ids=lambda path: path.stem)
def test_every_example_on_spark_runs(lasting_spark: object, path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert runpy.run_path(str(path), run_name="__main__")
    assert capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.jit
def test_the_notebook_on_spark(
    lasting_spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    cells = [c for c in json.loads((EXAMPLES / "thefts.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join("".join(cell["source"]) for cell in cells))
    names = runpy.run_path(str(script), run_name="__main__")
    assert len(names["picture"].axes) >= 1 and names["found"].columns[-2:] == ["s", "e"]
    assert "tag-0" in capfd.readouterr().out
