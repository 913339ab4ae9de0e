"""The same query as text and in Python, over any table; the answer as a table again."""

from __future__ import annotations

import pyarrow as pa

import tocsin
from tocsin import col, event, same, seq

rise = (
    seq(event("Tick", "low"), event("Tick", "mid"), event("Tick", "high"))
    .where(same("symbol"), col("low.price") < col("mid.price"), col("mid.price") < col("high.price"))
    .within(2)
    .select(symbol="low.symbol", gain="high.price - low.price")
)
print(rise)

ticks = pa.table(
    {
        "type": ["Tick"] * 6,
        "time": [1, 1, 2, 2, 3, 3],
        "symbol": ["X", "Y", "X", "Y", "X", "Y"],
        "price": [10.0, 7.0, 11.0, 6.5, 12.5, 8.0],
    }
)
matches = tocsin.query(rise).detect(ticks)
print(matches.table().select(["symbol", "gain"]).to_pydict())
assert [match["gain"] for match in matches] == [2.5]
