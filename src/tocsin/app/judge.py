"""`tocsin test`: run case files on the oracle and on the engine; both must give what the case expects."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.codec import pack, unpack
from tocsin.constraint.rows import TraceRow, TraceRows
from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.objects import from_dicts
from tocsin.engine.changes import ChangeBatch, Changes
from tocsin.engine.inspect import stored
from tocsin.engine.kinds import COUNT, EARLY, EXPECTED_MATCH, TIMEOUT, UNENDED, VIOLATED
from tocsin.engine.tables import variables
from tocsin.errors import InputError, TocsinError, TocsinWarning
from tocsin.events import Event
from tocsin.graph.query_graph import QueryGraph
from tocsin.items import end
from tocsin.lang.syntax import Query
from tocsin.order.strategy import Strategy, parse_strategy
from tocsin.run.matches import Matches
from tocsin.run.query import plans_of
from tocsin.schema import RESULT_COLUMNS, Schema
from tocsin.testing.cases import (
    Case,
    FoundMatch,
    Verdict,
    count_line,
    longest_of,
    oracle_answer,
    read_cases,
    run_case,
    unit_of,
)
from tocsin.testing.notation import Begin, Item, Promise, events_of, spell, spell_begin
from tocsin.testing.oracle_count import counts_matches
from tocsin.testing.staged_cases import FoundRow, as_row, is_staged

COLUMNS = Columns(time="start", end="end", eid="eid")
ENGINES = ("embedded", "spark")


def case_files(paths: Iterable[Path]) -> list[Path]:
    """The case files that paths mean; of a directory, all that end in .case."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("*.case"))
            if not inside:
                raise InputError(f"the directory {path} holds no case files", hint="their names end in .case")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise InputError(f"there is no case file {str(path)!r}")
    return found


def judge(path: Path, *, jit: bool = True) -> Iterator[tuple[Case, list[Verdict]]]:
    """Each case of a file with what the oracle and the engine make of it."""
    for case in read_cases(path):
        yield case, judge_case(case, jit=jit)


def judge_case(case: Case, *, jit: bool = True) -> list[Verdict]:
    """What the oracle and the engine make of a case, and Spark too if it says `engine=spark`."""
    asked = case.options.get("engine", "embedded")
    if asked not in ENGINES:
        raise InputError(f"{asked} is no engine", detail=str(case), hint=f"one of {', '.join(ENGINES)}")
    found = {
        "oracle": run_case(case, oracle_answer),
        "engine": run_case(case, EngineUnderTest(jit=jit), log="order" in case.options),
    }
    if asked == "spark":
        found["Spark"] = run_case(case, SparkUnderTest(jit=jit))
    return [_titled(who, verdict) for who, verdict in found.items()]


def _titled(who: str, verdict: Verdict) -> Verdict:
    return replace(verdict, problems=tuple(f"{who}: {line}" for line in verdict.problems))


