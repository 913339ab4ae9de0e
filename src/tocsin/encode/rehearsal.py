"""A rehearsal of the compiled loops: each runs once for every kind of input, so that all are compiled, or loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from tocsin.compilers import Loops
from tocsin.encode.text_numbers import FewNames, TextNumbers, frozen
from tocsin.items import Ints

LAST = "_surveyed"  # what is rehearsed last
MORE_THAN_FIT = 1 << 10  # texts for which the table of numbers must grow
WIDTHS = (np.int8, np.int16, np.int32, np.int64)  # of the indices of a dictionary


def loops_are_worth(rows: int, least: int) -> bool:
    """Whether the compiled loops are there, and so many rows are worth them."""
    return rows >= least and LOOPS.are_worth(rows, least)


def rehearse() -> None:
    """Run each loop for every layout of texts and every width of numbers that it is used for."""
    for layout in (pa.string(), pa.large_string()):
        texts = pa.array([*map(str, range(MORE_THAN_FIT)), None, "longer than sixteen bytes"], layout)
        numbers = TextNumbers()
        numbers.number(texts)
        numbers.number(texts, np.arange(2))
        FewNames().number(texts.slice(0, 2), np.empty(2, np.int32))
    _numbers()


def _numbers() -> None:
    from tocsin.encode import loops

    places: Ints = np.zeros(1, np.int64)
    codes, asked, ends = np.zeros(1, np.int32), np.zeros(1, np.bool_), places.copy()
    loops.places_of(codes, asked, 0, places.copy())
    loops.read_rows(codes, codes, frozen(ends), 0, places.copy(), codes.copy(), ends)
    loops.look_up(codes, codes, codes.copy())
    loops.look_up(places, codes, places.copy())
    for width in WIDTHS:
        loops.look_up_at(places, frozen(np.zeros(1, width)), places, 0, places.copy())
    for values in (np.zeros(1, np.int64), np.zeros(1, np.float64)):
        loops.gather(frozen(values), places, 0, values.copy())
        loops.keep_within(frozen(values), 0, values, values, asked, places.copy(), codes.copy(), ends)
    loops.surveyed(frozen(places))


LOOPS = Loops(rehearse, Path(__file__).with_name("loops.py"), LAST)
