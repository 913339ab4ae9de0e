"""From generated source to functions: plain Python, or compiled by Numba and kept on disk for the next process.

The generated module is written once, under a name that hashes everything it depends on, and never rewritten; Numba's
own cache beside it holds the machine code. Where the disk cannot be written, or a user function is compiled in, the
kernel lives in memory only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

from tocsin.engine import runtime
from tocsin.engine.codegen import Program
from tocsin.engine.evaluate import STRICT, call
from tocsin.engine.module_cache import from_disk
from tocsin.functions import Function
from tocsin.items import Strings
from tocsin.plan.expr import Op, User
from tocsin.schema import Kind

CONSTANTS = tuple(name for name, value in vars(runtime).items() if name.isupper() and isinstance(value, int))


PREFIX = "k_"  # of the names of modules that are kept on disk


def exports(source: str) -> list[str]:
    """The names of the library that a generated source uses."""
    used = set(re.findall(r"[A-Za-z_]+", source))
    return [name for name in (*CONSTANTS, *sorted(runtime.FUNCTIONS)) if name in used]


@dataclass(slots=True)
class Kernel:
    """The entry points of a program; `settle` is None if no answer ever waits.

    `careful` takes rows with nulls and withdrawals, `run` is faster and knows neither.
    """

    run: Callable[..., int]
    careful: Callable[..., int]
    settle: Callable[..., int] | None
    jit: bool


def plain(program: Program, functions: Mapping[str, Function], strings: Strings) -> Kernel:
    """The generated source as ordinary Python."""
    space: dict[str, Any] = {name: getattr(runtime, name) for name in exports(program.source)}
    space["compiled"] = space["inlined"] = space["entry"] = space["pointer"] = lambda value: value
    space["FOREIGN"] = [_foreign(expr, functions, strings) for expr in program.foreign]
    for name in program.inlined:
        space[f"user_{name}"] = functions[name].call
    exec(_code(program.source, program.key), space)  # noqa: S102 - source without user text
    return _kernel(space, jit=False)


def _kernel(space: Mapping[str, Any], *, jit: bool) -> Kernel:
    run = space["kernel"]
    return Kernel(run, space.get("careful", run), space.get("settle"), jit)


@lru_cache(maxsize=256)
def _code(source: str, key: str) -> CodeType:
    return compile(source, f"<kernel {key}>", "exec")


def compiled(program: Program, functions: Mapping[str, Function]) -> Kernel:
    """Compile the source of a program with Numba."""
    if program.inlined:
        return _in_memory(program, functions)
    try:
        return _from_disk(program)
    except OSError:
        return _in_memory(program, functions)


def can_inline(function: Function) -> bool:
    """Whether Numba compiles a user function for numbers; asked once, when a query that calls it is prepared."""
    if function.nulls or function.vectorised or function.returns is Kind.TEXT:
        return False
    known = _inlinable.get(function)
    if known is None:
        known = _inlinable[function] = _try(function)
    return known


_inlinable: dict[Function, bool] = {}


def _try(function: Function) -> bool:
    import numba

    try:
        numba.njit(function.call).compile((numba.float64,) * function.arity)
    except Exception:  # noqa: BLE001 - whatever Numba says, the plain body will run it
        return False
    return True


def _foreign(expr: Op | User, functions: Mapping[str, Function], strings: Strings) -> Callable[..., Any]:
    """A call of the plain body that needs real values: texts are looked up before and coded after."""

    def value(arg: Any, kind: Kind) -> Any:
        if arg is None:
            return None
        if kind is Kind.TEXT:
            return strings.text(arg)
        return bool(arg) if kind is Kind.BOOL else arg

    def foreign(*args: Any) -> Any:
        given = [value(arg, node.kind) for arg, node in zip(args, expr.args, strict=True)]
        if isinstance(expr, User):
            result = call(functions[expr.name], given)
        else:
            result = None if None in given else STRICT[expr.op](expr, *given)
        return strings.code(result) if isinstance(result, str) else result

    return foreign


# --- Numba -------------------------------------------------------------------------------------------------------


def signature(program: Program, *, careful: bool = False) -> list[Any]:
    """The types of the kernel's arguments; batch columns are read-only so that Arrow's memory is accepted."""
    from numba import types

    def batch(scalar: Any) -> Any:
        return types.Array(scalar, 1, "C", readonly=True)

    kinds = {"types": types.int32, "marks": types.int8}
    known = {f"c{number}": types.float64 for number, (_, is_float, _) in enumerate(program.columns) if is_float}
    names = program.batch_args.split(", ")
    names += ["marks"] if careful else []
    columns = [batch(kinds.get(name) or known.get(name, types.int64)) for name in names]
    return [types.int64] * 3 + columns + state_signature()


def state_signature() -> list[Any]:
    from numba import types

    words, reals, halves = types.int64[::1], types.float64[::1], types.int32[::1]
    return [words, words, reals, halves, words, words, words, words, words, reals, words]


HEADER = """\
from tocsin.engine.runtime import library
_library = library(True)
compiled = _library.decorator(no_cpython_wrapper=True)
inlined = _library.decorator(no_cpython_wrapper=True, forceinline=True)
entry, pointer = _library.entry, _library.pointer
{imports}
"""


def _text(program: Program) -> str:
    imports = "\n".join(f"{name} = _library.{name}" for name in exports(program.source))
    return HEADER.format(imports=imports) + program.source


def _from_disk(program: Program) -> Kernel:
    module = from_disk(PREFIX, _text(program), runtime.source().encode())
    known = _is_cached(module.__dict__["kernel"], module.__name__)
    return _typed(module.__dict__, program, known=known)


def _is_cached(kernel: Any, name: str) -> bool:
    """Whether Numba has machine code of the kernel on disk; then nothing that it calls need be compiled or loaded."""
    return any(Path(kernel.stats.cache_path).glob(f"{name}.kernel-*.nbi"))


def _in_memory(program: Program, functions: Mapping[str, Function]) -> Kernel:
    """Compiled for this process only; the same source with the same user functions once."""
    key = (program.source, *(functions[name] for name in program.inlined))
    if key not in _kernels:
        _kernels[key] = _compiled_here(program, functions)
    return _kernels[key]


_kernels: dict[tuple[object, ...], Kernel] = {}


def _compiled_here(program: Program, functions: Mapping[str, Function]) -> Kernel:
    import numba

    library = runtime.library(True)
    space: dict[str, Any] = {name: getattr(library, name) for name in exports(program.source)}
    space["pointer"] = library.pointer
    space["compiled"] = library.decorator(no_cpython_wrapper=True)
    space["inlined"] = library.decorator(no_cpython_wrapper=True, forceinline=True)
    space["entry"] = library.decorator()
    for name in program.inlined:
        space[f"user_{name}"] = numba.njit(functions[name].call)
    exec(_code(program.source, program.key), space)  # noqa: S102 - source without user text
    return _typed(space, program)


def _typed(space: Mapping[str, Any], program: Program, *, known: bool = False) -> Kernel:
    """Compile every function of a program for its one signature, inner ones first; or load it all from disk."""
    from numba import types

    build: Any = types
    if not known:
        for name in exports(program.source):
            if name in runtime.FUNCTIONS:
                runtime.declare(name)
        for name in sorted(runtime.ENTRIES):  # the host will need them, and nothing is compiled in mid-stream
            runtime.declare(name)
        letters = {
            "i": types.int64,
            "f": types.float64,
            "b": types.boolean,
            "S": build.Tuple([*(build.CPointer(array.dtype) for array in state_signature()), types.int64]),
        }
        for name, arguments in program.functions:
            _compile(space[name], [letters[letter] for letter in arguments])
    kernel = _kernel(space, jit=True)
    _compile(kernel.run, signature(program))
    if kernel.careful is not kernel.run:
        _compile(kernel.careful, signature(program, careful=True))
    if kernel.settle is not None:
        _compile(kernel.settle, state_signature())
    return kernel


def _compile(function: Any, arguments: list[Any]) -> None:
    """Compile (or load) for exactly these arguments; any others are our mistake, not a reason to compile again."""
    if not function.signatures:
        function.compile(tuple(arguments))
        function.disable_compile()
