"""With TOCSIN_BOUNDS=1 kernels and the runtime refuse every access outside their tables, plain and compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

DAMAGED = """
import sys
import numpy as np
from tocsin.engine import runtime

jit = sys.argv[1] == "jit"
library = runtime.library(jit)
if jit:
    runtime.declare("compact_entry")


def compact(begin, end):
    T, H, new = np.zeros(runtime.PARAMS, np.int64), np.zeros(40, np.int64), np.zeros(40, np.int64)
    T[runtime.HORIZON] = -5
    D = np.array([0, begin, end, 16], np.int32)
    arrays = [T, H, D, new] if jit else [array.data for array in (T, H, D, new)]
    try:
        library.compact_entry(arrays[0], arrays[1], 2, arrays[2], 1, 0, arrays[3], True)
    except IndexError as problem:
        return type(problem).__name__
    return "fine"


print(compact(2, 8), compact(-3, 2), compact(18, 21))
"""
DETECTED = """
import sys
import tocsin

events = [{"type": "ABC"[t % 3], "time": t, "k": t % 2, "v": t * 7 % 5} for t in range(60)]
for text in (
    "EVENT SEQ(A a, !C c, B b) WHERE [k] AND a.v < b.v WITHIN 9",
    "EVENT SEQ(A a, C+ c, B b) WHERE sum(c.v) > a.v WITHIN 9",
):
    query = tocsin.query(text)
    found = query.detect(events, jit=sys.argv[1] == "jit")
    print(sorted((match["start"], match["end"], match["match_id"]) for match in found))
"""


def answer(script: str, way: str, *, bounds: bool) -> str:
    environment = os.environ | {"TOCSIN_BOUNDS": "1" if bounds else "0"}
    done = subprocess.run(
        [sys.executable, "-c", script, way], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("way", ["plain", pytest.param("jit", marks=pytest.mark.jit)])
def test_an_access_outside_a_table_is_an_error(way: str) -> None:
    assert answer(DAMAGED, way, bounds=True).split() == ["fine", "IndexError", "IndexError"]


@pytest.mark.parametrize("way", ["plain", pytest.param("jit", marks=[pytest.mark.jit, pytest.mark.long])])
def test_what_is_checked_answers_as_always(way: str) -> None:
    found = answer(DETECTED, way, bounds=True)
    assert found == answer(DETECTED, "plain", bounds=False)
    assert found.count("'") > 10
