"""Write MAP.md: the ways of a query, an event and a Spark row through the modules, then every room (`make fmt`)."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "src/tocsin"
HEAD = """# Map

First the three ways through the code, module by module; then all rooms (packages) in the order of the ways, with one
line per module: the beginning of its docstring. `python tools/map.py` writes this page and tests keep it true.
Words are explained in the [glossary](docs/glossary.md); who may import whom is in `tests/test_layers.py`.
"""

Steps = tuple[tuple[str, str], ...]

# Each way is a title, a sentence, and its steps: a module or package of src/tocsin, and what happens there.
QUERY: Steps = (
    ("run/query", "takes the text, or the pattern that `lang/fluent` has built from Python calls"),
    ("lang/tokens", "cuts the text into tokens"),
    ("lang/parser", "reads the clauses; `lang/patterns` and `lang/expressions` read what stands in them"),
    ("lang/syntax", "holds the result: frozen nodes that say what was written"),
    ("run/schemas", "finds types and attributes in the events (`run/declared`: in a declared schema), for the binder"),
    ("plan/bind", "binds the query to the schema, with the next seven"),
    ("plan/names", "names every leaf"),
    ("plan/check", "checks the static rules"),
    ("plan/pattern_tree", "simplifies the pattern: EXISTS goes, an OR of plain leaves is one leaf"),
    ("plan/draft", "lays out blocks: leaves, their order, the scopes of negations and repetitions"),
    ("plan/closure", "closes the equalities of WHERE"),
    ("plan/where", "puts every predicate into its block; `plan/typer` resolves its names and kinds"),
    ("plan/outputs", "binds SELECT"),
    ("plan/block", "is the result, the one logical form: a plan of blocks"),
    ("plan/passes", "rewrite the plan; `plan/explain` prints it"),
    ("order/strategy", "reads `order=`: what to do about events that come late"),
    ("graph/query_graph", "builds the graph: a detector for each query, with the operators of the strategy around it"),
    ("graph/stages", "wires the queries: later ones read the matches of earlier ones"),
    ("engine/operator", "is the contract of all operators: `push(items)` gives changes, and a state that can be saved"),
    ("engine/detector", "is the operator of one query; it has a branch for each alternative of an OR"),
    ("engine/branch", "owns the arrays of one alternative"),
    ("engine/codegen", "writes the Python source of its kernel"),
    ("engine/kernels", "compiles the source with Numba, or finds it compiled on disk"),
    ("engine/runtime", "has the functions that every kernel calls"),
)
EVENT: Steps = (
    ("app/cli", "`tocsin run theft.query --input events.csv`; `app/running` does the work"),
    ("run/files", "reads the rows of the file; a dict that is pushed into `run/session` enters at the encoder"),
    ("run/inputs", "separates unusable rows and sorts the others by time"),
    ("encode/batch", "turns Arrow rows into numbers, with `encode/times`, `encode/values` and `encode/eids`"),
    ("encode/row", "does the same for one dict, in a few microseconds"),
    ("items", "is the result: one columnar batch, all that an operator takes"),
    ("graph/query_graph", "takes the batch in, once for all queries"),
    ("order/lateness", "sets aside events that come later than the strategy allows"),
    ("order/sort", "holds events until they can be released in order (only with `slack`)"),
    ("graph/stages", "hands the batch to each query; `graph/composites` makes events of the matches of earlier ones"),
    ("engine/detector", "pushes the rows into its branches; `engine/stream_time` tells it what is guaranteed"),
    ("engine/branch", "calls the kernel: it stores events, finds matches, holds answers that are not certain"),
    ("engine/purge", "forgets events that no answer can need any more"),
    ("spill", "keeps what does not fit into memory on disk (only with `memory_limit`)"),
    ("engine/payload", "keeps the rows themselves, as results show them"),
    ("engine/ledger", "counts how often a visible match is justified, where events are hidden"),
    ("order/release", "puts answers into order (only if asked)"),
    ("engine/changes", "is the result: matches and retractions as columns of event numbers"),
    ("engine/tables", "makes them Arrow tables"),
    ("run/matches", "is what `detect` returns"),
    ("run/show", "prints a table; `run/sinks` writes JSONL, CSV and Parquet"),
)
SPARK: Steps = (
    ("spark/detect", "checks the arguments and plans the work; nothing is read yet"),
    ("spark/event_frame", "opens the DataFrames and learns their schema"),
    ("shards/routes", "finds the partition key: which shards must see an event"),
    ("shards/job", "holds all that workers must know; `shards/kernel_shipment` packs the compiled kernels"),
    (
        "spark/shuffle",
        "lets Catalyst drop rows and compute the shard of each; `spark/expressions` translates predicates",
    ),
    ("spark/batch", "**batch:** sorts the rows of a shard and pushes them through a query graph"),
    ("spark/worker_reads/batch", "**batch of files:** workers read Parquet that is in order of time themselves"),
    ("shards/blocks", "**stream:** packs the rows of each shard into one Arrow block"),
    ("spark/worker_reads/stream", "**stream of files:** shards get file names, read them, and keep their own rows"),
    ("spark/processor", "**stream:** is the stateful operator that Spark runs; it loads the next two when rows come"),
    ("spark/stream", "connects a shard to Spark's state store"),
    ("shards/shard", "stores events as a log, judges lateness, and rebuilds lost detectors from the log"),
    ("shards/watermark", "says what is guaranteed, from the clocks of all sources"),
    ("graph/query_graph", "detects, as in the way of an event"),
    ("shards/result", "brings the changes into the columns of the result"),
    ("spark/answer_columns", "**stream:** carries them out of the stateful operator"),
    ("spark/write", "**stream:** writes every kind of row to its sink; `spark/metrics` reports the numbers"),
)
WAYS = (
    ("The way of a query", "From text to a compiled kernel.", QUERY),
    ("The way of an event", "From a row of a CSV file, or a dict, to a printed match.", EVENT),
    ("The way of a Spark row", "From a row of a DataFrame, batch or streaming, to a row of the result.", SPARK),
)

# The rooms in the order in which the ways pass them, and the modules of each in that order. What is not listed here
# comes after what is, by name.
ROOMS = {
    "": (
        "errors events schema functions lang plan items encode engine order codec spill select staged deriving graph"
        " run shards spark jobs app testing"
    ),
    "lang": "tokens cursor expressions patterns parser syntax fluent printer",
    "plan": (
        "bind names check pattern_tree draft closure where typer kinds calls fold expr outputs problems block endpoints"
        " allen rewrite passes verify facts explain"
    ),
    "plan/passes": "normalise equality_closure predicate_placement partition_keys leaf_order",
    "encode": "columns objects arrow batch times values eids content auto_eids row merge stored",
    "engine": (
        "operator detector stream_time branch codegen expressions kernels module_cache private_folder bounds runtime"
        " derive evaluate like payload ledger purge changes kinds debt tables inspect texts snapshot replay"
        " partial_state"
    ),
    "engine/codegen": "program layout source snippets block_facts intake nest levels members forbidden certainty depth",
    "engine/runtime": "words storing buffers keys waiting held purge purge_table arithmetic entries library plain",
    "codec": "container snapshot_parts",
    "order": "strategy lateness sort guarantees release auto settled keyed_process keyed_events rollback kept",
    "spill": "detector state budget frames runs files schedule reload snapshot",
    "select": "over_matches per_key rolled_back settled_matches completion_order rate_limit",
    "select/loops": "keys",
    "staged": "operator machine contexts operand_list matcher join bindings mapping",
    "staged/compiled": (
        "choice machine program search columns running expressions layout library core room saved answers bodies"
    ),
    "deriving": "operator state loops words folds kernels",
    "edge": "reducer device",
    "constraint": "monitor tracker reasoning letters expressions automaton pattern_language checkers loops rows",
    "graph": "query_graph stages composites tap carry_over texts",
    "run": (
        "query query_file schemas schema_from_query files inputs bad_rows session state matches show plot sinks"
        " atomic progress room large_input first_reading large_files text_blocks row_groups time_sort large_run"
    ),
    "shards": (
        "routes job kernel_shipment time_slices shard_labels blocks shard live timed_rows watermark identity carried"
        " memories result"
    ),
    "spark": (
        "detect event_frame explain expressions shuffle batch processor stream checkpoint carry_over answer_columns"
        " write settled metrics files worker_reads setup"
    ),
    "spark/worker_reads": "batch stream coercions filters routing xxhash64",
    "spark/setup": "session java launcher class_archive lifetime stderr errors",
    "jobs": "toml config sources lock run",
    "app": "cli running live showing judge jobs demo small_bench errors",
    "testing": "notation oracle oracle_parts oracle_expr cases modes agree levels strategies draw_patterns",
}
PLACES = (
    (PACKAGE, "The rooms"),
    ("tests", "Tests"),
    ("benchmarks", "Benchmarks"),
    ("examples", "Examples"),
    ("tools", "Tools"),
)


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return doc.strip().splitlines()[0] if doc and doc.strip() else "(no docstring)"


def short(text: str) -> str:
    """Return a line up to its first semicolon or full stop that stands outside brackets and quotes.

    >>> short("Read rows (CSV; JSON); every row keeps its place.")
    'Read rows (CSV; JSON)'
    """
    for at, letter in enumerate(text[:-1]):
        before = text[:at]
        if (
            letter in ";."
            and text[at + 1] == " "
            and before.count("(") == before.count(")")
            and not before.count("`") % 2
        ):
            return before
    return text.removesuffix(".")


def find(name: str) -> Path:
    """Return the file of a module, or the folder of a package, that a way names."""
    place = ROOT / PACKAGE / name
    return place if place.is_dir() else place.with_suffix(".py")


def in_order(folder: Path, room: str) -> list[Path]:
    """Return the modules and packages of a folder: first those that ROOMS lists, in its order, then others by name."""
    listed = ROOMS.get(room, "").split()
    rank = {name: number for number, name in enumerate(listed)}
    found = [
        path for path in folder.iterdir() if path.name != "__init__.py" and (path.suffix == ".py" or is_room(path))
    ]
    return sorted(found, key=lambda path: (rank.get(path.stem, len(listed)), path.stem))


def is_room(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*.py"))


def way(title: str, about: str, steps: Steps) -> str:
    """Return one way as a numbered list with links."""
    lines = []
    for number, (name, words) in enumerate(steps, 1):
        lines.append(f"{number}. [`{name}`]({find(name).relative_to(ROOT)}) {words}")
    return f"## {title}\n\n{about}\n\n" + "\n".join(lines) + "\n"


def rooms(folder: Path, room: str = "", depth: int = 0) -> list[str]:
    """List the modules of a package, one line each; a package is followed by what it holds."""
    found = []
    for path in in_order(folder, room):
        indent, name = "  " * depth, f"{room}/{path.stem}".lstrip("/")
        if path.is_dir():
            found.append(f"{indent}- **`{name}/`**: {short(first_line(path / '__init__.py'))}")
            found += rooms(path, name, depth + 1)
        else:
            found.append(f"{indent}- `{path.name}`: {short(first_line(path))}")
    return found


def lines(folder: Path) -> list[str]:
    """List the modules of a folder, one line each; of its packages only the names of what they hold."""
    found = []
    for path in in_order(folder, folder.name):
        if path.is_dir():
            package = path / "__init__.py"
            about = f": {short(first_line(package))}:" if package.exists() else ""
            found.append(f"- **`{path.name}/`**{about} {names(path)}")
        else:
            found.append(f"- `{path.name}`: {short(first_line(path))}")
    return found


def names(folder: Path) -> str:
    """Return the names of all modules below a folder."""
    inside = sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")
    return ", ".join(f"`{path.relative_to(folder).with_suffix('')}`" for path in inside)


def tests(folder: Path) -> list[str]:
    """List the helpers of the tests as other modules, and the test files by the names of their subjects."""
    files = sorted(folder.glob("test_*.py"))
    subjects = ", ".join(f"`{path.stem.removeprefix('test_')}`" for path in files)
    helpers = [line for line in lines(folder) if not line.startswith("- `test_")]
    return [*helpers, f"- `test_*.py`: one file a subject; its docstring says what it holds true: {subjects}"]


def page() -> str:
    """Return the whole of MAP.md."""
    parts = [HEAD, *(way(*each) for each in WAYS)]
    for place, title in PLACES:
        folder = ROOT / place
        if place == PACKAGE:
            listed = rooms(folder)
        elif folder.is_dir():
            listed = tests(folder) if place == "tests" else lines(folder)
        else:
            continue
        parts.append(f"## {title}: `{place}/`\n\n" + "\n".join(listed) + "\n")
    return "\n".join(parts)


def main() -> int:
    (ROOT / "MAP.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
