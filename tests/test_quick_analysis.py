"""What tests compile with Numba's analyses computed faster is what Numba compiles by itself, to the instruction."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import analysis

from tocsin import quick_analysis
from tocsin.engine import kernels
from tocsin.engine.codegen import Shape, generate
from tocsin.testing.harness import Harness, schema_of
from tocsin.testing.strategies import pair

pytestmark = pytest.mark.jit


@pytest.fixture
def as_it_was() -> Iterator[None]:
    on = analysis.compute_live_map is quick_analysis.live_map
    yield
    (quick_analysis.switch_on if on else quick_analysis.switch_off)()


def sample(values: Any, reals: Any, limit: int) -> tuple[float, int]:
    """Loops in loops, variables that live across blocks or die on one way, numbers of every kind."""
    total, count, last = 0.0, 0, -1
    for at in range(len(values)):
        value = values[at]
        if value % 3 == 1 and not value > limit:
            continue
        number = value
        while number > 1:
            number = number // 2 if number % 2 == 0 else 3 * number + 1
            if count > limit:
                break
            count += 1
        else:
            last = at
        total += reals[at] / (1 + abs(value)) if last >= 0 else -1.5
    return total, count ^ last


def code_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """The LLVM code of a function; global names hold numbers that Numba counts on."""
    compiled = numba.njit(function)
    compiled(*arguments)
    (text,) = compiled.inspect_llvm().values()
    return without_names(text)


def without_names(text: str) -> str:
    """The functions of a module but those of Numba's own that it may share, with a number for each global name."""
    text = re.sub(r"^define linkonce_odr .*?^}$", "", text, flags=re.DOTALL | re.MULTILINE)
    functions = "\n".join(line for line in text.splitlines() if line and line[0] not in ";@s")
    functions = re.sub(r" +; preds = .*", "", re.sub(r"B\d+v\d+(?=B)", "", functions))  # labels hold names, too
    names: dict[str, str] = {}
    return re.sub(r'@("[^"]*"|[\w.$]+)', lambda name: names.setdefault(name[0], f"@{len(names)}"), functions)


def test_the_code_is_the_same_to_the_instruction(as_it_was: None) -> None:
    given = (np.arange(1, 40), np.linspace(0, 1, 39), 60)
    quick_analysis.switch_on()
    quickly = code_of(sample, given)
    quick_analysis.switch_off()
    assert quickly == code_of(sample, given)
    assert len(quickly.splitlines()) > 200
    assert numba.njit(sample)(*given) == sample(*given)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_kernels_of_drawn_queries_are_the_same_to_the_instruction(as_it_was: None, seed: int) -> None:
    query, events = pair(Random(f"analysis {seed}"))
    plan = Harness(query, schema_of(events)).plan
    codes = []
    for switch in (quick_analysis.switch_on, quick_analysis.switch_off):
        switch()
        kernel = kernels._compiled_here(generate(plan, plan.alternatives[0], Shape(intervals=True, eids=True), {}), {})
        codes.append([without_names(text) for text in kernel.run.inspect_llvm().values()])
    assert codes[0] == codes[1] and len(codes[0]) == 1
