"""The tests are tested by mutants: the tool makes them, sees which fall, and passes over those that are equivalent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutants import mutants
from tools.mutate import ROOT, all_mutants, chosen_tests, known, main

MODULE = '''"""A module."""


def larger(one: int, other: int) -> int:
    """Return the larger number."""
    return one if one > other else other
'''
TEST = """from tocsin.thing import larger


def test_larger():
    assert [larger(1, 2), larger(2, 1), larger(3, 3)] == [2, 2, 3]
"""
EQUIVALENT = """# of equal numbers either is the larger one
thing.py
- return one if one > other else other
+ return one if one >= other else other
= of equal numbers either is the larger one
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree with one module and one test."""
    for name, text in (("src/tocsin/thing.py", MODULE), ("src/tocsin/__init__.py", ""), ("tests/test_thing.py", TEST)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def changed(source: str) -> list[str]:
    return [mutant.applied(source) for mutant in mutants("x.py", source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a <= b", ["a < b"]),
        ("a is not b", ["a is b"]),
        ("a not in b", ["a in b"]),
        ("a + b", ["a - b"]),
        ("a and b", ["a or b"]),
        ("not a", ["a"]),
        ("x = True", ["x = False"]),
        ("x = 7", ["x = 8"]),
        ("min(a, b)", ["max(a, b)", "pass"]),
        ("é < é", ["é <= é"]),
        ("x: int = 1", ["x: int = 2"]),
        ('"""3 < 4"""', []),
        ("@dataclass(slots=True)\nclass A: ...", []),
        ("for x in y:\n    continue", ["for x in y:\n    pass"]),
        ("n += m", ["pass"]),
    ],
)
def test_what_is_changed(source: str, expected: list[str]) -> None:
    assert changed(source) == expected


def test_a_mutant_that_a_test_sees_falls(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = MODULE.replace("one > other", "one - other > 0")
    (tree / "src/tocsin/thing.py").write_text(source)
    assert main(["--root", str(tree), "--file", "thing.py"]) == 1
    said = capsys.readouterr().out
    assert "2 fallen" in said and "1 survived" in said
    assert (tree / "src/tocsin/thing.py").read_text() == source, "only the copy is changed"


def test_tests_that_fail_anyway_say_nothing(tree: Path) -> None:
    (tree / "tests/test_thing.py").write_text(TEST.replace("[2, 2, 3]", "[0]"))
    with pytest.raises(SystemExit, match="fail without any change"):
        main(["--root", str(tree)])


def test_a_survivor_is_shown_and_an_equivalent_one_passed_over(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tree)]) == 1
    said = capsys.readouterr().out
    assert "src/tocsin/thing.py:6" in said and "+    return one if one >= other else other" in said
    (tree / "tools").mkdir()
    (tree / "tools" / "equivalent_mutants.txt").write_text(EQUIVALENT)
    assert main(["--root", str(tree)]) == 0
    assert "1 equivalent" in capsys.readouterr().out


def test_every_equivalent_mutant_is_still_one_of_the_source() -> None:
    files = {file for file, _, _ in known(ROOT)}
    found = {
        mutant.key((ROOT / "src/tocsin" / file).read_text()) for file in files for mutant in all_mutants(ROOT, file)
    }
    assert set(known(ROOT)) <= found


def test_every_module_has_tests_that_could_see_it() -> None:
    modules = [path.relative_to(ROOT / "src/tocsin") for path in (ROOT / "src/tocsin").rglob("*.py")]
    assert [str(each) for each in modules if not chosen_tests(str(each), ROOT)] == []
