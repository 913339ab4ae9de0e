"""How Python workers are started: with PySpark as it is installed here, not out of the archive that Spark puts first.

Spark names its own `pyspark.zip` before everything else. Python keeps no compiled modules of an archive, so that every
process compiles PySpark anew, for half a second and more; a stream starts such a process each time it starts. Where
the archive lies inside the very package that this process runs, the package is as good.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from pathlib import Path

import pyspark

from tocsin.engine.private_folder import private_folder
from tocsin.spark.setup.java import make_executable

CHECKER = "pyspark.sql.streaming.transform_with_state_driver_worker"
SCRIPT = """\
#!/bin/sh
# Made by Tocsin: Python without the archives of PySpark, which is installed beside it.
for archive in {archives}; do
    case "$PYTHONPATH" in
        "$archive:"*) PYTHONPATH=${{PYTHONPATH#"$archive:"}} ;;
    esac
done
export PYTHONPATH
if [ "$1 $2" = "-m {checker}" ]; then
    exec {python} "$@" >/dev/null  # it tells of every step it takes
fi
exec {python} "$@"
"""


def python() -> str:
    """The command that starts this Python for workers on this machine."""
    folder = Path(pyspark.__file__).parent / "python" / "lib"
    archives = sorted(folder.glob("*.zip"), key=lambda path: path.name != "pyspark.zip")  # Spark's order
    if os.name != "posix" or not (folder / "pyspark.zip").is_file():
        return sys.executable
    text = SCRIPT.format(
        archives=" ".join(shlex.quote(str(path)) for path in archives),
        checker=CHECKER,
        python=shlex.quote(sys.executable),
    )
    try:
        script = private_folder() / "python" / hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        make_executable(script, text)
    except OSError:
        return sys.executable
    return str(script) if os.access(script, os.X_OK) else sys.executable
