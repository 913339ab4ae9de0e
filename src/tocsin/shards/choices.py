"""What detectors have chosen by themselves, stored beside the log of a shard: events alone do not tell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from tocsin.graph.query_graph import Pipeline
from tocsin.order.auto import Auto
from tocsin.plan.block import Plan

Choice: TypeAlias = tuple[list[Any], bytes]  # what was chosen and why; the answers that were given and are not certain


def choices(pipelines: Iterable[Pipeline]) -> list[Choice]:
    """What each has chosen and why, and the answers that it gave and that are not yet certain."""
    return [auto.saved() for auto, _ in _choosing(pipelines)]


def begin(pipelines: Iterable[Pipeline], stored: Iterable[Choice]) -> None:
    """Choose as was chosen, before the log is read."""
    for (auto, _), (chosen, _) in zip(_choosing(pipelines), stored, strict=False):
        auto.choose(chosen)


def resume(pipelines: Iterable[Pipeline], stored: Iterable[Choice]) -> None:
    """Go on from there, after the log was read."""
    for (auto, plan), (chosen, ledger) in zip(_choosing(pipelines), stored, strict=False):
        auto.resume(chosen, ledger, plan)


def _choosing(pipelines: Iterable[Pipeline]) -> Iterator[tuple[Auto, Plan]]:
    for pipeline in pipelines:
        for stage in pipeline.stages:
            if isinstance(stage.detector, Auto):
                yield stage.detector, stage.plan
