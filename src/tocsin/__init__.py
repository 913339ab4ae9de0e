"""Tocsin: patterns in time. Complex event detection in streams and in history.

    import tocsin

    theft = tocsin.query("EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h")
    theft.detect("events.csv")

README.md shows more, docs/ explains it, and MAP.md lists what is where.

The import itself is quick: Arrow, Numba and the rest are loaded when the first name that needs them is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tocsin.errors import InputError, LimitError, QueryError, StateError, TocsinError
from tocsin.events import Event
from tocsin.run.declared import declare as schema  # a name that a module has too: only what is there at once hides it
from tocsin.schema import Field, Kind, Schema

if TYPE_CHECKING:
    from tocsin.functions import function
    from tocsin.lang.fluent import all_of, any_event, any_of, call, col, event, exists, iseq, lit, rel, same, seq
    from tocsin.run.clock import Clock
    from tocsin.run.matches import Matches
    from tocsin.run.metrics_server import serve_metrics
    from tocsin.run.query import Query, query
    from tocsin.run.session import Session

__version__ = "0.2.0"

FLUENT = ("all_of", "any_event", "any_of", "call", "col", "event", "exists", "iseq", "lit", "rel", "same", "seq")
LATE = {
    "Clock": "run.clock",
    "Matches": "run.matches",
    "Query": "run.query",
    "Session": "run.session",
    "function": "functions",
    "query": "run.query",
    "serve_metrics": "run.metrics_server",
    **dict.fromkeys(FLUENT, "lang.fluent"),
}  # where the names are that are loaded on first use


def __getattr__(name: str) -> object:
    """Load a public name on its first use."""
    if name not in LATE:
        raise AttributeError(f"module 'tocsin' has no attribute {name!r}")
    found: object = getattr(import_module(f"tocsin.{LATE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *LATE})


__all__ = [
    "Clock",
    "Event",
    "Field",
    "InputError",
    "Kind",
    "LimitError",
    "Matches",
    "Query",
    "QueryError",
    "Schema",
    "Session",
    "StateError",
    "TocsinError",
    "all_of",
    "any_event",
    "any_of",
    "call",
    "col",
    "event",
    "exists",
    "function",
    "iseq",
    "lit",
    "query",
    "rel",
    "same",
    "schema",
    "seq",
    "serve_metrics",
]
