"""Small pieces of source text."""

from __future__ import annotations


def arrays(names: str) -> str:
    return ", ".join(f"array_{name}" for name in names.split(", "))


def plus(code: str, number: int) -> str:
    return code if number == 0 else f"{code} {'+' if number > 0 else '-'} {abs(number)}"


def least(codes: list[str]) -> str:
    return codes[0] if len(codes) == 1 else f"min({', '.join(codes)})"


def most(codes: list[str]) -> str:
    return codes[0] if len(codes) == 1 else f"max({', '.join(codes)})"


def in_column(column: int) -> str:
    """The word of row `at` of OUT in a column: columns of `room` words stand one behind the other."""
    return "at" if not column else "at + room" if column == 1 else f"at + room * {column}"
