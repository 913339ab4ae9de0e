"""Functions that only compiled code calls, as drafts: LLVM optimises them where they are called, and only there.

Numba makes a library of machine code of each function, and links what it calls into it: a function is optimised in its
own library and again in each that calls it, and machine code is made each time. Of the libraries of a kernel only those
of its entry points are ever run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

LIBRARY = "_library_class"  # where Numba has the class of its libraries


@contextmanager
def drafts() -> Iterator[None]:
    """Whatever Numba compiles meanwhile is only linked into others: nothing may call it from Python."""
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    with global_compiler_lock:
        codegen: Any = cpu_target.target_context.codegen()
        users = getattr(codegen, LIBRARY, None)
        if users is None:  # another Numba: it compiles as it does
            yield
            return
        setattr(codegen, LIBRARY, _draft(users))
        try:
            yield
        finally:
            setattr(codegen, LIBRARY, users)


@cache
def _draft(users: Any) -> Any:
    """The class of Numba's libraries without what makes them run."""

    class Linked(users):  # type: ignore[misc]
        def _optimize_final_module(self) -> None:
            """Whoever it is linked into is optimised as a whole."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
            self._ensure_finalized()
            return 0

        def serialize_using_object_code(self) -> Any:
            """What is kept on disk."""
            return self.serialize_using_bitcode()

        @property
        def codegen(self) -> Any:
            return self

        def set_env(self, name: str, env: Any) -> None:
            """There is no machine code yet that would read it."""

    return Linked
