"""SELECT: the columns of the result. Here a leaf number is the index of a variable of the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from tocsin.functions import Function
from tocsin.lang.printer import print_expr
from tocsin.lang.syntax import EVERYTHING, Attr, Call, Expr, Name, Pattern, Query, Same, SelectItem, Span, leaves_of
from tocsin.plan.block import Output, Variable
from tocsin.plan.expr import Bound
from tocsin.plan.pattern_tree import Site
from tocsin.plan.points_in_time import as_moment, is_point
from tocsin.plan.problems import Problems
from tocsin.plan.typer import Seen, Typer, member_variables, variables
from tocsin.schema import OWN, RESULT_COLUMNS, Kind, Schema


def variables_of(
    sites: Mapping[str, list[Site]], hidden: frozenset[str], schema: Schema, implied: frozenset[str] = frozenset()
) -> tuple[tuple[Variable, ...], dict[str, Seen | None]]:
    """The variables of the result in the order of the text, and how SELECT sees them.

    `implied` ones have no name in the text: they hold the first or the last member of a repetition.
    """
    found: list[Variable] = []
    seen: dict[str, Seen | None] = {}
    for name, declared in sites.items():
        positive = [site for site in declared if all(region.gathers for region in site.regions)]
        if not positive:
            continue
        leaf = positive[0].leaf
        fields = tuple(schema.fields_of(leaf.type).values())
        repeated = leaf.repeat is not None or bool(positive[0].regions)
        seen[name] = Seen(len(found), leaf.type, repeated, optional=any(site.forks for site in positive))
        found.append(Variable(name, (leaf.type,), fields, repeated, name in hidden | implied, name in implied))
    return tuple(found), seen


def outputs_of(
    items: tuple[SelectItem, ...],
    found: tuple[Variable, ...],
    seen: Mapping[str, Seen | None],
    sites: Mapping[str, list[Site]],
    functions: Mapping[str, Function],
    schema: Schema,
    problems: Problems,
) -> tuple[Output, ...]:
    """The bound SELECT list."""
    hidden = {variable.name for variable in found if variable.hidden}
    typer = Typer(schema, functions, seen, problems, shows=True)
    items = tuple(each for item in items for each in _opened(item, seen, hidden, schema, problems))
    names = column_names(items, problems)
    outputs = []
    for item, name in zip(items, names, strict=True):
        span = item.expr.span or item.span
        invisible = [var for var in sorted(variables(item.expr)) if var in hidden or (var in sites and var not in seen)]
        if isinstance(item.expr, Name):
            problems.add(
                f"{item.expr.name} is an event, not a value", span, hint=f"select its attributes: {item.expr.name}.x"
            )
            continue
        if invisible:
            why = "hidden by EXISTS" if invisible[0] in hidden else "bound inside a negated part"
            problems.add(
                f"SELECT cannot show {invisible[0]}, which is {why}",
                span,
                detail="the result is a set over the visible events of a match",
                hint="select variables that the match shows",
            )
            continue
        bare = member_variables(item.expr)  # as it is written: folding may leave nothing of it
        if var := next((each.name for each in found if each.repeated and each.name in bare), None):
            problems.add(
                f"{var} is repeated, so SELECT needs an aggregate of it",
                span,
                hint=f"count({var}), first({var}.x), last({var}.x), sum({var}.x), ...",
            )
        outputs.append(_output(name, item.expr, typer.collected(item.expr), schema))
    return tuple(outputs)


def _output(name: str, written: Expr, bound: Bound, schema: Schema) -> Output:
    """One column; s.time, start(s) and end(s) are timestamps where those of the stream are."""
    if bound.kind is Kind.INT and is_point(written, bound, schema.unit):
        return Output(name, as_moment(bound), moment=True)
    return Output(name, bound)


def _opened(
    item: SelectItem, seen: Mapping[str, Seen | None], hidden: Collection[str], schema: Schema, problems: Problems
) -> tuple[SelectItem, ...]:
    """`s.*` as one item for each attribute of the variable; any other item as it is."""
    match item.expr:
        case Call(function, (Name(var),)) if function == EVERYTHING:
            span = item.expr.span
        case _:
            return (item,)
    if item.name is not None:
        problems.add(f"{var}.* is several columns", item.span, hint=f"leave AS {item.name} out")
        return ()
    known = seen.get(var)
    if known is None or var in hidden:
        return (item,)  # refused with the others that SELECT cannot show
    if known.repeated:
        problems.add(
            f"{var} is repeated, and {var}.* is of one event", span, hint=f"collect({var}.x) lists one attribute"
        )
        return ()
    attrs = schema.types[known.type] if known.type in schema.matches else schema.fields_of(known.type)
    if not attrs:
        problems.note(f"{known.type or 'ANY'} has no attributes, so {var}.* is empty", None)
    taken = {*RESULT_COLUMNS, *OWN}
    return tuple(
        SelectItem(Attr(var, attr, span=span), f"{var}_{attr}" if attr in taken else None, span=item.span)
        for attr in attrs
    )


def column_names(items: tuple[SelectItem, ...], problems: Problems) -> list[str]:
    """AS name, else the attribute, else variable_attribute where that clashes, else the expression as text."""
    short = Counter(item.name or (item.expr.name if isinstance(item.expr, Attr) else None) for item in items)
    taken: set[str] = set()
    names = []
    for item in items:
        name = item.name or _plain(item, short)
        if name in taken and item.name is not None:
            problems.add(f"two columns are called {name}", item.span or item.expr.span, hint="rename one with AS")
        if name in RESULT_COLUMNS:
            _taken(name, item.span or item.expr.span, problems, f"rename it: SELECT ... AS my_{name}")
        base, number = name, 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        names.append(name)
    return names


def check_variables(pattern: Pattern, found: tuple[Variable, ...], problems: Problems) -> None:
    """Without SELECT each variable is a column: none may be called like a column that every result has."""
    shown = {variable.name for variable in found if not variable.hidden} & set(RESULT_COLUMNS)
    for leaf in leaves_of(pattern):
        if leaf.var in shown:
            _taken(leaf.var, leaf.span, problems, f"give the variable another name: {leaf.type or 'ANY'} my_{leaf.var}")


def check_step(query: Query, found: tuple[Variable, ...], outputs: tuple[Output, ...], problems: Problems) -> None:
    """With TIMEOUT every row has a column `step`."""
    shown = {output.name for output in outputs} or {variable.name for variable in found if not variable.hidden}
    if query.timeout and "step" in shown:
        place = next((leaf.span for leaf in leaves_of(query.pattern) if leaf.var == "step"), query.span)
        _taken("step", place, problems, "give it another name; `step` says which step was missing")


def _taken(name: str, span: Span | None, problems: Problems, hint: str) -> None:
    problems.add(f"a result has a column {name} already", span, hint=hint)


def _plain(item: SelectItem, short: Counter[str | None]) -> str:
    match item.expr:
        case Attr(var, attr):
            return attr if short[attr] == 1 else f"{var}_{attr}"
        case Same((attr,)):
            return attr
    return print_expr(item.expr)
