"""Pipes: JSON lines whose kinds change, cut into reads anywhere; the answer does not depend on the cuts."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import redirect_stderr
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tocsin.app.cli import main
from tools.attack.core import Input, Surface, WrongAnswerError

QUERIES = (
    "EVENT SEQ(A a, B b) WHERE a.v = b.v WITHIN 6", "EVENT SEQ(A a, B b) WITHIN 3", "EVENT A a WHERE a.v > 1",
    "EVENT SEQ(A a, !C c, B b) WHERE [k] WITHIN 9", "EVENT A a WHERE a.s LIKE '%x'", "EVENT SEQ(A a, B b) WHERE [v]",
    "EVENT A a WHERE a.v IS NULL", "EVENT SEQ(A a, B b) WHERE a.s = b.s SELECT a.v AS v, b.k AS k",
    "EVENT SEQ(A a, B b) WHERE [k] CONSUME recent", "EVENT SEQ(A a, B b) WITHIN 4 LIMIT 1 PER a.v EVERY 3",
    "EVENT SEQ(A a, B b) WHERE a.v = b.v AFTER MATCH SKIP PAST LAST EVENT DISTINCT BY b.s EVERY 5",
    "EVENT SEQ(A a, B b) WITHIN 3 SELECT a.s AS s, count(*) AS n, max(b.v) AS m GROUP BY a.s EVERY 4",
    "EVENT SEQ(A a, B b) WHERE [v] WITHIN 2 TIMEOUT", "EVENT SEQ(A a, NEXT B+ b) WHERE b.v >= prev(b.v) WITHIN 6",
    "EVENT SEQ(A a, C? c, (B+ b UNTIL b.s = 'x'), A d) WITHIN 6", "EVENT SEQ(A a, (SEQ(B b, C c))+ g, A d) WITHIN 9",
    "CreateCE X Select A.v as v, B.s as s Event And(A<consume>, B<consume>) Where A.v = B.v",
    "CreateCE X Select Count(B) as n Event AtLeast(2, B) GKey *.k",
)  # fmt: skip
UNEXPECTED = 70


def line(random: Random, at: int, habit: dict[str, Any]) -> bytes:
    """Draw one line; most follow the habits of the stream."""
    if random.random() < 0.04:
        odd = (b"", b"  ", b"{", b"[1]", b"null", b"\xff", b'{"type":"A"}', b'{"time":1}', b'{"type":"A","time":null}')
        return random.choice(
            (*odd, b'{"type":1,"time":1}', b'{"type":"A","time":1,"time":2}', b'{"type":"A","time":true}')
        )
    rare = random.random() < habit["rare"]
    values = (at, 1, 2, 1.5, "1", "x", None, True, 2**63, 1e300, [1], {"x": 1}, "2024-05-01T00:00:00", -0.0)
    time: Any = at // 2
    if rare and random.random() < 0.3:
        time = random.choice((float(time), str(time), f"2024-05-01T00:00:{time % 60:02}", time + 0.5, -(2**63), True))
    row: dict[str, Any] = {"type": random.choice("ABBC"), "time": time}
    row["v"] = random.choice(values) if rare else random.choice((1, 2))
    row["k"] = random.choice(values) if rare and random.random() < 0.3 else habit["k"]
    if random.random() < 0.7:
        row["s"] = random.choice(("x", "yx", "y"))
    if habit["eids"] or rare:
        row["eid"] = f"e{at}" if habit["eids"] != "numbers" else at
    return json.dumps(row).encode() + (b"\r" if habit["windows"] else b"")


def make(random: Random) -> Input:
    """Draw the lines and the places of two cuttings."""
    habit = {
        "rare": random.choice((0.0, 0.05, 0.3)), "eids": random.choice((None, "texts", "numbers")),
        "k": random.randrange(2), "windows": random.random() < 0.1,
    }  # fmt: skip
    raw = b"\n".join(line(random, at, habit) for at in range(random.choice((1, 3, 8, 25))))
    raw += b"\n" if random.random() < 0.8 else b""
    cuts = sorted(random.randrange(len(raw) + 1) for _ in range(random.choice((1, 2, 6, 30))))
    bad, order = random.choice(("skip", "skip", "fail")), random.choice(("in-order", "in-order", "slack(3)"))
    return {"query": random.choice(QUERIES), "lines": raw, "cuts": cuts, "bad": bad, "order": order}


class Pipe:
    """A standard input whose reads end where they are told to."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = [piece for piece in pieces if piece]

    def read1(self, size: int = -1) -> bytes:
        del size
        return self.pieces.pop(0) if self.pieces else b""

    read = read1


def run(given: Input, pieces: list[bytes]) -> tuple[int, list[str], int]:
    """Run the command; return its exit code, the matches, and how many rows it skipped."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    arguments = ["run", given["query"], "--input", "-", "--format", "jsonl", "--no-jit", "--order", given["order"]]
    code = 0
    with (
        patch.object(sys, "stdin", SimpleNamespace(buffer=Pipe(pieces))),
        patch.object(sys, "stdout", out),
        redirect_stderr(err),
    ):
        try:
            main([*arguments, "--bad-rows", given["bad"]])
        except SystemExit as end:
            code = int(end.code or 0)
    out.seek(0)
    if code == UNEXPECTED:
        raise WrongAnswerError(f"exit code 70, {err.getvalue()[:150]}: {err.getvalue()}")
    skipped = re.findall(r"^skipped: (?:and ([\d,]+) more)?", err.getvalue(), re.MULTILINE)
    return (
        code,
        [without_nulls(match) for match in out.read().splitlines()],
        sum(int(more.replace(",", "") or 1) for more in skipped),
    )


def without_nulls(match: str) -> str:
    """Return a match without nulls: a column that nobody has seen yet is not shown, and a null says no more."""
    row = json.loads(match)
    for name, value in row.items():
        if isinstance(value, dict):
            row[name] = {key: each for key, each in value.items() if each is not None}
    return json.dumps(row)


def judge(given: Input) -> None:
    """Give the lines at once, line by line, byte for byte at the cuts: code, matches and skipped rows are the same."""
    raw, cuts = given["lines"], [0, *sorted(given["cuts"]), len(given["lines"])]
    whole = run(given, [raw])
    lines = run(given, raw.splitlines(keepends=True))
    cut = run(given, [raw[one:other] for one, other in pairwise(cuts)])
    for name, other in (("line by line", lines), ("cut", cut)):
        if other[0] != whole[0] or (whole[0] == 0 and sorted(other[1]) != sorted(whole[1])):
            raise WrongAnswerError(f"{name} and at once: {other} against {whole}")
        if whole[0] == 0 and other[2] != whole[2]:
            raise WrongAnswerError(f"number of rows skipped {name} and at once: {other[2]} against {whole[2]}")


SURFACE = Surface("pipes", make, judge, share=3)
