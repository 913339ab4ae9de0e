"""What every generated kernel calls: sorted buffers per leaf and key, the key table, waiting answers, exact arithmetic.

The same source runs as plain Python and under Numba: `library(jit=True)` loads this file a second time with JIT set.
Plain functions take memoryviews of the same NumPy arrays, so that they compute with Python's own integers.

State, all int64 unless said otherwise:
  T   control words and parameters, see the constants below
  H   [kind, place]  stored events, one column a place: row 0 end, row 1 event number, then what the plan stores
  HF  [kind, place]  float64 attributes
  D   [buffer, 4]    the buffer of leaf l for key k is number k * leaves + l: origin, begin, end, capacity in H
  KM  [slot, 3]      open-addressing table (prefix, value) -> key code; codes start at 1, 0 is "no key"
  PD  [n, width]     waiting answers, a binary heap on column 0 (the time they wait for), then key, then (event, end) pairs
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

JIT: bool
if "JIT" not in globals():
    JIT = False


def _identity(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


if JIT:
    from numba import njit

    compiled = njit(cache=True, nogil=True, error_model="numpy")
else:
    compiled = _identity

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
TWICE = 21  # 1: the current row's event was there already
PINS = 24  # places of the fixed leaves of the root that are given (-1: free), at most 40
PLACES = 64  # places of the current row's event, one per leaf, at most 96
ROW_KEYS = 160  # its key codes, likewise
LEVELS = 256  # the level of each leaf in the root's nest; -1 for leaves of forbidden blocks and repetitions
TERMINAL = 352  # 1: the leaf can hold the event that comes last
COVERED = 448  # 1: the key covers the leaf
PARAMS = 544  # the window, the integer literals, then the tables of types

# --- what a kernel returns ---------------------------------------------------------------------------------------
DONE, OUT_FULL, HEAP_FULL, KEYS_FULL, WAIT_FULL = 0, 1, 2, 3, 4

FAR = 1 << 62  # beyond every time
BIGGEST = (1 << 63) - 1
SMALLEST = -(1 << 63)


# --- sorted buffers ----------------------------------------------------------------------------------------------


@compiled
def first_at(H: Any, a: int, b: int, time: int) -> int:
    """The first place in [a, b) whose end is at or after `time`, or b."""
    while b - a > 8:
        middle = (a + b) >> 1
        if H[0, middle] < time:
            a = middle + 1
        else:
            b = middle
    while a < b and H[0, a] < time:
        a += 1
    return a


@compiled
def first_after(H: Any, a: int, b: int, time: int) -> int:
    """The first place in [a, b) whose end is after `time`, or b."""
    while b - a > 8:
        middle = (a + b) >> 1
        if H[0, middle] <= time:
            a = middle + 1
        else:
            b = middle
    while a < b and H[0, b - 1] > time:
        b -= 1
    return b


@compiled
def between(H: Any, a: int, b: int, low: int, high: int) -> tuple[int, int]:
    """The part of [a, b) whose ends lie in [low, high]."""
    b = first_after(H, a, b, high)
    return first_at(H, a, b, low), b


@compiled
def pinned(H: Any, place: int) -> tuple[int, int]:
    """Bounds on the end of a leaf before the loops: exact if it is pinned to a place, else none."""
    if place < 0:
        return -FAR, FAR
    return H[0, place], H[0, place]


@compiled
def narrow(H: Any, D: Any, d: int, place: int, low: int, high: int) -> tuple[int, int, int, int]:
    """The range of a leaf, and bounds on its ends; a pinned leaf is a range of one, an empty range has a == b."""
    if place >= 0:
        return place, place + 1, H[0, place], H[0, place]
    a, b = between(H, D[d, 1], D[d, 2], low, high)
    if a >= b:
        return b, b, 0, 0
    return a, b, H[0, a], H[0, b - 1]


@compiled
def reserve(T: Any, H: Any, HF: Any, D: Any, d: int) -> bool:
    """Make room for one more event in buffer d; drop what lies behind the horizon. False: H is full."""
    begin = D[d, 1]
    end = D[d, 2]
    horizon = T[HORIZON]
    while begin < end and H[0, begin] < horizon:
        begin += 1
    origin = D[d, 0]
    capacity = D[d, 3]
    if begin == end:
        begin = origin
        end = origin
    D[d, 1] = begin
    D[d, 2] = end
    if end < origin + capacity:
        return True
    count = end - begin
    if begin - origin >= (capacity >> 1) and begin > origin:
        move(H, HF, begin, origin, count)
        D[d, 1] = origin
        D[d, 2] = origin + count
        return True
    bigger = max(4, 2 * capacity)
    top = T[TOP]
    if top + bigger > H.shape[1]:
        return False
    move(H, HF, begin, top, count)
    T[TOP] = top + bigger
    D[d, 0] = top
    D[d, 1] = top
    D[d, 2] = top + count
    D[d, 3] = bigger
    return True


@compiled
def move(H: Any, HF: Any, source: int, target: int, count: int) -> None:
    """Copy `count` places to the left or into free space."""
    for kind in range(H.shape[0]):
        for k in range(count):
            H[kind, target + k] = H[kind, source + k]
    for kind in range(HF.shape[0]):
        for k in range(count):
            HF[kind, target + k] = HF[kind, source + k]


@compiled
def insert(H: Any, HF: Any, D: Any, d: int, end: int, start: int, high: int, low: int, rs: int, rh: int) -> int:
    """Open the place of an event in buffer d, in canonical order; the caller fills it.

    `rs` is the row of H that holds starts (0 if all events are points), `rh` that of eids (-1 if there are none).
    Returns the place, or -1 - place if the event is there already.
    """
    begin = D[d, 1]
    stop = D[d, 2]
    place = stop
    if place > begin and H[0, place - 1] > end:
        place = first_after(H, begin, place, end)
    while place > begin and H[0, place - 1] == end:
        before = place - 1
        other = H[rs, before]
        if other < start:
            break
        if other == start:
            if rh < 0 or H[rh, before] < high:
                break
            if H[rh, before] == high:
                if H[rh + 1, before] < low:
                    break
                if H[rh + 1, before] == low:
                    return -1 - before
        place = before
    for kind in range(H.shape[0]):
        for k in range(stop, place, -1):
            H[kind, k] = H[kind, k - 1]
    for kind in range(HF.shape[0]):
        for k in range(stop, place, -1):
            HF[kind, k] = HF[kind, k - 1]
    D[d, 2] = stop + 1
    return place


@compiled
def ready(
    T: Any, H: Any, HF: Any, D: Any, KM: Any, leaves: int, leaf: int, before: int, keyed: bool, prefix: int, value: int
) -> int:
    """Find the buffer of an event and make room in it: its key code, -1 if the event is of no use, or a status.

    `before` is a leaf that must hold an earlier event under the same key, or -1; ordered input may rely on that.
    Nothing changes if it is asked again.
    """
    key = 0
    if before >= 0 and T[ORDERED] != 0:
        if keyed:
            key = key_of(KM, prefix, value)
            if key == 0:
                return -1
        if D[key * leaves + before, 1] == D[key * leaves + before, 2]:
            return -1
    elif keyed:
        key = new_key(T, KM, D, leaves, prefix, value)
        if key < 0:
            return -KEYS_FULL
    if not reserve(T, H, HF, D, key * leaves + leaf):
        return -HEAP_FULL
    return key


@compiled
def enter(
    T: Any, H: Any, HF: Any, D: Any, KM: Any, leaves: int, leaf: int, before: int, keyed: bool, prefix: int, value: int,
    number: int, end: int, start: int, high: int, low: int, rs: int, rh: int, keep: bool,
) -> int:  # fmt: skip
    """Store an event at a leaf, or on the leaf's scratch place if it need not be kept; its place or what `ready` says.

    An event that is there already is counted and has no place (-1).
    """
    key = ready(T, H, HF, D, KM, leaves, leaf, before, keyed, prefix, value)
    if key < 0:
        return key
    place = leaf
    if keep:
        place = insert(H, HF, D, key * leaves + leaf, end, start, high, low, rs, rh)
        if place < 0:
            T[TWICE] = 1
            return -1
    H[0, place] = end
    H[1, place] = number
    if rs > 0:
        H[rs, place] = start
    if rh > 0:
        H[rh, place] = high
        H[rh + 1, place] = low
    T[PLACES + leaf] = place
    T[ROW_KEYS + leaf] = key
    return place


@compiled
def withdraw(
    T: Any, H: Any, D: Any, KM: Any, leaves: int, leaf: int, keyed: bool, prefix: int, value: int,
    end: int, start: int, high: int, low: int, rs: int, rh: int,
) -> None:  # fmt: skip
    """Find the event that is being withdrawn; its place is -1 if it never came."""
    key = 0
    if keyed:
        key = key_of(KM, prefix, value)
        if key == 0:
            return
    T[PLACES + leaf] = locate(H, D, key * leaves + leaf, end, start, high, low, rs, rh)
    T[ROW_KEYS + leaf] = key


@compiled
def locate(H: Any, D: Any, d: int, end: int, start: int, high: int, low: int, rs: int, rh: int) -> int:
    """The place of the event with this time and eid in buffer d, or -1."""
    place = first_at(H, D[d, 1], D[d, 2], end)
    while place < D[d, 2] and H[0, place] == end:
        if H[rs, place] == start and H[rh, place] == high and H[rh + 1, place] == low:
            return place
        place += 1
    return -1


@compiled
def find(H: Any, D: Any, d: int, end: int, number: int) -> int:
    """The place of event `number` (which ends at `end`) in buffer d, or -1."""
    place = first_at(H, D[d, 1], D[d, 2], end)
    while place < D[d, 2] and H[0, place] == end:
        if H[1, place] == number:
            return place
        place += 1
    return -1


@compiled
def remove(H: Any, HF: Any, D: Any, d: int, place: int) -> None:
    """Close the place of an event."""
    stop = D[d, 2] - 1
    move(H, HF, place + 1, place, stop - place)
    D[d, 2] = stop


@compiled
def compact(T: Any, H: Any, HF: Any, D: Any, buffers: int, first: int, newH: Any, newHF: Any) -> None:
    """Copy every live event into newH, tightly; what lies behind the horizon stays behind."""
    horizon = T[HORIZON]
    top = first
    for d in range(buffers):
        begin = D[d, 1]
        end = D[d, 2]
        while begin < end and H[0, begin] < horizon:
            begin += 1
        count = end - begin
        if D[d, 3] == 0:
            continue
        capacity = 0
        if count > 0:
            capacity = 4
            while capacity < count:
                capacity *= 2
        for kind in range(H.shape[0]):
            for k in range(count):
                newH[kind, top + k] = H[kind, begin + k]
        for kind in range(HF.shape[0]):
            for k in range(count):
                newHF[kind, top + k] = HF[kind, begin + k]
        D[d, 0] = top
        D[d, 1] = top
        D[d, 2] = top + count
        D[d, 3] = capacity
        top += capacity
    T[TOP] = top


@compiled
def needed(T: Any, D: Any, buffers: int, H: Any) -> int:
    """How many places `compact` would use."""
    horizon = T[HORIZON]
    total = 0
    for d in range(buffers):
        begin = D[d, 1]
        end = D[d, 2]
        while begin < end and H[0, begin] < horizon:
            begin += 1
        if end > begin:
            capacity = 4
            while capacity < end - begin:
                capacity *= 2
            total += capacity
    return total


# --- keys --------------------------------------------------------------------------------------------------------


@compiled
def key_slot(KM: Any, prefix: int, value: int) -> int:
    """The slot of a key in KM: where it is, or where it would go."""
    mask = KM.shape[0] - 1
    h = value * -7046029254386353131 + prefix * 6364136223846793005
    slot = (h ^ (h >> 31)) & mask
    while KM[slot, 2] != 0 and (KM[slot, 1] != value or KM[slot, 0] != prefix):
        slot = (slot + 1) & mask
    return slot


@compiled
def key_of(KM: Any, prefix: int, value: int) -> int:
    """The code of a key, or 0 if it was never seen."""
    return KM[key_slot(KM, prefix, value), 2]


@compiled
def new_key(T: Any, KM: Any, D: Any, leaves: int, prefix: int, value: int) -> int:
    """The code of a key, a new one if needed; -1 if the tables are full."""
    slot = key_slot(KM, prefix, value)
    code = KM[slot, 2]
    if code != 0:
        return code
    if 2 * T[KEYS_USED] >= KM.shape[0]:
        return -1
    code = T[FREE_KEY]
    if code != 0:
        T[FREE_KEY] = D[code * leaves, 0]
        D[code * leaves, 0] = 0
    else:
        code = T[KEYS]
        if (code + 1) * leaves > D.shape[0]:
            return -1
        T[KEYS] = code + 1
    KM[slot, 0] = prefix
    KM[slot, 1] = value
    KM[slot, 2] = code
    T[KEYS_USED] += 1
    return code


@compiled
def sweep_keys(T: Any, KM: Any, newKM: Any, D: Any, leaves: int, alive: Any) -> None:
    """Move the keys that still have events into newKM and recycle the other codes. Call after `compact`."""
    for code in range(T[KEYS]):
        alive[code] = 0
        for leaf in range(leaves):
            if D[code * leaves + leaf, 2] > D[code * leaves + leaf, 1]:
                alive[code] = 1
    for _ in range(8):  # a prefix lives while a longer key uses it; keys have few parts
        for slot in range(KM.shape[0]):
            if KM[slot, 2] != 0 and alive[KM[slot, 2]] != 0 and KM[slot, 0] != 0:
                alive[KM[slot, 0]] = 1
    used = 0
    for slot in range(KM.shape[0]):
        code = KM[slot, 2]
        if code == 0:
            continue
        if alive[code] != 0:
            target = key_slot(newKM, KM[slot, 0], KM[slot, 1])
            newKM[target, 0] = KM[slot, 0]
            newKM[target, 1] = KM[slot, 1]
            newKM[target, 2] = code
            used += 1
        else:
            for leaf in range(leaves):
                for k in range(4):
                    D[code * leaves + leaf, k] = 0
            D[code * leaves, 0] = T[FREE_KEY]
            T[FREE_KEY] = code
    T[KEYS_USED] = used


# --- waiting answers ---------------------------------------------------------------------------------------------


@compiled
def wait(T: Any, PD: Any) -> None:
    """Take the fresh entries behind the heap into the heap."""
    width = PD.shape[1]
    for _ in range(T[FRESH]):
        child = T[WAITING]
        T[WAITING] = child + 1
        while child > 0:
            parent = (child - 1) >> 1
            if PD[parent, 0] <= PD[child, 0]:
                break
            for k in range(width):
                other = PD[parent, k]
                PD[parent, k] = PD[child, k]
                PD[child, k] = other
            child = parent
    T[FRESH] = 0


@compiled
def unwait(T: Any, PD: Any) -> None:
    """Drop the first entry of the heap."""
    width = PD.shape[1]
    last = T[WAITING] - 1
    T[WAITING] = last
    for k in range(width):
        PD[0, k] = PD[last, k]
    sink(PD, last)


@compiled
def sink(PD: Any, count: int) -> None:
    """Restore the heap after its first entry changed."""
    parent = 0
    while 2 * parent + 1 < count:
        child = 2 * parent + 1
        if child + 1 < count and PD[child + 1, 0] < PD[child, 0]:
            child += 1
        if PD[parent, 0] <= PD[child, 0]:
            return
        for k in range(PD.shape[1]):
            other = PD[parent, k]
            PD[parent, k] = PD[child, k]
            PD[child, k] = other
        parent = child


@compiled
def rewait(T: Any, PD: Any) -> None:
    """Let the first entry of the heap wait on, until T[REWAIT]."""
    PD[0, 0] = T[REWAIT]
    sink(PD, T[WAITING])


# --- arithmetic that never lies: (value, is not null) -------------------------------------------------------------


@compiled
def add(x: int, y: int) -> tuple[int, bool]:
    if (y > 0 and x > BIGGEST - y) or (y < 0 and x < SMALLEST - y):
        return 0, False
    return x + y, True


@compiled
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


@compiled
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
    return math.fmod(x, y), True


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


@compiled
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

    ints, table = types.int64[::1], types.int64[:, ::1]
    arrays = {"T": ints, "alive": ints, "HF": types.float64[:, ::1], "newHF": types.float64[:, ::1]}
    scalars = {"int": types.int64, "float": types.float64, "bool": types.boolean}
    function, plain = getattr(library(True), name), globals()[name]
    for called in plain.__code__.co_names:
        if callable(globals().get(called)) and called in FUNCTIONS:
            declare(called)
    kinds = plain.__annotations__
    arguments = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    function.compile(tuple(scalars.get(kinds[argument]) or arrays.get(argument, table) for argument in arguments))
    function.disable_compile()


FUNCTIONS = frozenset(
    name
    for name, value in list(globals().items())
    if getattr(value, "__module__", "") == __name__ and getattr(value, "__name__", "") == name and name[0] != "_"
) - {"library", "declare"}
