"""Events of a chain in columns: the key, the time and the steps of each, and what aggregates ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin.codec import Scalar, as_shape
from tocsin.items import Bools, Ints
from tocsin.plan.prefix_chain import PrefixChain
from tocsin.select.totals import one_nan

Asked = npt.NDArray[np.object_]
SavedBatch: TypeAlias = tuple[list[int], list[int], list[int], list[int], list[list[Scalar]]]


@dataclass(frozen=True, slots=True)
class KeyedBatch:
    """Events in order of time; `codes` are the numbers of their keys.

    bits   the steps that an event can take: bit m for step m
    asked  for each aggregate what it asks of each event, None for null; empty columns where it asks the match itself
    new    which of them were not counted yet
    """

    codes: Ints
    times: Ints
    bits: Ints
    asked: Sequence[Asked]
    new: Bools

    def __len__(self) -> int:
        return len(self.codes)

    @staticmethod
    def empty(chain: PrefixChain) -> KeyedBatch:
        """No events."""
        nothing = np.zeros(0, np.int64)
        asked = [np.zeros(0, object) for _ in chain.asked]
        return KeyedBatch(nothing, nothing, nothing, asked, np.zeros(0, np.bool_))

    def pick(self, places: Ints) -> KeyedBatch:
        """Some of the events, in the given order."""
        asked = [column[places] if len(column) else column for column in self.asked]
        return KeyedBatch(self.codes[places], self.times[places], self.bits[places], asked, self.new[places])

    def of_keys(self, codes: Ints) -> KeyedBatch:
        """The events of some keys."""
        return self.pick(np.flatnonzero(np.isin(self.codes, codes)))

    def by_key(self) -> KeyedBatch:
        """The events by key; those of one key stay in order of time."""
        if (self.codes[1:] >= self.codes[:-1]).all():
            return self
        return self.pick(np.argsort(self.codes, kind="stable"))

    def saved(self) -> list[Any]:
        """The events as JSON."""
        columns = [self.codes, self.times, self.bits, self.new.astype(np.int64)]
        return [*(column.tolist() for column in columns), [column.tolist() for column in self.asked]]

    @staticmethod
    def restored(saved: object, keys: int) -> KeyedBatch:
        """The events again, of so many keys."""
        *numbers, values = as_shape(SavedBatch, saved)
        codes, times, bits, new = (np.array(column, np.int64) for column in numbers)
        asked = [as_objects([one_nan(value) for value in column]) for column in values]
        if len({len(codes), len(times), len(bits), len(new)}) > 1 or not ((codes >= 0) & (codes < keys)).all():
            raise ValueError("the events of a window do not fit together")
        return KeyedBatch(codes, times, bits, asked, new.astype(np.bool_))


def as_objects(values: Sequence[Any]) -> Asked:
    """Values as a column that keeps them as they are."""
    column: Asked = np.empty(len(values), object)
    column[:] = values
    return column


def joined(batches: Sequence[KeyedBatch]) -> KeyedBatch:
    """Batches one behind the other."""
    if len(batches) == 1:
        return batches[0]
    asked = [np.concatenate(columns) for columns in zip(*(each.asked for each in batches), strict=True)]
    return KeyedBatch(
        np.concatenate([each.codes for each in batches]),
        np.concatenate([each.times for each in batches]),
        np.concatenate([each.bits for each in batches]),
        asked,
        np.concatenate([each.new for each in batches]),
    )
