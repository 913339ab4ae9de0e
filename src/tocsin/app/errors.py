"""End commands: every failure becomes one message and an exit code, never a traceback."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer

from tocsin.errors import TocsinError

OK, FAILED, BAD_INPUT, UNEXPECTED, INTERRUPTED, PIPE = 0, 1, 2, 70, 130, 141

Params = ParamSpec("Params")
Result = TypeVar("Result")


def guarded(command: Callable[Params, Result]) -> Callable[Params, Result]:
    """A command whose failures are messages and exit codes. With TOCSIN_DEBUG=1 the trace is shown too."""

    @functools.wraps(command)
    def run(*args: Params.args, **options: Params.kwargs) -> Result:
        try:
            result = command(*args, **options)
            sys.stdout.flush()
            return result
        except (typer.Exit, typer.BadParameter, typer.Abort):
            raise
        except KeyboardInterrupt as stop:
            fail("; ".join(["interrupted", *getattr(stop, "__notes__", ())]), INTERRUPTED)
        except BrokenPipeError:
            _leave_pipe()
        except (TocsinError, OSError, RecursionError, MemoryError) as problem:
            _trace()
            fail(_told(problem), BAD_INPUT)
        except Exception as problem:  # noqa: BLE001 - the last line of defence
            _trace()
            what = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
            fail(f"error: something unexpected went wrong ({what})\n  hint: {_REPORT}", UNEXPECTED)

    return run


_REPORT = "this is a fault of Tocsin; please report it, with the trace that TOCSIN_DEBUG=1 shows"


def fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(message.encode("utf-8", "replace").decode() + "\n")
    raise typer.Exit(code)


def _told(problem: BaseException) -> str:
    match problem:
        case TocsinError():
            return str(problem)
        case RecursionError():
            return "error: the query or the data is nested too deeply"
        case MemoryError():
            return "error: there is not enough memory"
        case OSError(strerror=str(reason), filename=name) if name:
            return f"error: {os.fspath(name)!r}: {reason}"
    return f"error: {problem}"


def _trace() -> None:
    if os.environ.get("TOCSIN_DEBUG"):
        import traceback

        traceback.print_exc()


def _leave_pipe() -> NoReturn:
    """The reader is gone: stop quietly, and let nothing be flushed into the closed pipe at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        sys.stdout = _Nowhere()
    raise typer.Exit(PIPE)


class _Nowhere:
    """A standard output that nobody reads."""

    def write(self, text: Any) -> int:
        return len(text)

    def flush(self) -> None:
        return None
