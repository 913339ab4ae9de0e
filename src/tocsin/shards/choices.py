"""What detectors have chosen by themselves, stored beside the log of a shard: events alone do not tell it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from tocsin.encode.batch import one_batch
from tocsin.graph.query_graph import Pipeline
from tocsin.order.auto import Auto
from tocsin.plan.block import Plan
from tocsin.shards.blocks import as_bytes, as_table

Choice = list[Any]  # plain values, for JSON


def choices(pipelines: Iterable[Pipeline]) -> list[Choice]:
    """What each has chosen and why, and the answers that it gave and that are not yet certain."""
    return [
        [chosen, entries, _text(rows)] for auto, _ in _choosing(pipelines) for chosen, entries, rows in [auto.saved()]
    ]


def begin(pipelines: Iterable[Pipeline], stored: Iterable[Choice]) -> None:
    """Choose as was chosen, before the log is read."""
    for (auto, _), (chosen, _, _) in zip(_choosing(pipelines), stored, strict=False):
        auto.choose(chosen)


def resume(pipelines: Iterable[Pipeline], stored: Iterable[Choice]) -> None:
    """Go on from there, after the log was read."""
    for (auto, plan), (chosen, entries, text) in zip(_choosing(pipelines), stored, strict=False):
        auto.resume(chosen, entries, _rows(text), plan)


def _choosing(pipelines: Iterable[Pipeline]) -> Iterator[tuple[Auto, Plan]]:
    for pipeline in pipelines:
        for stage in pipeline.stages:
            if isinstance(stage.detector, Auto):
                yield stage.detector, stage.plan


def _text(rows: pa.RecordBatch | None) -> str | None:
    return None if rows is None else base64.b64encode(as_bytes(pa.Table.from_batches([rows]))).decode()


def _rows(text: str | None) -> pa.RecordBatch | None:
    return None if text is None else one_batch(as_table(base64.b64decode(text)))
