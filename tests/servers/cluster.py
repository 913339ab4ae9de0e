"""A Spark standalone cluster from the pip package: one master, some workers, all on loopback.

The package ships no scripts that start them, but `bin/spark-class` starts any of Spark's mains. Workers get nothing
from the caller's Python path: what executors import has to be installed, or shipped with the job.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.processes import LOOPBACK, Started, free_ports, started, wait_for
from tocsin.spark.setup.java import use_java

ROOT = Path(__file__).parent.parent.parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"
PYTHON_DAEMON = "pyspark.daemon"
UNPACKED = "packages"  # what the archive is called where executors unpack it
DRIVER_KERNELS = "driver-kernels"
PRIVATE = ("SPARK_", "PYSPARK_", "PYTHON", "TOCSIN_")
START = 120.0
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # short lives: start fast, compile little


STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}


@dataclass(frozen=True)
class Cluster:
    """A running cluster: its address for `--master`, its processes, and the master's own view of them."""

    address: str
    page: str
    folder: Path
    master: Started
    workers: tuple[Started, ...]

    def status(self) -> dict[str, Any]:
        """The master's status page as JSON: workers and applications with their states."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=5) as answer:
            return dict(json.load(answer))

    def registered(self) -> list[str]:
        """The ids of the workers that the master believes alive; none while its page is not up."""
        with suppress(OSError, ValueError):
            return [worker["id"] for worker in self.status()["workers"] if worker["state"] == "ALIVE"]
        return []

    def executors(self, worker: Started) -> dict[int, str]:
        """The executor processes that a worker has started, by process id."""
        return {pid: line for pid, line in worker.commands().items() if EXECUTOR in line}


@contextmanager
def running(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """A master and its workers, registered; ended when the block is left, with their executors."""
    folder.mkdir(parents=True, exist_ok=True)
    port, page = free_ports(2)
    with ExitStack() as stack:
        master = stack.enter_context(
            _server("master", folder, MASTER, "--host", LOOPBACK, "--port", f"{port}", "--webui-port", f"{page}")
        )
        address = f"spark://{LOOPBACK}:{port}"
        sizes = ["--cores", f"{cores}", "--memory", memory]
        hands = tuple(
            stack.enter_context(_server(f"worker-{number}", folder, WORKER, address, *_place(folder, number), *sizes))
            for number in range(workers)
        )
        cluster = Cluster(address, f"http://{LOOPBACK}:{page}", folder, master, hands)
        everyone = [master, *hands]
        wait_for("all workers", lambda: len(cluster.registered()) == workers, timeout=START, needs=everyone)
        yield cluster


def _place(folder: Path, number: int) -> list[str]:
    """Where a worker listens and works; its port is any free one, said by itself."""
    return ["--host", LOOPBACK, "--port", "0", "--webui-port", "0", "--work-dir", str(folder / f"work-{number}")]


def _server(name: str, folder: Path, main: str, *arguments: str) -> AbstractContextManager[Started]:
    command = [str(spark_home() / "bin" / "spark-class"), main, *arguments]
    env = environment(folder, SPARK_DAEMON_MEMORY="256m", SPARK_DAEMON_JAVA_OPTS=QUICK)
    return started(name, command, log=folder / f"{name}.log", env=env, cwd=folder)


def spark_home() -> Path:
    """The folder of the installed pyspark, which is a whole Spark without its start scripts."""
    import pyspark

    return Path(pyspark.__file__).parent


def environment(folder: Path, **more: str) -> dict[str, str]:
    """What Spark's processes are told: loopback only, files in the folder; neither Python path nor kernels of ours."""
    use_java()
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
    return kept | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "PYSPARK_PYTHON": sys.executable,
        **more,
    }


def installed(folder: Path) -> Path:
    """A copy of Tocsin that no edit of the sources changes while a test runs."""
    place = folder / "installed"
    if not place.exists():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src" / "tocsin", place / "tocsin", ignore=ignored)
    return place


def archive(folder: Path) -> Path:
    """That copy as one zip, as `zip -r tocsin.zip tocsin` would make it."""
    path = folder / "tocsin.zip"
    if not path.exists():
        shutil.make_archive(str(path.with_suffix("")), "zip", installed(folder), "tocsin")
    return path


@contextmanager
def submitted(
    job: Path, *arguments: str, folder: Path, master: str, conf: Mapping[str, str], name: str = "driver"
) -> Iterator[Started]:
    """A job given to `spark-submit`; ended when the block is left.

    The driver has Tocsin installed, as it must: Spark asks a stateful stream for its columns in a Python of its own
    beside the driver, which sees what is installed and nothing else. Executors get an archive and unpack it.
    """
    wanted = {"spark.executorEnv.PYTHONPATH": UNPACKED, "spark.log.level": "WARN", **conf}
    settings = [word for key, value in wanted.items() for word in ("--conf", f"{key}={value}")]
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", master, "--archives", f"{archive(folder)}#{UNPACKED}", *settings),
        *(str(job), *arguments),
    ]
    env = environment(folder, PYTHONPATH=str(installed(folder)), TOCSIN_CACHE=str(folder / DRIVER_KERNELS))
    with started(name, command, log=folder / f"{name}.log", env=env, cwd=folder) as driver:
        yield driver
