"""Changes that are kept for later, in columns: what waits for its turn, or was answered and is not yet certain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tocsin.codec import decode, encode, reading
from tocsin.encode.batch import one_batch
from tocsin.engine.changes import ChangeBatch, Members
from tocsin.engine.kinds import TIMEOUT
from tocsin.engine.payload import Chunk, View
from tocsin.functions import Function
from tocsin.items import Ints
from tocsin.plan.block import Plan

KIND = "changes"
OWN = ("types", "start", "end", "high", "low")  # what a row of an event needs beside what results show of it


def packed(kept: Sequence[tuple[ChangeBatch, int]]) -> bytes:
    """Changes, each given by a batch of changes and its row there, as bytes that need nothing else.

    Every batch is looked at once, and every event is stored once for all changes of a batch that mention it.
    """
    if not kept:
        return encode(KIND, {"count": 0})
    batches, order = _by_batch(kept)
    shifts = np.cumsum([0, *(len(batch.rows.numbers) for batch in batches)]).tolist()[:-1]
    arrays = {
        "order": order,
        "op": np.concatenate([batch.op for batch in batches]),
        "known_at": np.concatenate([batch.known_at for batch in batches]),
        "fixed": np.concatenate([_fixed(*each) for each in zip(batches, shifts, strict=True)], axis=1),
    }
    steps = sorted({batch.step for batch in batches if batch.step is not None})
    arrays["step"] = np.concatenate(
        [np.full(len(batch), -1 if batch.step is None else steps.index(batch.step), np.int64) for batch in batches]
    )
    repeated = sorted({index for batch in batches for index in batch.repeated})
    for index in repeated:
        members = [_members(batch, index, shift) for batch, shift in zip(batches, shifts, strict=True)]
        arrays[f"counts/{index}"] = np.concatenate([counts for counts, _ in members])
        arrays[f"events/{index}"] = np.concatenate([events for _, events in members])
    own = [(batch.rows.types, batch.rows.start, batch.rows.end, *batch.rows.names) for batch in batches]
    arrays |= {name: np.concatenate(column) for name, column in zip(OWN, zip(*own, strict=True), strict=True)}
    events = pa.concat_tables([_shown(batch) for batch in batches], promote_options="permissive")
    return encode(KIND, {"count": len(kept), "repeated": repeated, "steps": steps}, {"events": events}, arrays)


def _by_batch(kept: Sequence[tuple[ChangeBatch, int]]) -> tuple[list[ChangeBatch], Ints]:
    """The kept changes of each batch, one batch after the other; and where each of the given changes stands then."""
    numbers: dict[int, int] = {}
    batches: list[ChangeBatch] = []
    for batch, _ in kept:
        if numbers.setdefault(id(batch), len(batches)) == len(batches):
            batches.append(batch)
    owner = np.array([numbers[id(batch)] for batch, _ in kept])
    rows = np.array([row for _, row in kept], np.int64)
    by_owner = np.argsort(owner, kind="stable")
    places = np.empty(len(kept), np.int64)
    places[by_owner] = np.arange(len(kept))
    return [batch.pick(rows[by_owner][owner[by_owner] == at]) for at, batch in enumerate(batches)], places


def unpacked(data: bytes, plan: Plan, functions: Mapping[str, Function]) -> ChangeBatch | None:
    """The changes again, as one batch in the order in which they were given; None if there were none."""
    stored = decode(data, KIND, "the saved changes")
    if not stored.words["count"]:
        return None
    with reading("the saved changes"):
        arrays = stored.arrays
        types, start, end, high, low = (arrays[name] for name in OWN)
        rows, fixed = one_batch(stored.tables["events"]), list(arrays["fixed"])
        if not len(rows) == len(types) == len(start) == len(end) == len(high) == len(low):
            raise ValueError("the columns of its events differ in length")
        view = View([Chunk(0, rows, types, start, end, high, low)])
        repeated = {
            index: Members(np.append(0, np.cumsum(arrays[f"counts/{index}"])), arrays[f"events/{index}"])
            for index in stored.words["repeated"]
        }
        _check_places([*fixed, *(each.events for each in repeated.values())], len(rows))
        return ChangeBatch(plan, arrays["op"], arrays["known_at"], fixed, repeated, view, functions).pick(
            arrays["order"]
        )


def _check_places(columns: Iterable[Ints], count: int) -> None:
    """Refuse places of events that are not there: they would be looked up when an answer is shown."""
    for column in columns:
        if len(column) and not -1 <= column.min() <= column.max() < count:
            raise ValueError("it shows events that it does not have")


def unpacked_by_step(data: bytes, plan: Plan, functions: Mapping[str, Function]) -> list[ChangeBatch]:
    """The changes again: the matches, and for each step the beginnings that it did not extend."""
    whole = unpacked(data, plan, functions)
    if whole is None:
        return []
    stored = decode(data, KIND, "the saved changes")
    with reading("the saved changes"):
        steps = [str(step) for step in stored.words.get("steps", [])]
        if not steps:
            return [whole]
        codes = stored.arrays["step"][stored.arrays["order"]]
        found = [whole.pick(np.flatnonzero(codes < 0))]
        for code, step in enumerate(steps):
            found.append(replace(whole.pick(np.flatnonzero(codes == code)), kind=TIMEOUT, step=step))
        return found


def _shifted(places: Ints, by: int) -> Ints:
    return np.where(places >= 0, places + by, -1)


def _fixed(changes: ChangeBatch, shift: int) -> Ints:
    """For each variable the places of its events, among those of all batches."""
    columns = [_shifted(changes.rows.at(column), shift) for column in changes.fixed]
    return np.array(columns, np.int64).reshape(len(columns), len(changes))


def _members(changes: ChangeBatch, index: int, shift: int) -> tuple[Ints, Ints]:
    """How many events a repeated variable has in each change, and their places; none where it is not repeated."""
    members = changes.repeated.get(index)
    if members is None:
        return np.zeros(len(changes), np.int64), np.zeros(0, np.int64)
    return np.diff(members.offsets), _shifted(changes.rows.at(members.events), shift)


def _shown(changes: ChangeBatch) -> pa.Table:
    """The rows of events as results show them; texts in full, since batches may have coded them differently."""
    return pa.table(
        {
            name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for name, column in changes.rows.shown.items()
        }
    )
