"""What the host calls, with arrays: each takes their addresses and hands on."""

# mypy: disable-error-code="no-any-return"
# (what is read through a pointer or a memoryview has no type here)

from __future__ import annotations

from typing import Any

from tocsin.engine.runtime.buffers import compact
from tocsin.engine.runtime.keys import sweep_keys
from tocsin.engine.runtime.plain import entry, pointer
from tocsin.engine.runtime.purge import sweep
from tocsin.engine.runtime.waiting import wait


@entry
def compact_entry(T: Any, H: Any, R: int, D: Any, buffers: int, first: int, newH: Any, copy: bool) -> int:
    return compact(pointer(T), pointer(H), R, pointer(D), buffers, first, pointer(newH), copy)


@entry
def sweep_entry(T: Any, KM: Any, newKM: Any, size: int, D: Any, N: Any, leaves: int, alive: Any) -> None:
    sweep_keys(pointer(T), pointer(KM), pointer(newKM), size, pointer(D), pointer(N), leaves, pointer(alive))


@entry
def wait_entry(T: Any, PD: Any) -> None:
    wait(pointer(T), pointer(PD))


@entry
def purge_entry(T: Any, H: Any, R: int, D: Any, N: Any, buffers: int, P: Any, HA: Any) -> int:
    return sweep(pointer(T), pointer(H), R, pointer(D), pointer(N), buffers, pointer(P), pointer(HA))
