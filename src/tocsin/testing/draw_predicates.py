"""Random predicates: every kind of expression, over the variables that may be mentioned together."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from random import Random

from tocsin.lang.syntax import (
    ALLEN,
    DISTINCT,
    INTERSECT,
    MEMBER,
    PREV,
    RELATION,
    Attr,
    Between,
    Binary,
    Call,
    CaseWhen,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Relates,
    Same,
    SelectItem,
    Unary,
)
from tocsin.testing.draw_patterns import DrawnVariable

COMPARE = ("=", "<>", "<", "<=", "<=", "<=", ">", ">=", ">=", ">=")  # with likeness in mind: most of them hold
TEXTS = ("a", "ab", "b", "B_", "")
LIKES = ("a%", "%b", "_", "%", "a_", "B\\_", "%a%", "%a%b%", "a%%_b", "%_%_a")
HUGE = (2**62, 2**63 - 1, 3_037_000_500)


def all_of(conjuncts: Sequence[Expr]) -> Expr | None:
    """The conjuncts joined by AND."""
    joined: Expr | None = None
    for conjunct in conjuncts:
        joined = conjunct if joined is None else Binary("AND", joined, conjunct)
    return joined


class Speaker:
    """Says something true or false about variables; remembers whom it mentioned."""

    def __init__(self, random: Random, variables: list[DrawnVariable]) -> None:
        self.random = random
        self.variables = variables
        self.mentioned: set[str] = set()

    # --- where predicates stand ---------------------------------------------------------------------------------------

    def where(self) -> Expr | None:
        conjuncts: list[Expr] = []
        for _ in range(self.random.choice((0, 0, 1, 1, 1, 2, 3))):
            pick = self.random.random()
            if pick < 0.2 and not any(isinstance(one, Same) for one in conjuncts):
                conjuncts.append(Same(self.random.choice((("id",), ("id",), ("s",), ("ok",), ("id", "ok")))))
            elif pick < 0.45:
                conjuncts.append(self.equality(self.random.choice(self.variables)))
            else:
                repeated = [var for var in self.variables if var.repeated and self.random.random() < 0.5]
                conjuncts.append(self.about(self.random.choice(repeated or self.variables)))
        return all_of(conjuncts)

    def at_leaf(self, var: DrawnVariable) -> Expr | None:
        return all_of([self.about(var) for _ in range(self.random.choice((1, 1, 1, 2)))])

    def select(self) -> tuple[SelectItem, ...]:
        seen = [var for var in self.variables if not var.region and not (var.hidden and self.random.random() < 0.7)]
        if not seen:
            return ()
        words = Words(self, [var for var in seen if not var.repeated], [var for var in seen if var.repeated], None)
        return tuple(
            SelectItem(words.value(self.random.choice(("int", "float", "text", "bool")), 1), f"c{number}")
            for number in range(self.random.randint(1, 3))
        )

    def equality(self, var: DrawnVariable) -> Expr:
        """`x.a = y.b`, the food of the closure."""
        others = [
            other
            for other in self.visible(var)
            if not (other.repeated and (var.repeated or other.region != var.region))
        ]
        if var.repeated:
            others = [other for other in others if not other.repeated]
        other = self.random.choice(others) if others else var
        self.mentioned |= {var.name, other.name}
        one, two = self.random.choice(
            (("id", "id"), ("id", "id"), ("v", "v"), ("id", "v"), ("s", "s"), ("w", "v"), ("x", "id"))
        )
        return Binary("=", Attr(var.name, one), Attr(other.name, two))

    def about(self, var: DrawnVariable) -> Expr:
        """A predicate that a part with this variable may ask."""
        visible = self.visible(var)
        plain = [other for other in visible if not other.repeated]
        repeated = [other for other in visible if other.repeated and other is not var]
        if not var.repeated:
            return Words(self, plain, repeated, var).truth(2)
        if self.random.random() < 0.5:
            return Words(self, [*plain, var], [], var).truth(2)
        return Words(self, plain, [*repeated, var], var, sets=True).truth(2)

    def visible(self, var: DrawnVariable) -> list[DrawnVariable]:
        """The variables of the same part and of those around it."""
        return [other for other in self.variables if other.region == var.region[: len(other.region)]]


class Words:
    """Expressions over events (`plain`, of which one may be a member of a repetition) and sets (`repeated`)."""

    def __init__(
        self,
        speaker: Speaker,
        plain: list[DrawnVariable],
        repeated: list[DrawnVariable],
        about: DrawnVariable | None,
        *,
        sets: bool = False,
    ) -> None:
        self.speaker = speaker
        self.random = speaker.random
        self.plain = plain
        self.repeated = repeated
        self.about = about
        self.first = about  # the first variable to be mentioned is the one that the predicate is about
        self.sets = sets

    def one(self) -> DrawnVariable | None:
        if self.first is not None and not (self.sets and self.first.repeated):
            var: DrawnVariable | None = self.first
            self.first = None
        else:
            var = self.random.choice(self.plain) if self.plain else None
        if var is not None:
            self.speaker.mentioned.add(var.name)
        return var

    # --- truth -----------------------------------------------------------------------------------------------------

    def truth(self, depth: int) -> Expr:
        pick = self.random.random()
        if depth > 0 and pick < 0.1:
            return Binary("OR", self.truth(depth - 1), self.truth(depth - 1))
        if depth > 0 and pick < 0.14:
            return Unary("NOT", self.truth(depth - 1))
        if depth > 0 and pick < 0.17:
            return Unary("NOT", Binary("AND", self.truth(depth - 1), self.truth(depth - 1)))
        if pick < 0.55:
            kind = self.random.choice(("int", "int", "int", "int", "float", "text"))
            return Binary(self.random.choice(COMPARE), self.value(kind, depth), self.value(kind, depth, constant=0.35))
        if pick < 0.63:
            return Binary(
                self.random.choice(COMPARE), self.value("int", depth), self.value("float", depth, constant=0.3)
            )
        return self.special(depth, pick)

    def special(self, depth: int, pick: float) -> Expr:
        negated = self.random.random() < 0.25
        if pick < 0.69:
            kind = self.random.choice(("int", "text", "float"))
            options = tuple(self.value(kind, 0, constant=0.7) for _ in range(self.random.randint(1, 3)))
            return In(self.value(kind, depth - 1), options, negated)
        if pick < 0.75:
            low = self.random.randint(-1, 2)
            return Between(self.value("int", depth - 1), number(low), number(low + self.random.randint(0, 3)), negated)
        if pick < 0.80:
            return Like(self.value("text", depth - 1), Literal(self.random.choice(LIKES)), negated)
        if pick < 0.85:
            return IsNull(self.value(self.random.choice(("int", "text", "float", "bool")), depth - 1), negated)
        if pick < 0.90 and len(self.plain) > 1:
            one, two = (self.one() or self.plain[0] for _ in range(2))
            self.speaker.mentioned |= {one.name, two.name}
            if self.random.random() < 0.5:
                return self.related(one, two)
            return Binary(self.random.choice(("<>", "<>", "<>", "=")), Name(one.name), Name(two.name))
        if pick < 0.92 and self.plain:
            var = self.one()
            return IsNull(Name(var.name), negated) if var and not var.repeated else Literal(True)
        if pick < 0.95:
            return Binary(self.random.choice(("=", "<>")), self.value("bool", 0), self.value("bool", 0, constant=0.4))
        return self.value("bool", depth)

    def related(self, one: DrawnVariable, two: DrawnVariable) -> Expr:
        """How the times of two variables stand to each other."""
        names = Name(one.name), Name(two.name)
        if self.random.random() < 0.3:
            options = tuple(Literal(name) for name in self.random.sample(ALLEN, 4))
            return In(Call(RELATION, names), options, self.random.random() < 0.4)
        related = Relates(names[0], self.random.choice((*ALLEN, *[INTERSECT] * 4)), names[1])
        return Unary("NOT", related) if self.random.random() < 0.3 else related

    # --- values ----------------------------------------------------------------------------------------------------

    def value(self, kind: str, depth: int, *, constant: float = 0.05) -> Expr:
        if self.random.random() < constant:
            return self.literal(kind)
        if self.repeated and (self.sets or self.random.random() < 0.4):
            return self.aggregate(kind)
        if depth > 0 and self.random.random() < 0.3:
            return getattr(self, f"made_{kind}")(depth - 1)  # type: ignore[no-any-return]
        var = self.one()
        if var is None:
            return self.aggregate(kind) if self.repeated else self.literal(kind)
        return self.simple(kind, var)

    def simple(self, kind: str, var: DrawnVariable) -> Expr:
        if kind == "int" and self.random.random() < 0.15 and not var.repeated:
            if self.random.random() < 0.4:  # no event has such an attribute
                return Attr(var.name, self.random.choice(("time", "start", "end")))
            return Call(self.random.choice(("start", "end")), (Name(var.name),))
        if kind == "text" and self.random.random() < 0.08:
            return Call("type", (Name(var.name),)) if self.random.random() < 0.5 else Attr(var.name, "type")
        names = {"int": ("v", "v", "id", "x"), "float": ("w",), "text": ("s",), "bool": ("ok",)}[kind]
        name = self.random.choice(names)
        if var.repeated and self.random.random() < 0.2:
            return Call(PREV, (Attr(var.name, name),))
        return Attr(var.name, "d" if name == "w" and self.random.random() < 0.15 else name)

    def literal(self, kind: str) -> Expr:
        if self.random.random() < 0.03:
            return Literal(None)
        match kind:
            case "int":
                return number(self.random.choice(HUGE) if self.random.random() < 0.05 else self.random.randint(-1, 4))
            case "float":
                half = Literal(Decimal(self.random.choice(("0.5", "1.5", "2.5"))))
                return Unary("-", half) if self.random.random() < 0.2 else half
            case "text":
                return Literal(self.random.choice(TEXTS))
        return Literal(self.random.random() < 0.6)

    def aggregate(self, kind: str) -> Expr:
        var = self.random.choice(self.repeated)
        if var is self.first:
            self.first = None
        self.speaker.mentioned.add(var.name)
        b, pick = var.name, self.random.choice
        match kind:
            case "int":
                inner = Attr(b, pick(("v", "id", "x")))
                options: list[Expr] = [Call(name, (inner,)) for name in ("count", "sum", "min", "max", "first", "last")]
                options += [Call("count", (Name(b),))] * 3 + [Call(pick(("start", "end")), (Name(b),))]
                options.append(Call("sum", (Binary("*", Attr(b, "v"), number(2)),)))
                options += [Call(DISTINCT, (Attr(b, pick(("v", "s", "w"))),)), self.member(b, pick(("v", "id", "x")))]
                return pick(options)
            case "float":
                if self.random.random() < 0.1:
                    return self.member(b, "w")
                name = pick(("sum", "avg", "min", "max", "first", "last", "avg"))
                return Call(name, (Attr(b, "v" if name == "avg" and self.random.random() < 0.5 else "w"),))
            case "text":
                if self.random.random() < 0.1:
                    return self.member(b, "s")
                return Call(pick(("min", "max", "first", "last")), (Attr(b, "s"),))
        return Call(pick(("first", "last")), (Attr(b, "ok"),))

    def member(self, var: str, attr: str) -> Expr:
        return Call(MEMBER, (Attr(var, attr), Literal(self.random.choice((1, 2, 3, -1, -2)))))

    def made_int(self, depth: int) -> Expr:
        value, pick = self.value, self.random.random()
        if pick < 0.55:
            right = value("int", depth, constant=0.5)
            return Binary(self.random.choice(("+", "-", "*", "*", "%")), value("int", depth), right)
        if pick < 0.62:
            return Unary("-", value("int", depth, constant=0))
        if pick < 0.7:
            return Call("abs", (value("int", depth),))
        if pick < 0.78:
            return Call(
                self.random.choice(("least", "greatest", "coalesce", "nullif")), (value("int", depth), value("int", 0))
            )
        if pick < 0.84:
            return Call("length", (value("text", depth),))
        if pick < 0.88:
            return Call("int", (value(self.random.choice(("float", "bool", "text")), depth),))
        return CaseWhen(((self.truth(0), value("int", depth)),), value("int", 0, constant=0.5) if pick < 0.96 else None)

    def made_float(self, depth: int) -> Expr:
        value, pick = self.value, self.random.random()
        if pick < 0.3:
            return Binary("/", value("int", depth), value("int", 0, constant=0.4))
        if pick < 0.6:
            return Binary(
                self.random.choice(("+", "-", "*", "/", "%")), value("float", depth), value("int", 0, constant=0.5)
            )
        if pick < 0.75:
            return Call(self.random.choice(("abs", "floor", "ceil", "round", "sqrt")), (value("float", depth),))
        if pick < 0.85:
            return Call("float", (value(self.random.choice(("int", "text")), depth),))
        return Call(self.random.choice(("least", "greatest", "coalesce")), (value("float", depth), value("int", 0)))

    def made_text(self, depth: int) -> Expr:
        value, pick = self.value, self.random.random()
        if pick < 0.3:
            return Call(self.random.choice(("lower", "upper", "trim")), (value("text", depth),))
        if pick < 0.5:
            return Binary("||", value("text", depth), value("text", 0, constant=0.5))
        if pick < 0.65:
            return Call("substr", (value("text", depth), number(1), number(1)))
        if pick < 0.75:
            return Call("text", (value("int", 0),))
        if pick < 0.85:
            return Call("coalesce", (value("text", depth), value("text", 0, constant=0.5)))
        return CaseWhen(((self.truth(0), value("text", 0)),), value("text", 0, constant=0.5))

    def made_bool(self, depth: int) -> Expr:
        if self.random.random() < 0.4:
            name = self.random.choice(("starts_with", "contains"))
            return Call(name, (self.value("text", depth), self.value("text", 0, constant=0.6)))
        return self.truth(depth)


def number(value: int) -> Expr:
    """A whole number as the parser reads it."""
    return Literal(value) if value >= 0 else Unary("-", Literal(-value))
