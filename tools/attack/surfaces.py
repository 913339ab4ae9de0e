"""The list of surfaces; each module is loaded when its first input is drawn."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from tools.attack.core import Surface

NAMES = (
    "query_text",
    "clauses",
    "staged_text",
    "derived_text",
    "trace_text",
    "rows",
    "files",
    "snapshots",
    "live_state",
    "shard_logs",
    "toml_files",
    "case_files",
    "functions",
    "threads",
    "pipes",
    "scrapes",
    "kernels",
    "caches",
)


@cache
def surface(name: str) -> Surface:
    """Return the surface with this name, which is also that of its module."""
    found: Surface = import_module(f"tools.attack.{name}").SURFACE
    return found
