"""Write files atomically: beside their place first, then renamed."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tocsin.errors import InputError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path that becomes `path` when the block ends well, and is removed when it does not."""
    target = Path(path)
    if target.is_symlink():  # the link stays, and what it points to is written
        target = Path(os.path.realpath(target))
    if target.is_dir():
        raise InputError(f"{target} is a directory", hint="give the name of a file to write")
    if target.exists() and not target.is_file():  # a device or a pipe: nothing to rename
        yield target
        return
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"the directory {folder} does not exist", hint="create it first, or write somewhere else")
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
        Path(name).chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
