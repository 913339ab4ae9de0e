"""Metrics of a live stream: the text that a scraper reads, the server that gives it, and that nothing is left out."""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tocsin.engine.partial_state import bytes_used
from tocsin.engine.weight import bytes_kept
from tocsin.errors import InputError
from tocsin.run.metrics import BOUNDS, CONTENT_TYPE, METRICS
from tocsin.run.metrics_server import serve_metrics

RULES = "QUERY pairs EVENT SEQ(A a, B b) WHERE [id] WITHIN 10 s; QUERY alone EVENT SEQ(A a, !B b) WHERE [id] WITHIN 5 s"
NOON = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - no zone is meant
SAMPLE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """OpenMetrics text as its standard asks for: families one after the other, HELP and TYPE first, EOF last."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    family, kind = "", ""
    for line in lines[:-2]:
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert METRICS[family][1] == line.split(" ", 3)[3]
        elif line.startswith("# TYPE "):
            assert line.split(" ")[2] == family
            kind = line.split(" ")[3]
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            after = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}[kind]
            assert sample["name"] in [family + each for each in after]
            labels = tuple(LABEL.findall(sample["labels"] or ""))
            assert (sample["name"], labels) not in found
            found[sample["name"], labels] = float(sample["value"])
    return found


def event(type: str, second: float, id: int = 1) -> dict[str, Any]:
    return {"type": type, "time": NOON + timedelta(seconds=second), "id": id}


def test_metrics_are_what_was_counted() -> None:
    session = tocsin.query(RULES).stream(order="conservative(3 s)", jit=False)
    assert parsed(session.metrics())["tocsin_push_seconds_count", ()] == 0
    rows = [event("A", 0), event("A", 2, 2), event("B", 4), event("X", 5), event("B", 20, 3), event("A", 1)]
    rows.append(event("A", 20))
    matches = [match for row in rows for match in session.push(row)]
    found = parsed(session.metrics(bad=7))
    counted = session.counters
    for name in ("events", "late"):
        key = "tocsin_events_total" if name == "events" else f"tocsin_events_{name}_total"
        assert found[key, ()] == counted[name] > 0
    assert found["tocsin_events_relevant_total", ()] == counted["relevant"] == 6
    for rule in ("pairs", "alone"):
        mine = sum(match["query"] == rule for match in matches)
        assert found["tocsin_matches_total", (("rule", rule),)] == mine == 1
    assert found["tocsin_rows_bad_total", ()] == 7
    assert found["tocsin_answers_waiting", ()] == counted["waiting"] == 1
    assert found["tocsin_push_seconds_count", ()] == len(rows)
    assert found["tocsin_newest_event_seconds", ()] == (NOON - datetime(1970, 1, 1)).total_seconds() + 20  # noqa: DTZ001
    assert found["tocsin_watermark_lag_seconds", ()] == 3
    assert found["tocsin_state_bytes", ()] > 0


KEEPING = (
    ("EVENT SEQ(A a, !C c, B b) WHERE [id] WITHIN 1 d", {}),
    ("EVENT SEQ(A a, B b) WITHIN 1 d", {"order": "slack(1 d)"}),
    ("EVENT SEQ(A a, B b) WHERE [id] WITHIN 1 d CONSUME chronicle", {}),
    ("EVENT SEQ(A a, B b) WHERE [id] WITHIN 1 d AFTER MATCH SKIP PAST LAST EVENT", {}),
    ("EVENT SEQ(A a, B b) WHERE [id] WITHIN 1 d SELECT count(*) EVERY 1 d", {}),
    ("INTERVALS busy FROM A BY id AS HIGH WHEN id > 5", {}),
    ("CONSTRAINT c PARTITION BY id AS (A | B)*; EVENT SEQ(A a, B b) WHERE [id] WITHIN 1 d UNDER c", {}),
    ("CreateCE both Select A.id as id Event And(A<old max 900, consume>, B<old max 3, consume>)", {}),
)


@pytest.mark.parametrize(("text", "options"), KEEPING, ids=lambda given: str(given)[:40])
def test_the_bytes_of_all_that_is_kept_are_counted(text: str, options: dict[str, str]) -> None:
    """Of a hundred times more events, many times more bytes, whatever keeps them."""
    session, sizes = tocsin.query(text).stream(jit=False, **options), []
    for count in (10, 990):
        session.push([event("A", 0, id) for id in range(count)])
        sizes.append(parsed(session.metrics())["tocsin_state_bytes", ()])
    assert sizes[1] - sizes[0] > 20 * 980
    assert sizes[1] < 50_000_000


def test_what_is_kept_is_counted_once() -> None:
    session = tocsin.query("EVENT SEQ(A a, B b) WHERE [id] WITHIN 1 d").stream(jit=False)
    session.push([event("A", 0, id) for id in range(2000)])
    stored = sum(map(bytes_used, session._graph.detectors))
    assert stored <= parsed(session.metrics())["tocsin_state_bytes", ()] < 1.5 * stored


def test_large_collections_are_weighed_by_a_sample() -> None:
    rows = [{"id": number, "text": f"text {number}"} for number in range(1000)]
    each = sum(sys.getsizeof(part) for part in (rows[500], *rows[500].values()))
    assert bytes_kept(rows) == pytest.approx(1000 * each, rel=0.2)
    assert bytes_kept({"a": rows, "b": rows}) == pytest.approx(bytes_kept(rows), rel=0.01)  # what is there once
    assert bytes_kept(rows, apart=[rows]) == 0


TRACES = "CONSTRAINT c PARTITION BY id AS A (B | C); QUERY t EVENT SEQ(A a, B b) WHERE [id] UNDER c"


def test_every_metric_that_is_listed_is_given() -> None:
    session = tocsin.query(f"{RULES}; {TRACES}").stream(jit=False)
    session.push(event("A", 0))
    given = {line.split(" ")[2] for line in session.metrics().splitlines() if line.startswith("# TYPE")}
    assert given == set(METRICS)


def test_what_becomes_of_traces_is_counted() -> None:
    """Two traces are decided a second after they begin, by a C and by a B; of the first, later events are spared."""
    session = tocsin.query(TRACES).stream(jit=False)
    for type, time, id in (("A", 0, 1), ("A", 0, 2), ("C", 1, 1), ("B", 1, 2), ("B", 3, 1), ("B", 4, 1)):
        session.push(event(type, time, id))
    session.close()
    found = parsed(session.metrics())
    fates = {labels[0][1]: value for (name, labels), value in found.items() if name == "tocsin_traces_total"}
    assert fates == {"ended": 2, "decided": 2, "expected": 0, "unsat": 1, "violated": 0, "unconfirmed": 0}
    assert found["tocsin_traces_determination_seconds_total", ()] == 2
    assert found["tocsin_events_spared_total", ()] == 2
    assert found["tocsin_events_released_total", ()] == 2
    counters = {name: session.counters[name] for name in ("traces", "decided", "spared", "released", "matches")}
    assert counters == {"traces": 2, "decided": 2, "spared": 2, "released": 2, "matches": 1}


def test_a_histogram_adds_up() -> None:
    session = tocsin.query(RULES).stream(jit=False)
    session.metrics()
    session.push([event("A", second) for second in range(3)])
    session.push(event("A", 9))
    found = parsed(session.metrics())
    buckets = [value for (name, _), value in found.items() if name.endswith("_bucket")]
    assert len(buckets) == len(BOUNDS) + 1
    assert buckets == sorted(buckets) and buckets[-1] == found["tocsin_push_seconds_count", ()] == 2
    assert found["tocsin_push_seconds_sum", ()] > 0


def test_ticks_without_a_length_have_no_seconds() -> None:
    session = tocsin.query("EVENT SEQ(A a, B b) WITHIN 10").stream(jit=False)
    session.push({"type": "A", "time": 1})
    assert "tocsin_watermark_seconds" not in session.metrics()


def test_names_of_rules_are_quoted() -> None:
    text = tocsin.query('QUERY `a "b" \\ c` EVENT SEQ(A a, B b) WITHIN 10')
    session = text.stream(jit=False)
    session.push({"type": "A", "time": 1})
    [labels] = [labels for name, labels in parsed(session.metrics()) if name == "tocsin_matches_total"]
    assert labels == (("rule", 'a \\"b\\" \\\\ c'),)


def test_what_spark_tells_is_added_up_by_stream_and_rule() -> None:
    from tocsin.spark.metrics import Totals

    totals = Totals()
    told = {"events": 3, "late": 1, "held": 2, "state_bytes": 100, "watermark": 9, "watermark_seconds": 9e-6}
    totals.add("shop", 0, {**told, "matches of theft": 2, "idle": None})
    totals.add("shop", 1, {**told, "matches of theft": 1, "held": 0, "watermark_seconds": None})
    totals.add(None, 0, {"events": 5})
    found = parsed(totals.text())
    assert found["tocsin_events_total", (("stream", "shop"),)] == 6
    assert found["tocsin_events_total", (("stream", ""),)] == 5
    assert found["tocsin_matches_total", (("stream", "shop"), ("rule", "theft"))] == 3
    assert found["tocsin_answers_waiting", (("stream", "shop"),)] == 0
    assert found["tocsin_watermark_seconds", (("stream", "shop"),)] == pytest.approx(9e-6)


# --- the server ----------------------------------------------------------------------------------------------------


def test_a_scraper_reads_what_the_session_says() -> None:
    session = tocsin.query(RULES).stream(jit=False)
    session.push(event("A", 0))
    with tocsin.serve_metrics(session.metrics) as server:
        assert server.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(server.url, timeout=60) as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            assert parsed(answer.read().decode())["tocsin_events_total", ()] == 1
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url + "/nothing", timeout=60)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.url, timeout=60)


def test_a_port_in_use_is_one_clear_error() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(InputError, match=f"127.0.0.1:{other.getsockname()[1]}") as refused:
            tocsin.serve_metrics(lambda: "", other.getsockname()[1])
    assert "0 takes a free one" in str(refused.value)


def test_the_command_line_serves_metrics(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tocsin", "run", RULES, "--input", "-", "--no-jit", "--metrics", "0"]
    command += ["--bad-rows", "skip"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, cwd=tmp_path, **pipes) as process:
        assert process.stdin is not None and process.stderr is not None and process.stdout is not None
        url = process.stderr.readline().removeprefix("metrics: ").strip()
        lines = ["garbage", *(json.dumps(event(type, at), default=str) for at, type in enumerate("AB"))]
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["query"] == "pairs"
        with urllib.request.urlopen(url, timeout=60) as answer:
            found = parsed(answer.read().decode())
        process.stdin.close()
        assert process.wait(60) == 0
    assert found["tocsin_matches_total", (("rule", "pairs"),)] == 1
    assert found["tocsin_rows_bad_total", ()] == 1


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    board = json.loads((Path(__file__).parent.parent / "docs" / "grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    names = {name for text in asked for name in re.findall(r"tocsin_[a-z_]+", text)}
    known = {name + after for name in METRICS for after in ("", "_total", "_bucket", "_count", "_sum")}
    assert names and names <= known


def test_clients_that_leave_and_answers_that_fail_make_no_traceback(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    texts = iter(["# EOF\n", KeyError("lost"), "# EOF\n"])

    def text() -> str:
        told = next(texts)
        if isinstance(told, str):
            return told
        raise told

    with serve_metrics(text) as server:
        host, port = server.url.removeprefix("http://").removesuffix("/metrics").split(":")
        for raw in (b"GET /metrics HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/1.1\r\n\r\n", b"GET /metr"):
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                # it resets the connection when it is closed
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.sendall(raw)
                if raw.endswith(b"\r\n\r\n"):
                    connection.recv(1)
        with urllib.request.urlopen(server.url, timeout=10) as answer:
            assert answer.read() == b"# EOF\n"
    assert capfd.readouterr().err == ""
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == "metrics: a request could not be answered (KeyError: 'lost')"
