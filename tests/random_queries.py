"""Small random queries and histories from a seed, over every construct; many are wrong on purpose."""

from __future__ import annotations

from random import Random

from tocsin.events import Event
from tocsin.schema import Field, Kind, Schema

SCHEMA = Schema(
    types={type: {} for type in "ABCD"},
    common={"id": Field("id", Kind.INT), "v": Field("v", Kind.INT), "w": Field("w", Kind.FLOAT)},
)
RELATIONS = ["before", "meet", "overlap", "during", "equal", "after", "finished by", "start"]


class _Author:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.vars: list[str] = []
        self.repeated: set[str] = set()

    def leaf(self, *, repeat: bool = True) -> str:
        var = f"x{len(self.vars) + 1}"
        self.vars.append(var)
        many = ""
        if repeat and self.random.random() < 0.18:
            many = self.random.choice(["+", "{2,}", "{1,2}"])
            self.repeated.add(var)
        where = ""
        if self.random.random() < 0.2:
            where = " : " + self.predicate([var, *(self.vars if self.random.random() < 0.4 else [])])
        return f"({self.random.choice('ABCD')}{many} {var}{where})"

    def term(self, variables: list[str]) -> str:
        var = self.random.choice(variables)
        if var in self.repeated and self.random.random() < 0.6:
            return self.random.choice([f"count({var})", f"sum({var}.v)", f"first({var}.v)", f"end({var})"])
        return self.random.choice([f"{var}.v", f"{var}.id", f"{var}.w", f"start({var})"])

    def predicate(self, variables: list[str]) -> str:
        pick, number = self.random.random(), self.random.randint(0, 3)
        left, right = self.term(variables), self.term(variables)
        if pick < 0.1:
            return f"{self.random.choice(variables)} <> {self.random.choice(variables)}"
        if pick < 0.2:
            return f"{left} IS NULL"
        if pick < 0.35:
            return f"({left} > {right} OR {self.term(variables)} = {number})"
        if pick < 0.45:
            return f"{left} BETWEEN {number} AND {number + 1}"
        return f"{left} {self.random.choice(['=', '<', '<=', '<>', '>='])} {self.random.choice([right, str(number)])}"

    def pattern(self, depth: int) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.15:
            return self.leaf()
        if pick < 0.55:
            return f"SEQ({self.items(depth)})"
        if pick < 0.72:
            return f"AND({self.items(depth)})"
        if pick < 0.8:
            first, second = self.leaf(repeat=False), self.leaf(repeat=False)
            return f"OR({first}, {second})"
        if pick < 0.88:
            return f"OR({self.pattern(depth - 1)}, {self.pattern(depth - 1)})"
        if pick < 0.94:
            names = ", ".join(self.random.sample(RELATIONS, self.random.randint(1, 3)))
            left = self.pattern(depth - 1) if self.random.random() < 0.4 else self.leaf(repeat=False)
            return f"REL[{names}]({left}, {self.leaf(repeat=False)})"
        first, second = self.leaf(repeat=False), self.leaf(repeat=False)
        a, b = self.vars[-2:]
        ends = f"start({a}) {self.random.choice(['<', '<=', '='])} {self.random.choice(['start', 'end'])}({b})"
        return f"ISEQ[{ends}]({first}, {second}{self.random.choice(['; 4', ''])})"

    def items(self, depth: int) -> str:
        items = [self.pattern(depth - 1) for _ in range(self.random.randint(1, 3))]
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            items.insert(self.random.randint(0, len(items)), "!" + self.pattern(depth - 1))
        return ", ".join(items)

    def conjunct(self) -> str:
        pick = self.random.random()
        if pick < 0.25:
            return "[id]"
        if pick < 0.55:
            left, right = self.random.choice(self.vars), self.random.choice(self.vars)
            return f"{left}.{self.random.choice(['id', 'v'])} = {right}.{self.random.choice(['id', 'v', 'w'])}"
        return self.predicate(self.vars)


def random_query(random: Random) -> str:
    author = _Author(random)
    pattern = author.pattern(random.randint(1, 3))
    conjuncts = [author.conjunct() for _ in range(random.choice([0, 1, 1, 2, 3]))]
    where = f" WHERE {' AND '.join(conjuncts)}" if conjuncts else ""
    within = f" WITHIN {random.randint(2, 8)}" if random.random() < 0.6 else ""
    return f"EVENT {pattern}{where}{within}"


def random_history(random: Random) -> list[Event]:
    found = []
    for eid in range(random.randint(3, 9)):
        start = random.randint(0, 9)
        end = start + (random.randint(0, 3) if random.random() < 0.3 else 0)
        values = {"id": random.randint(0, 1), "v": random.randint(0, 3), "w": float(random.randint(0, 3))}
        attrs = {name: value for name, value in values.items() if random.random() < 0.9}
        found.append(Event(random.choice("ABCD"), start, end, eid, attrs))
    return found
