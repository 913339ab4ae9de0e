"""Definitions of intervals in Python: `runs`, `sessions` and `pairs` give queries, equal to what the same text gives.

from tocsin import intervals

hot = intervals.runs("temperature", "Reading", {"HIGH": "value > 100", "LOW": "value <= 100"}, by="sensor")
hot.detect(events)                       # embedded; hot.stream(...) live
tocsin.spark.detect(df, hot)             # a Spark batch or stream
tocsin.query([hot, "EVENT SEQ(HIGH a, HIGH b) WHERE [sensor] WITHIN 1 h"])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from tocsin.lang.printer import print_name, print_type
from tocsin.run.query import Query, query

Types = str | Iterable[str] | Mapping[str, str]  # a type, several, or types with conditions on their readings
Names = str | Iterable[str]
Gap = int | str  # in ticks, or as text: "5 min"


def runs(
    name: str,
    readings: Types,
    states: Mapping[str, str],
    *,
    by: Names = (),
    end: Literal["next", "last"] = "next",
    max_gap: Gap | None = None,
    select: Names = (),
    schema: Any = None,
) -> Query:
    """Runs of a state: `states` gives for each label its condition; the first that is TRUE counts.

    end      "next": a run ends where the next begins; "last": at its own last reading
    max_gap  and it ends there if the next reading comes later than so
    select   columns, such as "max(value) AS top"
    """
    given = ", ".join(f"{print_name(label)} WHEN {condition}" for label, condition in states.items())
    clauses = [f"AS {given}", "END LAST" if end == "last" else "", "" if max_gap is None else f"MAX GAP {max_gap}"]
    return _query(name, readings, by, clauses, select, schema)


def sessions(name: str, events: Types, gap: Gap, *, by: Names = (), select: Names = (), schema: Any = None) -> Query:
    """Sessions: one goes on while the next event comes at most `gap` after the last."""
    return _query(name, events, by, [f"SESSION GAP {gap}"], select, schema)


def pairs(
    name: str,
    begins: Types,
    ends: Types,
    *,
    by: Names = (),
    policy: Literal["nested", "queued", "outermost", "restart"] = "nested",
    select: Names = (),
    schema: Any = None,
) -> Query:
    """Pairs of a begin and an end; `policy` says which open begin an end belongs to."""
    return _query(name, begins, by, [f"TO {_types(ends)}", policy.upper()], select, schema)


def reducer(definition: Query | str, schema: Any = None) -> str:
    """The text of a program that derives the intervals of a definition on a device: plain Python, no packages."""
    from tocsin.edge.reducer import reducer_source
    from tocsin.errors import TocsinError
    from tocsin.lang.derived_syntax import Intervals
    from tocsin.run.query import as_schema
    from tocsin.run.schema_from_query import guessed_schema

    asked = query(definition) if isinstance(definition, str) else definition
    found = [each for each in asked.queries if isinstance(each, Intervals)]
    if len(found) != 1:
        raise TocsinError(f"a reducer is made of one definition of INTERVALS, not of {len(found)}")
    return reducer_source(found[0], as_schema(schema) or asked.schema or guessed_schema(found))


def _query(name: str, readings: Types, by: Names, clauses: list[str], select: Names, schema: Any) -> Query:
    attrs, columns = _several(by), _several(select)
    lines = [f"INTERVALS {print_name(name)} FROM {_types(readings)}"]
    lines += [f"BY {', '.join(map(print_name, attrs))}"] if attrs else []
    lines += [*filter(None, clauses), *([f"SELECT {', '.join(columns)}"] if columns else [])]
    return query("\n".join(lines), schema=schema)


def _types(given: Types) -> str:
    if isinstance(given, Mapping):
        return ", ".join(f"{print_type(type)} : {condition}" for type, condition in given.items())
    return ", ".join(map(print_type, _several(given)))


def _several(given: Names) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


__all__ = ["pairs", "reducer", "runs", "sessions"]
