"""Small readings of blocks, and small pieces of source text."""

from __future__ import annotations

from tocsin.plan.block import After, Before, Block, LastEnd, Scope, WindowHigh


def arrays(names: str) -> str:
    return ", ".join(f"array_{name}" for name in names.split(", "))


def plus(code: str, number: int) -> str:
    return code if number == 0 else f"{code} {'+' if number > 0 else '-'} {abs(number)}"


def least(codes: list[str]) -> str:
    return codes[0] if len(codes) == 1 else f"min({', '.join(codes)})"


def most(codes: list[str]) -> str:
    return codes[0] if len(codes) == 1 else f"max({', '.join(codes)})"


def reaches_ahead(scope: Scope) -> bool:
    """A scope that is not closed when the last event of the match has come."""
    return isinstance(scope.high, WindowHigh | LastEnd)


def scope_leaves(scope: Scope) -> set[int]:
    return {leaf for end in (scope.low, scope.high) if isinstance(end, After | Before) for leaf in end.leaves}


def is_terminal(block: Block, leaf: int) -> bool:
    """Whether the leaf can hold the event that arrives last: nothing must end or start strictly after its end."""
    return not any(
        order.strict and (order.left.leaf, order.left.which) == (leaf, "end") and order.right.leaf != leaf
        for order in block.order
    )


def strictly_ordered(block: Block, *, before: bool = False) -> set[tuple[int, int]]:
    """Pairs of leaves kept apart by a strict order; with `before`, pairs where one ends before the other starts."""
    points = [(leaf.id, which) for leaf in block.fixed for which in ("start", "end")]
    reach: dict[tuple[tuple[int, str], tuple[int, str]], bool] = {}
    for leaf in block.fixed:
        reach[(leaf.id, "start"), (leaf.id, "end")] = False
    for order in block.order:
        pair = (order.left.leaf, order.left.which), (order.right.leaf, order.right.which)
        reach[pair] = reach.get(pair, False) or order.strict
    for middle in points:
        for left in points:
            for right in points:
                if (left, middle) in reach and (middle, right) in reach:
                    strict = reach[left, middle] or reach[middle, right]
                    reach[left, right] = reach.get((left, right), False) or strict
    kinds = {("end", "start")} if before else {("end", "start"), ("start", "start"), ("end", "end")}
    return {(a[0], b[0]) for (a, b), strict in reach.items() if strict and a[0] != b[0] and (a[1], b[1]) in kinds}


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
