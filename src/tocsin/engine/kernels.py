"""From generated source to functions: plain Python, or compiled by Numba and kept on disk for the next process.

The generated module is written once, under a name that hashes everything it depends on, and never rewritten; Numba's
own cache beside it holds the machine code. Where the disk cannot be written, or a user function is compiled in, the
kernel lives in memory only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any

from tocsin.engine import bounds, runtime
from tocsin.engine.codegen import Program
from tocsin.engine.drafts import drafts
from tocsin.engine.evaluate import STRICT
from tocsin.engine.module_cache import (
    COMPILING,
    DIGESTS,
    cache_folder,
    check_code,
    code_files,
    from_disk,
    module_name,
    note_code,
)
from tocsin.engine.private_folder import private_folder
from tocsin.errors import FunctionError
from tocsin.functions import Function
from tocsin.items import Strings
from tocsin.plan.expr import Op, User
from tocsin.schema import Kind

CONSTANTS = tuple(name for name, value in vars(runtime).items() if name.isupper() and isinstance(value, int))


PREFIX = "k_"  # of the names of modules that are kept on disk


@lru_cache(maxsize=256)
def exports(source: str) -> tuple[str, ...]:
    """The names of the library that a generated source uses."""
    used = set(re.findall(r"[A-Za-z_]+", source))
    always = ("checked_index",) if bounds.ON else ()
    return always + tuple(name for name in (*CONSTANTS, *sorted(runtime.FUNCTIONS)) if name in used)


@dataclass(slots=True)
class Kernel:
    """The entry points of a program; `settle` is None if no answer ever waits.

    `careful` takes rows with nulls and withdrawals, `run` is faster and knows neither; not `whole`: `careful` is not
    compiled yet.
    """

    run: Callable[..., int]
    careful: Callable[..., int]
    settle: Callable[..., int] | None
    jit: bool
    whole: bool = True


def plain(program: Program, functions: Mapping[str, Function], strings: Strings) -> Kernel:
    """The generated source as ordinary Python."""
    library = runtime.library(False)
    space: dict[str, Any] = {name: getattr(library, name) for name in exports(program.source)}
    space["compiled"] = space["inlined"] = space["entry"] = space["pointer"] = space["opened"] = lambda value: value
    space["FOREIGN"] = [_foreign(expr, functions, strings) for expr in program.foreign]
    for number, call in enumerate(program.asked):
        space[f"user_{number}"] = _paired(functions[call.name])
    exec(_code(program.source, program.key), space)  # noqa: S102 - source without user text
    return _kernel(space, jit=False)


def _kernel(space: Mapping[str, Any], *, jit: bool) -> Kernel:
    run = space["kernel"]
    return Kernel(run, space.get("careful", run), space.get("settle"), jit)


@lru_cache(maxsize=256)
def _code(source: str, key: str) -> CodeType:
    return compile(_body(source), f"<kernel {key}>", "exec")


def _body(source: str) -> str:
    return bounds.checked(source) if bounds.ON else source


def compiled(program: Program, functions: Mapping[str, Function], *, careful: bool = True) -> Kernel:
    """Compile the source of a program with Numba; not `careful`: without what only rows with nulls need."""
    with COMPILING:
        if program.asked:
            return _in_memory(program, functions)
        try:
            return _from_disk(program, careful=careful)
        except OSError:
            return _in_memory(program, functions)


def compile_to_disk(program: Program, careful: bool) -> None:
    """Have the machine code of a program on disk, for another process; nothing where it cannot be kept there."""
    with suppress(OSError), COMPILING:
        _from_disk(program, careful=careful)


def _paired(function: Function) -> Callable[..., tuple[Any, bool]]:
    """A function as kernels ask it: a value and whether it is not null; here for the plain body."""

    def asked(*args: Any) -> tuple[Any, bool]:
        value = function.ask(args)
        return (0, False) if value is None else (int(value) if function.returns is Kind.BOOL else value, True)

    return asked


def _paired_code(function: Function, kinds: Sequence[Kind]) -> Any:
    """A function as compiled kernels ask it; one that Numba cannot compile for these arguments is an error of ours."""
    import numba

    numbers: Any = {Kind.FLOAT: numba.float64, Kind.BOOL: numba.boolean}
    inner: Any = function.call
    given = tuple(numbers.get(kind, numba.int64) for kind in kinds)
    try:
        inner.compile(given)
    except Exception as problem:  # noqa: BLE001 - whatever Numba says
        reason = str(problem).strip().splitlines()[0]
        raise FunctionError(
            f"{function.name}() cannot be compiled", detail=reason, hint="leave out compiled=True"
        ) from None
    _check_result(function, inner.overloads[given].signature.return_type)
    real = function.returns is Kind.FLOAT

    def asked(*args):  # type: ignore[no-untyped-def]
        value = inner(*args)
        if value is None:
            return (0.0, False) if real else (0, False)
        return (float(value), True) if real else (int(value), True)

    made = numba.njit(asked, error_model="python")
    made.get_call_template(given, {})  # which compiles it for these: as a whole, and not as a draft
    return made


def _check_result(function: Function, result: Any) -> None:
    """Compiled code must give the kind it was registered for, or nothing now and then."""
    from numba import types

    result = getattr(result, "type", result)  # of what may be None
    allowed: Any = {Kind.BOOL: types.Boolean, Kind.FLOAT: (types.Float, types.Integer)}
    if not isinstance(result, allowed.get(function.returns, types.Integer)) or result == types.uint64:
        raise FunctionError(
            f"{function.name}() gives {result} when compiled, but was registered for {function.returns.value}",
            hint="return a value of that kind",
        )


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
            result = functions[expr.name].ask(given)
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
    return [types.int64] * 3 + columns + [_state()]


def _state() -> Any:
    """How the host hands over the state: as the addresses of its arrays, or as these where bounds are checked."""
    from numba import types

    build: Any = types
    return build.Tuple(_arrays()) if bounds.ON else types.int64[::1]


def _arrays() -> list[Any]:
    from numba import types

    return [getattr(types, kind)[::1] for kind in runtime.STATE.values()]


HEADER = """\
from tocsin.engine.runtime import library
_library = library(True)
compiled = _library.decorator(no_cpython_wrapper=True)
inlined = _library.decorator(no_cpython_wrapper=True, forceinline=True)
entry, pointer, opened = _library.entry, _library.pointer, _library.opened
{imports}
"""


def _text(program: Program) -> str:
    imports = "\n".join(f"{name} = _library.{name}" for name in exports(program.source))
    return HEADER.format(imports=imports) + _body(program.source)


def _module_text(program: Program) -> tuple[str, str]:
    """The name of the module of a program, and its text."""
    text = _text(program)
    return module_name(PREFIX, text, runtime.source().encode()), text


def is_on_disk(program: Program) -> bool:
    """Whether a program was compiled before; found out without Numba, which takes long to import."""
    try:
        return (private_folder() / f"{_module_text(program)[0]}{DIGESTS}").exists()
    except OSError:
        return False


def _from_disk(program: Program, *, careful: bool) -> Kernel:
    import numba  # noqa: F401 - from now on the names of modules are what they will be in every process

    name, text = _module_text(program)
    with cache_folder(name) as folder:
        runtime.library(True)
        module = from_disk(folder, name, text)
        missing = [entry for entry in _entries(vars(module), careful=careful) if not vars(module)[entry].signatures]
        known = True
        if missing:  # else this process has it already
            check_code(module, runtime.code_folder(module))
            known = _is_cached(module, missing)
        if not known:
            runtime.compile_library()
        kernel = _typed(module.__dict__, program, known=known, careful=careful)
        if not known:
            note_code(module, runtime.code_folder(module))
        return kernel


def _entries(space: Mapping[str, Any], *, careful: bool) -> list[str]:
    """The entry points of a kernel by name."""
    return [name for name in ("kernel", "settle", "careful") if name in space and (careful or name != "careful")]


def _is_cached(module: ModuleType, entries: Sequence[str]) -> bool:
    """Whether Numba has all machine code of a kernel on disk; then nothing that it calls need be compiled or loaded."""
    files = [path.name for path in code_files(module.__name__, runtime.code_folder(module))]
    return all(any(file.startswith(f"{module.__name__}.{name}-") for file in files) for name in entries)


def _in_memory(program: Program, functions: Mapping[str, Function]) -> Kernel:
    """Compiled for this process only; the same source with the same user functions once."""
    key = (program.source, *(functions[call.name] for call in program.asked))
    if key not in _kernels:
        _kernels[key] = _compiled_here(program, functions)
    return _kernels[key]


_kernels: dict[tuple[object, ...], Kernel] = {}


def _compiled_here(program: Program, functions: Mapping[str, Function]) -> Kernel:
    library = runtime.library(True)
    space: dict[str, Any] = {name: getattr(library, name) for name in exports(program.source)}
    space["pointer"], space["opened"] = library.pointer, library.opened
    space["compiled"] = library.decorator(no_cpython_wrapper=True)
    space["inlined"] = library.decorator(no_cpython_wrapper=True, forceinline=True)
    space["entry"] = library.decorator()
    for number, call in enumerate(program.asked):
        space[f"user_{number}"] = _paired_code(functions[call.name], [arg.kind for arg in call.args])
    exec(_code(program.source, program.key), space)  # noqa: S102 - source without user text
    return _typed(space, program)


def _typed(space: Mapping[str, Any], program: Program, *, known: bool = False, careful: bool = True) -> Kernel:
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
            "S": build.Tuple([*map(_address, _arrays()), types.int64]),
        }
        with drafts():
            for name, arguments in program.functions:
                _compile(space[name], [letters[letter] for letter in arguments])
    kernel = _kernel(space, jit=True)
    _compile(kernel.run, signature(program))
    if kernel.settle is not None:
        _compile(kernel.settle, [_state()])
    kernel.whole = careful or kernel.careful is kernel.run
    if careful and kernel.careful is not kernel.run:
        _compile(kernel.careful, signature(program, careful=True))
    return kernel


def _address(array: Any) -> Any:
    """How functions of a kernel hand on an array: by its address, or whole where bounds are checked."""
    from numba import types

    return array if bounds.ON else types.CPointer(array.dtype)  # type: ignore[no-untyped-call]


def _compile(function: Any, arguments: list[Any]) -> None:
    """Compile (or load) for exactly these arguments; any others are our mistake, not a reason to compile again."""
    if not function.signatures:
        function.compile(tuple(arguments))
        function.disable_compile()