class EngineUnderTest:
    """Answers cases with the engine; items are pushed in the order in which they are written.

    With the option `order=` the answer is every change of that strategy; `end=no` leaves the stream open. Without it,
    the answer is the matches that stand at the end, tried with several ways to push. `state` is what the last query
    stored before the end of the stream: events by variable, `held` answers, and the `buffer` of slack.
    """

    def __init__(self, *, jit: bool = True) -> None:
        self.jit = jit
        self.state: dict[str, list[str]] = {}

    def __call__(self, queries: Sequence[Query], items: Sequence[Item], options: Mapping[str, str]) -> list[FoundMatch]:
        events = events_of(items)
        schema = replace(open_schema(rows(events, options)), longest=longest_of(options))
        if is_staged(queries) or any(isinstance(each, Query) and each.under is not None for each in queries):
            schema = replace(schema, intervals=any(event.start < event.end for event in events))
        plans_of(tuple(queries), schema)  # the SELECT of the last query must be right too
        if is_staged(queries):
            return self._rows(queries, schema, items, options)
        counts = counts_matches(queries[-1])
        bare = tuple(queries) if counts else (*queries[:-1], replace(queries[-1], select=()))
        if "order" in options:
            return self._answer(bare, schema, items, options, parse_strategy(options["order"], schema))
        announced = any(isinstance(item, Begin) or getattr(item, "of_begins", False) for item in items)
        ordered = not announced and all(one.end <= other.end for one, other in pairwise(events))
        answers = [settled(self._answer(bare, schema, items, options, Strategy("aggressive")))]
        if ordered:
            answers.append(settled(self._answer(bare, schema, items, options, Strategy())))
            if _bag(answers[0]) != _bag(answers[1]):
                raise TocsinError("the engine answers differently to input in order and in any order")
        return answers[0]

    def _rows(
        self, queries: Sequence[Any], schema: Schema, items: Sequence[Item], options: Mapping[str, str]
    ) -> list[FoundMatch]:
        """The rows of the last query, in every way that must agree: whole, event by event, over restarts."""
        order = parse_strategy(options.get("order", "conservative"), schema)
        ways = [(order, items, None, False), (order, items, 1, True)]
        if "order" not in options:
            in_order = sorted(items, key=lambda item: getattr(item, "end", getattr(item, "time", 0)))
            ways += [(Strategy(), in_order, None, False), (Strategy(), in_order, 1, True)]
        answers = [staged_rows(tuple(queries), schema, *way, options, self.jit) for way in ways]
        if any(Counter(map(repr, each)) != Counter(map(repr, answers[0])) for each in answers):
            raise TocsinError(
                "the engine answers differently if events come in other pieces, or over restarts",
                detail="; ".join(sorted({str(each) for each in answers})),
            )
        return [FoundMatch((), row=row) for row in answers[0]]

    def _answer(
        self,
        queries: tuple[Query, ...],
        schema: Schema,
        items: Sequence[Item],
        options: Mapping[str, str],
        order: Strategy,
    ) -> list[FoundMatch]:
        events = events_of(items)
        columns = replace(COLUMNS, source="source" if any("source" in event.attrs for event in events) else None)
        graph = QueryGraph(plans_of(queries, schema), schema, columns, jit=self.jit, order=order)
        by_eid: dict[Any, Event] = {event.eid: event for event in reversed(events)}
        found: list[FoundMatch] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TocsinWarning)  # of broken promises, which a case may be about
            for changes in self._steps(graph, items, options):
                found += [
                    FoundMatch((), kind=UNENDED, text=spell_begin(Begin(each.type, each.start)))
                    for each in graph.begins.unended
                ]
                for batch in changes:
                    if batch.stage < len(queries) - 1:
                        by_eid |= {event.eid: event for event in composites(queries[batch.stage], batch.table())}
                    elif isinstance(batch, TraceRows):
                        found += [trace_found(row, by_eid) for row in batch.traces]
                    elif batch.kind == COUNT:
                        found += [counted(queries[-1], row) for row in Matches([batch.table()])]
                    elif batch.kind == EARLY:
                        found += [_told_early(batch, row) for row in batch.table().to_pylist()]
                    else:
                        found += [_found(row, by_eid) for row in binding_rows(batch.table())]
        return found

    def _steps(self, graph: QueryGraph, items: Sequence[Item], options: Mapping[str, str]) -> Iterator[Changes]:
        """The changes of each batch of events, of each promise, and of the end of the stream."""
        whole = rows(events_of(items), options)
        size = batch_size(options, 1 if "order" in options else whole.num_rows)
        at = waiting = 0
        for item in items:
            if isinstance(item, Event):
                waiting += 1
            promised = isinstance(item, Promise | Begin) and ("order" in options or not graph.order.sorts)
            if waiting == size or (promised and waiting):
                yield graph.push(graph.encode(whole.slice(at, waiting)))
                at, waiting = at + waiting, 0
            if isinstance(item, Begin) and promised:
                yield graph.push(graph.announced(begun(item, options)))
            if isinstance(item, Promise) and promised:
                say = graph.begin_guarantee if item.of_begins else graph.guarantee
                yield graph.push(say(item.type, item.time, item.source))
        if waiting:
            yield graph.push(graph.encode(whole.slice(at, waiting)))
        self.state = _state(graph)
        if options.get("end") != "no":
            yield graph.push(end())


def staged_rows(
    queries: tuple[Any, ...], schema: Schema, order: Strategy, items: Sequence[Item], size: int | None, restarts: bool,
    options: Mapping[str, str], jit: bool = True,
) -> list[FoundRow]:  # fmt: skip
    """The rows of the last query of a graph; after each push it may be saved, and another one goes on."""

    def fresh() -> QueryGraph:
        return QueryGraph(plans_of(queries, schema), schema, COLUMNS, jit=jit, order=order)

    def kept(changes: Changes) -> Iterator[FoundRow]:
        for batch in changes:
            if batch.stage == len(queries) - 1:
                yield from _plain_rows(batch.table(), timeouts=getattr(queries[-1], "timeout", False))

    graph, found = fresh(), list[FoundRow]()
    whole = rows([item for item in items if isinstance(item, Event)], options)
    for step in _pushes(items, size):
        pushed = graph.encode(whole.slice(*step)) if isinstance(step, tuple) else None
        changes = graph.push(graph.guarantee(step.type, step.time, step.source) if pushed is None else pushed)  # type: ignore[union-attr]
        found += kept(changes)
        if restarts:
            parts = unpack(pack(graph.snapshot()))
            graph = fresh()
            graph.restore(parts)
    return [*found, *kept(graph.push(end()))]


