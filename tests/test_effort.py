"""One knob for the number of examples, and slices that are together everything."""

from __future__ import annotations

from pathlib import Path

import pytest

import tocsin
from tests.conftest import SPARK, group
from tests.effort import examples, share, some
from tests.slices import Slice, read_slice

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(("told", "tried"), [("quick", 4), ("normal", 30), ("long", 200), ("0.5", 100), ("", 30)])
def test_the_knob_says_how_many_examples(monkeypatch: pytest.MonkeyPatch, told: str, tried: int) -> None:
    monkeypatch.setenv("EXAMPLES", told)
    assert examples(200) == tried
    assert examples(200, least=150) == max(tried, 150)
    assert examples(1) == 1
    chosen = some(range(200))
    assert len(set(chosen)) == tried
    assert (chosen[0], chosen == sorted(chosen), chosen[-1] >= 150) == (0, True, True)


@pytest.mark.parametrize("told", ["0", "1.5", "-1", "many", "nan"])
def test_a_knob_that_makes_no_sense_is_refused(told: str) -> None:
    with pytest.raises(ValueError, match="EXAMPLES"):
        share(told)


@pytest.mark.parametrize("of", [1, 2, 8])
def test_the_slices_are_all_tests_each_once(request: pytest.FixtureRequest, of: int) -> None:
    new = [f"tests/test_new.py::test_number[{number}]" for number in range(2000)]
    slices = [read_slice(f"{number}/{of}") for number in range(of)]
    for name in (*new, *(item.nodeid.partition("@")[0] for item in request.session.items)):
        assert sum(each.has(name) for each in slices) == 1, name
    sizes = [sum(map(each.has, new)) for each in slices]
    assert min(sizes) > 0.7 * max(sizes), "a slice is much smaller than another"


def test_a_run_of_a_slice_runs_its_tests_and_no_others(pytester: pytest.Pytester) -> None:
    """The hook of conftest.py and the option, in a run of their own."""
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makepyfile("import pytest\n\n\n@pytest.mark.parametrize('n', range(40))\ndef test_number(n): pass\n")
    ran: list[str] = []
    for number in range(4):
        done = pytester.inline_run("--slice", f"{number}/4", "-p", "no:cacheprovider")
        mine = [call.item.nodeid for call in done.getcalls("pytest_runtest_call")]
        assert mine and all(Slice(number, 4).has(name) for name in mine)
        ran += mine
    assert sorted(ran) == sorted(set(ran)) and len(ran) == 40


@pytest.mark.parametrize("text", ["", "1", "3/2", "2/2", "0/0", "-1/2", "a/b"])
def test_a_slice_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--slice"):
        read_slice(text)


def test_a_slice_is_known_by_its_number() -> None:
    assert read_slice("3/8") == Slice(3, 8)


def test_all_tests_on_spark_share_one_worker(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        marked = {str(mark.args[0]) for mark in item.iter_markers("xdist_group")}
        assert (SPARK in marked) == (SPARK in getattr(item, "fixturenames", ()))
        assert marked == ({group(item)} - {None})


@pytest.mark.slow
@pytest.mark.jit
def test_a_kernel_of_less_optimisation_is_another_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that the tests compiled in haste is never taken for one that a user's process compiled."""
    import numba

    monkeypatch.setenv("TOCSIN_CACHE", str(tmp_path))
    rows = [{"type": "A", "time": 1}, {"type": "B", "time": 2}]
    kept = []
    for level in ("1", "3", "3"):
        monkeypatch.setattr(numba.config, "OPT", type(numba.config.OPT)(level))
        assert len(tocsin.query("EVENT SEQ(A kept, B apart) WITHIN 12345").detect(rows)) == 1
        kept.append({path.name for path in tmp_path.glob("k_*.py")})
    assert kept[0] < kept[1] == kept[2]
