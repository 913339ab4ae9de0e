"""The Query that users hold: text or fluent Python, checked and explained, detected in history or in a live stream."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tocsin.compilers import compiles_first
from tocsin.encode.arrow import look_for_pandas
from tocsin.encode.checked import readable_texts
from tocsin.encode.columns import OPTIONAL, Columns, infer_schema
from tocsin.encode.thread_team import ThreadTeam
from tocsin.engine.inspect import describe
from tocsin.engine.operator import Around
from tocsin.engine.tables import first_rows
from tocsin.errors import QueryError, TocsinError, TocsinWarning, printable
from tocsin.events import ANY
from tocsin.functions import registered
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import Strings
from tocsin.lang.constraint_syntax import Constraint, UnderClause
from tocsin.lang.derived_syntax import Intervals
from tocsin.lang.fluent import FluentPattern, FluentQuery
from tocsin.lang.parser import parse_constraints, parse_file
from tocsin.lang.staged_fluent import FluentStatement
from tocsin.lang.staged_syntax import Statement
from tocsin.lang.syntax import Iseq, Rel, patterns_in
from tocsin.lang.syntax import Query as DeclarativeQuery
from tocsin.lang.zone_default import in_zone
from tocsin.order.strategy import Strategy, parse_strategy
from tocsin.plan.bind import bind_all, labels_of, read_by
from tocsin.plan.block import Plan, WindowHigh
from tocsin.plan.explain import explain
from tocsin.plan.facts import horizon, waits_for_time
from tocsin.plan.marks import reads_every_type
from tocsin.plan.passes import optimize
from tocsin.run.answers import Answers, GrowingTables
from tocsin.run.bad_rows import BadRows
from tocsin.run.clock import Clock, as_clock
from tocsin.run.declared import check_unit, declare
from tocsin.run.finite import run_as_it_comes, run_finite
from tocsin.run.inputs import Input, open_input, unusable, usable, usable_rows
from tocsin.run.keywords import known_options, names_of, refuse_options
from tocsin.run.large_input import LargeInput, is_large
from tocsin.run.large_run import run_large
from tocsin.run.matches import Matches
from tocsin.run.overview import in_sample, overview
from tocsin.run.pace import Watcher
from tocsin.run.query_file import read_query_file, refuse_file_name
from tocsin.run.room import room
from tocsin.run.schema_from_query import guessed_schema, guessed_unit
from tocsin.run.schemas import schema_of
from tocsin.run.session import Session, shown_counters
from tocsin.run.split import Split, check_threads, thread_count
from tocsin.run.stream_rows import StreamRows
from tocsin.schema import OWN, Field, Kind, Schema
from tocsin.zones import zone_named

Order = str | Strategy
Syntax: TypeAlias = DeclarativeQuery | Statement | Intervals
EARLY = frozenset((*OWN, "time", *OPTIONAL))  # columns that may have a role
FINAL = ("in-order", "slack", "conservative")  # orders whose matches are never withdrawn


@known_options
def query(
    text: str | os.PathLike[str] | FluentPattern | FluentQuery | FluentStatement | Syntax | Iterable[Any],
    *,
    schema: Schema | Mapping[str, Any] | None = None,
    strict: bool = False,
    constraint: str | Constraint | Iterable[Constraint] = (),
    checked: bool = False,
    zone: str | None = None,
) -> Query:
    """A query from its text (several are separated by `;`), from a file (a `Path`), or from the fluent API.

    `constraint`: constraints that all of its queries are under (`CONSTRAINT ...` as text, or made of a graph), beside
    those that they name themselves; `checked`: nothing is released early, and every violation is found.

    `zone` is the time zone of hour(t), date(t) and the like where they name none, such as "Europe/Berlin".

    A `schema` says which types and attributes there are; with `strict` others are errors, else they are empty.

    >>> print(query("EVENT SEQ(A a, B b) WITHIN 10"))
    EVENT SEQ(A a, B b)
    WITHIN 10
    """
    if zone is not None:
        made = query(text, schema=schema, strict=strict, constraint=constraint, checked=checked)
        zone_named(zone)
        return Query(tuple(in_zone(each, zone) for each in made.queries), made.schema, made.operators)
    if constraint:
        return _constrained(query(text, schema=schema, strict=strict), constraint, checked=checked)
    known = declared_schema(schema, strict=strict)
    names = frozenset() if known is None else frozenset(known.types) | known.attributes()
    if isinstance(text, os.PathLike):
        return Query(parse_file(read_query_file(Path(text)), names=names), known)
    if isinstance(text, str):
        refuse_file_name(text)
        return Query(parse_file(text, names=names), known)
    if isinstance(text, (FluentPattern, FluentQuery)):
        return Query((text.query,), known)
    if isinstance(text, FluentStatement):
        return Query((text.statement,), known)
    if isinstance(text, DeclarativeQuery | Statement | Intervals):
        return Query((text,), known)
    if isinstance(text, bytes) or not isinstance(text, Iterable):
        raise TocsinError(
            f"a query cannot be made from {type(text).__name__}",
            hint="give its text, the Path of a file, or a list of these",
        )
    parts = [query(each, schema=known) for each in text]
    return Query(tuple(each for part in parts for each in part.queries), known)


def _constrained(made: Query, constraint: str | Constraint | Iterable[Constraint], *, checked: bool) -> Query:
    """A query whose EVENT queries are under further constraints."""
    given = parse_constraints(constraint) if isinstance(constraint, str) else (constraint,) if isinstance(
        constraint, Constraint) else tuple(constraint)  # fmt: skip
    under = []
    for each in made.queries:
        if isinstance(each, DeclarativeQuery):
            known = () if each.under is None else each.under.constraints
            clause = UnderClause(tuple(dict.fromkeys((*known, *given))), checked)
            each = replace(each, under=clause)
        under.append(each)
    return Query(tuple(under), made.schema, made.operators)


def as_schema(schema: Schema | Mapping[str, Any] | None) -> Schema | None:
    """A declared schema in whatever form it was given."""
    if schema is None or isinstance(schema, Schema):
        return schema
    return declare(schema)


def declared_schema(
    given: Schema | Mapping[str, Any] | None, own: Schema | None = None, *, strict: bool = False
) -> Schema | None:
    """The schema that a call declares, or else the query: with `strict` nothing that it lacks may be mentioned."""
    known = as_schema(given) or own
    if strict and known is None:
        raise TocsinError(
            "strict=True needs to know which types and attributes there are",
            hint='give a schema: schema={"Shelf": {"tag": "text"}, ...}',
        )
    return replace(known, strict=True) if strict and known is not None else known


def plans_of(queries: tuple[Syntax, ...], schema: Schema, *, off: Iterable[str] = ()) -> tuple[Plan, ...]:
    """The queries bound to a schema and optimised. Raises QueryError with every problem found."""
    plans = bind_all(queries, schema)
    return tuple(plan if plan.has_rows_of_its_own else _optimized(plan, frozenset(off)) for plan in plans)


def _optimized(plan: Plan, off: frozenset[str]) -> Plan:
    """An optimised plan, with what its constraints say of it."""
    found = optimize(plan, off=off)
    if found.under is None:
        return found
    from tocsin.constraint.explain import with_verdict

    return with_verdict(found)


class Query:
    """One query, or several of which later ones may use the matches of earlier ones as events."""

    def __init__(
        self, queries: tuple[Syntax, ...], schema: Schema | None = None, operators: tuple[Around, ...] = ()
    ) -> None:
        if not queries:
            raise TocsinError("the query is empty", hint="write for example: EVENT SEQ(A a, B b) WITHIN 10")
        self.queries = queries
        self.schema = schema
        self.operators = operators
        self._planned: tuple[tuple[Any, ...], tuple[Plan, ...]] | None = None  # for which schema, and the plans

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planned": None}

    def around(self, *operators: Around) -> Query:
        """This query with operators that stand around it and see its matches (docs/adding-an-operator.md)."""
        return Query(self.queries, self.schema, (*self.operators, *operators))

    def __str__(self) -> str:
        return ";\n\n".join(str(each) for each in self.queries)

    def __repr__(self) -> str:
        return f"tocsin.query({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and (self.queries, self.operators) == (other.queries, other.operators)

    def __hash__(self) -> int:
        return hash(self.queries)

    @property
    def answers(self) -> tuple[int, ...]:
        """Which queries report: all that are not HIDDEN."""
        return tuple(at for at, each in enumerate(self.queries) if not each.hidden)

    def types(self) -> set[str]:
        """The event types that the queries read, without the names of queries; with ANY, all others too."""
        names = {name for each in self.queries for name in (each.name, *labels_of(each))}
        found = {type for each in self.queries for type in read_by(each)} - names
        declarative = (each for each in self.queries if isinstance(each, DeclarativeQuery))
        return found | {ANY} if any(map(reads_every_type, declarative)) else found

    def reads(self, type: str) -> bool:
        """Whether the queries read events of a type."""
        return not self.types().isdisjoint((type, ANY))

    def plans(self, schema: Schema | Mapping[str, Any] | None = None, *, off: Iterable[str] = ()) -> tuple[Plan, ...]:
        """The bound and optimised plans. Without a schema, attributes have the kinds that the query suggests."""
        return plans_of(self.queries, as_schema(schema) or self.schema or guessed_schema(self.queries), off=off)

    def _plans_for(self, schema: Schema) -> tuple[Plan, ...]:
        """The plans for a schema; the last ones are remembered, and what was generated for them is with them."""
        asked = (schema, list(schema.types), list(schema.common), dict(registered()))
        known = self._planned
        if known is None or known[0] != asked:
            self._planned = known = asked, plans_of(self.queries, schema)
        return known[1]

    def check(self, schema: Any = None, *, time_unit: str | None = None, **columns: Any) -> tuple[str, ...]:
        """Parse, bind and check kinds against a schema or against events; returns warnings, raises QueryError."""
        return self.examine(schema, time_unit=time_unit, **columns)[0]

    def overview(self, schema: Any = None, *, time_unit: str | None = None, **columns: Any) -> str:
        """A line for each query: its name, key, window and memory class."""
        return self.examine(schema, time_unit=time_unit, **columns)[1]

    def examine(
        self, schema: Any = None, *, time_unit: str | None = None, **columns: Any
    ) -> tuple[tuple[str, ...], str]:
        """What `check` and `overview` say, in one reading of the events."""
        known, notes, given = self._known(schema, time_unit, columns)
        plans = self.plans(known)
        if given is not None:
            notes += unusable(given, {name: each for name, each in known.common.items() if name in self._read})
        return notes_of(plans) + notes, overview(plans)

    def explain(
        self, schema: Any = None, *, time_unit: str | None = None, off: Iterable[str] = (), **columns: Any
    ) -> str:
        """The plans in readable text; given events, also how many matches there are in the first of them."""
        known, notes, given = self._known(schema, time_unit, columns)
        plans = self.plans(known, off=off)
        said = [f"note      {note}" for note in notes]
        if given is not None and len(given):

            def detect(sample: pa.Table, limit: int) -> Matches:
                return self.detect(
                    sample, **columns, time_unit=time_unit, bad_rows="skip", all=True, jit=False, limit=limit
                )

            said += in_sample(given.table(), plans, detect)
        return "\n\n".join([*map(explained, plans), *(["\n".join(said)] if said else [])])

    def source(self, schema: Any = None, *, time_unit: str | None = None, **columns: Any) -> str:
        """The generated kernels, as Python source."""
        known, _, _ = self._known(schema, time_unit, columns)
        graph = QueryGraph(self.plans(known), known, Columns(), jit=False)
        programs = [branch.program for detector in graph.detectors for branch in detector.branches]
        return "\n\n".join(program.source.rstrip() for program in programs)

    @property
    def _read(self) -> Mapping[str, Field]:
        """The attributes that the queries mention, with the kinds that they suggest."""
        return guessed_schema(self.queries).common

    def _known(
        self, given: Any, time_unit: str | None, columns: Mapping[str, Any]
    ) -> tuple[Schema, tuple[str, ...], Input | None]:
        """The schema to bind to, given as such or by events; what is to be said of how events were read; the events."""
        check_unit(time_unit)
        refuse_options("check (or explain)", columns, [name for name in names_of(Columns.__init__) if name != "unit"])
        declared = given if isinstance(given, (Schema, Mapping)) else self.schema if given is None else None
        known = as_schema(declared)
        if known is not None:
            return replace(known, unit=time_unit or known.unit), (), None
        if given is None:
            return guessed_schema(self.queries, time_unit or guessed_unit(self.queries)), (), None
        opened = open_input(given, Columns(unit=time_unit, **columns), bad=BadRows("skip"))
        return known_of(opened, self.queries), opened.notes(self._read), opened

    @known_options
    @readable_texts()
    def detect(
        self,
        events: Any,
        *,
        type: str = "type",
        time: str = "time",
        end: str | None = None,
        eid: str | None = None,
        source: str | None = None,
        time_unit: str | None = None,
        truncate: bool = False,
        order: Order = "in-order",
        memory_limit: int | str | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        strict: bool = False,
        bad_rows: str | os.PathLike[str] | BadRows = "fail",
        all: bool = False,
        jit: bool = True,
        limit: int | None = None,
        threads: int | None = None,
        watch: Watcher | None = None,
    ) -> Matches:
        """Every match in a finite input.

        `events`: an iterable of dicts or Events, an Arrow table or reader, a pandas or polars frame, or the path of a
        CSV, JSONL, Parquet or Arrow file, of a directory of them, or a glob. Input that is not in order of time is
        sorted first. With another `order` (see `tocsin.order`) it is fed as it comes, which gives the same matches as
        long as events come no later than it says; those that do are counted and left out.
        `memory_limit`: what events out of order may take of memory ("200 MB"); what lies further back goes to disk.
        Files that may take more (by default: more than a quarter of the memory) are read piece by piece.
        `schema` says which types and attributes there are, else the input shows it. What the query mentions and they
        lack is empty and noted (`Matches.notes`); with `strict` and a schema it is an error.
        `bad_rows`: "fail", "skip", or the path of a file that keeps them. With `all`, matches of HIDDEN queries are
        given too. With a `limit` the search ends with so many matches (where answers are corrected later, all events
        are needed to know which stand).
        `threads`: how many threads may share the work, by default as many as this process has cores. A query with a
        key (`WHERE [user]`) is split by it; of others only the reading is shared. The result does not depend on it.
        """
        look_for_pandas()
        check_threads(threads)
        check_order(order)
        check_unit(time_unit)
        columns = Columns(type=type, time=time, end=end, eid=eid, source=source, unit=time_unit, truncate=truncate)
        bad = bad_rows if isinstance(bad_rows, BadRows) else BadRows(bad_rows)
        declared = declared_schema(schema, self.schema, strict=strict)
        early = (
            frozenset(guessed_schema(self.queries).common)
            | EARLY
            | {role for role in (type, time, end, eid, source) if role}
        )
        most = as_bytes(memory_limit)
        given: Input | LargeInput
        if is_large(events, early, room(most)):
            given = LargeInput(events, columns, declared_fields(declared), bad, early, room(most))
        else:
            given = open_input(
                events, columns, declared=declared_fields(declared), bad=bad, early=early,
                threads=partial(thread_count, threads, jit=jit),
            )  # fmt: skip
            if declared is None and len(given):
                with ThreadTeam(thread_count(threads, len(given), jit=jit)) as team:
                    given.types(team)
        known = known_of(given, self.queries) if declared is None else with_unit(declared, given)
        plans = self._plans_for(known)
        strategy = parse_strategy(order, known)

        def make(strings: Strings | None = None) -> QueryGraph:
            return QueryGraph(
                plans, known, given.columns, jit=jit, order=strategy, memory_limit=most, around=self.operators,
                strings=strings, soon=not compiles_first(),
            )  # fmt: skip

        graph = make()
        shown = tuple(range(len(self.queries))) if all else self.answers
        enough = limit if strategy.kind in FINAL else None
        found: Answers | GrowingTables
        if isinstance(given, LargeInput):
            with ThreadTeam(thread_count(threads, len(given), jit=jit)) as workers:
                found = run_large(graph, given, shown, watch, enough, workers)
            counted = shown_counters(graph)
        elif strategy.kind == "in-order":
            given.fill(graph.wanted, whole=False)
            with ThreadTeam(thread_count(threads, len(given), jit=jit)) as workers:
                rows = usable_rows(given, graph.wanted, workers)
                found, counted = run_finite(Split(graph, make), rows, shown, watch, enough, workers)
        else:
            given.fill(graph.wanted, whole=True)
            found = run_as_it_comes(graph, usable(given, graph.wanted), given.columns, shown, watch, enough)
            counted = shown_counters(graph)
        bad.write()
        counters = {**counted, "skipped": bad.count}
        notes, instant = notes_of(plans) + given.notes(graph.wanted), given.time
        count = len(found) if found.is_final else None
        matches = Matches(partial(_shown, given, found, instant), counters, notes, count=count)
        matches.counters["matches"] = len(matches)
        if limit is not None and len(matches) >= limit:
            ended = "match" if limit == 1 else f"{limit:,} matches"
            notes = (*notes, f"the search ended with the first {ended}")
            return Matches(first_rows(matches.tables(), limit), {**matches.counters, "matches": limit}, notes)
        return matches

    @known_options
    def stream(
        self,
        *,
        type: str = "type",
        time: str = "time",
        end: str | None = None,
        eid: str | None = None,
        source: str | None = None,
        time_unit: str | None = None,
        truncate: bool = False,
        order: Order = "in-order",
        sources: Iterable[str] = (),
        memory_limit: int | str | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        strict: bool = False,
        all: bool = False,
        jit: bool = True,
        on_match: Callable[[dict[str, Any]], None] | None = None,
        clock: str | int | Clock | None = None,
        endless: bool = True,
        state: bytes | None = None,
        carry_over: bool = False,
        accept_loss: bool = False,
    ) -> Session:
        """A live session: push events as they come, get their matches at once.

        With order="in-order" events come in order of their ends; an event that comes too late is counted and left
        out. Other orders: "slack(10 min)", "conservative(10 min)", "aggressive(10 min)", "hybrid(...)", "auto(10 min)",
        see `tocsin.order`. Where answers are corrected, a match that turns out wrong is withdrawn (op = -1). With a
        `memory_limit` ("200 MB") what lies far back goes to disk.
        Promises of single sources count for a type when all sources have given them: those named in `sources`, and
        those that have shown themselves in the column `source`.
        With a `clock` ("30 s": how long an event may take to arrive) `Session.heartbeat` lets time pass where no event
        comes, so that absences are answered in a quiet stream, too.
        Without a `schema` the attributes are learnt from the events. A query that could answer only at the end of the
        stream is refused, unless `endless` is False. `state` is what `Session.save` gave. With `carry_over` it may be
        that of other queries, which were changed since: what fits goes on, what does not is refused and named, or with
        `accept_loss` named in a warning (docs/changing-rules.md).
        """
        look_for_pandas()  # which takes long: not when the first event comes
        check_order(order)
        check_unit(time_unit)
        columns = Columns(type=type, time=time, end=end, eid=eid, source=source, unit=time_unit, truncate=truncate)
        shown = tuple(range(len(self.queries))) if all else self.answers
        known = declared_schema(schema, self.schema, strict=strict)
        if known is not None and time_unit is not None:
            known = replace(known, unit=time_unit)
        named, timer = frozenset(sources), as_clock(clock)

        def build(found: Schema, timed_ids: bool) -> QueryGraph:
            found, plans = (found, plans_of(self.queries, found)) if known else expecting(self.queries, found)
            plans = tuple(replace(plan, timed_ids=timed_ids) for plan in plans)
            if endless:
                check_endless(plans)
            strategy = parse_strategy(order, found)
            if timer is not None:
                timer.check(found, strategy.late)
            return QueryGraph(
                plans, found, columns, jit=jit, order=strategy, sources=named, memory_limit=as_bytes(memory_limit),
                around=self.operators, soon=not compiles_first(), live=True,
            )  # fmt: skip

        plans: tuple[Plan, ...] = ()
        if endless or timer is not None or known is not None:
            plans = self.plans(None if known is None else replace(known, unit=known.unit or "us"))
        if endless:
            check_endless(plans)
        if timer is not None:
            check_windows(plans)
        for note in (*kept_for_ever(self.queries, endless), *(() if known is None else notes_of(plans))):
            warnings.warn(note, TocsinWarning, stacklevel=2)

        def refuses(fields: Mapping[str, Field]) -> str | None:
            try:
                expecting(self.queries, Schema(common=fields, open_types=True, open_fields=True, unit="us"))
            except QueryError as error:
                return error.message
            return None

        asks = frozenset(guessed_schema(self.queries).common)
        declared = None if known is None else declared_fields(known)
        rows = StreamRows(columns, frozenset(self.types()), asks, refuses, declared)
        session = Session(
            build, columns, reading=rows, schema=known, shown=shown, on_match=on_match, clock=timer,
            texts=map(str, self.queries),
        )  # fmt: skip

        def before(texts: list[str], found: Schema) -> tuple[Plan, ...]:
            queries = tuple(each for text in texts for each in parse_file(text))
            return plans_of(queries, found) if known else expecting(queries, found)[1]

        if state is not None:
            for note in session.restore(state, before if carry_over else None, accept_loss=accept_loss):
                warnings.warn(note, TocsinWarning, stacklevel=2)
        return session


def expecting(queries: tuple[Syntax, ...], seen: Schema) -> tuple[Schema, tuple[Plan, ...]]:
    """Return the schema seen so far with the attributes that queries mention and that may still come.

    Without them a condition on such an attribute could never hold, and a negation under it would be answered at once.
    """
    coming = guessed_schema(queries)
    common = {name: field for name, field in coming.common.items() if name not in seen.unreadable}
    eid = coming.eid if seen.eid is Kind.NULL else seen.eid
    whole = replace(seen, common={**common, **seen.common}, eid=eid)
    try:
        return whole, plans_of(queries, whole)
    except QueryError:  # they do not go with what was seen
        return seen, plans_of(queries, seen)


def explained(plan: Plan) -> str:
    """What a plan does, and how it will run."""
    if plan.staged is not None:
        from tocsin.plan.explain_staged import explain_staged
        from tocsin.staged.compiled.choice import body_of

        return f"{explain_staged(plan)}\n{body_of(plan)}"
    if plan.derived is not None:
        from tocsin.plan.explain_derived import explain_derived

        return explain_derived(plan)
    from tocsin.constraint.explain import drawn

    return "\n".join(part for part in (explain(plan), describe(plan), drawn(plan)) if part)


def _shown(
    _: Input | LargeInput, found: Answers | GrowingTables, time: pa.DataType | None,
    names: Collection[str] | None = None,
) -> list[pa.Table]:  # fmt: skip
    """The tables of matches; the input is kept until then, because some of its columns may be read only now."""
    return found.tables(time, names)


def notes_of(plans: Iterable[Plan]) -> tuple[str, ...]:
    """What the binder found strange, though not wrong; each once."""
    return tuple(dict.fromkeys(printable(note) for plan in plans for note in plan.notes))


def known_of(given: Input | LargeInput, queries: Iterable[Syntax]) -> Schema:
    """The schema of a finite input; without events, what its columns say and the queries suggest for all others."""
    if isinstance(given, LargeInput) and len(given):
        return given.known()
    table = given.table()
    if isinstance(given, Input) and table.num_rows:
        return schema_of(table, given.columns, given.types())
    guessed = guessed_schema(queries, given.columns.unit or "us")
    if not table.num_columns:
        return guessed
    seen = infer_schema(table.schema, given.columns)
    known = {name: field for name, field in seen.common.items() if field.kind is not Kind.NULL}
    others = {name: field for name, field in guessed.common.items() if name not in seen.unreadable}
    return replace(guessed, common={**others, **known}, clashes=seen.clashes, unreadable=seen.unreadable)


SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def as_bytes(limit: int | str | None) -> int | None:
    """A memory limit: a number of bytes, or a text such as "200 MB".

    >>> as_bytes("1.5 GiB")
    1610612736
    """
    if limit is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(limit))
    if found is None or found[2].upper() not in SIZES:
        raise TocsinError(f"{limit!r} is no amount of memory", hint='write a number of bytes, or "200 MB", "1 GiB"')
    return int(float(found[1]) * SIZES[found[2].upper()])


def check_order(order: Order) -> None:
    """Refuse an `order` that cannot be parsed, before any event is read."""
    parse_strategy(order, Schema(unit="us"))


def check_endless(plans: Iterable[Plan]) -> None:
    """Refuse a query that could answer only at the end of the stream, if the stream is endless."""
    for plan in plans:
        scopes = [forbidden.scope for block in plan.alternatives for forbidden in block.forbidden]
        scopes += [scope for block in plan.alternatives for _, scope in block.scopes]
        if plan.within is None and any(isinstance(scope.high, WindowHigh) for scope in scopes):
            raise TocsinError(
                f"{called(plan)} could answer only at the end of the stream",
                detail="a negation or repetition at its end, without WITHIN, reaches to the end of the stream",
                hint="add a window, such as WITHIN 1 h; in Python, endless=False says that the stream will be closed",
            )


def kept_for_ever(queries: Iterable[Syntax], endless: bool) -> tuple[str, ...]:
    """Warn of ISEQ and REL without a window on an endless stream: what they leave open, no order of events ends."""
    return tuple(
        f"without a window every interval of {query.name or 'the query'} is kept for ever: write WITHIN 1 h, or "
        "ISEQ[...](...; 1 h)"
        for query in (queries if endless else ())
        if isinstance(query, DeclarativeQuery) and _is_open(query)
    )


def _is_open(query: DeclarativeQuery) -> bool:
    """Whether a query relates intervals and has no window."""
    windows = (query.within, query.between, query.pattern.within if isinstance(query.pattern, Iseq) else None)
    relates = any(isinstance(node, Rel | Iseq) for node in patterns_in(query.pattern))
    return relates and all(window is None for window in windows)


def check_windows(plans: Iterable[Plan]) -> None:
    """Refuse a clock for a query without a window: time alone decides nothing about it."""
    for plan in plans:
        if horizon(plan) is None and not waits_for_time(plan):
            raise TocsinError(
                f"{called(plan)} has no window, so no clock can decide anything about it",
                detail="without WITHIN an event may be awaited for ever, however much time passes",
                hint="add a window, such as WITHIN 1 h, or leave the clock out",
            )


def called(plan: Plan) -> str:
    """A query in the text of an error."""
    return f"query {plan.name!r}" if plan.name else plan.title or "the query"


def declared_fields(schema: Schema | None) -> dict[str, Field]:
    """All attributes of a declared schema by name."""
    if schema is None:
        return {}
    fields = dict(schema.common)
    for own in schema.types.values():
        fields.update(own)
    return fields


def with_unit(declared: Schema, given: Input | LargeInput) -> Schema:
    """The declared schema with the unit of time that the input has."""
    seen = given.known() if isinstance(given, LargeInput) else schema_of(given.table().slice(0, 1), given.columns)
    return replace(
        declared,
        unit=declared.unit or seen.unit,
        intervals=seen.intervals,
        clashes=seen.clashes,
        unreadable=seen.unreadable,
        eid=seen.eid,
    )


__all__ = ["Query", "as_schema", "plans_of", "query"]
