"""What statements and EVENT queries can both say, they find alike: the same sets of bindings.

Of point events, with `distinct` and `incremental`, without consumption, in contexts or range windows. A range of w
keeps what is less than w old, so it is WITHIN w - 1. A context of length d sees what comes less than d after it opens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from tests.effort import examples
from tests.test_staged import SCHEMA
from tocsin.run.declared import declare
from tocsin.run.query import query

FIELDS = {type: {**fields, "n": "int"} for type, fields in SCHEMA.items()}
NAMES = "abc"


def drawn_pair(random: Random) -> tuple[str, str]:
    """A statement and an EVENT query that ask for the same."""
    shape = random.choice(("And", "Sequence", "And", "Sequence", "Or", "Unless"))
    count = random.choice((2, 2, 3)) if shape != "Unless" else 2
    names, types = NAMES[:count], [random.choice("AB") for _ in range(count)]
    window, context = random.randint(2, 9), random.random() < 0.4
    kept = "" if context else f"<range {window}>"
    wide, items = [f"{type} as {name}{kept}" for type, name in zip(types, names, strict=True)], [
        f"{type} {name}" for type, name in zip(types, names, strict=True)
    ]  # fmt: skip
    asked = drawn_conditions(random, names) if shape != "Or" else []
    statement, pattern = f"{shape}({', '.join(wide)})", f"{EVENT.get(shape, 'AND')}({', '.join(items)})"
    staged = list(asked)
    if shape == "Unless":  # nothing of type C between two that follow each other
        statement = f"Unless(Sequence({', '.join(wide)}), C as c{kept})"
        pattern = f"SEQ({items[0]}, !C c, {items[1]})"
        staged += ["end-ts(c) > end-ts(a)", "end-ts(c) < end-ts(b)"]
        asked, staged = ([*asked, "c.x = b.x"], [*staged, "c.x = b.x"]) if random.random() < 0.5 else (asked, staged)
    bounds = f"Init I<add> Event {statement}<incremental, distinct> Term {window}"
    if not context:
        bounds = f"Event {statement}<incremental, distinct>"
    where = f" Where {' AND '.join(staged)}" if staged else ""
    columns = ", ".join(f"{name}.n as {name}" for name in names)
    text = f"CreateCE X Select Tuple {columns} {bounds}".replace(" Term", f"{where} Term") + ("" if context else where)
    event = f"SEQ(I i, {pattern})" if context else pattern
    if context and shape == "Unless":
        event = pattern.replace("SEQ(", "SEQ(I i, ")
    given = f" WHERE {' AND '.join(asked)}" if asked else ""
    shown = ", ".join(f"{name}.n AS {name}" for name in names)
    return text, f"QUERY X EVENT {event}{given} WITHIN {window - 1} SELECT {shown}"


EVENT = {"Sequence": "SEQ", "Or": "OR"}


def drawn_conditions(random: Random, names: Sequence[str]) -> list[str]:
    """Conditions that both languages write alike."""
    found = []
    for one, other in pairwise(names):
        if random.random() < 0.6:
            found.append(f"{one}.{random.choice('kx')} {random.choice(('=', '=', '<', '!='))} {other}.x")
    return found


def drawn_rows(random: Random) -> list[dict[str, int | str | None]]:
    rows: list[dict[str, int | str | None]] = []
    for number in range(random.randint(6, 24)):
        row: dict[str, int | str | None] = {"type": random.choice("AAABBBCI"), "time": random.randint(0, 20)}
        row |= {"n": number, "k": random.randint(0, 2), "x": random.choice((0, 1, 2, None)), "y": None}
        rows.append(row)
    return sorted(rows, key=lambda row: int(row["time"] or 0))


def test_both_kinds_of_query_find_the_same_bindings() -> None:
    count, found = examples(3000, least=60), 0
    for seed in range(count):
        random = Random(seed)
        texts, rows = drawn_pair(random), drawn_rows(random)
        sets = []
        for text in texts:
            matches = query(text, schema=declare(FIELDS)).detect(rows, jit=False)
            (table,) = matches.tables()
            names = [name for name in NAMES if name in table.column_names]
            sets.append({tuple(row[name] for name in names) for row in table.to_pylist()})
        assert sets[0] == sets[1], (seed, texts, rows)
        found += bool(sets[0])
    assert found > count / 3
