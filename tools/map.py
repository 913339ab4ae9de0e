"""Write MAP.md: the tree of the project, one line per module, taken from the docstrings. `make fmt` runs it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = """# Map

One line per module: the first line of its docstring. `python tools/map.py` writes this page and a test keeps it true.
A package imports only what stands above it (`tests/test_layers.py`).
"""
# The packages in the order of their layers; what is not listed comes after, by name.
ORDER = (
    "__init__", "errors", "events", "schema", "functions", "items", "codec", "encode", "lang", "plan", "engine",
    "order", "spill", "graph", "shards", "run", "spark", "jobs", "testing", "app",
)  # fmt: skip
PLACES = (
    ("src/tocsin", "The package"),
    ("tests", "Tests"),
    ("benchmarks", "Benchmarks"),
    ("examples", "Examples"),
    ("tools", "Tools"),
)


def first_line(path: Path) -> str:
    """The first line of a module's docstring; a module without one has none to show."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return doc.strip().splitlines()[0] if doc and doc.strip() else "(no docstring)"


def rank(path: Path) -> tuple[int, str]:
    listed = path.parent.name == "tocsin" and path.stem in ORDER
    return (ORDER.index(path.stem) if listed else len(ORDER), path.stem)


def lines(folder: Path, depth: int = 0) -> list[str]:
    """The modules and packages of a folder, each package followed by what it holds."""
    found = []
    for path in sorted(folder.iterdir(), key=rank):
        indent = "  " * depth
        if path.is_dir() and any(path.glob("*.py")):
            package = path / "__init__.py"
            about = f": {first_line(package)}" if package.exists() else ""
            found.append(f"{indent}- `{path.name}/`{about}")
            found += lines(path, depth + 1)
        elif path.suffix == ".py" and path.name != "__init__.py":
            found.append(f"{indent}- `{path.name}`: {first_line(path)}")
    return found


def page() -> str:
    """The whole of MAP.md."""
    parts = [HEAD]
    for place, title in PLACES:
        modules = lines(ROOT / place) if (ROOT / place).is_dir() else []
        if modules:
            parts.append(f"## {title}: `{place}/`\n\n" + "\n".join(modules) + "\n")
    return "\n".join(parts)


def main() -> int:
    (ROOT / "MAP.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
