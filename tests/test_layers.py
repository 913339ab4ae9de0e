"""Who may import whom: a package sees only what stands before it, and the oracle sees next to nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
LAYERS = (
    "errors",
    "events",
    "schema",
    "functions",
    "zones",
    "quick_analysis",
    "compilers",
    "compiler_process",
    "items",
    "codec",
    "encode",
    "lang",
    "plan",
    "engine",
    "order",
    "spill",
    "select",
    "constraint",
    "staged",
    "deriving",
    "graph",
    "shards",
    "run",
    "edge",
    "intervals",
    "spark",
    "jobs",
    "testing",
    "app",
)
ORACLE_MAY = {
    "tocsin.events",
    "tocsin.errors",
    "tocsin.lang.syntax",
    "tocsin.lang.constraint_syntax",
    "tocsin.lang.derived_syntax",
}
FACES = ("tocsin", "tocsin.__main__")  # they show and start everything
MODULES = sorted((SOURCE / "tocsin").rglob("*.py"))
Rule = Callable[[str, set[str]], str | None]


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


def out_of_order(name: str, imported: set[str]) -> str | None:
    """How a module breaks the order of layers."""
    if name in FACES:
        return None
    if layer(name) not in LAYERS:
        return f"{name}: a new package needs a place in the order of layers"
    allowed = LAYERS[: LAYERS.index(layer(name)) + 1]
    wrong = [other for other in inside(imported) if layer(other) not in allowed]
    return f"{name} may import only {', '.join(allowed)}; it imports {', '.join(wrong)}" if wrong else None


def imports_the_face(name: str, imported: set[str]) -> str | None:
    wrong = name not in FACES and "tocsin" in imported
    return f"{name}: import the module that is meant, not the whole package" if wrong else None


def imports_pyspark(name: str, imported: set[str]) -> str | None:
    wrong = layer(name + ".") not in ("spark", "jobs") and "pyspark" in {other.split(".")[0] for other in imported}
    return f"{name}: only Spark and its jobs import pyspark" if wrong else None


def test_every_module_imports_only_what_it_may() -> None:
    """All that is wrong is listed: what stands later, the face of the package, pyspark outside of Spark's packages."""
    assert len(MODULES) > 100
    found = {dotted(path): imports(path) for path in MODULES}
    rules = (out_of_order, imports_the_face, imports_pyspark)
    wrong = [said for name, imported in found.items() for rule in rules if (said := rule(name, imported))]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("rule", "name", "imported"),
    [
        (out_of_order, "tocsin.plan.block", {"tocsin.engine.kernels"}),
        (out_of_order, "tocsin.nowhere.block", set()),
        (imports_the_face, "tocsin.plan.block", {"tocsin"}),
        (imports_pyspark, "tocsin.run.query", {"pyspark.sql"}),
    ],
)
def test_what_breaks_a_rule_is_told(rule: Rule, name: str, imported: set[str]) -> None:
    assert name in str(rule(name, imported))
    assert rule("tocsin.spark.detect", {"tocsin.plan.block", "pyspark.sql"}) is None


JVM = {"_jvm", "_jdf", "_jsc", "sparkContext"}  # what only a classic session has
THE_DOOR = "tocsin.spark.setup.jvm"


def reaches_into_the_jvm(name: str, source: str) -> str | None:
    """How a module reaches into the JVM by itself: sessions of Spark Connect have none."""
    nodes = ast.walk(ast.parse(source))
    asked = {node.attr for node in nodes if isinstance(node, ast.Attribute)} & JVM
    return f"{name} asks for {', '.join(sorted(asked))}: ask {THE_DOOR}" if asked and name != THE_DOOR else None


def test_one_module_reaches_into_the_jvm() -> None:
    found = (reaches_into_the_jvm(dotted(path), path.read_text(encoding="utf-8")) for path in MODULES)
    wrong = [said for said in found if said]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("source", ["spark._jvm.System", "df._jdf.queryExecution()", "spark.sparkContext.master"])
def test_reaching_into_the_jvm_is_told(source: str) -> None:
    assert "ask tocsin.spark.setup.jvm" in str(reaches_into_the_jvm("tocsin.spark.detect", source))
    assert reaches_into_the_jvm(THE_DOOR, source) is None


# Spark has no public way to these; the last two are of a pair in Scala.
PYSPARK = {
    "_jdf", "_jsc", "_jvm", "_gateway", "_ensure_initialized", "_instantiatedSession", "_accumulatorRegistry",
    "_1", "_2",
}  # fmt: skip


def private_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names with a leading underscore that a module defines, and those that it asks of others or imports."""
    defined, asked = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            (defined if own else asked).add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            asked.update(alias.name for alias in node.names)
    return defined, {name for name in asked if name.startswith("_") and not name.endswith("__")}


def reaches_into_another(name: str, source: str) -> str | None:
    """How a module uses what is private to another one."""
    defined, asked = private_names(ast.parse(source))
    wrong = asked - defined - (PYSPARK if layer(name + ".") in ("spark", "jobs") else set())
    return f"{name} uses what is private elsewhere: {', '.join(sorted(wrong))}" if wrong else None


def test_no_module_reaches_into_another() -> None:
    found = (reaches_into_another(dotted(path), path.read_text(encoding="utf-8")) for path in MODULES)
    wrong = [said for said in found if said]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("source", ["branch._ready = True", "from tocsin.engine.branch import _ready", "a.b._c()"])
def test_reaching_into_another_module_is_told(source: str) -> None:
    assert "tocsin.spill.budget uses" in str(reaches_into_another("tocsin.spill.budget", source))
    assert reaches_into_another("tocsin.spill.budget", "self._a = 1\nother._a") is None


def test_the_oracle_judges_without_the_judged():
    oracles = sorted((SOURCE / "tocsin" / "testing").glob("oracle*.py"))
    assert oracles, "the oracle is missing"
    own = {dotted(path) for path in oracles}
    for path in oracles:
        wrong = set(inside(imports(path))) - ORACLE_MAY - own - {"tocsin.lang"}
        assert not wrong, f"{path.name} imports {', '.join(sorted(wrong))}"


def test_docstrings_stand_alone() -> None:
    """One that begins with "The same" can only be read behind another."""
    leaning = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in MODULES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.lstrip().startswith('"""The same')
    ]
    assert not leaning
