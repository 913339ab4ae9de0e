"""Threads: sessions side by side, and one session from several threads; the answer is that of one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import tocsin
from tocsin.errors import TocsinError
from tools.attack import sides
from tools.attack.core import Input, Surface

QUERIES = (
    "EVENT SEQ(A a, !C c, B b) WHERE [k] WITHIN 30",
    "EVENT SEQ(A a, B b) WHERE a.s = b.s WITHIN 9",
    "EVENT SEQ(A a, B+ b, C c) WHERE [k] WITHIN 12",
)


def make(random: Random) -> Input:
    """Draw a stream, and who pushes what."""
    count = random.choice((10, 40, 120))
    rows = [
        {
            "type": random.choice("ABC"), "time": at, "eid": at, "k": random.randrange(2),
            "s": f"s{random.randrange(50)}", **({"x": at} if random.random() < 0.02 else {}),
        }
        for at in range(count)
    ]  # fmt: skip
    return {
        "query": random.choice(QUERIES), "threads": random.choice((2, 3, 8)), "shared": random.random() < 0.6,
        "rows": rows, "step": random.choice((1, 1, 7)),
    }  # fmt: skip


def together(work: list[Callable[[], None]]) -> None:
    """Run all at once; the first exception of any is raised."""
    raised: list[BaseException] = []
    ready = threading.Barrier(len(work))

    def run(one: Callable[[], None]) -> None:
        try:
            ready.wait()
            one()
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted(raised, key=lambda each: isinstance(each, TocsinError)):
        raise error


def judge(given: Input) -> None:
    """Compare with one thread. Events of a shared session come in any order, so its order is `aggressive`."""
    query, rows, many = tocsin.query(given["query"]), given["rows"], given["threads"]
    expected = sides.of(query.detect(rows, eid="eid", jit=False))
    pieces = [rows[at : at + given["step"]] for at in range(0, len(rows), given["step"])]

    def opened() -> Any:
        return query.stream(order="aggressive(1000)", eid="eid", jit=False)

    found: list[list[dict[str, Any]]] = [[] for _ in range(many)]
    sessions = [opened()] * many if given["shared"] else [opened() for _ in range(many)]

    def push(number: int) -> None:
        for piece in pieces[number::many] if given["shared"] else pieces:
            found[number] += sessions[number].push(piece[0] if len(piece) == 1 else piece)

    together([lambda number=number: push(number) for number in range(many)])  # type: ignore[misc]
    if given["shared"]:
        whole = [row for each in found for row in each] + list(sessions[0].close())
        sides.same("one session, several threads", sides.found(whole), expected)
        return
    for number in range(many):
        whole = found[number] + list(sessions[number].close())
        sides.same("a session in each thread", sides.found(whole), expected)


SURFACE = Surface("threads", make, judge, share=0.5)