def _pushes(items: Sequence[Item], size: int | None) -> Iterator[tuple[int, int] | Promise]:
    """First row and number of rows of each batch, and the promises between them."""
    at = waiting = 0
    for item in items:
        if isinstance(item, Event):
            waiting += 1
        if waiting and (waiting == size or isinstance(item, Promise)):
            yield at, waiting
            at, waiting = at + waiting, 0
        if isinstance(item, Promise):
            yield item
    if waiting:
        yield at, waiting


def _plain_rows(table: pa.Table, *, timeouts: bool) -> Iterator[FoundRow]:
    """Start, end and values of each row; times are ticks. Only timeouts have a step."""
    instants = [name for name, type in zip(table.schema.names, table.schema.types, strict=True) if is_time(type)]
    for name in instants:
        table = table.set_column(table.schema.names.index(name), name, table.column(name).cast(pa.int64()))
    events = variables(table)
    names = [name for name in table.schema.names if name not in RESULT_COLUMNS and name not in events]
    for row in table.to_pylist():
        mine = names if row["kind"] == TIMEOUT or not timeouts else [name for name in names if name != "step"]
        yield as_row(row["kind"], row["start"], row["end"], [row[name] for name in mine])


def is_time(type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type))


class SparkUnderTest:
    """Answers cases with Spark on this machine: as a batch, or with `order=` as a stream that ends.

    A stream gets its events in micro-batches of `batch` events, one if nothing is said. What is compared is what
    stands in the end.
    """

    def __init__(self, *, jit: bool = True) -> None:
        self.jit = jit

    def __call__(self, queries: Sequence[Query], items: Sequence[Item], options: Mapping[str, str]) -> list[FoundMatch]:
        from tocsin.spark.cases import answers

        if any(isinstance(item, Promise) for item in items):
            raise InputError("promises cannot be given to Spark", hint="leave out engine=spark for this stream")
        if is_staged(queries):
            raise InputError("staged statements do not run on Spark yet", hint="leave out engine=spark")
        events, counts = events_of(items), counts_matches(queries[-1])
        bare = tuple(queries) if counts else (*queries[:-1], replace(queries[-1], select=()))
        batch = rows(events, options)
        size, order = batch_size(options, 1), options.get("order")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a case need not have a key, and its session few partitions
            table = answers(bare, batch, COLUMNS, open_schema(batch), order=order, size=size, jit=self.jit)
        by_eid: dict[Any, Event] = {event.eid: event for event in reversed(events)}
        for query in queries[:-1]:
            of_query = table.filter(pc.equal(table.column("query"), query.name))
            by_eid |= {event.eid: event for event in composites(query, of_query)}
        mine = table.filter(pc.equal(table.column("query"), queries[-1].name or ""))
        if counts:
            names = [output.name for output in plans_of(bare, open_schema(batch))[-1].outputs]
            mine = mine.select([*RESULT_COLUMNS, *names])
            return settled([counted(queries[-1], row) for row in mine.to_pylist()])
        return settled([_found(row, by_eid) for row in binding_rows(mine)])


def _state(graph: QueryGraph) -> dict[str, list[str]]:
    """What the last query stores, and as `buffer` the events that wait to be sorted."""
    detector = next(iter(graph.stages[-1].operator.detectors), None)
    state = {} if detector is None else stored(detector)
    if graph.sort is not None:
        waiting = sorted(
            (end, str(eid))
            for items in graph.sort.held
            for end, eid in zip(items.end.tolist(), items.payload.column("eid").to_pylist(), strict=True)
        )
        state["buffer"] = [eid for _, eid in waiting]
    return state


