"""Where the state keeps what it knows of the row that is being read, as text of kernels: a word for each leaf or level.

The tables lie in T one behind the other (`runtime/words`); nobody else writes down how a word of them is found.
"""

from __future__ import annotations


def place_of(leaf: object) -> str:
    """Where the row's event was stored at a leaf; -1: it was not."""
    return f"T[PLACES + {leaf}]"


def key_at(leaf: object) -> str:
    """The code of the key under which it was stored there."""
    return f"T[ROW_KEYS + {leaf}]"


def level_of(leaf: object) -> str:
    """The level of a leaf in the root's nest; -1: it is in a forbidden block, or repeated."""
    return f"T[LEVELS + {leaf}]"


def pin_at(level: object) -> str:
    """The place that is given at a level; -1: it is free."""
    return f"T[PINS + {level}]"


def bounds_at(level: object) -> tuple[str, str]:
    """Between which times a binding must lie, at a level, that the row can change."""
    return f"T[LOWS + {level}]", f"T[HIGHS + {level}]"


# the same of the leaf that a loop over leaves calls `leaf`
PLACE, KEY, LEVEL = place_of("leaf"), key_at("leaf"), level_of("leaf")
IS_STORED = f"{PLACE} >= 0"
IS_INSIDE = f"{LEVEL} < 0 and {IS_STORED}"  # at a leaf of a forbidden part, or of a repetition
IS_COVERED = "T[COVERED + leaf] != 0"  # by the key
CAN_BE_LAST = "T[TERMINAL + leaf] != 0"
