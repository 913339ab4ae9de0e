"""Every mention of a variable becomes the name of a leaf.

A leaf without a variable is called by its type; `A1`, `A2` are the first and second unnamed leaf of type A.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, replace
from typing import Any

from tocsin.lang.syntax import (
    Attr,
    Call,
    Endpoint,
    Exists,
    Expr,
    Leaf,
    Name,
    Pattern,
    Query,
    Span,
    bound_leaves,
    groups_in,
    leaves_of,
    named,
)
from tocsin.plan.problems import Problems, listed, suggestion
from tocsin.schema import OWN, Schema

Rename = Callable[[str, Span | None], str]


def resolve(query: Query, schema: Schema, problems: Problems) -> Query:
    """The query with a variable at every leaf, and every mention spelt as that variable."""
    full = named(query)
    book = _Book(query.pattern, full.pattern, schema, problems)
    spelt: Query = _renamed(full, book.look, book.own)
    return _with_own(without_group_names(spelt), schema, problems)


def without_group_names(query: Query) -> Query:
    """SELECT with the events of groups: count(g) and start(g) are those of its first event, end(g) of its last one."""
    names: dict[tuple[str, str], str] = {}
    for group in groups_in(query.pattern):
        mine = [str(leaf.var) for leaf in bound_leaves(group.pattern)]
        if group.var is not None and mine:
            names |= {("count", group.var): mine[0], ("start", group.var): mine[0], ("end", group.var): mine[-1]}

    def spelt(node: Any) -> Any:
        match node:
            case tuple():
                return tuple(map(spelt, node))
            case Call(function, (Name(name),)) if (function, name) in names:
                return replace(node, args=(Name(names[function, name], span=node.span),))
        if isinstance(node, Span) or not hasattr(node, "__dataclass_fields__"):
            return node
        return replace(node, **{item.name: spelt(getattr(node, item.name)) for item in fields(node)})

    return replace(query, select=spelt(query.select)) if names else query


# --- what every event has of its own --------------------------------------------------------------------------------

FUNCTIONS = {"time": "start", **{name: name for name in OWN}}  # of `x.name`, where the input has no such attribute


def _with_own(query: Query, schema: Schema, problems: Problems) -> Query:
    """`x.time` is start(x), and `x.end` is end(x), unless the input has an attribute of that name."""
    own = own_names(schema)
    if not own:
        return query
    called = Counter(item.name or (item.expr.name if isinstance(item.expr, Attr) else None) for item in query.select)
    select = tuple(
        replace(item, name=item.expr.name if called[item.expr.name] == 1 else f"{item.expr.var}_{item.expr.name}")
        if item.name is None and isinstance(item.expr, Attr) and item.expr.name in own
        else item
        for item in query.select
    )
    found: Query = owned(replace(query, select=select), own, schema, problems)
    return found


def own_names(schema: Schema) -> AbstractSet[str]:
    """What stands behind a dot for something of the event's own, as the input has no attribute of that name."""
    return FUNCTIONS.keys() - schema.attributes()


def owned(node: Any, own: AbstractSet[str], schema: Schema, problems: Problems) -> Any:
    """Syntax in which functions stand where names of the event's own were read like attributes."""
    match node:
        case Attr(var, name) if name in own:
            if name in schema.clashes:
                clash(name, var, node.span, problems)
            return Call(FUNCTIONS[name], (Name(var, span=node.span),), span=node.span)
        case tuple():
            return tuple(owned(member, own, schema, problems) for member in node)
    if isinstance(node, Span) or not hasattr(node, "__dataclass_fields__"):
        return node
    parts = {item.name: getattr(node, item.name) for item in fields(node) if item.name not in ("span", "text")}
    return replace(node, **{name: owned(part, own, schema, problems) for name, part in parts.items()})


