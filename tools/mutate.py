"""Test the tests: change one token at a time in a copy of the source, and tell which changes no test sees.

    python tools/mutate.py --mutants 40 [--seed 1] [--skip 12] [--file order/sort.py] [--seconds 400] [--minutes 8]

A survivor needs a test, or a place with the reason in `tools/equivalent_mutants.txt`: what can be seen nowhere. The
exit code is 1 if there are survivors that have neither.
"""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.mutants import Mutant, candidates, is_python

ROOT = Path(__file__).parent.parent
SOURCE = "src/tocsin"
KNOWN = "tools/equivalent_mutants.txt"
KERNELS = ".cache/kernels"
COPIED = (
    "src", "tests", "tools", "docs", "examples", "benchmarks", "pyproject.toml", "README.md", "MAP.md", "CHANGELOG.md",
    "CONTRIBUTING.md", "Makefile", "constraints.txt", "LICENSE",
)  # fmt: skip
QUICK = "not jit and not long and not kill and not cluster and not kafka"

# The tests that look at a package as a whole; those that import the module itself come before them.
TESTS = {
    "": "run encode cli",
    "lang": "parser printer fluent notation cases",
    "plan": "bind passes explain filters cases marks timeout groups",
    "encode": "encode inputs decimals run",
    "engine": "engine cases expressions purge certainty withdrawals settled_at texts replay",
    "order": "order auto streams cases",
    "codec": "codec states parts",
    "spill": "spill texts",
    "select": "operators after_match consumption counting",
    "staged": "staged staged_compiled staged_correcting",
    "deriving": "derived shard_derived",
    "edge": "edge",
    "constraint": "constraint constraint_traces",
    "graph": "run ways texts operators cases",
    "run": "run inputs cli streams",
    "shards": "shard shard_order parts",
    "spark": "spark_worker_reads spark_detect spark_expressions",
    "jobs": "pipeline",
    "app": "cli cases",
    "testing": "oracle notation cases levels streams",
}

# What draws random tests: a change there draws others, which are tests as well.
GENERATORS = (
    "testing/draw_",
    *(f"testing/{name}.py" for name in "corpus delays disorder shop strategies streams".split()),
)

MANY = 8  # test files that import a module
FALLEN, SURVIVED, SLOW, EQUIVALENT = "fallen", "survived", "out of time", "equivalent"


def all_mutants(root: Path, only: str | None = None) -> list[Mutant]:
    """List every change of the package, in a fixed order; `only` is a part of the path."""
    found: list[Mutant] = []
    for path in sorted((root / SOURCE).rglob("*.py")):
        name = str(path.relative_to(root / SOURCE))
        if not name.startswith(GENERATORS) and (only is None or only in name):
            found += candidates(name, path.read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=1)
