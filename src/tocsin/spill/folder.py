"""Folders for spilled events: locked while their process lives, and removed by the next run if it was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

PREFIX, UNLOCKED = "tocsin-spill-", "tocsin-new-"
LOCK = ".lock"


def make_folder(parent: Path) -> tuple[Path, IO[bytes]]:
    """A new folder inside `parent`, and the open file that locks it; what killed processes left there is removed."""
    parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(parent)
    made = Path(tempfile.mkdtemp(prefix=UNLOCKED, dir=parent))
    lock = (made / LOCK).open("wb")
    _lock(lock)
    folder = made.with_name(made.name.replace(UNLOCKED, PREFIX, 1))  # seen by others only when it is locked
    made.rename(folder)
    return folder, lock


def remove_leftovers(parent: Path) -> None:
    """Remove folders of ours in which no process holds the lock any more."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or not _is_ours(folder):
                continue
            with (folder / LOCK).open("rb+") as lock:
                if _lock(lock):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    return not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed; False if someone else has it, or the system knows no such locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
