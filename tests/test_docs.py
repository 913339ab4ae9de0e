"""Every code block of the README and the docs is run, in order, page by page; and every example in a docstring.

python          executed, with one namespace and one temporary directory per page
sh, console     lines that start with `tocsin` are commands, run in this process; of `make TARGET` the target must exist
tocsin, query   parsed
case            run as a case file, by the oracle and by `tocsin test`
text            not run
A line `<!-- exit 2 -->` before a block says which exit code its commands have.
Pages that use Spark share the one session of the tests.
"""

from __future__ import annotations

import doctest
import importlib
import io
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?:<!-- exit (?P<code>\d+) -->\n)?```(?P<language>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Fence:
    """One code block: its language, its text, the line it starts on, and the exit code its commands should have."""

    language: str
    body: str
    line: int
    code: int


def fences(text: str) -> list[Fence]:
    return [
        Fence(
            found["language"].strip(),
            found["body"],
            text.count("\n", 0, found.start("body")) + 1,
            int(found["code"] or 0),
        )
        for found in FENCE.finditer(text)
    ]


def run_python(fence: Fence, page: Path, names: dict[str, Any]) -> None:
    source = "\n" * (fence.line - 1) + fence.body
    exec(compile(source, str(page), "exec", dont_inherit=True), names)


def run_commands(fence: Fence, page: Path, folder: Path) -> None:
    for line in fence.body.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["make"]:
            known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
            targets = [word for word in words[1:] if "=" not in word]
            assert targets, f"{page.name}:{fence.line}: make what?"
            assert known >= set(targets), f"{page.name}:{fence.line}: no such target: {targets}"
        elif words[:1] == ["tocsin"]:
            run_tocsin(words[1:], fence, page, folder)


def run_tocsin(words: list[str], fence: Fence, page: Path, folder: Path) -> None:
    given = None
    if "<" in words:
        at = words.index("<")
        given = (folder / words[at + 1]).read_text()
        words = words[:at] + words[at + 2 :]
    code, said = command(words, given)
    shown = f"{page.name}:{fence.line}: tocsin {' '.join(words)}\n{said}"
    assert code == fence.code, shown
    assert "Traceback" not in said, shown


def command(words: list[str], given: str | None) -> tuple[int, str]:
    """Run the command in this process: its exit code, and what it said on stderr."""
    from tocsin.app.cli import main

    stdin = io.TextIOWrapper(io.BytesIO((given or "").encode()))
    with pytest.MonkeyPatch.context() as patch:
        said = io.StringIO()
        patch.setattr(sys, "stdin", stdin)
        patch.setattr(sys, "stderr", said)
        try:
            main(words)
        except SystemExit as ended:
            return int(ended.code or 0), said.getvalue()
    return 0, said.getvalue()


def run_query(fence: Fence) -> None:
    from tocsin.lang.parser import parse_all

    assert parse_all(fence.body)


def run_case_block(fence: Fence, page: Path, folder: Path) -> None:
    """Asked of the oracle at once; written down, and asked of the engine together at the end of the page."""
    from tocsin.testing.cases import oracle_answer, parse_cases, run_case

    for case in parse_cases(fence.body, file=f"{page.name}:{fence.line}"):
        verdict = run_case(case, oracle_answer)
        assert verdict.ok, str(verdict)
    (folder / "cases").mkdir(exist_ok=True)
    (folder / "cases" / f"{page.stem}-line-{fence.line}.case").write_text(fence.body)


def uses_spark(page: Path) -> bool:
    """Whether a block of the page is about Spark: then running it may need a session."""
    return any("spark" in f.body for f in fences(page.read_text(encoding="utf-8")) if f.language in ("python", "sh"))


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("page", [page for page in PAGES if not uses_spark(page)], ids=name_of)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    check_page(page, tmp_path)


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("page", [page for page in PAGES if uses_spark(page)], ids=name_of)
def test_code_blocks_run_on_spark(lasting_spark, page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    check_page(page, tmp_path)


def check_page(page: Path, folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for fence in fences(page.read_text(encoding="utf-8")):
        match fence.language:
            case "python":
                run_python(fence, page, names)
            case "sh" | "console":
                run_commands(fence, page, folder)
            case "tocsin" | "query":
                run_query(fence)
            case "case":
                run_case_block(fence, page, folder)
            case language:
                assert language == "text", f"{page.name}:{fence.line}: a block in {language!r} is not run"
    if (folder / "cases").exists():
        run_tocsin(["test", "cases"], Fence("case", "", 0, 0), page, folder)


def test_the_readme_has_exactly_two_commands_to_start():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [line for fence in fences(readme) for line in fence.body.splitlines() if line.startswith("make ")]
    assert [command.split("#")[0].strip() for command in commands] == ["make demo", "make test"]


SOURCE = ROOT / "src"
SHOWING = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SHOWING, ids=lambda path: str(path.relative_to(SOURCE)))
def test_examples_in_docstrings_are_true(path):
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert not result.failed


def test_numbers_that_were_measured_are_pasted():
    from benchmarks import paste

    for name, made in paste.PAGES.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        assert made(page) == page, f"{name}: run `python -m benchmarks.paste`"


@pytest.mark.parametrize(("letter", "last", "more"), [
    ("R", 129, []), ("N", 82, []), ("O", 71, []), ("D", 32, []), ("P", 117, [198, 199, 200, 204, 207]),
])  # fmt: skip
def test_every_feature_of_the_papers_has_its_row(letter, last, more):
    rows = re.findall(
        rf"^\| {letter}(\d+)(?:-{letter}(\d+))? \|", (ROOT / "docs" / "papers.md").read_text(), re.MULTILINE
    )
    numbers = [number for first, end in rows for number in range(int(first), int(end or first) + 1)]
    assert numbers == [*range(1, last + 1), *more]
