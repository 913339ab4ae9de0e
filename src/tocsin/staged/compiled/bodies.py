"""From the text of a function to the function: plain Python, or compiled by Numba and kept on disk."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

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
from tocsin.staged.compiled.program import ARRAYS

Body: TypeAlias = Callable[..., Any]
PREFIX = "s_"  # of the names of modules that are kept on disk
IMPORTS = """import numpy as np
from numba import njit, types
from numba.extending import intrinsic

inner = njit(error_model="numpy")
entry = njit(cache=True, nogil=True, error_model="numpy")


@intrinsic
def pointer(context, array):
    # the address of an array's first element
    def code(target, builder, signature, arguments):
        return target.make_array(signature.args[0])(target, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), code


@intrinsic
def reals(context, array):
    # the same address, of numbers with fractions
    kind = types.CPointer(types.float64)

    def code(target, builder, signature, arguments):
        data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        return builder.bitcast(data, target.get_value_type(kind))

    return kind(array), code
"""
IN_MEMORY = IMPORTS.replace("cache=True, ", "")


@lru_cache(maxsize=256)
def plain(source: str) -> Body:
    """The function as ordinary Python."""
    import numpy as np

    space: dict[str, Any] = {"np": np, **vars(library)}
    exec(compile(source, "<stages>", "exec"), space)  # noqa: S102 - source without user text
    body: Body = space["stages"]
    return body


@lru_cache(maxsize=1)
def _library() -> str:
    """The text of the library, each function compiled where it is called."""
    text = Path(library.__file__).read_text(encoding="utf-8")
    text = re.sub(r"^def (pointer|reals)\b.*?(?=^def )", "", text, flags=re.MULTILINE | re.DOTALL)
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
        body: Body = module.stages
        return body


def _typed(function: Any) -> Body:
    """Compile (or load) for its one signature; anything else is our mistake, not a reason to compile again."""
    from numba import types

    words = types.int64[::1]
    function.compile((types.int64, types.int64, words, words, words, *[words] * len(ARRAYS), words))
    function.disable_compile()
    body: Body = function
    return body
