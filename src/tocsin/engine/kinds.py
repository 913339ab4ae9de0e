"""The kinds of rows in a result: columns, match_id, whether they are retracted and whether later queries read them.

docs/semantics.md shows this table, and a test keeps the two equal. Kinds that come "later" are listed so that sinks and
schemas can be written for them today; no query gives them yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Columns = Literal["bindings", "prefix", "details"]


@dataclass(frozen=True, slots=True)
class RowKind:
    """One kind of row in a result.

    columns   "bindings": the variables or SELECT columns of a match; "prefix": the same, variables that were not
              reached are null; "details": one text column (JSON)
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
UNENDED = "unended"
UNPAIRED = "unpaired"
ANSWERS = (MATCH, TIMEOUT, COUNT, UNENDED, UNPAIRED)  # what queries give; the other kinds tell what happened on the way
ROW_KINDS: tuple[RowKind, ...] = (
    RowKind(MATCH, "bindings", "query, variables, eids, times", True, True, "0.1", "the pattern was found"),
    RowKind(TIMEOUT, "prefix", "query, step, variables, eids, times", True, False, "0.2",
            "a first part that its next step, in the column `step`, did not extend"),
    RowKind("early", "prefix", "query, bound eids", True, False, "later", "certain before an interval ends"),
    RowKind(UNENDED, "prefix", "query, eid", False, False, "0.2",
            "an interval that began and never ended (one that was announced: Session.unended)"),
    RowKind(UNPAIRED, "prefix", "query, eid", False, False, "0.2", "an end that found nothing open"),
    RowKind("expected", "prefix", "query, key, trace", True, False, "later", "the pattern must still happen"),
    RowKind(
        "unconfirmed", "bindings", "query, variables, eids, times", True, False, "later", "lost events may refute it"
    ),
    RowKind("violated", "details", "constraint, key", False, False, "later", "a trace broke its constraint"),
    RowKind(COUNT, "bindings", "query, group, span", True, False, "0.2", "what SELECT counts of a group"),
    RowKind("late", "details", "", False, False, "0.1", "an event that came too late (Spark; embedded: Session.late)"),
    RowKind("bad", "details", "", False, False, "0.1", "a row that cannot be used (Spark, bad_rows='keep')"),
    RowKind("metrics", "details", "", False, False, "0.1", "what a shard counted in a micro-batch (Spark)"),
)  # fmt: skip
