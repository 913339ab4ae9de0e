"""The arm of the product, and what is measured of it alone: latency, compile time, and whether state stays flat.

Everything the benchmarks need to know of the engine is in `prepare`, `compiled` and `run`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import compiling
from benchmarks.workloads import TYPES, WORKLOADS, stream

CHUNK = 1 << 17  # rows per push


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled query and its input: `fresh` gives a detector that has seen nothing, `encode` makes Items."""

    fresh: Callable[[], Any]
    encode: Callable[[pa.RecordBatch], Any]
    batches: tuple[pa.RecordBatch, ...]
    chunks: tuple[Any, ...]


def prepare(query: str, table: pa.Table, *, jit: bool = True, ordered: bool = True, encoded: bool = True) -> Prepared:
    """Parse, bind, compile; and turn the table into Items, in chunks (or leave that to the clock)."""
    fresh, encoder = compiled(query, table.schema, jit=jit, ordered=ordered)
    batches = tuple(table.to_batches(max_chunksize=CHUNK))
    chunks = tuple(encoder.encode(batch) for batch in batches) if encoded else ()
    return Prepared(fresh, encoder.encode, () if encoded else batches, chunks)


def compiled(query: str, schema: pa.Schema, *, jit: bool = True, ordered: bool = True) -> tuple[Callable[[], Any], Any]:
    """A maker of detectors for the query, and the encoder that feeds them."""
    from tocsin.encode import Columns, Encoder, infer_schema
    from tocsin.engine.detector import Detector
    from tocsin.items import Strings
    from tocsin.lang.parser import parse
    from tocsin.lang.syntax import leaves_of
    from tocsin.plan.bind import bind
    from tocsin.plan.passes import optimize

    columns, strings, syntax = Columns(), Strings(), parse(query)
    types = tuple(dict.fromkeys(leaf.type for leaf in leaves_of(syntax.pattern)))
    known = infer_schema(schema, columns, TYPES)
    plan = optimize(bind(syntax, known))

    def fresh() -> Any:
        return Detector(plan, types, strings, jit=jit, ordered=ordered)

    return fresh, Encoder(known, types, strings, columns, ("key", "v"))


def run(prepared: Prepared) -> int:
    """Push everything into a fresh detector; the number of matches that remain."""
    return work(prepared)()


def work(prepared: Prepared) -> Callable[[], int]:
    """The same in two steps: the detector is made now, the pushing is left to the caller's clock."""
    detector = prepared.fresh()
    return lambda: sum(matches(detector.push(items)) for items in prepared.chunks)


def work_from_arrow(prepared: Prepared) -> Callable[[], int]:
    """The same from Arrow batches, as a user has them."""
    detector = prepared.fresh()
    return lambda: sum(matches(detector.push(prepared.encode(batch))) for batch in prepared.batches)


def matches(changes: Any) -> int:
    """Insertions minus withdrawals."""
    return sum(int(np.sum(batch.op, dtype=np.int64)) for batch in changes)


# --- W5: latency ---------------------------------------------------------------------------------------------------


def latency(*, quick: bool) -> dict[str, Any]:
    """Microseconds per push on W1-100: items of 1 to 1000 rows, and one Python dict to its changes."""
    load = WORKLOADS["W1-100"]
    table = stream(load, 20_000 if quick else 200_000).table()
    fresh, encoder = compiled(load.query, table.schema)
    answer: dict[str, Any] = {}
    for rows in (1, 10, 100, 1000):
        detector = fresh()
        some = table.slice(0, min(len(table), 2000 * rows))
        pushes = [encoder.encode(part) for part in some.to_batches(max_chunksize=rows)]
        answer |= percentiles(f"push_{rows}", timed(detector.push, pushes))
    return answer | percentiles("dict", dict_times(load.query, table))


def dict_times(query: str, table: pa.Table) -> list[int]:
    """From a Python dict to its changes, by the public interface."""
    import tocsin

    live = tocsin.query(query).stream(schema={"*": {"key": "int", "v": "float"}})
    return timed(live.push, table.slice(0, 20_000).to_pylist())


def timed(call: Callable[[Any], Any], arguments: list[Any]) -> list[int]:
    """Nanoseconds of each call; the first tenth warms up."""
    times = []
    clock = time.perf_counter_ns
    for argument in arguments:
        begin = clock()
        call(argument)
        times.append(clock() - begin)
    return times[len(times) // 10 :]


def percentiles(name: str, times: list[int]) -> dict[str, float]:
    return {f"{name}_p{percent}_us": float(np.percentile(times, percent)) / 1e3 for percent in (50, 99)}


# --- compile times -------------------------------------------------------------------------------------------------


def steps(number: int) -> str:
    """A query of so many steps with one condition between neighbours."""
    names = TYPES.lower()[:number]
    parts = ", ".join(f"{name.upper()} {name}" for name in names)
    conditions = " AND ".join(f"{b}.v > {a}.v" for a, b in pairwise(names))
    return f"EVENT SEQ({parts}) WHERE [key] AND {conditions} WITHIN 100"


def compile_times(*, quick: bool) -> dict[str, Any]:
    """Seconds of CPU: what a compiler's process needs with an empty cache, and from text to changes with a warm one."""
    del quick  # compiling takes what it takes
    cold = {number: compiling.child("cold", str(number)) for number in (4, 8)}
    with tempfile.TemporaryDirectory() as cache:
        compile_child(cache)
        warm = compile_child(cache)
    found = {f"cold_{number}_s": each["first_s"] for number, each in cold.items()}
    found |= {f"cold_{number}_rarer_s": each["rarer_s"] for number, each in cold.items()}
    return found | {f"cached_{n}_s": warm[n] for n in warm}


def compile_child(cache: str) -> dict[str, float]:
    """Seconds from the texts of chains to their first changes, in a process of its own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "XDG_CACHE_HOME": cache, "TOCSIN_CACHE": cache}
    program = "import json; from benchmarks.ours import compile_all; print(json.dumps(compile_all((2, 4, 8))))"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def compile_all(numbers: tuple[int, ...]) -> dict[int, float]:
    table = stream(WORKLOADS["W1-100"], 1000).table()
    return {number: compile_once(steps(number), table) for number in numbers}


def compile_once(query: str, table: pa.Table) -> float:
    begin = time.process_time()
    run(prepare(query, table))
    return time.process_time() - begin


# --- flat state ----------------------------------------------------------------------------------------------------


def flat_state(*, quick: bool) -> dict[str, Any]:
    """Memory of the process while keys never repeat: after a tenth of the chunks, and after all of them."""
    chunk, chunks = (100_000, 20) if quick else (1_000_000, 50)
    load = WORKLOADS["W1-100"]
    base = stream(load, chunk)
    fresh, encoder = compiled(load.query, base.table().schema)
    detector = fresh()
    sizes = []
    for number in range(chunks):
        columns = {
            "type": base.table()["type"],
            "time": base.time + number * (chunk // load.per_tick),
            "key": np.arange(number * chunk, (number + 1) * chunk, dtype=np.int64),
            "v": base.v,
        }
        detector.push(encoder.encode(pa.table(columns)))
        sizes.append(resident())
    early = max(sizes[: max(2, chunks // 10)])
    return {"events": chunk * chunks, "early_bytes": early, "late_bytes": sizes[-1], "growth": sizes[-1] / early}


def resident() -> int:
    """Bytes of memory in use now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        from benchmarks.run import peak_memory

        return peak_memory()
    return pages * os.sysconf("SC_PAGE_SIZE")
