"""A rehearsal of the compiled loops: each runs once for every kind of input, so that all are compiled, or loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from tocsin.compilers import Loops
from tocsin.encode.text_numbers import FewNames, TextNumbers, frozen, text_buffers
from tocsin.items import Ints

LAST, LAST_OF_ANSWERS = "_surveyed", "_widen"  # what is rehearsed last
MORE_THAN_FIT = 1 << 10  # texts for which the table of numbers must grow
MANY_SHOWN = 1 << 12  # rows of a table of matches that are worth loops
CODES = (np.int8, np.int32)  # of the numbers of types
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
        for width in CODES:
            FewNames().number(texts.slice(0, 2), np.empty(2, width))
            FewNames().number(pa.array(["nine bytes", "few"], layout), np.empty(2, width))
    _numbers()


def _numbers() -> None:
    from tocsin.encode import loops

    places: Ints = np.zeros(1, np.int64)
    types, asked, ends = np.zeros(1, np.int32), np.zeros(1, np.bool_), places.copy()
    for codes in (np.zeros(1, width) for width in CODES):
        loops.name_rows(frozen(types), types, asked.copy(), codes.copy())
        loops.places_of(codes, asked, 0, places.copy())
        loops.types_and_ends(codes, types, frozen(ends), places, types.copy(), ends)
        loops.look_up(types, codes, codes.copy())
        for values in (np.zeros(1, np.int64), np.zeros(1, np.float64)):
            loops.places_within(codes, np.zeros(2, np.bool_), asked, values, values, frozen(values), 0, places.copy())
            loops.few_places_within(codes, asked, values, values, frozen(values), 0, places.copy())
            loops.keep_within(frozen(values), 0, values, values, asked, codes, types, places, places.copy())
    loops.look_up(places, types, places.copy())
    for width in WIDTHS:
        loops.look_up_at(places, frozen(np.zeros(1, width)), places, 0, places.copy())
    for values in (np.zeros(1, np.int64), np.zeros(1, np.float64)):
        loops.gather(frozen(values), places, 0, values.copy())
    words = np.zeros(1, np.uint64)
    for layout in (pa.string(), pa.large_string()):
        offsets, data, _ = text_buffers(pa.array(["text"], layout))
        loops.hash_texts(offsets, data, places, 0, words.copy())
    loops.hash_words(words, words.copy())
    loops.merged(places, places[:0], places.copy())
    loops.mark_near(words, places, 0, 1, 0, 0, words.copy())
    loops.keep_near(words, places, frozen(ends), 0, 1, words.copy(), places.copy())
    for width in (np.int32, np.int64):
        loops.ascend(frozen(np.zeros(1, width)))
    loops.surveyed(frozen(places))


LOOPS = Loops(rehearse, Path(__file__).with_name("loops.py"), LAST)


def answer_loops_are_worth(rows: int) -> bool:
    """Whether the loops that write tables of matches are worth their time for so many rows or events."""
    return rows >= MANY_SHOWN and ANSWER_LOOPS.are_worth(rows, MANY_SHOWN)


def rehearse_answers() -> None:
    """Run each loop of `encode/answer_loops` as it is called."""
    from tocsin.encode import answer_loops as loops

    one, words = np.zeros(1, np.int64), np.zeros(1, np.uint64)
    loops.extent(frozen(one), 0, 0)
    loops.mark(frozen(one), 0, words.copy())
    loops.count_below(frozen(words), np.zeros(2, np.int64))
    loops.numbers_of(frozen(words), 0, one.copy())
    loops.ranks(frozen(one), 0, frozen(words), frozen(np.zeros(2, np.int64)), one.copy())
    loops.pick(frozen(one), frozen(one), one.copy())
    for layout, width in ((pa.string(), np.int32), (pa.large_string(), np.int64)):
        offsets, data, bits = text_buffers(pa.array(["text"], layout))
        begins, out = np.zeros(2, width), np.zeros(12, np.uint8)
        loops.take_texts(offsets, data, frozen(one), begins, out)
        loops.place_texts(offsets, frozen(one), begins)
        loops.copy_texts(offsets, data, frozen(one), frozen(begins), out)
        loops.add_texts(offsets, data, bits, 0, words[0], words.copy())
    loops.write_hex(frozen(words), 0, 16, np.zeros(16, np.uint8))
    loops.add_words(frozen(words), words[0], words.copy())
    loops.mix_all(words.copy())
    loops.add_floats(frozen(np.zeros(1)), words[0], words.copy())
    loops.event_words(*[frozen(words)] * 4, True, words[0], words.copy())
    loops.add_events(frozen(one), frozen(words), frozen(words), words.copy(), words.copy())
    loops.tied(frozen(one), frozen(one), np.zeros(1, np.bool_))
    loops.widen(frozen(one), frozen(one), frozen(one), one.copy(), one.copy())


ANSWER_LOOPS = Loops(rehearse_answers, Path(__file__).with_name("answer_loops.py"), LAST_OF_ANSWERS)
