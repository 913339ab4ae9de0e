"""What begins mean (docs/semantics.md, 7): the definition, read from the items of a history one by one.

Begins never change which intervals there are. They say which intervals come too late (those that began unannounced,
when all begins were there), and which never end. Nothing here is shared with the engine but `Guarantees`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tocsin.errors import InputError
from tocsin.events import BEGINNING, Eid, Event
from tocsin.order.guarantees import Guarantees
from tocsin.testing.notation import Begin, Item, Promise


@dataclass(slots=True)
class Heard:
    """What was made of a history: the items that count, and what is reported of begins."""

    kept: list[Item] = field(default_factory=list)  # without begins, their guarantees, and intervals that are late
    late: list[Event] = field(default_factory=list)
    unended: list[Begin] = field(default_factory=list)
    late_begins: int = 0
    repeated: int = 0
    differing: int = 0
    open: list[Begin] = field(default_factory=list)  # those that may still end


def heard(
    items: Sequence[Item], *, longest: Mapping[str, int] | None = None, delay: int | None = None, ended: bool = True
) -> Heard:
    """The items of a history, in order of arrival; `delay` is how late they may come, if that is known."""
    types = tuple({item.type for item in items if item.type is not None})
    begins, ends = Guarantees(types), Guarantees(types)
    most, told = dict(longest or {}), Heard()
    open_: dict[Eid | None, Begin] = {}
    came: dict[Eid | None, Event] = {}
    clock, used = BEGINNING, False

    def since() -> int:
        return BEGINNING if delay is None else clock - delay

    for item in items:
        match item:
            case Promise(_, time, source, True):
                begins.promise(item.type, source, time)
                used = True
            case Promise(_, time, source):
                ends.promise(item.type, source, time)
                told.kept.append(item)
            case Begin(type, start):
                used, eid = True, item.name
                known = came.get(eid) or open_.get(eid)
                if start <= begins.of(type) or start < since():
                    told.late_begins += 1
                elif known is None:
                    open_[eid] = item
                elif (known.type, known.start) == (type, start) and (known == item or isinstance(known, Event)):
                    told.repeated += 1
                else:
                    raise InputError(f"a begin of {type} at {start} has the eid {eid} of another one")
            case Event():
                clock = max(clock, item.end)
                begun = open_.pop(item.eid, None)
                same = begun is not None and agrees(begun, item)
                told.differing += begun is not None and not same
                copy = came.get(item.eid)
                again = copy is not None and (copy.type, copy.start, copy.end) == (item.type, item.start, item.end)
                length = most.get(item.type)
                too_long = length is not None and item.end - item.start > length
                if too_long or (not same and not again and item.start <= begins.of(item.type, item.source)):
                    told.late.append(item)
                    continue
                if used:
                    came[item.eid] = item
                told.kept.append(item)
        for name, begin in list(open_.items()):
            guaranteed = max(ends.settled.get(begin.type, BEGINNING), since() - 1)
            if begin.type in most and guaranteed >= begin.start + most[begin.type]:
                told.unended.append(open_.pop(name))
    told.unended += open_.values() if ended else ()
    told.open = [] if ended else list(open_.values())
    return told


def agrees(begin: Begin, event: Event) -> bool:
    """Whether an interval is what its begin said."""
    same = (begin.type, begin.start) == (event.type, event.start)
    return same and all(event.attrs.get(name) == value for name, value in begin.attrs.items())
