"""Answers that wait for time to pass, as a binary heap on the time they wait for."""

# mypy: disable-error-code="no-any-return"
# (what is read through a pointer or a memoryview has no type here)

from __future__ import annotations

from typing import Any

from tocsin.engine.runtime.plain import compiled
from tocsin.engine.runtime.words import FRESH, REWAIT, WAIT_WIDTH, WAITING


@compiled
def wait(T: Any, PD: Any) -> None:
    """Take the fresh entries behind the heap into the heap."""
    for _ in range(T[FRESH]):
        child = T[WAITING]
        T[WAITING] = child + 1
        while child > 0:
            parent = (child - 1) >> 1
            if PD[parent * T[WAIT_WIDTH]] <= PD[child * T[WAIT_WIDTH]]:
                break
            swap(T, PD, parent, child)
            child = parent
    T[FRESH] = 0


@compiled
def swap(T: Any, PD: Any, one: int, other: int) -> None:
    width = T[WAIT_WIDTH]
    for k in range(width):
        word = PD[one * width + k]
        PD[one * width + k] = PD[other * width + k]
        PD[other * width + k] = word


@compiled
def sink(T: Any, PD: Any) -> None:
    """Restore the heap after its first entry changed."""
    parent = 0
    while 2 * parent + 1 < T[WAITING]:
        child = 2 * parent + 1
        if child + 1 < T[WAITING] and PD[(child + 1) * T[WAIT_WIDTH]] < PD[child * T[WAIT_WIDTH]]:
            child += 1
        if PD[parent * T[WAIT_WIDTH]] <= PD[child * T[WAIT_WIDTH]]:
            return
        swap(T, PD, parent, child)
        parent = child


@compiled
def unwait(T: Any, PD: Any) -> None:
    """Drop the first entry of the heap: entries move up until the last one fits into the hole."""
    last = T[WAITING] - 1
    width = T[WAIT_WIDTH]
    T[WAITING] = last
    time = PD[last * width]
    hole = 0
    while 2 * hole + 1 < last:
        child = 2 * hole + 1
        if child + 1 < last and PD[(child + 1) * width] < PD[child * width]:
            child += 1
        if time <= PD[child * width]:
            break
        for k in range(width):
            PD[hole * width + k] = PD[child * width + k]
        hole = child
    for k in range(width):
        PD[hole * width + k] = PD[last * width + k]


@compiled
def rewait(T: Any, PD: Any) -> None:
    """Let the first entry of the heap wait on, until T[REWAIT]."""
    PD[0] = T[REWAIT]
    sink(T, PD)
