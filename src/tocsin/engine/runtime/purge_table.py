"""The layout of P, the table of purge rules.

First come the words below, then GUARANTEED, POSITION, BY_KEY and JUDGED of each leaf, then the leaf at each position
(a fixed leaf of the root), then four words for each pair of a leaf and a position. Those bound the end of the event at
the position, relative to an event at the leaf: not before start + [0] and end + [1], not after start + [2] and end +
[3].
"""

from __future__ import annotations

P_LEAVES, P_ROOTS, P_WINDOW, P_START = 0, 1, 2, 3  # P_WINDOW: -1 without one; P_START: the word of H with the start
P_CHAIN = 4  # 1: the positions follow one another in time
P_RULES = 5  # 0: only what lies behind the horizon goes
P_OWN = 6  # 1: a spent event stays until its own time is guaranteed, so that it is known again
P_HELD, P_SINCE = 7, 8  # how many entries HA has; held answers look at no event that starts before this
P_PATIENCE = 9  # the sweep ends when it has dropped less than one in so many
PURGED = 9  # how many events each reason has dropped, from PURGED + A1 on
A1, A2, P3, NEG, OLD = 1, 2, 3, 4, 5  # why an event is dropped
P_TABLE = 15  # where the words of leaves begin
GUARANTEED, POSITION, BY_KEY, JUDGED = 0, 1, 2, 3  # of a leaf
