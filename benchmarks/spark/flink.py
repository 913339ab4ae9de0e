"""The rival from another engine: the CEP library of Flink with its Java API, on the same parquet files.

The jars come out of the wheel that PyFlink itself is built on, the parquet format from Maven, and Hadoop's classes,
which that format needs, from PySpark. `java/SequenceJob.java` is compiled here and runs in a JVM of its own.
Everything that was fetched or compiled stays below `out/`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.spark.data import OUT, finish

VERSION = "2.3.0"
WHEEL = f"apache-flink-libraries=={VERSION}"
PARQUET = f"org.apache.flink:flink-sql-parquet:{VERSION}"
PARTS = ("dist", "cep", "connector-files", "table-api-java-uber", "table-runtime")  # of the wheel, each a jar
SOURCE = Path(__file__).parent / "java" / "SequenceJob.java"
HOME = OUT / f"flink-{VERSION}"
HEAP = "3g"
SLOTS = 2
FETCH_S, RUN_S = 900, 1800


class UnavailableError(Exception):
    """Why the rival cannot run here, in one sentence."""


def tool(name: str) -> str:
    """The path of a program of the JDK."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which(name)
    if found is None:
        raise UnavailableError(f"Flink needs a JDK, and there is no {name} in JAVA_HOME or on the PATH")
    return found


def classpath(*, fetch: bool = True) -> str:
    """Flink's jars, the parquet format, Hadoop's classes and the compiled job; what is missing is made."""
    java_compiler = tool("javac")
    jars = [*wheel_jars(fetch=fetch), parquet_jar(fetch=fetch), *hadoop_jars()]
    libraries = os.pathsep.join(map(str, jars))
    stamp = hashlib.sha256(SOURCE.read_bytes() + libraries.encode()).hexdigest()[:16]
    classes = HOME / f"classes-{stamp}"
    if not classes.exists():
        unfinished = classes.with_name(f"{classes.name}.{os.getpid()}")
        command = [java_compiler, "-proc:none", "-d", str(unfinished), "-cp", libraries, str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        finish(unfinished, classes)
    return os.pathsep.join([str(classes), libraries])


def wheel_jars(*, fetch: bool) -> list[Path]:
    """The jars of the wheel that the job needs."""
    wanted = [HOME / f"flink-{part}-{VERSION}.jar" for part in PARTS]
    if not all(jar.exists() for jar in wanted):
        if not fetch:
            raise UnavailableError(f"the jars of {WHEEL} have not been fetched yet: `make bench-spark` does")
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as place:
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, WHEEL]
            asked(download, f"the wheel {WHEEL} could not be downloaded")
            unpack(next(Path(place).glob("*.whl")), wanted)
    return wanted


def unpack(wheel: Path, wanted: list[Path]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {Path(name).name: name for name in archive.namelist()}
        for jar in wanted:
            if jar.name not in inside:
                raise UnavailableError(f"the wheel {WHEEL} has no {jar.name}")
            unfinished = jar.with_suffix(f".{os.getpid()}")
            with archive.open(inside[jar.name]) as source, unfinished.open("wb") as target:
                shutil.copyfileobj(source, target)
            unfinished.rename(jar)


def parquet_jar(*, fetch: bool) -> Path:
    """The parquet format, which the wheel does not have."""
    jar = HOME / f"flink-sql-parquet-{VERSION}.jar"
    if not jar.exists():
        maven = shutil.which("mvn")
        if not fetch or maven is None:
            raise UnavailableError(
                f"{PARQUET} is not here, and " + ("Maven (mvn) is missing" if fetch else "not fetched")
            )
        copy = [
            maven,
            "--quiet",
            "--batch-mode",
            "dependency:copy",
            f"-Dartifact={PARQUET}",
            f"-DoutputDirectory={HOME}",
        ]
        asked(copy, f"{PARQUET} could not be fetched with Maven")
    return jar


def hadoop_jars() -> list[Path]:
    """What the parquet format asks of Hadoop."""
    try:
        import pyspark
    except ImportError:
        raise UnavailableError(
            "Flink reads parquet with Hadoop's classes out of PySpark, which is not installed"
        ) from None
    folder = Path(pyspark.__file__).parent / "jars"
    patterns = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar")
    return [jar for pattern in patterns for jar in sorted(folder.glob(pattern))]


def asked(command: list[str], failure: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCH_S)
    except (subprocess.SubprocessError, OSError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise UnavailableError(f"{failure}: {said[-1] if said else 'no message'}") from None


def run(
    path: Path,
    window: int,
    *,
    runs: int,
    mode: str = "streaming",
    readers: int = SLOTS,
    only: str = "all",
    listing: Path | None = None,
    fetch: bool = True,
    pattern: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Run the job so many times in one JVM: matches, checksum, wall_s and cpu_s of each run.

    `pattern` says what is not as in the workload: `contiguity`, `skip`, `compares`.
    `mode` is Flink's: "streaming" keeps time by watermarks, "batch" sorts by key first. `listing` gets one line of
    three numbers for each match, the values in units of 2**-53.
    """
    options: dict[str, object] = {
        "input": path,
        "window": window,
        "slots": SLOTS,
        "readers": readers,
        "mode": mode,
        "runs": runs,
        "only": only,
    }
    options |= pattern or {}
    if listing is not None:
        options["list"] = listing
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [tool("java"), f"-Xmx{HEAP}", "-cp", classpath(fetch=fetch), "SequenceJob", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    if done.returncode:
        raise RuntimeError(f"the Flink job failed: {done.stderr.strip()[-2000:] or 'no message'}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
