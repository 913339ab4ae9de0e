"""Case files: a query, histories in the notation of the papers, and what must be found.

    # comment
    query
    EVENT SEQ(A a, !C c, B b) WITHIN 10
    stream
    a1 b2 c2 b3
    ----
    a1 b2

The query may stand in a file of its own, of which one query is asked: `query file=rules/theft.tocsin big_theft`. Times
may be times (`Shelf@09:00`), and after a line `time-unit min` plain numbers are minutes (`testing/written_times`).

A case of a staged statement expects rows instead (`testing/staged_cases`).

Whoever can answer a query can be put to a case: `run_case(case, answer)`. The oracle is one such answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias

from tocsin.constraint.reasoning import reason_about
from tocsin.engine.kinds import EARLY, UNENDED
from tocsin.errors import InputError, TocsinError
from tocsin.events import ANY, BEGINNING, Event, Value
from tocsin.lang.derived_syntax import Intervals
from tocsin.lang.parser import parse_file
from tocsin.lang.printer import print_expr
from tocsin.lang.staged_syntax import Statement
from tocsin.lang.syntax import UNITS, Expr, Grouped, Query, Same, leaves_of, named, patterns_in
from tocsin.order.guarantees import Guarantees
from tocsin.order.strategy import Strategy, parse_strategy
from tocsin.plan.bind import bind_all
from tocsin.plan.check import types_read
from tocsin.plan.passes import optimize
from tocsin.schema import Schema
from tocsin.testing.begins import heard
from tocsin.testing.early import early
from tocsin.testing.harness import schema_of
from tocsin.testing.notation import Item, Promise, events_of, find, history, spell_begin, times_in, write
from tocsin.testing.oracle import composite, matches_of_all
from tocsin.testing.oracle_traces import by_completions, matches_by_traces, told_of
from tocsin.testing.staged_cases import FoundRow, defined_rows, is_staged, row_differences
from tocsin.testing.written_times import TICKS, WrittenTimes

AnyQuery: TypeAlias = Query | Statement | Intervals
Bound: TypeAlias = tuple[tuple[str, tuple[Event, ...]], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One query with one history. `expected` are lines of matches; with `log` they are changes, in order.

    name     which query is asked of a text with several; None: the last one
    unit     what plain numbers among the times are, if not ticks
    """

    query: str
    stream: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    expected: tuple[str, ...] = ()
    log: tuple[tuple[int, str], ...] | None = None
    state: tuple[str, ...] = ()
    error: str | None = None
    file: str = "case"
    line: int = 1
    name: str | None = None
    unit: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def times(self) -> WrittenTimes:
        """How the history writes its times."""
        return times_in(self.stream, self.unit)

    def queries(self) -> tuple[AnyQuery, ...]:
        """The queries of the text, as far as the one that is asked."""
        found = parse_file(self.query)
        names = [query.name for query in found]
        if self.name is None:
            return found
        if self.name not in names:
            known = ", ".join(name for name in names if name is not None)
            raise InputError(f"there is no query {self.name}", detail=str(self), hint=f"the file has {known or 'none'}")
        return found[: names.index(self.name) + 1]


@dataclass(frozen=True, slots=True)
class FoundMatch:
    """One match, or one change (op -1 withdraws): each variable in the order of the text with its events.

    A row of another kind is written with it: `timeout: a1 b2`. A row that counts is `text`: `count(*)=20`.
    """

    binding: Bound
    op: int = 1
    kind: str = "match"
    row: FoundRow | None = None  # where statements are asked, instead of a binding
    text: str = ""

    @property
    def events(self) -> list[Event]:
        return [event for _, events in self.binding for event in events]


TRACE_KINDS = ("expected", "unconfirmed", "violated")
MICROSECONDS = "microseconds"  # an option that answers get where times are no ticks
Answer: TypeAlias = Callable[[Sequence[Any], Sequence[Item], Mapping[str, str]], Iterable[FoundMatch]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a case holds, and what differs."""

    case: Case
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return "\n".join((f"{self.case}: {'ok' if self.ok else 'failed'}", *(f"  {line}" for line in self.problems)))


# --- reading -------------------------------------------------------------------------------------------------------


def read_cases(path: str | Path) -> list[Case]:
    """All cases of a file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}", detail=str(error)) from None
    return parse_cases(text, file=Path(path).name, folder=Path(path).parent)


