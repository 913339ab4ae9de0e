"""User functions: well-behaved ones agree with the oracle, all others are one clear error; compiled code agrees."""

# ruff: noqa: ARG005 - some functions look at nothing
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import tocsin
from tocsin.errors import TocsinError
from tocsin.functions import registered
from tools.attack import sides
from tools.attack.core import Input, Surface, WrongAnswerError

NAME = "attacked"
COMPILED = 0.02  # of the inputs with functions of numbers; each takes seconds


def raises(x: Any) -> Any:
    raise ValueError(x)


class Callable2:
    """An object that can be called."""

    def __call__(self, x: Any) -> bool:
        return bool(x > 1)

    def method(self, x: Any) -> bool:
        return bool(x > 1)


def add(x: Any, y: Any) -> Any:
    return x + y


# What is registered: the kind of its result, the function, and how it is registered. The names are in kept inputs.
ONE: dict[str, tuple[str, Callable[..., Any], dict[str, Any]]] = {
    "even": ("bool", lambda x: x % 2 == 0, {}),
    "none": ("bool", lambda x: None if x > 1 else True, {}),
    "raises": ("bool", raises, {}),
    "text for bool": ("bool", lambda x: "yes", {}),
    "float for int": ("int", lambda x: x + 0.5, {}),
    "nan": ("float", lambda x: math.nan, {}),
    "nan for int": ("int", lambda x: math.nan, {}),
    "infinite": ("float", lambda x: math.inf if x else -math.inf, {}),
    "huge": ("int", lambda x: 2**63 + x, {}),
    "number for text": ("text", lambda x: x, {}),
    "surrogate": ("text", lambda x: "\ud800", {}),
    "list": ("float", lambda x: [x], {}),
    "numpy scalar": ("int", lambda x: np.int32(x) + 0, {}),
    "numpy bool": ("bool", lambda x: np.bool_(x > 1), {}),
    "builtin": ("int", abs, {}),
    "partial": ("int", functools.partial(add, 1), {}),
    "object": ("bool", Callable2(), {}),
    "method": ("bool", Callable2().method, {}),
    "class": ("int", int, {}),
    "star": ("int", lambda *x: len(x), {}),
    "default": ("int", lambda x, y=3: x + y, {}),
    "keyword": ("int", lambda x, *, y: x + y, {}),
    "takes nulls": ("bool", lambda x: x is None, {"nulls": True}),
    "array": ("bool", lambda x: x > 1, {"vectorised": True}),
    "array of floats": ("int", lambda x: np.asarray(x) * 1.0, {"vectorised": True}),
    "short array": ("bool", lambda x: (np.atleast_1d(x) > 1)[:-1], {"vectorised": True}),
    "long array": ("int", lambda x: np.append(x, x), {"vectorised": True}),
    "scalar for array": ("int", lambda x: 1, {"vectorised": True}),
    "none for array": ("int", lambda x: None, {"vectorised": True}),
    "objects": ("float", lambda x: np.array([None] * np.size(x), object), {"vectorised": True}),
    "deep array": ("int", lambda x: np.zeros((np.size(x), 2)), {"vectorised": True}),
    "nan array": ("float", lambda x: np.asarray(x) * math.nan, {"vectorised": True}),
    "raising array": ("bool", raises, {"vectorised": True}),
}
TWO: dict[str, tuple[str, Callable[..., Any], dict[str, Any]]] = {
    "sum": ("int", add, {}),
    "product": ("int", lambda x, y: x * y, {}),
    "quotient": ("float", lambda x, y: x / y, {}),
    "remainder": ("int", lambda x, y: x % y, {}),
    "power": ("float", lambda x, y: float(x) ** y, {}),
    "less": ("bool", lambda x, y: x < y, {}),
    "none of two": ("int", lambda x, y: None, {}),
    "raises if equal": ("int", lambda x, y: 1 // (x - y), {}),
    "text of two": ("text", lambda x, y: f"{x}{y}", {}),
    "whole": ("int", lambda x, y: x / 2, {}),
}
TESTS = {"bool": "{}", "int": "{} > 1", "float": "{} > 0.5", "text": "{} = '11'"}
MISSHAPEN = ("short array", "long array", "deep array")
NUMBERS = (0, 1, 1, 2, 3, -1, None, 2**62, 2**63 - 1, -(2**63))


def make(random: Random) -> Input:
    """Draw a function and events."""
    chosen = random.choice(list(ONE if random.random() < 0.6 else TWO))
    count = random.randint(0, 6)
    rows = [
        {"type": "AB"[at % 2], "time": at, "eid": at, "v": random.choice(NUMBERS[: random.choice((4, 7, 10))])}
        for at in range(count)
    ]
    return {"function": chosen, "rows": rows, "jit": chosen in TWO and random.random() < COMPILED}


def judge(given: Input) -> None:
    """Register, ask, and compare with the oracle, which calls the function on each event by itself."""
    two = given["function"] in TWO
    returns, call, options = (TWO if two else ONE)[given["function"]]
    called = f"{NAME}(a.v, b.v)" if two else f"{NAME}(a.v)"
    text = f"EVENT {'SEQ(A a, B b)' if two else 'A a'} WHERE {TESTS[returns].format(called)}"
    tocsin.function(returns=returns, name=NAME, **options)(call)
    answers = sides.of(tocsin.query(text).detect(given["rows"], eid="eid", jit=given["jit"]))
    if given["function"] in MISSHAPEN:
        if any(row["type"] == "A" and row["v"] is not None for row in given["rows"]):
            raise WrongAnswerError(f"an array of another shape is taken, {given['function']}: {dict(answers)}")
        return
    asked = registered()[NAME]
    events = [sides.event(row) for row in given["rows"]]
    try:
        expected = sides.defined(text, events, {NAME: asked})
    except (TocsinError, ArithmeticError, ValueError, TypeError):
        return  # where the function fails on some pair, a query need not have asked it
    sides.same(f"{given['function']}{' compiled' if given['jit'] else ''} and oracle", answers, expected)


SURFACE = Surface("functions", make, judge, share=2, seconds=40)
