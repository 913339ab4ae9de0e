"""The process of a compiler: it does the work that it is sent, one piece after the other, until there is no more.

It trusts who started it: what comes through its pipe are functions and arguments, pickled (`tocsin.compilers`).
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress


def make_ready() -> None:
    """Have Numba compile with less work, in a process that does nothing else; before Numba is imported."""
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")  # of thousands that nobody will see
    with suppress(Exception):  # another Numba: it compiles as it does
        from tocsin.quick_analysis import switch_on_if_tested

        switch_on_if_tested()


def main() -> None:
    """Read work from the standard input and say when each piece is done; nothing else goes to the standard output."""
    work, said = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    make_ready()
    while True:
        try:
            function, arguments = pickle.load(work)  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        try:
            function(*arguments)
        except Exception:  # noqa: BLE001 - who asked will meet it when loading
            said.write(b"failed\n")
        else:
            said.write(b"done\n")
