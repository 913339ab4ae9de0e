"""Sorted runs: the events that are stored outside of detectors; new ones in memory, then on disk, found by time.

What comes late is written in runs, each sorted and cut into pieces; runs of about the same size are merged, so that a
stretch of time never lies in many pieces. Nothing is changed in place: if the disk fails, everything is as it was.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from tocsin.items import Ints
from tocsin.spill.files import NUMBER, Piece, Store, between, ints, joined

SMALLEST = 4096  # bytes of a piece that is one of several
RUNS = 8  # of one level, before they are merged
SMALL, LARGE = 1 / 100, 1 / 12  # of the memory limit: a piece of what came late, and of merged runs


class SortedRuns:
    """Pieces of runs; those that are still in memory are the tail."""

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int) -> None:
        self.store, self.limit = Store(folder), limit
        self.pieces: list[Piece] = []
        self.rows = 0
        self.tail_bytes = 0

    def keep(self, table: pa.Table, version: int) -> None:
        """Store rows in memory for now."""
        self._add([self.store.keep(table, version)])

    def write(self, table: pa.Table, version: int, size: float) -> None:
        """Store rows on disk, as pieces of about `size` bytes."""
        self._add(self.store.write(cut_up(table, size), version))

    def take_up(self, table: pa.Table, version: int, place: tuple[int, int, int]) -> None:
        """Store a piece of a saved state under the id, level and run that it had."""
        id, level, run = place
        self._add([replace(piece, id=id) for piece in self.store.write([table], version, level=level, run=run)])

    def within(self, low: int, high: int) -> list[Piece]:
        """The pieces with rows that may end in [low, high], those first that came first."""
        return [piece for piece in self.pieces if piece.first <= high and piece.last >= low]

    def amount(self, low: int, high: int) -> tuple[float, float]:
        """Bytes and rows that end in [low, high], if rows lie evenly in their pieces."""
        size = count = 0.0
        for piece in self.within(low, high):
            length = piece.last - piece.first + 1
            share = (min(high, piece.last) - max(low, piece.first) + 1) / length
            size += share * piece.size
            count += share * piece.count
        return size, count

    def read(self, piece: Piece, low: int, high: int) -> pa.RecordBatch:
        return between(self.store.read(piece), low, high)

    def flush(self, version: int) -> None:
        """Write the tail."""
        tail = [piece for piece in self.pieces if piece.rows is not None]
        tables = joined([self.store.read(piece) for piece in tail])
        pieces = [piece for table in tables for piece in cut_up(table, SMALL * self.limit)]
        self._exchange(tail, self.store.write(pieces, version, level=1))
        level = 1
        while len({piece.run for piece in self._of(level)}) >= RUNS:
            self._merge(level, version)
            level += 1

    def _of(self, level: int) -> list[Piece]:
        return [piece for piece in self.pieces if piece.level == level]

    def _merge(self, level: int, version: int) -> None:
        """Make one run of all runs of a level, a stretch of time after the other."""
        gone = self._of(level)
        size = self.limit * min(LARGE, SMALL * RUNS**level)
        fresh: list[Piece] = []
        try:
            for low, high in _stretches(gone, self.limit * LARGE):
                some = [self.read(piece, low, high) for piece in gone if piece.first <= high and piece.last >= low]
                tables = [each for table in joined(some) for each in cut_up(table, size)]
                run = fresh[0].run if fresh else None
                fresh += self.store.write(tables, version, level=level + 1, run=run)
        except BaseException:
            self.store.drop(fresh)
            raise
        self._exchange(gone, fresh)

    def _exchange(self, gone: Sequence[Piece], fresh: list[Piece]) -> None:
        self.drop(gone)
        self._add(fresh)

    def _add(self, pieces: list[Piece]) -> None:
        self.pieces = sorted([*self.pieces, *pieces], key=lambda piece: piece.oldest)
        self.rows += sum(piece.count for piece in pieces)
        self.tail_bytes += sum(piece.size for piece in pieces if piece.rows is not None)

    def drop(self, gone: Sequence[Piece]) -> None:
        """Forget pieces."""
        if gone:
            there = {piece.id for piece in gone}
            self.pieces = [piece for piece in self.pieces if piece.id not in there]
            self.rows -= sum(piece.count for piece in gone)
            self.tail_bytes -= sum(piece.size for piece in gone if piece.rows is not None)
            self.store.drop(gone)

    def drop_before(self, time: int) -> None:
        """Forget the pieces that lie before a time as a whole."""
        self.drop([piece for piece in self.pieces if piece.last < time])


def _stretches(pieces: Sequence[Piece], size: float) -> list[tuple[int, int]]:
    """All the time of some pieces, cut so that about `size` bytes lie in each stretch."""
    lows: list[int] = []
    total = size
    for piece in sorted(pieces, key=lambda piece: piece.first):
        total += piece.size
        if total > size and (not lows or piece.first > lows[-1]):
            lows.append(piece.first)
            total = piece.size
    return list(zip(lows, [*(low - 1 for low in lows[1:]), max(piece.last for piece in pieces)], strict=True))


def cut_up(table: pa.Table, size: float) -> list[pa.Table]:
    """Rows in order, as tables of about `size` bytes."""
    rows = max(1, int(max(size, SMALLEST) * len(table)) // max(1, table.nbytes))
    return [table.slice(begin, rows) for begin in range(0, len(table), rows)]


def split_at(rows: pa.RecordBatch, known: Ints) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows that came before a number, given for each of them, and the others."""
    new = ints(rows, NUMBER) >= known
    if not new.any():
        return rows, rows.slice(0, 0)
    if new.all():
        return rows.slice(0, 0), rows
    return rows.filter(pa.array(~new)), rows.filter(pa.array(new))
