"""Spark's side of a shard, small enough to be looked at before anything is loaded.

When a stream starts, Spark runs a new Python process that asks the processor for its state variables, and nothing else.
So the processor knows only those; a class inside a function travels whole, without this module, and what it does with
rows is loaded where rows come.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor


def processor(work: bytes) -> StatefulProcessor:
    """The processor of a stream; `work` is a pickled `stream.Work`."""

    class Lazy(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.head = handle.getValueState("head", "data binary")
            self.blocks = handle.getMapState("blocks", "number bigint", "data binary")

        def _loaded(self) -> Any:
            from tocsin.spark.stream import Stateful, work_of

            return Stateful(work_of(work), self.handle, self.head, self.blocks)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            return self._loaded().rows(key, rows, timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: ARG002, N802, N803
            return self._loaded().expired(key)

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: ARG002, N802, N803
            self._loaded().initial(key, initialState)

    return Lazy()
