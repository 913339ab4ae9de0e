"""The results of the disorder benchmark as a page: every number comes from the results, none is written by hand."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.report import measured_on, targets_table

HEAD = """# Disorder: the experiments of the papers, and ours

This page and its pictures are written by `make bench-disorder` from `benchmarks/results/disorder.json`.

The arms are the algorithms that two works describe, in plain Python (`benchmarks/disorder/baselines`): Li 2010 (a
dissertation on robust detection) and Liu 2009 (sequences over streams out of order); [papers](../papers.md) names them
in full. They are tested against worked examples step by step and against the oracle. Their absolute times mean little:
look at ratios, orders and crossings. Tocsin's own strategies come at the end, with compiled kernels.

How it is measured: CPU time of every call, the best of several runs, all arms of a figure in one process and one run.
State is the number of stored events and held sequences, averaged over all calls. Latency is simulated with one server:
events arrive one by one at a fixed distance, a call takes the time that was measured, and an answer counts from the
arrival of its last event. "Delay without any computing" is the same with a server that takes no time, in the time of
the stream. The papers leave out rates, numbers of events and the law of delay: ours are uniform delays up to MD and one
event a tick, so that a time unit of the papers is a few ticks. Their plots are compared by shape.
"""
FIGURES = {"Liu 2009, Fig 15": "thresholds for loading what was spilled to disk"}
VERDICTS = {True: "as reported", False: "**differs**", None: ""}
OURS_VERDICTS = {True: "met", False: "**missed**", None: ""}


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    figures = [figure for part in results["parts"] for figure in part.get("figures", ())]
    parts = [
        HEAD,
        measured_on(results) + loaded(results),
        "## In brief",
        summary(figures),
        *left_out(figures),
        *failures(results),
    ]
    parts += [section(figure) for figure in figures]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def loaded(results: dict[str, Any]) -> str:
    facts = results["machine"]
    busy = max(facts["load_before"], facts["load_after"]) > facts["cores"]
    return " The machine had other work at the time." if busy else ""


def left_out(figures: list[dict[str, Any]]) -> list[str]:
    """Figures of the papers that no experiment reproduces."""
    there = {figure["source"] for figure in figures}
    return [f"Not reproduced: {source} ({about})." for source, about in FIGURES.items() if source not in there]


def failures(results: dict[str, Any]) -> list[str]:
    return [f"`{part['name']}` failed: {part['error']}" for part in results["parts"] if "error" in part]


def summary(figures: list[dict[str, Any]]) -> str:
    lines = ["| figure | of | expected | here |", "|---|---|---|---|"]
    for figure in figures:
        link = f"[{figure['title']}](#{figure['name']})"
        lines.append(f"| {link} | {figure['source']} | {figure['expected']} | {verdict(figure)} |")
    return "\n".join(lines)


def verdict(figure: dict[str, Any]) -> str:
    return (OURS_VERDICTS if figure["source"] == "ours" else VERDICTS)[figure["agrees"]]


def section(figure: dict[str, Any]) -> str:
    said = verdict(figure)
    parts = [
        f'<a id="{figure["name"]}"></a>\n\n## {figure["title"]}',
        f"*{figure['source']}.* {sentence(figure['settings'])}",
        f"Expected: {sentence(figure['expected'])}" + (f" Here: {said}." if said else ""),
        sentence(figure["finding"]),
        f"![{figure['title']}]({figure['name']}.png)",
        *(grid(panel) for panel in figure["panels"]),
        *([targets_table(figure["targets"])] if figure["targets"] else []),
    ]
    return "\n\n".join(parts)


def sentence(text: str) -> str:
    """Begins with a capital and ends with a stop.

    >>> sentence("falls with more guarantees")
    'Falls with more guarantees.'
    """
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."


def grid(panel: dict[str, Any]) -> str:
    """One panel as a table: places on the x axis across, curves down; a long axis of names goes down."""
    xs = [x if isinstance(x, str) else f"{x:,g}" for x in panel["xs"]]
    curves = panel["curves"]
    head = f"{panel['title']}, {panel['y']}"
    if any(isinstance(x, str) for x in panel["xs"]):
        lines = [f"| {head} ({panel['x']}) | {' | '.join(curves)} |", f"|---{'|---:' * len(curves)}|"]
        lines += [f"| {x} | {' | '.join(number(curve[at]) for curve in curves.values())} |" for at, x in enumerate(xs)]
        return "\n".join(lines)
    lines = [f"| {head} ({panel['x']}) | {' | '.join(xs)} |", f"|---{'|---:' * len(xs)}|"]
    lines += [f"| {name} | {' | '.join(map(number, curve))} |" for name, curve in curves.items()]
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Three digits that count.

    >>> number(1234.5), number(0.0123), number(None)
    ('1,234', '0.0123', '')
    """
    if value is None or math.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
