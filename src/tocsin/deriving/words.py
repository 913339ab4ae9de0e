"""The words that the loops share: where the numbers of a definition stand in P, those of a key in S, of an answer."""

from __future__ import annotations

from typing import Any, TypeAlias

NOBODY = -1
NONE = 1 << 62  # the last reading of a key without an open interval; no time is so late
Array: TypeAlias = Any  # a compiled loop takes arrays, a plain one memoryviews

GAP, UNTIL_NEXT, STATES, POLICY, FOLDS, OUT_N, FREE, TOP, NEEDS, PARAMETERS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9  # of P
ROOM_OUT, ROOM_NODES = 1, 2  # what is needed
NESTED, QUEUED, OUTERMOST, RESTART = 0, 1, 2, 3  # policies

# Of an answer; behind them two words for each fold: whether there is a value, and the value.
KNOWN, CODE, KIND, OF, START, END, OCCURRENCE, ANSWER = 0, 1, 2, 3, 4, 5, 6, 7
WHOLE, UNPAIRED, UNENDED = 0, 1, 2  # kinds

# Of a key with a run, and behind them the folds of the run.
LABEL, BEGIN, NUMBER, BEGAN, BEGUN, RUN = 0, 1, 2, 3, 4, 5
# Of a key of pairs: the open begins; ends that a begin of their own time will take, and how many these are; when a
# begin came last, and how many then; how many are open inside; when an end found nothing, and how many then.
HEAD, TAIL, ALONE, LAST_ALONE, WAITING, CAME, COME, DEPTH, MISSED_AT, MISSED, PAIRS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
# Of a node, which is an open begin or an end that waits; behind them the folds of its reading.
BEHIND, TIME, PLACE, NODE = 0, 1, 2, 3

COUNT, MIN, MAX, FIRST, LAST = 0, 1, 2, 3, 4  # what a fold does
ENDS, BEGINS, ENDS_ALSO = 0, 1, 2  # what a row is for a pair; the last: the end of an event that also begins
