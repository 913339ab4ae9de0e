"""Every case file, answered by the oracle; and case files themselves."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from tocsin.errors import InputError
from tocsin.testing.cases import Case, FoundMatch, oracle_answer, parse_cases, read_cases, run_case
from tocsin.testing.notation import events_of, history

CASES = [case for path in sorted((Path(__file__).parent / "cases").rglob("*.case")) for case in read_cases(path)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_oracle_agrees_with_every_case(case: Case) -> None:
    verdict = run_case(case, oracle_answer)
    assert verdict.ok, str(verdict)


def test_there_are_cases() -> None:
    assert len(CASES) > 200


# --- reading -------------------------------------------------------------------------------------------------------

TEXT = """
# two queries, three streams
query
EVENT SEQ(A a,
          B b)
stream order=slack(3) batch=1   -- sorted in front
a1 b2
# a comment inside
b3 @A>5
----
a1 b2

a1 b3
stream
a1
----
query
QUERY P EVENT A; EVENT P
stream order=aggressive
a1
----
+ P@1
- P@1
+ P@1
state: A = a1
"""


def test_sections_options_and_lines() -> None:
    first, second, third = parse_cases(TEXT, file="x.case")
    assert first.query == second.query == "EVENT SEQ(A a,\n          B b)"
    assert first.options == {"order": "slack(3)", "batch": "1"}
    assert (first.stream, first.expected) == ("a1 b2\nb3 @A>5", ("a1 b2", "a1 b3"))
    assert (second.stream, second.expected, second.options) == ("a1", (), {})
    assert third.log == ((1, "P@1"), (-1, "P@1"), (1, "P@1"))
    assert third.state == ("state: A = a1",)
    assert [str(case) for case in (first, second, third)] == ["x.case:6", "x.case:14", "x.case:19"]


def test_an_error_is_expected_by_a_part_of_its_text() -> None:
    (case,) = parse_cases("query\nEVENT SEQ(A a,\n----\nerror: line 1\n")
    assert case.error == "line 1"
    assert run_case(case, oracle_answer).ok
    (case,) = parse_cases("query\nEVENT SEQ(A a,\n----\nerror: something else\n")
    assert not run_case(case, oracle_answer).ok
    (case,) = parse_cases("query\nEVENT A\n----\nerror: line 1\n")
    assert "expected an error" in str(run_case(case, oracle_answer))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no case"),
        ("EVENT A", "begins with a line"),
        ("query\nEVENT A\nstream\na1\n", "without ----"),
        ("query\nEVENT A\nstream fast\na1\n----\n", "not an option"),
        ("query\nEVENT A\nstream\na1\n----\na1\n+ a1\n", "several kinds"),
        ("query\nEVENT A\nstream\na1\n----\na1\nerror: x\n", "several kinds"),
    ],
)
def test_a_bad_case_file_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_cases(text)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_cases(tmp_path / "none.case")


# --- running -------------------------------------------------------------------------------------------------------


def case_of(expected: str, stream: str = "a1 b2 b3") -> Case:
    (case,) = parse_cases(f"query\nEVENT SEQ(A a, B b)\nstream\n{stream}\n----\n{expected}")
    return case


class Knowing:
    """Answers, and knows the state that it was left in."""

    state: ClassVar = {"A": ["a1"], "C >": ["10"]}

    def __call__(self, *_: object) -> list[FoundMatch]:
        return []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("state: A = a1", None),
        ("state: A =", "it is a1"),
        ("state: B =", None),
        ("state: B = b2", "it is empty"),
        ("state: C > 10", None),
        ("state: C > 9", "it is 10"),
        ("state: D > 10", "it is empty"),
    ],
)
def test_what_is_stored_and_promised_is_compared(line: str, problem: str | None) -> None:
    verdict = run_case(case_of(line, stream=""), Knowing())
    assert verdict.ok if problem is None else problem in str(verdict)


def test_missing_and_unexpected_matches_are_named() -> None:
    verdict = run_case(case_of("a1 b2\na1 b4\n"), oracle_answer)
    assert str(verdict) == "case:3: failed\n  missing: a1 b4\n  not expected: a1 b3"


def test_lines_are_a_multiset_in_any_order_and_spelling() -> None:
    assert run_case(case_of("a1 b3\n a1   b2#b2"), oracle_answer).ok
    assert not run_case(case_of("a1 b3\na1 b2\na1 b2"), oracle_answer).ok


def test_events_at_one_place_are_told_apart() -> None:
    assert run_case(case_of("a1 b2#x\na1 b2#y", "a1 b2#x b2#y"), oracle_answer).ok
    assert "several events" in str(run_case(case_of("a1 b2\na1 b2", "a1 b2#x b2#y"), oracle_answer))


def test_a_change_log_is_compared_change_by_change_or_by_its_net_effect() -> None:
    case = case_of("+ a1 b2\n- a1 b2\n+ a1 b2\n+ a1 b3")
    assert run_case(case, oracle_answer).ok
    a1, b2, b3 = events_of(history(case.stream))
    first = FoundMatch((("a", (a1,)), ("b", (b2,))))
    withdrawn = FoundMatch(first.binding, op=-1)
    second = FoundMatch((("a", (a1,)), ("b", (b3,))))
    log = [first, withdrawn, first, second]
    assert run_case(case, lambda *_: log, log=True).ok
    assert not run_case(case, lambda *_: log[:1] + log[3:], log=True).ok
    assert run_case(case_of("a1 b2\na1 b3"), lambda *_: log, log=True).ok


def test_bad_histories_fail_the_case_with_their_place() -> None:
    assert "column 4" in str(run_case(case_of("", "a1 ?"), oracle_answer))
