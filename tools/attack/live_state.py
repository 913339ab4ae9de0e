"""The file of `tocsin run --state`, damaged or of another rule: it is refused and left as it is, or goes on."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from contextlib import redirect_stderr
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

from tocsin.app.cli import main
from tools.attack import snapshots
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.pipes import UNEXPECTED, Pipe
from tools.attack.stored import hurt

RULES = (
    *snapshots.QUERIES,
    "EVENT SEQ(A a, !C c, B b) WHERE [k] AND a.v > 1 WITHIN 6", "EVENT SEQ(A a, !C c, B b) WHERE [k] WITHIN 4",
    "EVENT SEQ(A a, B b) WHERE [s] WITHIN 3 CONSUME cumulative", "EVENT SEQ(A a, B b) LIMIT 3 PER a.s EVERY 5",
)  # fmt: skip
REFUSED = 2


def run(folder: Path, query: str, order: str, first: int, count: int) -> tuple[int, str]:
    """Push a few rows with the state in the folder; return the exit code and what was said."""
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in snapshots.rows(first, count))
    err, code = io.StringIO(), 0
    with (
        patch.object(sys, "stdin", SimpleNamespace(buffer=Pipe([lines]))),
        patch.object(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8")),
        redirect_stderr(err),
    ):
        try:
            main(["run", query, "--input", "-", "--no-jit", "--order", order, "--state", str(folder / "state")])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, err.getvalue()


@cache
def saved(query: str, order: str, count: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        code, said = run(Path(folder), query, order, 0, count)
        assert code == 0, said
        return (Path(folder) / "state").read_bytes()


def make(random: Random) -> Input:
    """Draw a state, what becomes of it, and the rule of the next run: usually the same."""
    old, count = random.choice(snapshots.QUERIES), random.choice((0, 5, 20, 40))
    order = random.choice(snapshots.FINAL if old in snapshots.SETTLED else snapshots.ORDERS)
    whole, new = saved(old, order, count), old
    state, right = hurt(random, whole) if random.random() < 0.7 else (whole, True)
    if random.random() < 0.4:
        new = random.choice(RULES)
        order = random.choice(snapshots.FINAL)
    kept = {"query": new, "order": order, "state": state, "next": count}
    return {**kept, "refuse": not right and state != whole, "goes on": state == whole and new == old}


def judge(given: Input) -> None:
    """Go on with the file, twice."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state"
        file.write_bytes(given["state"])
        code, said = run(Path(folder), given["query"], given["order"], given["next"], 8)
        if code == UNEXPECTED or "Traceback" in said:
            raise WrongAnswerError(f"exit code 70, {said[:150]}: {said}")
        if code and file.read_bytes() != given["state"]:
            raise WrongAnswerError("a run that failed changed the state: " + said)
        if given["refuse"] and not code:
            raise WrongAnswerError("a damaged state is taken: as if it were whole")
        if not code:
            again, told = run(Path(folder), given["query"], given["order"], given["next"] + 8, 4)
            if again:
                raise WrongAnswerError(f"what a run has saved is refused by the next: {told}")


SURFACE = Surface("live_state", make, judge, share=2)
