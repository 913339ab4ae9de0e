"""Every construct that chooses among matches, on shards of a stream without Spark: in each order, whatever goes wrong.

A job answers some rows of `tests/selection_table.py`; workers, attempts and drivers are lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from tests import shard_support
from tests.effort import examples
from tests.selection_table import CONSTRUCTS, CORRECTING, EVENTS, LATE, differences, rows_of, together
from tests.shard_support import Stream, arranged, ask, cuts, frame_of, row_of, with_strategy
from tocsin.schema import Schema
from tocsin.shards.watermark import parse_order

pytestmark = pytest.mark.filterwarnings("ignore::tocsin.errors.TocsinWarning")
merged_early = shard_support.merged_early
SORTING, IMMEDIATE = f"slack({LATE})", f"aggressive({LATE}, trailing=immediate)"
ORDERS = (SORTING, *CORRECTING, IMMEDIATE)
SHARE = 4  # a job answers so large a part of the constructs


def said(order: str, names: Sequence[str], random: Random) -> list[dict[str, Any]]:
    """The answers to some constructs, from micro-batches in which events come late."""
    slack = parse_order(order, Schema())
    asked = ask(together(names).queries, frame_of(pa.int64(), intervals=False), buckets=random.choice((1, 3)))
    stream = Stream(with_strategy(asked, slack.strategy), slack, random)
    for batch in cuts(arranged(EVENTS, LATE, random), random):
        stream.batch([row_of(event, asked.frame) for event in batch])
    stream.close()
    assert not stream.answers.late
    return stream.answers.matches


@pytest.mark.parametrize("number", range(examples(4 * SHARE)))
@pytest.mark.parametrize("order", ORDERS)
def test_each_construct_means_the_same_on_shards(order: str, number: int) -> None:
    names = list(CONSTRUCTS)[(ORDERS.index(order) + number) % SHARE :: SHARE]
    assert differences(said(order, names, Random(f"{order} {number}")), names) == []


@pytest.mark.parametrize("number", range(examples(4 * SHARE)))
def test_settled_at_is_that_of_one_run_over_all_events(number: int) -> None:
    """Sorted first, it is a function of the events, whatever was lost. (Counts are told more often in a stream.)"""
    names = list(CONSTRUCTS)[number % SHARE :: SHARE]
    whole = together(names).detect(pa.Table.from_pylist(rows_of(EVENTS)), eid="eid", threads=1, jit=False)
    found = said(SORTING, names, Random(f"settled {number}"))
    assert settled(found) == settled(map(dict, whole))


def settled(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    shown = ("query", "kind", "match_id", "op", "start", "end", "settled_at")
    return sorted(str([row[name] for name in shown]) for row in rows if row["kind"] != "count")
