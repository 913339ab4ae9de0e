"""What every test shares: compiled kernels go to one directory of the repository, where the next run finds them."""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Kernels of the tests are kept apart from the user's, and shared by all workers."""
    os.environ.setdefault("TOCSIN_CACHE", str(config.rootpath / ".cache" / "kernels"))
