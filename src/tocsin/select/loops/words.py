"""The words that all loops share: where the numbers of a mode stand in P, and what stands for nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

NOBODY = -1
EMPTY = -(1 << 62)  # the first start of a slot in which no prefix waits; no time is so early
STEPS, MODE, WITHIN, EXCEEDS, OUT_N, MEM_N, FREE, TOP, NEEDS, WORDS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9  # of P
ROOM_OUT, ROOM_NODES, ROOM_MEMBERS = 1, 2, 3  # what is needed
FIRST, RECENT, SNOOP_RECENT, LATEST = 0, 1, 2, 3  # modes of one slot for each length
CHRONICLE, CUMULATIVE, CONTINUOUS = 4, 5, 6  # modes of lists
Array: TypeAlias = Any  # a compiled loop takes arrays, a plain one memoryviews
