"""Histories as the papers write them: `a1 b2#x{id=7} Shelf@9{tag="x"} h[3,8] @A>5`.

    a1           type A at time 1 (the first letter is upper-cased)      a1#x     with the eid x
    Name@9       a longer name                                           a1{v=2}  with attributes
    h[3,8]       an interval; also Name@[3,8] and h3|8                   h[3,     its begin is announced
    @A>5         all later A events end after 5; @*>5 every type, @src:A>5 one source
    @A[>5        every A that starts at or before 5 was announced or delivered
    Shelf@09:00, Shelf@2026-03-01T09:00, Shelf@90s, Shelf@[09:00,09:30], @Shelf>10:00     see `written_times`

The order of the list is the order of arrival. Without #eid the eid is the spelling itself, so `a1` has the eid "a1";
where a spelling comes again it is another event, with the eid "a1'2", then "a1'3". The same #eid twice at the same
place is one event delivered twice. A begin without #eid is that of the first interval behind it that starts with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tocsin.errors import InputError
from tocsin.events import TIME_LIMIT, Event, Value
from tocsin.testing.written_times import STARTS, TICKS, TIME, WrittenTimes, written_times


@dataclass(frozen=True, slots=True)
class Promise:
    """All later events of a type (None: of every type) and source (None: every source) end after `time`.

    `of_begins`: they start after it, or were announced.
    """

    type: str | None
    time: int
    source: str | None = None
    of_begins: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """An interval has begun; its event comes when it has ended."""

    type: str
    start: int
    eid: str | None = None
    attrs: Mapping[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its eid; without one, as it is spelt."""
        return spell_begin(self) if self.eid is None else self.eid


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """An event that came before did not happen; texts of histories have no word for it."""

    event: Event


Item: TypeAlias = Event | Promise | Begin


@dataclass(frozen=True, slots=True)
class Spelling:
    """What one word says of an event. `word` is the shortest spelling without eid and attributes."""

    type: str
    start: int
    end: int
    eid: str | None
    number: int | None  # the n of a1'n
    word: str

    @property
    def place(self) -> tuple[str, int, int]:
        return self.type, self.start, self.end


TYPE = r"[^\W\d](?:[\w.-]*\w)?"
EVENT = re.compile(
    rf"(?:(?P<long>{TYPE})@{STARTS}|(?P<short>[^\W\d_]+?){STARTS})"
    rf"(?:\[(?P<from>{TIME}),(?:(?P<to>{TIME})\])?|(?P<at>{TIME})(?:\|(?P<till>{TIME}))?)"
    r"(?:'(?P<number>[1-9]\d*))?(?:#(?P<eid>[^\s{},]+))?"
)
PROMISE = re.compile(rf"@(?:(?P<source>[\w.-]+):)?(?P<type>\*|{TYPE})(?P<begins>\[)?>(?P<time>{TIME})")
ATTRIBUTE = re.compile(r'\s*(?P<name>[^\W\d][\w-]*)\s*=\s*(?P<value>"(?:[^"\\]|\\.)*"|[^\s,}"]+)\s*')
BETWEEN = re.compile(r"[\s,]*")
HINT = 'write a1, Name@1, h[3,8], a1#eid, a1{id=7,name="x"} or @A>5'


