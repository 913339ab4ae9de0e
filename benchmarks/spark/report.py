"""The results of the Spark benchmark as Markdown: one line for each arm, the targets, and where it was measured."""

from __future__ import annotations

from typing import Any

from benchmarks.report import targets_table

NAMES = {
    "tocsin-batch": "Tocsin, batch, files read by the workers",
    "tocsin-shuffled": "Tocsin, batch, shuffled by Spark",
    "identity-shuffled": "the same plan, idle kernel",
    "tocsin-stream": "Tocsin, stream (availableNow), files read by the workers",
    "identity-stream": "the same plan, idle shards",
    "tocsin-packed": "Tocsin, stream (availableNow), rows packed by Spark",
    "identity-packed": "the same plan, idle shards, packed",
    "connect-batch": "over Spark Connect: batch, as `detect` runs it by itself",
    "connect-shuffled": "over Spark Connect: batch, shuffled by Spark",
    "connect-packed": "over Spark Connect: stream, rows packed by Spark",
    "selfjoin-plain": "self-join in Spark SQL",
    "selfjoin-hashed": "self-join, hash join by hint",
    "selfjoin-binned": "self-join over time bins",
    "flink-streaming": "Flink CEP, streaming mode",
    "flink-streaming-1": "Flink CEP, streaming mode, one reader",
    "flink-batch": "Flink CEP, batch mode",
    "flink-read": "Flink, reading and filtering only",
}
ONLY_READS = ("flink-read",)  # does not look for matches, so it can neither agree nor win

Row = dict[str, Any]


def text(results: dict[str, Any]) -> str:
    """Everything there is to say about a run."""
    parts: list[str] = []
    wanted: list[tuple[str, float, str, float]] = []
    for load in results["loads"]:
        rows = load["rows"]
        parts += [f"{load['workload']}, {load['size']:,} rows:", table(rows), *left_out(rows)]
        wanted += [(f"{load['workload']}: {name}", *rest) for name, *rest in targets(rows)]
    parts += steps_of(results.get("steps"))
    wanted += step_targets(results.get("steps")) + state_targets(results.get("state")) + hot_targets(results.get("hot"))
    parts += ["Targets (a rival counts with its best form):", targets_table(wanted), measured_on(results)]
    return "\n\n".join(part for part in parts if part)


def own_time(steps: dict[str, Any]) -> float:
    """CPU seconds that a batch costs beside a job of Spark that does nothing."""
    cpu = {step["name"]: step["cpu_s"] for step in steps["steps"]}
    return float(sum(cpu.values()) - 2 * cpu["idle"])


def steps_of(steps: dict[str, Any] | None) -> list[str]:
    """The table of what a batch costs before its rows count."""
    if steps is None:
        return []
    lines = [
        f"What a batch costs before its first row (files of {steps['rows']:,} rows, warm, median of {steps['runs']}):",
        "| step | clock, ms | CPU of all processes, ms |\n|---|---:|---:|",
    ]
    for step in steps["steps"]:
        lines[1] += f"\n| {step['says']} | {1000 * step['wall_s']:.0f} | {1000 * step['cpu_s']:.0f} |"
    return lines


def step_targets(steps: dict[str, Any] | None) -> list[tuple[str, float, str, float]]:
    return (
        []
        if steps is None
        else [("CPU seconds that a batch costs beside an idle job of Spark", own_time(steps), "<=", 0.4)]
    )


def state_targets(state: dict[str, Any] | None) -> list[tuple[str, float, str, float]]:
    if state is None:
        return []
    memory = state["large"]["workers_mb"] / 1024
    return [
        ("a micro-batch behind a million live keys / behind a thousand", state["ratio"], "<=", 3.0),
        ("memory of all workers with a million live keys, GiB", memory, "<=", 2.0),
    ]


def hot_targets(hot: dict[str, Any] | None) -> list[tuple[str, float, str, float]]:
    return [] if hot is None else [("nine events in ten of one key: share of the speed", hot["share"], ">=", 0.5)]


def done(rows: list[Row]) -> list[Row]:
    """The arms that ran."""
    return [row for row in rows if "error" not in row and "skipped" not in row]


def table(rows: list[Row]) -> str:
    lines = [
        "| | M rows/s | M rows per CPU-second | wall, s | CPU, s | first run, s | matches |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in done(rows):
        cpu = row["cpu_s"]
        cells = (
            f"{row['rows'] / row['wall_s'] / 1e6:.3g}",
            f"{row['rows'] / cpu / 1e6:.3g}" if cpu else "",
            f"{row['wall_s']:.2f}",
            f"{cpu:.2f}" if cpu else "",
            f"{row['runs'][0]['wall_s']:.2f}",
            "" if row["name"] in ONLY_READS else f"{row['matches']:,}",
        )
        lines.append(f"| {NAMES.get(row['name'], row['name'])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def left_out(rows: list[Row]) -> list[str]:
    """A sentence for each arm that has no numbers."""
    skipped = [
        f"{NAMES.get(row['name'], row['name'])} was left out: {row['skipped']}." for row in rows if "skipped" in row
    ]
    failed = [f"{NAMES.get(row['name'], row['name'])} failed: {row['error']}" for row in rows if "error" in row]
    return [*skipped, *failed]


def fastest(rows: list[Row], start: str, by: str = "wall_s") -> float | None:
    """The least seconds of the arms whose names begin so: a rival is judged by its best form."""
    times = [
        row[by] for row in done(rows) if row["name"].startswith(start) and row["name"] not in ONLY_READS and row[by]
    ]
    return min(times, default=None)


def targets(rows: list[Row]) -> list[tuple[str, float, str, float]]:
    """How many times faster ours are than the best of each rival, by the clock and by the CPU."""
    wanted = []
    for ours, base, least in TARGETS:
        for by, unit in (("wall_s", "by the clock"), ("cpu_s", "by CPU")):
            mine, other = fastest(rows, ours, by), fastest(rows, base, by)
            if mine and other:
                wanted.append((f"{ours} against {base}, {unit}", other / mine, ">=", least))
    return wanted


TARGETS = (
    ("tocsin-shuffled", "identity-shuffled", 0.8),
    ("tocsin-batch", "selfjoin", 5.0),
    ("tocsin-batch", "flink", 3.0),
    ("tocsin-stream", "identity-stream", 0.8),
    ("tocsin-packed", "identity-packed", 0.8),
    ("tocsin-stream", "selfjoin", 5.0),
    ("tocsin-stream", "flink-streaming", 3.0),
    ("tocsin-stream", "flink", 3.0),  # the best of its forms is its batch mode
)


def disagreements(rows: list[Row]) -> list[str]:
    """Streams on which arms found different things; an arm that only reads or only passes on has nothing to find."""
    found: dict[tuple[str, int], dict[tuple[int, int], list[str]]] = {}
    for row in done(rows):
        if row["name"] not in ONLY_READS and not row["name"].startswith("identity"):
            answers = found.setdefault((row["workload"], row["rows"]), {})
            answers.setdefault((row["matches"], row["checksum"]), []).append(row["name"])
    return [f"{load} with {rows} rows: {answers}" for (load, rows), answers in found.items() if len(answers) > 1]


def measured_on(results: dict[str, Any]) -> str:
    facts = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    size = f"Rows from Parquet, best of {results['loads'][0]['repeat']}"
    load = f"load average {facts['load_before']:.1f} before and {facts['load_after']:.1f} after"
    return (
        f"{size} after a first run; two cores for each arm. Measured on {facts['processor']}, {facts['cores']} cores, "
        f"{facts['system']}, Python {facts['python']}, {versions}; {load}."
    )