def parse_cases(text: str, *, file: str = "case", folder: Path | None = None) -> list[Case]:
    """The cases of a text: sections `query`, then one or more `stream`s, each with what is expected after `----`.

    Files of queries are looked for in `folder`.
    """
    reader = _Sections(file, folder or Path())
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#"):
            reader.take(number, line)
    reader.close()
    if not reader.cases:
        raise InputError(f"{file} holds no case", hint="a case is: query, stream, ----, and the expected matches")
    return reader.cases


@dataclass(slots=True)
class _Sections:
    """The state of reading a case file: which section the next line belongs to."""

    file: str
    folder: Path
    cases: list[Case] = field(default_factory=list)
    section: str = "start"
    name: str | None = None
    unit: str | None = None
    query: list[str] = field(default_factory=list)
    stream: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    line: int = 0

    def take(self, number: int, line: str) -> None:
        words = line.split()
        if words[:1] == ["query"] and (len(words) == 1 or words[1].startswith("file=")):
            self.close()
            self.section, self.line = "query", number
            self.read_query(number, words[1:])
        elif words[:1] == ["time-unit"]:
            if self.section == "expected":
                self.close(keep_query=True)
            self.unit = self.read_unit(number, words[1:])
        elif words[:1] == ["stream"] and self.section != "start":
            if self.section == "expected":
                self.close(keep_query=True)
            self.section, self.line = "stream", number
            self.options = self.read_options(number, words[1:])
        elif self.section in ("query", "stream") and line.startswith("----") and not line.strip("- \t"):
            self.section = "expected"
        elif self.section == "start":
            if words:
                hint = "rules in a file of their own are named by a case file: query file=rules.tocsin NAME"
                raise self.wrong(number, "a case file begins with a line `query`", hint=hint)
        else:
            {"query": self.query, "stream": self.stream, "expected": self.expected}[self.section].append(line)

    def read_query(self, number: int, words: list[str]) -> None:
        """Take the query from a file, if the line names one, and of it the one that the line names."""
        self.name = words[1] if len(words) > 1 else None
        if len(words) > 2:
            raise self.wrong(number, "too much after query", hint="write query file=rules/theft.tocsin name")
        if words:
            path = self.folder / words[0].removeprefix("file=")
            try:
                self.query = path.read_text(encoding="utf-8").splitlines()
            except (OSError, ValueError) as error:
                hint = f"the path is taken from the folder of the case file, {self.folder}"
                raise InputError(
                    f"cannot read the rules {path}", detail=f"{self.file}, line {number}: {error}", hint=hint
                ) from None

    def read_unit(self, number: int, words: list[str]) -> str | None:
        if len(words) != 1 or words[0] not in (*UNITS, "ticks"):
            raise self.wrong(number, "time-unit needs one unit", hint=f"one of {', '.join(UNITS)}, or ticks")
        return None if words[0] == "ticks" else words[0]

    def read_options(self, number: int, words: list[str]) -> dict[str, str]:
        options = {}
        for word in words:
            if word.startswith("--"):  # the rest is a comment
                break
            name, equals, value = word.partition("=")
            if not equals or not name:
                raise self.wrong(number, f"{word} is not an option", hint="write stream order=slack(3) batch=1")
            options[name] = value
        return options

    def close(self, *, keep_query: bool = False) -> None:
        if self.section in ("query", "stream"):
            raise self.wrong(self.line, "a case without ----", hint="what is expected stands after ----")
        if self.section == "expected":
            self.cases.append(self.case())
        self.section, self.stream, self.expected, self.options = "start", [], [], {}
        if not keep_query:
            self.query, self.name = [], None

    def case(self) -> Case:
        lines = [line.strip() for line in self.expected if line.strip()]
        state = tuple(line for line in lines if line.startswith("state:"))
        errors = [line.removeprefix("error:").strip() for line in lines if line.startswith("error:")]
        found = [line for line in lines if not line.startswith(("state:", "error:"))]
        changes = tuple((1 if line[0] == "+" else -1, line[1:].strip()) for line in found if line[0] in "+-")
        if (changes and len(changes) != len(found)) or (errors and (found or len(errors) > 1)):
            raise self.wrong(self.line, "expected lines of several kinds", hint="all matches, all +/-, or one error:")
        return Case(
            query="\n".join(self.query).strip(),
            stream="\n".join(self.stream),
            options=self.options,
            expected=() if changes else tuple(found),
            log=changes or None,
            state=state,
            error=errors[0] if errors else None,
            file=self.file,
            line=self.line,
            name=self.name,
            unit=self.options.pop("time-unit", self.unit),
        )

    def wrong(self, number: int, message: str, *, hint: str | None = None) -> InputError:
        return InputError(message, detail=f"{self.file}, line {number}", hint=hint)


