"""The layout of the state: what each control word in T says, and the tables that all functions of a kernel share.

All tables are flat, a row after the other (of OUT a column after the other):

  T   control words and parameters: the words below
  H   stored events, R words a place: end, event number, then what the plan stores
  HF  the same memory as H, read as float64
  D   buffers, 4 half-words (int32) each: origin, begin, end, capacity in H; leaf l has for key k the buffer number
      k * leaves + l
  N   the newest end in each buffer, or a time long ago: most lookups need no more
  KM  open-addressing table, 3 words a slot: prefix, value, key code; codes start at 1, 0 is "no key"
  PD  waiting answers, WAIT_WIDTH words each, a binary heap on word 0: the time they wait for, key, (event, end) pairs;
      held answers have before these the type they wait for and a stamp (see STAMPS), and those that the heap cannot
      rank stand aside, from the last row backwards
  OUT answers: sign, when it was known, an event number for each level of the nest, (begin, count) in MEM for each set
"""

from __future__ import annotations

# the arrays of the state in the order in which kernels are told where they are: RK has the ranks of texts by code
STATE = {
    "T": "int64", "H": "int64", "HF": "float64", "D": "int32", "N": "int64", "KM": "int64", "PD": "int64",
    "OUT": "int64", "MEM": "int64", "LF": "float64", "RK": "int64",
}  # fmt: skip

# --- words in T --------------------------------------------------------------------------------------------------
CLOCK = 0  # the largest end seen
ORDERED = 1  # 1: input is promised in order of end
HORIZON = 2  # events that end before this are needed by nobody
OUT_N = 3  # rows in OUT
MEM_N = 4  # entries in MEM (members of repetitions)
TOP = 5  # first free place in H
KEYS = 6  # next unused key code
FREE_KEY = 7  # head of the list of recycled key codes
PHASE = 8  # 1: the current row is stored already, only its answers are missing
ENDED = 9  # 1: the stream has ended; 2: it counts as ended for the answers that wait, whose entries say since when
WAITING = 10  # entries of the heap PD
FRESH = 11  # entries behind the heap, added for the current row
LATE = 12  # rows that came too late
DUPLICATES = 13  # events that were there already
RELEVANT = 14  # events that were stored
KEYS_USED = 15  # occupied slots of KM
ROW = 16  # where the kernel stopped in the batch
SIGN = 17  # -1 while an event is being withdrawn
REWAIT = 18  # a waiting answer must wait on, until this
TYPES_AT = 19  # where in T the local numbers of types begin
LEAVES_AT = 20  # where in T the lists of leaves begin, one list per local type, each closed by -1
H_SIZE, D_SIZE, KM_SIZE, OUT_SIZE, MEM_SIZE, PD_SIZE = 21, 22, 23, 24, 25, 26  # rows of the tables
WAIT_WIDTH = 27  # words of a waiting answer
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
ASKED = 46  # 1 + the number of the user function that is being asked; else 0
START = 47  # which word of a stored event is its start; 0: it is a point
TAILS, TAILS_FROM = 48, 49  # the ring MEM of tails: how much was written, and from where on it may be read

# --- tables in T, one word for each leaf -------------------------------------------------------------------------
MOST_LEAVES = 112  # how many there may be
PINS = 50  # by level of the root's nest: the place that is given, -1: free
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
LONGEST = (
    HIGHS + MOST_LEAVES
)  # the length of the longest event that was stored: how far behind its start an end can lie
STAMPS = LONGEST + MOST_LEAVES  # by key modulo STAMPED: changes when an event may have refuted held answers
STAMPED = 64  # how many stamps there are
PARAMS = STAMPS + STAMPED  # the window, the integer literals, then the tables of types

# --- what a kernel returns ---------------------------------------------------------------------------------------
DONE, OUT_FULL, HEAP_FULL, KEYS_FULL, WAIT_FULL = 0, 1, 2, 3, 4

# --- numbers with a meaning --------------------------------------------------------------------------------------
FAR = 1 << 62  # beyond every time
UNLIMITED = 1 << 61  # a slack or a lag that nothing exceeds
BIGGEST = (1 << 63) - 1  # of 64 bits
SMALLEST = -(1 << 63)
