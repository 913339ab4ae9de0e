"""Order of completion, for whole batches of matches: by their last events, then by their first, then by all others.

Events are ranked by their numbers alone (times, eids, types), so the order of matches does not depend on what other
matches there are, nor on how they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tocsin.engine.changes import ChangeBatch
from tocsin.items import Bools, Ints

BEHIND_ALL = np.iinfo(np.int64).max


def in_order(batches: Sequence[ChangeBatch], codes: Sequence[Ints] | None = None) -> Ints:
    """The changes of some batches in order of completion, each match once, without those that were retracted.

    They are numbered through all batches. What came last about a match counts. Where `codes` are given, one for each
    change, only changes of one code need to be in order.
    """
    ends, starts = ranks(batches, codes)
    shifts = np.cumsum([0, *(len(each.rows.numbers) for each in batches)])
    shown = [_Ranked(each, int(shift)) for each, shift in zip(batches, shifts, strict=False)]
    last = np.concatenate([each.furthest(ends, last=True) for each in shown])
    canonical = np.empty(len(ends), np.int64)  # the first event is the one that starts first; their order is canonical
    canonical[starts] = ends
    first = canonical[np.concatenate([each.furthest(starts, last=False) for each in shown])]
    gone = any((each.op < 0).any() for each in batches)
    both: Ints = last * (int(first.max(initial=0)) + 1) + first
    if (both[1:] > both[:-1]).all() and not gone:
        return np.arange(len(both))
    order = np.argsort(both, kind="stable")
    ranked = both[order]
    if not gone and (ranked[1:] > ranked[:-1]).all():
        return order
    by_variable = [np.concatenate(columns) for columns in zip(*(each.variables(ends) for each in shown), strict=True)]
    if any(each.repeated for each in batches):
        by_variable = [_ranked_lists(by_variable)]
    order = np.lexsort((*by_variable[::-1], both))
    closes = np.ones(len(order), np.bool_)  # the last that came about a match
    closes[:-1] = _differ((both, *by_variable), order)[1:]
    op = np.concatenate([each.op for each in batches])
    found: Ints = order[closes & (op[order] > 0)]
    return found


def ranks(batches: Sequence[ChangeBatch], codes: Sequence[Ints] | None = None) -> tuple[Ints, Ints]:
    """The place of each event of some batches in canonical order, and in order of starts, then ends.

    Where `codes` are given, only events in changes of one code need to be in order.
    """
    rows = [each.rows for each in batches]
    start, end = np.concatenate([each.start for each in rows]), np.concatenate([each.end for each in rows])
    owners = np.zeros(len(end), np.int64) if codes is None else _owners(batches, codes)
    tied = _tied(start, end, owners)
    names = _names(batches, tied)
    points = bool((start == end).all())
    ends = _places((start, end), tied, names)
    return ends, ends if points else _places((end, start), tied, names)


def first_events(batch: ChangeBatch) -> Ints:
    """The first event of each match, as a place among the rows."""
    _, starts = ranks([batch])
    places = np.empty(len(starts), np.int64)
    places[starts] = np.arange(len(starts))
    found: Ints = places[_Ranked(batch, 0).furthest(starts, last=False)]
    return found


def _owners(batches: Sequence[ChangeBatch], codes: Sequence[Ints]) -> Ints:
    """For each event the code of the changes that it is in; zeros where one event is in changes of several codes."""
    found = []
    for batch, mine in zip(batches, codes, strict=True):
        owner, places = np.full(len(batch.rows.numbers), -1), [batch.rows.at(column) for column in batch.fixed]
        bound = [(at[there], mine[there]) for at in places if (there := at >= 0).any()]
        for at, code in bound:
            owner[at] = code
        if batch.repeated or any((owner[at] != code).any() for at, code in bound):
            return np.zeros(sum(len(each.rows.numbers) for each in batches), np.int64)
        found.append(owner)
    return np.concatenate(found)


def _tied(start: Ints, end: Ints, owners: Ints) -> Bools:
    """Which events share their times with another one of their owner."""
    columns = (owners, end) if (start == end).all() else (owners, start, end)
    order = np.lexsort(columns)
    alike = ~_differ(columns, order)
    alike[:-1] |= alike[1:]
    tied = np.zeros(len(order), np.bool_)
    tied[order] = alike
    return tied


def _names(batches: Sequence[ChangeBatch], tied: Bools) -> tuple[Ints, ...]:
    """The two numbers of the eid, and the type, of events that are tied; to find them takes a while."""
    found, stop = [], 0
    for batch in batches:
        mine = tied[stop : stop + len(batch.rows.numbers)]
        stop += len(mine)
        rows = batch.payload.rows(batch.rows.numbers[mine])
        found.append((*rows.names, rows.types.astype(np.int64)))
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))


def _places(times: tuple[Ints, Ints], tied: Bools, names: tuple[Ints, ...]) -> Ints:
    """The place of each event by its times, the second first, then by its name; an event that is there twice has one.

    Events that are not tied need no names: they stand as they came.
    """
    among = np.arange(len(tied))
    if tied.any():
        which = np.flatnonzero(tied)
        columns = (*names[::-1], *(time[which] for time in times))
        order = np.lexsort(columns)
        firsts = np.where(_differ(columns, order), np.arange(len(order)), 0)
        among[which[order]] = which[np.maximum.accumulate(firsts)]
    columns = (among, *times)
    order = np.lexsort(columns)
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(_differ(columns, order)) - 1
    return places


def _differ(columns: Sequence[Ints], order: Ints) -> Bools:
    """Which rows, in an order, differ from the row before."""
    found = np.ones(len(order), np.bool_)
    found[1:] = np.logical_or.reduce([column[order[1:]] != column[order[:-1]] for column in columns])
    return found


def _ranked_lists(columns: list[Ints]) -> Ints:
    """One number for each row of columns of lists, which are ordered as lists."""
    rows = list(zip(*columns, strict=True))
    places = {row: place for place, row in enumerate(sorted(set(rows)))}
    return np.array([places[row] for row in rows], np.int64)


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The events of the matches of one batch, as places in the ranks."""

    batch: ChangeBatch
    shift: int

    def furthest(self, ranks: Ints, *, last: bool) -> Ints:
        """The greatest or the least rank among the events of each match."""
        batch, nobody = self.batch, -1 if last else BEHIND_ALL
        found = np.full(len(batch), nobody)
        for index in batch.visible:
            if index in batch.repeated:
                members = batch.repeated[index]
                owner = np.repeat(np.arange(len(batch)), np.diff(members.offsets))
                mine = ranks[self.shift + batch.rows.at(members.events)]
                (np.maximum if last else np.minimum).at(found, owner, mine)
            else:
                mine = self._single(index, ranks, nobody)
                found = np.maximum(found, mine) if last else np.minimum(found, mine)
        return found

    def _single(self, index: int, ranks: Ints, nobody: int) -> Ints:
        numbers = self.batch.fixed[index]
        mine = ranks[self.shift + np.maximum(self.batch.rows.at(numbers), 0)]
        bound = numbers >= 0
        return mine if bound.all() else np.where(bound, mine, nobody)

    def variables(self, ranks: Ints) -> list[Ints]:
        """For each variable the rank of its event, -1 for none; in a batch with repeated ones tuples of ranks."""
        batch = self.batch
        if not batch.repeated:
            return [self._single(index, ranks, -1) for index in batch.visible]
        found = []
        for index in batch.visible:
            column = np.empty(len(batch), object)
            column[:] = [tuple(ranks[self.shift + at] for at in each) for each in batch.events_at(index)]
            found.append(column)
        return found
