"""Rows of kinds `expected`, `unconfirmed` and `violated`: what is told of traces, as columns of keys and events."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.encode.content import Words
from tocsin.engine.changes import ChangeBatch, Members, arrow_type
from tocsin.engine.kinds import EXPECTED_MATCH, UNCONFIRMED, VIOLATED
from tocsin.engine.number_set import distinct
from tocsin.engine.payload import Rows, View
from tocsin.functions import Function
from tocsin.items import Ints
from tocsin.plan.block import Plan
from tocsin.select.key_codes import KeyCodes

OWN = ("constraint", "key", "reason", "event", "events")  # columns of their own, null in other rows
KINDS = (EXPECTED_MATCH, VIOLATED, UNCONFIRMED)
REASONS = (None, "unexpected", "tie", "incomplete")
ALL = -1  # a row is about all constraints of the query together
NOBODY = -1


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One row, for those who look at rows one by one.

    constraint  what the row is about; `key`: the values that all events of the trace share
    event       the eid of the event that decided; None: the trace has ended
    events      of an expected match: the eids of the events so far that may stand in it
    """

    kind: str
    constraint: str
    key: tuple[Any, ...]
    number: int
    start: int
    end: int
    known_at: int
    event: Any = None
    events: tuple[Any, ...] | None = None
    reason: str | None = None


@dataclass(slots=True)
class TraceColumns:
    """Rows of one or several kinds.

    kinds       places in KINDS; `reasons`: in REASONS; `constraints`: among those of the query, or ALL
    codes       of the keys; `numbers`: of the traces among those of their keys
    start, end  of the trace so far
    event       the number of the event that decided, or NOBODY; `members`: those that may stand in an expected match
    before      texts of eids that stand before the members, by row: they come from before a restart
    """

    kinds: Ints
    reasons: Ints
    constraints: Ints
    codes: Ints
    numbers: Ints
    start: Ints
    end: Ints
    event: Ints
    members: Members
    before: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.codes)

    @staticmethod
    def of(count: int, **columns: Any) -> TraceColumns:
        """So many rows; what is not given is the same in all of them, or nothing."""
        usual = {"reasons": 0, "constraints": ALL, "event": NOBODY, **columns}
        given = {
            name: np.ascontiguousarray(np.broadcast_to(np.asarray(value, np.int64), count))
            for name, value in usual.items() if name not in ("members", "before")
        }  # fmt: skip
        members = columns.get("members") or Members(np.zeros(count + 1, np.int64), np.zeros(0, np.int64))
        return TraceColumns(**given, members=members, before=columns.get("before", {}))

    def pick(self, keep: Ints) -> TraceColumns:
        """Some of the rows, in the given order."""
        counts = np.diff(self.members.offsets)[keep]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        shift = np.repeat(self.members.offsets[:-1][keep] - offsets[:-1], counts)
        events = self.members.events[np.arange(len(shift)) + shift]
        before = {} if not self.before else {
            at: self.before[row] for at, row in enumerate(keep.tolist()) if row in self.before
        }  # fmt: skip
        rest = {name: getattr(self, name)[keep] for name in PLAIN}
        return TraceColumns(**rest, members=Members(offsets, events), before=before)


PLAIN = ("kinds", "reasons", "constraints", "codes", "numbers", "start", "end", "event")


