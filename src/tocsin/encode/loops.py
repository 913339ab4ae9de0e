"""Compiled loops over Arrow's buffers; imported when first needed, so that importing Tocsin does not load Numba.

None of them holds the interpreter's lock. They are kept on disk by Numba, beside this file or where it was told to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

DONE, FULL, LIES = 0, 1, 2  # how a loop ended: with the last row; the tables need room; an offset points nowhere
NEW = 3  # or: a text that the small table does not know
FEW_SLOTS = 256  # of the small table
ROW, COUNT, SIZE = 0, 1, 2  # what the words of its state say: the next row, how many texts, how many bytes of them
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
EIGHT, TWENTY_NINE, THIRTY_TWO, FORTY = np.uint64(8), np.uint64(29), np.uint64(32), np.uint64(40)
FIFTY_SIX, SIX, SIXTY_THREE = np.uint64(56), np.uint64(6), np.uint64(63)
NOTHING, ONE, LOWER = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFF)
TWO, SIXTEEN = np.uint64(2), np.uint64(16)

compiled: Any = njit(cache=True, nogil=True, error_model="numpy")
inlined: Any = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)


def _eight_bytes(context: Any, data: Any, place: Any) -> Any:  # noqa: ARG001 - as Numba calls it
    """Eight bytes of an array of bytes as one number, wherever they lie."""

    def code(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = target.make_array(signature.args[0])(target, builder, arguments[0])
        word = target.get_value_type(types.uint64)
        where = builder.bitcast(builder.gep(array.data, [arguments[1]]), word.as_pointer())
        return builder.load(where, align=1)

    return types.uint64(data, types.intp), code


eight_bytes: Any = intrinsic(_eight_bytes)


def _word(data: Any, at: Any, left: Any) -> Any:
    """The next bytes of a text, at most eight, as a number; what lies behind the text is 0."""
    if at + 8 <= len(data):
        word = eight_bytes(data, at)
        if left < 8:
            word = word & ((ONE << (EIGHT * np.uint64(left))) - ONE)
        return word
    word = NOTHING
    for place in range(min(left, 8)):
        word = word | (np.uint64(data[at + place]) << (EIGHT * np.uint64(place)))
    return word


word_at: Any = inlined(_word)


def _mixed(value: Any, word: Any) -> Any:
    value = (value ^ word) * FIRST_FACTOR
    return value ^ (value >> THIRTY_TWO)


mixed: Any = inlined(_mixed)


def _text_hash(head: Any, next_head: Any, data: Any, first: Any, last: Any) -> Any:
    """A quick hash of a text, for tables in memory; its first two words are known. It may change with any version."""
    value = mixed(mixed(np.uint64(last - first) * SECOND_FACTOR, head), next_head)
    at = first + 16
    while at < last:
        value = mixed(value, word_at(data, at, last - at))
        at += 8
    value = value * SECOND_FACTOR
    return value ^ (value >> TWENTY_NINE)


text_hash: Any = inlined(_text_hash)


def _sign_of(value: Any, length: Any) -> Any:
    """What the slot of a text tells of it: some bits of its hash, and its length if that is below 255."""
    return ((value >> FORTY) << EIGHT) | np.uint64(min(length, 255))


sign_of: Any = inlined(_sign_of)


def _same(data: Any, first: Any, last: Any, texts: Any, begin: Any) -> Any:
    """Whether texts of one length are equal behind their first two words."""
    at = first + 16
    while at < last:
        if word_at(data, at, last - at) != word_at(texts, begin + at - first, last - at):
            return False
        at += 8
    return True


same: Any = inlined(_same)


def _number_texts(
    offsets: Any, data: Any, bits: Any, shift: Any, rows: Any, some: Any, out: Any,
    slots: Any, heads: Any, begins: Any, texts: Any, state: Any,
) -> Any:  # fmt: skip
    """Give each text its number; new ones get the next number and are copied into `texts`.

    rows   the places of the texts, if `some`; else all
    bits   a bit for each text that is not null, from bit `shift` on; no bits: none is null, and nulls get -1
    slots  by hash: some bits of it, the length of the text (255: or more), the number plus one; 0: free
    heads  the first two words of each text by number; most are equal or not without a look at the rest
    begins, texts  for each number where its text begins, and the bytes
    """
    mask, nullable = np.uint64(len(slots) - 1), len(bits) > 0
    for at in range(state[ROW], len(out)):
        row = rows[at] if some else at
        if nullable and not (bits[(row + shift) >> 3] >> ((row + shift) & 7)) & 1:
            out[at] = -1
            continue
        first, last = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if first < 0 or last < first or last > len(data):
            state[ROW] = at
            return LIES
        head = word_at(data, first, last - first)
        next_head = word_at(data, first + 8, last - first - 8) if last - first > 8 else NOTHING
        value = text_hash(head, next_head, data, first, last)
        sign = sign_of(value, last - first)
        slot = value & mask
        known = slots[slot]
        while known != NOTHING:
            if known >> THIRTY_TWO == sign:
                number = (known & LOWER) - ONE
                if heads[number + number] == head and heads[number + number + ONE] == next_head:
                    begin = begins[number]
                    if last - first <= 16 or (
                        begins[number + ONE] - begin == last - first and same(data, first, last, texts, begin)
                    ):
                        break
            slot = (slot + ONE) & mask
            known = slots[slot]
        if known == NOTHING:
            count, size = state[COUNT], state[SIZE]
            if 2 * (count + 1) > len(slots) or size + last - first > len(texts):
                state[ROW] = at
                return FULL
            known = (sign << THIRTY_TWO) | np.uint64(count + 1)
            slots[slot] = known
            heads[2 * count], heads[2 * count + 1] = head, next_head
            for place in range(last - first):
                texts[size + place] = data[first + place]
            state[COUNT], state[SIZE] = count + 1, size + last - first
            begins[count + 1] = state[SIZE]
        out[at] = np.int64(known & LOWER) - 1
    state[ROW] = len(out)
    return DONE


number_texts: Any = compiled(_number_texts)


def _number_few(offsets: Any, data: Any, out: Any, heads: Any, lengths: Any, numbers: Any, masks: Any, row: Any) -> Any:
    """Number texts that have few different values, from a row on, until one is not in the table; return where and why.

    heads, lengths, numbers  by slot: the first two words of a name, its length (-1: free), and its number
    masks                    for each length up to 16 which bits of the two words belong to the text
    """
    last, safe = np.int64(offsets[row]), len(data) - 16
    if last < 0:
        return row, LIES
    for at in range(row, len(out)):
        first, last = last, np.int64(offsets[at + 1])
        length = np.uint64(last - first)
        if length > SIXTEEN or first > safe:
            return at, LIES if last < first or last > len(data) else NEW
        head, next_head = eight_bytes(data, first) & masks[TWO * length], NOTHING
        if length > EIGHT:
            next_head = eight_bytes(data, first + 8) & masks[TWO * length + ONE]
        slot = few_slot(head, next_head, length)
        if (heads[TWO * slot] ^ head) | (heads[TWO * slot + ONE] ^ next_head) | (np.uint64(lengths[slot]) ^ length):
            return at, NEW
        out[at] = numbers[slot]
    return len(out), DONE


def _number_short(offsets: Any, data: Any, out: Any, heads: Any, tags: Any, masks: Any, row: Any) -> Any:
    """`number_few` where all names in the table have at most eight bytes.

    heads, tags  by slot: the bytes of a name; its length and its number, 32 bits each (all are set: the slot is free)
    masks        for each length up to 8 which bits belong to the text

    Places are unsigned: of others Numba would ask for each whether it counts from the end.
    """
    at, count, safe = np.uint64(row), np.uint64(len(out)), np.int64(len(data)) - 16
    first = np.int64(offsets[at])
    if first < 0:
        return row, LIES
    while at < count:
        last = np.int64(offsets[at + ONE])
        length = np.uint64(last - first)
        if (length > EIGHT) | (first > safe):
            return np.int64(at), LIES if last < first or last > len(data) else NEW
        head = eight_bytes(data, first) & masks[length]
        slot = few_slot(head, NOTHING, length)
        tag = tags[slot]
        if (heads[slot] ^ head) | ((tag >> THIRTY_TWO) ^ length):
            return np.int64(at), NEW
        out[at] = np.int32(tag & LOWER)
        first = last
        at += ONE
    return np.int64(len(out)), DONE


def _few_slot(head: Any, next_head: Any, length: Any) -> Any:
    """The place of a name in the small table."""
    return ((head + (np.uint64(length) ^ next_head)) * FIRST_FACTOR) >> FIFTY_SIX


few_slot: Any = inlined(_few_slot)
few_slot_of: Any = compiled(_few_slot)
number_few: Any = compiled(_number_few)
number_short: Any = compiled(_number_short)


def _fill_slots(slots: Any, heads: Any, begins: Any, texts: Any, count: Any) -> None:
    """Put all known texts into a new table."""
    mask = np.uint64(len(slots) - 1)
    for number in range(count):
        first, last = begins[number], begins[number + 1]
        value = text_hash(heads[2 * number], heads[2 * number + 1], texts, first, last)
        slot = value & mask
        while slots[slot] != NOTHING:
            slot = (slot + ONE) & mask
        slots[slot] = (sign_of(value, last - first) << THIRTY_TWO) | np.uint64(number + 1)


fill_slots: Any = compiled(_fill_slots)


def _name_rows(indices: Any, numbers: Any, met: Any, out: Any) -> Any:
    """What a table of numbers has for each index of a dictionary, and which indices are met; False: an index lies."""
    for at in range(len(indices)):
        index = indices[at]
        if index < 0 or index >= len(numbers):
            return False
        met[index] = True
        out[at] = numbers[index]
    return True


name_rows: Any = compiled(_name_rows)


def _places_of(codes: Any, wanted: Any, first: Any, out: Any) -> Any:
    """Write the places (counted from `first`) of wanted codes, and return how many. The last code is for -1."""
    count = 0
    for at in range(len(codes)):
        out[count] = first + at
        count += wanted[codes[at]]
    return count


places_of: Any = compiled(_places_of)


def _places_within(codes: Any, wanted: Any, asked: Any, low: Any, high: Any, values: Any, first: Any, out: Any) -> Any:
    """`places_of`, of rows whose value lies between the bounds for their code, if it is asked for one.

    The tables begin with the code -1. How many are kept, and how many codes were wanted.
    """
    count = read = 0
    for at in range(len(codes)):
        code, value = np.uint64(codes[at] + 1), values[at]
        out[count] = first + at
        read += wanted[code]
        count += wanted[code] & ((not asked[code]) | ((low[code] <= value) & (value <= high[code])))
    return count, read


places_within: Any = compiled(_places_within)


def _few_places_within(codes: Any, wanted: Any, low: Any, high: Any, values: Any, first: Any, out: Any) -> Any:
    """`places_within` where every wanted code is asked for its value, and few rows are kept: a branch is quicker then.

    No value lies between the bounds for a code that is not wanted.
    """
    at, count, kept, read = np.uint64(0), np.uint64(len(codes)), np.uint64(0), np.int64(0)
    while at < count:
        code, value = np.uint64(codes[at] + 1), values[at]
        read += wanted[code]
        if (low[code] <= value) & (value <= high[code]):
            out[kept] = first + np.int64(at)
            kept += ONE
        at += ONE
    return np.int64(kept), read


few_places_within: Any = compiled(_few_places_within)


def _merged(some: Any, others: Any, out: Any) -> None:
    """Two lists of ascending places as one."""
    mine, theirs = np.uint64(0), np.uint64(0)
    last, last_of_theirs = np.uint64(len(some)), np.uint64(len(others))
    for at in range(len(out)):
        if theirs >= last_of_theirs or (mine < last and some[mine] <= others[theirs]):
            out[at] = some[mine]
            mine += ONE
        else:
            out[at] = others[theirs]
            theirs += ONE


merged: Any = compiled(_merged)


def _keep_within(
    values: Any, shift: Any, low: Any, high: Any, asked: Any, codes: Any, lookup: Any, places: Any, out: Any
) -> Any:
    """Of some rows keep those whose value lies between the bounds for their type, if their type is asked for one.

    The value of a row is values[place - shift], its type lookup[codes[place]]. How many are kept.
    """
    count = 0
    for at in range(len(places)):
        place = places[at]
        type, value = lookup[codes[place]], values[place - shift]
        out[count] = place
        count += (not asked[type]) | ((low[type] <= value) & (value <= high[type]))
    return count


keep_within: Any = compiled(_keep_within)


def _types_and_ends(codes: Any, lookup: Any, end: Any, places: Any, types: Any, ends: Any) -> None:
    """The types, as kernels number them, and the ends of some rows."""
    for at in range(len(places)):
        place = places[at]
        types[at], ends[at] = lookup[codes[place]], end[place]


types_and_ends: Any = compiled(_types_and_ends)


def _gather(values: Any, places: Any, shift: Any, out: Any) -> None:
    """The values at some places, which are counted from `shift`."""
    for at in range(len(places)):
        out[at] = values[places[at] - shift]


gather: Any = compiled(_gather)


def _look_up(table: Any, numbers: Any, out: Any) -> None:
    """What a table has for each number; -1 for those that are negative."""
    for at in range(len(numbers)):
        out[at] = table[numbers[at]] if numbers[at] >= 0 else -1


look_up: Any = compiled(_look_up)


def _look_up_at(table: Any, indices: Any, places: Any, shift: Any, out: Any) -> Any:
    """What a table has for the indices at some places, which are counted from `shift`; False: an index lies."""
    for at in range(len(places)):
        index = indices[places[at] - shift]
        if index < 0 or index >= len(table):
            return False
        out[at] = table[index]
    return True


look_up_at: Any = compiled(_look_up_at)


def _hash_texts(offsets: Any, data: Any, places: Any, shift: Any, out: Any) -> None:
    """Take the texts at some places, which are counted from `shift`, into hashes."""
    for at in range(len(places)):
        row = places[at] - shift
        first, last = np.int64(offsets[row]), np.int64(offsets[row + 1])
        head = word_at(data, first, last - first)
        next_head = word_at(data, first + 8, last - first - 8) if last - first > 8 else NOTHING
        out[at] = mixed(out[at], text_hash(head, next_head, data, first, last))


hash_texts: Any = compiled(_hash_texts)


def _hash_words(words: Any, out: Any) -> None:
    """Take words into hashes."""
    for at in range(len(words)):
        out[at] = mixed(out[at], words[at] * SECOND_FACTOR)


hash_words: Any = compiled(_hash_words)


def _cell(value: Any, stretch: Any, count: Any) -> Any:
    """The bit of a key in a stretch of time, of so many bits (a power of two)."""
    value = mixed(value + np.uint64(stretch) * SECOND_FACTOR, NOTHING)
    return (value >> EIGHT) & np.uint64(count - 1)


cell: Any = inlined(_cell)


def _mark_near(hashes: Any, ends: Any, origin: Any, width: Any, before: Any, behind: Any, bits: Any) -> None:
    """Mark the key of each row in all stretches of time that lie within a reach before and behind its end."""
    count = 64 * len(bits)
    for at in range(len(ends)):
        time = ends[at] - origin
        for stretch in range((time - before) // width, (time + behind) // width + 1):
            bit = cell(hashes[at], stretch, count)
            bits[bit >> SIX] |= ONE << (bit & SIXTY_THREE)


mark_near: Any = compiled(_mark_near)


def _keep_near(hashes: Any, places: Any, end: Any, origin: Any, width: Any, bits: Any, out: Any) -> Any:
    """Keep the rows whose key is marked in the stretch of time in which they end; how many there are."""
    count, kept = 64 * len(bits), np.int64(0)
    for at in range(len(places)):
        bit = cell(hashes[at], (end[places[at]] - origin) // width, count)
        out[kept] = places[at]
        kept += np.int64((bits[bit >> SIX] >> (bit & SIXTY_THREE)) & ONE)
    return kept


keep_near: Any = compiled(_keep_near)


def _ascend(values: Any) -> Any:
    """Whether no value is smaller than the one before it."""
    wrong = False
    for at in range(1, len(values)):
        wrong |= values[at] < values[at - 1]
    return not wrong


ascend: Any = compiled(_ascend)


def _surveyed(values: Any) -> Any:
    """The smallest and the largest value, and whether no value is smaller than the one before it."""
    low = high = last = values[0]
    ordered = True
    for at in range(len(values)):
        value = values[at]
        low, high = min(low, value), max(high, value)
        ordered &= value >= last
        last = value
    return low, high, ordered


surveyed: Any = compiled(_surveyed)
