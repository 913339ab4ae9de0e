"""A pytest plugin: `pytest --tocsin` collects case files (`*.case`), each case one test.

It stands beside the package, so that pytest starts as quickly as before where nobody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tocsin.testing.cases import Case


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `pytest --help`."""
    group = parser.getgroup("tocsin", "rules of Tocsin, tested by case files")
    group.addoption("--tocsin", action="store_true", help="collect case files (*.case): each case is a test")
    group.addoption("--tocsin-jit", action="store_true", help="compile their queries, as in production")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take case files, if asked for."""
    if file_path.suffix == ".case" and parent.config.getoption("--tocsin"):
        return CaseFile.from_parent(parent, path=file_path)
    return None


class CaseFile(pytest.File):
    """A case file: its cases are named by the line that they begin on."""

    def collect(self) -> Iterator[pytest.Item]:
        from tocsin.errors import TocsinError
        from tocsin.testing.cases import read_cases

        try:
            cases = read_cases(self.path)
        except TocsinError as error:
            raise self.CollectError(str(error)) from None
        for case in cases:
            yield CaseItem.from_parent(self, name=f"line {case.line}", case=case)


class CaseItem(pytest.Item):
    """One case: the definition and the engine must both give what it expects."""

    def __init__(self, *, case: Case, **given: Any) -> None:
        super().__init__(**given)
        self.case = case

    def runtest(self) -> None:
        from tocsin.app.judge import judge_case

        wrong = [
            verdict for verdict in judge_case(self.case, jit=self.config.getoption("--tocsin-jit")) if not verdict.ok
        ]
        if wrong:
            raise CaseFailedError("\n".join(map(str, wrong)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **more: Any) -> Any:
        """What differs, without a traceback of ours."""
        if isinstance(excinfo.value, CaseFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args, **more)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.case.line - 1, f"{self.path.name}, {self.name}"


class CaseFailedError(Exception):
    """A case does not hold."""
