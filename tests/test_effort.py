"""One knob for the number of examples, and slices that are together everything."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import tocsin
from tests.conftest import needs_spark
from tests.effort import examples, share, some
from tests.slices import Slice, read_slice
from tests.workers import SHARES, SPARK, group_of

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(("told", "tried"), [("quick", 4), ("normal", 9), ("long", 200), ("0.5", 100), ("", 9)])
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
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text())
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
    """Their names say so: the controller of the workers knows nothing else of a test."""
    lost = [item.nodeid for item in request.session.items if needs_spark(item) and group_of(item.nodeid) != SPARK]
    assert not lost, "these need Spark: say so in their names, or list their file in tests/workers.py"


def test_tests_share_a_worker_by_their_names() -> None:
    assert group_of("tests/test_docs.py::test_links[docs/spark.md]") != SPARK
    assert group_of("tests/test_docs.py::test_blocks_on_spark[docs/spark.md]") == SPARK
    assert group_of("tests/test_pipeline.py::test_stream") == group_of("tests/test_spark_cases.py::test_batch") == SPARK
    assert len({group_of(f"tests/test_engine.py::test_chunk[{number}]") for number in range(100)}) == SHARES


@pytest.mark.slow
def test_one_worker_gets_all_of_a_group(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a run of two workers, with the scheduler of conftest.py."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in (str(ROOT), *sys.path) if path))
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text())
    lines = ["import os, pathlib", "import pytest", ""]
    for kind in ("spark", "plain"):
        lines += ["@pytest.mark.parametrize('n', range(30))", f"def test_{kind}(n):"]
        lines += [f"    with open({str(pytester.path / kind)!r}, 'a') as file:"]
        lines += ["        file.write(os.environ['PYTEST_XDIST_WORKER'] + chr(10))", ""]
    pytester.makepyfile("\n".join(lines))
    done = pytester.runpytest_subprocess("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
    done.assert_outcomes(passed=60)
    if Path("/proc/self/stat").exists():
        done.stdout.fnmatch_lines(["* s of CPU time in all processes"])
    workers = {kind: (pytester.path / kind).read_text().split() for kind in ("spark", "plain")}
    assert (len(workers["spark"]), len(set(workers["spark"]))) == (30, 1)
    assert len(workers["plain"]) == 30
    assert set(workers["plain"]) - set(workers["spark"]), "the other worker had nothing to do"


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