def rows(events: list[Event], options: Mapping[str, str]) -> pa.RecordBatch:
    """The events as a batch; an empty one has its columns too."""
    empty = {"type": pa.string(), "start": pa.int64(), "end": pa.int64(), "eid": pa.string()}
    batch = pa.RecordBatch.from_arrays([pa.array([], type) for type in empty.values()], list(empty))
    if events:
        batch = from_dicts([_whole(event) for event in events])
    if unit_of(options) is not None:
        for name in ("start", "end"):
            instants = batch.column(name).cast(pa.timestamp("us"))
            batch = batch.set_column(batch.schema.get_field_index(name), name, instants)
    return batch


def begun(begin: Begin, options: Mapping[str, str]) -> pa.RecordBatch:
    """A begin as a batch; its end says nothing."""
    return rows([Event(begin.type, begin.start, begin.start, begin.name, dict(begin.attrs))], options)


def _whole(event: Event) -> dict[str, Any]:
    return {"type": event.type, "start": event.start, "end": event.end, "eid": str(event.eid), **event.attrs}


def open_schema(batch: pa.RecordBatch) -> Schema:
    """The schema is what the stream shows; types and attributes that occur nowhere are allowed and empty."""
    return replace(infer_schema(batch.schema, COLUMNS), open_types=True, open_fields=True)


def batch_size(options: Mapping[str, str], rows: int) -> int:
    text = options.get("batch", "")
    return max(1, int(text)) if text.isdecimal() else max(1, rows)


def binding_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Each change as its op and, for each variable, the eids of its events."""
    names = variables(table)
    for row in table.to_pylist():
        bound = {name: row[name] if isinstance(row[name], list) else [row[name]] for name in names}
        eids = {name: [each["eid"] for each in events if each is not None] for name, events in bound.items()}
        yield {
            "op": row["op"],
            "kind": row["kind"],
            "step": row.get("step"),
            "eids": {name: found for name, found in eids.items() if found},
        }


def counted(query: Query, row: Mapping[str, Any]) -> FoundMatch:
    """A row of kind `count` as a case file has it."""
    values = [value for name, value in row.items() if name not in RESULT_COLUMNS]
    span = None if query.every is None else (row["start"], row["end"])
    return FoundMatch((), int(row["op"]), COUNT, text=count_line(query, values, span))


def trace_found(row: TraceRow, by_eid: Mapping[Any, Event]) -> FoundMatch:
    """A row about a trace as a case file has it: what was expected with its events, else the event that decided."""
    eids = (row.events or ()) if row.kind == EXPECTED_MATCH else () if row.event is None else (row.event,)
    text = f"{row.constraint} {row.reason}" if row.kind == VIOLATED else ""
    return FoundMatch((("", tuple(by_eid[eid] for eid in eids)),), kind=row.kind, text=text)


def _found(row: Mapping[str, Any], by_eid: Mapping[Any, Event]) -> FoundMatch:
    binding = tuple((name, tuple(by_eid[eid] for eid in eids)) for name, eids in row["eids"].items())
    return FoundMatch(binding, int(row["op"]), str(row["kind"]))


def _told_early(batch: ChangeBatch, row: Mapping[str, Any]) -> FoundMatch:
    """An early answer as a case file has it: `early: a1 h[2,`."""
    events = [row[batch.plan.variables[index].name] for index in batch.visible]
    words = [
        spell_begin(Begin(each["type"], each["start"]))
        if each["end"] is None
        else spell(each["type"], each["start"], each["end"])
        for each in events
        if each is not None
    ]
    return FoundMatch((), int(row["op"]), EARLY, text=" ".join(words))


def composites(query: Query, table: pa.Table) -> Iterator[Event]:
    """The matches of an earlier query as the events that later queries see."""
    table = table.filter(pc.equal(table.column("kind"), "match"))
    spans = [table.column(name).cast(pa.int64()).to_pylist() for name in ("start", "end")]
    for match_id, first, last in zip(table.column("match_id").to_pylist(), *spans, strict=True):
        yield Event(str(query.name), first, last, str(match_id))


def settled(changes: list[FoundMatch]) -> list[FoundMatch]:
    """What is left after all withdrawals."""
    left: dict[Any, list[FoundMatch]] = {}
    for change in changes:
        held = left.setdefault(_identity(change), [])
        if change.op > 0:
            held.append(change)
        elif held:
            held.pop()
        else:
            raise TocsinError("the engine withdrew a match that it never gave")
    return [change for held in left.values() for change in held]


def _identity(change: FoundMatch) -> Any:
    bound = tuple((name, tuple(str(event.eid) for event in events)) for name, events in change.binding)
    return change.kind, bound, change.text


def _bag(answers: list[FoundMatch]) -> list[Any]:
    return sorted(_identity(each) for each in answers)
