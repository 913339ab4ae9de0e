"""Bind SELECT where it is over matches: which aggregates there are, what they ask, and what GROUP BY tells apart."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from tocsin.lang.printer import print_counting, print_expr
from tocsin.lang.syntax import AGGREGATES, Call, Expr, Name, Query, Same, SelectItem, walk
from tocsin.plan.after_match import AfterMatch, CountClauses, Grouping, Total
from tocsin.plan.bind_after_match import ClauseBinder
from tocsin.plan.block import Output
from tocsin.plan.expr import Lit
from tocsin.plan.kinds import NUMBERS
from tocsin.plan.outputs import column_names
from tocsin.plan.typer import variables
from tocsin.schema import Kind

OVER_MATCHES = ("count", "sum", "avg", "min", "max")
HINT = "over matches there are count(*), count(x.v), sum(x.v), avg(x.v), min(x.v) and max(x.v)"


def over_matches(query: Query, repeated: Collection[str]) -> bool:
    """Whether SELECT counts matches: GROUP BY or EVERY says so, or no variable inside its aggregates is repeated."""
    if query.group or query.every is not None:
        return True
    calls = list(_aggregates(item.expr for item in query.select))
    members = any(variables(call) & set(repeated) for call in calls)
    return bool(calls) and not members and all(call.function in OVER_MATCHES for call in calls)


def _aggregates(exprs: Iterator[Expr]) -> Iterator[Call]:
    for expr in exprs:
        yield from (node for node in walk(expr) if isinstance(node, Call) and node.function in AGGREGATES)


def counted(binder: ClauseBinder, after: AfterMatch) -> tuple[AfterMatch, tuple[Output, ...]]:
    """The clauses of a query that counts its matches, and the columns of its result."""
    query, problems = binder.query, binder.problems
    if query.timeout:
        problems.add(
            "TIMEOUT gives rows of its own, and this query counts matches",
            query.span,
            hint="write two queries: one that counts, one with TIMEOUT",
        )
    if not query.select:
        problems.add(
            "GROUP BY and EVERY need a SELECT that says what is counted",
            query.group[0].span if query.group else query.every.span if query.every is not None else query.span,
            hint="SELECT count(*)",
        )
    groups = tuple(_group(binder, expr) for expr in query.group)
    columns = tuple(_column(binder, item) for item in query.select)
    every = binder.every(query.every)
    count = CountClauses(columns, groups, every, binder.key_attributes(query.group))
    names = column_names(query.select, problems)
    outputs = tuple(Output(name, _shown(column, groups)) for name, column in zip(names, columns, strict=True))
    lines = (*after.lines, *print_counting(query))
    return replace(after, count=count, lines=lines), outputs


def _group(binder: ClauseBinder, expr: Expr) -> Grouping:
    return next(binder.groupings(expr, "GROUP BY"), ())


def _column(binder: ClauseBinder, item: SelectItem) -> Total | int:
    """An aggregate, or the number of the group that a column shows."""
    expr, groups = item.expr, binder.query.group
    if expr in groups:
        return groups.index(expr)
    if isinstance(expr, Call) and expr.function in OVER_MATCHES:
        return _total(binder, expr)
    call = next(_aggregates(iter((expr,))), None)
    if call is None:
        what, hint = "neither counted nor a group", f"GROUP BY {print_expr(expr)}, or ask count(*), min(x.v), ..."
        if isinstance(expr, Name | Same):
            hint = f"GROUP BY {print_expr(expr)}, if it is an attribute of the key; or select aggregates only"
    elif call is expr:
        what, hint = f"{call.function}, which is not for matches", HINT
    else:
        what, hint = "computed from aggregates", f"select the aggregates by themselves: {print_expr(call)}"
    binder.problems.add(
        f"SELECT counts matches here, and {print_expr(expr)} is {what}", expr.span or item.span, hint=hint
    )
    return Total("count", None, Kind.INT)


def _total(binder: ClauseBinder, call: Call) -> Total:
    problems, function = binder.problems, call.function
    if not call.args:
        if function != "count":
            problems.add(f"{function} needs a value", call.span, hint=f"{function}(x.v)")
        return Total("count", None, Kind.INT)
    arg = call.args[0]
    nothing = Total(function, None, Kind.INT)
    if len(call.args) > 1:
        problems.add(f"{function} takes one argument, not {len(call.args)}", call.span, hint=f"{function}(x.v)")
        return nothing
    repeated = {variable.name for variable in binder.found if variable.repeated}
    if over := sorted(variables(arg) & repeated):
        problems.add(
            f"{over[0]} is repeated, and with GROUP BY or EVERY aggregates are over matches",
            call.span,
            hint=f"select {print_expr(call)} in a query of its own, and count that query's matches",
        )
        return nothing
    if any(_aggregates(iter((arg,)))):
        problems.add(f"{function} cannot run over an aggregate", call.span, hint=HINT)
        return nothing
    if isinstance(arg, Name) and function != "count":
        problems.add(f"{function} needs an attribute", call.span, hint=f"{function}({arg.name}.x)")
        return nothing
    if isinstance(arg, Name):  # matches that bind it
        arg = Call("start", (arg,), span=arg.span)
    bound = binder.value(arg, function)
    if not bound:
        return nothing
    value = bound[0]
    if function == "count":
        return Total("count", value, Kind.INT)
    if function in ("sum", "avg") and value.kind not in (*NUMBERS, Kind.NULL):
        problems.add(f"{function} needs numbers, not {value.kind.name.lower()}", call.span, hint=f"{function}(x.v)")
        return nothing
    if function in ("min", "max") and value.kind is Kind.BOOL:
        problems.add(f"{function} needs values that have an order, not truths", call.span)
        return nothing
    if function == "avg":
        return Total(function, value, Kind.FLOAT)
    kind = Kind.INT if function == "sum" and value.kind is Kind.TIME else value.kind
    return Total(function, value, kind, value.scale)


def _shown(column: Total | int, groups: tuple[Grouping, ...]) -> Lit:
    """What is known of a column before there is a row: its kind."""
    if isinstance(column, Total):
        return Lit(None, column.kind, column.scale)
    kinds = {expr.kind for expr in groups[column]} - {Kind.NULL}
    kind = next(iter(kinds), Kind.NULL) if len(kinds) < 2 else Kind.FLOAT
    return Lit(None, kind, max((expr.scale for expr in groups[column]), default=0))
