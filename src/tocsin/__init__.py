"""Tocsin: patterns in time. Complex event detection in streams and in history.

    import tocsin

    theft = tocsin.query("EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h")
    theft.detect("events.csv")

README.md shows more, docs/ explains it, and MAP.md lists what is where.
"""

from tocsin.errors import InputError, LimitError, QueryError, StateError, TocsinError
from tocsin.events import Event
from tocsin.functions import function
from tocsin.lang.fluent import all_of, any_event, any_of, call, col, event, exists, iseq, lit, rel, same, seq
from tocsin.run.clock import Clock
from tocsin.run.matches import Matches
from tocsin.run.query import Query, query
from tocsin.run.schemas import declare as schema
from tocsin.run.session import Session
from tocsin.schema import Field, Kind, Schema

__version__ = "0.2.0"

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
]
