"""`tocsin intervals`: a definition of intervals as a program for the device that has the readings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.app.errors import guarded

intervals_app = typer.Typer(
    name="intervals",
    no_args_is_help=True,
    help="Derive intervals from readings where the readings are.",
)


@intervals_app.callback()
def options() -> None:
    """Derive intervals from readings where the readings are."""


@intervals_app.command()
@guarded
def reduce(
    definition: Annotated[Path, typer.Argument(help="A file with one definition: INTERVALS name FROM ...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the program.")],
    time_unit: Annotated[str | None, typer.Option(help="The length of a tick of the readings: us, ms, s, ...")] = None,
) -> None:
    """Write a program that derives intervals at a device.

    It is a Python file without packages: JSON lines in, JSON lines out.
    """
    from dataclasses import replace

    from tocsin.intervals import reducer
    from tocsin.run.atomic import whole_file
    from tocsin.run.query import query
    from tocsin.run.schema_from_query import guessed_schema

    asked = query(definition)
    text = reducer(asked, replace(guessed_schema(asked.queries), unit=time_unit))
    with whole_file(output) as place:
        place.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {output}", err=True)
