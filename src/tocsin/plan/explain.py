"""A plan as text that a person can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tocsin.plan.after_match import CountClauses
from tocsin.plan.block import (
    After,
    Alt,
    Before,
    Block,
    Enclosing,
    End,
    Forbidden,
    From,
    LastEnd,
    Lasting,
    Leading,
    Leaf,
    Order,
    Plan,
    Point,
    Scope,
    Until,
    WindowHigh,
    WindowLow,
)
from tocsin.plan.consumption import described
from tocsin.plan.durations import as_duration
from tocsin.plan.expr import Agg, Bound, Col, Lit, Op, Reach, Ref, Time, User, leaves
from tocsin.plan.facts import horizon, memory, reads, terminal_types, waits
from tocsin.plan.kinds import as_written
from tocsin.plan.network import network
from tocsin.plan.prefix_chain import prefix_chain
from tocsin.plan.rewrite import all_leaves, with_groups_in_order
from tocsin.schema import TYPE, Kind


class Timed(Protocol):
    """What `optimize` says of a pass."""

    @property
    def name(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def changed(self) -> bool: ...


def explain(plan: Plan, *, before: Plan | None = None, timings: Sequence[Timed] = ()) -> str:
    """What a plan does, step by step; `before`: first the plan as it was bound; `timings`: what the passes took."""
    text = "\n".join([*_Text(plan).lines(), *map(_timed, timings)])
    if before is None:
        return text
    first = "\n".join(_Text(before).lines())
    return f"as bound\n{_indented(first)}\n\nafter the passes\n{_indented(text)}"


def _timed(step: Timed) -> str:
    return f"pass      {step.name} {1000 * step.seconds:.2f} ms" + ("" if step.changed else ", changed nothing")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _taking(leaf: Leaf) -> str:
    """Which of the qualifying events a repetition with a mark takes."""
    if leaf.taking is None or leaf.repeat is None:
        return ""
    if leaf.taking.last is not None:
        return ", a prefix"
    return "" if leaf.repeat.most is None else f", the {leaf.taking.cut} {leaf.repeat.most}"


class _Text:
    """Knows what each leaf is called."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = {leaf.id: "|".join(alt.var for alt in leaf.alts) for leaf in all_leaves(plan)}

    def lines(self) -> Iterator[str]:
        plan = self.plan
        called = f"query {plan.name}" if plan.name else plan.title or "query"
        yield f"{called} (hidden: only later queries read its matches)" if plan.hidden else called
        for number, block in enumerate(plan.alternatives, 1):
            if len(plan.alternatives) > 1:
                late = "" if block.missing is None else f": rows of kind timeout, when {block.missing} does not come"
                yield f"alternative {number} of {len(plan.alternatives)}{late}"
            yield from self._block(block, "  ")
        if plan.key:
            yield "key"
            for leaf, attrs in plan.key:
                yield f"  {', '.join(f'{self.names[leaf]}.{attr}' for attr in attrs)}"
        yield "window    " + ("none" if plan.within is None else self._long(plan.within))
        reach = horizon(plan)
        yield f"memory    {memory(plan)}" + ("" if not reach else f" (an event matters for {self._long(reach)})")
        yield f"ends with {', '.join(map(_type, terminal_types(plan)))}" + (
            "; answers wait for their window to pass" if waits(plan) else ""
        )
        yield "reads     " + "; ".join(
            f"{_type(type)}({', '.join(sorted(attrs))})" if attrs else _type(type)
            for type, attrs in reads(plan).items()
        )
        for output in () if plan.counts is not None else plan.outputs:
            (shown,) = output.expr.args[:1] if output.moment and isinstance(output.expr, Op) else (output.expr,)
            yield f"select    {_expr(shown, {i: v.name for i, v in enumerate(plan.variables)})} AS {output.name}"
        if plan.consume is not None:
            yield from described(plan.consume)
        yield from _after(plan)
        hidden = [variable.name for variable in plan.variables if variable.hidden]
        if hidden:
            yield f"hidden    {', '.join(hidden)}"
        for note in plan.notes:
            yield f"note      {note}"

    def _long(self, ticks: int) -> str:
        return as_duration(ticks, self.plan.schema.unit)

    def _by(self, ticks: int) -> str:
        """A length beside a point in time: plain ticks are a plain number."""
        return self._long(ticks).removesuffix(" ticks").removesuffix(" tick")

    # --- blocks ---------------------------------------------------------------------------------------------------

    def _block(self, block: Block, pad: str) -> Iterator[str]:
        block = with_groups_in_order(block)
        scopes = dict(block.scopes)
        for leaf in block.leaves:
            where = f" in {self._scope(scopes[leaf.id])}" if leaf.id in scopes else ""
            yield f"{pad}leaf      {self._leaf(leaf)}{where}"
        for order in block.order:
            yield f"{pad}order     {self._order(order)}"
        for number, line in enumerate(self._network(block)):
            yield f"{pad}{'' if number else 'network':<10}{line}"
        for predicate in block.predicates:
            yield f"{pad}test      {_expr(predicate, self.names)}{self._tested(block, predicate)}"
        if len(block.nest) > 1:
            yield f"{pad}loops     {' > '.join(self.names[leaf] for leaf in block.nest)}"
        for forbidden in block.forbidden:
            yield f"{pad}{self._forbids(forbidden)} {self._scope(forbidden.scope)}"
            yield from self._block(forbidden.block, pad + "  ")

    def _network(self, block: Block) -> Iterator[str]:
        """The order as a drawing, where it is more than a sequence."""
        return network(block.order, [leaf.id for leaf in block.fixed], self.names.__getitem__)

    def _forbids(self, part: Forbidden) -> str:
        if part.breaks is not None:
            return f"ends the run {self.names[part.breaks]} in"
        if part.gathers is not None:
            most = "" if part.gathers.most is None else str(part.gathers.most)
            few = ", the first of them," if part.gathers.cut else ""
            return f"{{{part.gathers.least},{most}}} one behind the other{few} in"
        return "forbidden in" if part.ends is None else f"ends {self.names[part.ends]} in"

    def _leaf(self, leaf: Leaf) -> str:
        return " | ".join(self._alt(alt, leaf) for alt in leaf.alts) + _taking(leaf)

    def _alt(self, alt: Alt, leaf: Leaf) -> str:
        many = ""
        if leaf.repeat is not None:
            most = "" if leaf.repeat.most is None else str(leaf.repeat.most)
            many = f"{{{leaf.repeat.least},{most}}}"
        where = f" where {' and '.join(_expr(test, self.names, 3) for test in alt.where)}" if alt.where else ""
        return f"{_type(alt.type)}{many} {alt.var}{where}"

    def _order(self, order: Order) -> str:
        return f"{self._point(order.left)} {'<' if order.strict else '<='} {self._point(order.right)}"

    def _point(self, point: Point) -> str:
        return f"{point.which}({self.names[point.leaf]})"

    def _tested(self, block: Block, predicate: Bound) -> str:
        """Where in the loops a predicate is asked."""
        if not block.early:
            return "  -- at the end"
        mentioned = leaves(predicate)
        sets = [leaf.id for leaf in block.repeated if leaf.id in mentioned]
        if sets:
            return f"  -- with the members of {self.names[sets[-1]]}"
        own = [leaf for leaf in block.nest if leaf in mentioned]
        return f"  -- when {self.names[own[-1]]} is bound" if own else "  -- first"

    # --- scopes ---------------------------------------------------------------------------------------------------

    def _scope(self, scope: Scope) -> str:
        left = "(" if isinstance(scope.low, After) and scope.low.by == 1 else "["
        right = ")" if isinstance(scope.high, Before | Lasting) else "]"
        return f"{left}{self._end(scope.low, 'low')}, {self._end(scope.high, 'high')}{right}"

    def _end(self, end: End, side: str) -> str:
        window = self.plan.within
        match end:
            case After(ids, by):
                return self._reach("end", ids) + ("" if by == 1 else f" + {by}")
            case Lasting(ids, by):
                return f"{self._reach('end', ids)} + {self._by(by + 1)}"
            case Leading(ids, by):
                return f"{self._reach('start', ids)} - {self._by(by)}"
            case Before(ids):
                return self._reach("start", ids)
            case Enclosing():
                return f"{side} end of the part"
            case WindowLow():
                return "beginning of the stream" if window is None else f"last end - {self._by(window)}"
            case WindowHigh():
                return "end of the stream" if window is None else f"first start + {self._by(window)}"
            case LastEnd():
                return "last end"
            case From(id) | Until(id):
                return self._reach("start" if side == "low" else "end", (id,))
        raise AssertionError(end)

    def _reach(self, which: str, ids: tuple[int, ...]) -> str:
        names = ", ".join(self.names[id] for id in ids)
        return f"{which}({names})" if len(ids) == 1 else f"{'last' if which == 'end' else 'first'} {which}({names})"


