"""What is asked, and of what: five statements of O'Keeffe 2010, and events for each, made of a seed.

Times are seconds, and every event has one of its own, but for wrong positions of cars: two at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Load:
    """A benchmark: the statements, of which the last is asked, and a table of so many events."""

    text: str
    events: Callable[[int, int], pa.Table]
    answers: str  # the name of the statement whose events are counted


def _table(types: list[str], codes: Ints, time: Ints, **attrs: Ints | tuple[Ints, npt.NDArray[np.bool_]]) -> pa.Table:
    """Events as a table; an attribute may come with the rows that have it."""
    columns: dict[str, pa.Array] = {"type": pa.array(np.array(types, object)[codes], pa.string()), "time": time}
    for name, given in attrs.items():
        values, there = given if isinstance(given, tuple) else (given, None)
        columns[name] = pa.array(values, mask=None if there is None else ~there)
    return pa.table(columns)


def _filled(random: np.random.Generator, places: Ints, most: int) -> npt.NDArray[np.bool_]:
    """For events at places, in order: whether each is a container. One comes after 1 to `most` others at its place."""
    order = np.argsort(places, kind="stable")
    cycles = random.integers(1, most + 1, len(places) + 1)
    closes = np.zeros(len(places), np.bool_)
    at = np.cumsum(cycles + 1) - 1
    closes[at[at < len(places)]] = True
    first = np.ones(len(places), np.bool_)
    first[1:] = places[order][1:] != places[order][:-1]
    closes[first] = False
    found = np.empty_like(closes)
    found[order] = closes
    return found


def packages(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    closes = _filled(random, np.zeros(count, np.int64), 4)
    numbers = np.arange(count)
    return _table(
        ["Package", "Container"], closes.astype(np.int64), numbers, pkgId=(numbers, ~closes), contId=(numbers, closes)
    )


GATES = 10_000


def bags(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    gates = random.integers(0, GATES, count)
    closes, numbers = _filled(random, gates, 6), np.arange(count)
    return _table(
        ["BagEvent", "ContainerEvent"], closes.astype(np.int64), numbers,
        id=numbers, carouselId=(gates, ~closes), trackId=(gates, closes),
    )  # fmt: skip


DAY = 20_000  # events between one At8am and the next


def violations(count: int, seed: int) -> pa.Table:
    """Cars on links, most of them below 60; in the morning the context opens, and in the evening it closes."""
    random, numbers = np.random.default_rng(seed), np.arange(count)
    place = numbers % DAY
    codes = np.where(place == 0, 1, np.where(place == DAY * 10 // 12, 2, 0))
    is_car = codes == 0
    speeds = np.clip(random.normal(55, 12, count).round(1), 5, 160)
    links = random.integers(1, 201, count)
    return _table(["CarEvent", "At8am", "At6pm"], codes, numbers, speed=(speeds, is_car), linkId=(links, is_car))


CARS = 2_000


def cars(count: int, seed: int) -> pa.Table:
    """Cars that report where they are; most reports are of the same link as before. Few of them report two at once."""
    random = np.random.default_rng(seed)
    car = random.integers(0, CARS, count)
    moves = random.random(count) < 0.12
    wrong = random.random(count) < 0.002
    order = np.argsort(car, kind="stable")
    links: Ints = np.empty(count, np.int64)
    links[order] = np.cumsum(moves[order]) % 997  # a car's next link is another one
    speeds = random.integers(20, 90, count)
    number = np.repeat(np.arange(count), 1 + wrong)[:count]
    again = np.zeros(count, np.bool_)
    again[1:] = number[1:] == number[:-1]
    link = np.where(again, (links[number] + 500) % 997, links[number])
    return _table(["CarEvent"], np.zeros(count, np.int64), number, regNumber=car[number], linkId=link, speed=speeds)


PATIENTS = 5_000


def patients(count: int, seed: int) -> pa.Table:
    """Falls, and changes that last up to half a minute: three of ten events are of a patient who has just fallen."""
    random, end = np.random.default_rng(seed), np.arange(count) + 30
    who = random.integers(0, PATIENTS, count)
    codes = random.choice(3, count, p=[0.2, 0.4, 0.4])
    falls = np.flatnonzero(codes == 0)
    before = np.searchsorted(falls, np.arange(count)) - 1
    follows = (codes > 0) & (before >= 0) & (random.random(count) < 0.4)
    who = np.where(follows, who[falls[np.maximum(before, 0)]], who)
    lasts = np.where(codes == 0, 0, random.integers(0, 31, count))
    table = _table(["Fall", "HeartRateIncrease", "BloodPressureDecrease"], codes, end - lasts, patientId=who)
    return table.rename_columns(["type", "start", "patientId"]).append_column("end", pa.array(end))


LOADS = {
    "PackageContainer": Load(
        """CreateCE PackageContainer Select Package.pkgId as pkgId, Container.contId as contId
Event And(Package<old max 3, consume>, Container<old max 1, consume>)""",
        packages, "PackageContainer",
    ),
    "BagContainerID": Load(
        """CreateCE BagContainerID Select BagEvent.id as bagId, ContainerEvent.id as containerId
Event And(BagEvent<old max 4, consume>, ContainerEvent<old max 1, consume>)
LKey BagEvent.carouselId, ContainerEvent.trackId""",
        bags, "BagContainerID",
    ),
    "Top10SpeedLimitViolations": Load(
        """CreateCE Top10SpeedLimitViolations Select CarEvent.speed as speed, Region.labels as region Init At8am
Event Unless(CarEvent<stages 1, "speed > 60">, AtLeast(10, CarEvent as Others<"speed > 60">))
Where Others.speed > CarEvent.speed
Term At6pm
LKey *.linkId as Region (In 1..50 as one, 51..100 as two, 101..150 as three, Rest as other)""",
        violations, "Top10SpeedLimitViolations",
    ),
    "CarAvgSpeedPerLink": Load(
        """CreateCE ColocatedError Select A.regNumber as regNumber
Event Concurrent(CarEvent as A<stages 1>, CarEvent as B<stages 1>) Where A.linkId != B.linkId LKey *.regNumber;
CreateCE ValidCarEvent Select A.regNumber as regNumber, A.speed as speed, A.linkId as linkId
Event Unless(CarEvent as A<stages 1>, CarEvent as B<stages 1>)
Where A.linkId != B.linkId AND end-ts(A) = end-ts(B) LKey *.regNumber;
CreateCE CarAvgSpeedPerLink
Select Max(LinkInit.regNumber) as regNumber, Max(LinkInit.linkId) as linkId,
       Avg(LinkInit.speed Union ValidCarEvent.speed) as avgSpeed
Init ValidCarEvent as LinkInit
Event Or((ValidCarEvent)<deferred>, Not(ValidCarEvent))
Term ColocatedError, ValidCarEvent as LinkTerm<Max(LinkInit.linkId) != Max(LinkTerm.linkId)>
GKey *.regNumber""",
        cars, "CarAvgSpeedPerLink",
    ),
    "PatientBleeding": Load(
        """CreateCE PatientBleeding Select Fall.patientId as patientId
Event Sequence(Fall<rows 1, range 5 mins, consume>,
               And(HeartRateIncrease as HRInc<max 1>, BloodPressureDecrease as BPDec<max 1>) as Bleeding)
Where start-ts(Bleeding) > end-ts(Fall)
  AND NOT(end-ts(HRInc) < start-ts(BPDec) OR end-ts(BPDec) < start-ts(HRInc))
GKey *.patientId""",
        patients, "PatientBleeding",
    ),
}  # fmt: skip
