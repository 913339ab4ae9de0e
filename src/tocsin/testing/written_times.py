"""Times as histories write them: ticks, times of day and dates, or lengths of time.

    9                      a tick; under `time-unit min` the ninth minute
    09:00, 09:00:30.5      a time of day (of the day 1970-01-01)
    2026-03-01T09:00       a date with a time; also 2026-03-01, ...Z, ...+01:00 (times are UTC)
    90s, 1h30min, -5min    a length of time since the beginning

A history is written in ticks or in times, not in both. Times are microseconds, as everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tocsin.errors import InputError
from tocsin.lang.syntax import UNITS

_SECONDS = r"(?::\d\d(?:\.\d{1,6})?)?"
_CLOCK = rf"\d\d?:\d\d{_SECONDS}"
_DATE = rf"\d{{4}}-\d\d-\d\d(?:T\d\d:\d\d{_SECONDS}(?:Z|[+-]\d\d:\d\d)?)?"
_LENGTH = r"-?(?:\d+(?:\.\d+)?(?:us|ms|min|s|h|d))+"
_PLAIN = r"-?\d+"
TIME = rf"(?:{_DATE}|{_CLOCK}|{_LENGTH}|{_PLAIN})"
STARTS = r"(?=[-\d\[])"  # what a time or an interval begins with

BEGINNING_OF_DAYS = datetime(1970, 1, 1, tzinfo=UTC)
DAY = UNITS["d"]
TICKS_UNIT, ANY_UNIT = None, 0


@dataclass(frozen=True, slots=True)
class WrittenTimes:
    """How a history writes its times.

    unit  microseconds of a plain number; TICKS_UNIT: plain numbers are ticks, and nothing else is a time;
          ANY_UNIT: times have their own units, and plain numbers say nothing
    """

    unit: int | None = TICKS_UNIT

    @property
    def are_ticks(self) -> bool:
        return self.unit is TICKS_UNIT

    def read(self, word: str) -> int:
        """The ticks or microseconds of a time.

        >>> WrittenTimes().read("9"), WrittenTimes(ANY_UNIT).read("00:01"), WrittenTimes(UNITS["s"]).read("2")
        (9, 60000000, 2000000)
        """
        if re.fullmatch(_PLAIN, word):
            if self.unit == ANY_UNIT:
                raise InputError(f"{word} is a plain number among times", hint="say `time-unit s`, or write 5min")
            return int(word) * (self.unit or 1)
        if self.are_ticks:
            raise InputError(f"{word} is a time among ticks", hint="write all times of a history alike")
        if re.fullmatch(_LENGTH, word):
            return _length(word)
        return _instant(word)

    def write(self, ticks: int) -> str:
        """A time in its shortest spelling.

        >>> WrittenTimes(ANY_UNIT).write(9 * UNITS["h"]), WrittenTimes(UNITS["min"]).write(UNITS["h"])
        ('09:00', '60')
        """
        if self.are_ticks:
            return str(ticks)
        if self.unit and ticks % self.unit == 0:
            return str(ticks // self.unit)
        moment = BEGINNING_OF_DAYS + timedelta(microseconds=ticks)
        clock = moment.strftime("%H:%M:%S.%f")
        clock = clock.rstrip("0") if moment.microsecond else clock[:8] if moment.second else clock[:5]
        return clock if 0 <= ticks < DAY else f"{moment.date().isoformat()}T{clock}"


TICKS = WrittenTimes()


def written_times(words: list[str], unit: str | None) -> WrittenTimes:
    """How these times are written, given the `time-unit` if there is one."""
    if unit is not None:
        if unit not in UNITS:
            raise InputError(f"{unit} is no unit of time", hint=f"one of {', '.join(UNITS)}")
        return WrittenTimes(UNITS[unit])
    return TICKS if all(re.fullmatch(_PLAIN, word) for word in words) else WrittenTimes(ANY_UNIT)


def _length(word: str) -> int:
    """Microseconds of a length of time such as 1h30min."""
    pieces = re.findall(r"(\d+(?:\.\d+)?)(us|ms|min|s|h|d)", word)
    total = sum(Decimal(amount) * UNITS[unit] for amount, unit in pieces)
    if total != int(total):
        raise InputError(f"{word} is finer than a microsecond", hint="times are whole microseconds")
    return -int(total) if word.startswith("-") else int(total)


def _instant(word: str) -> int:
    """Microseconds of a time of day or of a date."""
    clock = word if word[1] != ":" else f"0{word}"
    try:
        moment = datetime.fromisoformat(word if "-" in word else f"1970-01-01T{clock}")
    except ValueError as error:
        raise InputError(f"{word} is no time", detail=str(error), hint="09:00, 2026-03-01T09:00, 90s") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - BEGINNING_OF_DAYS) // timedelta(microseconds=1)
