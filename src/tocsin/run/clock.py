"""The clock of a live stream: what time it is there, and how long an event may take to arrive.

Where nothing happens, no event moves the time of a stream on, and an absence is never certain. A clock can: an event
that ended longer ago than it takes to arrive does not come any more. What a clock says becomes a guarantee in the
stream, saved with its state; so answers depend on what was recorded and never on when somebody looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tocsin.errors import InputError, TocsinError
from tocsin.lang.syntax import UNITS
from tocsin.order.strategy import delay
from tocsin.schema import Schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is in a stream, and how long after its end an event may still arrive.

    delay  the longest way of an event: "30 s", or a number of ticks
    now    a function that says what time it is: a datetime (without zone: as the times of the events are), or ticks.
           On Spark a streaming DataFrame with one column that says so. None: the wall clock
    """

    delay: str | int
    now: Any = None

    def delay_in(self, schema: Schema) -> int:
        """The delay in ticks of a stream."""
        return delay(str(self.delay), schema)

    def expected_from(self, schema: Schema) -> int:
        """Read the clock: every event that ends at or before this has arrived, in ticks of a stream."""
        moment = datetime.now(UTC) if self.now is None else self.now()
        return in_ticks(moment, schema.unit) - self.delay_in(schema)

    def check(self, schema: Schema, late: int | None) -> None:
        """Refuse a clock that has no meaning for the ticks of a stream, or allows less than its order (`late`) does."""
        if schema.unit is None and self.now is None:
            raise InputError(
                "the wall clock says nothing about ticks whose length is not known",
                detail="the times of the events are whole numbers",
                hint='say time_unit="s" (--time-unit s) if they count from 1970 on; '
                "else Clock(delay, now=...), which says the tick that it is",
            )
        if late is not None and self.delay_in(schema) < late:
            raise TocsinError(
                f"clock={self.delay!r} is less than the delay that the order allows",
                detail="an event that the order still takes would be late by the clock",
                hint="let the clock wait as long as the order does, or longer",
            )


def as_clock(given: str | int | Clock | None) -> Clock | None:
    """A clock as people write it: with its delay alone it is the wall clock."""
    clock = given if given is None or isinstance(given, Clock) else Clock(given)
    if clock is not None:
        clock.delay_in(Schema(unit="us"))  # what is no length of time is told before any event comes
    return clock


def in_ticks(moment: object, unit: str | None) -> int:
    """A moment in ticks since 1970; whole numbers are ticks already.

    >>> in_ticks(datetime(1970, 1, 2), "h")
    24
    """
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    if not isinstance(moment, datetime) or unit is None:
        raise InputError(
            f"the clock says {moment!r}, which is no time of this stream",
            hint="it must give a datetime, or ticks as a whole number where the length of a tick is not known",
        )
    since = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - EPOCH
    return since // timedelta(microseconds=UNITS[unit])