def _named_in(folder: Path) -> dict[Path, frozenset[str]]:
    """For each test file the modules that it names, in full or as `from package import module`."""
    found = {}
    for path in sorted(folder.glob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        names = set(re.findall(r"\btocsin(?:\.\w+)+", text))
        for package, listed in re.findall(r"from (tocsin[\w.]*) import ([^\n]*)", text):
            names |= {f"{package}.{leaf}" for leaf in re.findall(r"\w+", listed)}
        found[path] = frozenset(name[:end] for name in names for end in _ends(name))
    return found


def _ends(name: str) -> list[int]:
    """Where a dotted name and each package in it end."""
    return [at for at, letter in enumerate(name) if letter == "."] + [len(name)]


def chosen_tests(file: str, root: Path) -> list[str]:
    """Choose the test files that could see a change of a module, those first that will most likely see it.

    They are those that import the module, those of its package, and those that have a word of its path in their name.
    """
    dotted = "tocsin." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    naming = _named_in(root / "tests")
    package = file.split("/", 1)[0] if "/" in file else ""
    named = [root / "tests" / f"test_{name}.py" for name in TESTS.get(package, "").split()]
    direct = [path for path, names in naming.items() if dotted in names]
    akin = {path: words_shared(dotted.removeprefix("tocsin."), path.stem) for path in [*naming, *named]}
    others = [*direct, *(path for path in naming if akin[path])]
    if package != "spark":  # a JVM takes long to start: only where it is about Spark
        others = [path for path in others if "spark" not in path.name and path.name != "test_pipeline.py"]
    # what many import, tests of its package see sooner than each of those
    chosen = dict.fromkeys([*named, *others] if len(direct) > MANY else [*others, *named])
    ranked = sorted((path for path in chosen if path.exists()), key=lambda path: -akin[path])
    return [str(path.relative_to(root)) for path in ranked]


@cache
def _words(name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z]{4,}", name))


def words_shared(module: str, test: str) -> int:
    """Count the words of a module's name that are, at least as their beginning, in the name of a test file.

    >>> words_shared("plan.timeouts", "test_timeout"), words_shared("lang.staged_tokens", "test_staged_compiled")
    (1, 1)
    """
    mine, its = _words(module), _words(test.removeprefix("test_"))
    return sum(any(one.startswith(other) or other.startswith(one) for other in its) for one in mine)


def copied(root: Path, into: Path) -> Path:
    """Copy the tree, without what is made from it."""
    for name in COPIED:
        path = root / name
        if path.is_dir():
            shutil.copytree(
                path, into / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", ".venv", "out")
            )
        elif path.exists():
            shutil.copy2(path, into / name)
    kernels = root / KERNELS
    if kernels.is_dir():  # what was compiled without any change; what mutants compile stays in the copy
        shutil.copytree(kernels, into / KERNELS)
    return into


def judged(tree: Path, tests: Sequence[str], seconds: float) -> tuple[str, str]:
    """Run the tests in the copy; stop at the first that fails, and name it, or when the time is over."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"EXAMPLES": "quick", "TOCSIN_CACHE": str(tree / KERNELS)}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", QUICK, *tests]
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as running:
        try:
            said = running.communicate(timeout=seconds)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return SLOW, ""
    failed = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", said, re.MULTILINE)
    return (SURVIVED if running.returncode == 0 else FALLEN), failed[1] if failed else ""


def known(root: Path) -> dict[tuple[str, str, str], str]:
    """Read the list of equivalent mutants: blocks of file, `- before`, `+ after` and `= reason`."""
    path = root / KNOWN
    found: dict[tuple[str, str, str], str] = {}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if len(lines) == 4 and [line[:2] for line in lines[1:]] == ["- ", "+ ", "= "]:
            found[lines[0], lines[1][2:], lines[2][2:]] = lines[3][2:]
        elif lines:
            raise SystemExit(f"{KNOWN}: a block is a file, `- before`, `+ after` and `= reason`, not {lines}")
    return found


def shown(mutant: Mutant, source: str) -> str:
    """Return a mutant as a difference, with its place."""
    place = f"{SOURCE}/{mutant.file}:{mutant.line(source)}"
    lines = difflib.unified_diff(source.splitlines(), mutant.applied(source).splitlines(), lineterm="", n=1)
    return "\n".join([f"{place} ({mutant.rule})", *list(lines)[2:]])


def run(
    root: Path, chosen: Sequence[tuple[int, Mutant]], seconds: float, until: float = math.inf
) -> tuple[Counter[str], list[str]]:
    """Judge the mutants one after another; return the counts, and the survivors as differences."""
    counts: Counter[str] = Counter()
    survivors: list[str] = []
    equivalent, sound = known(root), set[str]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copied(root, Path(folder))
        for number, mutant in chosen:
            if time.monotonic() > until:
                break
            path = tree / SOURCE / mutant.file
            source = path.read_text(encoding="utf-8")
            began = time.monotonic()
            if mutant.key(source) in equivalent:
                word = EQUIVALENT
            else:
                path.write_text(mutant.applied(source), encoding="utf-8")
                word, test = judged(tree, chosen_tests(mutant.file, tree), seconds)
                path.write_text(source, encoding="utf-8")
                if word == FALLEN and test not in sound:
                    if judged(tree, [test] if test else chosen_tests(mutant.file, tree), seconds)[0] != SURVIVED:
                        raise SystemExit(f"{test or mutant.file}: its tests fail without any change")
                    sound.add(test)
            counts[word] += 1
            place = f"{mutant.file}:{mutant.line(source)}"
            print(f"{number:4} {word:11} {time.monotonic() - began:5.0f} s  {place} ({mutant.rule})", flush=True)
            if word == SURVIVED:
                survivors.append(shown(mutant, source))
                print(survivors[-1], flush=True)
    return counts, survivors


def _is_python(mutant: Mutant, root: Path) -> bool:
    return is_python(mutant.applied((root / SOURCE / mutant.file).read_text(encoding="utf-8")))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=40, help="how many to try")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws others")
    parser.add_argument("--skip", type=int, default=0, help="pass over so many of them, which were judged before")
    parser.add_argument("--minutes", type=float, default=None, help="begin with no other one after this time")
    parser.add_argument("--file", default=None, help="only modules whose path has this in it")
    parser.add_argument("--seconds", type=float, default=400, help="how long the tests of one mutant may take")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree; it is copied, never changed")
    given = parser.parse_args(arguments)
    every = all_mutants(given.root, given.file)
    random = Random(given.seed)  # noqa: S311 - not for secrets
    drawn = (each for each in random.sample(every, len(every)) if _is_python(each, given.root))
    chosen = list(enumerate(islice(drawn, given.mutants), 1))
    print(f"{len(chosen)} of {len(every):,} mutants, seed {given.seed}", flush=True)
    until = math.inf if given.minutes is None else time.monotonic() + 60 * given.minutes
    counts, survivors = run(given.root, chosen[given.skip :], given.seconds, until)
    print("\n" + ", ".join(f"{count} {word}" for word, count in counts.items()))
    if survivors:
        print(f"\nsurvivors: give each a test, or a place in {KNOWN} with the reason\n\n" + "\n\n".join(survivors))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
