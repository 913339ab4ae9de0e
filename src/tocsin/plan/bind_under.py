"""Bind UNDER: types, attributes and conditions of constraints, and what their query must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tocsin.events import TIME_LIMIT
from tocsin.functions import Function
from tocsin.lang.constraint_printer import print_regex
from tocsin.lang.constraint_syntax import AnyOf, Concat, Constraint, Regex, Repeated, Symbol, UnderClause
from tocsin.lang.syntax import Query, conjuncts
from tocsin.plan.block import Plan
from tocsin.plan.expr import Agg, Ref, Time, User, walk
from tocsin.plan.fold import FALSE
from tocsin.plan.kinds import KindError, ticks
from tocsin.plan.problems import Problems, suggestion
from tocsin.plan.typer import Seen, Typer, unknown_attribute
from tocsin.plan.under import TRACE, BoundConstraint, Expression, InTurn, Often, OneEvent, OneOf, UnderForm
from tocsin.schema import Field, Kind, Schema

KNOWN_BY = ("key", "ends", "timeout")


def bind_under(query: Query, schema: Schema, functions: Mapping[str, Function], problems: Problems) -> UnderForm | None:
    """The constraints of a query; what is wrong with them is added to the problems."""
    clause = query.under
    if clause is None or not clause.constraints:
        return None
    if query.consume is not None:
        hint = "give the query without CONSUME the constraint, or CONSUME a query without it"
        problems.add("UNDER and CONSUME do not go together", clause.span, hint=hint)
    bound = [_bound(constraint, schema, functions, problems) for constraint in clause.constraints]
    _check_alike(clause, problems)
    return UnderForm(tuple(bound), clause.checked, _timeout(clause.constraints[0], schema, problems))


def with_traces(query: Query, schema: Schema, under: UnderForm | None) -> tuple[Query, Schema]:
    """The query as it is asked of each trace by itself, where the events of one key may be several of them."""
    plain = replace(query, under=None)
    if under is None or not under.divides:
        return plain, schema
    numbered = replace(schema, common={**schema.common, TRACE: Field(TRACE, Kind.INT)})
    return replace(plain, partition=(*query.partition, TRACE)), numbered


def under_constraints(plan: Plan, under: UnderForm | None, notes: tuple[str, ...]) -> Plan:
    """The plan of a query under constraints, without the number of the trace where it would be shown."""
    if under is None:
        return plan
    variables = tuple(
        replace(each, fields=tuple(field for field in each.fields if field.name != TRACE)) for each in plan.variables
    )
    needs = tuple(attr for attr in plan.needs if attr != TRACE)
    return replace(plan, under=under, variables=variables, needs=needs, notes=plan.notes + notes)


def notes_on(under: UnderForm | None, schema: Schema) -> tuple[str, ...]:
    """Types of constraints that never occur."""
    if under is None:
        return ()
    strange = [type for type in under.mentioned if not schema.has_type(type)]
    notes = []
    for type in strange:
        meant = suggestion(type, schema.types)
        notes.append(f"no event has the type {type}, which a constraint names" + (f"; {meant}" if meant else ""))
    return tuple(notes)


def _bound(
    constraint: Constraint, schema: Schema, functions: Mapping[str, Function], problems: Problems
) -> BoundConstraint:
    mine = Problems(constraint.text or problems.text)
    for attr in constraint.key:
        known = constraint.alphabet
        if known is not None and known and all(schema.field(type, attr) is None for type in known):
            unknown_attribute(attr, schema, (), constraint.span, mine)
    expression = _expression(constraint.regex, schema, functions, mine)
    if constraint.starts and constraint.divides:
        what = "ENDS" if constraint.ends else "TIMEOUT"
        mine.add(f"{what} does not go with {constraint.starts[0]}^-", constraint.span,
                 detail="an event could begin in one trace and end in the next",
                 hint=f"leave {what} out, or write the constraint over whole events")  # fmt: skip
    if constraint.starts and constraint.ties:
        mine.add(f"TIES ANY does not go with {constraint.starts[0]}^-", constraint.span,
                 hint="leave TIES ANY out: the start and the end of one event may have one time")  # fmt: skip
    problems.found += mine.found
    problems.notes += mine.notes
    return BoundConstraint(constraint, expression)


def _expression(regex: Regex, schema: Schema, functions: Mapping[str, Function], problems: Problems) -> Expression:
    match regex:
        case Symbol():
            return _symbol(regex, schema, functions, problems)
        case AnyOf(parts):
            return OneOf(tuple(_expression(part, schema, functions, problems) for part in parts))
        case Concat(parts):
            return InTurn(tuple(_expression(part, schema, functions, problems) for part in parts))
        case Repeated(part, repeat):
            return Often(_expression(part, schema, functions, problems), repeat)
    raise TypeError(f"not an expression of a constraint: {regex!r}")


def _symbol(symbol: Symbol, schema: Schema, functions: Mapping[str, Function], problems: Problems) -> OneEvent:
    """A symbol with its conditions, which are about its own event and nothing else."""
    typer = Typer(schema, functions, {symbol.type: Seen(0, symbol.type)}, problems)
    tests = []
    for conjunct in conjuncts(symbol.where):
        test = typer.condition(conjunct)
        if any(isinstance(node, Agg | Time | Ref | User) for node in walk(test)):
            hint = "it may ask for attributes of the event: A[x = 1 AND y > 2]"
            problems.add("a condition of a constraint cannot ask this", conjunct.span, hint=hint)
            continue
        if test == FALSE:
            problems.add(
                "this condition can never hold", conjunct.span, detail=f"no event is {print_regex(symbol)}",
                hint="leave the symbol out, or correct its condition",
            )  # fmt: skip
        tests.append(test)
    return OneEvent(symbol.type, tuple(tests), symbol.at == "-")


def _check_alike(clause: UnderClause, problems: Problems) -> None:
    """Constraints of one query are about the same traces."""
    first, *others = clause.constraints
    for other in others:
        for name, said in zip(KNOWN_BY, ("PARTITION BY", "ENDS", "TIMEOUT"), strict=True):
            mine, theirs = getattr(first, name), getattr(other, name)
            if (set(mine) != set(theirs)) if isinstance(mine, tuple) else (mine != theirs):
                problems.add(
                    f"{first.name} and {other.name} are about different traces", clause.span,
                    detail=f"{said} differs", hint="a query can be under constraints with one key, ENDS and TIMEOUT",
                )  # fmt: skip


def _timeout(constraint: Constraint, schema: Schema, problems: Problems) -> int | None:
    length = constraint.timeout
    if length is None:
        return None
    try:
        found = ticks(length, schema)
    except KindError as error:
        problems.add(error.message, length.span, detail=error.detail, hint=error.hint)
        return None
    if found >= TIME_LIMIT:
        problems.add("TIMEOUT is too long", length.span, hint=f"it must be below {TIME_LIMIT} ticks")
    return found