# --- running -------------------------------------------------------------------------------------------------------


def run_case(case: Case, answer: Answer, *, log: bool = False) -> Verdict:
    """Put an answer to a case. With `log` the answer is a change log, else the settled matches.

    An expected error may come from the answer, or from binding, which refuses also what the oracle never came to ask.
    Expected changes are compared one by one with a log, and by their net effect with settled matches. A stream that is
    left open (`end=no`) has no settled matches: only a log can be put to it.
    """
    if case.options.get("end") == "no" and not log:
        return Verdict(case)
    try:
        times, queries = case.times, case.queries()
        items = history(case.stream, times)
        options = case.options if times.are_ticks else {**case.options, MICROSECONDS: "yes"}
        if is_staged(queries):  # the definition is asked only of what is well formed
            bind_all(queries, replace(schema_of(events_of(items)), unit=unit_of(options), longest=longest_of(options)))
        found = list(answer(queries, items, options))
        if case.error is not None:
            schema = replace(schema_of(events_of(items)), unit=unit_of(options))
            for plan in bind_all(queries, schema):  # raises: what binding refuses has no answer
                if plan.under is not None:
                    reason_about(optimize(plan))
            return Verdict(case, (f"expected an error with {case.error!r}, but {len(found)} matches were found",))
        if is_staged(queries):
            rows = [change.row for change in found if change.row is not None]
            return Verdict(case, tuple(row_differences(case.expected, rows, times)))
        problems = _differences(case, events_of(items), flat(queries, found), times, log=log)
        return Verdict(case, tuple(problems + _state_differences(case, getattr(answer, "state", None))))
    except TocsinError as error:
        if case.error is not None and case.error.lower() in str(error).lower():
            return Verdict(case)
        return Verdict(case, tuple(str(error).splitlines()))


def _differences(
    case: Case, events: list[Event], found: list[FoundMatch], times: WrittenTimes, *, log: bool
) -> list[str]:
    known = events + [event for change in found for event in change.events if event not in events]
    actual = [(change.op, written(change, known, times)) for change in found]
    wanted = case.log or tuple((1, line) for line in case.expected)
    expected = [(op, _normal(line, known, times)) for op, line in wanted]
    if log and (case.log is not None or case.options.get("end") == "no"):
        shown = [[f"{'+' if op > 0 else '-'} {line}" for op, line in changes] for changes in (expected, actual)]
        return [] if expected == actual else [f"expected the changes {shown[0]}", f"but found {shown[1]}"]
    wanted_net, actual_net = _net(expected), _net(actual)
    return [f"missing: {line or '(no event)'}" for line in (wanted_net - actual_net).elements()] + [
        f"not expected: {line or '(no event)'}" for line in (actual_net - wanted_net).elements()
    ]


def flat(queries: Sequence[AnyQuery], found: Iterable[FoundMatch]) -> list[FoundMatch]:
    """The matches with the members of each group one behind the other, in canonical order: a1 b2 a3 b4."""
    pattern = named(queries[-1]).pattern if isinstance(queries[-1], Query) else None
    groups = [
        {str(leaf.var) for leaf in leaves_of(node)}
        for node in (() if pattern is None else patterns_in(pattern))
        if isinstance(node, Grouped)
    ]
    return [replace(match, binding=_members_together(match.binding, groups)) for match in found] if groups else [*found]


def _members_together(binding: Bound, groups: Iterable[set[str]]) -> Bound:
    for mine in groups:
        places = [at for at, (var, _) in enumerate(binding) if var in mine]
        if places:
            events = sorted((event for at in places for event in binding[at][1]), key=Event.order)
            rest = [pair for pair in binding[places[0] :] if pair[0] not in mine]
            binding = (*binding[: places[0]], (binding[places[0]][0], tuple(events)), *rest)
    return binding


def written(change: FoundMatch, known: Sequence[Event], times: WrittenTimes = TICKS) -> str:
    """A match or another row as a case file writes it, without its sign."""
    if change.kind == "count":
        return change.text
    if change.kind in (UNENDED, EARLY):
        return f"{change.kind}: {change.text}"
    events = " ".join(write(event, known, times) for event in change.events)
    if change.kind in TRACE_KINDS:
        return " ".join(filter(None, (f"{change.kind}:", change.text, events)))
    return events if change.kind == "match" else f"{change.kind}: {events}"


