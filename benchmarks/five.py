"""The five numbers that the README shows, from the results of the last runs."""

from __future__ import annotations

from typing import Any

Results = dict[str, Any]


def text(bench: Results, table: Results, spark: Results) -> str:
    """A line for each number: what it is, what was measured, and where the whole table is."""
    ours, theirs = speed(table, "tocsin"), f"DuckDB {speed(table, 'duckdb'):.0f}, Polars {speed(table, 'polars'):.0f}"
    lines = [
        ("three steps with a key, from an Arrow table of 10 million rows to a table of matches, one thread",
         f"**{ours:.0f}** million rows per CPU-second; {theirs}"),
        ("three steps with a key in the kernel alone, from columns in memory",
         f"**{kernel(bench):.0f}** million events per CPU-second"),
        ("one event pushed into a live session, from a dict to its answer (integer times, median)",
         f"**{bench['latency']['dict_p50_us']:.2g}** microseconds"),
        ("Spark, five million rows of Parquet in a batch, by CPU",
         f"**{against_flink(spark):.1f}** times Flink CEP on the same two cores"),
        ("memory after 50 million events of a stream, beside that after the first tenth",
         f"**{bench['state']['growth']:.2f}** times as much"),
    ]  # fmt: skip
    machine = bench["machine"]
    measured = f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}"
    rows = "\n".join(f"| {what} | {number} |" for what, number in lines)
    return (
        f"| | |\n|---|---|\n{rows}\n\nMeasured on {measured}. [All tables](docs/benchmarks.md), with what was missed."
    )


def speed(table: Results, who: str) -> float:
    """Million rows per CPU-second from text columns, one thread, query `three`."""
    [row] = [
        row
        for row in table["rows"]
        if (row["who"], row["query"], row["source"], row["threads"]) == (who, "three", "text", 1)
    ]
    return float(table["events"] / row["cpu"] / 1e6)


def kernel(bench: Results) -> float:
    """Million events per CPU-second of W1-100."""
    [row] = [row for row in bench["rows"] if (row["arm"], row["workload"]) == ("tocsin", "W1-100")]
    return float(row["events_per_second"] / 1e6)


def against_flink(spark: Results) -> float:
    """How many times less CPU than Flink CEP a Spark batch takes, at least."""
    ratios = []
    for load in spark["loads"]:
        cpu = {row["name"]: row["cpu_s"] for row in load["rows"]}
        ratios.append(cpu["flink-batch"] / cpu["tocsin-batch"])
    return float(min(ratios))
