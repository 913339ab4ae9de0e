"""Mutants: every change of one token in a source text that could be a bug."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

COMPARISONS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "not in": "in",
    "is": "is not", "is not": "is",
}  # fmt: skip
OPERATOR = re.compile(r"not\s+in\b|is\s+not\b|\bin\b|\bis\b|<=|>=|==|!=|<|>")
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the text between two places of a file becomes another."""

    file: str
    start: int
    end: int
    new: str
    rule: str

    def applied(self, source: str) -> str:
        return source[: self.start] + self.new + source[self.end :]

    def line(self, source: str) -> int:
        return source.count("\n", 0, self.start) + 1

    def key(self, source: str) -> tuple[str, str, str]:
        """Name the change by the line before and after it, which outlives other changes of the file."""
        at = self.line(source) - 1
        before = source.splitlines()[at].strip()
        after = self.applied(source).splitlines()[at].strip()
        return self.file, before, after


class _Finder(ast.NodeVisitor):
    """Walks a module and notes what can be changed; annotations, decorators and docstrings are no behaviour."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = source.splitlines(keepends=True)
        self.found: list[Mutant] = []

    def place(self, line: int, column: int) -> int:
        """Return the place in the text; the columns of a syntax tree count bytes."""
        text = self.lines[line - 1]
        return self.starts[line - 1] + (column if text.isascii() else len(text.encode()[:column].decode()))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.place(node.lineno, node.col_offset), self.place(node.end_lineno, node.end_col_offset)

    def note(self, start: int, end: int, new: str, rule: str) -> None:
        self.found.append(Mutant(self.file, start, end, new, rule))

    def between(self, left: ast.expr, right: ast.expr, pattern: re.Pattern[str]) -> tuple[int, int, str] | None:
        """Find the operator that stands between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        found = pattern.search(self.source, start, end)
        return None if found is None else (found.start(), found.end(), " ".join(found.group().split()))

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, right in pairwise(operands):
            if place := self.between(left, right, OPERATOR):
                self.note(place[0], place[1], COMPARISONS[place[2]], "comparison")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add | ast.Sub) and (
            place := self.between(node.left, node.right, re.compile(r"[+-]"))
        ):
            self.note(place[0], place[1], "-" if place[2] == "+" else "+", "plus and minus")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in pairwise(node.values):
            if place := self.between(left, right, re.compile(r"\b(and|or)\b")):
                self.note(place[0], place[1], "or" if place[2] == "and" else "and", "and and or")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.note(self.span(node)[0], self.span(node.operand)[0], "", "not left out")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        start, end = self.span(node)
        if isinstance(node.value, bool):
            self.note(start, end, str(not node.value), "true and false")
        elif isinstance(node.value, int) and self.source[start:end].isdigit():
            self.note(start, end, str(node.value + 1), "off by one")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in CALLS:
            self.note(*self.span(node.func), CALLS[node.func.id], "another function")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call):
            self.drop(node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.drop(node)
        self.generic_visit(node)

    def drop(self, node: ast.stmt) -> None:
        self.note(*self.span(node), "pass", "statement left out")

    def visit_Break(self, node: ast.Break) -> None:
        self.drop(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.drop(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for each in (*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None), *node.body):
            self.visit(each)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in node.body:
            self.visit(each)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)


def candidates(file: str, source: str) -> list[Mutant]:
    """Return every change of a source text; a few of them are no Python any more."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda each: (each.start, each.rule))


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a source text that is still Python.

    >>> [each.applied("a < 1") for each in mutants("x.py", "a < 1")]
    ['a <= 1', 'a < 2']
    """
    return (each for each in candidates(file, source) if is_python(each.applied(source)))


def is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
