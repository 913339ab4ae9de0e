"""The runtime as one library: plain, as it is imported, or compiled.

The compiled one is a single module, written from the sources of all modules here and kept on disk under a hash of
them: Numba looks at the file of a function only, so a function whose callee changed in another file would stay as it
was.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tocsin.engine import bounds
from tocsin.engine.drafts import drafts
from tocsin.engine.module_cache import (
    COMPILING,
    cache_folder,
    check_code,
    code_files,
    from_disk,
    in_memory,
    module_name,
    note_code,
)
from tocsin.engine.runtime import (
    arithmetic,
    buffers,
    entries,
    held,
    keys,
    purge,
    purge_table,
    storing,
    waiting,
    words,
)

PREFIX = "rt_"  # of the name of the compiled library on disk
PARTS = (
    words,
    purge_table,
    buffers,
    keys,
    storing,
    waiting,
    held,
    purge,
    arithmetic,
    entries,
)  # each after its callees
MARKS = """\
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic


def decorator(**options):
    # nobody calls our functions through a C callback, and most are not called from Python: no wrappers then
    return njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, boundscheck={bounds}, **options)


compiled = decorator(cache={cached}, no_cpython_wrapper=True)
inlined = decorator(cache={cached}, no_cpython_wrapper=True, forceinline=True)
entry = decorator(cache={cached})
"""
POINTER = """

@intrinsic
def pointer(context, array):
    # the address of an array's first element
    def code(target, builder, signature, arguments):
        return target.make_array(signature.args[0])(target, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), code


@intrinsic
def opened(context, addresses):
    # the addresses of the arrays of the state, kept in one array: an argument costs more than reading a word
    state = types.Tuple([types.CPointer(getattr(types, kind)) for kind in STATE.values()])

    def code(target, builder, signature, arguments):
        first = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        found = []
        for number, kind in enumerate(state.types):
            address = builder.gep(first, [target.get_constant(types.intp, number)])
            found.append(builder.load(builder.bitcast(address, target.get_value_type(kind).as_pointer())))
        return target.make_tuple(builder, signature.return_type, found)

    return state(addresses), code
"""
ARRAY = f"""

@inlined
def pointer(array):
    # where bounds are checked, an array is its own address
    return array


@inlined
def opened(arrays):
    return arrays

{bounds.PLACE}"""
PLAIN_MARKS = """\
import math

import numpy as np

compiled = inlined = entry = pointer = opened = lambda value: value
"""


def _functions(*modules: ModuleType) -> dict[str, Callable[..., Any]]:
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if callable(value) and value.__module__ == module.__name__
    }


_plain = _functions(*PARTS)
ENTRIES = frozenset(_functions(entries))  # called by the host
FUNCTIONS = frozenset(_plain) - ENTRIES  # called by generated code


@cache
def source(*, cached: bool = True) -> str:
    """All modules as the text of one; `cached`: Numba keeps its machine code beside it."""
    marks = MARKS.format(cached=cached, bounds=bounds.ON)
    return marks + (ARRAY + bounds.checked(_parts()) if bounds.ON else POINTER + _parts())


def _parts() -> str:
    return "\n\n" + "\n\n".join(_body(Path(str(module.__file__)).read_text(encoding="utf-8")) for module in PARTS)


def _body(text: str) -> str:
    """A module without its imports: what they name is in the same text."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    return "\n".join(lines)


def library(jit: bool) -> ModuleType:
    """The runtime, plain or with every function compiled."""
    if not jit:
        return _plain_library()
    with COMPILING:
        return _compiled()


@cache
def _plain_library() -> ModuleType:
    if bounds.ON:
        return in_memory(PREFIX + "checked", PLAIN_MARKS + bounds.PLACE + bounds.checked(_parts()))
    import tocsin.engine.runtime as plain

    return plain


@cache
def _compiled() -> ModuleType:
    import numba  # noqa: F401 - its settings are part of the name

    try:
        name = module_name(PREFIX, source())
        with cache_folder(name) as folder:
            module = from_disk(folder, name, source())
            check_code(module, code_folder(module))
            return module
    except OSError:
        return in_memory(PREFIX + "library", source(cached=False))


@cache
def compile_library() -> None:
    """Compile every function of the library, unless that lies on disk: other processes then only read its code.

    So processes that compile kernels at the same time do not wait for each other.
    """
    module = library(True)
    folder = code_folder(module)
    with cache_folder(module.__name__):
        files = [path.name for path in code_files(module.__name__, folder)]
        names = sorted({*FUNCTIONS, *ENTRIES})
        if all(any(file.startswith(f"{module.__name__}.{name}-") for file in files) for name in names):
            return
        for name in names:
            declare(name)
        note_code(module, folder)


def code_folder(module: ModuleType) -> Path:
    """Where Numba keeps the machine code of a module of ours: each has a function that it keeps."""
    paths = (getattr(getattr(value, "stats", None), "cache_path", None) for value in vars(module).values())
    return Path(next(path for path in paths if path))


@cache
def declare(name: str) -> None:
    """Compile a library function for the one signature it has, after those it calls.

    Left to itself Numba would compile a function anew for every constant that it is called with.
    """
    from numba import types

    address: Any = _array if bounds.ON or name in ENTRIES else types.CPointer
    scalars = {"int": types.int64, "float": types.float64, "bool": types.boolean}
    function, plain = getattr(library(True), name), _plain[name]
    for called in plain.__code__.co_names:
        if called in FUNCTIONS:
            declare(called)
    kinds = plain.__annotations__
    arguments = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    with nullcontext() if name in ENTRIES else drafts():
        function.compile(
            tuple(
                scalars.get(kinds[argument]) or address(getattr(types, words.STATE.get(argument, "int64")))
                for argument in arguments
            )
        )
    function.disable_compile()


def _array(scalar: Any) -> Any:
    return scalar[::1]
