"""A definition of intervals into text: the canonical spelling, one clause per line, so that `parse(print(d)) == d`."""

from __future__ import annotations

from tocsin.lang.derived_syntax import Intervals, Reading
from tocsin.lang.printer import print_duration, print_expr, print_name, print_select, print_type


def print_intervals(given: Intervals) -> str:
    """The whole definition."""
    lines = [f"INTERVALS {print_name(given.name)}{' HIDDEN' if given.hidden else ''}"]
    lines.append(f"FROM {_readings(given.readings)}")
    if given.ends:
        lines.append(f"TO {_readings(given.ends)}")
    if given.by:
        lines.append(f"BY {', '.join(map(print_name, given.by))}")
    if given.states:
        states = ", ".join(f"{print_name(each.label)} WHEN {print_expr(each.when)}" for each in given.states)
        lines.append(f"AS {states}")
    if given.gap is not None:
        lines.append(f"SESSION GAP {print_duration(given.gap)}")
    if given.end_last:
        lines.append("END LAST")
    if given.max_gap is not None:
        lines.append(f"MAX GAP {print_duration(given.max_gap)}")
    if given.policy != "nested":
        lines.append(given.policy.upper())
    if given.select:
        lines.append(print_select(given.select))
    return "\n".join(lines)


def _readings(readings: tuple[Reading, ...]) -> str:
    return ", ".join(
        print_type(each.type) + ("" if each.where is None else f" : {print_expr(each.where)}") for each in readings
    )