def clash(name: str, var: str | None, span: Span | None, problems: Problems) -> None:
    """Refuse an input column that is called like something of the event's own."""
    problems.add(
        f"{name} could mean the input column {name} or the {name} of the event",
        span,
        hint=f"rename the column{f', or write {name}({var}) for the event' if var else ''}",
    )


class _Book:
    """Which name means which leaf."""

    def __init__(self, written: Pattern, full: Pattern, schema: Schema, problems: Problems) -> None:
        self.declared = {leaf.var for leaf in leaves_of(written) if leaf.var}
        self.declared |= {group.var for group in groups_in(written) if group.var}
        self.unnamed: dict[str, list[str]] = {}  # type -> the names that its unnamed leaves got, in text order
        for old, new in zip(leaves_of(written), leaves_of(full), strict=True):
            names = self.unnamed.setdefault(old.type or "ANY", []) if old.var is None else []
            if old.var is None and new.var is not None and new.var not in names:
                names.append(new.var)
        self.all = {leaf.var for leaf in leaves_of(full) if leaf.var}
        self.own: set[str] = set()  # of what ends the repetition at hand
        self.schema = schema
        self.problems = problems

    def look(self, name: str, span: Span | None) -> str:
        if name in self.declared or name in self.own:
            return name
        if len(self.unnamed.get(name, ())) > 1:
            self._ambiguous(name, span)
        elif name not in self.all:
            numbered = next(self._numbered(name), None)
            if numbered is None:
                self._unknown(name, span)
            return numbered or name
        return name

    def _numbered(self, name: str) -> Iterator[str]:
        """`A2`: the second unnamed leaf of type A."""
        for cut in range(len(name) - 1, 0, -1):
            if not name[cut:].isdecimal():
                return
            names = self.unnamed.get(name[:cut], [])
            number = int(name[cut:])
            if name[cut] != "0" and 1 <= number <= len(names):
                yield names[number - 1]

    def _ambiguous(self, name: str, span: Span | None) -> None:
        count = len(self.unnamed[name])
        self.problems.add(
            f"{name} could mean {count} different leaves",
            span,
            detail=f"{count} leaves of type {name} have no variable",
            hint=f"give them variables ({name} x), or write {name}1, {name}2 for the first and the second",
        )

    def _unknown(self, name: str, span: Span | None) -> None:
        hint = suggestion(name, self.all) if len(name) > 2 else None
        if hint is None and name in self.schema.attributes():
            hint = f"{name} is an attribute: write it with its variable, {min(self.all)}.{name}"
        if hint is None:
            hint = f"the variables of this query are {listed(self.all)}; a text stands in quotes: '{name}'"
        self.problems.add(f"unknown variable {name}", span, hint=hint)


def renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression with other variables."""
    found: Expr = _renamed(expr, lambda name, _: names.get(name, name))
    return found


def _renamed(node: Any, rename: Rename, own: set[str] | None = None) -> Any:
    """Return the syntax tree with every mention of a variable replaced by its new name.

    `own`: names that are known where a condition of UNTIL stands, and only there.
    """
    match node:
        case Leaf(until=Leaf()) if own is not None:
            assert node.until is not None
            own.add(str(node.until.var))
            until = _renamed(node.until, rename)
            own.clear()
            return replace(_renamed(replace(node, until=None), rename), until=until)
        case Attr(var):
            return replace(node, var=rename(var, node.span))
        case Name(name):
            return replace(node, name=rename(name, node.span))
        case Endpoint(var):
            return replace(node, var=rename(var, node.span))
        case Exists(variables, pattern):
            spelt = tuple(rename(var, node.span) for var in variables)
            return replace(node, vars=spelt, pattern=_renamed(pattern, rename, own))
        case tuple():
            return tuple(_renamed(member, rename, own) for member in node)
    if isinstance(node, Span) or not hasattr(node, "__dataclass_fields__"):
        return node
    kept = [item.name for item in fields(node) if item.name != "span"]
    changes = {name: _renamed(getattr(node, name), rename, own) for name in kept}
    return replace(node, **changes)
