"""Said once: what is too late, how far an event matters, replay without answering, and the closure of endpoints.

Each notion has one module. A rule looks for a second definition in the source of all others, and is shown to find one
where it is added; or the one definition is changed, and whoever asks it must change with it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tocsin.engine.detector import Detector
from tocsin.engine.ledger import Ledger
from tocsin.engine.purge import Rules
from tocsin.errors import TocsinError
from tocsin.items import Strings, tick
from tocsin.plan import facts
from tocsin.plan.block import Plan
from tocsin.plan.changed_rule import losses
from tocsin.plan.endpoints import Graph
from tocsin.plan.explain import explain
from tocsin.plan.passes.normalise import normalise
from tocsin.plan.verify import BrokenPlanError
from tocsin.run.query import plans_of
from tocsin.schema import Field, Kind, Schema
from tocsin.shards.routes import reach_of, units_of
from tocsin.shards.time_slices import margins
from tocsin.spill.state import SplitState

PACKAGE = Path(tocsin.__file__).parent
SCHEMA = Schema(common={"id": Field("id", Kind.INT)}, open_types=True, open_fields=True)
Finder = Callable[[ast.AST], Iterator[str]]


def plan_of(text: str) -> Plan:
    (plan,) = plans_of(tocsin.query(text).queries, SCHEMA)
    return plan


# --- rules over the source -----------------------------------------------------------------------------------------


def last_name(node: ast.AST) -> str:
    """`slack` of `time.slack`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def texts_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def judges_lateness(node: ast.AST) -> Iterator[str]:
    """A clock less a slack, as code or in the text of a kernel."""
    taken = {"slack", "late"}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and last_name(node.right) in taken:
        yield ast.unparse(node)
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub) and last_name(node.value) in taken:
        yield ast.unparse(node)
    yield from (text for text in texts_of(node) if "clock - slack" in text)


def added_up(node: ast.AST) -> Iterator[ast.AST]:
    """The terms of a sum."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from added_up(node.left)
        yield from added_up(node.right)
    else:
        yield node


def adds_up_windows(node: ast.AST) -> Iterator[str]:
    """Several windows, or a window and what a part looks at beyond it by FOR."""
    windows, beyond = {"within", "extent"}, {"before", "after", "by", "over", "overhang", "_overhang"}
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Mult) and windows & {last_name(node.left), last_name(node.right)}:
            yield ast.unparse(node)
        names = [last_name(term) for term in added_up(node)]
        if sum(name in windows for name in names) + any(name in beyond for name in names) > 1:
            yield ast.unparse(node)
        if any("widest" in ast.unparse(side) for side in (node.left, node.right)):
            yield ast.unparse(node)


def drops_answers(node: ast.AST) -> Iterator[str]:
    """A push whose changes nobody takes."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and last_name(node.value.func) == "push":
        yield ast.unparse(node)


RULES: dict[str, tuple[Finder, set[str], set[str]]] = {  # what finds it, where it is said, modules without operators
    "too late": (judges_lateness, {"engine/too_late.py"}, set()),
    "how far an event matters": (adds_up_windows, {"plan/facts.py"}, set()),
    "replay without answering": (
        drops_answers,
        {"engine/replay.py"},
        {"staged/compiled/columns.py", "staged/compiled/program.py"},  # a stack of names
    ),
}
SECOND = {
    "too late": [
        "late = end < self.clock - self.slack",
        "before -= time.late",
        "lines('if e < clock - slack:')",
        "f'if e < clock - slack - {span}'",
    ],
    "how far an event matters": [
        "old = start + 2 * self.within < clock",
        "passed = passed - within - self._overhang",
        "low = end - (plan.within + found.before)",
        "back = sum(3 * (widest(plan) or 0) for plan in plans)",
    ],
    "replay without answering": ["def again(detector, items):\n    detector.push(items)"],
}


def found_in(text: str, finder: Finder) -> list[str]:
    return [each for node in ast.walk(ast.parse(text)) for each in finder(node)]


@pytest.fixture(scope="module")
def sources() -> dict[str, ast.AST]:
    """All modules but the definitions that tests judge by."""
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "testing"]
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@pytest.mark.parametrize("notion", RULES)
def test_a_notion_is_said_in_one_module(notion: str, sources: dict[str, ast.AST]) -> None:
    finder, home, others = RULES[notion]
    found = {path: [each for node in ast.walk(tree) for each in finder(node)] for path, tree in sources.items()}
    assert {path for path, said in found.items() if said} - others == home, {p: s for p, s in found.items() if s}


