"""What a statement finds as columns: complex events are rows of their own, which the plan's variable is bound to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.eids import hash_texts
from tocsin.engine.changes import ChangeBatch, arrow_type
from tocsin.engine.operator import Setting
from tocsin.engine.payload import Chunk, View
from tocsin.items import Ints
from tocsin.schema import Kind
from tocsin.staged.machine import Found
from tocsin.staged.partition_keys import key_text


def batch_of(setting: Setting, found: Sequence[tuple[int, Found]]) -> ChangeBatch:
    """Complex events, each with the time of its stage, as changes."""
    plan = setting.plan
    name = str(plan.name)
    start = np.array([each.start for _, each in found], np.int64)
    end = np.array([now for now, _ in found], np.int64)
    eids = pa.array([eid_of(name, now, each) for now, each in found], pa.string())
    outputs = enumerate(plan.outputs)
    columns = [_column([each.values[at] for _, each in found], output.expr.kind) for at, output in outputs]
    return shown(setting, start, end, eids, columns)


def shown(setting: Setting, start: Ints, end: Ints, eids: pa.Array, columns: Sequence[pa.Array]) -> ChangeBatch:
    """Complex events as columns, with those of Select, as changes."""
    plan, count = setting.plan, len(start)
    head = {"type": pa.repeat(str(plan.name), count), "start": pa.array(start), "end": pa.array(end), "eid": eids}
    head |= {output.name: column for output, column in zip(plan.outputs, columns, strict=True)}
    rows = pa.RecordBatch.from_arrays(list(head.values()), list(head))
    high, low = hash_texts(eids)
    chunk = Chunk(0, rows, np.zeros(count, np.int32), start, end, high, low)
    op = np.ones(count, np.int8)
    return ChangeBatch(plan, op, end, [np.arange(count, dtype=np.int64)], {}, View([chunk]), setting.functions)


def eid_of(name: str, now: int, found: Found) -> str:
    """What names a complex event: its place, stage, statement and global partition. No other partition has a say."""
    return f"{found.place:08d}@{now}:{name}{key_text(found.key)}"


def _column(values: list[Any], kind: Kind) -> pa.Array:
    """The values of a column of Select; what lies beyond 64 bits is Null."""
    match kind:
        case Kind.INT | Kind.TIME:
            found: list[Any] = [
                None if value is None or not -(2**63) <= value < 2**63 else int(value) for value in values
            ]
            return pa.array(found, pa.int64()).cast(arrow_type(kind))
        case Kind.FLOAT:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        case Kind.TEXT:
            return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values, arrow_type(kind))
