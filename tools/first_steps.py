"""How long a newcomer waits: from a clone to the first result, cold and warm (`make first-steps`)."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
QUERY = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h"
NEW = "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] AND s.price > 10 WITHIN 6 h"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        clone, cache = Path(folder) / "tocsin", Path(folder) / "cache"
        cache.mkdir(mode=0o700)
        environment = {**os.environ, "TOCSIN_CACHE": str(cache)}
        tocsin = [".venv/bin/tocsin"]
        over = ["--input", "out/demo/events.csv", "--format", "csv", "--output", "out/found.csv"]
        run, new = [*tocsin, "run", QUERY, *over], [*tocsin, "run", NEW, *over]
        total = timed("clone", ["git", "clone", "--quiet", str(ROOT), str(clone)], Path(folder), environment)
        total += timed("set up (make setup)", ["make", "setup"], clone, environment)
        total += timed("tocsin --help", [*tocsin, "--help"], clone, environment)
        total += timed(
            "the demo, embedded", [*tocsin, "demo", "--engine", "embedded", "--folder", "out/demo"], clone, environment
        )
        print(f"{total:6.2f} s  from the clone to the first result", flush=True)
        timed("a cold rule: never seen before", new, clone, environment)
        timed("a rule, its machine code made first", run, clone, {**environment, "TOCSIN_COMPILE_FIRST": "1"})
        timed("a warm rule: its machine code is kept", run, clone, environment)
        timed("... once more", run, clone, environment)


def timed(what: str, command: Sequence[str], folder: Path, environment: dict[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{what} failed: {' '.join(command)}\n{done.stderr}")
    print(f"{took:6.2f} s  {what}", flush=True)
    return took


if __name__ == "__main__":
    main()
