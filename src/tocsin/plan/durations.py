"""Numbers of ticks as people write durations."""

from __future__ import annotations

from tocsin.lang.syntax import UNITS

SHOWN = ("d", "h", "min", "s", "ms", "us")


def as_duration(ticks: int, unit: str | None) -> str:
    """A number of ticks in units of time, exactly; in ticks where their length is not known.

    A stream without a declared unit counts microseconds as soon as it has timestamps. So a number of microseconds that
    is no whole number of milliseconds was meant as ticks.

    >>> as_duration(43_200_000_000, "us"), as_duration(90, "s"), as_duration(12, "us"), as_duration(12, None)
    ('12 h', '1 min 30 s', '12 ticks', '12 ticks')
    """
    if unit == "us" and ticks > 0 and not (ticks + 1) % 1_000_000:  # up to a duration, without its last tick
        return f"just under {as_duration(ticks + 1, unit)}"
    if unit is None or (unit == "us" and (ticks % 1000 or not ticks)):
        return f"{ticks} tick{'' if ticks == 1 else 's'}"
    if ticks < 0:
        return f"-{as_duration(-ticks, unit)}"
    rest, parts = ticks * int(UNITS[unit]), []
    for name in SHOWN:
        count, rest = divmod(rest, int(UNITS[name]))
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts) or f"0 {unit}"
