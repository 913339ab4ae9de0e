"""Compiled loops that write tables of matches: ids, texts and numbers of events; imported when first needed.

None of them holds the interpreter's lock. Each gives what the plain code beside its caller gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from tocsin.encode.loops import compiled, eight_bytes, inlined

NOTHING, ONE = np.uint64(0), np.uint64(1)
FNV_BASIS, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
TWENTY_SEVEN, THIRTY, THIRTY_ONE = np.uint64(27), np.uint64(30), np.uint64(31)
FOUR, EIGHT, SIXTEEN, THIRTY_TWO, SIXTY_THREE = map(np.uint64, (4, 8, 16, 32, 63))
PAIR, LOWER = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)  # some bits of a word, or of each part of it
BYTES, NIBBLES = np.uint64(0x000000FF000000FF), np.uint64(0x000F000F000F000F)
SIXES, EACH, ZEROS = np.uint64(0x0606060606060606), np.uint64(0x0101010101010101), np.uint64(0x3030303030303030)
TO_LETTERS = np.uint64(39)  # from the character behind "9" to "a"


def _ones(context: Any, word: Any) -> Any:  # noqa: ARG001 - as Numba calls it
    """How many bits of a word are set."""

    def code(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), code


def _zeros_below(context: Any, word: Any) -> Any:  # noqa: ARG001
    """Which bit of a word is the first that is set; some must be."""

    def code(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], target.get_constant(types.boolean, 1))

    return types.uint64(types.uint64), code


def _put_eight_bytes(context: Any, data: Any, place: Any, word: Any) -> Any:  # noqa: ARG001
    """Write a number as eight bytes of an array of bytes, wherever they lie."""

    def code(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = target.make_array(signature.args[0])(target, builder, arguments[0])
        kind = target.get_value_type(types.uint64)
        where = builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())
        builder.store(arguments[2], where, align=1)
        return target.get_dummy_value()

    return types.void(data, types.intp, types.uint64), code


def _bits_of(context: Any, value: Any) -> Any:  # noqa: ARG001
    """The bits of a float as a number."""

    def code(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], target.get_value_type(types.uint64))

    return types.uint64(types.float64), code


ones: Any = intrinsic(_ones)
bits_of: Any = intrinsic(_bits_of)
zeros_below: Any = intrinsic(_zeros_below)
put_eight_bytes: Any = intrinsic(_put_eight_bytes)


def _mix(value: Any) -> Any:
    """`events.mix`."""
    value = (value ^ (value >> THIRTY)) * FIRST_FACTOR
    value = (value ^ (value >> TWENTY_SEVEN)) * SECOND_FACTOR
    return value ^ (value >> THIRTY_ONE)


mix: Any = inlined(_mix)

# --- sets of numbers -----------------------------------------------------------------------------------------------


def _extent(values: Any, low: Any, high: Any) -> Any:
    """Extend a range (smallest, largest) by some numbers; negative ones do not count."""
    for at in range(len(values)):
        value = values[at]
        if value >= 0:
            low, high = min(low, value), max(high, value)
    return low, high


extent: Any = compiled(_extent)


def _mark(values: Any, low: Any, bits: Any) -> None:
    """Set the bit of each number, of which `low` is the smallest; negative ones have none."""
    for at in range(len(values)):
        value = values[at]
        if value >= 0:
            bits[(value - low) >> 6] |= ONE << (np.uint64(value - low) & SIXTY_THREE)


mark: Any = compiled(_mark)


def _count_below(bits: Any, below: Any) -> None:
    """How many bits are set in the words before each word, and in all of them."""
    total = np.int64(0)
    for at in range(len(bits)):
        below[at] = total
        total += np.int64(ones(bits[at]))
    below[len(bits)] = total


count_below: Any = compiled(_count_below)


def _numbers_of(bits: Any, low: Any, out: Any) -> None:
    """The numbers whose bits are set, in order."""
    count = 0
    for at in range(len(bits)):
        word = bits[at]
        while word != NOTHING:
            out[count] = low + 64 * at + np.int64(zeros_below(word))
            word &= word - ONE
            count += 1


numbers_of: Any = compiled(_numbers_of)


def _ranks(values: Any, low: Any, bits: Any, below: Any, out: Any) -> None:
    """The rank of each number in the set: how many of its members are smaller; -1 for negative numbers."""
    for at in range(len(values)):
        value = values[at]
        if value < 0:
            out[at] = -1
        else:
            place = value - low
            before = bits[place >> 6] & ((ONE << (np.uint64(place) & SIXTY_THREE)) - ONE)
            out[at] = below[place >> 6] + np.int64(ones(before))


ranks: Any = compiled(_ranks)

# --- columns -------------------------------------------------------------------------------------------------------


def _pick(values: Any, places: Any, out: Any) -> None:
    """The values at some places; -1 where the place is negative."""
    for at in range(len(places)):
        place = places[at]
        out[at] = values[place] if place >= 0 else -1


pick: Any = compiled(_pick)


def _take_texts(offsets: Any, data: Any, places: Any, begins: Any, out: Any) -> Any:
    """Write the texts at some places one behind the other, and where each begins; how many bytes, -1: no room.

    Bytes are written eight at a time, so there must be room for eight more.
    """
    to = np.int64(0)
    for at in range(len(places)):
        place = places[at]
        first, last = np.int64(offsets[place]), np.int64(offsets[place + 1])
        begins[at], stop = to, to + last - first
        if stop + 8 > len(out):
            return -1
        while to < stop and first + 8 <= len(data):
            put_eight_bytes(out, to, eight_bytes(data, first))
            first, to = first + 8, to + 8
        while to < stop:
            out[to] = data[first]
            first, to = first + 1, to + 1
        to = stop
    begins[len(places)] = to
    return to


take_texts: Any = compiled(_take_texts)


def _place_texts(offsets: Any, places: Any, out: Any) -> Any:
    """Where each of the texts at some places begins and ends if they stand one behind the other; bytes in all."""
    total = np.int64(0)
    for at in range(len(places)):
        out[at] = total
        place = places[at]
        total += np.int64(offsets[place + 1]) - np.int64(offsets[place])
    out[len(places)] = total
    return total


place_texts: Any = compiled(_place_texts)


def _copy_texts(offsets: Any, data: Any, places: Any, begins: Any, out: Any) -> None:
    """Write the texts at some places one behind the other; there must be room for eight bytes more."""
    for at in range(len(places)):
        first, last, to = np.int64(offsets[places[at]]), np.int64(offsets[places[at] + 1]), np.int64(begins[at])
        while first < last and first + 8 <= len(data):
            put_eight_bytes(out, to, eight_bytes(data, first))
            first, to = first + 8, to + 8
        while first < last:
            out[to] = data[first]
            first, to = first + 1, to + 1


copy_texts: Any = compiled(_copy_texts)


def _eight_digits(half: Any) -> Any:
    """The hexadecimal digits of 32 bits as eight bytes, the first digit in the lowest, all at once."""
    word = (half >> SIXTEEN) | ((half & PAIR) << THIRTY_TWO)  # what is written first goes to the lowest place
    word = ((word >> EIGHT) & BYTES) | ((word & BYTES) << SIXTEEN)
    word = ((word >> FOUR) & NIBBLES) | ((word & NIBBLES) << EIGHT)
    letters = ((word + SIXES) >> FOUR) & EACH
    return word + ZEROS + letters * TO_LETTERS


eight_digits: Any = inlined(_eight_digits)


def _write_hex(words: Any, first: Any, step: Any, out: Any) -> None:
    """Write each word as sixteen hexadecimal digits, from a byte on, so many bytes from one to the next."""
    for at in range(len(words)):
        word, to = words[at], first + at * step
        put_eight_bytes(out, to, eight_digits(word >> THIRTY_TWO))
        put_eight_bytes(out, to + 8, eight_digits(word & LOWER))


write_hex: Any = compiled(_write_hex)

# --- ids -----------------------------------------------------------------------------------------------------------


def _add_words(words: Any, name: Any, total: Any) -> None:
    """Add to the content of rows what a column without nulls says, as words."""
    for at in range(len(words)):
        total[at] += mix(words[at] ^ name)


add_words: Any = compiled(_add_words)


def _add_texts(offsets: Any, data: Any, bits: Any, shift: Any, name: Any, total: Any) -> None:
    """Add to the content of rows what a column of texts says; a bit for each that is not null, or no bits."""
    for at in range(len(total)):
        if len(bits) > 0 and not (bits[(at + shift) >> 3] >> ((at + shift) & 7)) & 1:
            continue
        value = FNV_BASIS
        for place in range(np.int64(offsets[at]), np.int64(offsets[at + 1])):
            value = (value ^ np.uint64(data[place])) * FNV_PRIME
        value = mix(value)
        total[at] += mix((value if value != NOTHING else ONE) ^ name)


add_texts: Any = compiled(_add_texts)


def _mix_all(words: Any) -> None:
    """`events.mix` of each word."""
    for at in range(len(words)):
        words[at] = mix(words[at])


mix_all: Any = compiled(_mix_all)


def _add_floats(values: Any, name: Any, total: Any) -> None:
    """Add to the content of rows what a column of floats without nulls says; -0.0 says what 0.0 does."""
    for at in range(len(values)):
        total[at] += mix(bits_of(values[at] + 0.0) ^ name)


add_floats: Any = compiled(_add_floats)


def _event_words(high: Any, low: Any, start: Any, end: Any, timed: Any, seed: Any, out: Any) -> None:
    """Hash each event for one half (lane) of the ids of matches: its eid as two numbers, and its times if `timed`."""
    for at in range(len(out)):
        word = mix(mix(high[at] + seed) + low[at])
        if timed:
            word = mix(word + mix(start[at] * THIRTY_ONE + end[at]))
        out[at] = word


event_words: Any = compiled(_event_words)


def _add_events(places: Any, words: Any, others: Any, lane: Any, other_lane: Any) -> None:
    """Add the event of a variable to both halves (lanes) of the id of each match; place -1: the match has none."""
    for at in range(len(places)):
        place = places[at]
        word, other = NOTHING, NOTHING
        if place >= 0:
            word, other = words[place], others[place]
        lane[at] = mix(lane[at] * THIRTY_ONE + word)
        other_lane[at] = mix(other_lane[at] * THIRTY_ONE + other)


add_events: Any = compiled(_add_events)


def _tied(end: Any, places: Any, out: Any) -> Any:
    """Mark the rows with the same end as a neighbour, and return whether there are any. Ends ascend."""
    found, last = False, len(end) - 1
    for at in range(len(places)):
        place = places[at]
        mine = end[place]
        tie = (place > 0 and end[place - 1] == mine) or (place < last and end[place + 1] == mine)
        out[at] = tie
        found |= tie
    return found


tied: Any = compiled(_tied)


def _widen(places: Any, start: Any, end: Any, low: Any, high: Any) -> None:
    """Extend the start and end of each match by the event of a variable; place -1: the match has none."""
    for at in range(len(places)):
        place = places[at]
        if place >= 0:
            low[at], high[at] = min(low[at], start[place]), max(high[at], end[place])


widen: Any = compiled(_widen)
