"""The named arms: what each experiment compares, and the switches that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from benchmarks.disorder.baselines.aggressive import Aggressive
from benchmarks.disorder.baselines.conservative import ALL, Conservative
from benchmarks.disorder.baselines.engine import Engine
from benchmarks.disorder.baselines.in_order import InOrder, InOrderSwitches
from benchmarks.disorder.baselines.k_slack import KSlack
from benchmarks.disorder.baselines.native import Native
from benchmarks.disorder.baselines.ng import NgSwitches
from benchmarks.disorder.baselines.pattern import Pattern
from benchmarks.disorder.baselines.recompute import Recompute
from benchmarks.disorder.baselines.ssc import ScanSwitches

OrderMode: TypeAlias = Literal[
    "total_order", "kslack_buffer", "slack", "slack_ordered", "conservative", "aggressive", "recompute"
]


@dataclass(frozen=True)
class Switches:
    """All switches of all arms: `order_mode` says which of them matter.

    An exclusive window of W is an inclusive one of W - 1, because time is whole numbers. Events that are too late are
    always set aside and counted.
    """

    order_mode: OrderMode = "total_order"
    window_bound: Literal["inclusive", "exclusive"] = "inclusive"
    in_order: InOrderSwitches = field(default_factory=InOrderSwitches)
    scan: ScanSwitches = field(default_factory=ScanSwitches)
    ng: NgSwitches = field(default_factory=NgSwitches)
    rules: frozenset[str] = ALL
    punctuate: bool = False
    victims: Literal["regenerate", "index"] = "regenerate"
    trailing: Literal["window", "immediate"] = "window"


def engine(pattern: Pattern, k: int, switches: Switches) -> Engine:
    """An arm that has seen nothing yet; `k` is the largest delay."""
    if switches.window_bound == "exclusive":
        pattern = replace(pattern, window=pattern.window - 1)
    match switches.order_mode:
        case "total_order":
            return InOrder(pattern, switches.in_order)
        case "kslack_buffer":
            return KSlack(pattern, k)
        case "slack" | "slack_ordered":
            return Native(pattern, k, switches.scan, switches.ng, ordered=switches.order_mode == "slack_ordered")
        case "conservative":
            return Conservative(pattern, switches.rules, punctuate=k if switches.punctuate else None)
        case "aggressive":
            return Aggressive(pattern, k, victims=switches.victims, trailing=switches.trailing)
        case "recompute":
            return Recompute(pattern, k)


def _slack(**scan: object) -> Switches:
    return Switches("slack", scan=replace(ScanSwitches(), **scan))  # type: ignore[arg-type]


ARMS: dict[str, Switches] = {
    "in-order": Switches(),
    "in-order, as printed": Switches(in_order=InOrderSwitches(activation=True, trusting=True)),
    "algorithm 6": _slack(ais_clock=False, partition="off"),
    "algorithm 7": _slack(partition="off"),
    "algorithm 8": _slack(partition="off", rin=True),
    "algorithm 6, partition": _slack(ais_clock=False),
    "algorithm 7, partition": _slack(),
    "algorithm 8, partition": _slack(rin=True),
    "lazy purge": _slack(purge="lazy"),
    "lazy purge, sweep": _slack(purge="lazy", sweep=50),
    "early last stack": _slack(last_early=True, rin=True),
    "late release": Switches("slack", ng=NgSwitches(early_release=False)),
    "ordered release": Switches("slack_ordered"),
    "k-slack": Switches("kslack_buffer"),
    "conservative A1": Switches("conservative", rules=frozenset({"A1"})),
    "conservative A2": Switches("conservative", rules=frozenset({"A2"})),
    "conservative A1+A2": Switches("conservative", rules=frozenset({"A1", "A2"})),
    "conservative": Switches("conservative"),
    "conservative(K)": Switches("conservative", punctuate=True),
    "aggressive": Switches("aggressive"),
    "aggressive, index": Switches("aggressive", victims="index"),
    "aggressive, immediate": Switches("aggressive", trailing="immediate"),
    "aggressive, immediate, index": Switches("aggressive", trailing="immediate", victims="index"),
    "recompute": Switches("recompute"),
}
# Arms that must give the oracle's answer on any stream that keeps its promises; the others need order, or show a fault.
SOUND = tuple(name for name in ARMS if not name.startswith("in-order"))

Maker: TypeAlias = Callable[[Pattern, int], Engine]


def arm(name: str) -> Maker:
    """The maker of a named arm."""
    return lambda pattern, k: engine(pattern, k, ARMS[name])
