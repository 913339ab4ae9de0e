"""Row groups of a Parquet file that no query needs: by the types in them, and by the statistics of their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tocsin.encode.columns import Columns
from tocsin.encode.values import is_exact
from tocsin.graph.query_graph import QueryGraph
from tocsin.schema import Kind


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known of a row group: how many rows there are of each type, and whether all of them can be used."""

    types: Counter[str]
    usable: bool


@dataclass(slots=True)
class Skip:
    """Says which row groups concern no query, and counts their rows."""

    graph: QueryGraph
    rows: int = 0
    relevant: int = 0  # rows of types that are read
    groups: int = 0
    _limits: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: QueryGraph, columns: Columns) -> Skip | None:
        """None: every row must be read, to be sorted or to be told from its copies."""
        if not graph.is_plain or columns.eid is not None or columns.source is not None:
            return None
        return cls(graph, _limits=graph.limits)

    def skips(self, facts: GroupFacts, file: parquet.ParquetFile, group: int) -> bool:
        """Whether a row group concerns no query; if so, count its rows."""
        if not facts.usable or not self._cannot_fail(file.schema_arrow):
            return False
        names = [name for name, count in facts.types.items() if count]
        codes = self.graph.encoder.codes_of(tuple(names))
        read = [name for name, code in zip(names, codes.tolist(), strict=True) if code >= 0]
        if read and not self._beyond(read, statistics_of(file, group)):
            return False
        self.groups += 1
        self.rows += sum(facts.types.values())
        self.relevant += sum(facts.types[name] for name in read)
        return True

    def _cannot_fail(self, schema: pa.Schema) -> bool:
        """Whether no value of the attributes that are read can be one that is refused."""
        wanted = self.graph.wanted
        return all(
            name not in schema.names or field.kind in (Kind.TEXT, Kind.NULL) or is_exact(schema.field(name).type, field)
            for name, field in wanted.items()
        )

    def _beyond(self, types: Collection[str], known: Mapping[str, Any]) -> bool:
        """Whether of each type some number lies where no query takes it; and every event has its key."""
        if not all(_has_values(known.get(name)) for name in self.graph.key_attributes):
            return False
        limits = [self._limits.get(type, {}) for type in types]
        return all(any(_apart(known.get(attr), *bounds) for attr, bounds in mine.items()) for mine in limits)


def statistics_of(file: parquet.ParquetFile, group: int) -> dict[str, Any]:
    """The statistics of the plain columns of a row group that say how many nulls there are."""
    meta = file.metadata.row_group(group)
    columns = [meta.column(place) for place in range(meta.num_columns)]
    found = {each.path_in_schema: each.statistics for each in columns if each.is_stats_set}
    return {name: each for name, each in found.items() if each is not None and each.has_null_count}


def _has_values(known: Any) -> bool:
    """Whether no value of a column is null, or no number."""
    return known is not None and not known.null_count and known.physical_type not in ("FLOAT", "DOUBLE")


def _apart(known: Any, low: float, high: float) -> bool:
    """Whether all numbers of a column lie outside of bounds (nulls do)."""
    if known is None or not known.has_min_max or not isinstance(known.min, int | float):
        return False
    return bool(known.max < low or known.min > high)
