"""Generated modules on disk: written once under a name that hashes their text, and loaded from there by every process.

Numba keeps its machine code beside the file that a function comes from, so both travel together.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType


def cache_directory() -> Path:
    """Where compiled kernels are kept: $TOCSIN_CACHE, or the user's cache directory."""
    given, base = os.environ.get("TOCSIN_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(given) if given else Path(base or "~/.cache").expanduser() / "tocsin"


def from_disk(prefix: str, text: str, *beside: bytes) -> ModuleType:
    """The module of a text, written if it is not there yet; its name hashes the text, `beside`, and the versions."""
    import numba

    level = str(getattr(numba.config, "OPT", 3)).encode()  # how far Numba optimises: its own cache does not tell
    parts = (text.encode(), *beside, numba.__version__.encode(), sys.version.encode(), level)
    name = prefix + hashlib.blake2b(b"\0".join(parts), digest_size=12).hexdigest()
    if name in sys.modules:
        return sys.modules[name]
    path = cache_directory() / f"{name}.py"
    if not path.exists():
        _write_once(path, text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def in_memory(name: str, text: str) -> ModuleType:
    """The module of a text for this process only, where the disk cannot be written."""
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)  # noqa: S102 - source without user text
    return module


def _write_once(path: Path, text: str) -> None:
    """Many processes may come at once: each writes its own file, one link wins, the content is the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    mine = Path(temporary)
    try:
        path.hardlink_to(mine)
    except FileExistsError:
        pass
    except OSError:  # no links here; the last one wins
        mine.replace(path)
        return
    mine.unlink()
