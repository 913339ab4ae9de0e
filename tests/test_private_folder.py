"""Code is kept only where nobody else can put or change it, and what is damaged there is made anew."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tocsin.engine.module_cache import make_agree
from tocsin.engine.private_folder import is_private, private_folder

ROOT = Path(__file__).parents[1]
NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder whose parents are ours: not every machine has such temporary directories of tests."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def made(path: Path, mode: int = 0o700) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


def test_what_is_ours_alone_is_private(place: Path) -> None:
    assert is_private(place)
    assert is_private(made(place / "readable", 0o755))
    assert is_private(made(made(place / "sticky", 0o1777) / "mine"))


def test_what_others_can_write_is_not(place: Path) -> None:
    assert not is_private(made(place / "all", 0o777))
    assert not is_private(made(place / "group", 0o770))
    assert not is_private(made(place / "sticky", 0o1777))
    assert not is_private(made(place / "all" / "mine"))  # who may write to the one around it can exchange it


def test_links_are_followed_as_far_as_nobody_else_can_bend_them(place: Path) -> None:
    target = made(place / "target")
    open_to_all = made(place / "open", 0o777)
    for name, link in ("straight", place / "straight"), ("bent", open_to_all / "bent"):
        link.symlink_to(target)
        assert is_private(link) is (name == "straight")
    (target / "out").symlink_to("../open/bent")
    assert not is_private(target / "out")
    (place / "round").symlink_to("round")
    assert not is_private(place / "round")
    file = target / "file"
    file.touch()
    assert not is_private(file)


@as_root
def test_what_belongs_to_another_is_not(place: Path) -> None:
    theirs = made(place / "theirs")
    inside = made(theirs / "inside")
    link = place / "link"
    link.symlink_to(made(place / "target"))
    assert is_private(link)
    os.chown(theirs, NOBODY, NOBODY)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert not is_private(theirs) and not is_private(inside) and not is_private(link)


def test_without_a_home_a_folder_of_ours_in_the_temporary_directory_is_taken(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless(_: int) -> None:
        raise KeyError("no such user")

    for name in ("HOME", "TOCSIN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nameless)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    folder = private_folder()
    assert folder == place / f"tocsin-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private_folder() == folder
    folder.chmod(0o777)  # now it may be anybody's
    with pytest.raises(OSError, match="ours alone"):
        private_folder()


# --- what is run from there -----------------------------------------------------------------------------------------

QUICKLY = """
from tests import quick_compile
from tocsin import quick_analysis
quick_analysis.switch_on()
quick_compile.switch_on()
"""  # what is run from where does not depend on how well it was compiled
DETECT = """
import threading
from numba.core import event
import tocsin

