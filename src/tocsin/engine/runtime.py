"""What every generated kernel calls: sorted buffers per leaf and key, the key table, waiting answers, exact arithmetic.

The same source runs as plain Python and under Numba: `library(jit=True)` loads this file a second time with JIT set.
Compiled functions take raw pointers (an array as argument would be counted on every call), plain ones memoryviews of
the same memory, so that they compute with Python's own integers. All tables are flat, a row after the other:

  T   control words and parameters, see the constants below
  H   stored events, R words a place: end, event number, then what the plan stores
  HF  the same memory as H, read as float64
  D   buffers, 4 half-words (int32) each: origin, begin, end, capacity in H; leaf l has for key k the buffer number
      k * leaves + l
  N   the newest end in each buffer, or a time long ago: most lookups need no more
  KM  open-addressing table, 3 words a slot: prefix, value, key code; codes start at 1, 0 is "no key"
  PD  waiting answers, WAIT_WIDTH words each, a binary heap on word 0: the time they wait for, key, (event, end) pairs;
      held answers have before these the type they wait for and a stamp (see STAMPS), and those that the heap cannot
      rank stand aside, from the last row backwards
"""

# mypy: disable-error-code="no-any-return"
# (what is read through a pointer or a memoryview has no type here)

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, Protocol, TypeVar, cast

import numpy as np

JIT: bool
if "JIT" not in globals():
    JIT = False


Code = TypeVar("Code", bound=Callable[..., Any])


class Decorator(Protocol):
    def __call__(self, function: Code, /) -> Code: ...


def _identity(value: Code) -> Code:
    return value


compiled: Decorator  # called from compiled code only, with pointers
inlined: Decorator  # the same, and merged into its callers
entry: Decorator  # called from Python, with arrays
pointer: Any


