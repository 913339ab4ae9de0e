"""What a streaming job left behind: its progress, and the committed rows of its parquet sink.

A job that was killed may leave files that belong to no batch; the sink's own log says which files count.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq


def progress(path: Path) -> list[dict[str, Any]]:
    """One entry for each batch that has ended, over all runs of the job; an unfinished last line does not count."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]


def committed(sink: Path) -> list[Path]:
    """The files that the sink's log holds."""
    entries: dict[str, str] = {}
    for log in sorted((sink / "_spark_metadata").iterdir(), key=_batch):
        if not log.name.startswith(".") and log.suffix in {"", ".compact"}:
            for line in log.read_text().splitlines()[1:]:
                entry = json.loads(line)
                entries[entry["path"]] = entry["action"]
    return [Path(unquote(urlparse(path).path)) for path, action in entries.items() if action == "add"]


def _batch(log: Path) -> int:
    return int(log.stem) if log.stem.isdigit() else -1


def rows_of(sink: Path) -> list[dict[str, Any]]:
    """Every row that the sink has committed."""
    return [row for path in committed(sink) for row in pq.ParquetFile(path).read().to_pylist()]
