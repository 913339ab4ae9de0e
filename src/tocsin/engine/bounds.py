"""A sanitizer for tests: with TOCSIN_BOUNDS=1 kernels and the runtime check every access to memory.

They run without such checks, on raw pointers, because the host has validated what they are given. In this mode every
index goes through `checked_index`, which refuses negative ones, and what they index are whole arrays (compiled, with
Numba's own check of the upper bound) or memoryviews (plain): an access outside is an IndexError. The variable is read
once, when the process starts; the texts differ, so compiled code of both modes lies side by side in one cache.
"""

from __future__ import annotations

import ast
import os

ON = os.environ.get("TOCSIN_BOUNDS", "0") not in ("", "0")

PLACE = """
@compiled
def checked_index(index):
    if index < 0:
        raise IndexError("a negative index")
    return index
"""


def checked(text: str) -> str:
    """A source text in which every index goes through `checked_index`.

    >>> print(checked("T[CLOCK] = H[i * 3 + 1]"))
    T[CLOCK] = H[checked_index(i * 3 + 1)]
    """
    return ast.unparse(_Checked().visit(ast.parse(text)))


class _Checked(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.slice, ast.Constant) and not _is_constant(node.slice):
            node.slice = ast.Call(ast.Name("checked_index", ast.Load()), [node.slice], [])
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None  # `tuple[int, bool]` is no access
        return self.generic_visit(node)


def _is_constant(index: ast.expr) -> bool:
    """Whether an index is the name of a word of the state."""
    return isinstance(index, ast.Name) and index.id.isupper()
