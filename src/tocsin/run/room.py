"""Room: how much memory the input of a run may take before it is read piece by piece."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SHARE = 4  # an input may take one part in so many of the memory there is: what is made of it needs the rest
CONTROL_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def room(memory_limit: int | None) -> int:
    """How many bytes an input may take: what was asked for, or a share of what this process may use."""
    return memory() // SHARE if memory_limit is None else memory_limit


def memory() -> int:
    """How many bytes this process may use."""
    return min(_limits(), default=sys.maxsize)


def _limits() -> Iterator[int]:
    """The memory of the machine, and what the process or its container is limited to."""
    with suppress(AttributeError, OSError, ValueError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in CONTROL_GROUPS:
        with suppress(OSError, ValueError):
            yield int(Path(name).read_text())  # "max" is no number
    with suppress(ImportError, OSError):
        import resource

        for each in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            limit = resource.getrlimit(each)[0]
            if limit != resource.RLIM_INFINITY:
                yield limit
