"""Derives intervals from the readings of a device: plain Python 3.8 or later, no other packages.

    python reducer.py --state state.json --every 60 < readings.jsonl > items.jsonl

Readings are JSON lines in order of time, `{"type": ..., "time": 5, ...}`; those of one time count in the order in which
they come. Items are JSON lines, too: `event` (an interval), `unpaired`, `unended`, `guarantee` (every later event of
these types ends after this time) and `gap` (what was lost with a state).

`tocsin intervals reduce` copies this file and writes the definition between the two marks.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from hashlib import blake2b
from typing import Any, Dict, Iterator, List, Optional, Tuple

Item = Dict[str, Any]

# --- the definition ---
DEFINITION: Item = {
    "name": "visit", "identity": "", "kind": "sessions", "labels": ["visit"], "types": ["visit"], "by": [], "gap": 1,
    "until_next": False, "policy": "nested", "folds": [], "shows_label": False,
}  # fmt: skip


def roles_of(reading: Item) -> int:
    """What a reading is: the number of its state or -1 (runs, sessions), 1 begins + 2 ends (pairs); -2: nothing."""
    return -2 if reading is None else 0


# --- end of the definition ---

MASK = 2**64 - 1


def mixed(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def seed(*told: Any) -> Tuple[int, int]:
    """Two words in which a definition and a key, or a label, enter eids. Equal keys are written alike."""
    alike = [each if not isinstance(each, (bool, float)) else int(each) if each == int(each) else str(each)
             for each in told]  # fmt: skip
    raw = blake2b(json.dumps(alike, separators=(",", ":")).encode(), digest_size=16).digest()
    return int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")


def eid_of(key: List[Any], label: str, start: int, occurrence: int) -> str:
    lanes = zip(seed(DEFINITION["identity"], *key), seed(label))
    return "".join("%016x" % mixed((mixed(((one ^ other) + start) & MASK) + occurrence) & MASK) for one, other in lanes)


class Reducer:
    """What is open, by key; all of it is plain values, so that it can be saved as JSON."""

    def __init__(self) -> None:
        self.open: Dict[str, Dict[str, Any]] = {}  # by the key as JSON
        self.time: Optional[int] = None  # the time of the readings at hand
        self.now: List[Item] = []  # the readings of this time
        self.told: Optional[int] = None  # what was guaranteed last

    def push(self, reading: Item) -> List[Item]:
        """Take the next reading; the items that it brings."""
        time = reading["time"]
        found: List[Item] = []
        if self.time is not None and time < self.time:
            raise ValueError(
                "a reading of %d comes after one of %d: readings come in order of time" % (time, self.time)
            )
        if time != self.time:
            found = self.complete(time - 1)
            self.time = time
        self.now.append(reading)
        return found

    def complete(self, until: int) -> List[Item]:
        """All readings up to a time have come."""
        found = self._stage() if self.now and self.time is not None and self.time <= until else []
        return found + self._due(until)

    def end(self) -> List[Item]:
        """Nothing comes any more: open runs and sessions end at their last reading."""
        found = self._stage() if self.now else []
        left = []
        for key in list(self.open):
            state = self.open.pop(key)
            if DEFINITION["kind"] == "pairs":
                for begin in state["open"]:
                    item = self._item("unended", key, 0, begin["start"], begin["start"], begin["place"], None)
                    left.append((begin["start"], item))
            else:
                left.append((state["last"] + (DEFINITION["gap"] or 0), self._run(key, state, state["last"])))
        return found + in_order(left)

    def guarantee(self, every: int) -> List[Item]:
        """What is complete by now, if it was not said for so long."""
        if self.time is None:
            return []
        until = self.time - 1
        if DEFINITION["kind"] != "pairs":
            until = min([until] + [state["last"] - 1 for state in self.open.values() if "last" in state])
        if self.told is not None and until < self.told + every:
            return []
        self.told = until
        return [{"kind": "guarantee", "types": DEFINITION["types"], "time": until}]

    # --- readings ---

    def _stage(self) -> List[Item]:
        """Take the readings of one time."""
        time, readings, found = int(self.time or 0), self.now, []
        self.now = []
        by_key: Dict[str, List[Item]] = {}
        for reading in readings:
            values = [reading.get(attr) for attr in DEFINITION["by"]]
            if None not in values and roles_of(reading) != -2:
                by_key.setdefault(json.dumps(values), []).append(reading)
        for key, mine in by_key.items():
            take = self._pairs if DEFINITION["kind"] == "pairs" else self._runs
            found += [(time, item) for item in take(key, mine, time)]
        return in_order(found + [(time, item) for item in self._due(time)])

    def _due(self, until: int) -> List[Item]:
        """End the runs behind which a gap has passed."""
        gap, found = DEFINITION["gap"], []
        if gap is not None:
            for key in [key for key, state in self.open.items() if state["last"] + gap <= until]:
                state = self.open.pop(key)
                found.append((state["last"] + gap, self._run(key, state, state["last"])))
        return in_order(found)

    def _runs(self, key: str, readings: List[Item], time: int) -> Iterator[Item]:
        begun = 0
        for reading in readings:
            role = roles_of(reading)
            state = self.open.get(key)
            if state is not None and state["role"] != role:
                yield self._run(key, self.open.pop(key), time if DEFINITION["until_next"] else state["last"])
                state = None
            if role >= 0 and state is None:
                state = self.open[key] = {"role": role, "start": time, "place": begun, "folds": None}
                begun += 1
            if role >= 0 and state is not None:
                state["folds"] = folded(state["folds"], reading)
                state["last"] = time

    def _run(self, key: str, state: Item, end: int) -> Item:
        return self._item("event", key, state["role"], state["start"], end, state["place"], state["folds"])

    def _pairs(self, key: str, readings: List[Item], time: int) -> Iterator[Item]:
        state = self.open.setdefault(key, {"open": [], "depth": 0})
        alone = []
        for reading in readings:
            role = roles_of(reading)
            if role & 2 and state["depth"]:
                state["depth"] -= 1
            elif role & 2 and state["open"]:
                begin = state["open"].pop(0 if DEFINITION["policy"] == "queued" else -1)
                folds = folded(begin["folds"], reading)
                yield self._item("event", key, 0, begin["start"], time, begin["place"], folds)
            elif role == 2:
                alone.append(reading)
        begins = [reading for reading in readings if roles_of(reading) & 1]
        for place, reading in enumerate(begins):
            folds = folded(None, reading)
            if alone:
                yield self._item("event", key, 0, time, time, place, folded(folds, alone.pop(0)))
            elif DEFINITION["policy"] == "outermost" and state["open"]:
                state["depth"] += 1
            else:
                kept = [] if DEFINITION["policy"] == "restart" else state["open"]
                state["open"] = [*kept, {"start": time, "place": place, "folds": folds}]
        for place in range(len(alone)):
            yield self._item("unpaired", key, 0, time, time, place, None)
        if not state["open"]:
            del self.open[key]

    def _item(
        self,
        kind: str,
        key: str,
        role: int,
        start: int,
        end: int,
        place: int,
        folds: Optional[List[Any]],
    ) -> Item:
        label, values = DEFINITION["labels"][role], json.loads(key)
        eid = eid_of(values, "unpaired" if kind == "unpaired" else label, start, place)
        item = {"kind": kind, "type": label, "start": start, "end": end, "eid": eid}
        if DEFINITION["shows_label"]:
            item["label"] = label
        item.update(zip(DEFINITION["by"], values))
        item.update(zip([column for column, _, _ in DEFINITION["folds"]], folds or [None] * len(DEFINITION["folds"])))
        return item

    # --- state ---

    def saved(self) -> Item:
        """All that it knows, with the definition to which it belongs."""
        own = {"open": self.open, "time": self.time, "now": self.now, "told": self.told}
        return dict(own, identity=DEFINITION["identity"], folds=DEFINITION["folds"])

    def restore(self, saved: Item) -> None:
        """Go on from what was saved; a ValueError if that was another definition."""
        if saved["identity"] != DEFINITION["identity"] or saved["folds"] != DEFINITION["folds"]:
            raise ValueError("the state was saved by another definition")
        self.open, self.time, self.now, self.told = (saved[name] for name in ("open", "time", "now", "told"))


def folded(folds: Optional[List[Any]], reading: Item) -> List[Any]:
    """The columns of SELECT with one more reading."""
    found = []
    for at, (_, function, attr) in enumerate(DEFINITION["folds"]):
        old, value = None if folds is None else folds[at], None if attr is None else reading.get(attr)
        if function == "count":
            found.append((old or 0) + (attr is None or value is not None))
        elif function == "last" or (function == "first" and folds is None):
            found.append(value)
        elif function == "first" or value is None:
            found.append(old)
        else:
            found.append(value if old is None else min(old, value) if function == "min" else max(old, value))
    return found


def in_order(found: List[Tuple[int, Item]]) -> List[Item]:
    """Items by the time at which they are certain, then by end, start and eid."""
    return [
        item for _, item in sorted(found, key=lambda each: (each[0], each[1]["end"], each[1]["start"], each[1]["eid"]))
    ]


# --- as a program ------------------------------------------------------------------------------------------------


def write(items: List[Item]) -> None:
    for item in items:
        sys.stdout.write(json.dumps(item, separators=(",", ":")) + "\n")


def keep(path: Optional[str], reducer: Reducer) -> None:
    """Save the state beside its place first, so that it is whole or as it was."""
    if path is not None:
        sys.stdout.flush()  # what was sent must not be sent again
        with open(path + ".new", "w") as file:
            json.dump(reducer.saved(), file)
        os.replace(path + ".new", path)


def take_up(path: Optional[str], reducer: Reducer) -> bool:
    """Go on from a saved state; whether there was one that could be read."""
    try:
        with open(path or "") as file:
            reducer.restore(json.load(file))
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def main() -> None:
    told = argparse.ArgumentParser(description="Derive intervals from readings: JSON lines in, JSON lines out.")
    told.add_argument("--state", help="the file in which to remember what is open")
    told.add_argument("--every", type=int, required=True, help="say what is complete when it grew by so many ticks")
    told.add_argument(
        "--first", action="store_true", help="no readings were lost before: say no gap if there is no state"
    )
    told.add_argument("--more", action="store_true", help="the input goes on later: leave open what is open")
    given = told.parse_args()
    reducer = Reducer()
    lost = not take_up(given.state, reducer) and not given.first
    for number, line in enumerate(sys.stdin, 1):
        try:
            reading = json.loads(line)
            if lost:
                write([{"kind": "gap", "types": DEFINITION["types"], "from": None, "to": reading["time"]}])
                lost = False
            write(reducer.push(reading))
        except (ValueError, KeyError, TypeError) as error:
            sys.exit("line %d: %s" % (number, error))
        if said := reducer.guarantee(given.every):
            write(said)
            keep(given.state, reducer)
    if not given.more:
        write(reducer.end())
    keep(given.state, reducer)


if __name__ == "__main__":
    main()
