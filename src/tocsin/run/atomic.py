"""Write files atomically: beside their place first, then renamed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from tocsin.errors import InputError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path that becomes `path` when the block ends well, and is removed when it does not."""
    target = Path(path)
    if target.is_symlink():  # the link stays, and what it points to is written
        target = Path(os.path.realpath(target))
        if target.is_symlink():
            raise InputError(f"{path} is a link that leads to itself", hint="give the name of a file to write")
    if target.is_dir():
        raise InputError(f"{target} is a directory", hint="give the name of a file to write")
    if target.exists() and not target.is_file():  # a device or a pipe: nothing to rename
        yield target
        return
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"the directory {folder} does not exist", hint="create it first, or write somewhere else")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    part = folder / f".{target.name}.{token_hex(8)}.part"
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode))  # less the umask
    try:
        yield part
        if mode is not None:
            part.chmod(mode)
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
