"""Compilers: how long a kernel takes with an empty cache, and what a user waits for while 20 rules are compiled.

A kernel is compiled as the processes of `tocsin.compilers` do it: first the body that rows without nulls need, then the
rarer one. The rules have different shapes and watch one live stream.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent
MOST = 240.0  # seconds that all rules may take
PLAIN = 2000  # events where nothing is compiled
RULES = (
    "SEQ(A a, B b) WHERE [user] WITHIN 60 s",
    "SEQ(A a, B b, C c) WHERE [user] WITHIN 60 s",
    "SEQ(A a, B b, C c) WHERE [user] AND b.v > a.v WITHIN 60 s",
    "SEQ(A a, B b, C c, D d) WHERE [user] AND b.v > a.v AND d.v > c.v WITHIN 60 s",
    "SEQ(A a, B b, C c, D d, A e) WHERE [user] AND e.v > a.v WITHIN 60 s",
    "SEQ(A a, !B b, C c) WHERE [user] WITHIN 60 s",
    "SEQ(A a, B b, !C c) WHERE [user] WITHIN 20 s",
    "SEQ(!A a, B b, C c) WHERE [user] WITHIN 20 s",
    "SEQ(A a, !B b FOR 5 s) WHERE [user]",
    "SEQ(A a, B+ b, C c) WHERE [user] WITHIN 20 s",
    "SEQ(A a, B+ b, C c) WHERE [user] AND count(b) > 2 WITHIN 20 s",
    "SEQ(A a, FIRST B b, FIRST C c) WHERE [user] WITHIN 60 s",
    "SEQ(A a, LAST B b, C c) WHERE [user] WITHIN 60 s",
    "SEQ(A a, NEXT B b, C c) WHERE [user] WITHIN 60 s",
    "SEQ(A a, B? b, C c) WHERE [user] WITHIN 20 s",
    "SEQ(A a, OR(B b, C c), D d) WHERE [user] WITHIN 20 s",
    "AND(A a, B b) WHERE [user] WITHIN 20 s",
    "AND(A a, B b, C c) WHERE [user] AND a.v < b.v WITHIN 20 s",
    "SEQ(A a, B b) WHERE a.user = b.user AND a.v * 2 > b.v WITHIN 10 s",
    "SEQ(A a, B b, C c) WHERE a.v > 0.9 AND c.v < 0.1 WITHIN 1 s",
)


def cold(number: int) -> dict[str, float]:
    """Seconds of CPU for a chain of so many steps, in a process that has the library of all kernels."""
    from benchmarks.ours import compiled, steps
    from benchmarks.workloads import WORKLOADS, stream
    from tocsin.compiler_process import make_ready
    from tocsin.engine.codegen import Shape, generate
    from tocsin.engine.kernels import compile_to_disk

    make_ready()
    schema = stream(WORKLOADS["W1-100"], 1000).table().schema

    def seconds(steps_of: int) -> tuple[float, float]:
        began = time.process_time()
        detector = compiled(steps(steps_of), schema, jit=False)[0]()
        program = generate(detector.plan, detector.branches[0].block, Shape(False, False), detector.functions)
        compile_to_disk(program, False)
        first = time.process_time()
        compile_to_disk(program, True)
        return first - began, time.process_time() - first

    seconds(2)
    first, rarer = seconds(number)
    return {"first_s": first, "rarer_s": rarer}


def rules(number: int, *, compiling: bool = True) -> dict[str, float]:
    """Events are pushed one by one into one session, until all rules are compiled; not `compiling`: for some time."""
    import tocsin

    texts = [f"QUERY rule_{at} EVENT {rule}" for at, rule in enumerate(RULES[:number])]
    live = tocsin.query(";\n".join(texts)).stream(time_unit="us", jit=compiling)
    random, began, answered = Random(1), time.perf_counter(), 0.0
    pushes: list[float] = []
    while time.perf_counter() - began < MOST:
        row = {"type": random.choice("ABCDEFGH"), "time": len(pushes) * 20_000, "user": f"u{random.randrange(200)}"}
        before = time.perf_counter()
        found = len(list(live.push({**row, "v": random.random()})))
        pushes.append(time.perf_counter() - before)
        if found and not answered:
            answered = time.perf_counter() - began
        if not len(pushes) % 50:
            if are_compiled(number) if compiling else len(pushes) >= PLAIN:
                break
            time.sleep(0.01)  # as events that come now and then
    return {
        "rules": number, "first_answer_s": answered, "first_push_s": pushes[0], "later_push_s": max(pushes[1:]),
        "all_s": time.perf_counter() - began, "events": len(pushes),
    }  # fmt: skip


def are_compiled(number: int) -> bool:
    """Whether the first bodies of so many rules are there."""
    from tocsin.compilers import compilers

    jobs = [job for key, job in compilers()._jobs.items() if isinstance(key, tuple) and not key[1]]
    return len(jobs) == number and all(job.is_done for job in jobs)


def plain(number: int) -> dict[str, float]:
    """The same without compilers: what of the first answer is not waiting for them."""
    return rules(number, compiling=False)


def child(*words: str) -> dict[str, float]:
    """Call a function of this module in a process of its own, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {name: value for name, value in os.environ.items() if name != "TOCSIN_COMPILE_FIRST"}
        environment |= dict.fromkeys(("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "TOCSIN_CACHE"), cache)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.compiling", *words],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


@contextmanager
def busy() -> Iterator[None]:
    """Every core has something else to do meanwhile."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measured(*, quick: bool) -> dict[str, Any]:
    """All numbers."""
    number = 2 if quick else len(RULES)
    found: dict[str, Any] = {f"cold_{steps}": child("cold", str(steps)) for steps in ((4,) if quick else (4, 8))}
    found |= {"rules": child("rules", str(number)), "plain": child("plain", str(number))}
    with busy():
        found |= {"rules, busy": child("rules", str(number)), "plain, busy": child("plain", str(number))}
    return found


def text(found: dict[str, Any]) -> str:
    """The numbers as sentences."""
    lines = [
        f"- A chain of {name.removeprefix('cold_')} steps, empty cache, seconds of CPU in a compiler's process:"
        f" {each['first_s']:.2f} until the body is there that answers from then on, {each['rarer_s']:.2f} more for the"
        " one that takes nulls and withdrawals."
        for name, each in found.items()
        if name.startswith("cold")
    ]
    for name, when in (("", ""), (", busy", ", while every core has something else to do")):
        each, alone = found[f"rules{name}"], found[f"plain{name}"]
        lines.append(
            f"- {each['rules']} rules of different shapes in one live session{when}: the first answer after"
            f" {each['first_answer_s']:.2f} s ({alone['first_answer_s']:.2f} if nothing is compiled; the first push"
            f" binds all rules), the slowest later push {each['later_push_s']:.2f} s ({alone['later_push_s']:.2f}), all"
            f" compiled after {each['all_s']:.1f} s by the clock."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    called = {"cold": cold, "rules": rules, "plain": plain}[sys.argv[1]]
    sys.stdout.write(json.dumps(called(int(sys.argv[2]))) + "\n")
