"""Pages say what is true: links and anchors resolve, decisions keep their form, the glossary names real modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tocsin

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
PARTS = ("Context", "Options", "Choice", "Consequences", "Status")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]+)\)")


def prose(page: Path) -> str:
    """The text of a page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """The anchors of a page: those of its headings, as GitHub makes them, and those it sets itself."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return made | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_and_anchors_resolve(page):
    broken = []
    for link in LINK.findall(prose(page)):
        target, _, anchor = link.partition("#")
        file = page.parent / target if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "On this page: " in page.read_text()], ids=lambda page: page.stem
)
def test_the_list_at_the_top_of_a_page_has_all_its_sections(page):
    [line] = [line for line in prose(page).splitlines() if line.startswith("On this page: ")]
    titles = re.findall(r"^## (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    made = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    assert re.findall(r"\(#([^)]+)\)", line) == made


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_five_parts_in_order(page):
    found = re.findall(r"^\*\*(\w+)\.\*\*", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [part for part in found if part in PARTS] == list(PARTS)


def test_every_decision_is_in_the_index():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DECISIONS if f"({page.name})" not in index] == []


def test_the_glossary_names_modules_that_exist():
    rows = re.findall(
        r"^\| .* \| ([^|]*) \|$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    places = [place for row in rows for place in re.findall(r"`([^`]+)`", row)]
    assert len(places) > 50
    source = ROOT / "src" / "tocsin"
    gone = [
        place
        for place in places
        if not any(path.exists() for path in (source / f"{place}.py", source / place, ROOT / place))
    ]
    assert not gone


def test_the_changelog_begins_with_this_version():
    [version, *_] = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert version == tocsin.__version__
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_modules_that_the_upgrade_names_as_new_exist():
    text = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
    moved = text[text.index("### Modules that have moved") : text.index("Classes with other names")]
    for row in re.findall(r"^\| `tocsin.* \| (`tocsin.*) \|$", moved, re.MULTILINE):
        package = "tocsin"
        for name in re.findall(r"`([\w.]+)`", row):
            package = name.rsplit(".", 1)[0] if name.startswith("tocsin.") else package
            dotted = name if name.startswith("tocsin.") else f"{package}.{name}"
            place = (ROOT / "src").joinpath(*dotted.rstrip(".").split("."))
            assert place.with_suffix(".py").exists() or place.is_dir(), dotted
