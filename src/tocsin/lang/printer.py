"""Syntax nodes into text: the canonical spelling, with as few parentheses as the grammar allows.

The law is `parse(print_query(q)) == q`. A name that the grammar would misread stands in back-quotes.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from tocsin.lang import syntax
from tocsin.lang.expressions import COMPARISON, OPERAND, PRECEDENCE
from tocsin.lang.syntax import (
    And,
    Attr,
    Between,
    Binary,
    Call,
    CaseWhen,
    Comparison,
    Duration,
    Endpoint,
    Exists,
    Expr,
    Grouped,
    In,
    Iseq,
    IsNull,
    Leaf,
    Like,
    Literal,
    Marked,
    Maybe,
    Name,
    Not,
    Or,
    Pattern,
    Query,
    Rel,
    Relates,
    Repeat,
    Same,
    SelectItem,
    Seq,
    Unary,
)
from tocsin.lang.tokens import ANY_WORD, MARKS, PLAIN_NAME, VERBS, is_plain

ATOM = PRECEDENCE["minus"] + 1
VERB = {relation: verb.upper() for verb, relation in VERBS.items()}  # the last spelling: OVERLAPS, MET BY


def print_query(query: Query) -> str:
    """The whole query, one clause per line.

    >>> from tocsin.lang.parser import parse
    >>> print(print_query(parse("seq(A a, not B b) within 12 hours where [id]")))
    EVENT SEQ(A a, !B b)
    WHERE [id]
    WITHIN 12 h
    """
    hidden = " HIDDEN" if query.hidden else ""
    above = [f"{constraint};\n" for constraint in query.under.constraints] if query.under is not None else []
    lines = [f"QUERY {print_name(query.name)}{hidden}"] if query.name is not None else []
    lines.append(f"EVENT {print_pattern(query.pattern)}")
    if query.where is not None:
        lines.append(f"WHERE {print_expr(query.where)}")
    if query.within is not None:
        behind = f"{' TIMEOUT' if query.timeout else ''}{' EARLY' if query.early else ''}"
        lines.append(f"WITHIN {print_duration(query.within)}{behind}")
    if query.between is not None:
        lines.append(f"WITHIN ({print_duration(query.between.more)}, {print_duration(query.between.less)})")
    if query.continuity is not None:
        types = ", ".join(map(print_type, query.continuity.types))
        lines.append(f"CONTINUITY OF ({types})" if types else "CONTINUITY ALL")
    if query.strategy is not None:
        lines.append(f"STRATEGY {query.strategy}")
    if query.partition:
        lines.append(f"PARTITION BY {_names(query.partition)}")
    if query.consume is not None:
        lines.append(f"CONSUME {query.consume.mode}")
    lines += print_selection(query)
    lines += print_counting(query)
    if query.under is not None:
        names = ", ".join(print_name(constraint.name) for constraint in query.under.constraints)
        lines.append(f"UNDER {names}{' CHECKED' if query.under.checked else ''}")
    return "\n".join([*above, *lines])


def print_counting(query: Query) -> list[str]:
    """The clauses that say what is counted."""
    lines = [f"SELECT {', '.join(_select_item(item, query.group) for item in query.select)}"] if query.select else []
    if query.group:
        lines.append(f"GROUP BY {', '.join(map(_grouping, query.group))}")
    if query.every is not None:
        lines.append(f"EVERY {print_duration(query.every)}")
    return lines


def print_selection(query: Query) -> list[str]:
    """The clauses that choose among matches, each on a line, in the order in which they apply."""
    lines = []
    if query.skip is not None:
        to, var = query.skip.to, "" if query.skip.var is None else print_name(query.skip.var.name)
        where = {"past last": "PAST LAST EVENT", "next": "TO NEXT EVENT"}.get(to, f"TO {to.upper()} {var}")
        lines.append(f"AFTER MATCH SKIP {where}")
    if query.distinct is not None:
        lines.append(f"DISTINCT BY {_grouping(query.distinct.by)}{_every(query.distinct.every)}")
    if query.limit is not None:
        per = ", ".join(_grouping(expr) for expr in query.limit.per)
        lines.append(f"LIMIT {query.limit.most}{f' PER {per}' if per else ''}{_every(query.limit.every)}")
    return lines


def _grouping(expr: Expr) -> str:
    """What matches are told apart by: an attribute of the key stands by itself."""
    return print_name(expr.attrs[0]) if isinstance(expr, Same) and len(expr.attrs) == 1 else print_expr(expr)


def _every(length: Duration | None) -> str:
    return "" if length is None else f" EVERY {print_duration(length)}"


# --- patterns ----------------------------------------------------------------------------------------------------


def print_pattern(pattern: Pattern) -> str:
    """A pattern on one line.

    >>> print_pattern(Seq((Leaf("A", "a"), Not(Leaf("B")))))
    'SEQ(A a, !B)'
    """
    match pattern:
        case Leaf():
            return _leaf(pattern)
        case Not(inner, lasting):
            return f"!{print_pattern(inner)}{'' if lasting is None else f' FOR {print_duration(lasting)}'}"
        case Marked(mark, inner, of):
            types = f" OF ({', '.join(map(print_type, of))})" if of else ""
            return f"{mark}{types} {print_pattern(inner)}"
        case Maybe(inner):
            return f"MAYBE {print_pattern(inner)}"
        case Grouped(inner, repeat, var, first):
            name = "" if var is None else f" {print_name(var)}"
            return f"{'FIRST ' if first else ''}({print_pattern(inner)}){print_repeat(repeat)}{name}"
        case Seq(items):
            return f"SEQ({_patterns(items)})"
        case And(items):
            return f"AND({_patterns(items)})"
        case Or(items):
            return f"OR({_patterns(items)})"
        case Exists(variables, inner):
            return f"EXISTS {_names(variables)} : {print_pattern(inner)}"
        case Iseq(order, leaves, within):
            window = f"; {print_duration(within)}" if within is not None else ""
            return f"ISEQ[{_order(order)}]({_patterns(leaves)}{window})"
        case Rel(relations, left, right):
            return f"REL[{', '.join(relations)}]({print_pattern(left)}, {print_pattern(right)})"
    raise TypeError(f"not a pattern: {pattern!r}")


def _patterns(items: tuple[Pattern, ...]) -> str:
    return ", ".join(print_pattern(item) for item in items)


def _leaf(leaf: Leaf) -> str:
    text = print_type(leaf.type) + ("?" if leaf.optional else "") + print_repeat(leaf.repeat)
    if leaf.var is not None:
        text += f" {print_name(leaf.var)}"
    if leaf.where is not None:
        text += f" : {print_expr(leaf.where)}"
    if leaf.until is not None:
        text += f" UNTIL {_until(leaf, leaf.until)}"
    return text if leaf.where is None and leaf.until is None else f"({text})"


def _until(leaf: Leaf, until: Leaf) -> str:
    """What ends a repetition: a condition on its own events, or an event."""
    if (until.type, until.var) == (leaf.type, leaf.var) and until.where is not None:
        return print_expr(until.where)
    text = print_type(until.type) + ("" if until.var is None else f" {print_name(until.var)}")
    return text if until.where is None else f"{text} : {print_expr(until.where)}"


def print_type(type: str) -> str:
    """A type; one that is called like a mark, or like ANY, stands in back-quotes."""
    if not type:
        return ANY_WORD
    return _quoted(type) if type in MARKS else _dotted(type)


def print_repeat(repeat: Repeat | None) -> str:
    match repeat:
        case None:
            return ""
        case Repeat(0, None):
            return "*"
        case Repeat(1, None):
            return "+"
        case Repeat(least, None):
            return f"{{{least},}}"
        case Repeat(least, most):
            return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _order(order: tuple[Comparison, ...]) -> str:
    """Comparisons that follow on each other are written as a chain: start(a) < end(b) < end(c)."""
    text = ""
    for index, comparison in enumerate(order):
        if not index:
            text = _endpoint(comparison.left)
        elif order[index - 1].right != comparison.left:
            text += f" AND {_endpoint(comparison.left)}"
        text += f" {comparison.op} {_endpoint(comparison.right)}"
    return text


def _endpoint(endpoint: Endpoint) -> str:
    return f"{endpoint.which}({_dotted(endpoint.var)})"


# --- expressions -------------------------------------------------------------------------------------------------


def print_expr(expr: Expr, least: int = 0) -> str:
    """An expression, in parentheses if it binds less tightly than `least` (see the table in `expressions`).

    >>> print_expr(Binary("*", Binary("+", Attr("a", "x"), Literal(1)), Literal(2)))
    '(a.x + 1) * 2'
    """
    text, binding = _expr(expr)
    return text if binding >= least else f"({text})"


def _expr(expr: Expr) -> tuple[str, int]:
    """The text of an expression and how tightly its outermost operator binds."""
    match expr:
        case Literal():
            return _literal(expr), ATOM
        case Duration():
            return print_duration(expr), ATOM
        case Name(name):
            return print_name(name), ATOM
        case Attr(variable, name):
            return f"{_dotted(variable)}.{_word(name)}", ATOM
        case Call():
            return _call(expr), ATOM
        case Same(attrs):
            return f"[{_names(attrs)}]", ATOM
        case CaseWhen():
            return _case(expr), ATOM
        case Unary("NOT", operand):
            return f"NOT {print_expr(operand, PRECEDENCE['NOT'])}", PRECEDENCE["NOT"]
        case Unary(_, operand):
            return _minus(operand), PRECEDENCE["minus"]
        case Binary():
            return _binary(expr)
    return _comparison(expr), COMPARISON


def _call(expr: Call) -> str:
    match expr:
        case Call(syntax.MEMBER, (Attr(variable, name), Literal(number))):
            return f"{_dotted(variable)}[{number}].{_word(name)}"
        case Call(syntax.EVERYTHING, (Name(variable),)):
            return f"{_dotted(variable)}.*"
        case Call("count", ()):
            return "count(*)"
        case Call(syntax.DISTINCT, args):
            return f"count(distinct {_exprs(args)})"
    called = "end" if expr.function == "end" else print_name(expr.function)
    return f"{called}({_exprs(expr.args)})"


def _binary(expr: Binary) -> tuple[str, int]:
    binding = PRECEDENCE[expr.op]
    left = binding + 1 if binding == COMPARISON else binding  # comparisons do not chain
    return f"{print_expr(expr.left, left)} {expr.op} {print_expr(expr.right, binding + 1)}", binding


def _minus(operand: Expr) -> str:
    """A minus before a number would become a part of it, and two minus signs a comment."""
    if isinstance(operand, Literal) or (isinstance(operand, Unary) and operand.op == "-"):
        return f"-({print_expr(operand)})"
    return f"-{print_expr(operand, PRECEDENCE['minus'])}"


def _comparison(expr: Expr) -> str:
    match expr:
        case Relates(left, relation, right):
            return f"{print_name(left.name)} {VERB[relation]} {print_name(right.name)}"
        case In(operand, options, negated):
            return f"{print_expr(operand, OPERAND)}{' NOT' if negated else ''} IN ({_exprs(options)})"
        case Between(operand, low, high, negated):
            bounds = f"{print_expr(low, OPERAND)} AND {print_expr(high, OPERAND)}"
            return f"{print_expr(operand, OPERAND)}{' NOT' if negated else ''} BETWEEN {bounds}"
        case Like(operand, pattern, negated):
            return f"{print_expr(operand, OPERAND)}{' NOT' if negated else ''} LIKE {print_expr(pattern, OPERAND)}"
        case IsNull(operand, negated):
            return f"{print_expr(operand, OPERAND)} IS{' NOT' if negated else ''} NULL"
    raise TypeError(f"not an expression: {expr!r}")


def _case(case: CaseWhen) -> str:
    whens = "".join(f" WHEN {print_expr(condition)} THEN {print_expr(value)}" for condition, value in case.whens)
    otherwise = f" ELSE {print_expr(case.otherwise)}" if case.otherwise is not None else ""
    return f"CASE{whens}{otherwise} END"


def _exprs(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(print_expr(expr) for expr in exprs)


def _literal(literal: Literal) -> str:
    match literal.value:
        case None:
            return "NULL"
        case bool() as truth:
            return "TRUE" if truth else "FALSE"
        case str() as text:
            return "'" + text.replace("'", "''") + "'"
        case number:
            return _number(number)


def _number(value: int | Decimal) -> str:
    """A Decimal keeps its point, so that it is read as a Decimal again."""
    text = str(value)
    return f"{text}.0" if isinstance(value, Decimal) and text.lstrip("-").isdigit() else text


def print_duration(duration: Duration) -> str:
    amount = _number(duration.amount)
    return amount if duration.unit is None else f"{amount} {duration.unit}"


def _select_item(item: SelectItem, groups: Sequence[Expr] = ()) -> str:
    text = _grouping(item.expr) if item.expr in groups else print_expr(item.expr)
    return text if item.name is None else f"{text} AS {print_name(item.name)}"


# --- names -------------------------------------------------------------------------------------------------------


def print_name(name: str) -> str:
    return name if is_plain(name) else _quoted(name)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(print_name(name) for name in names)


def _word(name: str) -> str:
    """A name after a dot, where keywords need no back-quotes."""
    return name if PLAIN_NAME.fullmatch(name) else _quoted(name)


def _dotted(name: str) -> str:
    """A name whose parts may be joined by dots, such as the type SUPPLIER.WAREHOUSE."""
    return name if all(is_plain(part) for part in name.split(".")) else _quoted(name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def print_select(items: tuple[SelectItem, ...]) -> str:
    """`SELECT` with its columns."""
    return f"SELECT {', '.join(map(_select_item, items))}"
