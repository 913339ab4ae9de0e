"""The events and the queries of the table benchmark: eight types and ten thousand users as text, times, one float."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

TYPES = ("Login", "Fail", "Transfer", "Logout", "View", "Search", "Click", "Buy")
USERS = 10_000
PER_SECOND = 1000
SOURCES = ("text", "dictionary", "polars", "pandas", "parquet", "csv")


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a sequence, as joins look for it: its type, and from which amount on it counts."""

    type: str
    above: float | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A query in our language, and what joins need to answer it: the steps, and what stands between the first two."""

    name: str
    text: str
    steps: tuple[Step, ...]
    seconds: float
    keyed: bool = True
    forbidden: str | None = None
    repeated: str | None = None

    @property
    def variables(self) -> list[str]:
        """What the events of the steps are called in the query."""
        items = self.text.partition("(")[2].partition(")")[0].split(", ")
        return [item.split()[1] for item in items if not item.startswith("!") and "+" not in item]


def _steps(*types: str) -> tuple[Step, ...]:
    return tuple(Step(type) for type in types)


_EIGHT = ", ".join(f"{type} x{place}" for place, type in enumerate(TYPES))
_RARE = "a.amount > 99 AND b.amount > 99 AND c.amount > 99"

ASKS = {
    ask.name: ask
    for ask in (
        Ask(
            "three",
            "EVENT SEQ(Login l, Fail f, Transfer t) WHERE [user] AND t.amount > 90 WITHIN 20 s",
            (Step("Login"), Step("Fail"), Step("Transfer", 90)),
            20,
        ),
        Ask(
            "absence",
            "EVENT SEQ(Login l, !Logout o, Transfer t) WHERE [user] WITHIN 20 s",
            _steps("Login", "Transfer"),
            20,
            forbidden="Logout",
        ),
        Ask(
            "repetition",
            "EVENT SEQ(Login l, Fail+ f, Transfer t) WHERE [user] WITHIN 20 s",
            _steps("Login", "Transfer"),
            20,
            repeated="Fail",
        ),
        Ask("pairs", "EVENT SEQ(Login l, Transfer t) WHERE [user] WITHIN 60 s", _steps("Login", "Transfer"), 60),
        Ask(
            "no key",
            f"EVENT SEQ(Login a, Fail b, Transfer c) WHERE {_RARE} WITHIN 2 s",
            (Step("Login", 99), Step("Fail", 99), Step("Transfer", 99)),
            2,
            keyed=False,
        ),
        Ask("eight", f"EVENT SEQ({_EIGHT}) WHERE [user] WITHIN 120 s", _steps(*TYPES), 120),
    )
}


def table(events: int, *, dictionary: bool = False, seed: int = 7, hot: float = 0.0) -> pa.Table:
    """Events in order of time; `hot` is the share of the events that one user has."""
    draw = np.random.default_rng(seed)
    time = 1_700_000_000_000_000 + np.cumsum(draw.integers(1, 2 * 1_000_000 // PER_SECOND, events))
    users = draw.integers(0, USERS, events).astype(np.int32)
    if hot:
        users[draw.random(events) < hot] = 0
    kinds = draw.integers(0, len(TYPES), events).astype(np.int8)
    type = pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(TYPES))
    user = pa.DictionaryArray.from_arrays(pa.array(users), pa.array([f"user-{at:05}" for at in range(USERS)]))
    return pa.table(
        {
            "type": type if dictionary else type.cast(pa.string()),
            "time": pa.array(time).cast(pa.timestamp("us")),
            "user": user if dictionary else user.cast(pa.string()),
            "amount": pa.array(draw.random(events) * 100),
        }
    )


def source(name: str, events: int, folder: Path) -> Any:
    """The events as `detect` is given them; files are written once."""
    if name == "dictionary":
        return table(events, dictionary=True)
    made = in_memory(events, folder)
    if name == "text":
        return made
    if name == "polars":
        import polars

        return polars.from_arrow(made)
    if name == "pandas":
        return made.to_pandas()
    path = folder / f"events-{events}.{name}"
    if not path.exists():
        write(made, path)
    return str(path)


def in_memory(events: int, folder: Path) -> pa.Table:
    """The table of texts; drawing it takes longer than reading what another process has drawn."""
    path = folder / f"events-{events}.arrow"
    if not path.exists():
        write(table(events), path)
    return pa.ipc.open_file(pa.OSFile(str(path))).read_all()


def write(made: pa.Table, path: Path) -> None:
    """Write a file whole, so that another process never sees half of it."""
    from pyarrow import csv, parquet

    draft = path.with_name(f"draft-{path.name}")
    if path.suffix == ".arrow":
        with pa.ipc.new_file(str(draft), made.schema) as file:
            file.write_table(made)
    elif path.suffix == ".parquet":
        parquet.write_table(made, draft)
    else:
        csv.write_csv(made, draft)
    draft.rename(path)
