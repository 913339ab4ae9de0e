"""`tocsin run`: detect in a finite or live input, write the matches, print a summary."""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tocsin.app.live import Ending, Wait, follow, input_comes
from tocsin.app.live_run import KeptState, Screen, late_rows, show_line
from tocsin.app.showing import print_matches
from tocsin.encode.columns import Columns
from tocsin.errors import InputError, TocsinWarning
from tocsin.run.bad_rows import BadRows
from tocsin.run.clock import Clock
from tocsin.run.files import find
from tocsin.run.matches import Matches
from tocsin.run.pace import FIRST_CHUNK
from tocsin.run.progress import summary, watching
from tocsin.run.query import Query
from tocsin.run.session import Session
from tocsin.run.sinks import write_file, write_matches

ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}


class _NoPandas:
    """An import hook that finds no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name == "pandas":
            raise ImportError(name)


def leave_pandas_out() -> None:
    """Have Arrow find no pandas, which it imports with the first array where it is installed: a third of the time.

    Only its looks at what it is given are meant; `to_pandas` looks again.
    """
    import pyarrow as pa

    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.array([None])
        finally:
            sys.meta_path.remove(_NoPandas)


@dataclass(slots=True)
class RunOptions:
    """The options of `tocsin run`, and the run itself."""

    query: Query
    columns: Columns
    order: str
    format: str | None
    output: Path | None
    bad: BadRows
    limit: int | None
    plot: Path | None
    every: bool
    jit: bool
    quiet: bool
    engine: str = "embedded"
    timers: str | Clock | None = None
    threads: int | None = None
    late: Path | None = None
    state: Path | None = None
    metrics: int | None = None

    def whole(self, input: str) -> None:
        """Detect in a finite input; nothing is written before all of it went well."""
        if self.timers is not None:
            raise InputError(
                "--timers is for a live stream, and files have an end, at which everything is answered",
                hint=f"leave it out; or read what comes: tail -f {input} | tocsin run ... --input - --timers ...",
            )
        for option, given in (("--late", self.late), ("--state", self.state), ("--metrics", self.metrics)):
            if given is not None:
                raise InputError(
                    f"{option} is for a live stream, and {input} is a file, which is sorted and read to its end",
                    hint=f"leave it out; or read what comes: tail -f {input} | tocsin run ... --input - {option} ...",
                )
        self._check_places()
        if self.engine == "embedded":
            leave_pandas_out()
        began = time.perf_counter()
        matches = self._on_spark(input) if self.engine == "spark" else self._embedded(input)
        self._write(matches, self._format("table"))
        self._finish(matches, dict(matches.counters), time.perf_counter() - began)

    def _embedded(self, input: str) -> Matches:
        columns = self.columns
        with watching(quiet=self.quiet) as watch:
            return self.query.detect(
                input,
                type=columns.type,
                time=columns.time,
                end=columns.end,
                eid=columns.eid,
                time_unit=columns.unit,
                truncate=columns.truncate,
                order=self.order,
                bad_rows=self.bad,
                all=self.every,
                jit=self.jit,
                limit=self.limit,
                threads=self.threads,
                watch=watch,
            )

    def _on_spark(self, input: str) -> Matches:
        """Detect in a finite input with Spark; a batch is sorted there, so `--order` does not matter."""
        from tocsin.app.jobs import need_spark, spinning, told

        need_spark()
        find(input)  # what is not there is told before Spark starts
        with told(verbose=False), spinning("starting Spark", quiet=self.quiet) as show:
            from tocsin.spark.files import detect_files
            from tocsin.spark.setup.lifetime import borrowed_session

            with borrowed_session() as spark:
                show("searching")
                return detect_files(spark, self.query, input, self.columns, bad=self.bad, all=self.every, jit=self.jit)

    def live(self, stdin: IO[bytes], wait: Wait = input_comes) -> None:
        """Detect in lines as they come. JSONL and table rows are written at once; CSV, Parquet and files at the end."""
        if self.engine == "spark":
            raise InputError(
                "Spark does not read standard input",
                hint="give a file or a directory; a stream is described in a file: tocsin pipeline run FILE.toml",
            )
        self._check_places()
        leave_pandas_out()
        began = time.perf_counter()
        state = KeptState(self.state)
        session = self._session(state)
        format = self._format("jsonl")
        at_once = self.output is None and format == "jsonl"
        with ExitStack() as until:
            late = late_rows(self.late, quiet=self.quiet, until=until)
            if self.metrics is not None:
                from tocsin.run.metrics_server import serve_metrics  # a server is not loaded for a file

                server = until.enter_context(serve_metrics(lambda: session.metrics(bad=self.bad.count), self.metrics))
                show_line(f"metrics: {server.url}", sys.stderr)
            keeps = not at_once or self.plot is not None
            screen = Screen(session, late, state, at_once=at_once, keeps=keeps, limit=self.limit)
            at_most, timed = FIRST_CHUNK if self.limit is not None else None, wait if self.timers is not None else None
            ending = follow(session, stdin, self.bad, screen, at_most=at_most, wait=timed)
            if ending is Ending.CLOSED and self.state is None:  # with a state only this pipe is over, not the stream
                screen.take(session.close())
            state.save(session)
        whole = screen.whole()
        if not at_once:
            self._write(whole, format)
        self.bad.write()
        counters = {"events": 0, "relevant": 0, **session.counters, "skipped": self.bad.count, "matches": screen.count}
        self._finish(whole, counters, time.perf_counter() - began)
        if ending is Ending.INTERRUPTED:
            raise KeyboardInterrupt

    def _session(self, state: KeptState) -> Session:
        """A session for lines as they come, with the state of the last run if there is one."""
        columns, saved = self.columns, state.read()
        with warnings.catch_warnings(record=True) as noted, state.named():
            warnings.simplefilter("always", TocsinWarning)
            session = self.query.stream(
                type=columns.type,
                time=columns.time,
                end=columns.end,
                eid=columns.eid,
                time_unit=columns.unit,
                truncate=columns.truncate,
                order=self.order,
                all=self.every,
                jit=self.jit,
                clock=self.timers,
                state=saved,
                carry_over=saved is not None,
            )
        if not self.quiet:
            for warning in noted:
                sys.stderr.write(f"note: {warning.message}\n")
        return session

    def _format(self, default: str) -> str:
        if self.format is not None:
            return self.format
        if self.output is not None:
            ending = self.output.suffix.lower()
            return ENDINGS.get(ending, default)
        return default

    def _check_places(self) -> None:
        """Refuse places that cannot be written, before the work begins."""
        for path in (self.output, self.plot, self.late, self.state):
            if path is not None and path.is_dir():
                raise InputError(f"{path} is a directory", hint="give the name of a file to write")
            if path is not None and not path.parent.is_dir():
                raise InputError(f"the directory {path.parent} does not exist", hint="create it first")

    def _write(self, matches: Matches, format: str) -> None:
        if self.output is not None:
            write_file(matches, format, self.output, limit=self.limit)
        elif format == "table":
            print_matches(matches, limit=self.limit)
        else:
            sys.stdout.flush()
            write_matches(matches, format, sys.stdout.buffer, limit=self.limit)
            sys.stdout.buffer.flush()

    def _finish(self, matches: Matches, counters: dict[str, int], seconds: float) -> None:
        if self.plot is not None:
            matches.plot(self.plot)
        for line in self.bad.told():
            sys.stderr.write(f"{line}\n")
        if not self.quiet:
            for note in matches.notes:
                sys.stderr.write(f"note: {note}\n")
            sys.stderr.write(summary(counters, seconds) + "\n")
