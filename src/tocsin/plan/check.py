"""Static rules of patterns: what may stand where, and whether comparisons of endpoints can hold together."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.lang.syntax import (
    ALLEN,
    And,
    Comparison,
    Exists,
    Iseq,
    Leaf,
    Marked,
    Not,
    Or,
    Pattern,
    Query,
    Rel,
    Repeat,
    Seq,
    Span,
    items_of,
    leaves_of,
    walk,
)
from tocsin.plan.endpoints import Edge, Graph, comparison_edges
from tocsin.plan.groups import check_groups
from tocsin.plan.marks import check_marks
from tocsin.plan.optional import check_optional
from tocsin.plan.pattern_tree import Site
from tocsin.plan.problems import Problems, listed, suggestion
from tocsin.schema import Schema

MOST_LEAVES = 100


def check_pattern(query: Query, problems: Problems) -> None:
    """Report every rule that the pattern of a named query breaks."""
    leaves = leaves_of(query.pattern)
    if len(leaves) > MOST_LEAVES:
        problems.add(f"the pattern has {len(leaves)} leaves, at most {MOST_LEAVES} are allowed", query.span)
        return
    for leaf in leaves:
        _check_repeat(leaf, problems)
    check_marks(query.pattern, problems)
    check_optional(query.pattern, problems)
    check_groups(query, problems)
    shown = set(_targets(query.pattern))
    for var in sorted(hidden_variables(query.pattern) & shown):
        problems.add(f"{var} is hidden by EXISTS in one branch of OR and shown in another", query.pattern.span)
    if isinstance(query.pattern, Not):
        problems.add(
            "a query cannot be only a negation",
            query.pattern.span,
            hint="say beside what it must not happen: SEQ(A a, !B b) WITHIN ...",
        )
    _check(query.pattern, problems)


def check_types(pattern: Pattern, schema: Schema, problems: Problems) -> None:
    """Note types that never come; a strict schema refuses them."""
    for type, span in types_read(pattern).items():
        if schema.has_type(type):
            continue
        meant = suggestion(type, schema.types)
        if schema.strict:
            hint = meant or f"known types are {listed(schema.types)}"
            problems.add(f"unknown event type {type}", span, hint=hint if schema.types else None)
        else:
            problems.note(f"no event of type {type} occurs", meant)


def types_read(pattern: Pattern) -> dict[str, Span | None]:
    """The types that a pattern names, at its leaves and behind NEXT OF, each with the first place of it."""
    found: dict[str, Span | None] = {}
    for node in walk(pattern):
        if isinstance(node, Leaf):
            found.setdefault(node.type, node.span)
        elif isinstance(node, Marked):
            for type in node.of:
                found.setdefault(type, node.span)
    return found


def types_named(pattern: Pattern) -> dict[str, None]:
    """The types of the leaves of a pattern, and of what ends its repetitions."""
    return dict.fromkeys(node.type for node in walk(pattern) if isinstance(node, Leaf))


def _check_repeat(leaf: Leaf, problems: Problems) -> None:
    match leaf.repeat:
        case Repeat(least, most) if least < 0 or most == 0:
            problems.add("this repetition allows no event", leaf.span, hint="B* is none or more, B{0,3} none to three")
        case Repeat(least, most) if most is not None and most < least:
            problems.add(f"no number is at least {least} and at most {most}", leaf.span, hint=f"{{{most},{least}}}")


def _check(pattern: Pattern, problems: Problems) -> None:
    match pattern:
        case Seq(items) | And(items):
            if all(isinstance(item, Not) for item in items):
                word = "SEQ" if isinstance(pattern, Seq) else "AND"
                problems.add(
                    f"{word} needs at least one item that is not negated",
                    pattern.span,
                    hint="absence is judged beside something that did happen",
                )
            if isinstance(pattern, And):
                _check_lasting(items, problems)
        case Not(Not()):
            problems.add(
                "a double negation", pattern.span, hint="write the nested form: !SEQ(B b, !C c), or drop both marks"
            )
        case Or(items):
            for item in items:
                _not_negated(item, "a branch of OR", problems)
        case Exists(_, inner):
            _not_negated(inner, "the pattern of EXISTS", problems)
            _check_exists(pattern, problems)
        case Rel(_, left, right):
            _not_negated(left, "a side of REL", problems)
            _not_negated(right, "a side of REL", problems)
            _check_rel(pattern, problems)
        case Iseq():
            _check_iseq(pattern, problems)
    for item in items_of(pattern):
        _check(item, problems)


def _check_lasting(items: tuple[Pattern, ...], problems: Problems) -> None:
    for item in items:
        if isinstance(item, Not) and item.lasting is not None:
            problems.add(
                "FOR stands behind a negation in SEQ only",
                item.span,
                detail="the items of AND have no order, so nothing says when the time begins",
                hint="write SEQ(A a, !B b FOR 5 min)",
            )


def _not_negated(item: Pattern, what: str, problems: Problems) -> None:
    if isinstance(item, Not):
        problems.add(
            f"{what} cannot be negated",
            item.span,
            hint="put it beside a positive item: SEQ(A a, !B b) or AND(A a, !B b)",
        )


def _check_exists(pattern: Exists, problems: Problems) -> None:
    targets = set(_targets(pattern.pattern))
    for var in pattern.vars:
        if var not in targets:
            problems.add(
                f"EXISTS hides {var}, which its pattern does not bind",
                pattern.span,
                detail="only variables outside negations, not hidden already, can be hidden",
                hint=suggestion(var, targets),
            )


def _targets(pattern: Pattern) -> Iterator[str]:
    """TV: the variables that a pattern binds for its result."""
    match pattern:
        case Leaf():
            yield pattern.var or pattern.type
        case Not():
            return
        case Exists(hidden, inner):
            yield from (var for var in _targets(inner) if var not in hidden)
        case _:
            for item in items_of(pattern):
                yield from _targets(item)


def _check_rel(pattern: Rel, problems: Problems) -> None:
    for name in pattern.relations:
        if name not in ALLEN:
            problems.add(f"unknown relation {name}", pattern.span, hint=suggestion(name, ALLEN) or listed(ALLEN, 13))
    if not pattern.relations:
        problems.add("REL needs at least one relation", pattern.span, hint="REL[overlap](A a, B b)")
    _no_repetition(pattern, "REL", problems)


def _no_repetition(pattern: Pattern, word: str, problems: Problems) -> None:
    for leaf in leaves_of(pattern):
        if leaf.repeat is not None:
            problems.add(
                f"a repetition cannot stand inside {word}",
                leaf.span,
                hint=f"put it beside, in SEQ or AND, and compare start({leaf.var}) and end({leaf.var}) in WHERE",
            )


# --- TList -------------------------------------------------------------------------------------------------------


def _check_iseq(pattern: Iseq, problems: Problems) -> None:
    _no_repetition(pattern, "ISEQ", problems)
    listed_vars = {leaf.var or leaf.type for leaf in pattern.leaves}
    edges: list[Edge] = [((var, "start"), (var, "end"), False) for var in listed_vars]
    for comparison in pattern.order:
        for end in (comparison.left, comparison.right):
            if end.var not in listed_vars:
                problems.add(
                    f"{end.var} is not in the list of this ISEQ",
                    end.span or comparison.span,
                    hint=suggestion(end.var, listed_vars) or f"its leaves are {listed(listed_vars)}",
                )
        if circle := _circle(comparison, edges):
            problems.add(
                "the comparisons of this ISEQ contradict each other",
                comparison.span or pattern.span,
                detail=f"together with the ones before it, it says that {circle}",
                hint="remove one of them; every event starts at or before its end",
            )
            return
        edges += _edges(comparison)


def _edges(comparison: Comparison) -> list[Edge]:
    left = (comparison.left.var, comparison.left.which)
    right = (comparison.right.var, comparison.right.which)
    return comparison_edges(left, comparison.op, right)


def _circle(comparison: Comparison, known: list[Edge]) -> str:
    """The chain that leads back to its beginning, if one more comparison closes a circle with a strict edge in it."""
    new = _edges(comparison)
    graph = Graph(known + new)
    for left, right, strict in new:
        if graph.implies(right, left, not strict):
            way = [(left, False), (right, strict), *graph.path(right, left, strict=not strict)[1:]]
            return "".join(
                (f" {'<' if sharp else '<='} " if number else "") + _shown(end)
                for number, (end, sharp) in enumerate(way)
            )
    return ""


def _shown(end: object) -> str:
    assert isinstance(end, tuple)
    return f"{end[1]}({end[0]})"


# --- names -------------------------------------------------------------------------------------------------------


def check_declarations(sites: list[Site], problems: Problems) -> None:
    """A variable is declared once; branches of an OR may share it if they mean the same."""
    first: dict[str, Site] = {}
    for site in sites:
        known = first.setdefault(site.var, site)
        if known is site:
            continue
        if any(site.beside(other) for other in sites if other is not site and other.var == site.var):
            problems.add(f"{site.var} is declared twice", site.leaf.span, hint="give each leaf its own variable")
        elif known.leaf.type != site.leaf.type:
            problems.add(
                f"{site.var} is {known.leaf.type} in one branch of OR and {site.leaf.type} in another",
                site.leaf.span,
                hint="use two variables; the one that is not bound is null",
            )
        elif (known.leaf.repeat is None) != (site.leaf.repeat is None):
            problems.add(
                f"{site.var} is repeated in one branch of OR and a single event in another",
                site.leaf.span,
                hint="use two variables; the one that is not bound is null",
            )


def hidden_variables(pattern: Pattern) -> frozenset[str]:
    """The variables that some EXISTS hides."""
    own = frozenset(pattern.vars) if isinstance(pattern, Exists) else frozenset()
    return own.union(*(hidden_variables(item) for item in items_of(pattern)))
