"""The state of a live session as bytes: a zip of JSON and Arrow, so that restoring it can run no code."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.batch import Encoder
from tocsin.engine.snapshot import Part
from tocsin.errors import StateError
from tocsin.graph.query_graph import Pipeline, Stage
from tocsin.items import Items
from tocsin.order.auto import Auto
from tocsin.order.sort import Sorter
from tocsin.schema import Field, Kind, Schema

FORMAT = 1
HINT = "go back to an earlier snapshot, or start afresh"


class Archive:
    """Named pieces of bytes."""

    def __init__(self, data: bytes | None = None) -> None:
        self.pieces: dict[str, bytes] = {}
        if data is not None:
            try:
                with zipfile.ZipFile(io.BytesIO(data)) as file:
                    self.pieces = {name: file.read(name) for name in file.namelist()}
            except (zipfile.BadZipFile, OSError, RuntimeError, ValueError, NotImplementedError):
                raise StateError("the saved state is damaged", hint=HINT) from None

    def bytes(self) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
            for name, data in self.pieces.items():
                file.writestr(name, data)
        return out.getvalue()

    def put(self, name: str, value: Any) -> None:
        self.pieces[name] = json.dumps(value).encode()

    def get(self, name: str) -> Any:
        try:
            return json.loads(self.pieces[name])
        except (KeyError, ValueError):
            raise StateError("the saved state is damaged", detail=f"{name} is missing or broken", hint=HINT) from None

    def put_rows(self, name: str, batch: pa.RecordBatch) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        self.pieces[name] = sink.getvalue().to_pybytes()

    def get_rows(self, name: str) -> pa.RecordBatch:
        try:
            return pa.ipc.open_stream(self.pieces[name]).read_next_batch()
        except (KeyError, pa.ArrowInvalid, OSError, StopIteration):
            raise StateError("the saved state is damaged", detail=f"{name} is missing or broken", hint=HINT) from None


def put_schema(archive: Archive, schema: Schema | None) -> None:
    if schema is None:
        archive.put("schema", None)
        return
    whole = {
        "types": {name: [_field(each) for each in fields.values()] for name, fields in schema.types.items()},
        "common": [_field(each) for each in schema.common.values()],
        "open": [schema.open_types, schema.open_fields],
        "unit": schema.unit,
        "intervals": schema.intervals,
    }
    archive.put("schema", whole)


def _field(field: Field) -> list[Any]:
    return [field.name, str(field.kind), field.scale, field.nullable, field.digits]


def get_schema(archive: Archive) -> Schema | None:
    whole = archive.get("schema")
    if whole is None:
        return None
    try:
        types = {name: _fields(each) for name, each in whole["types"].items()}
        open_types, open_fields = whole["open"]
        return Schema(types, _fields(whole["common"]), open_types, open_fields, whole["unit"], whole["intervals"])
    except (KeyError, TypeError, ValueError):
        raise StateError("the saved state is damaged", detail="its schema is broken", hint=HINT) from None


def _fields(rows: list[list[Any]]) -> dict[str, Field]:
    return {name: Field(name, Kind(kind), *rest) for name, kind, *rest in rows}


def put_pipeline(archive: Archive, pipeline: Pipeline) -> None:
    """All detectors, and the rows that later ones still wait for."""
    archive.put(
        "pipeline",
        {
            "queries": [stage.plan.fingerprint for stage in pipeline.stages],
            "order": str(pipeline.order),
            "clock": pipeline.clock,
            "seen": [pipeline.seen, pipeline.relevant],
            "late": pipeline.late_count,
            "names": [pipeline.names.hashes.tolist(), pipeline.names.ends.tolist()],
            "promised": [[*pair, time] for pair, time in pipeline.guarantees.promised.items()],
            "sources": sorted(pipeline.guarantees.sources),
            "settled": pipeline.guarantees.settled,
            "strange": [pipeline.guarantees.backwards, pipeline.guarantees.unknown],
            "broken": [[*pair, count] for pair, count in pipeline.gate.broken.items()],
        },
    )
    if pipeline.sorter is not None:
        _put_sorter(archive, pipeline.sorter)
    for number, stage in enumerate(pipeline.stages):
        parts = stage.detector.parts()
        archive.put(f"{number}/parts", [[part.id, part.version, part.range] for part in parts])
        for part in parts:
            archive.pieces[f"{number}/part/{part.id}"] = part.data
        archive.put(f"{number}/held", len(stage.held))
        for place, items in enumerate(stage.held):
            archive.put_rows(f"{number}/held/{place}", _with_eids(items))
        if stage.turn is not None:
            _put_changes(archive, f"{number}/turn", *stage.turn.saved())
        if isinstance(stage.detector, Auto):
            chosen, entries, rows = stage.detector.saved()
            archive.put(f"{number}/chosen", chosen)
            _put_changes(archive, f"{number}/ledger", entries, rows)


def _put_changes(archive: Archive, name: str, entries: list[Any], rows: pa.RecordBatch | None) -> None:
    archive.put(name, entries)
    if rows is not None:
        archive.put_rows(f"{name}/rows", rows)


def _get_changes(archive: Archive, name: str) -> tuple[list[Any], pa.RecordBatch | None]:
    entries = archive.get(name)
    return entries, archive.get_rows(f"{name}/rows") if entries else None


def _put_sorter(archive: Archive, sorter: Sorter) -> None:
    """The rows that wait for their turn."""
    archive.put("sorter", [sorter.late, sorter.clock, sorter.left, list(sorter.delays), len(sorter.held)])
    for place, items in enumerate(sorter.held):
        archive.put_rows(f"sorter/{place}", _with_eids(items))


def _get_sorter(archive: Archive, sorter: Sorter, pipeline: Pipeline) -> None:
    sorter.late, sorter.clock, sorter.left, delays, count = archive.get("sorter")
    sorter.delays.extend(delays)
    sorter.ranked = sorted(delays)
    wanted = pipeline.encoder.wanted
    for place in range(count):
        batch = archive.get_rows(f"sorter/{place}")
        sorter.hold(_items(batch, pipeline.schema, pipeline, list(wanted)))


def _with_eids(items: Items) -> pa.RecordBatch:
    rows = items.payload
    if items.eid_high is not None:
        rows = rows.append_column("#high", pa.array(items.eid_high)).append_column("#low", pa.array(items.eid_low))
    return rows


def get_pipeline(archive: Archive, pipeline: Pipeline) -> None:
    """Bring a new pipeline to the saved state."""
    state = archive.get("pipeline")
    try:
        if state["queries"] != [stage.plan.fingerprint for stage in pipeline.stages]:
            raise StateError("the state was saved by other queries", hint="restore it with the queries that saved it")
        if state.get("order", str(pipeline.order)) != str(pipeline.order):
            raise StateError(
                f"the state was saved under order={state['order']!r}",
                detail=f"this session has order={str(pipeline.order)!r}",
                hint="restore it with the order that saved it",
            )
        pipeline.clock, pipeline.late_count = state["clock"], state["late"]
        pipeline.seen, pipeline.relevant = state["seen"]
        pipeline.names.hashes, pipeline.names.ends = (np.array(each, np.int64) for each in state["names"])
        guarantees = pipeline.guarantees
        guarantees.promised = {(type, source): time for type, source, time in state.get("promised", ())}
        guarantees.sources, guarantees.settled = set(state.get("sources", ())), dict(state.get("settled", {}))
        guarantees.backwards, guarantees.unknown = state.get("strange", (0, 0))
        pipeline.gate.broken.update({(source, type): count for source, type, count in state.get("broken", ())})
        if pipeline.sorter is not None:
            _get_sorter(archive, pipeline.sorter, pipeline)
        for number, stage in enumerate(pipeline.stages):
            listed = archive.get(f"{number}/parts")
            parts = [Part(id, version, archive.pieces[f"{number}/part/{id}"], range) for id, version, range in listed]
            if isinstance(stage.detector, Auto):
                stage.detector.choose(archive.get(f"{number}/chosen"))
            stage.detector.restore(parts)
            if isinstance(stage.detector, Auto):
                ledger = _get_changes(archive, f"{number}/ledger")
                stage.detector.resume(archive.get(f"{number}/chosen"), *ledger, stage.plan)
            rows = [archive.get_rows(f"{number}/held/{place}") for place in range(archive.get(f"{number}/held"))]
            stage.held = [_held(batch, stage, pipeline) for batch in rows]
            if stage.turn is not None:
                stage.turn.restore(*_get_changes(archive, f"{number}/turn"), stage.plan, pipeline.functions)
    except (KeyError, TypeError, ValueError):
        raise StateError("the saved state is damaged", hint=HINT) from None


def _held(batch: pa.RecordBatch, stage: Stage, pipeline: Pipeline) -> Items:
    return _items(batch, stage.plan.schema, pipeline, stage.detector.reads)


def _items(batch: pa.RecordBatch, schema: Schema, pipeline: Pipeline, wanted: Iterable[str]) -> Items:
    inner = [name for name in ("#high", "#low") if name in batch.schema.names]
    eids = [batch.column(name).to_numpy() for name in inner]
    rows = batch.drop_columns(inner) if inner else batch
    encoder = Encoder.of_payload(schema, pipeline.encoder.types, pipeline.strings, rows.schema, tuple(wanted))
    items = encoder.encode(rows)
    if eids:
        items.eid_high, items.eid_low = eids
    return items
