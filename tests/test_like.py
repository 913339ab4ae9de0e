"""LIKE is what its definition says, and takes no more steps than text times pattern."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tocsin.engine.like import like
from tocsin.testing import oracle_expr


def by_definition(text: str, pattern: str) -> bool:
    """Straight from docs/expressions.md, one sign at a time; only for short texts."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(by_definition(text[cut:], pattern[1:]) for cut in range(len(text) + 1))
    escaped = pattern[0] == "\\" and len(pattern) > 1
    sign, rest = (pattern[1], pattern[2:]) if escaped else (pattern[0], pattern[1:])
    fits = text and ((sign == "_" and not escaped) or text[0] == sign)
    return bool(fits) and by_definition(text[1:], rest)


@given(st.text("ab\n", max_size=7), st.text("ab%_\\\n", max_size=7))
def test_like_is_what_its_definition_says(text: str, pattern: str) -> None:
    expected = by_definition(text, pattern)
    assert like(text, pattern) is expected
    assert oracle_expr.like(text, pattern) is expected


@given(st.text("ab", max_size=9), st.text("ab%_", max_size=5))
def test_a_pattern_that_is_made_from_a_text_fits_it(text: str, signs: str) -> None:
    pattern = "%".join(letter if sign in "ab" else "_" for letter, sign in zip(text, signs * 9, strict=False))
    assert like(text, pattern) is by_definition(text, pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("%a" * 200 + "%b", "a" * 20_000, False),
        ("%_" * 200 + "b", "a" * 20_000, False),
        ("%" * 200 + "b", "a" * 20_000, False),
        ("%error%timeout%retry%x", "error" * 900 + "timeout" * 900 + "retry" * 900, False),
        ("%a" * 200 + "%b", "a" * 20_000 + "b", True),
    ],
)
def test_many_percent_signs_do_not_explode(pattern: str, text: str, expected: bool) -> None:
    """Matching that goes back over the text would not end here."""
    assert like(text, pattern) is expected
    assert oracle_expr.like(text[-300:], pattern) is expected
    events = [{"type": "A", "time": 1, "s": text}]
    assert len(tocsin.query(f"EVENT A a WHERE a.s LIKE '{pattern}'").detect(events, jit=False)) == expected
