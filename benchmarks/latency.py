"""How long one event takes, live: microseconds from a pushed dict to its matches as dicts; lines per second of pipes.

Every event is one that the query reads. Times are whole numbers, datetimes or ISO texts; events come in order, or up to
five seconds late into `slack(5 s)`. A push counts as "match" if it brought one: its time ends when the caller holds the
dicts. Times are CPU time of this thread, so a busy machine shows in p99 only.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks import compiling

Row = dict[str, Any]
QUERY = "EVENT SEQ(A a, B b, C c) WHERE [user] AND b.v > a.v WITHIN 100 s"
RARE = QUERY.replace("a.v", "a.v + 0.97")  # for whole inputs: about one match in a thousand events
BEGIN = datetime(2026, 1, 1)  # noqa: DTZ001 - no zone is meant
LATE = 5  # seconds
PER_SECOND = 10
ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "latency.json"
TIMES: dict[str, Callable[[int], Any]] = {
    "integers": lambda tenths: tenths * 100_000,
    "datetimes": lambda tenths: BEGIN + timedelta(milliseconds=100 * tenths),
    "ISO text": lambda tenths: (BEGIN + timedelta(milliseconds=100 * tenths)).isoformat(timespec="milliseconds"),
}
ORDERS = {"in order": "in-order", "slack": f"slack({LATE} s)"}


def events(count: int, time: Callable[[int], Any], *, late: bool = False, seed: int = 1) -> list[Row]:
    """A stream of A, B and C of 300 users; with `late` each event arrives up to five seconds late."""
    random = Random(seed)
    arrivals = range(count)
    if late:
        delayed = {at: at + random.randrange(LATE * PER_SECOND) for at in range(count)}
        arrivals = sorted(range(count), key=delayed.__getitem__)  # type: ignore[assignment]
    rows = [
        {"type": random.choice("ABC"), "time": time(at), "user": f"u{random.randrange(300)}", "v": random.random()}
        for at in range(count)
    ]
    return [rows[at] for at in arrivals]


def pushes(form: str, order: str, count: int) -> dict[str, Any]:
    """Microseconds per push, without a match and with one."""
    import tocsin

    unit = {"time_unit": "us"} if form == "integers" else {}
    live = tocsin.query(QUERY).stream(order=ORDERS[order], **unit)  # type: ignore[arg-type]
    rows = events(count, TIMES[form], late=order == "slack")
    quiet: list[int] = []
    found: list[int] = []
    clock = time.thread_time_ns
    for at, row in enumerate(rows):
        begin = clock()
        matches = list(live.push(row))
        passed = clock() - begin
        if at >= count // 10:
            (found if matches else quiet).append(passed)
    return {"times": form, "order": order, **percentiles("quiet", quiet), **percentiles("match", found)}


def percentiles(name: str, times: list[int]) -> dict[str, float]:
    return {f"{name}_p{percent}_us": round(float(np.percentile(times, percent)) / 1e3, 2) for percent in (50, 99)}


def columns(pushes: int) -> dict[str, float]:
    """Microseconds per push of 1,000 events in columns, encoded before: what the detector needs for them."""
    from benchmarks.ours import compiled, timed
    from benchmarks.ours import percentiles as shares
    from benchmarks.workloads import WORKLOADS, stream

    load = WORKLOADS["W1-100"]
    table = stream(load, 1000 * pushes).table()
    fresh, encoder = compiled(load.query, table.schema)
    parts = [encoder.encode(part) for part in table.to_batches(max_chunksize=1000)]
    return shares("columns", timed(fresh().push, parts))


def piped(count: int, form: str = "ISO text") -> float:
    """JSON lines per second of CPU through `tocsin run --input -`, without the start of the process."""
    lines = "".join(json.dumps(row) + "\n" for row in events(count, TIMES[form])).encode()
    few = b"".join(lines.splitlines(keepends=True)[:100])
    with tempfile.TemporaryDirectory() as folder:
        query = Path(folder) / "live.query"
        query.write_text(RARE, encoding="utf-8")
        command = [sys.executable, "-m", "tocsin", "run", str(query), "--input", "-", "--quiet"]
        command += ["--time-unit", "us"] if form == "integers" else []
        seconds = [min(_child(command, given) for _ in range(3)) for given in (few, lines)]
    return (count - 100) / (seconds[1] - seconds[0])


def _child(command: list[str], given: bytes) -> float:
    """Seconds of CPU of a child that is fed through a pipe."""
    before = os.times()
    subprocess.run(command, input=given, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def lists(count: int, form: str) -> float:
    """Events per second of CPU from a list of dicts through `detect`."""
    import tocsin

    rows, query = events(count, TIMES[form]), tocsin.query(RARE)
    unit = {"time_unit": "us"} if form == "integers" else {}
    best = float("inf")
    for _ in range(4):
        gc.collect()
        begin = time.process_time()
        query.detect(rows, **unit)
        best = min(best, time.process_time() - begin)
    return count / best


def measured(*, quick: bool) -> dict[str, Any]:
    """All numbers."""
    from benchmarks.run import machine

    count = 3000 if quick else 20_000
    answer: dict[str, Any] = {"machine": machine()}
    answer |= {"pushes": [pushes(form, order, count) for order in ORDERS for form in TIMES]}
    answer |= columns(100 if quick else 1000)
    for form in TIMES:
        answer[f"list, {form}"] = round(lists(5000 if quick else 200_000, form))
    answer |= {f"pipe, {form}": round(piped(5000 if quick else 200_000, form)) for form in ("integers", "ISO text")}
    answer["compiling"] = compiling.measured(quick=quick)
    answer["machine"]["load_after"] = os.getloadavg()[0]
    return answer


def text(found: dict[str, Any]) -> str:
    """The numbers as a table."""
    lines = ["| times | order | no match: p50 | p99 | match: p50 | p99 |", "|---|---|---:|---:|---:|---:|"]
    for row in found["pushes"]:
        numbers = [row[f"{name}_p{percent}_us"] for name in ("quiet", "match") for percent in (50, 99)]
        lines.append(f"| {row['times']} | {row['order']} | {' | '.join(f'{number:,.1f}' for number in numbers)} |")
    lines += [
        "",
        f"1,000 events in one push of columns: {found['columns_p50_us']:.1f} (p99 {found['columns_p99_us']:.1f}).",
    ]
    speeds = {name: value for name, value in found.items() if name.startswith(("list", "pipe"))}
    said = ", ".join(f"{name} {value / 1e6:.2f}" for name, value in speeds.items())
    if "compiling" in found:
        said += ".\n\n" + compiling.text(found["compiling"]).removesuffix(".")
    return "\n".join([*lines, "", f"Million events per second of CPU: {said}.", "", measured_on(found["machine"])])


def measured_on(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {facts['versions'][name]}" for name in ("numba", "pyarrow"))
    return (
        f"CPU time of one thread; {facts['processor']}, {facts['cores']} cores, Python {facts['python']}, {versions};"
        f" load average {facts['load_before']:.1f} before and {facts['load_after']:.1f} after."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few events: does it work?")
    found = measured(quick=(options := parser.parse_args()).quick)
    sys.stdout.write(text(found) + "\n")
    if not options.quick:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