events = [{"type": "AB"[t % 2], "time": t, "k": t // 2 % 3} for t in range(40)]
found = []


def detect():
    found.append(len(tocsin.query("EVENT SEQ(A a, B b) WHERE a.k = b.k AND b.k > 0 WITHIN 1").detect(events)))


with event.install_recorder("numba:run_pass") as compiled:
    threads = [threading.Thread(target=detect) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(found, len(compiled.buffer) > 0)
"""
EXPECTED = sum(1 for t in range(0, 40, 2) if t // 2 % 3 > 0)


def detected(cache: Path, *, threads: int = 1, **environment: str) -> tuple[list[int], bool]:
    """What a new process finds, and whether it had to compile anything."""
    script = QUICKLY + DETECT.replace("THREADS", str(threads))
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment = kept | {"TOCSIN_CACHE": str(cache), "NUMBA_OPT": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found, compiled = done.stdout.rsplit(maxsplit=1)
    return [int(number) for number in found.strip("[]").split(",")], compiled == "True"


@pytest.mark.jit
@pytest.mark.slow
def test_code_that_somebody_planted_is_not_run(place: Path) -> None:
    ours = place / "ours"
    assert detected(ours) == ([EXPECTED], True)
    planted = made(place / f"tocsin-{os.getuid()}", 0o777)
    for path in ours.glob("*.py"):
        evil = f"{path.read_text()}\nopen({str(place / 'RAN')!r}, 'w').close()\n"
        (planted / path.name).write_text(evil)
        path.write_text(evil)  # and even what lies in our own folder is not believed
    before = sorted(planted.iterdir())
    assert detected(Path("/proc/nobody"), TMPDIR=str(place)) == ([EXPECTED], True)
    assert sorted(planted.iterdir()) == before
    assert detected(ours)[0] == [EXPECTED]
    assert not (place / "RAN").exists()


@pytest.mark.jit
@pytest.mark.long
def test_a_damaged_cache_is_healed(place: Path) -> None:
    """Cut, emptied, changed in one bit, or gone: the answer is the same, and the next process compiles nothing."""
    assert detected(place) == ([EXPECTED], True)
    assert detected(place) == ([EXPECTED], False)
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.parent.name != "locks")
    kinds = {path.suffix for path in files}
    assert kinds == {".py", ".sum", ".nbi", ".nbc"}
    for number, path in enumerate(files):
        content = path.read_bytes()
        flipped = content[:-20] + bytes([content[-20] ^ 4]) + content[-19:]
        path.write_bytes([content[: len(content) // 2], b"", flipped, content][number % 4])
    max(place.rglob("*.nbc"), key=lambda path: path.stat().st_size).unlink()
    assert detected(place) == ([EXPECTED], True)
    assert detected(place) == ([EXPECTED], False)


@pytest.mark.jit
@pytest.mark.slow
def test_eight_threads_detect_at_once_before_anything_is_compiled(place: Path) -> None:
    assert detected(place / "new", threads=8) == ([EXPECTED] * 8, True)


@pytest.mark.jit
@pytest.mark.long
def test_processes_that_start_together_share_one_cache(place: Path) -> None:
    """One of them compiles, the others wait for it and load; a later one only loads."""
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(detected, [place / "new"] * 3))
    assert [answers for answers, _ in found] == [[EXPECTED]] * 3
    assert sum(compiled for _, compiled in found) == 1
    assert detected(place / "new") == ([EXPECTED], False)


SHIP = """
import pickle, sys
import numpy as np
from numba.core import event
from tocsin.engine import runtime
from tocsin.engine.detector import Detector
from tocsin.items import Strings
from tocsin.lang.parser import parse
from tocsin.plan.bind import bind
from tocsin.plan.facts import types_of
from tocsin.plan.passes import optimize
from tocsin.schema import Field, Kind, Schema
from tocsin.shards.kernel_shipment import Shipment, packed

schema = Schema(types={"A": {}, "B": {}}, common={"k": Field("k", Kind.INT)})
plan = optimize(bind(parse("EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN 5"), schema, {}))
detector = Detector(plan, types_of(plan), Strings(), jit=True)
with event.install_recorder("numba:run_pass") as compiled:
    if sys.argv[2] == "pack":
        with open(sys.argv[1], "wb") as file:
            pickle.dump(packed([detector], eids=False).files, file)
    else:
        with open(sys.argv[1], "rb") as file:
            Shipment(pickle.load(file)).unpack()
        assert detector.branches[0].compile_ahead(eids=False)
        runtime.library(True).wait_entry(np.zeros(runtime.PARAMS, np.int64), np.zeros(9, np.int64))
print(len(compiled.buffer) > 0)
"""


@pytest.mark.jit
@pytest.mark.slow
def test_kernels_that_were_shipped_are_not_compiled_again(place: Path) -> None:
    """Not even those functions of the library that the host calls, nor where Numba was given places of its own."""

    def shipped(cache: Path, way: str) -> str:
        given = {"TOCSIN_CACHE": str(cache), "NUMBA_CACHE_DIR": str(place / f"numba-{way}")}
        environment = {**os.environ, **given, "NUMBA_OPT": "1", "TMPDIR": str(place)}
        command = [sys.executable, "-c", QUICKLY + SHIP, str(place / "shipment"), way]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert shipped(place / "driver", "pack").strip() == "True"
    assert shipped(place / "worker", "unpack").strip() == "False"


def test_a_file_is_written_only_where_it_differs_and_never_through_a_link(place: Path) -> None:
    code, target = place / "code.py", place / "target.py"
    make_agree(code, b"one")
    before = code.stat().st_ino
    make_agree(code, b"one")
    assert code.stat().st_ino == before
    make_agree(code, b"two")
    assert (code.read_bytes(), code.stat().st_ino != before) == (b"two", True)
    target.write_bytes(b"two")
    code.unlink()
    code.symlink_to(target)
    make_agree(code, b"two")
    assert (code.is_symlink(), code.read_bytes(), target.read_bytes()) == (False, b"two", b"two")
