"""What every test shares: where kernels are kept, the one Spark session, and who runs which test.

One worker runs all tests that need Spark in one JVM (`--dist loadgroup`, `tests/workers.py`). They come first, because
they take longest; the other workers take the rest.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.effort import examples, is_long
from tests.slices import read_slice

METER = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slice", metavar="NUMBER/OF", help="run only this slice of the tests, such as 0/8")


def pytest_configure(config: pytest.Config) -> None:
    """Keep kernels apart from the user's, for all workers; except in long runs compile them with less optimisation.

    Numba does not tell its files apart by the level of optimisation: each level has a folder of its own. Level 1 is
    what other processes that tests start compile with; in our own it is still less (`tests/quick_compile.py`).
    """
    cache = os.environ.setdefault("TOCSIN_CACHE", str(config.rootpath / ".cache" / "kernels"))
    os.environ.setdefault("TOCSIN_COMPILE_FIRST", "1")  # else short tests would meet plain bodies only
    level = os.environ.setdefault("NUMBA_OPT", "3" if is_long() else "1")
    if level != "3":
        os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(cache) / f"numba-{level}"))
    # `max_examples` is for tests that say no number; how long an example takes says nothing on a busy machine
    settings.register_profile(
        "effort", max_examples=examples(100, least=20), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("effort")
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        from tests import cpu_time

        config.stash[METER] = cpu_time.begin()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if METER in config.stash:
        from tests import cpu_time

        cpu_time.tell(config.stash[METER], terminalreporter, limited=not is_long())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the slice, and put what takes longest first: the tests on Spark, then those that are slow."""
    chosen = config.getoption("--slice")
    if chosen is not None:
        mine = read_slice(chosen)
        config.hook.pytest_deselected(items=[item for item in items if not mine.has(item.nodeid)])
        items[:] = [item for item in items if mine.has(item.nodeid)]
    items.sort(key=lambda item: 0 if needs_spark(item) else 1 if item.get_closest_marker("slow") else 2)


def pytest_collection_finish() -> None:
    """Before the first test: compile quickly, and look for garbage less often, and never among what all tests share.

    Numba makes so many small objects that looking through them was a sixth of the time of a compilation.
    """
    if os.environ["NUMBA_OPT"] == "1":
        from tests import quick_compile
        from tocsin import quick_analysis

        quick_analysis.switch_on()
        quick_compile.switch_on()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def needs_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup` the groups are ours."""
    from tests.workers import ByGroup

    return ByGroup(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark session of a run."""
    from tocsin.spark.setup.session import QUICK, session

    java = "spark.driver.extraJavaOptions"
    settings = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2", **QUICK}
    settings[java] += " -XX:+UseSerialGC"  # on two cores, one of which another worker needs
    # for each column that Python makes Spark would note the place of the call, which takes longer than to make it
    settings["spark.python.sql.dataFrameDebugging.enabled"] = "false"
    settings["spark.python.daemon.module"] = "tests.spark_daemon"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent.parent), prepend=os.pathsep)  # where the JVM finds it
        running = session(master="local[2]", config=settings)
    yield running
    running.stop()


# Our queries are long expressions over few rows: they take longer to compile in the JVM than to interpret.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture
def interpreted(spark: Any) -> Iterator[None]:
    """Spark interprets its expressions during the test."""
    before = {key: spark.conf.get(key) for key in INTERPRETED}
    for key, value in INTERPRETED.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


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
