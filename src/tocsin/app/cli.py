"""The command line: check, explain, run, pipeline, test, bench and demo."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.app.edges import intervals_app
from tocsin.app.errors import FAILED, guarded
from tocsin.app.jobs import pipeline_app
from tocsin.errors import InputError

if TYPE_CHECKING:  # help is shown at once: what works is loaded by the commands that do it
    from tocsin.run.query import Query

SELDOM = 50_000  # objects between two looks for garbage; loading the modules makes as many, and all of them stay

app = typer.Typer(
    name="tocsin",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Find patterns in time: sequences, absences, repetitions, in files and in live streams.

    \b
    Examples:
      tocsin demo
      tocsin run "EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h" --input events.csv
      tocsin check theft.tocsin --input events.parquet
      tail -f log.jsonl | tocsin run alarm.tocsin --input -
      tocsin pipeline run theft.toml

    Exit codes: 0 all is well, 1 cases failed, 2 the query or the input is wrong and nothing was written.""",
)
app.add_typer(pipeline_app)
constraints_app = typer.Typer(name="constraints", no_args_is_help=True, help="Constraints: the order of events.")
app.add_typer(constraints_app)
app.add_typer(intervals_app)


def tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tocsin {version('tocsin')}")
        raise typer.Exit


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


def tell_log(level: LogLevel) -> None:
    """Write what the logger `tocsin` says to stderr."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log = logging.getLogger("tocsin")
    log.addHandler(handler)
    log.setLevel(level.value.upper())


@app.callback()
def options(
    log: Annotated[
        LogLevel | None, typer.Option("--log", help="Say on stderr what is done, at this level.", case_sensitive=False)
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version  # told before anything else is read
    if log is not None:
        tell_log(log)


class Format(StrEnum):
    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Engine(StrEnum):
    EMBEDDED = "embedded"
    SPARK = "spark"


QueryArg = Annotated[str, typer.Argument(metavar="QUERY", help="A query file, or the text of a query.")]
InputArg = Annotated[
    str | None, typer.Option("--input", "-i", help="File, directory, glob, or - for JSONL from stdin.")
]
SchemaArg = Annotated[Path | None, typer.Option("--schema", help='JSON: {"Shelf": {"tag": "text"}, "*": {...}}.')]
StrictArg = Annotated[bool, typer.Option("--strict", help="Refuse types and attributes that the schema lacks.")]
TypeArg = Annotated[str, typer.Option("--type", help="The column that holds the event type.")]
TimeArg = Annotated[str, typer.Option("--time", help="The column that holds the time, or the start.")]
EndArg = Annotated[str | None, typer.Option("--end", help="The column that holds the end of interval events.")]
EidArg = Annotated[str | None, typer.Option("--eid", help="The column that identifies events.")]
UnitArg = Annotated[str | None, typer.Option("--time-unit", help="Length of a tick of integer time: us ms s min h d.")]
ZoneArg = Annotated[
    str | None, typer.Option("--zone", help="Time zone of hour(t), date(t), ... that name none: Europe/Berlin.")
]
TruncateArg = Annotated[bool, typer.Option("--truncate", help="Cut time that is finer than a microsecond.")]
BadRowsArg = Annotated[str, typer.Option("--bad-rows", help="fail, skip, or: file PATH (keeps them there).")]
JitArg = Annotated[bool, typer.Option("--jit/--no-jit", help="Compile kernels, or run their plain Python source.")]


@app.command()
@guarded
def check(
    text: QueryArg,
    input: InputArg = None,
    schema: SchemaArg = None,
    strict: StrictArg = False,
    type: TypeArg = "type",
    time: TimeArg = "time",
    end: EndArg = None,
    eid: EidArg = None,
    time_unit: UnitArg = None,
    zone: ZoneArg = None,
) -> None:
    """Check a query; tell key, window and memory of each rule.

    Errors show the place, the reason and a hint.

    \b
      tocsin check "EVENT SEQ(A a, B b) WHERE a.id = b.id WITHIN 10"
      tocsin check theft.tocsin --input events.csv
    """
    found = read_query(text, schema, time_unit, strict=strict, zone=zone)
    options: dict[str, Any] = {"time_unit": time_unit, "type": type, "time": time, "end": end, "eid": eid}
    notes, rules = found.examine(_events(input), **options)
    for note in notes:
        typer.echo(f"warning: {note}", err=True)
    count = len(found.queries)
    typer.echo(f"ok: {count} {'query' if count == 1 else 'queries'}")
    typer.echo(rules)


@app.command()
@guarded
def explain(
    text: QueryArg,
    input: InputArg = None,
    schema: SchemaArg = None,
    strict: StrictArg = False,
    source: Annotated[bool, typer.Option("--source", help="Show the generated kernel too.")] = False,
    type: TypeArg = "type",
    time: TimeArg = "time",
    end: EndArg = None,
    eid: EidArg = None,
    time_unit: UnitArg = None,
    zone: ZoneArg = None,
) -> None:
    """Show the plan of a query: blocks, order, predicates, keys.

    \b
      tocsin explain "EVENT SEQ(A a, !B b, C c) WHERE [id] WITHIN 10"
      tocsin explain theft.tocsin --input events.csv --source
    """
    found = read_query(text, schema, time_unit, strict=strict, zone=zone)
    options: dict[str, Any] = {"time_unit": time_unit, "type": type, "time": time, "end": end, "eid": eid}
    typer.echo(found.explain(_events(input), **options))
    if source:
        typer.echo("\n" + found.source(_events(input), **options))


@app.command()
@guarded
def run(
    text: QueryArg,
    input: Annotated[str, typer.Option("--input", "-i", help="File, directory, glob, or - for JSONL from stdin.")],
    engine: Annotated[Engine, typer.Option("--engine", help="Where to run.")] = Engine.EMBEDDED,
    order: Annotated[
        str, typer.Option("--order", help='How events come: in-order, "slack(10 min)", "conservative(10 min)", ...')
    ] = "in-order",
    timers: Annotated[
        str | None,
        typer.Option("--timers", help='Clock time answers absences while nothing comes; an event may take "30 s".'),
    ] = None,
    late: Annotated[
        Path | None, typer.Option("--late", help="Live: keep rows that come too late in this file, else stderr.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="Live: go on with the state in this file, and keep it there.")
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option("--metrics", min=0, max=65535, help="Live: serve OpenMetrics on this port of 127.0.0.1; 0: any."),
    ] = None,
    format: Annotated[Format | None, typer.Option("--format", "-f", help="How matches are written.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; it appears whole or not at all.")
    ] = None,
    bad_rows: BadRowsArg = "fail",
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="Write at most so many matches.")] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads that share the work; else one for each core.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw a timeline picture to this file.")] = None,
    schema: SchemaArg = None,
    strict: StrictArg = False,
    type: TypeArg = "type",
    time: TimeArg = "time",
    end: EndArg = None,
    eid: EidArg = None,
    time_unit: UnitArg = None,
    zone: ZoneArg = None,
    truncate: TruncateArg = False,
    every: Annotated[bool, typer.Option("--all", help="Also give matches of HIDDEN queries.")] = False,
    jit: JitArg = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary on stderr.")] = False,
) -> None:
    """Find every match in a file, a directory, or a live stream.

    \b
      tocsin run theft.tocsin --input events.csv
      tocsin run theft.tocsin --input day.parquet --format jsonl --output matches.jsonl
      tocsin run "EVENT SEQ(A a, B b) WITHIN 5 min" --input log.jsonl --type kind --time at
      tocsin run "EVENT SEQ(A a, B b) WITHIN 5 min" --input ticks.csv --time-unit s --bad-rows file bad.jsonl
      tocsin run theft.tocsin --input year/ --engine spark --output thefts.parquet
      tail -f log.jsonl | tocsin run alarm.tocsin --input - --format jsonl
      tail -f log.jsonl | tocsin run alarm.tocsin --input - --order "conservative(10 min)"
      tail -f log.jsonl | tocsin run silence.tocsin --input - --timers "30 s"
      tail -f log.jsonl | tocsin run alarm.tocsin --input - --state alarm.state --late late.jsonl

    \b
    How events come (--order), if not in order of time:
      slack(10 min)         sorted first; events may be so late
      conservative(10 min)  an answer waits until nothing can change it
      aggressive(10 min)    answers at once; a wrong one is withdrawn (op -1)
      auto(10 min)          the one or the other, as the disorder suggests

    Matches go to stdout, progress and a summary to stderr.
    """
    from tocsin.app.running import RunOptions
    from tocsin.encode.columns import Columns
    from tocsin.run.bad_rows import BadRows

    found = read_query(text, schema, time_unit, strict=strict, zone=zone)
    columns = Columns(type=type, time=time, end=end, eid=eid, unit=time_unit, truncate=truncate)
    job = RunOptions(
        query=found,
        columns=columns,
        order=order,
        format=format.value if format is not None else None,
        output=output,
        bad=BadRows(bad_policy(bad_rows)),
        limit=limit,
        threads=threads,
        plot=plot,
        every=every,
        jit=jit,
        quiet=quiet,
        engine=engine.value,
        timers=timers,
        late=late,
        state=state,
        metrics=metrics,
    )
    if input == "-":
        job.live(sys.stdin.buffer)
    else:
        job.whole(input)


@app.command("test")
@guarded
def run_cases(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help="Case files, or directories of them.")],
    jit: JitArg = False,
) -> None:
    """Run case files against the definition and the engine.

    \b
      tocsin test tests/cases
      tocsin test mine.case --jit
    """
    from tocsin.app.judge import case_files, judge

    passed = failed = 0
    for path in case_files(files):
        for _, verdicts in judge(path, jit=jit):
            wrong = [verdict for verdict in verdicts if not verdict.ok]
            for verdict in wrong:
                typer.echo(str(verdict))
            passed += not wrong
            failed += bool(wrong)
    typer.echo(f"{passed} passed, {failed} failed")
    if failed:
        raise typer.Exit(FAILED)


@constraints_app.command("learn")
@guarded
def learn_constraint(
    input: Annotated[str, typer.Option("--input", "-i", help="Past events: a file, a directory or a glob.")],
    key: Annotated[list[str], typer.Option("--key", help="Attribute that tells traces apart (may be repeated).")],
    name: Annotated[str, typer.Option("--name", help="What the constraint is called.")] = "learned",
    type: Annotated[str, typer.Option("--type", help="Column of event types.")] = "type",
    time: Annotated[str, typer.Option("--time", help="Column of times.")] = "time",
    k: Annotated[
        int, typer.Option("--k", min=0, max=5, help="How far states are told apart; 0: directly follows.")
    ] = 2,
    least: Annotated[float, typer.Option("--least", min=0, max=1, help="Steps rarer than this are left out.")] = 0.001,
    bad_rows: BadRowsArg = "fail",
) -> None:
    """Find the order of past traces, as a constraint.

    It is printed, to be edited.

    \b
      tocsin constraints learn --input orders.parquet --key order_id --name order > order.tocsin
    """
    from tocsin.app.learning import learned, shown
    from tocsin.encode.columns import Columns
    from tocsin.run.bad_rows import BadRows

    bad = BadRows(bad_policy(bad_rows))
    found = learned(input, Columns(type=type, time=time), key=key, name=name, k=k, least=least, bad=bad)
    typer.echo(shown(found))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@guarded
def bench(context: typer.Context) -> None:
    """Measure: all benchmarks in a checkout, else a small one."""
    root = Path(__file__).parents[3]
    if (root / "benchmarks" / "run.py").is_file():
        done = subprocess.run([sys.executable, "-m", "benchmarks.run", *context.args], cwd=root, check=False)  # noqa: S603
        raise typer.Exit(done.returncode)
    from tocsin.app.small_bench import measure

    for line in measure():
        typer.echo(line)


@app.command()
@guarded
def demo(
    things: Annotated[int, typer.Option("--things", min=1, max=1_000_000, help="Tagged things in the shop.")] = 2_000,
    thefts: Annotated[int, typer.Option("--thefts", min=0, help="How many of them are stolen.")] = 7,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same shop.")] = 7,
    folder: Annotated[Path, typer.Option("--folder", help="Where data, query and picture go.")] = Path("tocsin-demo"),
    engine: Annotated[
        Engine | None, typer.Option("--engine", help="Where to run; by default on Spark, if it is installed.")
    ] = None,
    jit: JitArg = True,
) -> None:
    """Make data of a shop, find the thefts, show and draw them.

    \b
      tocsin demo
      tocsin demo --things 100000 --thefts 12 --seed 3
    """
    from tocsin.app.demo import demonstrate

    spark = find_spec("pyspark") is not None if engine is None else engine is Engine.SPARK
    for line in demonstrate(folder, things=things, thefts=thefts, seed=seed, jit=jit, spark=spark):
        typer.echo(line)
        sys.stdout.flush()


def _events(input: str | None) -> str | None:
    if input == "-":
        raise InputError("checking needs a file, not standard input")
    return input


def read_query(
    text: str,
    schema: Path | None = None,
    unit: str | None = None,
    *,
    strict: bool = False,
    zone: str | None = None,
) -> Query:
    """A query from a file, or from the text itself."""
    from tocsin.run.declared import read_schema
    from tocsin.run.query import query
    from tocsin.run.query_file import EXAMPLE

    known = read_schema(schema, unit=unit) if schema is not None else None
    path = _as_path(text)
    if path is None and not text.strip():
        raise InputError("the query is empty", hint=EXAMPLE)
    if strict and known is None:
        raise InputError("--strict needs to know which types and attributes there are", hint="give a --schema")
    return query(path or text, schema=known, strict=strict, zone=zone)


def _as_path(text: str) -> Path | None:
    """The file that is meant, or None if this is the text of a query."""
    if len(text) > 1000 or "\0" in text or "\n" in text:
        return None
    path = Path(text)
    try:
        if path.is_file():
            return path
        if path.is_dir() and text.strip():
            raise InputError(f"{text!r} is a directory, not a query file")
    except OSError:
        return None
    if re.search(r"[\s(]", text.strip()) or not text.strip():
        return None
    raise InputError(f"there is no query file {text!r}", hint="give a file, or the text of a query in quotes")


def bad_policy(text: str) -> str:
    """What --bad-rows says: fail, skip, or the path after `file`."""
    if text in ("fail", "skip"):
        return text
    said = re.fullmatch(r"file[: ]\s*(.+)", text)
    if said is not None:
        return said[1]
    raise InputError(f"--bad-rows {text!r} is unknown", hint="use fail, skip, or: file PATH")


def joined_options(args: list[str]) -> list[str]:
    """`--bad-rows file PATH` as one value, and `--log LEVEL` before the command, wherever it was written.

    >>> joined_options(["run", "--log", "info", "--bad-rows", "file", "bad.jsonl"])
    ['--log', 'info', 'run', '--bad-rows', 'file:bad.jsonl']
    """
    first: list[str] = []
    found: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--log" and rest:
            first += [word, rest.pop(0)]
            continue
        if word == "file" and found[-1:] == ["--bad-rows"] and rest:
            word = f"file:{rest.pop(0)}"
        elif word == "--bad-rows=file" and rest:
            word = f"--bad-rows=file:{rest.pop(0)}"
        found.append(word)
    return first + found


def main(args: list[str] | None = None) -> None:
    """The entry point of the command."""
    gc.set_threshold(SELDOM)
    try:
        app(args=joined_options(sys.argv[1:] if args is None else args), prog_name="tocsin")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None


__all__ = ["app", "bad_policy", "main", "read_query"]

if __name__ == "__main__":
    main()
