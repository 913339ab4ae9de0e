"""Comparisons of decimals are exact, also where a value does not fit at the larger scale."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tocsin.errors import QueryError
from tocsin.events import Event
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.explain import explain
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.modes import Mode, run
from tocsin.testing.oracle import matches

TWO = {"near": Decimal("1.50"), "far": Decimal("9999999999999999.99"), "below": Decimal("-9999999999999999.99")}
FOUR = {"fine": Decimal("1.5000"), "top": Decimal("99999999999999.9999"), "bottom": Decimal("-99999999999999.9999")}
WHOLE = {"one": 1, "most": 2**63 - 1, "least": -(2**63)}
ATTRS = {**TWO, **FOUR, **WHOLE, "none": None}
SCHEMA = Schema(
    types={"A": {}, "B": {}},
    common={
        **{name: Field(name, Kind.DECIMAL, scale=2) for name in (*TWO, "none")},
        **{name: Field(name, Kind.DECIMAL, scale=4) for name in FOUR},
        **{name: Field(name, Kind.INT) for name in WHOLE},
    },
)
PAIRS = [
    ("near", "fine"),
    ("far", "top"),
    ("below", "top"),
    ("far", "bottom"),
    ("below", "bottom"),
    ("most", "top"),
    ("least", "bottom"),
    ("most", "far"),
    ("least", "below"),
    ("one", "fine"),
    ("none", "top"),
]


@pytest.mark.parametrize("order", ["{0} {op} {1}", "{1} {op} {0}", "NOT {0} {op} {1}"])
@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_what_does_not_fit_is_still_compared(left: str, right: str, op: str, order: str) -> None:
    events = [Event("A", 1, 1, 1, ATTRS), Event("B", 2, 2, 2, ATTRS)]
    query = parse("EVENT SEQ(A a, B b) WHERE " + order.format(f"a.{left}", f"b.{right}", op=op))
    expected = {match.binding for match in matches(query, events)}
    assert set(run(query, events, Mode(), schema=SCHEMA)) == expected


def test_the_oracle_means_the_numbers() -> None:
    events = [Event("A", 1, 1, 1, ATTRS), Event("B", 2, 2, 2, ATTRS)]
    assert matches(parse("EVENT SEQ(A a, B b) WHERE a.far > b.top AND a.least < b.bottom AND a.near = b.fine"), events)
    assert not matches(parse("EVENT SEQ(A a, B b) WHERE NOT a.far > b.top"), events)


def test_the_plan_shows_the_comparison_as_it_was_written() -> None:
    assert "a.far < b.top" in explain(bind(parse("EVENT SEQ(A a, B b) WHERE a.far < b.top"), SCHEMA))


def test_a_constant_of_too_many_digits_is_refused() -> None:
    with pytest.raises(QueryError, match="more than 18 digits"):
        bind(parse("EVENT A a WHERE a.top < 1000000000000000000"), SCHEMA)
