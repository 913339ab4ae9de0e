"""Parts: the state of a detector as Arrow bytes, cut by key range and time frame.

A part holds events, nothing that depends on the plan's inner order; restoring feeds them again without answering. So
the same parts serve a restart, the splitting and merging of key ranges, and a plan that is optimised differently.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tocsin.codec import Part
from tocsin.encode.content import Words, mixed, words_of
from tocsin.engine.payload import Rows, whole
from tocsin.errors import StateError
from tocsin.events import BEGINNING
from tocsin.items import Ints

if TYPE_CHECKING:
    from tocsin.engine.branch import Branch
    from tocsin.engine.changes import ChangeBatch
    from tocsin.engine.detector import Detector

FORMAT = 1
SUMMARY = "summary"
BUCKETS = 64  # key ranges
EVERYWHERE = -1  # the range of events that belong to every key
INNER = ("#number", "#high", "#low")


# --- saving ------------------------------------------------------------------------------------------------------


def save(detector: Detector, changed_since: int) -> list[Part]:
    parts = [_summary(detector)]
    for (bucket, frame), numbers in _cut(detector).items():
        version = max(int(numbers.max()) + 1, detector.withdrawn)
        if version > changed_since:
            parts.append(Part(f"{bucket}.{frame}", version, _events(detector, numbers), bucket))
    return parts


def _summary(detector: Detector) -> Part:
    ledger = detector.ledger
    state = {
        "format": FORMAT,
        "query": detector.plan.fingerprint,
        "clock": detector.time.clock,
        "ended": detector.time.ended,
        "ordered": detector.ordered,
        "promises": detector.time.guarantees,
        "next": detector.next,
        "eids": detector.eids,
        "seen": detector._seen,
        "matches": detector._matches,
        "retracted": detector._retracted,
        "ledger": [] if ledger is None else [[*key, count, ledger.starts[key]] for key, count in ledger.counts.items()],
        "held": [_coded(held_names(detector, each)) if each.purger.by_type else None for each in detector.branches],
    }
    return Part(SUMMARY, detector.next, sealed(json.dumps(state).encode()))


def held_names(detector: Detector, branch: Branch) -> Words:
    """A name for each answer that waits: what its events are called."""
    pairs = branch.waiting_rows()
    total: Words = np.zeros(len(pairs), np.uint64)
    if len(pairs):
        numbers = pairs[:, 0::2]
        order = np.argsort([branch.block.fixed.index(branch.leaf(id)) for id in branch.program.nest])
        rows = detector.payload.rows(np.unique(numbers))
        high, low = (each.view(np.uint64) for each in rows.names)
        for level in order.tolist():
            at = rows.at(numbers[:, level])
            total = mixed(total * np.uint64(31) + mixed(mixed(high[at]) + low[at]))
    return total


def _coded(names: Words) -> str:
    return b64encode(names.astype("<u8").tobytes()).decode()


def _decoded(text: str) -> Words:
    return np.frombuffer(b64decode(text), "<u8").astype(np.uint64)


def _cut(detector: Detector) -> dict[tuple[int, int], Ints]:
    """Live events by (key range, time frame); an event that stands at leaves of two ranges is in both."""
    keys = dict(detector.plan.key)
    found: dict[tuple[int, int], list[Ints]] = {}
    for branch in detector.branches:
        by_leaf: dict[int, list[Ints]] = {}
        for leaf, begin, end in branch.live_places():
            by_leaf.setdefault(leaf, []).append(branch.H[begin:end, 1].copy())
        for leaf, pieces in by_leaf.items():
            numbers = np.sort(np.concatenate(pieces))
            rows = detector.payload.rows(numbers)
            buckets = _buckets(rows, keys.get(branch.program.leaf_ids[leaf], ()))
            frames = rows.end // (detector.plan.within or 2**40)
            for bucket, frame in {*zip(buckets.tolist(), frames.tolist(), strict=True)}:
                found.setdefault((bucket, frame), []).append(numbers[(buckets == bucket) & (frames == frame)])
    return {place: np.unique(np.concatenate(pieces)) for place, pieces in found.items()}


def _buckets(rows: Rows, attrs: tuple[str, ...]) -> Ints:
    if not attrs:
        return np.full(len(rows.numbers), EVERYWHERE, np.int64)
    total: Words = np.zeros(len(rows.numbers), np.uint64)
    for attr in attrs:
        total = mixed(total * np.uint64(31) + words_of(whole(rows.table.column(attr))))
    return (mixed(total) >> np.uint64(58)).astype(np.int64)


def _events(detector: Detector, numbers: Ints) -> bytes:
    kept = detector.payload.rows(numbers)
    rows, (high, low) = kept.table, kept.names
    for name, column in zip(INNER, (numbers, high, low), strict=True):
        rows = rows.append_column(name, pa.array(column))
    note = {
        "tocsin.format": str(FORMAT),
        "tocsin.query": detector.plan.fingerprint,
        "eid": str(bool(detector.payload.has_eid)),
    }
    sink = pa.BufferOutputStream()
    rows = rows.replace_schema_metadata(note).combine_chunks()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sealed(sink.getvalue().to_pybytes())


def sealed(data: bytes) -> bytes:
    """The data behind a digest of itself, so that damage is noticed."""
    return blake2b(data, digest_size=16).digest() + data


def opened(part: Part) -> bytes:
    data = part.data[16:]
    if blake2b(data, digest_size=16).digest() != part.data[:16]:
        raise StateError(f"part {part.id} of the saved state is damaged", hint="go back to an earlier snapshot")
    return data


# --- loading -----------------------------------------------------------------------------------------------------


def load(detector: Detector, parts: list[Part], answers: list[ChangeBatch] | None = None) -> None:
    """Feed the saved events; the answers to them were given before.

    With `answers` the detector may be of another strategy than the one that saved: it judges all events anew, and
    gives the answers that are due by its own rules.
    """
    if detector.next:
        raise StateError("this detector has seen events already", hint="restore into a new detector")
    summaries = [_read_summary(detector, part) for part in parts if part.id == SUMMARY]
    if not summaries:
        raise StateError("the saved state has no summary part", hint="save and restore all parts together")
    tables = [_read_events(detector, part) for part in parts if part.id != SUMMARY]
    newest = max(summaries, key=lambda state: state["next"])
    if tables:
        _feed(detector, tables, answers)
    _resume(detector, newest, summaries, answers)


def _read_summary(detector: Detector, part: Part) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(opened(part))
        known = (state["format"], state["query"])
    except (ValueError, KeyError, TypeError):
        raise StateError("the saved state is damaged", hint="go back to an earlier snapshot") from None
    if known[0] != FORMAT:
        raise StateError(
            f"the state was saved in format {known[0]}, this version reads format {FORMAT}",
            hint="restore it with the version that saved it, or start afresh",
        )
    if known[1] != detector.plan.fingerprint:
        raise StateError(
            "the state was saved by another query",
            detail="only SELECT may differ between the query that saved a state and the one that restores it",
            hint="restore with the same EVENT, WHERE, WITHIN and PARTITION BY, or start afresh",
        )
    return state


def _read_events(detector: Detector, part: Part) -> pa.Table:
    try:
        table = pa.ipc.open_stream(opened(part)).read_all()
    except (pa.ArrowInvalid, OSError):
        raise StateError(
            f"part {part.id} of the saved state is damaged", hint="go back to an earlier snapshot"
        ) from None
    if (table.schema.metadata or {}).get(b"tocsin.query", b"").decode() != detector.plan.fingerprint:
        raise StateError(f"part {part.id} belongs to another query", hint="restore the parts of one detector only")
    return table


def _feed(detector: Detector, tables: list[pa.Table], answers: list[ChangeBatch] | None) -> None:
    """Push the saved events in canonical order and drop the answers: they were given before."""
    from tocsin.encode import Encoder
    from tocsin.encode.stored import without_nulls

    table = pa.concat_tables(tables, promote_options="permissive")
    has_eid = (tables[0].schema.metadata or {}).get(b"eid") == b"True"
    order = np.lexsort(
        [table.column(name).to_numpy() for name in ("#low", "#high")] + [_ticks(table, "start"), _ticks(table, "end")]
    )
    table = table.take(pa.array(_first_of_each(table, order)))
    high, low = (table.column(name).to_numpy() for name in INNER[1:])
    rows = table.drop_columns(list(INNER)).replace_schema_metadata(None)
    encoder = Encoder.of_payload(detector.plan.schema, detector.types, detector.strings, rows.schema, detector.reads)
    for batch in rows.combine_chunks().to_batches():
        items = encoder.encode(without_nulls(batch))
        items.eid_high, items.eid_low = (
            (np.ascontiguousarray(high), np.ascontiguousarray(low)) if has_eid else (None, None)
        )
        changes = detector.push(items)
        if answers is not None:
            answers += changes


def _ticks(table: pa.Table, name: str) -> Ints:
    column = table.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return column.to_numpy()  # type: ignore[no-any-return]


def _first_of_each(table: pa.Table, order: Ints) -> Ints:
    """Row numbers in order, equal events (same time, type and eid, from overlapping parts) once."""
    keys = list(
        zip(
            table.column("type").to_pylist(), _ticks(table, "end").tolist(), _ticks(table, "start").tolist(),
            table.column("#high").to_pylist(), table.column("#low").to_pylist(), strict=True,
        )
    )  # fmt: skip
    seen: set[Any] = set()
    kept = []
    for row in order.tolist():
        if keys[row] not in seen:
            seen.add(keys[row])
            kept.append(row)
    return np.array(kept, np.int64)


def _resume(
    detector: Detector, newest: dict[str, Any], summaries: list[dict[str, Any]], answers: list[ChangeBatch] | None
) -> None:
    """Set clock and counts; answers that were due at the saved clock were given before it was saved."""
    detector.eids = newest["eids"] if detector.eids is None else detector.eids
    detector.time.clock = max(state["clock"] for state in summaries)
    for state in summaries:  # several states of one stream: what each was promised holds for its own events only
        for type, time in state.get("promises", {}).items():
            known = [each.get("promises", {}).get(type, BEGINNING) for each in summaries]
            detector.time.guarantees[type] = min(time, *known)
    due = [branch.advance(detector.time.clock, newest["ended"]) for branch in detector.branches]
    if answers is not None:
        answers.append(detector._changes(due))
    for number, branch in enumerate(detector.branches):
        coded = [state["held"][number] if "held" in state else None for state in summaries]
        held = [_decoded(each) for each in coded if each is not None]
        if answers is None and branch.purger.by_type and len(held) == len(summaries):
            branch.hold_only(np.isin(held_names(detector, branch), np.concatenate(held)))
    detector.time.ended = newest["ended"]
    detector.next = max(detector.next, newest["next"])
    detector._seen, detector._matches, detector._retracted = (
        sum(state[name] for state in summaries) for name in ("seen", "matches", "retracted")
    )
    if detector.ledger is not None and answers is None:
        detector.ledger.counts.clear()
        detector.ledger.starts.clear()
        for state in summaries:
            for high, low, count, start in state["ledger"]:
                detector.ledger.counts[high, low] = count
                detector.ledger.starts[high, low] = start
