"""Ship compiled kernels: the driver compiles once; executors write the files to disk and load them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tocsin.engine import runtime
from tocsin.engine.detector import Detector
from tocsin.engine.module_cache import DIGESTS, cache_folder, code_files, make_agree

LOG = logging.getLogger("tocsin")
SHIPMENTS = "shipments"  # what processes that pack or unpack wait for


@dataclass(frozen=True, slots=True)
class Shipment:
    """Files of the kernel cache, each as name and content."""

    files: tuple[tuple[str, bytes], ...] = ()

    def unpack(self) -> None:
        """Write the kernels into the cache of this machine, unless they are there; without one they are compiled."""
        if not self.files:
            return
        with suppress(OSError), cache_folder(SHIPMENTS) as folder:
            if not all((folder / name).exists() for name, _ in self.files):
                for name, content in self.files:
                    make_agree(folder / name, content)


def packed(detectors: Iterable[Detector], *, eids: bool) -> Shipment:
    """Compile everything that these detectors may need, and pack it."""
    names: set[str] = set()
    detectors = list(detectors)
    for number, detector in enumerate(detectors, 1):
        rule = detector.plan.title or "the query"
        LOG.info("compiling %s for the workers (%d of %d)", rule, number, len(detectors))
        for branch in detector.branches:
            ranked = eids or any(other.needs_order for other in detector.branches)
            names.update(branch.compile_ahead(eids=ranked))
    if not names:
        return Shipment()
    with cache_folder(SHIPMENTS) as folder:
        found = [path for name in sorted(names) for path in _files(folder, name)]
        library = runtime.library(True).__name__
        called = tuple(f"{library}.{entry}-" for entry in runtime.ENTRIES)  # by the host; kernels have the rest inside
        found += [path for path in _files(folder, library) if path.suffix[:3] != ".nb" or path.name.startswith(called)]
        return Shipment(tuple((str(path.relative_to(folder)), path.read_bytes()) for path in found))


def _files(folder: Path, name: str) -> list[Path]:
    """All files of a module in the cache."""
    machine_code = [path for place in folder.rglob("*/") for path in code_files(name, place)]
    return [folder / f"{name}.py", folder / f"{name}{DIGESTS}", *machine_code]
