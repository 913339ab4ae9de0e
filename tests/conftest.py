"""What every test shares: compiled kernels go to one directory for the whole run, and nothing is left behind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Kernels of a test run are kept apart from the user's cache, and shared by the workers of one run."""
    if "TOCSIN_CACHE" not in os.environ:
        os.environ["TOCSIN_CACHE"] = str(Path(tempfile.gettempdir()) / f"tocsin-tests-{os.getuid()}")