def is_count(line: str) -> bool:
    """Whether an expected line is a row that counts: `count(*)=20`, with EVERY `[0,9] count(*)=20`."""
    return "=" in line.partition("{")[0]


def count_line(query: Query, values: Sequence[Value], span: tuple[int, int] | None) -> str:
    """A row that counts as it stands in a case file: its columns as they are written in the query."""
    names = [item.name or _select_text(item.expr) for item in query.select]
    told = " ".join(f"{name}={_told(value)}" for name, value in zip(names, values, strict=True))
    return told if span is None else f"[{span[0]},{span[1]}] {told}"


def _select_text(expr: Expr) -> str:
    return expr.attrs[0] if isinstance(expr, Same) else print_expr(expr)


def _told(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
    return str(value)


def _state_differences(case: Case, state: Mapping[str, Sequence[str]] | None) -> list[str]:
    """Lines `state: name = entries` and `state: TYPE > time` against what is, where the one who answers can tell."""
    problems = []
    for line in case.state if state is not None else ():
        mark = ">" if ">" in line else "="
        name, _, text = line.removeprefix("state:").partition(mark)
        expected = " ".join(text.split())
        actual = " ".join((state or {}).get(name.strip() + " >" * (mark == ">"), ()))
        if expected != actual:
            problems.append(f"expected {line}, but it is {actual or 'empty'}")
    return problems


def _normal(line: str, known: list[Event], times: WrittenTimes) -> str:
    """An expected line with every event in its shortest spelling; braces around repetitions are optional."""
    if is_count(line):
        return " ".join(line.split())
    words = line.replace("{", " ").replace("}", " ").split()
    if words[:1] in ([f"{UNENDED}:"], [f"{EARLY}:"]):
        return " ".join(words)
    if words[:1] == ["timeout:"]:
        return f"timeout: {_normal(line.partition(':')[2], known, times)}"
    if words[:1] and words[0].rstrip(":") in TRACE_KINDS:  # a violation names its constraint and the reason
        fixed = 3 if words[0] == "violated:" else 1
        return " ".join(filter(None, (*words[:fixed], _normal(" ".join(words[fixed:]), known, times))))
    events = [find(word, known, times) for word in words]
    return " ".join(write(event, known, times) if event else word for event, word in zip(events, words, strict=True))


def _net(changes: list[tuple[int, str]]) -> Counter[str]:
    net: Counter[str] = Counter()
    for op, line in changes:
        net[line] += op
    return +net


def oracle_answer(queries: Sequence[AnyQuery], items: Sequence[Item], options: Mapping[str, str]) -> list[FoundMatch]:
    """The answer of the definition: the matches of the last query, over the events that keep what `order=` says."""
    if is_staged(queries):
        known, unit = admitted(items, options), unit_of(options)
        return [FoundMatch((), row=row) for row in defined_rows(queries, known, unit, longest_of(options))]
    told = heard(items, longest=longest_of(options), delay=_delay(options), ended=options.get("end") != "no")
    events = events_of(admitted(told.kept, options))
    plain = [each for each in queries if isinstance(each, Query)]
    answers = list(zip(plain, matches_of_all(plain, events, unit=unit_of(options)).values(), strict=True))
    for query, found in answers[:-1]:
        events += [composite(query.name, match) for match in found if query.name is not None]
    traces: list[FoundMatch] = []
    if answers and plain[-1].under is not None:
        found_traces = told_of(plain[-1], events, by_completions(plain[-1]), unit_of(options))
        traces = [FoundMatch((("", row.events),), kind=row.kind, text=f"{row.constraint} {row.reason}".strip())
                for row in found_traces.rows]  # fmt: skip
        answers[-1] = plain[-1], matches_by_traces(plain[-1], found_traces.seen, unit=unit_of(options))
    by_eid = {event.eid: event for event in reversed(events)}
    if answers and any(match.group is not None for match in answers[-1][1]):
        query, rows = answers[-1]
        spans = [(row.start, row.end) if query.every is not None else None for row in rows]
        texts = [
            count_line(query, list((row.select or {}).values()), span) for row, span in zip(rows, spans, strict=True)
        ]
        return [FoundMatch((), kind="count", text=text) for text in texts]
    read = _types_read(plain)
    unended = [
        FoundMatch((), kind=UNENDED, text=spell_begin(begin))
        for begin in told.unended
        if read is None or begin.type in read
    ]
    return (
        traces
        + unended
        + (_told_early(plain[-1], items, options) if plain and plain[-1].early else [])
        + [
            FoundMatch(
                tuple((var, tuple(by_eid[eid] for eid in eids)) for var, eids in match.binding),
                kind="match" if match.step is None else "timeout",
            )
            for match in answers[-1][1]
        ]
    )


def _types_read(queries: Sequence[Query]) -> set[str] | None:
    """The types that queries and their constraints name; None: all, as one of them reads every type."""
    alphabets = [each.alphabet for query in queries if query.under is not None for each in query.under.constraints]
    found = {type for query in queries for type in types_read(query.pattern)}
    return None if None in alphabets or ANY in found else found.union(*(each or () for each in alphabets))


def _told_early(query: Query, items: Sequence[Item], options: Mapping[str, str]) -> list[FoundMatch]:
    """The early answers that were given and not withdrawn."""
    order = parse_strategy(options.get("order", "aggressive"), Schema(unit=unit_of(options)))
    types = {item.type for item in items if item.type is not None}
    told = early(
        query, items, delay=_delay(options), held=None if order.sorts else order.held_types(types),
        longest=longest_of(options), ended=options.get("end") != "no",
    )  # fmt: skip
    return [FoundMatch((), each.op, EARLY, text=each.text) for each in told]


def longest_of(options: Mapping[str, str]) -> dict[str, int]:
    """How long intervals may last: `longest=H:10`."""
    pairs = [word.partition(":") for word in options.get("longest", "").split(",") if word]
    return {type: int(length) for type, _, length in pairs}


def _delay(options: Mapping[str, str]) -> int | None:
    """How much later than the clock an item may come; None if nobody knows, and where a sort decides."""
    if "order" not in options:
        return None
    order = parse_strategy(options["order"], Schema(unit=unit_of(options)))
    return 0 if order.kind == "in-order" else None if order.kind == "slack" else order.late


def unit_of(options: Mapping[str, str]) -> str | None:
    """The unit of time in the schema of a case."""
    return "us" if MICROSECONDS in options else None


def admitted(items: Sequence[Item], options: Mapping[str, str]) -> list[Item]:
    """The items without events that come later than the order of the case allows, or behind a promise."""
    order = parse_strategy(options.get("order", "aggressive"), Schema(unit=unit_of(options)))
    turnstile = Turnstile(order)
    promised, kept = Guarantees(tuple({item.type for item in items if item.type is not None})), []
    for item in items:
        if isinstance(item, Promise) and not item.of_begins:
            promised.promise(item.type, item.source, item.time)
        if isinstance(item, Event):
            source = _source(item)
            behind = order.broken != "accept" and item.end <= promised.of(item.type, source)
            promised.meet(() if source is None else (source,))
            if not turnstile.lets(item.end, behind=behind):
                continue
        kept.append(item)
    return kept


class Turnstile:
    """Decides for each event in turn whether it comes in time; the plain definition that engines are compared with."""

    def __init__(self, order: Strategy) -> None:
        self.order, self.clock, self.left = order, BEGINNING, BEGINNING
        self.late = 0 if order.kind == "in-order" else order.late
        self.delays: list[int] = []
        self.waiting: list[int] = []

    def lets(self, end: int, *, behind: bool) -> bool:
        """Return whether an event ending at `end` is accepted; `behind` means that it breaks a guarantee."""
        if behind:
            if self.order.kind != "slack":  # what never comes to the buffer does not move its clock
                self.clock = max(self.clock, end)
            return False
        if self.order.events is not None:
            return self._counted(end, self.order.events)
        if self.order.quantile is not None and self.clock > BEGINNING:
            self.delays = sorted([*self.delays, max(self.clock - end, 0)])
            self.late = max(self.late or 0, self.delays[ceil(self.order.quantile * (len(self.delays) - 1))])
        missed = end < self.left if self.order.quantile is not None else self._too_late(end)
        self.clock = max(self.clock, end)
        self.left = max(self.left, self.clock - (self.late or 0))
        return not missed

    def _too_late(self, end: int) -> bool:
        return self.late is not None and end < self.clock - self.late

    def _counted(self, end: int, most: int) -> bool:
        """Slack as a number of events: a full buffer releases its first event; what ends before that is late."""
        if end < self.left:
            return False
        self.waiting = sorted([*self.waiting, end])
        if len(self.waiting) > most:
            self.left = self.waiting.pop(0)
        return True


def _source(event: Event) -> str | None:
    """Where an event comes from: in cases it is written as an attribute."""
    return event.source or (str(event.attrs["source"]) if "source" in event.attrs else None)
