"""Forget texts that nobody uses any more, now and then: streams with ever new names keep only those of live events."""

from __future__ import annotations

from tocsin.encode.batch import Encoder
from tocsin.engine.operator import Operator
from tocsin.items import Strings

FEW = 1024  # new texts that are worth a look at all of them
SPARSE = 8  # a look costs so many free codes as much as one text


def patience(kept: int, codes: int) -> int:
    """How many new texts to wait for, if so many were kept and so many codes exist: then looking costs little each."""
    return max(FEW, kept, codes // SPARSE)


class TextMemory:
    """The texts of a graph, and when to look at them again: once `strings.added` is beyond `enough`."""

    def __init__(self, strings: Strings, encoder: Encoder) -> None:
        self._strings, self._encoder = strings, encoder
        self.enough = patience(0, 0)

    def forget(self, operator: Operator) -> None:
        """Keep only the texts that an operator uses.

        While most of them are a dictionary that the batches at hand share, all are kept: it would be read anew for each
        batch.
        """
        strings = self._strings
        if 2 * self._encoder.remembered <= len(strings):
            strings.keep_only(operator.texts_in_use)
        self.enough = strings.added + patience(len(strings), len(strings.texts))
