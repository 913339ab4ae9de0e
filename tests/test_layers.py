"""Who may import whom: a package sees only what stands before it, and the oracle sees next to nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
LAYERS = (
    "errors",
    "events",
    "schema",
    "functions",
    "items",
    "codec",
    "encode",
    "lang",
    "plan",
    "engine",
    "order",
    "spill",
    "graph",
    "shards",
    "run",
    "spark",
    "jobs",
    "testing",
    "app",
)
ORACLE_MAY = {"tocsin.events", "tocsin.errors", "tocsin.lang.syntax"}
FACES = ("tocsin", "tocsin.__main__")  # they show and start everything
MODULES = sorted((SOURCE / "tocsin").rglob("*.py"))


def dotted(path: Path) -> str:
    """The module's dotted name: tocsin/plan/__init__.py is tocsin.plan."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Every module that is imported anywhere in the file, late imports included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.add(str(node.module))
            found.update(
                f"{node.module}.{alias.name}" for alias in node.names if is_module(f"{node.module}.{alias.name}")
            )
    return found


def is_module(name: str) -> bool:
    base = SOURCE.joinpath(*name.split("."))
    return base.with_suffix(".py").exists() or (base / "__init__.py").exists()


def layer(name: str) -> str:
    return name.split(".")[1]


def inside(names: set[str]) -> list[str]:
    """The modules of the project among the names, without the package itself."""
    return sorted(name for name in names if name.startswith("tocsin."))


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_a_package_imports_only_what_stands_before_it(path):
    name = dotted(path)
    if name in FACES:
        return
    assert layer(name) in LAYERS, f"{name}: a new package needs a place in the order of layers"
    allowed = LAYERS[: LAYERS.index(layer(name)) + 1]
    wrong = [other for other in inside(imports(path)) if layer(other) not in allowed]
    assert not wrong, f"{name} may import only {', '.join(allowed)}; it imports {', '.join(wrong)}"


@pytest.mark.parametrize("path", [path for path in MODULES if dotted(path) not in FACES], ids=dotted)
def test_nobody_imports_the_face_of_the_package(path):
    assert "tocsin" not in imports(path), f"{dotted(path)}: import the module that is meant, not the whole package"


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_only_spark_and_its_jobs_import_pyspark(path):
    foreign = {name.split(".")[0] for name in imports(path)}
    assert layer(dotted(path) + ".") in ("spark", "jobs") or "pyspark" not in foreign


def test_the_oracle_judges_without_the_judged():
    oracles = sorted((SOURCE / "tocsin" / "testing").glob("oracle*.py"))
    assert oracles, "the oracle is missing"
    own = {dotted(path) for path in oracles}
    for path in oracles:
        wrong = set(inside(imports(path))) - ORACLE_MAY - own - {"tocsin.lang"}
        assert not wrong, f"{path.name} imports {', '.join(sorted(wrong))}"
