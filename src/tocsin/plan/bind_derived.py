"""Bind a definition of intervals to a schema: a leaf for each role of a reading, and columns with kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tocsin.functions import Function, registered
from tocsin.lang.derived_syntax import Intervals, Reading, column_name, of_reading
from tocsin.lang.syntax import Call, Expr, Name, SelectItem, Span
from tocsin.plan.block import Alt, Block, Leaf, Output, Plan, Variable
from tocsin.plan.derived_form import LABEL, DerivedForm, Fold
from tocsin.plan.expr import Bound, Col, walk
from tocsin.plan.kinds import KindError, article, ticks
from tocsin.plan.names import clash, own_names, owned
from tocsin.plan.problems import Problems
from tocsin.plan.same_event import known_by
from tocsin.plan.typer import Seen, Typer, unknown_attribute
from tocsin.schema import OWN, RESULT_COLUMNS, Field, Kind, Schema

MOST_STATES = 60  # whose bits fit into a word
ORDERED = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.TIME, Kind.NULL)


def bind_intervals(given: Intervals, schema: Schema, functions: Mapping[str, Function] | None = None) -> Plan:
    """The plan of a definition over a schema; a QueryError that lists every problem found."""
    binder = _IntervalBinder(given, schema, registered() if functions is None else functions)
    binder.check()
    leaves = tuple(binder.leaves())
    key = tuple(binder.key())
    folds = tuple(binder.folds())
    gap = binder.gap()
    fields = binder.columns(key, folds)
    binder.problems.raise_any()
    asked = {node.attr for leaf in leaves for alt in leaf.alts for test in alt.where for node in walk(test)
             if isinstance(node, Col)}  # fmt: skip
    asked |= {fold.field.name for fold in folds if fold.field is not None} | set(given.by)
    roles = tuple(leaf.alts[0].var for leaf in leaves)
    plan = Plan(
        given.name,
        (Block(leaves),),
        None,
        (Variable(given.name, (given.name, *given.labels), fields),),
        tuple(Output(each.name, Col(0, given.name, each.name, each.kind, each.scale)) for each in fields),
        schema,
        key=tuple((leaf.id, given.by) for leaf in leaves) if given.by else (),
        needs=given.by,
        mentions=tuple(binder.types),
        fingerprint=given.identity,
        notes=tuple(dict.fromkeys(binder.problems.notes)),
        title=given.name,
        hidden=given.hidden,
        derived=DerivedForm(given, roles, folds, tuple(sorted(asked)), gap),
    )
    return replace(plan, known_by=known_by(plan))


class _IntervalBinder:
    """What the names of a definition are in a schema."""

    def __init__(self, given: Intervals, schema: Schema, functions: Mapping[str, Function]) -> None:
        self.given, self.schema, self.functions = given, schema, functions
        self.problems = Problems(given.text)
        self.types = list(dict.fromkeys(each.type for each in (*given.readings, *given.ends)))

    def check(self) -> None:
        """Types that stand twice in a list, labels that stand twice or are called like something else."""
        given, add = self.given, self.problems.add
        for readings in (given.readings, given.ends):
            for at, each in enumerate(readings):
                if each.type in {other.type for other in readings[:at]}:
                    add(f"{each.type} stands twice", each.span, hint="join its conditions with OR")
                if not self.schema.has_type(each.type) and not self.schema.open_types:
                    if self.schema.strict:
                        add(f"unknown event type {each.type}", each.span)
                    else:
                        self.problems.note(f"there is no event of type {each.type}", None)
        for at, state in enumerate(given.states):
            if state.label in {other.label for other in given.states[:at]}:
                add(f"the label {state.label} stands twice", state.span, hint="join its conditions with OR")
            if state.label == given.name or state.label in self.types:
                what = "the name of the definition" if state.label == given.name else "a type that it reads"
                add(f"{state.label} is {what}, too", state.span, hint="give the state another label")
        if len(given.states) > MOST_STATES:
            add(f"{given.name} has {len(given.states)} states, more than {MOST_STATES}", given.span)

    # --- roles ---

    def leaves(self) -> Iterator[Leaf]:
        """A leaf for each role, with an alternative for each type."""
        given = self.given
        if given.ends:
            yield self._leaf(0, "begin", given.readings, None)
            yield self._leaf(1, "end", given.ends, None)
            return
        yield self._leaf(0, "reading", given.readings, None)
        for number, state in enumerate(given.states, 1):
            yield self._leaf(number, f"state {number}", given.readings, state.when)

    def _leaf(self, id: int, var: str, readings: Iterable[Reading], when: Expr | None) -> Leaf:
        alts = []
        for each in readings:
            typer = Typer(self.schema, self.functions, {var: Seen(id, each.type)}, self.problems)
            tests = [
                owned(of_reading(test, var), own_names(self.schema), self.schema, self.problems)
                for test in (each.where, when)
                if test is not None
            ]
            alts.append(Alt(each.type, var, tuple(self._condition(typer, test) for test in tests)))
        return Leaf(id, tuple(alts))

    @staticmethod
    def _condition(typer: Typer, test: Expr) -> Bound:
        return typer.condition(test)

    # --- key, folds, gap ---

    def key(self) -> Iterator[Field]:
        """The attributes of BY, each of one kind in all types."""
        for at, attr in enumerate(self.given.by):
            if attr in self.given.by[:at]:
                self.problems.add(f"{attr} stands twice after BY", self.given.span)
            field = self._field(attr, self.given.span, "BY")
            yield replace(field, nullable=False)

    def folds(self) -> Iterator[Fold]:
        for item in self.given.select:
            call = item.expr
            assert isinstance(call, Call)
            if not call.args:
                yield Fold(column_name(item), "count", None)
                continue
            (name,) = call.args
            assert isinstance(name, Name)
            field = self._field(name.name, name.span, call.function)
            if call.function in ("min", "max") and field.kind not in ORDERED:
                hint = "first, last and count take every kind"
                self.problems.add(f"{call.function} of {article(field.kind)}", item.span, hint=hint)
            yield Fold(column_name(item), call.function, field)

    def _field(self, attr: str, span: Span | None, what: str) -> Field:
        """The one kind that an attribute has in all types that have it."""
        if attr in self.schema.clashes:
            clash(attr, None, span, self.problems)
        fields = {type: self.schema.field(type, attr) for type in self.types}
        if all(field is None for field in fields.values()):
            unknown_attribute(attr, self.schema, self.schema.attributes(), span, self.problems)
        known = {type: each for type, each in fields.items() if each is not None and each.kind is not Kind.NULL}
        kinds = {(each.kind, each.scale) for each in known.values()}
        if len(kinds) > 1:
            told = ", ".join(f"{type}.{attr} is {each.kind}" for type, each in known.items())
            self.problems.add(f"{what} takes {attr} from types where it is of different kinds", span, detail=told)
        return next(iter(known.values()), Field(attr, Kind.NULL))

    def gap(self) -> int | None:
        given = self.given.gap or self.given.max_gap
        if given is None:
            return None
        try:
            return ticks(given, self.schema)
        except KindError as error:
            self.problems.add(error.message, given.span, detail=error.detail, hint=error.hint)
            return None

    # --- columns ---

    def columns(self, key: Iterable[Field], folds: Iterable[Fold]) -> tuple[Field, ...]:
        """The columns of a row, which are the attributes of the interval: its label, the key, and SELECT."""
        found = [Field(LABEL, Kind.TEXT, nullable=False)] if self.given.states else []
        found += key
        for fold in folds:
            of = fold.field
            if fold.function == "count" or of is None:
                found.append(Field(fold.column, Kind.INT))
            else:
                found.append(Field(fold.column, of.kind, of.scale))
        spans: dict[str, SelectItem] = {column_name(item): item for item in self.given.select}
        names = [each.name for each in found]
        for name in dict.fromkeys(names):
            span = spans[name].span if name in spans else self.given.span
            if name in RESULT_COLUMNS or name in OWN:
                self.problems.add(f"every result has a column {name} already", span, hint=f"write AS my_{name}")
            elif names.count(name) > 1:
                self.problems.add(f"two columns are called {name}", span, hint="name one with AS")
        return tuple(found)
