"""Random patterns: every operator, negation, repetition and mark where they may stand, to a depth of three."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from tocsin.events import ANY
from tocsin.lang.syntax import (
    ALLEN,
    And,
    Attr,
    Binary,
    Comparison,
    Duration,
    Endpoint,
    Exists,
    Expr,
    Iseq,
    Leaf,
    Literal,
    Marked,
    Maybe,
    Not,
    Or,
    Pattern,
    Rel,
    Repeat,
    Seq,
    items_of,
    leaves_of,
    rebuilt,
)

DRAWN_DEPTH = 3
DRAWN_LEAVES = 6
REPEATS = (Repeat(1, None), Repeat(1, None), Repeat(1, None), Repeat(2, 2), Repeat(2, None), Repeat(1, 2), Repeat(1, 1))
GATHERING = ("FIRST", "LAST", "EACH", "NEXT", "EACH NEXT")  # before a repetition


@dataclass(frozen=True, slots=True)
class DrawnVariable:
    """A variable of the pattern. `region` names the negated parts around it, outermost first."""

    name: str
    type: str
    region: tuple[int, ...] = ()
    repeated: bool = False
    hidden: bool = False


class Sketcher:
    """Draws a pattern and keeps a list of its variables; `loose`: with repetitions also where nothing bounds them."""

    def __init__(self, random: Random, leaves: int = DRAWN_LEAVES, *, loose: bool = False) -> None:
        self.random = random
        self.leaves = leaves
        self.loose = loose
        self.variables: list[DrawnVariable] = []
        self.mentioned: list[str] = []  # names that the pattern itself uses
        self.negations = 0
        self.repetitions: dict[tuple[int, ...], int] = {}
        self.few_types = random.random() < 0.3
        self.marks = random.random() < 0.3  # with marks and ANY
        self.timed = random.random() < 0.15  # with FOR behind negations
        self.optional = random.random() < 0.15  # with items that may be absent
        self.untils = random.random() < 0.15  # with UNTIL behind repetitions

    def root(self) -> Pattern:
        pick = self.random.random()
        depth = self.random.choice((1, 1, 2, 2, 3, 3))
        if pick < 0.03:
            return self.leaf((), repeat=False)
        if self.marks and pick < 0.1:
            alone = Leaf(self.random.choice("ABC"), "x1", None, self.random.choice(REPEATS))
            self.variables.append(DrawnVariable("x1", alone.type, (), repeated=True))
            return Marked(self.random.choice(("FIRST", "EACH", "NEXT", "EACH NEXT")), alone)
        pattern = self.group(depth, ()) if pick < 0.75 else self.composite(depth, ())
        return self.named_by_type(pattern)

    def full(self) -> bool:
        return len(self.variables) >= self.leaves

    def pattern(self, depth: int, region: tuple[int, ...], *, repeat: bool = True) -> Pattern:
        """Any positive pattern."""
        pick = self.random.random()
        if depth <= 0 or self.full() or pick < 0.5 - 0.1 * depth:
            return self.leaf(region, repeat=repeat)
        if pick < 0.68:
            return self.group(depth, region, repeat=repeat)
        return self.composite(depth, region, repeat=repeat)

    def composite(self, depth: int, region: tuple[int, ...], *, repeat: bool = True) -> Pattern:
        """Neither a leaf nor SEQ nor AND."""
        pick = self.random.random()
        if pick < 0.35:
            return self.union(depth, region)
        if pick < 0.58:
            return self.exists(depth, region, repeat=repeat)
        if pick < 0.79:
            return self.rel(depth, region)
        return self.iseq(region)

    def leaf(self, region: tuple[int, ...], *, repeat: bool = True) -> Leaf:
        name, type = f"x{len(self.variables) + 1}", self.random.choice("AB" if self.few_types else "AABBCCD")
        if self.marks and self.random.random() < 0.12:
            type = ANY
        many = None
        may = self.loose or (repeat and self.repetitions.get(region, 0) < 2)
        if may and self.random.random() < (0.15 if region else 0.32):
            many = self.random.choice(REPEATS)
            self.repetitions[region] = self.repetitions.get(region, 0) + self.random.choice((1, 2, 2))
        self.variables.append(DrawnVariable(name, type, region, many is not None))
        leaf = Leaf(type, name, None, many)
        return replace(leaf, until=self.until(leaf)) if many is not None and self.untils else leaf

    def until(self, leaf: Leaf) -> Leaf | None:
        """What ends a repetition: a condition on its own events, or an event, sometimes one that says no more."""
        if self.random.random() < 0.2:
            return None
        if self.random.random() < 0.4:
            self.mentioned.append(str(leaf.var))
            return Leaf(leaf.type, leaf.var, self.about(str(leaf.var)))
        name = f"u{len(self.variables)}"
        return Leaf(self.random.choice("ABCD"), name, self.about(name) if self.random.random() < 0.6 else None)

    def about(self, name: str) -> Expr:
        others = [var.name for var in self.variables[:-1] if not var.region and not var.repeated]
        if others and self.random.random() < 0.4:
            other = self.random.choice(others)
            self.mentioned.append(other)
            return Binary(self.random.choice((">", "<=", "<>")), Attr(name, "v"), Attr(other, "v"))
        return Binary(self.random.choice((">", "=", "<")), Attr(name, "v"), Literal(self.random.choice((0, 1, 2))))

    # --- SEQ and AND ------------------------------------------------------------------------------------------------

    def group(self, depth: int, region: tuple[int, ...], *, repeat: bool = True) -> Pattern:
        positive = self.random.choice((1, 1, 2, 2, 3, 3) if region else (1, 2, 2, 2, 3, 3))
        negative = self.random.choice((0, 0, 1, 1, 1, 2)) if len(region) < DRAWN_DEPTH else 0
        kinds = [True] * positive + [False] * negative
        self.random.shuffle(kinds)
        anchor = self.random.choice([at for at, kind in enumerate(kinds) if kind])  # a plain neighbour for repetitions
        items: list[Pattern] = []
        for at, kind in enumerate(kinds):
            if self.full() and (not kind or at != anchor):
                continue
            if not kind:
                items.append(self.negation(depth - 1, region))
            elif at == anchor:
                kept = self.leaf(region, repeat=False)
                items.append(kept)
            else:
                items.append(self.pattern(depth - 1, region, repeat=repeat))
        if self.random.random() >= 0.68:
            return And(tuple(items))
        if self.timed:
            items = list(map(self.lasting, items))
        if self.optional:
            items = [item if item is kept else self.absent(item) for item in items]
        return Seq(tuple(map(self.marked, items)) if self.marks else tuple(items))

    def absent(self, item: Pattern) -> Pattern:
        """The item; a positive one perhaps such that it may be absent."""
        if isinstance(item, Not) or self.random.random() < 0.4:
            return item
        if isinstance(item, Leaf) and self.random.random() < 0.7:
            if item.repeat is None:
                return replace(item, optional=True)
            return replace(item, repeat=Repeat(0, item.repeat.most))
        return Maybe(item)

    def lasting(self, item: Pattern) -> Pattern:
        """The item; a negation perhaps for a time only."""
        if not isinstance(item, Not) or self.random.random() < 0.3:
            return item
        return replace(item, lasting=Duration(self.random.choice((1, 2, 2, 3, 3, 4, 6))))

    def marked(self, item: Pattern) -> Pattern:
        """The item, perhaps with a mark that may stand before it (but NEXT also where nothing is before it)."""
        if isinstance(item, Not) or self.random.random() < 0.45:
            return item
        if isinstance(item, Maybe):
            return replace(item, pattern=self.marked(item.pattern))
        repeated = isinstance(item, Leaf) and item.repeat is not None
        leaves = item.items if isinstance(item, Or) else (item,)
        single = all(isinstance(leaf, Leaf) and leaf.repeat is None for leaf in leaves)
        mark = self.random.choice(("NEXT", "FIRST", "LAST") if single else ("NEXT",))
        if repeated:
            mark = self.random.choice(GATHERING)
        of: tuple[str, ...] = ()
        if mark in ("NEXT", "EACH NEXT") and self.random.random() < 0.4:
            of = tuple(self.random.sample("ABCDE", self.random.choice((1, 1, 2))))
        return Marked(mark, item, of)  # type: ignore[arg-type]

    def negation(self, depth: int, region: tuple[int, ...]) -> Not:
        self.negations += 1
        inner = (*region, self.negations)
        if depth > 0 and self.random.random() < 0.6:
            return Not(self.group(depth, inner) if self.random.random() < 0.7 else self.pattern(depth, inner))
        return Not(self.leaf(inner))

    # --- the others -------------------------------------------------------------------------------------------------

    def union(self, depth: int, region: tuple[int, ...]) -> Pattern:
        if self.random.random() < 0.55:
            items: list[Pattern] = [self.leaf(region, repeat=False) for _ in range(self.random.choice((2, 2, 3)))]
        else:
            items = [self.pattern(depth - 1, region, repeat=False) for _ in range(2)]
        return Or(tuple(items))

    def exists(self, depth: int, region: tuple[int, ...], *, repeat: bool = True) -> Pattern:
        first = len(self.variables)
        inner = self.group(depth, region, repeat=repeat)
        mine = [at for at in range(first, len(self.variables)) if self.variables[at].region == region]
        hidden = self.random.sample(mine, self.random.randint(1, max(1, len(mine) - 1)))
        for at in hidden:
            self.variables[at] = replace(self.variables[at], hidden=True)
        names = tuple(self.variables[at].name for at in hidden)
        self.mentioned += names
        return Exists(names, inner)

    def rel(self, depth: int, region: tuple[int, ...]) -> Pattern:
        relations = tuple(self.random.sample(ALLEN, self.random.choice((1, 2, 3, 5))))
        if self.random.random() < 0.6:
            left: Pattern = self.leaf(region, repeat=False)
        else:
            left = self.group(depth - 1, region, repeat=False)
        return Rel(relations, left, self.leaf(region, repeat=False))

    def iseq(self, region: tuple[int, ...]) -> Pattern:
        """Comparisons that hold of some intervals, so that they do not contradict each other."""
        leaves = tuple(self.leaf(region, repeat=False) for _ in range(self.random.choice((2, 2, 3))))
        spans = {}
        for leaf in leaves:
            start = self.random.randint(0, 3)
            spans[str(leaf.var)] = (start, start + self.random.randint(0, 2))
        self.mentioned += spans
        order = tuple(self.comparison(spans) for _ in range(self.random.choice((1, 1, 2, 3))))
        within = Duration(self.random.randint(1, 5)) if self.random.random() < 0.3 else None
        return Iseq(order, leaves, within)

    def comparison(self, spans: Mapping[str, tuple[int, int]]) -> Comparison:
        one, two = self.random.sample(sorted(spans), 2)
        ends = [self.random.choice(("start", "end")) for _ in range(2)]
        x, y = (spans[var][which == "end"] for var, which in zip((one, two), ends, strict=True))
        options = ("<", "<=") if x < y else ("=", "<=", ">=") if x == y else (">", ">=")
        left, right = Endpoint(one, ends[0]), Endpoint(two, ends[1])  # type: ignore[arg-type]
        return Comparison(left, self.random.choice(options), right)

    def named_by_type(self, pattern: Pattern) -> Pattern:
        """Sometimes a leaf whose type stands alone is called by its type."""
        types = [leaf.type for leaf in leaves_of(pattern)]
        alone = [
            at
            for at, var in enumerate(self.variables)
            if types.count(var.type) == 1
            and var.type != ANY
            and var.name not in self.mentioned
            and self.random.random() < 0.2
        ]
        names = {self.variables[at].name: self.variables[at].type for at in alone}
        for at in alone:
            self.variables[at] = replace(self.variables[at], name=self.variables[at].type)
        return _renamed(pattern, names)


def _renamed(pattern: Pattern, names: Mapping[str, str]) -> Pattern:
    if isinstance(pattern, Leaf):
        return replace(pattern, var=names.get(str(pattern.var), pattern.var))
    return rebuilt(pattern, [_renamed(item, names) for item in items_of(pattern)])


def dressed(pattern: Pattern, wheres: Mapping[str, Expr]) -> Pattern:
    """The pattern with predicates at its leaves."""
    if isinstance(pattern, Leaf):
        return replace(pattern, where=wheres.get(str(pattern.var)))
    return rebuilt(pattern, [dressed(item, wheres) for item in items_of(pattern)])
