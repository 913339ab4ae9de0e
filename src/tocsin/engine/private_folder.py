"""Where code may lie that we run: only in a folder that is ours, and that nobody else can change or exchange.

Whoever can write into the folder of compiled kernels can run code as us. So a folder is taken only if it belongs to us,
others cannot write to it, and the same holds of every folder and symbolic link on the way to it (what belongs to root
is fine, and so is a folder such as /tmp, in which everybody may write but touch only what is his own).
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

OTHERS = stat.S_IWGRP | stat.S_IWOTH
MOST_LINKS = 40


def private_folder() -> Path:
    """The folder for code: $TOCSIN_CACHE, the user's cache directory, or else one of ours in the temporary directory.

    An OSError if none of them is ours alone: then nothing may be kept on disk.
    """
    for folder in _candidates():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_private(folder) and os.access(folder, os.W_OK | os.X_OK):
                return folder
        except OSError:
            continue
    raise PermissionError("there is no folder for compiled code that is ours alone")


def _candidates() -> list[Path]:
    given, base = os.environ.get("TOCSIN_CACHE"), os.environ.get("XDG_CACHE_HOME")
    name = f"tocsin-{os.getuid()}" if os.name == "posix" else "tocsin"
    last = Path(tempfile.gettempdir(), name)
    if given:
        return [Path(given), last]
    try:
        return [Path(base or "~/.cache").expanduser() / "tocsin", last]
    except RuntimeError:  # no HOME, and a user without a name
        return [last]


def is_private(folder: Path) -> bool:
    """Whether nobody but us and root decides what is found under a path, which must exist."""
    if os.name != "posix":
        return True
    me = os.getuid()
    at, ahead, links = Path("/"), list(Path(os.path.abspath(folder)).parts[:0:-1]), 0  # noqa: PTH100 - not resolved
    info = at.lstat()
    while ahead:
        here = at / ahead.pop()
        if here.name == "..":
            at, info = at.parent, at.parent.lstat()
            continue
        if info.st_mode & OTHERS and not info.st_mode & stat.S_ISVTX:
            return False  # others may exchange what lies in this folder
        info = here.lstat()
        if info.st_uid not in (0, me):
            return False
        if stat.S_ISLNK(info.st_mode):
            links += 1
            if links > MOST_LINKS:
                return False
            target = here.readlink()
            ahead += [part for part in reversed(target.parts) if part != target.anchor]
            at = Path("/") if target.is_absolute() else at
            info = at.lstat()
            continue
        at = here
    return stat.S_ISDIR(info.st_mode) and info.st_uid == me and not info.st_mode & OTHERS
