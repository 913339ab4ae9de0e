"""The results of a run as Markdown: speeds, memory, targets, and what they were measured on."""

from __future__ import annotations

from typing import Any

NAMES = {
    "tocsin": "Tocsin",
    "arrow": "Tocsin, from Arrow",
    "plain": "Tocsin, plain body",
    "hand": "hand-written Numba loop",
    "polars": "Polars, bucketed joins",
    "duckdb": "DuckDB, bucketed joins",
}


def text(results: dict[str, Any]) -> str:
    """Everything there is to say about a run."""
    rows = results["rows"]
    parts = [
        "Million events per CPU-second (columns in memory, one thread):",
        grid(rows, lambda row: f"{row['events_per_second'] / 1e6:.3g}"),
        "Peak memory of the process, MB (input included):",
        grid(rows, lambda row: f"{row['memory_peak'] / 1e6:.0f}"),
        "Targets:",
        targets_table(targets(results)),
        measured_on(results),
    ]
    return "\n\n".join(part for part in parts if part)


def grid(rows: list[dict[str, Any]], show: Any) -> str:
    """Arms down, workloads across."""
    loads = list(dict.fromkeys(row["workload"] for row in rows))
    arms = [arm for arm in NAMES if any(row["arm"] == arm for row in rows)]
    cells = {(row["arm"], row["workload"]): "failed" if "error" in row else show(row) for row in rows}
    lines = [f"| | {' | '.join(loads)} |", f"|---{'|---:' * len(loads)}|"]
    lines += [f"| {NAMES[arm]} | {' | '.join(cells.get((arm, load), '') for load in loads)} |" for arm in arms]
    return "\n".join(lines)


def targets(results: dict[str, Any]) -> list[tuple[str, float, str, float]]:
    """Each target that this run can judge: what, measured, ">=" or "<=", target."""
    speed = {(row["arm"], row["workload"]): row["events_per_second"] for row in results["rows"] if "error" not in row}

    def ratio(arm: str, load: str, other: str, beside: str | None = None) -> float | None:
        top, base = speed.get((arm, load)), speed.get((other, beside or load))
        return top / base if top and base else None

    keyed = ("W1-100", "W1-10k", "W1-10kD")
    polars = {**dict.fromkeys((*keyed, "W2", "W3"), 4.0), "dense": 1.3, "W4": 1.3}
    wanted = [
        *((f"{load}: share of the hand-written loop", ratio("tocsin", load, "hand"), ">=", 0.8) for load in keyed),
        *((f"{load}: times Polars", ratio("tocsin", load, "polars"), ">=", least) for load, least in polars.items()),
        ("window 100 times larger: share of the speed", ratio("tocsin", "wide", "tocsin", "W1-10k"), ">=", 0.5),
        ("a pattern that never matches: share of the speed", ratio("tocsin", "never", "tocsin", "W1-100"), ">=", 1.0),
        *probe_targets(results),
    ]
    return [(what, value, sign, target) for what, value, sign, target in wanted if value is not None]


def probe_targets(results: dict[str, Any]) -> list[tuple[str, float | None, str, float]]:
    latency, compile_times, state = (results.get(name, {}) for name in ("latency", "compile", "state"))
    return [
        ("one event, dict to changes, p50, us", latency.get("dict_p50_us"), "<=", 5),
        ("1,000 events in one push, p50, us", latency.get("push_1000_p50_us"), "<=", 15),
        ("compile 4 steps, cold, until its first body is there, s", compile_times.get("cold_4_s"), "<=", 1.5),
        ("compile 4 steps, from cache, s", compile_times.get("cached_4_s"), "<=", 0.5),
        ("compile 8 steps, cold, until its first body is there, s", compile_times.get("cold_8_s"), "<=", 4),
        ("state after all chunks / after a tenth of them", state.get("growth"), "<=", 1.1),
    ]


def targets_table(rows: list[tuple[str, float, str, float]]) -> str:
    if not rows:
        return "none could be judged in this run"
    lines = ["| target | measured | wanted | |", "|---|---:|---:|---|"]
    for what, value, sign, target in rows:
        met = value >= target if sign == ">=" else value <= target
        lines.append(f"| {what} | {value:.3g} | {sign} {target:g} | {'met' if met else '**missed**'} |")
    return "\n".join(lines)


def measured_on(results: dict[str, Any]) -> str:
    facts = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    size = "a twentieth of the events" if results["quick"] else "full size"
    load = f"load average {facts['load_before']:.1f} before and {facts['load_after']:.1f} after"
    return (
        f"Measured on {facts['processor']}, {facts['cores']} cores, {facts['system']}, Python {facts['python']}, "
        f"{versions}; {size}, best of {results['repeat']}; {load}."
    )
