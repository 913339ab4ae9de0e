"""Items: a columnar batch in arrival order, the only thing a detector eats; and the dictionary of its texts.

Inside, every value is an int64 or a float64: texts are dictionary codes, booleans 0/1, decimals whole numbers of
10**-scale, timestamps microseconds. `encode.py` makes Items from Arrow and from Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.schema import Kind

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.int32]

NO_TEXT = -1  # the code of a null text


@dataclass(slots=True)
class Column:
    """One attribute of every row: int64 or float64 values, and where they are not null (None: nowhere null)."""

    kind: Kind
    values: Ints | Floats
    valid: Bools | None = None
    scale: int = 0


@dataclass(slots=True)
class Items:
    """Rows in arrival order.

    types    code of each row's type in the encoder's list of types; -1 for a type that nobody asked for
    eid_high, eid_low  see `events.eid_number`; None if the input has no eid
    columns  attributes by name, only those that were asked for
    payload  the rows as they came, columns `type start end [eid] [source seq arrival]` and then all attributes,
             from which results are built; same length and order as the rest
    signs    +1 an event, -1 the withdrawal of an event that came before; None: all +1
    """

    types: Codes
    start: Ints
    end: Ints
    eid_high: Ints | None
    eid_low: Ints | None
    columns: dict[str, Column]
    payload: pa.RecordBatch
    signs: npt.NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self.types)


def is_sorted(values: Ints) -> bool:
    """Whether no value is smaller than the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def clock_before(clock: int, end: Ints) -> Ints:
    """For each row of a batch where the clock stands when it comes: at the largest end before it."""
    before: Ints = np.maximum.accumulate(np.concatenate(([clock], end)))[:-1]
    return before


class Strings:
    """Texts as codes 0, 1, 2, ...; a code stays the same while anyone uses it, then may be given to another text."""

    __slots__ = ("_codes", "_free", "added", "texts", "version")

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._free: list[int] = []
        self.texts: list[str | None] = []
        self.added = 0  # grows with every new text
        self.version = 0  # changes when codes may have been given away

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, text: str | None) -> int:
        """The code of a text, a new one if needed."""
        if text is None:
            return NO_TEXT
        code = self._codes.get(text)
        if code is None:
            if self._free:
                code = self._free.pop()
                self.texts[code] = text
            else:
                code = len(self.texts)
                self.texts.append(text)
            self._codes[text] = code
            self.added += 1
        return code

    def text(self, code: int) -> str | None:
        return None if code < 0 else self.texts[code]

    def keep_only(self, live: Iterable[int]) -> None:
        """Forget every text whose code is not in `live`, and reuse its code."""
        keep = set(live)
        self.version += 1
        for text, code in list(self._codes.items()):
            if code not in keep:
                del self._codes[text]
                self.texts[code] = None
                self._free.append(code)
