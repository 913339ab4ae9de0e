"""Spilling beside the same run in memory: speed, memory, disk; python -m benchmarks.spill [events].

The query is a theft with a large window, 5 % of the events are late by up to half the stream and nobody knows by how
much, so everything has to be kept. The limit is a twentieth of that. Each arm is a process of its own; times are CPU.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from tocsin.encode import Columns, Encoder, infer_schema
from tocsin.engine.changes import Changes
from tocsin.engine.detector import Detector
from tocsin.engine.partial_state import bytes_used
from tocsin.items import Items, Strings, end
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.facts import types_of
from tocsin.plan.passes import optimize
from tocsin.spill.detector import Spilling
from tocsin.testing.delays import Uniform
from tocsin.testing.streams import Arrivals, table

BATCH = 16_384


def stream(events: int, path: Path) -> None:
    """Write the events to a file in order of arrival, in batches."""
    arrivals = Arrivals(
        events=events,
        types={"A": 1, "B": 1, "C": 1},
        unit=1,
        disorder=0.05,
        delay=Uniform(events // 2),
        keys=2000,
        seed=3,
    )
    rows = table(arrivals)
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=BATCH)


def prepared(path: Path, held: bool) -> tuple[Detector, Iterator[Items]]:
    """A detector and its events; of answers that are held, the delay is known."""
    file = pa.ipc.open_file(pa.OSFile(str(path)))
    events = BATCH * file.num_record_batches
    schema = infer_schema(file.schema, Columns().resolve(file.schema.names), types={"A", "B", "C"})
    query = parse(f"SEQ(A a, !C c, B b) WHERE [id] WITHIN {events // 100}")
    plan, strings = optimize(bind(query, schema, {}), frozenset()), Strings()
    types = types_of(plan)
    late, hold = (events // 2, types) if held else (None, ())
    detector = Detector(plan, types, strings, ordered=False, late=late, hold=hold)
    encoder = Encoder(schema, types, strings, wanted=detector.reads)
    return detector, (encoder.encode(file.get_batch(at)) for at in range(file.num_record_batches))


def checksum(several: Changes) -> tuple[int, int]:
    """The number of matches less those withdrawn, and the sum of their signed identities."""
    count, total = 0, 0
    for changes in several:
        count += int(changes.op.sum())
        high, low = changes.identity
        signs = changes.op.astype(np.int64).view(np.uint64)
        total += int(((high ^ low) * signs).sum())
    return count, total % 2**64


def arm(name: str, path: Path, limit: int) -> dict[str, object]:
    """One run: CPU seconds from reading the events to naming the matches, and of the detector alone."""
    detector, batches = prepared(path, name.startswith("held"))
    spilling = Spilling(detector, limit) if limit else None
    start, detecting, state, count, total = time.process_time(), 0.0, 0, 0, 0
    for at, items in enumerate(chain(batches, [None])):
        if items is None or at % 8 == 7:
            state = max(state, bytes_used(detector))
        began = time.process_time()
        if items is None:
            items = end()
        found = (spilling or detector).push(items)
        detecting += time.process_time() - began
        n, words = checksum(found)
        count, total = count + n, (total + words) % 2**64
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    result = {"arm": name, "seconds": seconds, "detecting": detecting, "state": state, "rss_mb": peak}
    result |= {"matches": count, "sum": total}
    if spilling:
        result |= {"limit": limit, **asdict(spilling.spilled)}
        spilling.close()
    return result


def main(events: int) -> None:
    with TemporaryDirectory() as folder:
        small, large = Path(folder, "small.arrow"), Path(folder, "large.arrow")
        stream(20_000, small)
        stream(events, large)
        for kind in ("aggressive", "held"):
            whole = _alone(kind, large, 0)
            part = _alone(f"{kind}, spilling", large, int(whole["state"]) // 20)
            same = (whole["matches"], whole["sum"]) == (part["matches"], part["sum"])
            print(json.dumps(whole))
            print(json.dumps(part))
            run, alone = (whole[what] / part[what] for what in ("seconds", "detecting"))
            answers = f"{kind}: {'identical' if same else 'DIFFERENT'} answers"
            print(f"{answers}; of the speed in memory the run has {run:.0%}, the detector alone {alone:.0%}")


def _alone(name: str, path: Path, limit: int) -> dict[str, float]:
    """The arm in a process of its own, after a small run that loads the kernels."""
    command = [sys.executable, "-m", "benchmarks.spill", name, str(path), str(limit)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    if len(sys.argv) > 2:
        name, path, limit = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
        arm(name, path.with_name("small.arrow"), 500_000 if limit else 0)
        print(json.dumps(arm(name, path, limit)))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
