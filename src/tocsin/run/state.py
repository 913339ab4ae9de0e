"""The snapshot of a live session: what the session knows itself, and the parts of its queries behind `graph/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.codec import Part, decode, decode_items, encode, encode_items, nested, only_part, reading, within
from tocsin.errors import StateError
from tocsin.graph.query_graph import Pipeline, Stage
from tocsin.order.auto import Auto
from tocsin.order.sort import Sorter
from tocsin.schema import Field, Kind, Schema

SESSION, GRAPH, SORTER, STAGE = "session", "graph", "sorter", "stage"  # ids of parts, and kinds of containers
HELD = "held/"


# --- the session ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Known:
    """What a session knows beside its queries: promises, the schema it has learned, and the events it learned it from.

    `time` is the type of the time column where results show points in time.
    """

    advanced: int
    promised: Mapping[tuple[str | None, str | None], int]
    schema: Schema | None
    time: pa.DataType | None
    log: list[pa.RecordBatch]

    def part(self) -> Part:
        words = {
            "advanced": self.advanced,
            "promised": [[*pair, time] for pair, time in self.promised.items()],
            "schema": None if self.schema is None else _schema_words(self.schema),
            "log": len(self.log),
        }
        tables: dict[str, Any] = {f"log/{place}": batch for place, batch in enumerate(self.log)}
        if self.time is not None:
            tables["time"] = pa.table({"time": pa.array([], self.time)})
        return Part(SESSION, 0, encode(SESSION, words, tables))

    @staticmethod
    def read(parts: Iterable[Part]) -> Known:
        stored = decode(only_part(SESSION, parts).data, SESSION)
        with reading():
            words = stored.words
            return Known(
                words["advanced"],
                {(type, source): time for type, source, time in words["promised"]},
                None if words["schema"] is None else _schema(words["schema"]),
                stored.tables["time"].schema.field("time").type if "time" in stored.tables else None,
                [stored.batch(f"log/{place}") for place in range(words["log"])],
            )


def _schema_words(schema: Schema) -> dict[str, Any]:
    return {
        "types": {name: [_field(each) for each in fields.values()] for name, fields in schema.types.items()},
        "common": [_field(each) for each in schema.common.values()],
        "open": [schema.open_types, schema.open_fields],
        "unit": schema.unit,
        "intervals": schema.intervals,
    }


def _field(field: Field) -> list[Any]:
    return [field.name, str(field.kind), field.scale, field.nullable, field.digits]


def _schema(words: Mapping[str, Any]) -> Schema:
    types = {name: _fields(each) for name, each in words["types"].items()}
    open_types, open_fields = words["open"]
    return Schema(types, _fields(words["common"]), open_types, open_fields, words["unit"], words["intervals"])


def _fields(rows: list[list[Any]]) -> dict[str, Field]:
    return {name: Field(name, Kind(kind), *rest) for name, kind, *rest in rows}


# --- the queries ---------------------------------------------------------------------------------------------------


def pipeline_parts(pipeline: Pipeline) -> list[Part]:
    """All detectors, the rows that later ones still wait for, and what was guaranteed."""
    guarantees = pipeline.guarantees
    words = {
        "queries": [stage.plan.fingerprint for stage in pipeline.stages],
        "order": str(pipeline.order),
        "clock": pipeline.clock,
        "seen": [pipeline.seen, pipeline.relevant],
        "late": pipeline.late_count,
        "promised": [[*pair, time] for pair, time in guarantees.promised.items()],
        "sources": sorted(guarantees.sources),
        "settled": guarantees.settled,
        "strange": [guarantees.backwards, guarantees.unknown],
        "broken": [[*pair, count] for pair, count in pipeline.gate.broken.items()],
    }
    arrays = {"names/hashes": pipeline.names.hashes, "names/ends": pipeline.names.ends}
    parts = [Part(GRAPH, 0, encode(GRAPH, words, arrays=arrays))]
    if pipeline.sorter is not None:
        parts.append(_sorter_part(pipeline.sorter, pipeline))
    for number, stage in enumerate(pipeline.stages):
        parts += nested(str(number), [_stage_part(stage, pipeline), *nested("detector", stage.detector.parts())])
    return parts


def _sorter_part(sorter: Sorter, pipeline: Pipeline) -> Part:
    """The rows that wait for their turn."""
    words = {"late": sorter.late, "clock": sorter.clock, "left": sorter.left}
    delays = np.array(sorter.delays, np.int64)
    return Part(SORTER, 0, encode(SORTER, words, arrays={"delays": delays}, blobs=_held(sorter.held, pipeline)))


def _stage_part(stage: Stage, pipeline: Pipeline) -> Part:
    """The rows that a stage waits for, the answers that wait, and what it has chosen."""
    words: dict[str, Any] = {}
    blobs = _held(stage.held, pipeline)
    if stage.turn is not None:
        blobs["turn"] = stage.turn.saved()
    if isinstance(stage.detector, Auto):
        words["chosen"], blobs["ledger"] = stage.detector.saved()
    return Part(STAGE, 0, encode(STAGE, words, blobs=blobs))


def _held(held: list[Any], pipeline: Pipeline) -> dict[str, bytes]:
    types, strings = pipeline.encoder.types, pipeline.strings
    return {f"{HELD}{place}": encode_items(items, types, strings) for place, items in enumerate(held)}


def restore_pipeline(pipeline: Pipeline, parts: Iterable[Part]) -> None:
    """Bring a new pipeline to the saved state. If that fails, the pipeline is of no use: make another one."""
    parts = list(parts)
    stored = decode(only_part(GRAPH, parts).data, GRAPH)
    with reading():
        _check(stored.words, pipeline)
        _restore_graph(pipeline, stored.words, stored.arrays)
        if pipeline.sorter is not None:
            _restore_sorter(pipeline.sorter, only_part(SORTER, parts), pipeline)
        for number, stage in enumerate(pipeline.stages):
            _restore_stage(stage, within(str(number), parts), pipeline)


def _check(words: Mapping[str, Any], pipeline: Pipeline) -> None:
    """Whether the state is of the same queries under the same strategy."""
    if words["queries"] != [stage.plan.fingerprint for stage in pipeline.stages]:
        raise StateError("the state was saved by other queries", hint="restore it with the queries that saved it")
    if words["order"] != str(pipeline.order):
        raise StateError(
            f"the state was saved under order={words['order']!r}",
            detail=f"this session has order={str(pipeline.order)!r}",
            hint="restore it with the order that saved it",
        )


def _restore_graph(pipeline: Pipeline, words: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    pipeline.clock, pipeline.late_count = words["clock"], words["late"]
    pipeline.seen, pipeline.relevant = words["seen"]
    pipeline.names.hashes, pipeline.names.ends = arrays["names/hashes"], arrays["names/ends"]
    guarantees = pipeline.guarantees
    guarantees.promised = {(type, source): time for type, source, time in words["promised"]}
    guarantees.sources, guarantees.settled = set(words["sources"]), dict(words["settled"])
    guarantees.backwards, guarantees.unknown = words["strange"]
    pipeline.gate.broken.update({(source, type): count for source, type, count in words["broken"]})


def _restore_sorter(sorter: Sorter, part: Part, pipeline: Pipeline) -> None:
    stored = decode(part.data, SORTER)
    sorter.late, sorter.clock, sorter.left = (stored.words[name] for name in ("late", "clock", "left"))
    delays = stored.arrays["delays"].tolist()
    sorter.delays.extend(delays)
    sorter.ranked = sorted(delays)
    for items in _held_again(stored.blobs, pipeline):
        sorter.hold(items)


def _restore_stage(stage: Stage, parts: list[Part], pipeline: Pipeline) -> None:
    stored = decode(only_part(STAGE, parts).data, STAGE)
    if isinstance(stage.detector, Auto):
        stage.detector.choose(stored.words["chosen"])
    stage.detector.restore(within("detector", parts))
    if isinstance(stage.detector, Auto):
        stage.detector.resume(stored.words["chosen"], stored.blobs["ledger"], stage.plan)
    stage.held = _held_again(stored.blobs, pipeline)
    if stage.turn is not None:
        stage.turn.restore(stored.blobs["turn"], stage.plan, pipeline.functions)


def _held_again(blobs: Mapping[str, bytes], pipeline: Pipeline) -> list[Any]:
    types, strings = pipeline.encoder.types, pipeline.strings
    return [decode_items(data, types, strings) for name, data in blobs.items() if name.startswith(HELD)]
