"""From Arrow and from Python objects to Items: what the kernels read is int64 and float64, and nothing is rounded.

A value that has no exact place inside (a number beyond 64 bits, a decimal of more than 18 digits, time finer than a
microsecond, a text among numbers) is an error that names the row, never a silent change.
"""

from tocsin.encode.arrow import BadRowError
from tocsin.encode.batch import Encoder, TimesAndEids, frame, one_batch
from tocsin.encode.columns import Columns, infer_schema
from tocsin.encode.eids import hash_texts
from tocsin.encode.objects import from_dicts

__all__ = [
    "BadRowError",
    "Columns",
    "Encoder",
    "TimesAndEids",
    "frame",
    "from_dicts",
    "hash_texts",
    "infer_schema",
    "one_batch",
]