def joined(pieces: list[TraceColumns]) -> TraceColumns:
    """The rows of several, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    counts = np.concatenate([np.diff(piece.members.offsets) for piece in pieces])
    events = np.concatenate([piece.members.events for piece in pieces])
    before: dict[int, tuple[str, ...]] = {}
    at = 0
    for piece in pieces:
        before |= {at + row: eids for row, eids in piece.before.items()}
        at += len(piece)
    members = Members(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), events)
    rest = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in PLAIN}
    return TraceColumns(**rest, members=members, before=before)


@dataclass
class TraceRows(ChangeBatch):
    """Changes that are about traces, all of one kind."""

    keys: KeyCodes = None  # type: ignore[assignment]
    told: TraceColumns = None  # type: ignore[assignment]

    @staticmethod
    def of(
        plan: Plan, told: TraceColumns, keys: KeyCodes, payload: View, functions: Mapping[str, Function]
    ) -> TraceRows:
        """The rows as changes of a query; they are all of one kind, and there are some."""
        nothing: Ints = np.full(len(told), -1, np.int64)
        members = Members(np.zeros(len(told) + 1, np.int64), np.zeros(0, np.int64))
        repeated = {at: members for at, variable in enumerate(plan.variables) if variable.repeated}
        fixed = [nothing for _ in plan.variables]
        kind = KINDS[int(told.kinds[0])]
        ops = np.ones(len(told), np.int8)
        return TraceRows(plan, ops, told.end, fixed, repeated, payload, functions, kind, keys=keys, told=told)

    def pick(self, keep: Ints) -> TraceRows:
        found = super().pick(keep)
        assert isinstance(found, TraceRows)
        return replace(found, told=self.told.pick(keep))

    def between(self, begin: int, end: int) -> TraceRows:
        return self.pick(np.arange(begin, end))

    def renumbered(self, numbers: Ints) -> TraceRows:  # noqa: ARG002 - its events have numbers of their own
        return self

    @cached_property
    def rows(self) -> Rows:
        asked = distinct([self.told.event, self.told.members.events])
        return self.payload.rows(asked)

    @cached_property
    def span(self) -> tuple[Ints, Ints]:
        return self.told.start, self.told.end

    @cached_property
    def names(self) -> list[str]:
        """The constraint that each row is about."""
        assert self.plan.under is not None
        each = [constraint.name for constraint in self.plan.under.constraints]
        return [", ".join(each) if at == ALL else each[at] for at in self.told.constraints.tolist()]

    @cached_property
    def key_values(self) -> list[tuple[Any, ...]]:
        return self.keys.some(self.told.codes)

    @cached_property
    def identity(self) -> tuple[Words, Words]:
        """128 bits per row: what it is about, the key and the trace; an expected match and its end share them."""
        own = self.kind == VIOLATED
        said = zip(self.names, self.key_values, self.told.numbers.tolist(), strict=True)
        names = b"".join(
            blake2b(repr((self.plan.fingerprint, own, name, key, number)).encode(), digest_size=16).digest()
            for name, key, number in said
        )
        words = np.frombuffer(names, ">u8").astype(np.uint64).reshape(len(self), 2)
        return words[:, 0], words[:, 1]

    @cached_property
    def _eid_lists(self) -> tuple[list[Any], list[Any]]:
        """The eids of the events that decided, and of all that may stand in expected matches."""
        if not len(self.rows.numbers):
            return [None] * len(self), []
        event, members = (self._eids(numbers).to_pylist() for numbers in (self.told.event, self.told.members.events))
        return event, members

    @property
    def traces(self) -> list[TraceRow]:
        """The rows one by one."""
        told, (decided, members) = self.told, self._eid_lists
        expected, before = self.kind == EXPECTED_MATCH, told.before
        return [
            TraceRow(
                self.kind, name, key, number, start, end, end, event,
                (*before.get(at, ()), *members[low:high]) if expected else None, REASONS[reason],
            )
            for at, (name, key, number, start, end, event, (low, high), reason) in enumerate(
                zip(
                    self.names, self.key_values, told.numbers.tolist(), told.start.tolist(), told.end.tolist(),
                    decided, pairwise(told.members.offsets.tolist()), told.reasons.tolist(), strict=True,
                )
            )
        ]  # fmt: skip

    def table(self, names: Collection[str] | None = None) -> pa.Table:  # noqa: ARG002 - all are made
        """The rows, with the columns of their own; those of variables are null."""
        table = super().table()
        for name in OWN:
            if name not in table.schema.names:
                table = table.append_column(name, self._own(name))
        return table

    def _own(self, name: str) -> pa.Array:
        decided, members = self._eid_lists
        if name == "constraint":
            return pa.array(self.names, pa.string())
        if name == "key":
            return pa.array([", ".join(map(str, key)) for key in self.key_values], pa.string())
        if name == "reason":
            return pa.array([REASONS[at] for at in self.told.reasons.tolist()], pa.string())
        if name == "event":
            return pa.array([None if eid is None else str(eid) for eid in decided], pa.string())
        if self.kind != EXPECTED_MATCH:
            return pa.nulls(len(self), pa.list_(pa.string()))
        lists = [
            [*self.told.before.get(at, ()), *map(str, members[low:high])]
            for at, (low, high) in enumerate(pairwise(self.told.members.offsets.tolist()))
        ]
        return pa.array(lists, pa.list_(pa.string()))

    def selected(self, output: Any) -> pa.Array:
        return pa.nulls(len(self), arrow_type(output.expr.kind, output.expr.scale))
