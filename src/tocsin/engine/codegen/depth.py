"""Loop nests that are too deep for Python: it takes no more than twenty loops inside one another.

The inner loops of a deep nest become a function of their own, as often as is needed. All functions with nests end in
the same way: their last line returns what means "go on" (`return True`, `return 0`, no places of a group), and whatever
else a loop returns is handed up. So the loops that are moved out are replaced by a call, and by a test of what it says.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tocsin.engine.codegen.program import WHOLE

DEEPEST = 16  # loops inside one another in one function; some are needed for what stands inside
STATE = frozenset(WHOLE.split(", "))


def shallow(text: str) -> str:
    """A source text that means the same, in functions without deep nests of loops."""
    if "    " * (DEEPEST + 1) + "while" not in text:
        return text
    tree = ast.parse(text)
    tree.body = [each for node in tree.body for each in _cut(node)]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _cut(node: ast.stmt) -> Iterator[ast.stmt]:
    """A statement; before it, if it is a function with a deep nest, those that its inner loops become."""
    found = _loop_at(node, DEEPEST) if isinstance(node, ast.FunctionDef) else None
    if found is None:
        yield node
        return
    assert isinstance(node, ast.FunctionDef)
    body, at = found
    last = node.body[-1]
    assert isinstance(last, ast.Return) and last.value is not None
    go_on, name = ast.unparse(last.value), f"{node.name}_inner"
    loop = body.pop(at)
    given = [*sorted(_names(loop, ast.Load) & _local(node) - STATE - {"S"}), "S"]  # what is known outside the loop
    call = f"{name}({', '.join(given)})"
    head = f"@compiled\ndef {name}({', '.join(given)}):\n    {WHOLE} = S\n    return {go_on}"
    (inner,) = ast.parse(head).body
    assert isinstance(inner, ast.FunctionDef)
    inner.body.insert(1, loop)
    body[at:at] = ast.parse(f"said = {call}\nif said != {go_on}:\n    return said").body
    yield from _cut(inner)
    yield node


def _loop_at(node: ast.stmt, depth: int) -> tuple[list[ast.stmt], int] | None:
    """The list of statements in which the first loop of a depth stands, and its place there."""
    for field in ("body", "orelse"):
        statements: list[ast.stmt] = getattr(node, field, [])
        for at, each in enumerate(statements):
            is_loop = isinstance(each, ast.While | ast.For)
            if is_loop and depth == 0:
                return statements, at
            found = _loop_at(each, depth - is_loop)
            if found is not None:
                return found
    return None


def _names(node: ast.AST, use: type[ast.expr_context]) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, use)}


def _local(function: ast.FunctionDef) -> set[str]:
    return _names(function, ast.Store) | {argument.arg for argument in function.args.args}
