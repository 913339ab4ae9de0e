"""Ship compiled kernels: the driver compiles once; executors write the files to disk and load them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tocsin.engine import runtime
from tocsin.engine.detector import Detector
from tocsin.engine.module_cache import cache_directory

SHARED = "TOCSIN_CACHE"


@dataclass(frozen=True, slots=True)
class Shipment:
    """Files of the kernel cache, each as name, modification time in nanoseconds (Numba checks it) and content."""

    files: tuple[tuple[str, int, bytes], ...] = ()

    def unpack(self) -> None:
        """Write the kernels into the cache of this machine; files that exist are left alone."""
        folder = _writable(cache_directory())
        os.environ[SHARED] = str(folder)
        for name, changed, content in self.files:
            path = folder / name
            if not path.exists():
                _write(path, changed, content)


def packed(detectors: Iterable[Detector], *, eids: bool) -> Shipment:
    """Compile everything that these detectors may need, and pack it."""
    names: set[str] = set()
    for detector in detectors:
        for branch in detector.branches:
            ranked = eids or any(other.needs_order for other in detector.branches)
            names.update(branch.compile_ahead(eids=ranked))
    folder = cache_directory()
    found = [path for name in sorted(names) for path in (folder / f"{name}.py", *folder.rglob(f"{name}.*.nb?"))]
    if names:  # and what the host calls of the library
        name = runtime.library(True).__name__
        found += [folder / f"{name}.py"]
        found += [path for entry in sorted(runtime.ENTRIES) for path in folder.rglob(f"{name}.{entry}-*.nb?")]
    return Shipment(
        tuple((str(path.relative_to(folder)), path.stat().st_mtime_ns, path.read_bytes()) for path in found)
    )


def _writable(folder: Path) -> Path:
    """Return the folder, or a temporary one where it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    other = Path(tempfile.gettempdir()) / f"tocsin-{os.getuid()}"
    other.mkdir(mode=0o700, parents=True, exist_ok=True)
    return other


def _write(path: Path, changed: int, content: bytes) -> None:
    """Write a file beside its place and rename it, since several workers may write it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.utime(temporary, ns=(changed, changed))
    Path(temporary).replace(path)
