"""The demonstration: a made-up shop, the query, the thefts as a table and as a picture, each step said aloud."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tocsin.app.showing import print_matches
from tocsin.engine.tables import HEAD
from tocsin.errors import InputError, TocsinError
from tocsin.run.atomic import whole_file
from tocsin.run.matches import Matches
from tocsin.run.query import query
from tocsin.testing.shop import QUERY, shop

MEANING = "taken from a shelf, never at a counter, out of the door, all within 12 hours, by the same tag"
SHOWN = (("tag", "s", "tag"), ("price", "s", "price"), ("shelf", "s", "place"), ("gate", "e", "place"))


def demonstrate(folder: Path, *, things: int, thefts: int, seed: int, jit: bool, spark: bool) -> Iterator[str]:
    """The lines to print; the table is printed between them. On Spark every part says how long it took."""
    events, text, picture = folder / "events.csv", folder / "theft.tocsin", folder / "timeline.png"
    yield "Who left the shop without paying?\n"
    made = shop(things=things, thefts=thefts, seed=seed)
    _write(folder, events, text, made.events)
    yield f"1. {made.events.num_rows:,} events of a shop are in {events}: shelves, counters, exits, and doors and lamps"
    yield f"2. the query is in {text}:\n\n     {QUERY}\n\n   {MEANING}\n"
    found: list[Matches] = []
    yield from _on_spark(made.events, found, jit=jit) if spark else _embedded(events, found, jit=jit)
    matches = found[0]
    print_matches(Matches([_slim(table) for table in matches.tables()]), limit=None)
    yield f"\n5. {_drawn(matches, picture)}\n\nChange the query and ask again:\n\n     {_again(events, text)}"


def _embedded(events: Path, found: list[Matches], *, jit: bool) -> Iterator[str]:
    way = "answers at once, and is compiled meanwhile" if jit else "runs as plain Python"
    yield f"3. the query {way}, and every event is looked at ..."
    began = time.perf_counter()
    found.append(query(QUERY).detect(events, eid="eid", jit=jit))
    yield f"4. found {_thefts(len(found[0]))} in {time.perf_counter() - began:.1f} s:\n"


def _on_spark(events: pa.Table, found: list[Matches], *, jit: bool) -> Iterator[str]:
    """Find the thefts of the demonstration on a local Spark, from a DataFrame to a DataFrame."""
    from tocsin.spark import detect, session
    from tocsin.spark.setup.versions import check_whole

    yield "3. detection runs on Spark, here on this machine (--engine embedded does it without):\n"
    began = time.perf_counter()
    spark = session()
    check_whole(spark, "the demonstration on Spark")
    yield f"     {_since(began)} s  Spark starts"
    began = time.perf_counter()
    result = detect(spark.createDataFrame(events), QUERY, eid="eid", jit=jit)
    yield f"     {_since(began)} s  the query is {'compiled, or found in the cache' if jit else 'planned'}"
    began = time.perf_counter()
    found.append(Matches([result.orderBy("end", "start").toArrow()]))
    yield f"     {_since(began)} s  events are dealt out by tag, sorted and looked at\n"
    spark.stop()
    yield f"4. found {_thefts(len(found[0]))}:\n"


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:5.1f}"


def _thefts(count: int) -> str:
    return f"{count:,} theft{'' if count == 1 else 's'}"


def _write(folder: Path, events: Path, text: Path, table: pa.Table) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"the directory {folder} cannot be made", detail=problem.strerror) from None
    plain = table.set_column(0, "type", table.column("type").cast(pa.string()))
    with whole_file(events) as part:
        csv.write_csv(plain, part)
    with whole_file(text) as part:
        part.write_text(QUERY + "\n", encoding="utf-8")


def _slim(table: pa.Table) -> pa.Table:
    """The matches with the few attributes that tell the story."""
    slim = table.select(list(HEAD))
    for name, variable, attr in SHOWN:
        slim = slim.append_column(name, pc.struct_field(table.column(variable), attr))
    return slim


def _drawn(matches: Matches, picture: Path) -> str:
    try:
        matches.plot(picture, title="Thefts")
    except TocsinError as problem:
        if "matplotlib" not in problem.message:
            raise
        return f"no picture: {problem.message}; {problem.hint}"
    return f"the picture is {picture}"


def _again(events: Path, text: Path) -> str:
    """The command as it was called: by its name where the shell finds it, else by its path."""
    called = sys.argv[0] if Path(sys.argv[0]).name == "tocsin" else "tocsin"
    name = "tocsin" if shutil.which("tocsin") == called else called
    return f"{name} run {text} --input {events} --eid eid"
