"""A soak: late, heavy-tailed, duplicated events for minutes on end; memory stays flat and nothing is lost or repeated.

    python -m benchmarks.soak --minutes 10

Piece after piece of a drawn stream (30 % late, Pareto delays, 5 % delivered twice) goes through two live sessions, one
that holds its answers and one that corrects them. Each piece is far enough behind the one before that its matches are
its own: they must be those of the in-order engine on the sorted piece, and on some keys those of the oracle.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import tocsin
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.testing import streams
from tocsin.testing.delays import Pareto
from tocsin.testing.oracle import matches

TEXT = "EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 400"
PIECE, KEYS, FAR = 40_000, 400, 1_000
SCHEMA = {"*": {"id": "int"}}
ORDERS = ("conservative({late})", "aggressive({late})")


def piece(number: int) -> tuple[pa.Table, int]:
    """The rows of a piece in order of arrival, moved to their place in time; and how late they are."""
    drawn = streams.Arrivals(
        events=PIECE, types=dict.fromkeys("ABCD", 1.0), disorder=0.3, delay=Pareto(60), duplicates=0.05,
        keys=KEYS, unit=5, seed=number,
    )  # fmt: skip
    table = streams.table(drawn)
    late = drawn.most_late()
    start = number * (PIECE + 2 * (late + FAR))
    eids = pc.binary_join_element_wise(table["eid"].cast(pa.string()), pa.scalar(str(number)), "/")
    table = table.set_column(table.schema.get_field_index("time"), "time", pc.add(table["time"], start))
    table = table.set_column(table.schema.get_field_index("eid"), "eid", eids)
    return table.select(["type", "time", "eid", "id"]), late


def oracle_ids(table: pa.Table, keys: int) -> int:
    """How many matches the oracle finds on the first keys of a piece."""
    rows = table.filter(pc.less(table["id"], keys)).to_pylist()
    known = {row["eid"]: Event(row["type"], row["time"], row["time"], row["eid"], {"id": row["id"]}) for row in rows}
    by_key: dict[object, list[Event]] = {}
    for event in known.values():
        by_key.setdefault(event.attrs["id"], []).append(event)
    return sum(len(matches(parse(TEXT), mine)) for mine in by_key.values())


def run(minutes: float) -> int:
    query = tocsin.query(TEXT, schema=SCHEMA)
    table, late = piece(0)
    sessions = {text.format(late=late): query.stream(order=text.format(late=late), eid="eid") for text in ORDERS}
    net: dict[str, Counter[str]] = {order: Counter() for order in sessions}
    began, number, memory, events, found = time.monotonic(), 0, [], 0, 0
    expected: set[str] = set()
    while time.monotonic() - began < 60 * minutes or number < 3:
        table, _ = piece(number)
        for order, session in sessions.items():
            for first in range(0, table.num_rows, 997):  # an odd size: batches end anywhere
                _take(net[order], session.push(table.slice(first, 997)))
        whole = query.detect(table.combine_chunks(), eid="eid")
        mine = [row["match_id"] for row in whole]
        if len(pc.unique(table["eid"])) != PIECE or number % 10 == 0:
            few = sum(row["a"]["id"] < 4 for row in whole)
            assert few == oracle_ids(table, 4), f"piece {number}: the in-order engine differs from the oracle"
        expected.update(mine)
        events, found, number = events + table.num_rows, found + len(mine), number + 1
        memory.append(_resident())
        _forget(net, expected, number)
        _show(number, events, found, memory, sessions)
    for order, session in sessions.items():
        _take(net[order], session.close())
    for order in sessions:
        standing = {each for each, count in net[order].items() if count}
        assert standing == expected, f"{order}: {len(standing - expected)} too many, {len(expected - standing)} missing"
    grown = memory[-1] / memory[len(memory) // 4]
    print(f"\n{events:,} events, {found:,} matches, memory after a quarter {memory[len(memory) // 4] / 2**20:.0f} MiB, "
          f"at the end {memory[-1] / 2**20:.0f} MiB ({grown:.2f})")  # fmt: skip
    return 0 if grown < 1.25 else 1


def _take(net: Counter[str], answers: tocsin.Matches) -> None:
    for row in answers:
        net[row["match_id"]] += row["op"]
        assert net[row["match_id"]] in (0, 1), f"{row} is counted {net[row['match_id']]} times"


def _forget(net: dict[str, Counter[str]], expected: set[str], number: int) -> None:
    """What all agree on is done with, so that the bookkeeping of the test does not grow."""
    if number % 5:
        return
    agreed = {each for each in expected if all(counts.get(each) == 1 for counts in net.values())}
    expected -= agreed
    for counts in net.values():
        for each in [key for key, count in counts.items() if key in agreed or not count]:
            del counts[each]


def _resident() -> int:
    """Bytes of memory in use."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _show(number: int, events: int, found: int, memory: list[int], sessions: dict[str, tocsin.Session]) -> None:
    told = [session.counters for session in sessions.values()]
    kept = " ".join(f"waiting {each['waiting']} withdrawn {each['retracted']}" for each in told)
    sys.stderr.write(f"\rpiece {number}: {events:,} events, {found:,} matches, {memory[-1] / 2**20:.0f} MiB, {kept}   ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10)
    sys.exit(run(parser.parse_args().minutes))
