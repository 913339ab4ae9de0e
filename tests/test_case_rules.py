"""Case files that test the rule as it is deployed: rules in files, times as times, on Spark, and under pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import is_long
from tocsin.app.judge import judge, judge_case
from tocsin.errors import InputError
from tocsin.testing.cases import oracle_answer, parse_cases, read_cases, run_case

RULES = """
-- the rules of a shop
QUERY theft EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h;
QUERY gang EVENT SEQ(theft a, theft b) WITHIN 1 d
"""
CASES = """
query file=rules/theft.tocsin theft
stream{more}
Shelf@09:00{{tag="a"}} Exit@9:30{{tag="a"}} Shelf@10:00{{tag="b"}} Counter@10:05{{tag="b"}} Exit@10:10{{tag="b"}}
----
Shelf@09:00 Exit@09:30
stream order=slack(10min) batch=2{more}
Shelf@09:00{{tag="a"}} Exit@9:30{{tag="a"}} Counter@9:25{{tag="a"}} Shelf@11:00{{tag="a"}} Exit@9:40{{tag="a"}}
----
time-unit min
query file=rules/theft.tocsin
stream{more}
Shelf@0{{tag="a"}} Exit@30{{tag="a"}} Shelf@40{{tag="b"}} Exit@50{{tag="b"}}
----
theft@[0,30] theft@[40,50]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "theft.tocsin").write_text(RULES)
    (tmp_path / "theft.case").write_text(CASES.format(more=""))
    (tmp_path / "wrong.case").write_text(CASES.format(more="").replace("Shelf@09:00 Exit", "Shelf@10:00 Exit"))
    return tmp_path


def test_a_rule_is_tested_where_it_stands(folder: Path) -> None:
    verdicts = [verdict for _, found in judge(folder / "theft.case", jit=False) for verdict in found]
    assert len(verdicts) == 6 and all(verdict.ok for verdict in verdicts), "\n".join(map(str, verdicts))


def test_what_differs_is_said_in_times(folder: Path) -> None:
    first = read_cases(folder / "wrong.case")[0]
    assert str(run_case(first, oracle_answer)).splitlines()[1:] == [
        "  missing: Shelf@10:00 Exit@09:30",
        "  not expected: Shelf@09:00 Exit@09:30",
    ]


def test_a_time_unit_holds_until_the_next_one() -> None:
    text = "query\nEVENT SEQ(A a, B b) WITHIN {}\nstream\na1 b3\n----\na1 b3\n"
    minutes, ticks = parse_cases(f"time-unit min\n{text.format('2 min')}time-unit ticks\n{text.format('2')}")
    assert (minutes.unit, ticks.unit) == ("min", None)
    for case in (minutes, ticks):
        assert all(verdict.ok for verdict in judge_case(case, jit=False))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query file=none.tocsin\n----\n", "cannot read the rules"),
        ("query file=rules/theft.tocsin a b\n----\n", "too much after query"),
        ("time-unit\nquery\nEVENT A\n----\n", "needs one unit"),
        ("time-unit weeks\nquery\nEVENT A\n----\n", "needs one unit"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(folder: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        parse_cases(text, file="x.case", folder=folder)
    assert "x.case, line 1" in str(raised.value)


def test_a_name_that_the_rules_do_not_have(folder: Path) -> None:
    (case,) = parse_cases("query file=rules/theft.tocsin thefts\n----\n", folder=folder)
    assert "there is no query thefts" in str(run_case(case, oracle_answer))
    assert "theft, gang" in str(run_case(case, oracle_answer))


def test_an_engine_that_nobody_knows() -> None:
    (case,) = parse_cases("query\nEVENT A\nstream engine=flink\na1\n----\na1\n")
    with pytest.raises(InputError, match="flink is no engine"):
        judge_case(case)


def test_promises_cannot_be_given_to_spark() -> None:
    pytest.importorskip("pyspark")
    (case,) = parse_cases("query\nEVENT A\nstream engine=spark\na1 @A>1\n----\na1\n")
    assert "promises cannot be given to Spark" in str(judge_case(case, jit=False)[-1])


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_same_on_spark(folder: Path) -> None:
    """A batch always; the stream, and the rule that reads another, in long runs."""
    asked = CASES if is_long() else CASES.split("stream order=", maxsplit=1)[0]
    (folder / "spark.case").write_text(asked.format(more=" engine=spark"))
    verdicts = [verdict for _, found in judge(folder / "spark.case", jit=False) for verdict in found]
    assert len(verdicts) == (9 if is_long() else 3)
    assert all(verdict.ok for verdict in verdicts), "\n".join(map(str, verdicts))


# --- pytest --------------------------------------------------------------------------------------------------------


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_tocsin", "-v", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_each_case_is_a_test_of_pytest(folder: Path) -> None:
    done = pytest_in(folder, "--tocsin")
    assert done.returncode == 1
    assert "theft.case::line 3 PASSED" in done.stdout
    assert "wrong.case::line 3 FAILED" in done.stdout
    assert "oracle: missing: Shelf@10:00 Exit@09:30" in done.stdout
    assert "5 passed, 1 failed" in done.stdout or "1 failed, 5 passed" in done.stdout
    assert "Traceback" not in done.stdout


def test_nothing_is_collected_unless_asked_for(folder: Path) -> None:
    assert "no tests ran" in pytest_in(folder).stdout


def test_a_broken_case_file_is_one_error_of_collection(folder: Path) -> None:
    (folder / "broken.case").write_text("EVENT A\n")
    done = pytest_in(folder, "--tocsin", "broken.case")
    assert "a case file begins with a line `query`" in done.stdout
    assert "Traceback" not in done.stdout
