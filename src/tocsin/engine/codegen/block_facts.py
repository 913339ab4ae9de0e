"""What the generator asks of a block or a scope."""

from __future__ import annotations

from tocsin.lang.syntax import MEMBER
from tocsin.plan.block import Block, Forbidden, LastEnd, Lasting, Scope, Until, WindowHigh, leaves_of_scope
from tocsin.plan.expr import Agg


def reaches_ahead(scope: Scope) -> bool:
    """A scope that is not closed when the last event of the match has come."""
    ahead = isinstance(scope.high, Lasting) and scope.high.ahead
    return ahead or isinstance(scope.high, WindowHigh | LastEnd | Until)


def looks_back(agg: Agg) -> bool:
    """An aggregate that must find earlier members again: each stored event then has a word that says if it is one."""
    return agg.function == MEMBER and agg.place < 0


def scope_leaves(scope: Scope) -> set[int]:
    return leaves_of_scope(scope)


def is_terminal(block: Block, leaf: int) -> bool:
    """Whether the leaf can hold the event that arrives last: nothing must end or start strictly after its end."""
    return not any(
        order.strict and (order.left.leaf, order.left.which) == (leaf, "end") and order.right.leaf != leaf
        for order in block.order
    )


def earlier_first(block: Block) -> tuple[int, ...] | None:
    """The fixed leaves so that each comes after those it is ordered behind; None if they bound each other."""
    waiting = {
        leaf.id: {o.left.leaf for o in block.order if o.right.leaf == leaf.id} - {leaf.id} for leaf in block.fixed
    }
    done: list[int] = []
    while waiting:
        ready = next((id for id, before in waiting.items() if not before - set(done)), None)
        if ready is None:
            return None
        done.append(ready)
        del waiting[ready]
    return tuple(done)


def ending(block: Block, leaf: int) -> list[Forbidden]:
    """What ends the gap of a repeated leaf before its time (UNTIL)."""
    return [part for part in block.forbidden if part.ends == leaf]
