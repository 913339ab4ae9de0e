"""Items that may be absent, as the oracle reads them: each SEQ with one becomes an OR (docs/semantics.md, 6).

`B? b` is the OR with b, and with `!B b`. `B* b` and `B{0,m} b` are the same with a repetition, except that events
which the match holds elsewhere are no members of it. MAYBE is the OR with the item and without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tocsin.lang.syntax import (
    Binary,
    Expr,
    Leaf,
    Marked,
    Maybe,
    Not,
    Pattern,
    Repeat,
    Seq,
    conjuncts,
    items_of,
    leaves_of,
    may_be_absent,
)
from tocsin.testing.oracle_expr import UndefinedError, bare_variables, stepped_variables


@dataclass(frozen=True, slots=True)
class NoEvent(Not):
    """Where `B? b` or `B* b` is absent: no event qualifies for it."""

    is_set: bool = False
    run: Marked | None = None  # the NEXT before a set that would begin next to its left neighbour

    @property
    def leaf(self) -> Leaf:
        assert isinstance(self.pattern, Leaf)
        return self.pattern


def there(item: Pattern) -> Pattern:
    """An item that may be absent, where it is not."""
    match item:
        case Marked(_, inner):
            return replace(item, pattern=there(inner))
        case Leaf(repeat=Repeat(_, most)):
            return replace(item, repeat=Repeat(1, most))
        case Leaf():
            return replace(item, optional=False)
    assert isinstance(item, Maybe)
    return item.pattern


def gone(item: Pattern, behind: bool) -> tuple[Pattern, ...]:
    """What stands in the SEQ where an item is absent; `behind`: something positive stands to its left."""
    if isinstance(item, Maybe):
        return ()
    (leaf,) = leaves_of(item)
    if leaf.repeat is None:
        return (NoEvent(replace(leaf, optional=False)),)
    asked: Expr | None = None  # what decides about members; the rest is asked of a set that is there
    for expr in conjuncts(leaf.where):
        if leaf.var in bare_variables(expr) and not stepped_variables(expr):
            asked = expr if asked is None else Binary("AND", asked, expr)
    run = item if behind and isinstance(item, Marked) and item.is_strict else None
    return (NoEvent(replace(leaf, repeat=None, where=asked), is_set=True, run=run),)


def check_optional(pattern: Pattern, host: Pattern | None = None) -> None:
    """They stand directly in a SEQ that has another positive item."""
    inner = pattern.pattern if isinstance(pattern, Marked) else pattern
    if may_be_absent(inner) and not isinstance(host, Seq):
        raise UndefinedError("what may be absent stands directly in SEQ only")
    if isinstance(inner, Maybe) and isinstance(inner.pattern, (Not, Maybe)):
        raise UndefinedError("MAYBE stands before one positive item")
    if isinstance(pattern, Seq):
        positive = [item for item in pattern.items if not isinstance(item, Not)]
        if positive and all(may_be_absent(item) for item in positive):
            raise UndefinedError("SEQ needs an item that must come")
    if isinstance(pattern, Marked):
        pattern = pattern.pattern
    for item in items_of(pattern):
        check_optional(item, pattern)
