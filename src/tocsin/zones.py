"""Named time zones: what a clock on the wall shows at a point in time, summer time included.

Points in time are microseconds since 1970 in UTC; those on the wall have the same form. The rules of the zones are
those of this machine, or of the package tzdata where it has none.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from tocsin.errors import TocsinError

MICROSECOND = timedelta(microseconds=1)
HOUR = 3_600_000_000
FIRST, LAST = (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999))  # noqa: DTZ001  what datetime can say
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
LOWEST, HIGHEST = ((edge - EPOCH) // MICROSECOND for edge in (FIRST, LAST))


class ZoneError(TocsinError):
    """A name that no time zone has."""


@lru_cache(maxsize=64)
def zone_named(name: str) -> ZoneInfo:
    """The zone of a name such as Europe/Berlin. Raises ZoneError with the name that was probably meant.

    >>> zone_named("Europe/Berlin")
    zoneinfo.ZoneInfo(key='Europe/Berlin')
    """
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise _unknown(name) from None


def _unknown(name: str) -> ZoneError:
    known = {zone.lower(): zone for zone in sorted(available_timezones(), reverse=True)}
    if not known:
        return ZoneError("this machine knows no time zones", hint="pip install tzdata")
    cities = {zone.rpartition("/")[2]: zone for zone in known}
    wanted = name.lower().replace(" ", "_")
    close = get_close_matches(wanted, known, n=1, cutoff=0.7) or get_close_matches(wanted, cities, n=1, cutoff=0.8)
    hint = f"did you mean {known[cities.get(close[0], close[0])]}?" if close else "such as Europe/Berlin, or UTC"
    return ZoneError(f"there is no time zone {name!r}", hint=hint)


def on_the_wall(time: int, zone: str) -> int | None:
    """What the clocks of a zone show at a point in time; null outside of the years 1 to 9999.

    >>> on_the_wall(0, "Europe/Berlin") // HOUR
    1
    """
    if not LOWEST <= time <= HIGHEST:
        return None
    ahead = _ahead(time // 1_000_000, zone)
    return time + ahead if ahead is not None and LOWEST <= time + ahead <= HIGHEST else None


@lru_cache(maxsize=4096)
def _ahead(second: int, zone: str) -> int | None:
    """How many microseconds a zone is ahead of UTC in a second; its clocks are set only between seconds."""
    rules = zone_named(zone)
    moment = (EPOCH + timedelta(seconds=second)).replace(tzinfo=rules)
    try:
        shown = rules.fromutc(moment)
    except OverflowError:
        return None
    return (shown.replace(tzinfo=None) - moment.replace(tzinfo=None)) // MICROSECOND


def all_on_the_wall(times: np.ndarray[Any, Any], zone: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """`on_the_wall` of many points in time: the numbers, and which of them are not null.

    Each hour that occurs is asked at both of its ends; no zone sets its clocks twice within an hour, so only one whose
    ends differ is asked second by second.
    """
    shown, known = np.zeros(len(times), np.int64), np.zeros(len(times), np.bool_)
    hours, which = np.unique(times // HOUR, return_inverse=True)
    rows = np.argsort(which, kind="stable")
    bounds = np.append(np.searchsorted(which[rows], np.arange(len(hours))), len(rows))
    for hour, low, high in zip(hours.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        own = rows[low:high]
        ends = on_the_wall(hour * HOUR, zone), on_the_wall((hour + 1) * HOUR - 1, zone)
        if ends[0] is not None and ends[1] is not None and ends[1] - ends[0] == HOUR - 1:
            shown[own], known[own] = times[own] + (ends[0] - hour * HOUR), True
            continue
        for row in own.tolist():
            value = on_the_wall(int(times[row]), zone)
            shown[row], known[row] = (0, False) if value is None else (value, True)
    return shown, known
