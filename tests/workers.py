"""Which tests share a worker: all that need Spark, so that one JVM serves them; the rest in small groups.

xdist has groups by mark, but tells the controller of them in the names of the tests, which pytest 9.2 no longer lets it
change. So the name alone decides here: a test that needs Spark has the word in its own name or in that of its file, or
stands in one of `ON_SPARK`. `tests/test_effort.py` holds the names against the fixtures.
"""

from __future__ import annotations

import zlib

from xdist.scheduler import LoadScopeScheduling

SPARK = "spark"
ON_SPARK = ("test_pipeline.py",)
SHARES = 8  # of the examples of one test, so that a long list of them is divided among the workers


def group_of(name: str) -> str:
    """The group of a test, from its full name."""
    place = name.partition("[")[0]
    if SPARK in place or place.partition("::")[0].endswith(ON_SPARK):
        return SPARK
    return f"{place} {zlib.crc32(name.encode()) % SHARES}"


class ByGroup(LoadScopeScheduling):
    """Gives each worker one group at a time, in the order in which the tests are listed."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
