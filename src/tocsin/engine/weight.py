"""About how many bytes an operator keeps: its arrays, tables and Python objects, large collections by a sample."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

SAMPLE = 64  # entries of a collection that are looked at; the others are taken to be like them
SHARED = ("tocsin.plan", "tocsin.lang", "tocsin.schema", "tocsin.functions", "tocsin.compilers", "tocsin.items.Strings",
          "tocsin.engine.kernels", "tocsin.engine.codegen", "tocsin.engine.tiers", "threading", "numba")  # fmt: skip
ATOMS = (int, float, complex, bool, str, bytes, bytearray, type(None))
TABLES = (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)


def bytes_kept(kept: Any, apart: Iterable[Any] = ()) -> int:
    """Bytes of an object and of all that it alone holds; what is `apart` is counted elsewhere.

    >>> bytes_kept([np.zeros(1000)]) >= 8000
    True
    """
    seen = {id(each) for each in apart}
    total, waiting = 0.0, [(kept, 1.0)]
    while waiting:
        each, often = waiting.pop()
        if id(each) in seen or _is_shared(each):
            continue
        seen.add(id(each))
        size, parts, share = _weighed(each)
        total += often * size
        waiting += [(part, often * share) for part in parts]
    return int(total)


def _weighed(each: Any) -> tuple[int, list[Any], float]:
    """The bytes of one object, the parts that it refers to, and how many each of these stands for."""
    match each:
        case np.ndarray():
            return (each.nbytes, [], 1.0) if each.base is None else (0, [each.base], 1.0)
        case pa.Table() | pa.RecordBatch() | pa.Array() | pa.ChunkedArray():
            return each.nbytes, [], 1.0
        case memoryview():
            return 0, [each.obj], 1.0
        case dict():
            size, parts = sys.getsizeof(each), list(islice(each.items(), SAMPLE))
            return size, [part for pair in parts for part in pair], max(1.0, len(each) / SAMPLE)
        case list() | tuple() | set() | frozenset() | deque():
            return sys.getsizeof(each), list(islice(each, SAMPLE)), max(1.0, len(each) / SAMPLE)
    if isinstance(each, ATOMS):
        return sys.getsizeof(each), [], 1.0
    return sys.getsizeof(each), list(_fields(each)), 1.0


def _fields(each: Any) -> Iterator[Any]:
    yield from getattr(each, "__dict__", {}).values()
    for kind in type(each).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(each, name):
                yield getattr(each, name)


def _is_shared(each: Any) -> bool:
    """Whether it is no state: code, or what describes a query, or what all queries share."""
    if isinstance(each, (type, ModuleType, FunctionType, MethodType)):
        return True
    kind = type(each)
    return f"{kind.__module__}.{kind.__qualname__}".startswith(SHARED)
