"""The stateful processor that Spark runs for each shard; it loads the engine only when rows come.

When a stream starts, Spark starts a Python process only to ask the processor for its state variables. Loading Tocsin,
pandas and Numba there would cost seconds. So the class below imports nothing at first. It is defined inside a function
because such a class is pickled by value: the process need not import this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor


def processor(work: bytes) -> StatefulProcessor:
    """The processor of a stream; `work` is a pickled `stream.Work`."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor  # not in Spark 3.5, which has no streams

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