def _type(type: str) -> str:
    return type or "ANY"


def _after(plan: Plan) -> Iterator[str]:
    """The clauses that choose among matches, and within what."""
    after = plan.after
    if after is None:
        return
    if after.count is not None:
        yield from _counting(plan, after.count)
    if not (after.skip or after.distinct or after.limit):
        return
    key = f"for each {', '.join(after.attrs)}" if after.attrs else "over all matches, since the query has no key"
    for line in after.lines[: len(after.lines) - len(_counted(after.lines))]:
        limits = line.startswith("LIMIT")
        among = "over all matches, since there is no PER" if limits and not (after.limit and after.limit.per) else key
        yield f"after     {line}" + ("" if limits and after.limit and after.limit.per else f"  -- {among}")
    yield "          in order of completion; an answer waits until no match before it can come or go"


def _counted(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Of the clauses those that say what is counted."""
    first = next((at for at, line in enumerate(lines) if line.startswith(("SELECT", "GROUP", "EVERY"))), len(lines))
    return lines[first:]


def _counting(plan: Plan, count: CountClauses) -> Iterator[str]:
    """What is counted, and whether matches are found for that."""
    assert plan.after is not None
    among = "for each group" if count.by else "over all matches"
    yield f"counts    {' '.join(_counted(plan.after.lines))}  -- {among}"
    chain = prefix_chain(plan)
    if isinstance(chain, str):
        yield f"          one by one: {chain}"
    else:
        yield "          by a recurrence over prefixes, without finding a match; one by one where answers are corrected"


# --- expressions ------------------------------------------------------------------------------------------------

_PRECEDENCE = {"or": 1, "and": 2, "not": 3, **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "like", "same"), 4),
               "+": 6, "-": 6, "*": 7, "/": 7, "%": 7}  # fmt: skip


def condition(plan: Plan, expr: Bound) -> str:
    """A condition of a plan in the notation of queries."""
    return _expr(expr, _Text(plan).names)


def _expr(expr: Bound, names: dict[int, str], least: int = 0) -> str:
    """A bound expression in the notation of queries."""
    match expr:
        case Lit():
            return _literal(expr)
        case Col(_, var, attr, previous=previous):
            text = f"type({var})" if attr == TYPE else f"{var}.{attr}"
            return f"prev({text})" if previous else text
        case Time(leaf, which, var):
            return f"{which}({var or names[leaf]})"
        case Reach(ids, which):
            return f"{'last' if which == 'end' else 'first'} {which}({', '.join(names[id] for id in ids)})"
        case Ref(_, var):
            return var
        case Agg("steps", _, arg) if arg is not None:
            return _expr(arg, names, least)
        case Agg("[]", leaf, arg, place=place) if isinstance(arg, Col):
            return f"{names[leaf]}[{place}].{arg.attr}"
        case Agg("count distinct", _, arg) if arg is not None:
            return f"count(distinct {_expr(arg, names)})"
        case Agg(function, leaf, arg):
            return f"{function}({names[leaf] if arg is None else _expr(arg, names)})"
        case User(name, args):
            return f"{name}({', '.join(_expr(arg, names) for arg in args)})"
        case Op():
            text, strength = _operation(expr, names)
            return f"({text})" if strength < least else text
    raise AssertionError(expr)


def _operation(expr: Op, names: dict[int, str]) -> tuple[str, int]:
    expr = as_written(expr)
    op, args = expr.op, expr.args
    strength = _PRECEDENCE.get(op, 9)
    if op in ("and", "or"):
        return f" {op} ".join(_expr(arg, names, strength + 1) for arg in args), strength
    if op == "not" and isinstance(args[0], Op) and args[0].op == "same":
        return " <> ".join(_expr(arg, names) for arg in args[0].args), 4
    if op == "not":
        return f"not {_expr(args[0], names, strength)}", strength
    if op in _PRECEDENCE:
        sign = "=" if op == "same" else op
        return f" {sign} ".join(_expr(arg, names, strength + 1) for arg in args), strength
    if op == "is_null":
        return f"{_expr(args[0], names, 5)} is null", 4
    if op == "neg":
        return f"-{_expr(args[0], names, 8)}", 8
    if op == "rescale":  # how a value is stored, not what it is
        return _operation(args[0], names) if isinstance(args[0], Op) else (_expr(args[0], names), 9)
    return f"{op}({', '.join(_expr(arg, names) for arg in args)})", 9


def _literal(lit: Lit) -> str:
    if lit.value is None:
        return "null"
    if lit.kind is Kind.TEXT:
        return "'" + str(lit.value).replace("'", "''") + "'"
    if lit.kind is Kind.DECIMAL and lit.scale and isinstance(lit.value, int):
        digits = str(abs(lit.value)).rjust(lit.scale + 1, "0")
        return f"{'-' if lit.value < 0 else ''}{digits[: -lit.scale]}.{digits[-lit.scale :]}"
    return str(lit.value).lower() if lit.kind is Kind.BOOL else str(lit.value)
