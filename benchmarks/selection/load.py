"""What is asked: the three steps of W1 with a key and a window, and everything that chooses among their matches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.workloads import WORKLOADS, Workload

STEPS = "SEQ(A a, B b, C c)"
MODES = ("first", "recent", "latest", "chronicle", "cumulative", "continuous", "snoop_recent")


@dataclass(frozen=True, slots=True)
class Ask:
    """A query, without its key and window; `polars`: what a user of Polars would write instead (`rivals`)."""

    name: str
    pattern: str = STEPS
    clause: str = ""
    polars: str | None = None

    def text(self, window: int) -> str:
        return f"EVENT {self.pattern} WHERE [key] WITHIN {window} {self.clause}".rstrip()


ASKS = {
    ask.name: ask
    for ask in (
        Ask("all combinations", polars="combinations"),
        Ask("FIRST", "SEQ(A a, FIRST B b, FIRST C c)", polars="first"),
        Ask("LAST", "SEQ(LAST A a, LAST B b, C c)"),
        Ask("NEXT", "SEQ(A a, NEXT B b, NEXT C c)"),
        Ask("SKIP PAST LAST EVENT", clause="AFTER MATCH SKIP PAST LAST EVENT"),
        *(Ask(f"CONSUME {mode}", clause=f"CONSUME {mode}") for mode in MODES),
        Ask("AND, CONSUME chronicle", "AND(A a, B b, C c)", "CONSUME chronicle"),
        Ask("OR, CONSUME recent", "OR(A a, B b, C c)", "CONSUME recent"),
    )
}
COUNTS = {  # of all matches; `all`: as long as the stream
    "no window": f"EVENT {STEPS} SELECT count(*)",
    "a window as long as the stream": f"EVENT {STEPS} WITHIN {{all}} SELECT count(*)",
    "a key, no window": f"EVENT {STEPS} WHERE [key] SELECT count(*)",
    "a key, a window as long as the stream": f"EVENT {STEPS} WHERE [key] WITHIN {{all}} SELECT count(*)",
}
KEYS = (100, 10_000)


def workload(keys: int) -> Workload:
    """W1 with so many keys, and a tenth as many events in a tick: so every key has one of each type in a window."""
    return replace(WORKLOADS["W1-100"], keys=keys, per_tick=keys // 10)
