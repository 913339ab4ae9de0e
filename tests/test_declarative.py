"""The example of a declarative pipeline runs as its users run it, live and over history, with the embedded answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("yaml")
pytest.importorskip("grpc")

import tocsin
from tests.servers.cluster import environment, spark_home

EXAMPLE = Path(__file__).parent.parent / "examples" / "declarative"
THEFT = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h SELECT s.tag AS tag"
COLUMNS = ["match_id", "tag"]  # a match_id covers the times
START = datetime(2026, 3, 1, tzinfo=UTC)


def shop() -> list[dict[str, Any]]:
    """A day of a shop, and an event long after it, which makes all that came before certain."""
    random = Random(1)
    kinds = [random.choice(("Shelf", "Shelf", "Counter", "Exit")) for _ in range(400)]
    rows = [
        {"eid": at, "type": kind, "time": START + timedelta(minutes=at), "tag": f"tag {random.randrange(20)}"}
        for at, kind in enumerate(kinds)
    ]
    return [*rows, {"eid": 999, "type": "Door", "time": START + timedelta(days=9), "tag": "none"}]


def project(folder: Path) -> Path:
    """The example in a folder of its own, with its inbox."""
    place = folder / "project"
    shutil.copytree(EXAMPLE, place)
    spec = place / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/tocsin-thefts", (folder / "storage").as_uri()))
    (place / "inbox").mkdir()
    lines = [json.dumps({**row, "time": row["time"].isoformat()}) for row in shop()]
    (place / "inbox" / "day.json").write_text("\n".join(lines))
    return place


def listed(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


@pytest.mark.long
def test_the_example_runs(tmp_path: Path) -> None:
    place = project(tmp_path)
    bins = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    kernels = os.environ["TOCSIN_CACHE"]
    env = environment(tmp_path, PATH=bins, PYTHONPATH=str(EXAMPLE.parent.parent / "src"), TOCSIN_CACHE=kernels)
    command = [str(spark_home() / "bin" / "spark-pipelines"), "run"]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    wanted = listed(tocsin.query(THEFT).detect(shop(), eid="eid", jit=False).table().to_pylist())
    assert len(wanted) > 10
    for name in ("thefts", "thefts_of_history"):
        stored = ds.dataset(place / "spark-warehouse" / name, format="parquet").to_table(columns=COLUMNS)
        assert listed(stored.to_pylist()) == wanted, name
