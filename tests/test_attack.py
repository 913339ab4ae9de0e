"""Hostile input: every surface for a moment, without a finding; and the tool finds what it should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effort import examples
from tools.attack.__main__ import attack, main, plan
from tools.attack.core import DIED, DIFFERENT, FINE, HUNG, RAISED, as_text, drawn, from_text
from tools.attack.parent import Child
from tools.attack.shrink import shrunk
from tools.attack.surfaces import NAMES, surface

# How many inputs a long run tries; what starts processes or compiles gets fewer.
INPUTS = dict.fromkeys(NAMES, 1000) | {
    "query_text": 700, "case_files": 700, "pipes": 500, "derived_text": 400, "trace_text": 400, "live_state": 300,
    "scrapes": 300, "functions": 400, "threads": 100, "kernels": 20, "caches": 10,
}  # fmt: skip

PARAMETERS = {
    "kernels": pytest.param("kernels", marks=pytest.mark.jit),
    "caches": pytest.param("caches", marks=[pytest.mark.jit, pytest.mark.long]),
}


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child() as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("name", [PARAMETERS.get(name, name) for name in NAMES])
def test_every_input_is_answered_rightly_or_refused(child: Child, name: str) -> None:
    report = attack([name], examples(INPUTS[name]), seed=1, child=child)
    told = [f"{each.outcome.word}: {each.outcome.problem}" for each in report.findings.values()]
    assert not told, f"try them again: python -m tools.attack --seed 1 --surface {name}"
    assert report.total == sum(report.counts[name, word] for word in FINE) > 0


@pytest.mark.parametrize(
    ("deed", "word", "problem"),
    [
        ("answer", "answer", ""),
        ("refuse", "refused", ""),
        ("differ", DIFFERENT, "1 against 2"),
        ("raise", RAISED, "KeyError"),
        ("die", DIED, "SIGSEGV"),
        ("spin", HUNG, "CPU time"),
    ],
)
def test_what_became_of_an_input_is_told(child: Child, deed: str, word: str, problem: str) -> None:
    outcome = child.given("practice", {"deed": deed, "items": ["matter"]})
    assert (outcome.word, problem in outcome.problem) == (word, True)
    assert child.given("practice", {"deed": "answer", "items": []}).fine, "a new child goes on"


def test_a_finding_is_made_small_and_can_be_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = [number for number in range(60) if drawn(surface("practice"), 5, number)["deed"] == "differ"]
    report = attack(["practice"], 1, seed=5, only=seeds[0], into=tmp_path)
    (finding,) = report.findings.values()
    assert finding.file is not None
    kept = from_text(finding.file.read_text())
    assert kept["input"] == {"deed": "differ", "items": ["matter"]}
    assert (kept["surface"], kept["seed"], kept["number"]) == ("practice", 5, seeds[0])
    assert main(["--replay", str(finding.file)]) == 1
    assert "1 against 2" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in NAMES if name != "caches"])
def test_inputs_are_the_same_each_time(name: str) -> None:
    found = [as_text(drawn(surface(name), 3, number)) for number in range(4)]
    assert found == [as_text(drawn(surface(name), 3, number)) for number in range(4)]
    assert found != [as_text(drawn(surface(name), 4, number)) for number in range(4)]
    assert as_text(from_text(found[0])) == found[0]


def test_surfaces_are_mixed_by_their_shares() -> None:
    listed = list(plan(("rows", "threads"), 90))
    counts = [sum(name == each for name, _ in listed) for each in ("rows", "threads")]
    shares = [surface(each).share for each in ("rows", "threads")]
    assert counts == [round(90 * share / sum(shares)) for share in shares]
    assert listed == list(plan(("rows", "threads"), 90))
    assert {number for name, number in listed if name == "threads"} == set(range(counts[1]))


def test_shrinking_keeps_what_fails() -> None:
    small = shrunk(
        {"text": "a b c d", "rows": [1, 2, 3], "raw": b"xyz"},
        lambda given: "c" in given["text"] and b"y" in given["raw"],
    )
    assert small == {"text": "c", "rows": [], "raw": b"y"}
