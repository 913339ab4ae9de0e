"""Time patterns of At, `yyyy/mm/dd/hh:mm:ss.mmm` with `*` for any: when the next time comes that fits. UTC."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400_000  # milliseconds
LONGEST = 366 * 8 + 31  # days until a date that comes at all comes again: the 29th of February around 1900


def next_time(pattern: str, after: int, tick: int) -> int | None:
    """The first tick after a tick that fits a pattern; `tick` is its length in microseconds. None: there is none.

    >>> next_time("1970/01/**/12:00:00.000", 0, 1_000_000)
    43200
    """
    date, clock = pattern.rsplit("/", 1)
    moment = after * tick // 1000
    day, last = moment // DAY, LONGEST
    year = date[:4]
    if year != "****":
        day = max(day, (datetime(int(year), 1, 1, tzinfo=UTC) - EPOCH).days)
        last = 366
    for each in range(day, day + last + 1):
        try:
            here = EPOCH + timedelta(days=each)
        except OverflowError:
            return None
        if _fits(date, f"{here:%Y/%m/%d}") and (found := _in_day(clock, each * DAY, after, tick)) is not None:
            return found
    return None


def _in_day(clock: str, begin: int, after: int, tick: int) -> int | None:
    hours, minutes, rest = clock.split(":")
    seconds, millis = rest.split(".")
    for hour in _choices(hours, 24):
        if (begin + (hour + 1) * 3_600_000) * 1000 <= after * tick:
            continue
        for minute in _choices(minutes, 60):
            if (begin + hour * 3_600_000 + (minute + 1) * 60_000) * 1000 <= after * tick:
                continue
            for second in _choices(seconds, 60):
                for milli in _choices(millis, 1000):
                    at = (begin + hour * 3_600_000 + minute * 60_000 + second * 1000 + milli) * 1000
                    if at > after * tick and at % tick == 0:
                        return at // tick
    return None


def _choices(field: str, most: int) -> Iterator[int]:
    return iter(range(most)) if "*" in field else iter((int(field),))


def _fits(pattern: str, text: str) -> bool:
    return all(one in ("*", other) for one, other in zip(pattern, text, strict=True))
