"""Traces of a supply-chain workflow, and what is asked of them.

The workflow has twenty types, of which twelve are optional or exclusive (60 %, as in the source). Its second event is
an exclusive choice, as in the source's example of a supply chain: a query about one branch survives in so many percent
of the traces as take that branch. All numbers here were fixed before anything was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

ORIGINS = ("Import", "Depot", "Farm", "Outlet")  # in equal parts, where it is not Supplier
WORKFLOW = (
    "Order (Supplier | Import | Depot | Farm | Outlet) Pick Load Weigh? (Truck | Rail | Ship) Depart Scan? Arrive"
    " (Shelf | Return) Count Bill Close"
)
CONSTRAINT = f"CONSTRAINT workflow PARTITION BY id AS {WORKFLOW}"
SELECTIVITIES = (0, 20, 40, 60, 80, 100)
ALIVE = 10_000  # traces at once
TRACES = 100_000
GRADES = 100

TYPES = (
    "Order", "Supplier", *ORIGINS, "Pick", "Load", "Weigh", "Truck", "Rail", "Ship", "Depart", "Scan", "Arrive",
    "Shelf", "Return", "Count", "Bill", "Close",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ask:
    """A group of queries: what is filtered by, and how a selectivity is brought about."""

    name: str
    pattern: str
    where: str = ""

    def text(self, selectivity: int, *, under: bool) -> str:
        """The query, with or without the constraint."""
        where = f" AND {self.where.format(share=selectivity * GRADES // 100)}" if self.where else ""
        query = f"EVENT {self.pattern} WHERE [id]{where}"
        return f"{CONSTRAINT}; {query} UNDER workflow" if under else query

    def branch(self, selectivity: int) -> float:
        """The share of traces that begin with Supplier."""
        return 0.2 if self.where else selectivity / 100


ASKS = {
    "patterns": Ask(
        "patterns", "SEQ(Order o, Supplier s, Pick p, Load l, Depart d, Arrive a, Count c, Bill b, Close e)"
    ),
    "predicates": Ask(
        "predicates", "SEQ(Order o, Pick p, Load l, Depart d, Arrive a, Count c, Bill b, Close e)",
        "p.grade < {share}",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Traces:
    """Events of many traces that run beside each other, in order of time, one in a tick."""

    types: np.ndarray
    ids: np.ndarray
    grades: np.ndarray

    def __len__(self) -> int:
        return len(self.types)

    @property
    def traces(self) -> int:
        return int(self.ids.max()) + 1

    def table(self) -> pa.Table:
        names = pa.DictionaryArray.from_arrays(pa.array(self.types), pa.array(TYPES))
        return pa.table({"type": names, "time": np.arange(len(self)), "id": self.ids, "grade": self.grades})


def traces(count: int, branch: float, seed: int = 1) -> Traces:
    """So many whole traces; a share of them takes the branch of the query."""
    random = np.random.default_rng(seed)
    code = {name: at for at, name in enumerate(TYPES)}

    def chosen(*names: str) -> np.ndarray:
        return random.choice([code[name] if name else -1 for name in names], count)

    def always(name: str) -> np.ndarray:
        return np.full(count, code[name])

    origin = np.where(random.random(count) < branch, code["Supplier"], chosen(*ORIGINS))
    steps = np.stack([
        always("Order"), origin, always("Pick"), always("Load"), chosen("Weigh", ""), chosen("Truck", "Rail", "Ship"),
        always("Depart"), chosen("Scan", ""), always("Arrive"), chosen("Shelf", "Return"), always("Count"),
        always("Bill"), always("Close"),
    ], axis=1)  # fmt: skip
    # a trace begins when another ends: its events lie in a window in which ALIVE traces run beside each other
    begin = np.arange(count)[:, None]
    when = begin + np.sort(random.random(steps.shape), axis=1) * min(ALIVE, count)
    ids = np.broadcast_to(begin, steps.shape)
    there = steps >= 0
    order = np.argsort(when[there], kind="stable")
    types = steps[there][order].astype(np.int32)
    return Traces(types, ids[there][order].astype(np.int64), random.integers(0, GRADES, len(types)))
