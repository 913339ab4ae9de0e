"""`tocsin pipeline`: check a pipeline file, run it as a stream or as a backfill, and report the run."""

from __future__ import annotations

import importlib.util
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.app.errors import INTERRUPTED, guarded
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from tocsin.jobs.config import JobFile
    from tocsin.jobs.run import Ready, Tally

pipeline_app = typer.Typer(
    name="pipeline",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Run queries on Spark as a file describes it.

    It names sources, queries, the order of events and sinks.

    \b
    Examples:
      tocsin pipeline check theft.toml
      tocsin pipeline run theft.toml
      tocsin pipeline run theft.toml --batch""",
)

FileArg = Annotated[Path, typer.Argument(metavar="FILE", help="A pipeline file (TOML).")]
BatchArg = Annotated[bool, typer.Option("--batch", help="As a backfill: find every match of the history, then end.")]
VerboseArg = Annotated[bool, typer.Option("--verbose", "-v", help="Show all that Spark says when something fails.")]


@pipeline_app.command()
@guarded
def check(
    file: FileArg,
    batch: BatchArg = False,
    offline: Annotated[bool, typer.Option("--offline", help="Without Spark: what the file alone can tell.")] = False,
    verbose: VerboseArg = False,
) -> None:
    """Check a pipeline, and start nothing.

    Its keys, queries, columns, order, checkpoint and sinks are looked at.

    \b
      tocsin pipeline check theft.toml
      tocsin pipeline check theft.toml --offline
    """
    with told(verbose=verbose):
        pipeline = _read(file)
        from tocsin.jobs.run import check_offline, make_ready, session_of

        notes = check_offline(pipeline, live=not batch)
        if not offline:
            with session_of(pipeline) as spark:
                notes = make_ready(pipeline, spark, live=not batch).notes
    for note in notes:
        typer.echo(f"warning: {note}", err=True)
    counts = [
        (len(pipeline.sources), "source"),
        (len(pipeline.query().queries), "query"),
        (len(pipeline.outputs), "sink"),
    ]
    typer.echo(f"ok: {', '.join(f'{count} {_plural(word, count)}' for count, word in counts)}")


@pipeline_app.command()
@guarded
def run(
    file: FileArg,
    batch: BatchArg = False,
    trigger: Annotated[
        str | None, typer.Option("--trigger", help='In place of the file\'s: availableNow, once, or "10 seconds".')
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary on stderr.")] = False,
    verbose: VerboseArg = False,
) -> None:
    """Run a pipeline: live as a stream, or with --batch over the history. The matches are the same.

    \b
      tocsin pipeline run theft.toml
      tocsin pipeline run theft.toml --trigger availableNow
      tocsin pipeline run theft.toml --batch

    Ctrl-C lets the micro-batch that runs come to its end; the same command goes on from there.
    """
    with told(verbose=verbose):
        pipeline = _read(file)
        if trigger is not None:
            pipeline = pipeline.triggered(trigger)
        from tocsin.jobs.run import check_offline, make_ready, session_of

        check_offline(pipeline, live=not batch)  # what is wrong in the file is told before Spark starts
        from tocsin.spark.setup.jvm import hush

        with session_of(pipeline) as spark:
            if not verbose:
                hush(spark)
            ready = make_ready(pipeline, spark, live=not batch)
            for note in ready.notes:
                _warn(note, quiet=quiet)
            if batch:
                _history(ready, quiet=quiet)
            else:
                _live(ready, quiet=quiet)


def _warn(note: str, *, quiet: bool) -> None:
    if not quiet:
        typer.echo(f"warning: {note}", err=True)


def _plural(word: str, count: int) -> str:
    many = {"query": "queries"}.get(word, word + "s")
    return word if count == 1 else many


def need_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise TocsinError("this needs Spark, which is not installed", hint="pip install 'tocsin[spark]'")


def _read(file: Path) -> JobFile:
    need_spark()
    from tocsin.jobs.config import read_pipeline

    return read_pipeline(file)


@contextmanager
def told(*, verbose: bool) -> Iterator[None]:
    """Turn Spark's errors inside the block into one message; with `verbose`, after all that Spark said."""
    try:
        yield
    except TocsinError:
        if verbose:
            traceback.print_exc()
        raise
    except (typer.Exit, KeyboardInterrupt):
        raise
    except Exception as error:
        from tocsin.spark.setup.errors import explained

        if verbose:
            traceback.print_exc()
        found = explained(error)
        if found is None:
            raise
        raise found from None


# --- running -------------------------------------------------------------------------------------------------------


def _history(ready: Ready, *, quiet: bool) -> None:
    from tocsin.jobs.run import run_batch

    with spinning("searching the history", quiet=quiet):
        tally = run_batch(ready)
    if not quiet:
        typer.echo(tally.text(), err=True)


def _live(ready: Ready, *, quiet: bool) -> None:
    from tocsin.jobs.run import follow, started

    with (
        _signals(quiet=quiet) as asked,
        started(ready, lambda note: _warn(note, quiet=quiet)) as query,
        spinning("starting", quiet=quiet) as show,
    ):
        tally = follow(query, told=lambda tally: show(_progress(tally)), asked_to_stop=lambda: len(asked))
    if not quiet:
        typer.echo(tally.text(), err=True)
        _say_waiting(ready, tally)
    if asked:
        typer.echo(f"stopped; to continue: tocsin pipeline run {ready.pipeline.file}", err=True)
        if signal.SIGINT in asked:
            raise typer.Exit(INTERRUPTED)


def _say_waiting(ready: Ready, tally: Tally) -> None:
    """Say which sources a stream still waits for, as long as it can guarantee nothing and gives no answers."""
    if tally.events and tally.watermark is None and not ready.pipeline.run.end_of_stream:
        waited = ready.prepared.order.sources if ready.prepared.order is not None else ()
        reason = f" from each of {', '.join(waited)}" if waited else ""
        typer.echo(f"note: nothing is certain yet: the order waits for events{reason}", err=True)


def _progress(tally: Tally) -> str:
    latest = tally.latest
    parts = [f"batch {latest.get('batch')}", f"{tally.events:,} events", f"{tally.matches:,} matches"]
    parts += tally.aside
    held, state = int(latest.get("held") or 0), int(latest.get("state_bytes") or 0)
    return "  ".join([*parts, f"{held:,} held", f"{state / 1e6:,.1f} MB state"])


@contextmanager
def spinning(text: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says how far a run is; nothing where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns: tuple[Any, ...] = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=None)
        yield lambda said: progress.update(task, description=said)


@contextmanager
def _signals(*, quiet: bool) -> Iterator[list[int]]:
    """Signals that ask for an end, as they come. PySpark's own handler would cancel the micro-batch that runs."""
    asked: list[int] = []

    def note(number: int, _: Any) -> None:
        asked.append(number)
        if len(asked) == 1 and not quiet:
            sys.stderr.write("\nstopping after this micro-batch; Ctrl-C again stops at once\n")

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: nobody can interrupt it
        yield asked
        return
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
