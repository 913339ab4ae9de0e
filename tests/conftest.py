"""What every test shares: where kernels are kept, the one Spark session, and who runs which test.

Tests that need Spark carry the group `spark`, so that one worker runs them all in one JVM (`--dist loadgroup`). They
come first, because they take longest; the other workers take the rest, slow tests one by one, quick ones by file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.effort import examples, is_long
from tests.slices import read_slice

SPARK = "spark"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slice", metavar="NUMBER/OF", help="run only this slice of the tests, such as 0/8")


def pytest_configure(config: pytest.Config) -> None:
    """Keep kernels apart from the user's, for all workers; except in long runs compile them with less optimisation.

    Numba does not tell its files apart by the level of optimisation: each level has a folder of its own.
    """
    cache = os.environ.setdefault("TOCSIN_CACHE", str(config.rootpath / ".cache" / "kernels"))
    level = os.environ.setdefault("NUMBA_OPT", "3" if is_long() else "1")
    if level != "3":
        os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(cache) / f"numba-{level}"))
    settings.register_profile("effort", max_examples=examples(100, least=20))  # for tests that say no number
    settings.load_profile("effort")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the slice, give each test its group, and put what takes longest first."""
    chosen = config.getoption("--slice")
    if chosen is not None:
        mine = read_slice(chosen)
        config.hook.pytest_deselected(items=[item for item in items if not mine.has(item.nodeid)])
        items[:] = [item for item in items if mine.has(item.nodeid)]
    groups = {item: group(item) for item in items}
    for item, name in groups.items():
        if name is not None:
            item.add_marker(pytest.mark.xdist_group(name))
    items.sort(key=lambda item: 0 if groups[item] == SPARK else 1 if groups[item] is None else 2)


def group(item: pytest.Item) -> str | None:
    """With which tests this one shares a worker: those on Spark, those of its file, or none because it is slow."""
    if SPARK in getattr(item, "fixturenames", ()):
        return SPARK
    return None if item.get_closest_marker("slow") else item.path.name


@pytest.fixture(scope="session", autouse=True)
def _verified_plans() -> None:
    """Every plan that a test optimises is verified after each pass."""
    from tocsin.plan.passes import checks

    checks.set(True)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark session of a run."""
    from tocsin.spark.setup.session import QUICK, session

    settings = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2", **QUICK}
    running = session(master="local[2]", config=settings)
    yield running
    running.stop()


@pytest.fixture
def lasting_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The one session, for programs that think that they have their own: it does not stop for them.

    The JVM takes relative paths from the folder of the test, as its own JVM would.
    """
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(spark.sparkContext._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(hadoop.Path(str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    yield spark
    files.setWorkingDirectory(before)
