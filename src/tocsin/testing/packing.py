"""Pack many cases into one run: types, variables and attributes are renamed, so that they do not meet.

Starting a run may cost seconds (a Spark job does), so hundreds of small cases share one: each keeps to its own types,
and its attributes are named by their kinds, since one column has one kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeAlias

from tocsin.events import ANY, Eid, Event
from tocsin.lang.printer import print_expr
from tocsin.lang.syntax import (
    Attr,
    Binary,
    Endpoint,
    Exists,
    Grouped,
    Leaf,
    Literal,
    Marked,
    Name,
    Pattern,
    Query,
    Same,
    SelectItem,
    items_of,
    leaves_of,
    named,
    patterns_in,
    rebuilt,
    walk,
)
from tocsin.plan.check import types_read
from tocsin.plan.marks import reads_every_type
from tocsin.run.schema_from_query import guessed_schema
from tocsin.schema import Field, Kind
from tocsin.testing.harness import schema_of
from tocsin.testing.oracle import matches_of_all
from tocsin.testing.oracle_consume import sets_of

PART = "part"  # the number of a case, for queries that read every type
# One match: each variable with its eids; of a beginning that nothing extended, the step as if it were one, too.
Answer: TypeAlias = frozenset[tuple[str, tuple[Eid, ...]]]


@dataclass(frozen=True, slots=True)
class PackedCase:
    """One case within a pack; its last query answers, under the name of the part."""

    name: str
    queries: tuple[Query, ...]
    events: tuple[Event, ...]
    attributes: Mapping[str, Field]

    def expected(self) -> Counter[Answer]:
        """What the oracle finds."""
        found = matches_of_all(self.queries, self.events)[self.name]
        steps = [() if match.step is None else (("step", (match.step,)),) for match in found]
        return Counter(frozenset((*match.binding, *step)) for match, step in zip(found, steps, strict=True))

    def variables(self) -> set[str]:
        """The names under which the answers show events, those of negated parts included."""
        return {str(leaf.var) for leaf in leaves_of(self.queries[-1].pattern)}


def packed(number: int, queries: Sequence[Query], events: Iterable[Event], *, texts: bool = False) -> PackedCase:
    """A case as the part of this number. Its eids become numbers, or texts, in the order that they had."""
    events = list(events)
    kinds = _attributes(queries, events)
    names = {name: f"{name.lower()}_{_suffix(field)}" for name, field in kinds.items()}
    own = {str(query.name) for query in queries if query.name is not None}
    called = {type for query in queries for type in types_read(query.pattern)} - {ANY}
    types = {ANY: ANY, **{type: f"{type}_{number}" for type in called | own}}
    last = f"q{number}"
    renamed = [_Renaming(types, names, _variables(query, own)).query(query) for query in map(named, queries)]
    if any(map(reads_every_type, queries)):
        kinds, names = {**kinds, PART: Field(PART, Kind.INT)}, {**names, PART: PART}
        events = [replace(event, attrs={**event.attrs, PART: number}) for event in events]
        renamed = [_kept_apart(query, number) if reads_every_type(query) else query for query in renamed]
    renamed[:-1] = [replace(each, hidden=True) for each in renamed[:-1]]
    renamed[-1] = replace(renamed[-1], name=last, select=())
    order = sorted({event.eid: event for event in events}.values(), key=Event.order)
    eids: dict[Eid, Eid] = {e.eid: f"{number}.{at}" if texts else number * 1000 + at for at, e in enumerate(order)}
    moved = [
        replace(e, type=types.get(e.type, f"{e.type}_{number}"), eid=eids[e.eid], attrs=_renamed(e.attrs, names))
        for e in events
    ]
    known = {names[name]: replace(field, name=names[name]) for name, field in kinds.items()}
    return PackedCase(last, tuple(renamed), tuple(moved), known)


def with_shared_columns(query: Query) -> tuple[Query, dict[str, str]]:
    """The query with few names for variables, so that many queries share columns; and what each was called.

    What SELECT shows keeps the name of its column.
    """
    select = tuple(
        item if item.name is not None or isinstance(item.expr, Same) else replace(item, name=print_expr(item.expr))
        for item in query.select
    )
    full = named(replace(query, select=select))
    names = _variables(full, set())
    return _Renaming(_Itself(), _Itself(), names).query(full), {new: old for old, new in names.items()}


class _Itself(dict[str, str]):
    """Every name is left as it is."""

    def __missing__(self, name: str) -> str:
        return name


def _kept_apart(query: Query, number: int) -> Query:
    """A query that reads every type, so that it sees only the events of its own part."""

    def marked(pattern: Pattern) -> Pattern:
        if not isinstance(pattern, Leaf):
            return rebuilt(pattern, [marked(item) for item in items_of(pattern)])
        if pattern.type != ANY:
            return pattern
        mine = Binary("=", Attr(str(pattern.var), PART), Literal(number))
        return replace(pattern, where=mine if pattern.where is None else Binary("AND", pattern.where, mine))

    return replace(query, pattern=marked(query.pattern), partition=(*query.partition, PART))


def _attributes(queries: Sequence[Query], events: Sequence[Event]) -> dict[str, Field]:
    """The attributes of a case: those of its events, and those only mentioned, of the kind that their use suggests."""
    shown = {name: field for name, field in schema_of(events).common.items() if field.kind is not Kind.NULL}
    made = {str(item.name) for query in queries for item in query.select if item.name is not None}
    guessed = guessed_schema(tuple(queries)).common
    mentioned = {node.name for query in queries for node in walk(query) if isinstance(node, Attr)}
    mentioned |= {attr for query in queries for node in walk(query) if isinstance(node, Same) for attr in node.attrs}
    mentioned |= {attr for query in queries for attr in query.partition}
    absent = {name: guessed[name] for name in mentioned - made if name not in shown and name in guessed}
    return {**absent, **shown}


def _suffix(field: Field) -> str:
    return f"decimal{field.scale}" if field.kind is Kind.DECIMAL else str(field.kind.value)


def _renamed(attrs: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names[name]: value for name, value in attrs.items() if name in names}


def _variables(query: Query, matches: set[str]) -> dict[str, str]:
    """Numbers for names, so that all queries share few columns; sets and matches of other queries have their own."""
    found: dict[str, str] = {}
    groups = (node for node in patterns_in(query.pattern) if isinstance(node, Grouped))
    sets = {*sets_of(query), *(leaf.var for group in groups for leaf in leaves_of(group))}
    for leaf in leaves_of(query.pattern):
        is_set = leaf.repeat is not None or leaf.var in sets
        kind = f"{'match_' if leaf.type in matches else ''}{'set_' if is_set else ''}"
        found.setdefault(str(leaf.var), f"{kind}v{len(found)}")
    return found


@dataclass(frozen=True, slots=True)
class _Renaming:
    types: Mapping[str, str]
    attrs: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)

    def query(self, query: Query) -> Query:
        new: Query = self.node(query)
        name = None if query.name is None else self.types[query.name]
        return replace(new, name=name, partition=tuple(map(self.attr, query.partition)), text="")

    def node(self, node: Any) -> Any:
        """The node with everything below it renamed."""
        if isinstance(node, tuple):
            return tuple(map(self.node, node))
        if not is_dataclass(node) or isinstance(node, type):
            return node
        new: Any = replace(node, **{f.name: self.node(getattr(node, f.name)) for f in fields(node) if f.init})
        match node:
            case Leaf():
                return replace(new, type=self.types[node.type], var=self.var(str(node.var)))
            case Marked():
                return replace(new, of=tuple(self.types[type] for type in node.of))
            case Attr():
                return replace(new, var=self.var(node.var), name=self.attr(node.name))
            case Name():
                return replace(new, name=self.var(node.name))
            case Endpoint():
                return replace(new, var=self.var(node.var))
            case Exists():
                return replace(new, vars=tuple(map(self.var, node.vars)))
            case Same():
                return replace(new, attrs=tuple(map(self.attr, node.attrs)))
            case SelectItem() if node.name is not None:
                return replace(new, name=self.attr(node.name))
        return new

    def var(self, name: str) -> str:
        return self.variables.get(name, name)

    def attr(self, name: str) -> str:
        return self.attrs.get(name, name)
