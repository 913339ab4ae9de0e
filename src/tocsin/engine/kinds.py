"""The kinds of rows in a result: columns, match_id, whether they are retracted and whether later queries read them.

docs/semantics.md shows this table, and a test keeps the two equal. Kinds that come "later" are listed so that sinks and
schemas can be written for them today; no query gives them yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Columns = Literal["bindings", "prefix", "details", "trace"]


@dataclass(frozen=True, slots=True)
class RowKind:
    """One kind of row in a result.

    columns   "bindings": the variables or SELECT columns of a match; "prefix": the same, variables that were not
              reached are null; "details": one text column (JSON); "trace": constraint, key, reason, event, events
    match_id  what its match_id covers; empty: it has none
    retracts  whether a row with op = -1 may take it back
    feeds     whether later queries see it as an event of the type that has the query's name
    since     the version from which on rows of this kind are given; "later" if none does yet
    """

    name: str
    columns: Columns
    match_id: str
    retracts: bool
    feeds: bool
    since: str
    says: str


MATCH = "match"
TIMEOUT = "timeout"
COUNT = "count"
EXPECTED_MATCH, UNCONFIRMED, VIOLATED = "expected", "unconfirmed", "violated"  # of traces under constraints
EARLY = "early"
UNENDED = "unended"
UNPAIRED = "unpaired"
# what queries give; the other kinds tell what happened on the way
ANSWERS = (MATCH, TIMEOUT, COUNT, EARLY, UNENDED, UNPAIRED, EXPECTED_MATCH, UNCONFIRMED, VIOLATED)
ROW_KINDS: tuple[RowKind, ...] = (
    RowKind(MATCH, "bindings", "query, variables, eids, times", True, True, "0.1", "the pattern was found"),
    RowKind(TIMEOUT, "prefix", "query, step, variables, eids, times", True, False, "0.2",
            "a first part that its next step, in the column `step`, did not extend"),
    RowKind(EARLY, "bindings", "query, variables, eids", True, False, "0.2",
            "a match that is certain before its intervals have ended (`WITHIN W EARLY`); its `end` is null"),
    RowKind(UNENDED, "prefix", "query, eid", False, False, "0.2",
            "an interval that began and never ended (one that was announced: Session.unended)"),
    RowKind(UNPAIRED, "prefix", "query, eid", False, False, "0.2", "an end that found nothing open"),
    RowKind(EXPECTED_MATCH, "trace", "query, constraint, key, trace", False, False, "0.2",
            "every end of the trace that its constraint allows holds a match"),
    RowKind(UNCONFIRMED, "trace", "that of the expected row", False, False, "0.2",
            "the trace broke its constraint before the match that was expected"),
    RowKind(VIOLATED, "trace", "query, constraint, key, trace", False, False, "0.2", "a trace broke its constraint"),
    RowKind(COUNT, "bindings", "query, group, span", True, False, "0.2", "what SELECT counts of a group"),
    RowKind("late", "details", "", False, False, "0.1", "an event that came too late (Spark; embedded: Session.late)"),
    RowKind("bad", "details", "", False, False, "0.1", "a row that cannot be used (Spark, bad_rows='keep')"),
    RowKind("metrics", "details", "", False, False, "0.1", "what a shard counted in a micro-batch (Spark)"),
)  # fmt: skip
