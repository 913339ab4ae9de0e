"""What every test shares: compiled kernels go to one directory of the repository, where the next run finds them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Kernels of the tests are kept apart from the user's, and shared by all workers."""
    os.environ.setdefault("TOCSIN_CACHE", str(config.rootpath / ".cache" / "kernels"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all tests of a worker."""
    from tocsin.spark.setup.session import QUICK, session

    settings = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2", **QUICK}
    running = session(master="local[2]", config=settings)
    yield running
    running.stop()
