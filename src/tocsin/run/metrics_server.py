"""Serve metrics over HTTP, for Prometheus and whatever else reads OpenMetrics text: `http://127.0.0.1:PORT/metrics`."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tocsin.errors import InputError, TocsinError
from tocsin.run.metrics import CONTENT_TYPE

LOG = logging.getLogger("tocsin")
LOOPBACK = "127.0.0.1"
PATIENCE = 10.0  # seconds for a request, so that silent connections do not keep their threads


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Pass over a client that went away; whatever else went wrong is one line, not a traceback."""
        problem = sys.exception()
        if not isinstance(problem, OSError):
            LOG.warning("metrics: a request could not be answered (%s: %s)", type(problem).__name__, problem)


class MetricsServer:
    """Answers GET /metrics with what `text` gives, in a thread of its own, until it is closed."""

    def __init__(self, text: Callable[[], str], port: int, host: str = LOOPBACK) -> None:
        try:
            self._server = _Server((host, port), handler_of(text))
        except (OSError, OverflowError) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            raise InputError(
                f"metrics cannot be served on {host}:{port}",
                detail=reason,
                hint="say another port; 0 takes a free one",
            ) from problem
        self._thread = threading.Thread(target=self._server.serve_forever, name="tocsin-metrics", daemon=True)
        self._thread.start()
        LOG.info("metrics are served at %s", self.url)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/metrics"

    def close(self) -> None:
        """Stop, and let the port go."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve_metrics(text: Callable[[], str], port: int = 0, host: str = LOOPBACK) -> MetricsServer:
    """Serve what `text` gives, such as `session.metrics`, on loopback unless another `host` is named."""
    return MetricsServer(text, port, host)


def handler_of(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    """What answers requests."""

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in ("/metrics", "/"):
                self.send_error(404, "there is only /metrics")
                return
            try:
                body = text().encode()
            except TocsinError as problem:  # a session that was closed in between
                self.send_error(503, str(problem.message))
                return
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Scrapes come every few seconds, and are no news."""

    return Handler
