"""Random staged statements over every construct that is built, and histories with ties in which they find something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tocsin.errors import TocsinError
from tocsin.events import Event
from tocsin.lang.parser import parse_file
from tocsin.lang.staged_syntax import OPTIONS, Statement
from tocsin.plan.staged_check import check_statements

LONGEST = 5  # how long drawn events last, at most
MOST_LEAVES = 5  # the definition tries every combination
TYPES = ("A", "B", "C", "I", "T")
QUANTIFIERS = ("all", "new max 1", "old max 1", "old max 2", "new +", "old +", "strict old max 2", "strict new +",
               "new max 1 staged", "old max 1 staged", "strict old max 1 staged")  # fmt: skip
WINDOWS = ("rows 1", "rows 2", "stages 1", "stages 2", "range 3", "range 6")
MODES = ("", "", "", "deferred", "delayed", "immediate")
KEYS = (
    "", "", "", "GKey *.k", "GKey *.k as K", "LKey *.k", "GKey *.k LKey *.x",
    "GKey *.k as K (In 0 as zero, Rest as rest)", "LKey *.k as K (In {0, 2}, 1..1 as one)",
)  # fmt: skip
INITS = (
    "", "", "", "Init I", "Init I<add>", "Init Start, I<add>", 'Init I<"x > 0", add>', "Init I as i, C as j<add>",
)  # fmt: skip
TERMS = (
    "", "", "Term T", "Term T<new>", "Term T<old>", "Term T<each-matching>", "Term T<discard>", "Term 5", "Term T, 7",
    "Term 4, T<new>", 'Term T<"x > 0">',
)  # fmt: skip
CROSS = (
    "Term T as t<Max(i.x) = Max(t.x)>", "Term T as t<new, Max(i.x) = Max(t.x)>",
    "Term T as t<each-matching, Min(i.x) < Count(t)>",
)  # fmt: skip
BLOCK_INITS = ("", "", "Init B", "Init C<add>", 'Init I<"x > 0">', "Init Start, B<add>")
BLOCK_TERMS = ("", "Term T", "Term C<old>", "Term 3", "Term 6, T<discard>", "Term A<new>")
BLOCK_KEYS = ("", "", "GKey *.x", "LKey *.x", "GKey *.k LKey *.x")


@dataclass
class Drawing:
    """One statement that is being drawn: its random choices and the labels that it has given."""

    random: Random
    types: tuple[str, ...] = TYPES[:3]  # what its operands may be
    labels: list[str] = field(default_factory=list)
    blocks: bool = False  # whether operands may be blocks
    single: list[str] = field(default_factory=list)  # labels of operands that stand for one event in Select
    counted: list[str] = field(default_factory=list)
    sst: bool = False  # whether conditions may ask when later events start

    def one(self, choices: Sequence[Any]) -> Any:
        return self.random.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.random.random() * 100 < percent

    # --- patterns ---

    def leaf(self, *, plain: bool = False, counted: bool = False, hidden: bool = False) -> str:
        label = "abcdefghjklmnopqrsuvwxyz"[len(self.labels) % 24]
        self.labels.append(label)
        (self.counted if counted else self.single).append(label) if not hidden else None
        params = []
        if self.chance(15):
            params.append('"x > 0"')
        if not plain:
            params += [self.one(WINDOWS)] if self.chance(30) else []
            params += [self.one(QUANTIFIERS)] if self.chance(35) else []
            params += ["consume"] if self.chance(25) else []
        if counted and self.chance(20):
            params.append("weight 2")
        return f"{self.one(self.types)} as {label}" + (f"<{', '.join(params)}>" if params else "")

    def operand(self, depth: int, **how: bool) -> str:
        if depth and self.blocks and self.chance(30):
            return self.block(depth - 1, **how)
        return self.leaf(**how) if depth == 0 or self.chance(60) else self.pattern(depth - 1, **how)

    def block(self, depth: int, **how: bool) -> str:
        """An operand with contexts of its own; what is hidden or counted has no deferred operators."""
        init, key = self.one(BLOCK_INITS), self.one(BLOCK_KEYS)
        inner = self.pattern(depth, **how) if self.chance(70) else self.leaf(**how)
        if not how.get("counted") and not how.get("hidden") and self.chance(45):
            deferred = (f"Not({self.leaf(hidden=True)})", f"({self.leaf()})<deferred>", f"Or({inner}, Not(C))")
            inner = self.one(deferred)
        return f"{{ {init} Event {inner} {self.one(BLOCK_TERMS)} {key} }}"

    def pattern(self, depth: int, *, counted: bool = False, hidden: bool = False) -> str:
        roll = self.random.random() * 100
        how = {"counted": counted, "hidden": hidden}
        if roll < 55:
            operator = self.one(("And", "Sequence", "Or", "Concurrent", "And"))
            count = self.one((2, 2, 3, 1))
            return f"{operator}({', '.join(self.operand(depth, **how) for _ in range(count))})"
        if roll < 70:
            return f"Unless({self.operand(depth, **how)}, {self.operand(depth, counted=counted, hidden=True)})"
        if roll < 85 and not counted and not hidden:
            operator = self.one(("AtLeast", "Nth", "AtMost"))
            operands = ", ".join(self.operand(min(depth, 1), counted=True) for _ in range(self.one((1, 2))))
            return f"{operator}({self.one((1, 2, 3))}, {operands})"
        if roll < 92:
            return f"And({self.operand(depth, **how)}, {self.one(('Every(4)', 'Every(3)'))})"
        size = self.one(("", "[rows 1, add]", "[rows 1, ignore]", "[stages 1, add]", "[rows 2, add]"))
        timed = f"After({self.leaf(plain=True, **how)}{size}, {self.one((2, 5))})"
        return timed if self.chance(50) else f"And({timed}, {self.operand(0, **how)})"

    def whole(self) -> str:
        roll = self.random.random() * 100
        if roll < 10:
            return f"Not({self.operand(1, hidden=True)})"
        if roll < 17:
            return f"Or({self.operand(1)}, Not({self.operand(0, hidden=True)}))"
        if roll < 22:
            return f"Sequence({self.leaf()}, Not({self.operand(0, hidden=True)}))"
        if roll < 30:
            return f"({self.leaf()})<deferred>"
        if roll < 40:
            options = self.options()
            return f"({self.leaf()})<{', '.join(options)}>" if options else self.leaf()
        if roll < 45:
            return self.giving_way()
        found = self.pattern(2)
        how = [self.one(MODES)] if not found.startswith("After") else []
        how = [each for each in how + self.options() if each]
        return found + (f"<{', '.join(how)}>" if how else "")

    def giving_way(self) -> str:
        """An operand that is in the way, or counted, until it is too old."""
        first, (second, label) = self.leaf(), (self.one(self.types), "z")
        self.labels.append(label)
        hidden = f"{second} as {label}<{self.one(('range 2', 'range 4', 'range 4, rows 2'))}>"
        inner = self.one((hidden, f"AtLeast(2, {hidden})"))
        options = ", ".join(("active", *(each for each in self.options() if each != "active")))
        return f"Unless({first}, {inner})<{options}>"

    def options(self) -> list[str]:
        """How the pattern is looked for; what makes no sense is drawn again by whoever checks it."""
        return [each for each in OPTIONS if self.chance(30)] if self.chance(35) else []

    # --- conditions and columns ---

    def comparison(self) -> str:
        one, other = self.one(self.labels), self.one(self.labels)
        if self.sst and self.chance(30):
            return f"sst({one}) {self.one(('>', '>', '>=', '<', '='))} {self.one(('end-ts', 'start-ts'))}({other})"
        return str(self.one((
            f"{one}.x = {other}.x", f"{one}.x = {other}.x", f"{one}.x != {other}.k", f"{one}.x < {other}.x",
            f"end-ts({one}) < start-ts({other})", f"end-ts({one}) = stable-time",
            f"start-ts({one}) >= {self.one((2, 5))}",
            f"{one}.x > {self.one((0, 1))}", f"Is-Null({one}.y, 0) = {other}.x",
        )))  # fmt: skip

    def condition(self) -> str:
        parts = [self.comparison() for _ in range(self.one((1, 1, 2)))]
        if self.chance(30):
            parts.append(f"({self.comparison()} OR {self.comparison()})")
        if self.chance(15):
            parts[0] = f"NOT({parts[0]})"
        if self.chance(20):
            parts.append(f"({' OR '.join(f'end-ts({each}) = stable-time' for each in self.labels)})")
        return " AND ".join(parts)

    def select(self, init: str, key: str) -> str:
        columns: list[str] = []
        group = self.chance(35)
        for at, label in enumerate(self.single[:3]):
            columns.append(self.grouped(label, at) if group else self.plain_column(label, at))
        for at, label in enumerate(self.counted[:2]):
            inner = self.one((f"Count({label})", f"Sum({label}.x)", f"Max({label}.k)"))
            columns.append(f"Max(Bag({inner})) as n{at}" if group else f"{inner} as n{at}")
        if " as i" in init:
            columns.append("Count(i) as opened")
        if " as K" in key:
            columns.append("K.labels as part")
        columns.append("stable-time as at")
        mapping = "Group " if group else self.one(("", "Tuple "))
        return f"Select {mapping}{', '.join(columns)}".replace(" as s0", " as x").replace(" as c0", " as x")

    def grouped(self, label: str, at: int) -> str:
        union = f"Avg({label}.x Union {self.one(self.single)}.k)"
        return f"{self.one((f'Sum(Bag({label}.x))', f'Count(Set {label})', f'Max({label}.x)', union))} as s{at}"

    def plain_column(self, label: str, at: int) -> str:
        time = f"end-ts({label})" if at else f"{label}.k"  # the first has the kind of an attribute
        return f"{self.one((f'{label}.x', time, f'{label}.x + {label}.k', f'Is-Null({label}.y, 7)'))} as c{at}"

    def text(self, name: str) -> str:
        self.blocks = self.chance(25)
        pattern = self.block(2) if self.blocks and self.chance(15) else self.whole()
        init, key = self.one(INITS), self.one(KEYS)
        term = self.one(CROSS if " as i" in init and self.chance(60) else TERMS)
        where = f"Where {self.condition()}" if self.labels and self.chance(50) else ""
        return f"CreateCE {name} {self.select(init, key)} {init} Event {pattern} {where} {term} {key}"


def drawn_statements(random: Random) -> list[Statement]:
    """One statement, or two or three of which later ones may read the events of earlier ones."""
    found = [drawn_statement(random)]
    for name in ("Y", "Z")[: random.choice((0, 0, 1, 1, 2))]:
        found.append(drawn_statement(random, name, ("A", *(each.name for each in found))))
    return found


def drawn_statement(
    random: Random, name: str = "X", types: tuple[str, ...] = TYPES[:3], *, sst: bool = False
) -> Statement:
    """A random statement that the static checks let pass; a column x is there for statements above it.

    sst  conditions may ask when later events start at the earliest, which needs to know how long they may last
    """
    while True:
        drawing = Drawing(random, types, sst=sst)
        text = drawing.text(name)
        if len(drawing.labels) > MOST_LEAVES:
            continue
        try:
            (statement,) = parse_file(text)
            assert isinstance(statement, Statement)
            check_statements([statement])
        except TocsinError:
            continue
        return statement


def drawn_history(random: Random, *, length: int = 21, last: int = 20) -> list[Event]:
    """Events in canonical order, with ties, intervals and missing values."""
    events = []
    points = random.random() < 0.6
    for number in range(random.randint(length // 3, length)):
        end = random.randint(0, last)
        start = end if points or random.random() < 0.6 else end - random.randint(0, LONGEST)
        attrs: dict[str, Any] = {"k": random.randint(0, 2), "x": random.randint(0, 2)}
        if random.random() < 0.1:
            attrs[random.choice("kx")] = None
        if random.random() < 0.3:
            attrs["y"] = random.randint(0, 2)
        events.append(Event(random.choice("AAABBBCCIIT"), start, end, number, attrs))
    return sorted(events, key=Event.order)