if JIT:
    from numba import njit, types
    from numba.extending import intrinsic

    def decorator(**options: bool) -> Decorator:
        """Nobody calls our functions through a C callback, and most are not called from Python: no wrappers then."""
        compile_with: Any = njit
        return cast("Decorator", compile_with(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options))

    compiled = decorator(cache=True, no_cpython_wrapper=True)
    inlined = decorator(cache=True, no_cpython_wrapper=True, forceinline=True)
    entry = decorator(cache=True)

    def _address(context: Any, array: Any) -> Any:
        """The address of an array's first element."""
        del context

        def code(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return target.make_array(signature.args[0])(target, builder, arguments[0]).data

        return types.CPointer(array.dtype)(array), code  # type: ignore[no-untyped-call]

    pointer = intrinsic(_address)
else:
    compiled = inlined = entry = pointer = _identity

# --- control words in T ------------------------------------------------------------------------------------------
CLOCK = 0  # the largest end seen
ORDERED = 1  # 1: input is promised in order of end
HORIZON = 2  # events that end before this are needed by nobody
OUT_N = 3  # rows in OUT
MEM_N = 4  # entries in MEM (members of repetitions)
TOP = 5  # first free place in H
KEYS = 6  # next unused key code
FREE_KEY = 7  # head of the list of recycled key codes
PHASE = 8  # 1: the current row is stored already, only its answers are missing
ENDED = 9  # 1: the stream has ended
WAITING = 10  # entries of the heap PD
FRESH = 11  # entries behind the heap, added for the current row
LATE = 12
DUPLICATES = 13
RELEVANT = 14
KEYS_USED = 15  # occupied slots of KM
ROW = 16  # where the kernel stopped in the batch
SIGN = 17  # -1 while an event is being withdrawn
REWAIT = 18  # a waiting answer must wait on, until this
TYPES_AT = 19  # where in T the local numbers of types begin
LEAVES_AT = 20  # where in T the lists of leaves begin, one list per local type, each closed by -1
H_SIZE, D_SIZE, KM_SIZE, OUT_SIZE, MEM_SIZE, PD_SIZE = 21, 22, 23, 24, 25, 26  # rows of the tables
WAIT_WIDTH = 27
SPAN = 28  # how far behind what is guaranteed an event may be of use, where that is bounded
DENSE = 29  # keys from 0 to this are their own codes
SLACK = 30  # an event that ends more than this behind the clock is too late
IMMEDIATE = 31  # 1: answers do not wait for time to pass
GUARANTEES = 32  # where in T the guarantees begin: for each local type what was promised, and its lag behind the clock
MOVED = 33  # 1: a guarantee has moved since held answers were judged
ASIDE = 34  # held answers on the side of the heap: what they wait for has come, but for another type
TYPES = 35  # how many local types there are
WATCHED = 36  # the local type that the answer just judged waits for; -1: it may be any
CERTAIN = 37  # 1: what was answered is final, and a late event changes nothing but held answers
ASK = 38  # 1: ask every held answer again before settling: an event may have refuted it
HELD, RELEASED, PRUNED = 39, 40, 41  # answers that had to wait, that came out of it, and that failed meanwhile
LATE_POSITIVE, LATE_NEGATIVE = 42, 43  # events that came behind the clock: at root leaves, and at all others
NULLS = 44  # 1: an attribute of a stored event was null once; before that no mask need be read
MARKED = 45  # rows of the batch, if one of them is withdrawn or has a null: the length of a block of `marks`; else 0
MOST_LEAVES = 112  # each of the following tables has one word per leaf (PINS: per level of the root's nest)
PINS = 48  # places of root leaves that are given, -1: free
PLACES = PINS + MOST_LEAVES  # where the current row's event was stored, -1: not there
ROW_KEYS = PLACES + MOST_LEAVES  # under which key code
LEVELS = ROW_KEYS + MOST_LEAVES  # the level of the leaf in the root's nest; -1: in a forbidden block, or repeated
TERMINAL = LEVELS + MOST_LEAVES  # 1: the leaf can hold the event that comes last
COVERED = TERMINAL + MOST_LEAVES  # 1: the key covers the leaf
EAGER = COVERED + MOST_LEAVES  # 1: an event is stored only if an earlier one agrees with it
TRIES = EAGER + MOST_LEAVES  # how often that was asked
HITS = TRIES + MOST_LEAVES  # and how often it was so
LOWS = HITS + MOST_LEAVES  # by level: where a binding must lie that a late event can change, its ends at or after this
HIGHS = LOWS + MOST_LEAVES  # and at or before this
STAMPS = HIGHS + MOST_LEAVES  # by key modulo STAMPED: changes when an event may have refuted held answers
STAMPED = 64
PARAMS = STAMPS + STAMPED  # the window, the integer literals, then the tables of types

# --- what a kernel returns ---------------------------------------------------------------------------------------
DONE, OUT_FULL, HEAP_FULL, KEYS_FULL, WAIT_FULL = 0, 1, 2, 3, 4

FAR = 1 << 62  # beyond every time
UNLIMITED = 1 << 61  # a slack or a lag that nothing exceeds
BIGGEST = (1 << 63) - 1
SMALLEST = -(1 << 63)


# --- sorted buffers ----------------------------------------------------------------------------------------------


@inlined
def first_at(H: Any, R: int, a: int, b: int, time: int) -> int:
    """The first place in [a, b) whose end is at or after `time`, or b."""
    while b - a > 8:
        middle = (a + b) >> 1
        if H[middle * R] < time:
            a = middle + 1
        else:
            b = middle
    while a < b and H[a * R] < time:
        a += 1
    return a


@inlined
def first_after(H: Any, R: int, a: int, b: int, time: int) -> int:
    """The first place in [a, b) whose end is after `time`, or b."""
    while b - a > 8:
        middle = (a + b) >> 1
        if H[middle * R] <= time:
            a = middle + 1
        else:
            b = middle
    while a < b and H[(b - 1) * R] > time:
        b -= 1
    return b


@inlined
def between(H: Any, R: int, a: int, b: int, low: int, high: int) -> tuple[int, int]:
    """The part of [a, b) whose ends lie in [low, high]."""
    b = first_after(H, R, a, b, high)
    return first_at(H, R, a, b, low), b


@inlined
def slide(H: Any, R: int, a: int, b: int, stop: int, low: int, high: int) -> tuple[int, int]:
    """The part of places up to `stop` whose ends lie in [low, high], if both grew since [a, b) was that part."""
    far = b + 8
    while b < stop and b < far and H[b * R] <= high:
        b += 1
    if b == far and b < stop:
        b = first_after(H, R, b, stop, high)
    far = a + 8
    while a < b and a < far and H[a * R] < low:
        a += 1
    if a == far and a < b:
        a = first_at(H, R, a, b, low)
    return a, b


@inlined
def pinned(T: Any, H: Any, R: int, level: int) -> tuple[int, int, int]:
    """Where the leaf of a level is pinned (-1: nowhere), and bounds on its end: exact if it is pinned, else none."""
    place = T[PINS + level]
    if place < 0:
        return place, -FAR, FAR
    return place, H[place * R], H[place * R]


@inlined
def narrow(
    H: Any, R: int, D: Any, N: Any, d: int, place: int, low: int, high: int, mn: int, mx: int
) -> tuple[int, int, int, int, int, int]:
    """The range of a leaf, and bounds on its ends; a pinned leaf is a range of one, an empty range has a == b.

    `mn` and `mx` bound the first start and the last end of a match; they come back with this leaf taken in.
    """
    if place >= 0:
        return place, place + 1, H[place * R], H[place * R], mn, mx
    if N[d] < low:
        return 0, 0, 0, 0, mn, mx
    a, b = between(H, R, D[4 * d + 1], D[4 * d + 2], low, high)
    if a >= b:
        return b, b, 0, 0, mn, mx
    return a, b, H[a * R], H[(b - 1) * R], min(mn, H[(b - 1) * R]), max(mx, H[a * R])


@inlined
def reserve(T: Any, H: Any, R: int, D: Any, d: int) -> bool:
    """Make room for one more event in buffer d. False: H is full."""
    if D[4 * d + 2] < D[4 * d] + D[4 * d + 3]:
        return True
    return make_room(T, H, R, D, d)


@compiled
def make_room(T: Any, H: Any, R: int, D: Any, d: int) -> bool:
    """Drop what lies behind the horizon; if that is not enough, move the buffer to twice its size."""
    origin = D[4 * d]
    begin = D[4 * d + 1]
    end = D[4 * d + 2]
    capacity = D[4 * d + 3]
    while begin < end and H[begin * R] < T[HORIZON]:
        begin += 1
    if begin == end:
        begin = origin
        end = origin
    D[4 * d + 1] = begin
    D[4 * d + 2] = end
    if end < origin + capacity:
        return True
    count = end - begin
    if begin - origin >= (capacity >> 1) and begin > origin:
        move(H, R, begin, origin, count)
        D[4 * d + 1] = origin
        D[4 * d + 2] = origin + count
        return True
    bigger = max(2, 2 * capacity)
    top = T[TOP]
    if top + bigger > T[H_SIZE]:
        return False
    move(H, R, begin, top, count)
    T[TOP] = top + bigger
    D[4 * d] = top
    D[4 * d + 1] = top
    D[4 * d + 2] = top + count
    D[4 * d + 3] = bigger
    return True


@compiled
def move(H: Any, R: int, source: int, target: int, count: int) -> None:
    """Copy `count` places to the left or into free space."""
    for k in range(count * R):
        H[target * R + k] = H[source * R + k]


@inlined
def insert(H: Any, R: int, D: Any, N: Any, d: int, end: int, start: int, high: int, low: int, rs: int, rh: int) -> int:
    """Open the place of an event in buffer d, in canonical order; the caller fills it.

    `rs` is the word of a place that holds the start (0 if all events are points), `rh` that of the eid (-1: none).
    Returns the place, or -1 - place if the event is there already.
    """
    stop = D[4 * d + 2]
    ties = 1 if rh < 0 and rs == 0 else 0  # points without eids may be appended after their like
    if stop == D[4 * d + 1] or H[(stop - 1) * R] < end + ties:
        D[4 * d + 2] = stop + 1
        N[d] = end
        return stop
    return insert_within(H, R, D, d, end, start, high, low, rs, rh)


@compiled
def insert_within(H: Any, R: int, D: Any, d: int, end: int, start: int, high: int, low: int, rs: int, rh: int) -> int:
    begin = D[4 * d + 1]
    stop = D[4 * d + 2]
    place = first_after(H, R, begin, stop, end)
    while place > begin and H[(place - 1) * R] == end:
        before = (place - 1) * R
        if H[before + rs] < start:
            break
        if H[before + rs] == start:
            if rh < 0 or H[before + rh] < high:
                break
            if H[before + rh] == high:
                if H[before + rh + 1] < low:
                    break
                if H[before + rh + 1] == low:
                    return -place
        place -= 1
    for k in range(stop * R - 1, place * R - 1, -1):
        H[k + R] = H[k]
    D[4 * d + 2] = stop + 1
    return place


@inlined
def ready(
    T: Any, H: Any, R: int, D: Any, N: Any, KM: Any, leaves: int, leaf: int, before: int,
    keyed: bool, prefix: int, value: int,
) -> int:  # fmt: skip
    """Find the buffer of an event and make room in it: its key code, -1 if the event is of no use, or a status.

    `before` is a leaf that must hold an earlier event under the same key, or -1; ordered input may rely on that.
    Nothing changes if it is asked again.
    """
    key = 0
    if before >= 0 and T[ORDERED] != 0:
        if keyed:
            key = key_of(T, KM, prefix, value)
            if key == 0:
                return -1
        if N[key * leaves + before] < T[HORIZON]:
            return -1
    elif keyed:
        key = new_key(T, KM, D, leaves, prefix, value)
        if key < 0:
            return -KEYS_FULL
    if not reserve(T, H, R, D, key * leaves + leaf):
        return -HEAP_FULL
    return key


@inlined
def enter(
    T: Any, H: Any, R: int, D: Any, N: Any, KM: Any, leaves: int, leaf: int, before: int,
    keyed: bool, prefix: int, value: int,
    number: int, end: int, start: int, high: int, low: int, rs: int, rh: int, keep: bool,
) -> int:  # fmt: skip
    """Store an event at a leaf, or on the leaf's scratch place if it need not be kept; its place or what `ready` says.

    An event that is there already is counted and has no place (-1).
    """
    key = ready(T, H, R, D, N, KM, leaves, leaf, before, keyed, prefix, value)
    if key < 0:
        return key
    place = leaf
    if keep:
        place = insert(H, R, D, N, key * leaves + leaf, end, start, high, low, rs, rh)
        if place < 0:
            T[DUPLICATES] += 1
            return -1
    H[place * R] = end
    H[place * R + 1] = number
    if rs > 0:
        H[place * R + rs] = start
    if rh > 0:
        H[place * R + rh] = high
        H[place * R + rh + 1] = low
    T[PLACES + leaf] = place
    T[ROW_KEYS + leaf] = key
    return place


@inlined
def weigh(T: Any, leaf: int, hit: bool) -> None:
    """Count what a look at arrival was good for; give it up for a leaf where three of four events pass it."""
    T[TRIES + leaf] += 1
    if hit:
        T[HITS + leaf] += 1
    if T[TRIES + leaf] >= 4096:
        if 4 * T[HITS + leaf] > 3 * T[TRIES + leaf]:
            T[EAGER + leaf] = 0
        T[TRIES + leaf] = 0
        T[HITS + leaf] = 0


@compiled
def withdraw(
    T: Any, H: Any, R: int, D: Any, KM: Any, leaves: int, leaf: int, keyed: bool, prefix: int, value: int,
    end: int, start: int, high: int, low: int, rs: int, rh: int,
) -> None:  # fmt: skip
    """Find the event that is being withdrawn; its place is -1 if it never came."""
    key = 0
    if keyed:
        key = key_of(T, KM, prefix, value)
        if key == 0:
            return
    d = key * leaves + leaf
    stop = D[4 * d + 2]
    place = first_at(H, R, D[4 * d + 1], stop, end)
    while place < stop and H[place * R] == end:
        at = place * R
        if H[at + rs] == start and H[at + rh] == high and H[at + rh + 1] == low:
            T[PLACES + leaf] = place
            T[ROW_KEYS + leaf] = key
            return
        place += 1


@compiled
def find(H: Any, R: int, D: Any, d: int, end: int, number: int) -> int:
    """The place of event `number` (which ends at `end`) in buffer d, or -1."""
    stop = D[4 * d + 2]
    place = first_at(H, R, D[4 * d + 1], stop, end)
    while place < stop and H[place * R] == end:
        if H[place * R + 1] == number:
            return place
        place += 1
    return -1


@compiled
def remove(H: Any, R: int, D: Any, N: Any, d: int, place: int) -> None:
    """Close the place of an event."""
    stop = D[4 * d + 2] - 1
    move(H, R, place + 1, place, stop - place)
    D[4 * d + 2] = stop
    N[d] = H[(stop - 1) * R] if stop > D[4 * d + 1] else -FAR


@compiled
def compact(T: Any, H: Any, R: int, D: Any, buffers: int, first: int, newH: Any, copy: bool) -> int:
    """Copy every live event into newH, tightly; what lies behind the horizon stays behind.

    Returns how many places that takes; with copy=False nothing else happens.
    """
    top = first
    for d in range(buffers):
        begin = D[4 * d + 1]
        end = D[4 * d + 2]
        while begin < end and H[begin * R] < T[HORIZON]:
            begin += 1
        count = end - begin
        capacity = 0
        if count > 0:
            capacity = 2
            while capacity < count:
                capacity *= 2
        if copy and D[4 * d + 3] > 0:
            for k in range(count * R):
                newH[top * R + k] = H[begin * R + k]
            D[4 * d] = top
            D[4 * d + 1] = top
            D[4 * d + 2] = top + count
            D[4 * d + 3] = capacity
        top += capacity
    if copy:
        T[TOP] = top
    return top


# --- keys --------------------------------------------------------------------------------------------------------


@inlined
def key_slot(KM: Any, size: int, prefix: int, value: int) -> int:
    """The slot of a key in KM: where it is, or where it would go. `size` is a power of two."""
    slot = (value + (value >> 12) * 40503 + prefix * 2654435761) & (size - 1)  # small numbers stay neighbours
    while KM[3 * slot + 2] != 0 and (KM[3 * slot + 1] != value or KM[3 * slot] != prefix):
        slot = (slot + 1) & (size - 1)
    return slot


@inlined
def key_of(T: Any, KM: Any, prefix: int, value: int) -> int:
    """The code of a key, or 0 if it was never seen. Small numbers are their own codes (plus one) and need no table."""
    if prefix == 0 and value >= 0 and value < T[DENSE]:
        return value + 1
    return KM[3 * key_slot(KM, T[KM_SIZE], prefix, value) + 2]


@inlined
def new_key(T: Any, KM: Any, D: Any, leaves: int, prefix: int, value: int) -> int:
    """The code of a key, a new one if needed; -1 if the tables are full."""
    if prefix == 0 and value >= 0 and value < T[DENSE]:
        return value + 1
    slot = key_slot(KM, T[KM_SIZE], prefix, value)
    code = KM[3 * slot + 2]
    if code != 0:
        return code
    return add_key(T, KM, D, leaves, prefix, value, slot)


@compiled
def add_key(T: Any, KM: Any, D: Any, leaves: int, prefix: int, value: int, slot: int) -> int:
    if 2 * T[KEYS_USED] >= T[KM_SIZE]:
        return -1
    code = T[FREE_KEY]
    if code != 0:
        T[FREE_KEY] = D[4 * code * leaves]
        D[4 * code * leaves] = 0
    else:
        code = T[KEYS]
        if (code + 1) * leaves > T[D_SIZE]:
            return -1
        T[KEYS] = code + 1
    KM[3 * slot] = prefix
    KM[3 * slot + 1] = value
    KM[3 * slot + 2] = code
    T[KEYS_USED] += 1
    return code


@compiled
def sweep_keys(T: Any, KM: Any, newKM: Any, size: int, D: Any, N: Any, leaves: int, alive: Any) -> None:
    """Move the keys that still have events into newKM (of `size` slots), after `compact`; recycle the other codes."""
    for code in range(T[KEYS]):
        alive[code] = 0
        for d in range(code * leaves, (code + 1) * leaves):
            if D[4 * d + 2] > D[4 * d + 1]:
                alive[code] = 1
    slots = T[KM_SIZE]
    found = True
    while found:  # a prefix lives while a longer key uses it
        found = False
        for slot in range(slots):
            code, prefix = KM[3 * slot + 2], KM[3 * slot]
            if code != 0 and alive[code] != 0 and prefix != 0 and alive[prefix] == 0:
                alive[prefix] = 1
                found = True
    used = 0
    for slot in range(slots):
        code = KM[3 * slot + 2]
        if code == 0:
            continue
        if alive[code] != 0:
            target = key_slot(newKM, size, KM[3 * slot], KM[3 * slot + 1])
            for k in range(3):
                newKM[3 * target + k] = KM[3 * slot + k]
            used += 1
        else:
            for d in range(code * leaves, (code + 1) * leaves):
                N[d] = -FAR
                for k in range(4):
                    D[4 * d + k] = 0
            D[4 * code * leaves] = T[FREE_KEY]
            T[FREE_KEY] = code
    T[KEYS_USED] = used


# --- waiting answers ---------------------------------------------------------------------------------------------


@compiled
def wait(T: Any, PD: Any) -> None:
    """Take the fresh entries behind the heap into the heap."""
    for _ in range(T[FRESH]):
        child = T[WAITING]
        T[WAITING] = child + 1
        while child > 0:
            parent = (child - 1) >> 1
            if PD[parent * T[WAIT_WIDTH]] <= PD[child * T[WAIT_WIDTH]]:
                break
            swap(T, PD, parent, child)
            child = parent
    T[FRESH] = 0


@compiled
def swap(T: Any, PD: Any, one: int, other: int) -> None:
    width = T[WAIT_WIDTH]
    for k in range(width):
        word = PD[one * width + k]
        PD[one * width + k] = PD[other * width + k]
        PD[other * width + k] = word


@compiled
def sink(T: Any, PD: Any) -> None:
    """Restore the heap after its first entry changed."""
    parent = 0
    while 2 * parent + 1 < T[WAITING]:
        child = 2 * parent + 1
        if child + 1 < T[WAITING] and PD[(child + 1) * T[WAIT_WIDTH]] < PD[child * T[WAIT_WIDTH]]:
            child += 1
        if PD[parent * T[WAIT_WIDTH]] <= PD[child * T[WAIT_WIDTH]]:
            return
        swap(T, PD, parent, child)
        parent = child


@compiled
def unwait(T: Any, PD: Any) -> None:
    """Drop the first entry of the heap: entries move up until the last one fits into the hole."""
    last = T[WAITING] - 1
    width = T[WAIT_WIDTH]
    T[WAITING] = last
    time = PD[last * width]
    hole = 0
    while 2 * hole + 1 < last:
        child = 2 * hole + 1
        if child + 1 < last and PD[(child + 1) * width] < PD[child * width]:
            child += 1
        if time <= PD[child * width]:
            break
        for k in range(width):
            PD[hole * width + k] = PD[child * width + k]
        hole = child
    for k in range(width):
        PD[hole * width + k] = PD[last * width + k]


@compiled
def rewait(T: Any, PD: Any) -> None:
    """Let the first entry of the heap wait on, until T[REWAIT]."""
    PD[0] = T[REWAIT]
    sink(T, PD)


# --- held answers: they wait for guarantees, not for the clock ------------------------------------------------------


@inlined
def promised(T: Any, type: int) -> int:
    """Every event of a local type that is still to come ends after this."""
    at = T[GUARANTEES] + 2 * type
    return max(T[at], T[CLOCK] - T[at + 1])


@compiled
def disturb(T: Any, key: int) -> None:
    """An event may refute held answers under a key (-1: any)."""
    if key >= 0:
        T[STAMPS + (key & (STAMPED - 1))] += 1
        return
    for slot in range(STAMPED):
        T[STAMPS + slot] += 1


@inlined
def furthest(T: Any) -> int:
    """The largest guarantee of any type: nothing that waits for a later time can be settled."""
    best = -FAR
    for type in range(T[TYPES]):
        best = max(best, promised(T, type))
    return best


@inlined
def is_due(T: Any, PD: Any) -> bool:
    """Whether a held answer may be settled now that the clock or a guarantee has moved."""
    if T[ASIDE] > 0 or (T[WAITING] > 0 and PD[0] <= furthest(T)):
        return True
    T[MOVED] = 0
    return False


@compiled
def set_aside(T: Any, PD: Any) -> None:
    """Move the first entry of the heap to the side: what it waits for has not come for its own type."""
    last = T[WAITING] - 1
    target = T[PD_SIZE] - 1 - T[ASIDE]
    swap(T, PD, 0, last)
    if target != last:
        swap(T, PD, last, target)
    T[WAITING] = last
    T[ASIDE] += 1
    sink(T, PD)


@compiled
def forget_aside(T: Any, PD: Any, row: int) -> None:
    """Drop an entry on the side: the newest one takes its row."""
    swap(T, PD, row, T[PD_SIZE] - T[ASIDE])
    T[ASIDE] -= 1


@compiled
def rank_again(T: Any, PD: Any) -> None:
    """Make a heap of all entries, whatever their order."""
    entries = T[WAITING]
    T[WAITING] = 0
    T[FRESH] = entries
    wait(T, PD)


@inlined
def next_start(H: Any, R: int, rs: int, a: int, b: int, time: int) -> int:
    """The first start after `time` among the places [a, b), or FAR."""
    a = first_after(H, R, a, b, time)
    if a >= b:
        return FAR
    if rs == 0:
        return H[a * R]
    best = FAR
    while a < b:
        if H[a * R + rs] > time:
            best = min(best, H[a * R + rs])
        a += 1
    return best


# --- purging: what no answer can need any more, as far as is guaranteed type by type ----------------------------------
#
# P holds the rules as a table: the words below, then GUARANTEED, POSITION, BY_KEY and JUDGED of each leaf, then the
# leaf at each position (a fixed leaf of the root), then four words for each pair of a leaf and a position. Those bound
# the end of the event at the position, relative to an event at the leaf: not before start + [0] and end + [1], not
# after start + [2] and end + [3].

P_LEAVES, P_ROOTS, P_WINDOW, P_START = 0, 1, 2, 3  # P_WINDOW: -1 without one; P_START: the word of H with the start
P_CHAIN = 4  # 1: the positions follow one another in time
P_RULES = 5  # 0: only what lies behind the horizon goes
P_OWN = 6  # 1: a spent event stays until its own time is guaranteed, so that it is known again
P_HELD, P_SINCE = 7, 8  # how many entries HA has; held answers look at no event that starts before this
P_PATIENCE = 9  # the sweep ends when it has dropped less than one in so many
PURGED = 9  # how many events each reason has dropped, from PURGED + A1 on
A1, A2, P3, NEG, OLD = 1, 2, 3, 4, 5  # why an event is dropped
P_TABLE = 15
GUARANTEED, POSITION, BY_KEY, JUDGED = 0, 1, 2, 3


@inlined
def partners(P: Any, leaf: int, position: int, start: int, end: int) -> tuple[int, int]:
    """Between which ends an event at a position can stand together with an event at a leaf."""
    at = P_TABLE + 4 * P[P_LEAVES] + P[P_ROOTS] + 4 * (leaf * P[P_ROOTS] + position)
    low = max(start + P[at], end + P[at + 1])
    high = min(start + P[at + 2], end + P[at + 3])
    if P[P_WINDOW] >= 0:
        return max(low, end - P[P_WINDOW]), min(high, start + P[P_WINDOW])
    return low, high


@inlined
def partner_buffer(P: Any, leaf: int, key: int, position: int) -> int:
    """The buffer where the partners of an event stand, or -1 if they may stand in many."""
    other = P[P_TABLE + 4 * P[P_LEAVES] + position]
    if P[P_TABLE + 4 * other + BY_KEY] == 0:
        return other
    return key * P[P_LEAVES] + other if P[P_TABLE + 4 * leaf + BY_KEY] != 0 else -1


@inlined
def known_until(P: Any, position: int) -> int:
    """Every event that may still come to a position ends after this."""
    return P[P_TABLE + 4 * P[P_TABLE + 4 * P[P_LEAVES] + position] + GUARANTEED]


@compiled
def first_within(H: Any, R: int, D: Any, d: int, rs: int, low: int, high: int) -> int:
    """The first end in buffer d of an event that starts and ends in [low, high], or FAR."""
    stop = D[4 * d + 2]
    place = first_at(H, R, D[4 * d + 1], stop, low)
    while place < stop and H[place * R] <= high:
        if H[place * R + rs] >= low:
            return H[place * R]
        place += 1
    return FAR


@compiled
def breaks_chain(H: Any, R: int, D: Any, P: Any, leaf: int, key: int, start: int, end: int) -> bool:
    """Algorithm 2: positions of which all is known must be filled one after the other, each as early as can be."""
    mine = P[P_TABLE + 4 * leaf + POSITION]
    check = -FAR - FAR
    if P[P_WINDOW] >= 0:
        check = end - P[P_WINDOW]
    for position in range(P[P_ROOTS]):
        if position == mine:
            check = end + 1
            continue
        low, high = partners(P, leaf, position, start, end)
        d = partner_buffer(P, leaf, key, position)
        if d < 0 or known_until(P, position) < high:
            continue
        found = first_within(H, R, D, d, P[P_START], max(low, check), high)
        if found == FAR:
            return True
        check = found + 1
    return False


@compiled
def reason(H: Any, R: int, D: Any, P: Any, HA: Any, leaf: int, key: int, place: int) -> int:
    """Why an event is of no use at a leaf any more, or 0.

    A1: a position of which all is known has no partner for it. A2: nor have all of them together, in their order.
    P3: nobody new can join it, so all it can be in has been found. NEG: one of these for an event that is only looked
    at. What a held answer contains or is judged by stays.
    """
    start = H[place * R + P[P_START]]
    end = H[place * R]
    mine = P[P_TABLE + 4 * leaf + POSITION]
    why = P3
    for position in range(P[P_ROOTS]):
        if position == mine or why == A1:
            continue
        low, high = partners(P, leaf, position, start, end)
        if low <= high and known_until(P, position) < high:
            why = 0
            continue
        d = partner_buffer(P, leaf, key, position)
        if low <= high and d >= 0:
            a, b = between(H, R, D[4 * d + 1], D[4 * d + 2], low, high)
            low, high = (low, high) if a < b else (1, 0)
        if low > high:
            why = A1
    if mine < 0:
        looked_at = P[P_TABLE + 4 * leaf + JUDGED] != 0 and start >= P[P_SINCE]
        return NEG if why != 0 and not looked_at else 0
    if why != A1 and P[P_CHAIN] != 0 and breaks_chain(H, R, D, P, leaf, key, start, end):
        why = A2
    if why == P3 and P[P_OWN] != 0 and P[P_TABLE + 4 * leaf + GUARANTEED] < end:
        return 0
    if why != 0 and P[P_HELD] > 0:
        entry = H[place * R + 1] * P[P_ROOTS] + mine
        at = first_at(HA, 1, 0, P[P_HELD], entry)
        if at < P[P_HELD] and HA[at] == entry:
            return 0
    return why


@compiled
def purge(T: Any, H: Any, R: int, D: Any, N: Any, buffers: int, P: Any, HA: Any) -> int:
    """Drop every event that is of no use, again and again: one that goes can take others with it.

    HA has the events of held answers, each as number * positions + position, in order. Returns how many events stay.
    """
    dropped = 1
    live = 0
    while dropped * P[P_PATIENCE] > live:
        dropped = 0
        live = 0
        for d in range(buffers):
            begin = D[4 * d + 1]
            end = D[4 * d + 2]
            target = begin
            for place in range(begin, end):
                why = OLD if H[place * R] < T[HORIZON] else 0
                if why == 0 and P[P_RULES] != 0:
                    why = reason(H, R, D, P, HA, d % P[P_LEAVES], d // P[P_LEAVES], place)
                if why != 0:
                    P[PURGED + why] += 1
                    continue
                if target < place:
                    move(H, R, place, target, 1)
                target += 1
            live += target - begin
            dropped += end - target
            if target < end:
                D[4 * d + 2] = target
                N[d] = H[(target - 1) * R] if target > begin else -FAR
    return live


# --- arithmetic that never lies: (value, is not null) -------------------------------------------------------------


@inlined
def add(x: int, y: int) -> tuple[int, bool]:
    if (y > 0 and x > BIGGEST - y) or (y < 0 and x < SMALLEST - y):
        return 0, False
    return x + y, True


@inlined
def subtract(x: int, y: int) -> tuple[int, bool]:
    if (y < 0 and x > BIGGEST + y) or (y > 0 and x < SMALLEST + y):
        return 0, False
    return x - y, True


@compiled
def multiply(x: int, y: int) -> tuple[int, bool]:
    if x == 0 or y == 0:
        return 0, True
    if x == SMALLEST or y == SMALLEST:
        if x == 1 or y == 1:
            return SMALLEST, True
        return 0, False
    if abs(x) <= BIGGEST // abs(y):
        return x * y, True
    if (x < 0) != (y < 0) and SMALLEST % y == 0 and SMALLEST // y == x:
        return SMALLEST, True
    return 0, False


@inlined
def divide(x: float, y: float) -> tuple[float, bool]:
    if y == 0.0:
        return 0.0, False
    return x / y, True


@compiled
def modulo(x: int, y: int) -> tuple[int, bool]:
    """The remainder with the sign of the dividend."""
    if y == 0:
        return 0, False
    if y == SMALLEST:
        return (0, True) if x == SMALLEST else (x, True)
    rest = x % abs(y)
    return (rest - abs(y), True) if x < 0 and rest > 0 else (rest, True)


@compiled
def modulo_float(x: float, y: float) -> tuple[float, bool]:
    if y == 0.0:
        return 0.0, False
    if x != x or y != y or x - x != 0.0:
        return math.nan, True
    return float(np.fmod(x, y)), True


@compiled
def negate(x: int) -> tuple[int, bool]:
    if x == SMALLEST:
        return 0, False
    return -x, True


@compiled
def absolute(x: int) -> tuple[int, bool]:
    if x == SMALLEST:
        return 0, False
    return abs(x), True


@inlined
def compare(i: int, f: float) -> int:
    """An integer against a float, exactly: -1, 0, 1; 2 if f is NaN."""
    if f != f:
        return 2
    if f >= 9223372036854775808.0:
        return -1
    if f < -9223372036854775808.0:
        return 1
    whole = int(f)
    if i < whole:
        return -1
    if i > whole:
        return 1
    rest = f - whole
    if rest > 0.0:
        return -1
    if rest < 0.0:
        return 1
    return 0


@compiled
def floor_of(x: float) -> float:
    if x != x or abs(x) >= 4503599627370496.0:
        return x
    whole = float(int(x))
    return whole - 1.0 if whole > x else whole


@compiled
def ceil_of(x: float) -> float:
    return -floor_of(-x)


@compiled
def round_of(x: float) -> float:
    """Halves go to the even neighbour."""
    low = floor_of(x)
    rest = x - low
    if rest != rest or rest < 0.5:
        return low
    if rest > 0.5 or floor_of(low * 0.5) * 2.0 != low:
        return low + 1.0
    return low


@compiled
def root_of(x: float) -> tuple[float, bool]:
    if x < 0.0:
        return 0.0, False
    return math.sqrt(x), True


@compiled
def whole_of(x: float) -> tuple[int, bool]:
    """int(x): towards zero, null outside 64 bits."""
    if x != x or x >= 9223372036854775808.0 or x < -9223372036854775808.0:
        return 0, False
    return int(x), True


@compiled
def carry_add(low: int, carry: int, x: int) -> tuple[int, int]:
    """One step of an exact sum: `low` stays inside 64 bits, `carry` counts how often it went around."""
    if x > 0 and low > BIGGEST - x:
        return (low - BIGGEST - 1) + (x - BIGGEST - 1), carry + 1
    if x < 0 and low < SMALLEST - x:
        return (low + BIGGEST + 1) + (x + BIGGEST + 1), carry - 1
    return low + x, carry


# --- called by the host, with arrays ------------------------------------------------------------------------------


@entry
def compact_entry(T: Any, H: Any, R: int, D: Any, buffers: int, first: int, newH: Any, copy: bool) -> int:
    return compact(pointer(T), pointer(H), R, pointer(D), buffers, first, pointer(newH), copy)


@entry
def sweep_entry(T: Any, KM: Any, newKM: Any, size: int, D: Any, N: Any, leaves: int, alive: Any) -> None:
    sweep_keys(pointer(T), pointer(KM), pointer(newKM), size, pointer(D), pointer(N), leaves, pointer(alive))


@entry
def wait_entry(T: Any, PD: Any) -> None:
    wait(pointer(T), pointer(PD))


@entry
def purge_entry(T: Any, H: Any, R: int, D: Any, N: Any, buffers: int, P: Any, HA: Any) -> int:
    return purge(pointer(T), pointer(H), R, pointer(D), pointer(N), buffers, pointer(P), pointer(HA))


# --- loading -----------------------------------------------------------------------------------------------------


@cache
def library(jit: bool) -> ModuleType:
    """This module, plain or with every function compiled."""
    if not jit:
        return sys.modules[__name__]
    name = __name__ + "_jit"
    spec = importlib.util.spec_from_file_location(name, __file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["JIT"] = True
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@cache
def declare(name: str) -> None:
    """Compile a library function for the one signature it has, after those it calls.

    Left to itself Numba would compile a function anew for every constant that it is called with.
    """
    from numba import types

    address: Any = types.CPointer
    words, pointers = address(types.int64), {"HF": address(types.float64), "D": address(types.int32)}
    scalars = {"int": types.int64, "float": types.float64, "bool": types.boolean}
    function, plain = getattr(library(True), name), globals()[name]
    for called in plain.__code__.co_names:
        if callable(globals().get(called)) and called in FUNCTIONS:
            declare(called)
    kinds = plain.__annotations__
    arguments = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    function.compile(tuple(scalars.get(kinds[argument]) or pointers.get(argument, words) for argument in arguments))
    function.disable_compile()


FUNCTIONS = frozenset(
    name
    for name, value in list(globals().items())
    if getattr(value, "__module__", "") == __name__ and getattr(value, "__name__", "") == name and name[0] != "_"
) - {"library", "declare", "compact_entry", "sweep_entry", "wait_entry", "purge_entry", "pointer"}
