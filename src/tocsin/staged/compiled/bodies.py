"""From the text of a function to the function: plain Python, or compiled by Numba and kept on disk."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.engine import runtime
from tocsin.engine.module_cache import (
    COMPILING,
    DIGESTS,
    cache_folder,
    check_code,
    from_disk,
    in_memory,
    module_name,
    note_code,
)
from tocsin.engine.private_folder import private_folder
from tocsin.staged.compiled import library
from tocsin.staged.compiled.library import GROWING
from tocsin.staged.compiled.program import GIVEN


class Body(NamedTuple):
    """A function, which is given its arrays as they are or by their addresses."""

    stages: Callable[..., Any]
    by_address: bool


PREFIX = "s_"  # of the names of modules that are kept on disk
IMPORTS = """import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

inner = njit(error_model="numpy")
entry = njit(cache=True, nogil=True, error_model="numpy")


@intrinsic
def pointer(context, address):
    # an address as that of words
    kind = types.CPointer(types.int64)

    def code(target, builder, signature, arguments):
        return builder.inttoptr(arguments[0], target.get_value_type(kind))

    return kind(address), code


@intrinsic
def reals(context, words):
    # the same address, of numbers with fractions
    kind = types.CPointer(types.float64)

    def code(target, builder, signature, arguments):
        return builder.bitcast(arguments[0], target.get_value_type(kind))

    return kind(words), code


@intrinsic
def called(context, address, which, need):
    # the host's function at an address
    def code(target, builder, signature, arguments):
        word = ir.IntType(64)
        function = builder.inttoptr(arguments[0], ir.FunctionType(word, [word, word]).as_pointer())
        return builder.call(function, arguments[1:])

    return types.int64(types.int64, types.int64, types.int64), code


@inner
def room(host, which, need):
    found = called(host, which, need)
    if found == 0:
        raise MemoryError
    return found
"""
IN_MEMORY = IMPORTS.replace("cache=True, ", "")


@lru_cache(maxsize=256)
def plain(source: str) -> Body:
    """The function as ordinary Python."""
    import numpy as np

    space: dict[str, Any] = {"np": np, **vars(library)}
    exec(compile(source, "<stages>", "exec"), space)  # noqa: S102 - source without user text
    return Body(space["stages"], by_address=False)


@lru_cache(maxsize=1)
def _library() -> str:
    """The text of the library, each function compiled where it is called."""
    text = Path(library.__file__).read_text(encoding="utf-8")
    text = re.sub(r"^def (pointer|reals|called|room)\b.*?(?=^def )", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^def ", "@inner\ndef ", text, flags=re.MULTILINE)


def _text(source: str, imports: str = IMPORTS) -> str:
    whole = _library().replace("import numpy as np\n", imports, 1) + "\n\n" + source
    return whole.replace("\ndef stages(", "\n@entry\ndef stages(", 1)


def compiled(source: str) -> Body:
    """The function compiled: found on disk, or compiled now."""
    with COMPILING:
        try:
            return _from_disk(source)
        except OSError:
            text = _text(source, IN_MEMORY)
            return _typed(in_memory(module_name(PREFIX, text), text).stages)


def compile_to_disk(source: str) -> None:
    """Have the machine code on disk, for another process; nothing where it cannot be kept there."""
    with suppress(OSError), COMPILING:
        _from_disk(source)


def is_on_disk(source: str) -> bool:
    """Whether it was compiled before; found out without Numba, which takes long to import."""
    try:
        return (private_folder() / f"{module_name(PREFIX, _text(source))}{DIGESTS}").exists()
    except OSError:
        return False


def _from_disk(source: str) -> Body:
    import numba  # noqa: F401 - from now on the names of modules are what they will be in every process

    text = _text(source)
    name = module_name(PREFIX, text)
    with cache_folder(name) as folder:
        module = from_disk(folder, name, text)
        if not module.stages.signatures:
            place = runtime.code_folder(module)
            check_code(module, place)
            _typed(module.stages)
            note_code(module, place)
        return Body(module.stages, by_address=True)


def _typed(function: Any) -> Body:
    """Compile or load the function for its one signature. A call with other types is a fault of ours, and fails."""
    from numba import types

    function.compile((types.int64,) * (3 + len(GIVEN) + len(GROWING)))
    function.disable_compile()
    return Body(function, by_address=True)
