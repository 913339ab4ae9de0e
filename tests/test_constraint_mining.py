"""Constraints that are learned from past traces, and those made of graphs."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest
from typer.testing import CliRunner

import tocsin
from tocsin.app.cli import app
from tocsin.constraint.graphs import from_directly_follows, from_graph
from tocsin.constraint.mining import learn
from tocsin.errors import InputError
from tocsin.events import Event
from tocsin.lang.parser import parse_constraints
from tocsin.testing.oracle_traces import is_word


def order(random: Random) -> tuple[str, ...]:
    """A workflow of 19 types, most of them optional or one of several."""
    steps = ["Order", *(["Quote"] if random.random() < 0.3 else [])]
    steps += ["Card"] if random.random() < 0.5 else ["Invoice", *["Remind"] * random.choice((0, 0, 1, 2)), "Paid"]
    steps += random.choice((["Pick", "Pack"], ["Pick", "Check", "Pack"], ["Produce", "Test", "Pack"]))
    steps += ["Customs", "Clear", "Ship"] if random.random() < 0.2 else ["Ship"]
    if random.random() < 0.15:
        steps += random.choice((["Return", "Refund"], ["Return", "Ship"]))
    return (*steps, "Close")


def mutant(random: Random, trace: tuple[str, ...], types: list[str]) -> tuple[str, ...]:
    """One event left out, changed to another type, or exchanged with another."""
    found, at = list(trace), random.randrange(len(trace))
    match random.randrange(3):
        case 0:
            del found[at]
        case 1:
            found[at] = random.choice(types)
        case _:
            other = random.randrange(len(trace))
            found[at], found[other] = found[other], found[at]
    return tuple(found)


def share(constraint, traces) -> float:
    words = Counter(traces)
    obeyed = sum(
        count for trace, count in words.items()
        if is_word(constraint, [Event(type, at, at, str(at), {}) for at, type in enumerate(trace)])
    )  # fmt: skip
    return obeyed / sum(words.values())


@pytest.mark.parametrize("k", [0, 2])
def test_learned_constraints_accept_traces_and_reject_mutants(k: int) -> None:
    random = Random(1)
    seen = Counter(order(random) for _ in range(3000))
    held_out = [order(random) for _ in range(300)]
    real = set(seen) | {order(random) for _ in range(30_000)}
    types = sorted({type for trace in real for type in trace})
    mutants = [each for each in (mutant(random, trace, types) for trace in held_out) if each not in real]
    found = learn(seen, k=k)
    assert share(found.constraint, held_out) >= 0.99
    assert share(found.constraint, mutants) <= 0.1
    assert found.support >= 0.99


def test_rare_traces_are_exceptions() -> None:
    found = learn({("A", "B"): 998, ("A", "C", "B"): 2}, least=0.01)
    assert str(found.constraint) == "CONSTRAINT learned AS A B"
    assert (found.support, dict(found.exceptions)) == (0.998, {("A", "C", "B"): 2})


def test_nothing_to_learn_from() -> None:
    with pytest.raises(InputError, match="no traces"):
        learn({})


def test_a_constraint_from_states_and_edges() -> None:
    made = from_graph("c", [(0, "A", 1), (1, "B", 1), (1, "C", 2), (0, "D", 2)], start=0, ends=[2], key=("id",))
    assert parse_constraints(str(made)) == (made,)
    word = [Event(type, at, at, str(at), {}) for at, type in enumerate("ABBC")]
    assert is_word(made, word)
    assert is_word(made, [Event("D", 1, 1, "d", {})])
    assert not is_word(made, word[:3])


@pytest.mark.parametrize(
    ("given", "said"),
    [("[", "no directly-follows graph"), ({"edges": []}, "no directly-follows graph"),
     ({"edges": [["A", "B"]], "starts": ["B"], "ends": ["A"]}, "can be reached")],
)  # fmt: skip
def test_graphs_that_are_none(given, said: str) -> None:
    with pytest.raises(InputError, match=said):
        from_directly_follows("c", given)


def test_a_query_takes_constraints_from_python() -> None:
    graph = from_directly_follows("c", {"edges": [["A", "B"]], "starts": ["A"], "ends": ["B"]})
    text = tocsin.query("CONSTRAINT c AS A B; EVENT SEQ(A a, B b) UNDER c")
    assert tocsin.query("EVENT SEQ(A a, B b)", constraint=graph) == text
    assert tocsin.query("EVENT SEQ(A a, B b)", constraint="CONSTRAINT c AS A B") == text


def test_learn_at_the_command_line(tmp_path) -> None:
    rows = [
        {"type": type, "time": 10 * trace + at, "id": trace}
        for trace in range(20)
        for at, type in enumerate("ABB"[: 2 + trace % 2])
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    done = CliRunner().invoke(
        app, ["constraints", "learn", "--input", str(path), "--key", "id", "--name", "c", "--k", "0"]
    )
    assert done.exit_code == 0, done.output
    assert "obeyed by 100.00%" in done.output
    assert "CONSTRAINT c PARTITION BY id AS A B+;" in done.output


def test_what_cannot_be_learned_from_is_told(tmp_path) -> None:
    good = [{"type": type, "time": 10 * trace + at, "id": trace} for trace in range(3) for at, type in enumerate("AB")]
    bad = [{"type": "C", "time": None, "id": 1}, {"type": None, "time": 4, "id": 1}, {"type": "C", "time": 5}]
    path, kept = tmp_path / "events.jsonl", tmp_path / "bad.jsonl"
    path.write_text("\n".join([*map(json.dumps, [*good, *bad]), "{"]))
    given = ["constraints", "learn", "--input", str(path), "--key", "id"]
    stopped = CliRunner().invoke(app, given)
    assert stopped.exit_code != 0
    assert "line " in stopped.output and "--bad-rows skip" in stopped.output
    done = CliRunner().invoke(app, [*given, "--bad-rows", "skip"])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "CONSTRAINT learned PARTITION BY id AS A B;"
    told = done.stderr.splitlines()
    assert [line.startswith("skipped: ") for line in told] == [True, True, True, False]
    assert "line 7: the time is null" in done.stderr and "line 8: the type is null" in done.stderr
    assert told[-1] == "note: 1 event has no id, and belongs to no trace"
    assert CliRunner().invoke(app, [*given, "--bad-rows", f"file:{kept}"]).exit_code == 0
    assert len(kept.read_text().splitlines()) == 3
