"""How many bytes a partition costs that is alive: one event of each key has come, and the partition waits for another.

    python -m benchmarks.staged.alive             a million keys compiled, a hundred thousand in plain Python
    python -m benchmarks.staged.alive --quick     a tenth of that

What is measured is memory that Python and NumPy have asked for (tracemalloc), between two full collections, when the
last event is in. What the same events cost by themselves is measured apart and taken off: as rows of numbers for the
compiled body, as objects for the plain one.
"""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
from collections.abc import Iterator

os.environ["TOCSIN_COMPILE_FIRST"] = "1"  # what is measured is one body, not a change from one to the other

import numpy as np
import pyarrow as pa

from tocsin import query
from tocsin.encode.columns import Columns, infer_schema
from tocsin.graph.query_graph import QueryGraph
from tocsin.run.query import plans_of
from tocsin.staged.event import StagedEvent

STATEMENTS = {
    "consuming join": "CreateCE P Select A.k as k Event And(A<rows 3, consume>, B<consume>) GKey *.k",
    "open context": "CreateCE P Select Max(i.k) as k Init A as i Event And(B, C) Term T GKey *.k",
}
AT_ONCE = 100_000


def batches(count: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, count, AT_ONCE):
        numbers = np.arange(first, min(count, first + AT_ONCE))
        kinds = pa.DictionaryArray.from_arrays(np.zeros(len(numbers), np.int32), pa.array(["A"]))
        yield pa.RecordBatch.from_pydict({"type": kinds, "time": numbers, "k": numbers, "x": numbers % 7})


def used() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def bytes_of_partitions(text: str, count: int, *, jit: bool) -> float:
    """Bytes for each partition, with its event."""
    first = next(batches(1))
    columns = Columns().resolve(first.schema.names)
    schema = infer_schema(first.schema, columns)
    warm, graph = (QueryGraph(plans_of(query(text).queries, schema), schema, columns, jit=jit) for _ in range(2))
    warm.push(warm.encode(next(batches(5000))))  # what compiling leaves behind does not count
    del warm
    graph.push(graph.encode(first))
    before = used()
    for batch in batches(count):
        graph.push(graph.encode(batch))
    return (used() - before) / count


def bytes_of_events(count: int) -> float:
    """Bytes for each event of the plain body, which has it as an object."""
    before = used()
    events = [StagedEvent(at, "A", at, at, {"k": at, "x": at % 7}) for at in range(count)]
    found = (used() - before) / len(events)
    del events
    return found


def main() -> None:
    share = 10 if "--quick" in sys.argv else 1
    tracemalloc.start()
    row = 8 * 5  # type, start, end and two attributes
    for name, text in STATEMENTS.items():
        for jit, most in ((True, 1_000_000), (False, 100_000)):
            count = most // share
            whole = bytes_of_partitions(text, count, jit=jit)
            own = row if jit else bytes_of_events(count)
            body = "compiled" if jit else "plain"
            each = f"{whole:6.0f} bytes each, {whole - own:6.0f} beyond its event"
            print(f"{name:15} {body:9} {count:9,} partitions: {each}", flush=True)


if __name__ == "__main__":
    main()
