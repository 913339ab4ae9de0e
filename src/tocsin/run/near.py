"""What a query says of events that can matter to one match: their key, how far apart they end, the steps it needs."""

from __future__ import annotations

from tocsin.encode.near_rows import Near, NeededStep
from tocsin.events import ANY
from tocsin.graph.query_graph import QueryGraph
from tocsin.plan.facts import last_leaves, types_of
from tocsin.run.split import why_not
from tocsin.shards.routes import groups_of, units_of, way_of
from tocsin.shards.time_slices import margins, owns_what_it_sees


def near_of(graph: QueryGraph) -> Near | None:
    """What the one query of a graph says of events that can matter; None where some that are not near all steps may."""
    if len(graph.plans) != 1 or why_not(graph) is not None:
        return None
    [plan] = graph.plans
    around = margins(graph.plans)
    if around is None or len(plan.alternatives) != 1 or plan.under is not None or not owns_what_it_sees(plan):
        return None
    [block] = plan.alternatives
    back, ahead = around
    last = last_leaves(block) if not block.repeated and not block.groups else ()
    steps = [
        NeededStep(
            frozenset(alt.type for alt in leaf.alts), back + ahead, ahead if last == (leaf.id,) else back + ahead
        )
        for leaf in block.fixed
    ]
    steps = [step for step in steps if ANY not in step.types]
    ways = groups_of(units_of(graph.plans))[0].ways
    keys = {way.keys[0] for type in types_of(plan) if (way := way_of(ways, type)) is not None}
    if block.missing is not None or plan.has_timeouts or not steps or len(keys) != 1:
        return None
    return Near(keys.pop(), tuple(steps))
