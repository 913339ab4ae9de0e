"""Build the site (`make site`): README and docs as they are, the API from docstrings; every link is checked.

The pages are copied into out/pages as they lie in the tree, so that their links need no change. The site stands in
out/site, one folder for each version; those that are there already stay.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from pymdownx.slugs import slugify

ROOT = Path(__file__).parent.parent
PAGES, SITE = ROOT / "out" / "pages", ROOT / "out" / "site"
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "MAP.md", "LICENSE")
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\))")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")

NAV: list[dict[str, object]] = [
    {"Tocsin": "README.md"},
    {"Tutorial": "docs/tour.md"},
    {
        "How to": [
            "docs/howto/first-match-only.md",
            "docs/howto/immediately-after.md",
            "docs/howto/timeout.md",
            "docs/howto/join-back.md",
            "docs/howto/monitor.md",
            "docs/changing-rules.md",
            "docs/testing-rules.md",
            "docs/adding-an-operator.md",
        ]
    },
    {"Coming from": "docs/coming-from"},
    {
        "The language": [
            "docs/language.md",
            "docs/semantics.md",
            "docs/expressions.md",
            "docs/staged.md",
            "docs/order.md",
            "docs/glossary.md",
        ]
    },
    {
        "On Spark": [
            "docs/spark.md",
            "docs/pipelines.md",
            "docs/spark-cluster.md",
            "docs/deploying.md",
        ]
    },
    {"API": "api"},
    {
        "Behind it": [
            "docs/internals.md",
            "MAP.md",
            "docs/papers.md",
            "docs/benchmarks.md",
            "docs/experiments",
            "docs/decisions",
        ]
    },
    {
        "Project": [
            "docs/when-not.md",
            "docs/security.md",
            "SECURITY.md",
            "CONTRIBUTING.md",
            "docs/upgrading.md",
            "CHANGELOG.md",
        ]
    },
]


def main() -> None:
    version = re.search(r'^version = "(\d+\.\d+)', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    shutil.rmtree(PAGES, ignore_errors=True)
    copy_pages()
    write_api()
    build(SITE / version[1])
    list_versions(version[1])
    count = sum(1 for _ in (SITE / version[1]).rglob("*.html"))
    print(f"{count} pages in {(SITE / version[1]).relative_to(ROOT)}; every link leads somewhere")


def build(folder: Path) -> None:
    """Build the pages; a link that leads nowhere is an error."""
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build as build_pages
    from mkdocs.config import load_config
    from mkdocs.exceptions import MkDocsException

    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    logging.getLogger("mkdocs").addHandler(handler)
    try:
        config = PAGES.with_name("mkdocs.yml")  # it wants a file, and takes settings that no file can hold
        config.write_text("site_name: Tocsin\n")
        build_pages(load_config(str(config), strict=True, **settings(folder)))
    except MkDocsException as problem:
        sys.exit(f"the site was not built: {problem}")


# --- pages ---------------------------------------------------------------------------------------------------------


def copy_pages() -> None:
    """Copy the pages and whatever they link to; what is outside of them is shown as plain text."""
    pages = [ROOT / name for name in TOP] + sorted((ROOT / "docs").rglob("*"))
    for page in pages:
        if page.suffix == ".md":
            text = "\n".join(spaced(linked(page, page.read_text(encoding="utf-8")).split("\n")))
            write(page, f"---\nsearch:\n  boost: {boost(page)}\n---\n{text}")
        elif page.is_file():
            copy(page)


def boost(page: Path) -> float:
    """How much a page counts in the search: who looks for a word wants to do something, not to know why it is so."""
    if page.parent.name == "howto":
        return 8
    aside = page.parent.name in ("decisions", "experiments") or page.name in ("MAP.md", "CHANGELOG.md")
    return 0.3 if aside else 1


def copy(path: Path) -> None:
    target = PAGES / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def write(path: Path, text: str) -> None:
    target = PAGES / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def linked(page: Path, text: str) -> str:
    """The text of a page whose links lead somewhere: linked files are copied, a folder is shown by the map."""

    def to(found: re.Match[str]) -> str:
        target = (page.parent / found["path"]).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            return found[0]  # the build will say so
        if target.is_dir():
            index = target / "README.md"
            if index.exists() and target.is_relative_to(ROOT / "docs"):
                return f"{found['path'].rstrip('/')}/README.md"
            return "../" * (len(page.relative_to(ROOT).parts) - 1) + "MAP.md"
        if target.suffix != ".md":
            copy(target)
        return found[0]

    return LINK.sub(to, text)


def spaced(lines: list[str]) -> Iterator[str]:
    """Lines with an empty one before each list, which this kind of Markdown asks for and others do not."""
    fenced, before = False, ""
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        begins = not fenced and ITEM.match(line) and before.strip() and not ITEM.match(before)
        if begins and not before.startswith((" ", "<!--")):
            yield ""
        yield line
        before = line


# --- the API -------------------------------------------------------------------------------------------------------


def write_api() -> None:
    """A page for each public module, with what it names in `__all__`."""
    import tocsin
    import tocsin.spark

    for module in (tocsin, tocsin.spark):
        names = [name for name in getattr(module, "__all__", ()) if hasattr(getattr(module, name), "__module__")]
        parts = [f"# `{module.__name__}`", (module.__doc__ or "").partition("\n")[0]]
        for name in names:
            thing = getattr(module, name)
            place = thing.__module__ if hasattr(thing, "__qualname__") else module.__name__
            parts.append(f"::: {place}.{getattr(thing, '__qualname__', name)}")
        if len(parts) > 2:
            write(ROOT / "api" / f"{module.__name__}.md", "\n\n".join(parts) + "\n")


# --- settings ------------------------------------------------------------------------------------------------------


def settings(site: Path) -> dict[str, object]:
    reference = {"show_root_heading": True, "show_source": False, "heading_level": 2, "members_order": "source"}
    reference |= {"show_signature_annotations": True, "separate_signature": True, "docstring_style": "google"}
    return {
        "site_name": "Tocsin",
        "site_description": "Complex event detection for Python and Spark",
        "docs_dir": str(PAGES),
        "site_dir": str(site),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,  # nothing is fetched from elsewhere
            "features": ["navigation.tabs", "navigation.indexes", "search.suggest", "content.code.copy", "toc.follow"],
            "icon": {"logo": "material/bell-ring"},
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "indigo"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo"},
            ],
        },
        "extra": {"version": {"provider": "mike"}},
        "plugins": [
            "search",
            {"mkdocstrings": {"handlers": {"python": {"paths": [str(ROOT / "src")], "options": reference}}}},
        ],
        "markdown_extensions": [
            "tables",
            "attr_list",
            {"toc": {"permalink": True, "slugify": slugify(case="lower")}},
            "pymdownx.superfences",
            {"pymdownx.highlight": {"guess_lang": False}},
        ],
        "validation": {
            "nav": {"omitted_files": "ignore", "not_found": "warn", "absolute_links": "warn"},
            "links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn", "unrecognized_links": "warn"},
        },
        "nav": [expanded(entry) for entry in NAV],
    }


def expanded(entry: object) -> object:
    """An entry of the navigation: a folder stands for the pages in it, its README first."""
    match entry:
        case dict():
            return {title: expanded(inside) for title, inside in entry.items()}
        case list():
            return [expanded(each) for each in entry]
        case str() if (PAGES / entry).is_dir():
            found = sorted((PAGES / entry).glob("*.md"), key=lambda page: (page.name != "README.md", page.name))
            pages: list[object] = [str(page.relative_to(PAGES)) for page in found]
            return pages if "/" not in entry or entry.startswith("docs/coming") else {Path(entry).name.title(): pages}
    return entry


def listed(entry: object) -> Iterator[str]:
    """The pages and folders of the navigation."""
    match entry:
        case dict():
            yield from (page for inside in entry.values() for page in listed(inside))
        case list():
            yield from (page for inside in entry for page in listed(inside))
        case str():
            yield entry


def list_versions(version: str) -> None:
    """The list behind the choice of versions; the root of the site leads to the newest."""
    folders = (path.name for path in SITE.iterdir() if path.is_dir())
    found = sorted(folders, key=lambda name: [*map(int, name.split("."))])
    listed = [{"version": name, "title": name, "aliases": []} for name in reversed(found)]
    (SITE / "versions.json").write_text(json.dumps(listed))
    (SITE / "index.html").write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={found[-1]}/">\n')
    assert version in found


if __name__ == "__main__":
    main()
