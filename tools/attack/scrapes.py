"""The endpoint of metrics: whatever comes over a connection, the next scrape is answered, and nothing is told of it."""

from __future__ import annotations

import io
import socket
import threading
import urllib.request
from contextlib import redirect_stderr, suppress
from functools import cache
from itertools import count
from random import Random

import tocsin
from tocsin.run.metrics_server import MetricsServer, serve_metrics
from tocsin.run.session import Session
from tools.attack.core import Input, Surface, WrongAnswerError
from tools.attack.mutate import damaged

REQUESTS = (
    b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n", b"HEAD /metrics HTTP/1.1\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nx", b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
    b"GET /metrics?x=%00%ff HTTP/1.1\r\nAccept: */*\r\n\r\n", b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 300 + b"\r\n", b"GET /metrics HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02",
    b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n", b"\r\n\r\n", b"",
    b"PRI * HTTP/2.0\r\n",
)  # fmt: skip


TIMES = count()


@cache
def served() -> tuple[Session, MetricsServer]:
    session = tocsin.query("QUERY q EVENT SEQ(A a, !C c, B b) WITHIN 9").stream(jit=False)
    return session, serve_metrics(session.metrics)


def make(random: Random) -> Input:
    """Draw a few connections: what is sent, in pieces, and whether somebody waits for the answer."""
    connections = []
    for _ in range(random.randint(1, 4)):
        raw = random.choice(REQUESTS)
        raw = damaged(random, raw) if random.random() < 0.5 else raw
        connections.append({"raw": raw, "cut": random.randrange(len(raw) + 1), "waits": random.random() < 0.4})
    return {"connections": connections}


def judge(given: Input) -> None:
    """Open all connections, push in between, and scrape."""
    session, server = served()
    host, port = server.url.removeprefix("http://").removesuffix("/metrics").split(":")
    said = io.StringIO()
    with redirect_stderr(said):
        for each in given["connections"]:
            with suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.sendall(each["raw"][: each["cut"]])
                session.push({"type": "A", "time": next(TIMES)})
                connection.sendall(each["raw"][each["cut"] :])
                connection.shutdown(socket.SHUT_WR)
                if each["waits"]:
                    connection.recv(1 << 16)
        with urllib.request.urlopen(server.url, timeout=10) as answer:  # noqa: S310 - our own, on loopback
            text = answer.read().decode()
    if not text.endswith("# EOF\n") or "tocsin_events_total" not in text:
        raise WrongAnswerError(f"no metrics: {text[:200]}")
    if said.getvalue():
        raise WrongAnswerError(f"said on stderr: {said.getvalue()[-300:]}")
    if threading.active_count() > 60:
        raise WrongAnswerError("threads are left: more than 60")


SURFACE = Surface("scrapes", make, judge)