@pytest.mark.parametrize(("notion", "text"), [(notion, text) for notion, texts in SECOND.items() for text in texts])
def test_a_second_definition_is_found(notion: str, text: str) -> None:
    assert found_in(text, RULES[notion][0])


# --- the one definition is changed, and all who ask it change with it ------------------------------------------------


def detector_of(plan: Plan) -> Detector:
    return Detector(plan, ("A", "B", "C"), Strings(), jit=False, ordered=False, late=3)


def frontier_of(plan: Plan) -> int:
    detector = detector_of(plan)
    detector.push(tick(1000))
    return detector.frontier


def frames_of(plan: Plan) -> tuple[int, int]:
    frames = SplitState(detector_of(plan), 1 << 20, None).frames
    return frames.behind, frames.ahead


ABSENT = "EVENT SEQ(A a, C c, !B b FOR 5) WITHIN 8"
HIDDEN = "EVENT EXISTS c : SEQ(A a, C c, !B b FOR 5) WITHIN 8"
ASK_HOW_FAR: dict[str, tuple[str, Callable[[Plan], Any]]] = {
    "explain": (ABSENT, explain),
    "kernels": (ABSENT, lambda plan: [branch.program.span for branch in detector_of(plan).branches]),
    "purging": (ABSENT, lambda plan: Rules.of(plan.alternatives[0], intervals=False)),
    "the frontier": (ABSENT, frontier_of),
    "slices of time": (ABSENT, lambda plan: margins([plan])),
    "slices of time, hidden events": (HIDDEN, lambda plan: margins([plan])),
    "shards": (ABSENT, lambda plan: reach_of(units_of([plan]))),
    "shards, hidden events": (HIDDEN, lambda plan: reach_of(units_of([plan]))),
    "frames on disk": (ABSENT, frames_of),
    "changed rules": (ABSENT, lambda plan: losses(plan_of("EVENT SEQ(A a, C c, B b) WITHIN 9"), plan)),
    "the ledger": (HIDDEN, lambda plan: vars(Ledger.of(plan) or object())["lasting"]),
}


@pytest.mark.parametrize("who", ASK_HOW_FAR)
def test_who_asks_how_far_an_event_matters_changes_with_it(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, ask = ASK_HOW_FAR[who]
    before, said = ask(plan_of(text)), facts.overhang
    monkeypatch.setattr(facts, "overhang", lambda part: tuple(each and each + 100 for each in said(part)))
    assert ask(plan_of(text)) != before


CHAIN = "EVENT ISEQ[end(a) < start(b), end(b) < start(c)](A a, B b, C c) WITHIN 8"
IMPLIED = "EVENT ISEQ[end(a) < start(b), end(b) < start(c), end(a) < start(c)](A a, B b, C c) WITHIN 8"
ABSENT_BETWEEN = "EVENT ISEQ[start(a) < start(c), end(c) < end(b)](A a, !B x, C c, B b) WITHIN 8"
ROUND = "EVENT ISEQ[end(a) < start(b), end(b) < start(c), end(c) < start(a)](A a, B b, C c) WITHIN 8"
ASK_THE_CLOSURE: dict[str, tuple[str, Callable[[Plan], Any]]] = {
    "the binder": (ROUND, lambda plan: plan.name),
    "passes": (IMPLIED, lambda plan: normalise(plan).alternatives),
    "the last leaves": (CHAIN, lambda plan: facts.last_leaves(plan.alternatives[0])),
    "purging": (CHAIN, lambda plan: Rules.of(plan.alternatives[0], intervals=True).bounds),
    "kernels": (CHAIN, lambda plan: [branch.program.source for branch in detector_of(plan).branches]),
    "explain": (CHAIN, explain),
}


def nearest_only(graph: Graph, start: object) -> dict[object, bool]:
    """A closure that is none: what is compared with `start` itself."""
    return {start: False, **dict(graph._follows.get(start, ()))}


@pytest.mark.parametrize("who", ASK_THE_CLOSURE)
def test_who_asks_the_closure_of_endpoints_changes_with_it(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, ask = ASK_THE_CLOSURE[who]

    def told() -> Any:
        try:
            return ask(plan_of(text))
        except (TocsinError, BrokenPlanError) as problem:
            return str(problem)

    before = told()
    monkeypatch.setattr(Graph, "reach", nearest_only)
    assert told() != before
