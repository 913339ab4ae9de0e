"""The cells of the notebook run in order; the other examples run in tests/test_run.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
def test_the_notebook(tmp_path: Path) -> None:
    cells = [c for c in json.loads((EXAMPLES / "thefts.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    source = "\n\n".join("".join(cell["source"]) for cell in cells)
    checked = source + "\n\nassert len(picture.axes) >= 1 and found.columns[-2:] == ['s', 'e']\nprint('done')\n"
    script = tmp_path / "notebook.py"
    script.write_text(checked)
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.rstrip().endswith("done") and "tag-0" in done.stdout
