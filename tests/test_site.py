"""The site: it builds, all its links lead somewhere, and its search knows the words of the pages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_site_builds_and_its_search_finds_pages() -> None:
    command = [sys.executable, "tools/site_pages.py"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    site = ROOT / "out" / "site"
    [version] = [each["version"] for each in json.loads((site / "versions.json").read_text())]
    assert f'url={version}/"' in (site / "index.html").read_text()
    found = json.loads((site / version / "search" / "search_index.json").read_text())["docs"]
    assert any("timeout" in each["location"] for each in found if "timeout" in each["text"].lower())
    assert any(each["location"].startswith("api/tocsin.html#") and "detect" in each["title"] for each in found)


def test_pages_of_the_site_are_all_in_its_navigation() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import site_pages
    finally:
        sys.path.pop(0)
    listed = set(site_pages.listed(site_pages.NAV))
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    assert pages == {page for page in pages if page in listed or str(Path(page).parent) in listed}


# --- releases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ci", "release"])
def test_workflows_run_targets_that_there_are(name: str) -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = {word for command in commands if command.startswith("make") for word in command.split()[1:2]}
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets and targets <= known


def test_the_workflow_tests_the_pythons_that_are_promised() -> None:
    tested = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["test"]["strategy"]
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert tested["matrix"]["python"] == promised


def test_the_citation_has_the_version() -> None:
    version = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version[1]


@pytest.mark.long
def test_the_wheel_runs_in_an_empty_environment() -> None:
    told = subprocess.run(["make", "dist"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "the demo ran from the wheel: found 7 thefts" in told.stdout
