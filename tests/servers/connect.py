"""A server of Spark Connect on loopback: a process of its own, which can be killed."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.cluster import QUICK, ROOT, START, environment, spark_home
from tests.servers.processes import LOOPBACK, Started, free_ports, started, wait_for

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
WORKER_KERNELS = "worker-kernels"


@dataclass(frozen=True)
class Connect:
    """A running server: its address for clients, and its process."""

    address: str
    process: Started


@contextmanager
def running(folder: Path) -> Iterator[Connect]:
    """A server that takes connections; its workers keep kernels in a folder of their own."""
    (port,) = free_ports(1)
    settings = {
        "spark.connect.grpc.binding.port": f"{port}",
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    given = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    command = [str(spark_home() / "bin" / "spark-submit"), "--class", MAIN, "--master", "local[2]", *given]
    folder.mkdir(parents=True, exist_ok=True)
    env = environment(folder, PYTHONPATH=str(ROOT / "src"), TOCSIN_CACHE=str(folder / WORKER_KERNELS))
    env.pop("NUMBA_CACHE_DIR", None)  # which would be the same for all
    log = folder / "server.log"
    with started("server", [*command, "spark-internal"], log=log, env=env, cwd=folder) as process:
        wait_for("the server", lambda: _open(port), timeout=START, needs=[process])
        yield Connect(f"sc://{LOOPBACK}:{port}", process)


def _open(port: int) -> bool:
    with socket.socket() as door:
        door.settimeout(1)
        return door.connect_ex((LOOPBACK, port)) == 0


def python_without_tocsin(folder: Path) -> Path:
    """A Python for workers that has everything but Tocsin."""
    gone = "import pathlib, sys\nsys.path[:] = [p for p in sys.path if not pathlib.Path(p, 'tocsin').is_dir()]\n"
    return _python(folder / "without", "sitecustomize.py", gone)


def python_with_another_tocsin(folder: Path) -> Path:
    """A Python for workers that has another version of Tocsin."""
    return _python(folder / "other", "tocsin/__init__.py", "__version__ = '0.1.7'\n")


def _python(folder: Path, name: str, text: str) -> Path:
    """A command that starts this Python with one more file before everything else."""
    file = folder / "packages" / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{folder / "packages"}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script
