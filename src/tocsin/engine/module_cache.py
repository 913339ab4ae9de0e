"""Generated modules on disk: written once under a name that hashes their text, with Numba's machine code beside them.

Nothing that lies there is believed. Of a module the text at hand is run, and the file is only made to agree with it
(Numba looks at it to see whether its code is current). Machine code is loaded only if it has the digest that was noted
when it was written: what is cut, empty or changed is deleted, and compiled anew. And the folder must be ours alone
(`private_folder`). One process at a time works on a module, and one thread: others wait, and find what it compiled.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from tocsin.engine.private_folder import is_private, private_folder

COMPILING = threading.RLock()  # one thread compiles or loads, the others wait for it
LOCKS = "locks"  # a folder with a file for each module that was compiled here
DIGESTS = ".sum"  # the end of the name of a file that notes the digests of a module's machine code


@contextmanager
def cache_folder(name: str) -> Iterator[Path]:
    """The folder of modules; OSError if there is none that can be trusted.

    Until this ends, no other thread of this process compiles, and no other process works on the module of this name.
    """
    with COMPILING:
        if name in _entered:  # by this thread, further out
            yield _entered[name]
            return
        folder = private_folder()
        locks = folder / LOCKS
        locks.mkdir(mode=0o700, exist_ok=True)
        with (locks / name).open("ab") as file:
            with suppress(ImportError, OSError):  # no such locks here: then work may be done twice, but nothing breaks
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
            _entered[name] = folder
            try:
                yield folder
            finally:
                del _entered[name]


_entered: dict[str, Path] = {}


def module_name(prefix: str, text: str, *beside: bytes) -> str:
    """The name of the module of a text: a hash of the text, of what it goes with, and of the versions."""
    version, level = _numba_facts()  # how far Numba optimises, its own cache does not tell
    parts = (text.encode(), *beside, version.encode(), sys.version.encode(), level.encode())
    return prefix + hashlib.blake2b(b"\0".join(parts), digest_size=12).hexdigest()


def _numba_facts() -> tuple[str, str]:
    """The version of Numba, and how far it optimises; what it will say, if it is not imported yet."""
    numba = sys.modules.get("numba")
    if numba is None or not hasattr(numba, "njit"):  # another thread may just be importing it
        return version("numba"), os.environ.get("NUMBA_OPT", "3").replace("max", "3")
    return numba.__version__, str(int(getattr(numba.config, "OPT", 3)))


def from_disk(folder: Path, name: str, text: str) -> ModuleType:
    """The module of a text, with a file in a folder."""
    if name in sys.modules:
        return sys.modules[name]
    path = folder / f"{name}.py"
    make_agree(path, text.encode())
    with _code_beside():
        return _executed(name, str(path), text)


@contextmanager
def _code_beside() -> Iterator[None]:
    """Have Numba keep the machine code of a module beside it, also where NUMBA_CACHE_DIR names another place.

    There nobody would find it who ships it to Spark's workers, and in the place of a worker nobody would look for it.
    """
    from numba.core import config

    settings: Any = config
    given, settings.CACHE_DIR = settings.CACHE_DIR, ""
    try:
        yield
    finally:
        settings.CACHE_DIR = given


def in_memory(name: str, text: str) -> ModuleType:
    """The module of a text for this process only, where nothing can be kept on disk."""
    return _executed(name, f"<{name}>", text)


def _executed(name: str, file: str, text: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module  # where pickles of Numba look for it
    try:
        exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102 - source without user text
    except BaseException:
        del sys.modules[name]
        raise
    return module


def make_agree(path: Path, content: bytes) -> None:
    """Have a file with this content; it is replaced as a whole, so nobody sees half of it."""
    with suppress(OSError):
        if path.read_bytes() == content and not path.is_symlink():
            return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(temporary).replace(path)


# --- machine code -------------------------------------------------------------------------------------------------


def check_code(module: ModuleType, folder: Path) -> None:
    """Delete the machine code of a module, unless what is there is as it was written, in the folder of Numba."""
    if not is_private(folder):
        raise PermissionError(f"{folder} is not ours alone")
    noted: dict[str, str] = {}
    with suppress(OSError, ValueError, TypeError):
        noted = dict(json.loads(_digests_of(module).read_text(encoding="utf-8")))
    found = _digests(module, folder)
    indexes, coded = ({name.split(".py")[0] for name in found if name.endswith(end)} for end in (".nbi", ".nbc"))
    if indexes != coded or any(noted.get(name) != digest for name, digest in found.items()):
        for path in code_files(module.__name__, folder):
            path.unlink(missing_ok=True)


def note_code(module: ModuleType, folder: Path) -> None:
    """Note the digests of the machine code of a module, after it was compiled."""
    text = json.dumps(_digests(module, folder), indent=0, sort_keys=True)
    make_agree(_digests_of(module), text.encode())


def code_files(name: str, folder: Path) -> list[Path]:
    """Numba's files of a module: an index and the machine code of each of its functions."""
    return sorted(folder.glob(f"{name}.*.nb[ic]"))


def _digests(module: ModuleType, folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()
        for path in code_files(module.__name__, folder)
    }


def _digests_of(module: ModuleType) -> Path:
    return Path(str(module.__file__)).with_suffix(DIGESTS)
