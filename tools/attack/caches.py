"""Cache folders: cut, emptied, foreign, open to others, or read-only; and the first detect from several threads.

A process of its own runs a compiled query with the folder. Whatever the folder holds, the answer is right, and code
that others have planted there does not run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import damaged

PROGRAM = """
import sys, threading
import tocsin
from tocsin.errors import TocsinError
query = tocsin.query("EVENT SEQ(A a, B b) WHERE [k] WITHIN 5")
rows = [{"type": "AB"[at % 2], "time": at, "k": at % 3} for at in range(12)]
said = []
def detect():
    try:
        said.append(str(len(query.detect(rows))))
    except TocsinError as error:
        said.append("refused")
    except BaseException as error:
        said.append(f"{type(error).__name__}: {error}"[:200])
threads = [threading.Thread(target=detect) for _ in range(int(sys.argv[1]))]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(" / ".join(sorted(set(said))))
"""
ANSWER = "5"  # pairs of A and B with the same k within 5 ticks, counted by hand
DAMAGES = (
    "bytes", "cut", "empty", "gone", "foreign", "directory", "planted", "open", "open planted", "read-only", "link",
    "other owner", "no folder", "a file", "no home",
)  # fmt: skip
MARK = "planted-code-ran"


@cache
def filled() -> tempfile.TemporaryDirectory[str]:
    """Return a folder with the kernel of the query, compiled once."""
    folder = tempfile.TemporaryDirectory(prefix="attack-cache-")
    run(Path(folder.name), 1)
    return folder


def run(folder: Path, threads: int, **more: str) -> str:
    """Run the program with this cache folder; return what it said."""
    environment = {**os.environ, "TOCSIN_CACHE": str(folder), "NUMBA_OPT": "1", **more}
    environment.pop("NUMBA_CACHE_DIR", None)
    environment = {name: value for name, value in environment.items() if value}
    command = [sys.executable, "-c", PROGRAM, str(threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=400)
    return done.stdout.strip() or f"exit code {done.returncode}: {done.stderr[-300:]}"


def make(random: Random) -> Input:
    """Draw the damage."""
    damage, threads = random.choice(DAMAGES), random.choice((1, 1, 8))
    return {
        "damage": damage,
        "threads": threads,
        "seed": random.randrange(2**32),
        "kind": random.choice(("py", "nbi", "nbc")),
    }


def spoil(folder: Path, given: Input) -> None:
    """Do the damage."""
    random = Random(given["seed"])  # noqa: S311 - not for secrets
    files = sorted(folder.rglob(f"*.{given['kind']}")) or sorted(folder.rglob("*.*"))
    chosen = random.choice(files)
    evil = f"\nopen({str(folder.parent / MARK)!r}, 'w').close()\n"
    match given["damage"]:
        case "bytes":
            chosen.write_bytes(damaged(random, chosen.read_bytes()))
        case "cut":
            chosen.write_bytes(chosen.read_bytes()[: random.randrange(200)])
        case "empty":
            chosen.write_bytes(b"")
        case "gone":
            chosen.unlink()
        case "foreign":
            (folder / "notes.txt").write_text("x")
            chosen.write_bytes(random.randbytes(100))
        case "directory":
            chosen.unlink()
            chosen.mkdir()
        case "planted" | "open planted":
            for path in folder.glob("*.py"):
                path.write_text(path.read_text() + evil)
        case "no folder":
            shutil.rmtree(folder)
        case "a file":
            shutil.rmtree(folder)
            folder.write_text("x")
    modes = {"open": 0o777, "open planted": 0o777, "read-only": 0o500}
    if given["damage"] in modes:
        folder.chmod(modes[given["damage"]])
    if given["damage"] == "other owner" and os.getuid() == 0:
        os.chown(folder, 65534, 65534)


def judge(given: Input) -> None:
    """Run twice: the second run finds what the first has left or healed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "cache"
        shutil.copytree(filled().name, folder)
        spoil(folder, given)
        if given["damage"] == "link":
            folder.rename(folder.with_name("elsewhere"))
            folder.symlink_to(folder.with_name("elsewhere"))
        more = {"HOME": "", "XDG_CACHE_HOME": "", "TOCSIN_CACHE": ""} if given["damage"] == "no home" else {}
        for turn in ("first", "second"):
            said = run(folder, given["threads"], **more)
            if (Path(place) / MARK).exists():
                raise WrongAnswerError(f"planted code ran, {given['damage']}: {said}")
            if said != ANSWER:
                raise WrongAnswerError(f"{turn} run, {given['damage']}: {said}")


SURFACE = Surface("caches", make, judge, share=0.02, seconds=300)