def times_in(text: str, unit: str | None = None) -> WrittenTimes:
    """How a history writes its times; `unit` is its time-unit, if it has one."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    words = [
        word for found in EVENT.finditer(bare) for word in (found["from"], found["to"], found["at"], found["till"])
    ]
    words += [found["time"] for found in PROMISE.finditer(bare)]
    return written_times([word for word in words if word], unit)


def history(text: str, times: WrittenTimes | None = None) -> list[Item]:
    """The events and promises of a text, in order of arrival; times as the text itself writes them.

    >>> [event.eid for event in history("a1 a1 b2#x")]
    ['a1', "a1'2", 'x']
    """
    times = times or times_in(text)
    items: list[Item] = []
    used: dict[str, tuple[str, int, int]] = {}
    written = set(re.findall(r"#([^\s{},]+)", text))  # eids given by hand are never given out again
    at = _skip(text, 0)
    while at < len(text):
        item, at = _item(text, at, used, written, times)
        items.append(item)
        if at < len(text) and not BETWEEN.match(text, at).group():  # type: ignore[union-attr]
            raise _wrong(text, at, "something is left over after an event")
        at = _skip(text, at)
    return _with_eids(items)


def _with_eids(items: list[Item]) -> list[Item]:
    """The items, where a begin without an eid has that of the first interval behind it which it could begin."""
    taken = {item.eid for item in items if isinstance(item, Begin)}
    found: list[Item] = []
    for at, item in enumerate(items):
        if isinstance(item, Begin) and item.eid is None:
            later = (each for each in items[at + 1 :] if isinstance(each, Event) and each.eid not in taken)
            ends = next((each for each in later if (each.type, each.start) == (item.type, item.start)), None)
            item = item if ends is None else replace(item, eid=str(ends.eid))
            taken.add(item.eid)
        found.append(item)
    return found


def spell_begin(begin: Begin, times: WrittenTimes | None = None) -> str:
    """The spelling of a begin, without eid.

    >>> spell_begin(Begin("H", 3))
    'h[3,'
    """
    short = len(begin.type) == 1 and begin.type.isalpha() and begin.type.isupper()
    return f"{begin.type.lower() if short else begin.type + '@'}[{(times or TICKS).write(begin.start)},"


def events_of(items: Iterable[Item]) -> list[Event]:
    """The events among the items."""
    return [item for item in items if isinstance(item, Event)]


def _item(
    text: str, at: int, used: dict[str, tuple[str, int, int]], written: set[str], times: WrittenTimes
) -> tuple[Item, int]:
    if promise := PROMISE.match(text, at):
        type = promise["type"]
        time, begins = times.read(promise["time"]), promise["begins"] is not None
        return Promise(None if type == "*" else type, time, promise["source"], begins), promise.end()
    found = EVENT.match(text, at)
    if found is None:
        raise _wrong(text, at, "this is not an event")
    try:
        spelling = _spelling(found, times)
    except InputError as error:
        raise _wrong(text, at, error.message, hint=error.hint or HINT) from None
    if found["from"] is not None and found["to"] is None:
        attrs, end = _attributes(text, found.end())
        return Begin(spelling.type, spelling.start, spelling.eid, attrs), end
    _check_times(text, at, spelling)
    attrs, end = _attributes(text, found.end())
    eid = _eid(spelling, used, written)
    if used.setdefault(eid, spelling.place) != spelling.place:
        raise _wrong(text, at, f"the eid {eid} is already that of another event")
    return Event(spelling.type, spelling.start, spelling.end, eid, attrs), end


def _spelling(found: re.Match[str], times: WrittenTimes) -> Spelling:
    short, till = found["short"], found["to"] or found["till"]
    type = short[0].upper() + short[1:] if short else found["long"]
    start = times.read(found["from"] or found["at"])
    end = start if till is None else times.read(till)
    number = int(found["number"]) if found["number"] else None
    return Spelling(type, start, end, found["eid"], number, spell(type, start, end, times))


def _check_times(text: str, at: int, spelling: Spelling) -> None:
    if spelling.end < spelling.start:
        raise _wrong(text, at, "an event cannot end before it starts", hint="write the earlier time first")
    if max(abs(spelling.start), abs(spelling.end)) >= TIME_LIMIT:
        raise _wrong(text, at, "this time is too far away", hint="times lie within 2**61 ticks of 0")


def _eid(spelling: Spelling, used: dict[str, tuple[str, int, int]], written: set[str]) -> str:
    if spelling.eid is not None:
        return spelling.eid
    number, eid = spelling.number or 1, spelling.word
    if number > 1:
        eid = f"{spelling.word}'{number}"
    while eid in used or eid in written:
        number += 1
        eid = f"{spelling.word}'{number}"
    return eid


def _attributes(text: str, at: int) -> tuple[dict[str, Value], int]:
    attrs: dict[str, Value] = {}
    if at >= len(text) or text[at] != "{":
        return attrs, at
    at += 1
    while not text.startswith("}", _skip(text, at)):
        found = ATTRIBUTE.match(text, at)
        if found is None:
            raise _wrong(text, at, "this is not an attribute", hint='write {id=7,v=1.5,name="x",ok=true,gone=null}')
        attrs[found["name"]] = _value(text, found.start("value"), found["value"])
        at = found.end()
        if at >= len(text) or text[at] not in ",}":
            raise _wrong(text, at, "the attributes are not closed", hint="end them with }")
        at += text[at] == ","
    return attrs, _skip(text, at) + 1


def _value(text: str, at: int, word: str) -> Value:
    if word in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[word]
    if word.startswith('"'):
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    try:
        return int(word) if re.fullmatch(r"[+-]?\d+", word) else float(word)
    except ValueError:
        raise _wrong(text, at, f"{word} is not a value", hint=f'texts need quotes: "{word}"') from None


def value_of_word(word: str) -> Value:
    """A value by itself, as attributes are written."""
    return _value(word, 0, word)


def _skip(text: str, at: int) -> int:
    found = BETWEEN.match(text, at)
    return found.end() if found else at


def _wrong(text: str, at: int, message: str, *, hint: str = HINT) -> InputError:
    row = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    rest = text[at:].split()
    near = f"near {rest[0]!r}" if rest else "at the end"
    return InputError(message, detail=f"line {row}, column {column} of the history, {near}", hint=hint)


# --- writing -------------------------------------------------------------------------------------------------------


def spell(type: str, start: int, end: int, times: WrittenTimes = TICKS) -> str:
    """The spelling of a place, without eid.

    >>> spell("A", 1, 1), spell("Shelf", 3, 8)
    ('a1', 'Shelf@[3,8]')
    """
    time = times.write(start) if start == end else f"[{times.write(start)},{times.write(end)}]"
    short = len(type) == 1 and type.isalpha() and type.isupper()
    return type.lower() + time if short else f"{type}@{time}"


def write(event: Event, among: Sequence[Event] = (), times: WrittenTimes = TICKS) -> str:
    """The shortest spelling that names an event among others."""
    word = spell(event.type, event.start, event.end, times)
    here = {other.eid for other in among if (other.type, other.start, other.end) == _place(event)}
    if here <= {event.eid}:
        return word
    given = str(event.eid)
    return given if given == word or given.startswith(f"{word}'") else f"{word}#{given}"


def find(word: str, among: Sequence[Event], times: WrittenTimes = TICKS) -> Event | None:
    """The event that a spelling names among others; None if there is none at this place.

    A spelling without eid that several events share names the one whose eid it is, if there is one.
    """
    found = EVENT.fullmatch(word)
    if found is None or (found["from"] is not None and found["to"] is None):
        raise InputError(f"{word} is not an event", hint=HINT)
    spelling = _spelling(found, times)
    here = {str(event.eid): event for event in among if _place(event) == spelling.place}
    if spelling.eid is not None:
        return here.get(spelling.eid)
    if spelling.number is not None and spelling.number > 1:
        return here.get(f"{spelling.word}'{spelling.number}")
    if len(here) > 1 and spelling.word not in here:
        raise InputError(f"{word} names several events", hint=f"one of {', '.join(f'{word}#{eid}' for eid in here)}")
    return here.get(spelling.word) or next(iter(here.values()), None)


def _place(event: Event) -> tuple[str, int, int]:
    return event.type, event.start, event.end
