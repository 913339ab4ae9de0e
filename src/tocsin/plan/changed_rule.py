"""A changed rule: which query of the old text it was, and what it would need that was not kept for the old one.

A query keeps the events that its own answers can still need: of its types, that pass its conditions, as far back as its
window reaches, by its key. A changed one can go on with them if it needs no others: tighter conditions, a narrower
window, another SELECT. Whatever it needs beyond that is named here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from tocsin.plan.block import Alt, Block, Leaf, Plan
from tocsin.plan.durations import as_duration
from tocsin.plan.explain import condition
from tocsin.plan.expr import Agg, Bound, Col, Lit, Op, Ref, Time, User, walk
from tocsin.plan.facts import horizon, types_of
from tocsin.plan.rewrite import all_leaves, blocks_below, equality, leaf_of
from tocsin.schema import Kind

NUMBERS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.TIME)
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
Interval = tuple[
    Fraction | None, bool, Fraction | None, bool
]  # from, whether that belongs to it, to, whether that does


def predecessors(old: Sequence[Plan], new: Sequence[Plan]) -> dict[int, int]:
    """For each new query that was there before, by number, the number of the old one.

    A name is a name. Queries without one are the same where their text is (but for SELECT), or else their place among
    those that are left.
    """
    names = {plan.name: number for number, plan in enumerate(old) if plan.name}
    found = {number: names[plan.name] for number, plan in enumerate(new) if plan.name in names}
    before = [number for number, plan in enumerate(old) if not plan.name]
    for number, plan in enumerate(new):
        same = next((at for at in before if not plan.name and old[at].identity == plan.identity), None)
        if same is not None:
            found[number] = same
            before.remove(same)
    others = [number for number, plan in enumerate(new) if not plan.name and number not in found]
    found.update(zip(others, before, strict=False))
    return dict(sorted(found.items()))


def called(plan: Plan, number: int) -> str:
    """What messages call a query."""
    return f"query {plan.name!r}" if plan.name else f"query {number + 1}"


def other_key(old: Plan, new: Plan) -> str | None:
    """Why the key of a changed rule does not fit: events were kept apart by attributes that are not in its key.

    A key with more attributes fits, because it keeps apart what was kept apart before.
    """
    before, now = _key_by_type(old), _key_by_type(new)
    for type in before.keys() & now.keys():
        gone = before[type] - now[type]
        if gone:
            was, mine = ", ".join(sorted(gone)), ", ".join(sorted(now[type])) or "no attribute"
            return f"events of type {type} were kept apart by {was}, and the changed rule keeps them apart by {mine}"
    return None


def _key_by_type(plan: Plan) -> dict[str, frozenset[str]]:
    """The attributes of the key by which all leaves of a type are kept apart."""
    key = dict(plan.key)
    found: dict[str, frozenset[str]] = {}
    for leaf in all_leaves(plan):
        mine = frozenset(key.get(leaf.id, ()))
        for alt in leaf.alts:
            found[alt.type] = found.get(alt.type, mine) & mine
    return found


def losses(old: Plan, new: Plan, *, log: bool = False, ordered: bool = True) -> list[str]:
    """What a changed rule needs of the past that was not kept for the old one; nothing: it can go on with all it needs.

    log      events were kept as a log, whatever the pattern made of them; otherwise by a detector of the old plan
    ordered  a detector that took events in order, and kept only those that conditions between two events let pass
    """
    found = [*_lost_window(old, new), *_lost_types(old, new)]
    if log:
        return found + list(_lost_rows(old, new))
    if [_shape(block) for block in old.alternatives] != [_shape(block) for block in new.alternatives]:
        return [*found, "events that the old pattern had no use for: they were not kept, and it is another one now"]
    pairs = zip(old.alternatives, new.alternatives, strict=True)
    told = [text for each in pairs for text in _lost_conditions(old, new, *each, ordered=ordered)]
    return found + list(dict.fromkeys(told))


# --- windows and types -----------------------------------------------------------------------------------------------


def _lost_window(old: Plan, new: Plan) -> Iterator[str]:
    before, now = horizon(old), horizon(new)
    if before is not None and (now is None or now > before):
        back = as_duration(before, old.schema.unit)
        needed = "all of them are needed" if now is None else f"they are needed for {as_duration(now, new.schema.unit)}"
        yield f"events that lie more than {back} back: they were not kept, and {needed} now"


def _lost_types(old: Plan, new: Plan) -> Iterator[str]:
    for type in types_of(new):
        if type not in types_of(old):
            which = f"type {type}" if type else "every type"
            yield f"events of {which} from before the change: the old rule did not read them"


# --- conditions ------------------------------------------------------------------------------------------------------


def _lost_rows(old: Plan, new: Plan) -> Iterator[str]:
    """Rows that no leaf of the old rule took, and one of the new rule takes: judged by conditions on one event."""
    for alt in (alt for leaf in all_leaves(new) for alt in leaf.alts):
        before = [each.where for leaf in all_leaves(old) for each in leaf.alts if each.type == alt.type]
        mine = _by_themselves(alt.where)
        if before and not any(all(_implied(test, mine) for test in _by_themselves(tests)) for tests in before):
            told = " or ".join(" and ".join(condition(old, test) for test in tests) for tests in before)
            yield f"events {alt.type or 'ANY'} {alt.var} from before the change for which this was not true: {told}"


def _by_themselves(tests: Iterable[Bound]) -> list[Bound]:
    """The conditions of a leaf, as if it were the only one: comparable with those of another leaf."""
    return [_anonymous(test, everywhere=True) for test in tests]


def _lost_conditions(old: Plan, new: Plan, before: Block, now: Block, *, ordered: bool) -> Iterator[str]:
    """Conditions of the old rule that the new one does not ask: what failed them was not kept."""
    for was, block in zip(blocks_below(before), blocks_below(now), strict=True):
        for old_leaf, leaf in zip(was.leaves, block.leaves, strict=True):
            for old_alt, alt in zip(old_leaf.alts, leaf.alts, strict=True):
                mine = [_anonymous(test) for test in alt.where]
                for test in old_alt.where:
                    if not _implied(_anonymous(test), mine):
                        said = condition(old, test)
                        yield f"events {alt.type} {alt.var} for which {said} was not true: they were not kept"
        mine = [_anonymous(test) for test in block.predicates]
        for test in was.predicates if ordered else ():
            if not _of_a_set(test) and not _implied(_anonymous(test), mine) and not _by_key(test, new):
                yield f"events that met no other one for which {condition(old, test)} was true: they may not be kept"


def _of_a_set(test: Bound) -> bool:
    """Whether a condition is asked of a finished set: it does not decide what is kept."""
    return any(isinstance(node, Agg) for node in walk(test))


def _by_key(test: Bound, plan: Plan) -> bool:
    """Whether the key of a plan says that these two attributes are equal."""
    sides = equality(test)
    if sides is None:
        return False
    key = dict(plan.key)
    left, right = (key.get(leaf_of(side), ()) for side in sides)
    attrs = [next(node.attr for node in walk(side) if isinstance(node, Col)) for side in sides]
    return (attrs[0], attrs[1]) in zip(left, right, strict=False)


def _implied(test: Bound, by: Iterable[Bound]) -> bool:
    return any(implies(each, test) for each in by)


def implies(stronger: Bound, weaker: Bound) -> bool:
    """Whether one condition can be TRUE only where the other is; False also where that cannot be seen."""
    if stronger == weaker:
        return True
    if isinstance(stronger, Op) and stronger.op == "or":
        return all(implies(each, weaker) for each in stronger.args)
    if isinstance(weaker, Op) and weaker.op == "and":
        return all(implies(stronger, each) for each in weaker.args)
    if isinstance(weaker, Op) and weaker.op == "or":
        return any(implies(stronger, each) for each in weaker.args)
    if isinstance(stronger, Op) and stronger.op == "and":
        return any(implies(each, weaker) for each in stronger.args)
    inner, outer = _interval(stronger), _interval(weaker)
    return inner is not None and outer is not None and inner[0] == outer[0] and _inside(inner[1], outer[1])


def _interval(test: Bound) -> tuple[Bound, Interval] | None:
    """What a comparison with a number bounds, and how; None for any other condition."""
    if not isinstance(test, Op) or test.op not in MIRRORED:
        return None
    left, right = test.args
    op = test.op
    if isinstance(left, Lit):
        left, right, op = right, left, MIRRORED[op]
    if not isinstance(right, Lit) or right.kind not in NUMBERS or isinstance(left, Lit):
        return None
    if isinstance(right.value, (str, bool)) or right.value is None or right.value in (INFINITY, -INFINITY):
        return None
    if right.value != right.value:  # NaN
        return None
    value = Fraction(right.value) / 10**right.scale
    low = value if op in (">", ">=", "=") else None
    high = value if op in ("<", "<=", "=") else None
    return left, (low, op != ">", high, op != "<")


INFINITY = float("inf")


def _inside(inner: Interval, outer: Interval) -> bool:
    low, low_in, high, high_in = inner
    from_, from_in, to, to_in = outer
    above = from_ is None or (low is not None and (low > from_ or (low == from_ and (from_in or not low_in))))
    below = to is None or (high is not None and (high < to or (high == to and (to_in or not high_in))))
    return above and below


# --- comparing plans that differ in names --------------------------------------------------------------------------


def _shape(block: Block) -> Block:
    """A block without its conditions, the names of its variables, its loops and the bounds of its repetitions."""
    inner = tuple(replace(each, block=_shape(each.block)) for each in block.forbidden)
    plain = tuple(
        Leaf(
            leaf.id,
            tuple(Alt(alt.type, "") for alt in leaf.alts),
            leaf.repeat if leaf.taking else leaf.repeat and replace(leaf.repeat, least=1, most=None),
            leaf.taking,
        )
        for leaf in block.leaves
    )
    return Block(plain, block.order, (), inner, block.scopes, missing=block.missing)


def _anonymous(expr: Bound, *, everywhere: bool = False) -> Bound:
    """An expression without the names of variables; `everywhere`: without their places, too."""
    match expr:
        case Col() | Ref():
            return replace(expr, var="", nullable=True, leaf=0 if everywhere else expr.leaf)
        case Time():
            return replace(expr, var=None, nullable=True, leaf=0 if everywhere else expr.leaf)
        case Op() | User():
            inner = tuple(_anonymous(arg, everywhere=everywhere) for arg in expr.args)
            return replace(expr, args=inner, nullable=True)
        case Agg():
            arg = None if expr.arg is None else _anonymous(expr.arg, everywhere=everywhere)
            return replace(expr, arg=arg, nullable=True)
    return expr
