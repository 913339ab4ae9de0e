"""Lock a checkpoint while a pipeline runs there; a small file in it names the pipeline that owns it."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tocsin.errors import InputError, StateError
from tocsin.shards.identity import Identity, admit, check_clock, check_layout
from tocsin.spark.checkpoint import FILE as IDENTITY

FILE = "pipeline.json"


@dataclass(frozen=True, slots=True)
class Owner:
    """A pipeline as its checkpoint knows it: its name, and its sources in order."""

    pipeline: str
    sources: tuple[str, ...]


def local(path: str) -> Path | None:
    """Return the local path, or None if the place is not on this machine."""
    plain = re.sub(r"^file:(//)?(?=/)", "", path)
    return None if re.match(r"^[A-Za-z][A-Za-z0-9+.-]+:", plain) else Path(plain)


def check_owner(checkpoint: str, owner: Owner, queries: Identity | None = None) -> None:
    """Refuse a checkpoint that cannot be used, or that another pipeline or other queries have made.

    A checkpoint on another machine is checked later, when the stream starts.
    """
    folder = local(checkpoint)
    if folder is None:
        return
    check_writable(folder, "the checkpoint")
    known = _read(folder / FILE)
    if known is not None and known.pipeline != owner.pipeline:
        raise StateError(
            f"the checkpoint {folder} belongs to the pipeline {known.pipeline!r}, not to {owner.pipeline!r}",
            detail="two streams cannot share a checkpoint: each remembers in it what it has read",
            hint="give this pipeline a checkpoint of its own",
        )
    if known is not None and known.sources != owner.sources:
        raise StateError(
            f"the checkpoint {folder} was made with the sources {', '.join(known.sources)}, "
            f"and now there are {', '.join(owner.sources)}",
            detail="Spark remembers by their order how far each source was read",
            hint="restore them as they were, or start with a new checkpoint",
        )
    if queries is not None and (folder / IDENTITY).is_file():  # Spark Connect writes folders, which `start` will read
        stored = Identity.read((folder / IDENTITY).read_bytes())
        check_layout(stored.layout, queries.layout)
        check_clock(stored.clock, queries.clock)
        admit(stored.units, queries.units)


@contextmanager
def claimed(checkpoint: str, owner: Owner) -> Iterator[None]:
    """Lock a checkpoint while a stream runs, so that no second one starts there; the lock ends with the process."""
    folder = local(checkpoint)
    check_owner(checkpoint, owner)
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a+", encoding="utf-8") as file:
        _lock(file, folder)
        check_owner(checkpoint, owner)  # it may have been made while we came
        _write(file, owner)
        yield


def check_writable(folder: Path, what: str) -> None:
    """Whether a folder can be written, or made."""
    above = folder
    while not above.exists() and above.parent != above:
        above = above.parent
    if not above.is_dir():
        raise InputError(f"{what} {folder} cannot be made", detail=f"{above} is a file")
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{what} {folder} cannot be written", detail=f"{above} is not yours to write to")


def _read(path: Path) -> Owner | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    if not text.strip():  # made a moment ago, or its writer was killed before it wrote
        return None
    try:
        state = json.loads(text)
        return Owner(state["pipeline"], tuple(state["sources"]))
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{path} is damaged", hint="start with a new checkpoint") from None


def _write(file: IO[str], owner: Owner) -> None:
    text = json.dumps(
        {"pipeline": owner.pipeline, "sources": owner.sources, "process": os.getpid(), "host": socket.gethostname()}
    )
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def _lock(file: IO[str], folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: Spark itself refuses the second stream, though later
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = "another process"
        with suppress(ValueError, KeyError):
            file.seek(0)
            state = json.loads(file.read())
            holder = f"process {state['process']} on {state['host']}"
        raise StateError(
            f"another stream runs with the checkpoint {folder}",
            detail=f"{holder} holds it",
            hint="wait for it or stop it, or give this stream a checkpoint of its own",
        ) from None
