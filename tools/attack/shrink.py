"""Make the input of a finding small: leave out what can be left out, as long as the same thing still happens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tools.attack.core import Input

MANY = 1000  # larger numbers are seeds, which do not get simpler


def shrunk(given: Input, fails: Callable[[Input], bool], *, most: int = 150) -> Input:
    """Greedy: take the first smaller input that still fails, and begin again; `most` tries."""
    tries = 0
    while True:
        for smaller in simpler(given):
            tries += 1
            if tries > most:
                return given
            if fails(smaller):
                given = smaller
                break
        else:
            return given


def simpler(value: Any) -> Iterator[Any]:
    """Yield everything that is one step smaller, the biggest steps first; words such as a format stay as they are.

    >>> list(simpler([0, 1]))
    [[1], [0]]
    >>> list(simpler({"a": [7], "b": "word", "c": 4}))
    [{'a': [], 'b': 'word', 'c': 4}, {'a': [3], 'b': 'word', 'c': 4}, {'a': [7], 'b': 'word', 'c': 2}]
    """
    if isinstance(value, dict):
        for name, part in value.items():
            for smaller in simpler(part):
                yield {**value, name: smaller}
    elif isinstance(value, int) and 1 < value <= MANY:
        yield value // 2
    elif isinstance(value, list | bytes) or (isinstance(value, str) and re.search(r"\W", value)):
        size = max(1, len(value) // 2)
        while value:
            for at in range(0, len(value), size):
                yield value[:at] + value[at + size :]
            if size == 1:
                break
            size //= 2
        if isinstance(value, list):
            for at, part in enumerate(value):
                for smaller in simpler(part):
                    yield [*value[:at], smaller, *value[at + 1 :]]
