"""Bind a staged statement to a schema: its plan has a leaf for all types that it reads, and its columns have kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from tocsin.errors import Problem, QueryError
from tocsin.lang.staged_syntax import (
    ONLY,
    AggregateOf,
    Arithmetic,
    AttrOf,
    Collection,
    Compared,
    EventsOf,
    IfNull,
    LeafOperand,
    Negative,
    OperatorCall,
    OutputColumn,
    PartitionKey,
    StableTime,
    StagedExpr,
    Statement,
    TimeOf,
    UnionOf,
    parts,
)
from tocsin.lang.syntax import UNITS, Duration, Literal
from tocsin.plan.block import Alt, Block, Leaf, Output, Plan, Variable
from tocsin.plan.expr import Col
from tocsin.plan.problems import Problems
from tocsin.plan.staged_check import notes_of_statement, problems_of
from tocsin.plan.staged_form import StagedForm
from tocsin.plan.staged_places import Role, StatementPlaces
from tocsin.plan.typer import not_readable
from tocsin.schema import OWN, RESULT_COLUMNS, Field, Kind, Schema

NUMBERS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL)


def bind_statement(statement: Statement, schema: Schema) -> Plan:
    """The plan of a statement over a schema; a QueryError that lists every problem found."""
    problems = problems_of(statement, schema)
    if problems:
        raise QueryError(problems, statement.text)
    binder = _Binder(StatementPlaces(statement), schema)
    problems = [*binder.unreadable(), *binder.lengths(), *binder.kinds(), *binder.columns()]
    if problems:
        raise QueryError(problems, statement.text)
    types = sorted(binder.places.types)
    fields = tuple(binder.field(column, name) for column, name in binder.outputs())
    columns = tuple(field.name for field in fields)
    outputs = tuple(Output(field.name, Col(0, statement.name, field.name, field.kind)) for field in fields)
    reads = tuple((type, tuple(sorted(binder.read(type)))) for type in types)
    return Plan(
        statement.name,
        (Block((Leaf(0, tuple(Alt(type, type) for type in types)),)),),
        None,
        (Variable(statement.name, (statement.name,), fields),),
        outputs,
        schema,
        mentions=tuple(types),
        fingerprint=blake2b(str(statement).encode(), digest_size=16).hexdigest(),
        notes=tuple(dict.fromkeys([*notes_of_statement(statement), *binder.notes()])),
        title=statement.name,
        staged=StagedForm(statement, reads, columns, tuple(binder.longest().items()), binder.lasts()),
    )


class _Binder:
    """What the names of a statement are in a schema."""

    def __init__(self, places: StatementPlaces, schema: Schema) -> None:
        self.places, self.schema, self.statement = places, schema, places.statement

    # --- what is read ---

    def _roles(self, name: str | None) -> list[Role]:
        return [role for role in self.places.roles if role.called == name]

    def _attributes(self) -> Iterator[tuple[str, AttrOf]]:
        """Every attribute that is mentioned, with the type of its role."""
        statement = self.statement
        for role in self.places.roles:
            for part in (part for condition in role.conditions for part in parts(condition)):
                if isinstance(part, AttrOf) and part.name in (None, role.called):
                    yield str(role.type), part
                elif isinstance(part, AttrOf):
                    yield from ((str(other.type), part) for other in self._roles(part.name))
        exprs = [*(column.expr for column in statement.select), *([] if statement.where is None else [statement.where])]
        for part in (part for expr in exprs for part in parts(expr)):
            if isinstance(part, AttrOf) and not self.places.is_label(part):
                yield from ((str(role.type), part) for role in self._roles(part.name))

    def read(self, type: str) -> set[str]:
        """The attributes that are read of a type."""
        found = {part.attr for each, part in self._attributes() if each == type}
        for key in (part for part in parts(self.statement) if isinstance(part, PartitionKey)):
            found |= {entry.attr for entry in key.entries}
        return {attr for attr in found if self.schema.field(type, attr) is not None}

    def unreadable(self) -> list[Problem]:
        """Attributes that events have, and that no expression can read: Null would be a wrong answer."""
        keys = (*self.statement.gkeys, *self.statement.lkeys)
        named = [part for _, part in self._attributes()] + [entry for key in keys for entry in key.entries]
        problems = Problems()
        for each in named:
            if each.attr in self.schema.unreadable:
                not_readable(each.attr, self.schema, each.span, problems)
        return problems.found

    def notes(self) -> Iterator[str]:
        """Types and attributes that occur nowhere: their roles are empty, and they are Null."""
        for type in sorted(self.places.types):
            if not self.schema.has_type(type) and not self.schema.open_types:
                yield f"there is no event of type {type}: its roles in {self.statement.name} stay empty"
        for type, part in self._attributes():
            known = self.schema.has_type(type) and self.schema.field(type, part.attr) is not None
            if not known and self.schema.has_type(type) and not self.schema.open_fields:
                yield f"no event of type {type} has an attribute {part.attr}: it is Null in {self.statement.name}"

    # --- kinds ---

    def field(self, column: OutputColumn, name: str) -> Field:
        return Field(name, self.kind(column.expr))

    def kind(self, node: StagedExpr) -> Kind:
        """The kind of a value of Select; attributes with decimals count as floats."""
        match node:
            case Literal():
                return _of_literal(node)
            case AttrOf():
                return self._of_attribute(node)
            case IfNull():
                known = self._of_attribute(node.of)
                return _of_literal(node.instead) if known is Kind.NULL else _widest((known, _of_literal(node.instead)))
            case TimeOf() | StableTime():
                return Kind.TIME if self.schema.unit == "us" else Kind.INT
            case Negative():
                return self.kind(node.of)
            case Arithmetic():
                return self._computed(node)
            case AggregateOf():
                return self._of_aggregate(node)
        return Kind.BOOL

    def _computed(self, node: Arithmetic) -> Kind:
        sides = (self.kind(node.left), self.kind(node.right))
        if node.op == "/" or Kind.FLOAT in sides:
            return Kind.FLOAT
        if Kind.TIME in sides:
            return Kind.INT if sides == (Kind.TIME, Kind.TIME) else Kind.TIME
        return Kind.NULL if sides == (Kind.NULL, Kind.NULL) else Kind.INT

    def _of_attribute(self, node: AttrOf) -> Kind:
        if self.places.is_label(node):
            key = self.places.key(node.name)
            assert key is not None
            if key.ranges:
                return Kind.TEXT
            fields = [self._kind_of(str(role.type), entry.attr) for entry in key.entries for role in self.places.roles]
            return _widest(fields)
        return _widest([self._kind_of(str(role.type), node.attr) for role in self._roles(node.name)])

    def _kind_of(self, type: str, attr: str) -> Kind:
        field = self.schema.field(type, attr)
        if field is None:
            return Kind.NULL
        return Kind.FLOAT if field.kind is Kind.DECIMAL else field.kind

    def _of_aggregate(self, node: AggregateOf) -> Kind:
        if node.function == "Count":
            return Kind.INT
        inner = _widest(self._of_collection(node.of))
        if node.function in ("Avg", "Median"):
            return inner if inner is Kind.NULL else Kind.FLOAT
        return inner

    def _of_collection(self, of: Collection | UnionOf) -> list[Kind]:
        if isinstance(of, UnionOf):
            return self._of_collection(of.left) + self._of_collection(of.right)
        return [Kind.INT] if isinstance(of.of, EventsOf) else [self.kind(of.of)]

    def kinds(self) -> Iterator[Problem]:
        """Conditions that compare a text with a number, aggregates over texts, keys of different kinds."""
        statement = self.statement
        conditions = [condition for role in self.places.roles for condition in role.conditions]
        if statement.where is not None:
            conditions.append(statement.where)
        for role in self.places.roles:
            for condition in role.conditions:
                yield from self._compared(condition, role)
        if statement.where is not None:
            yield from self._compared(statement.where, None)
        for part in (part for column in statement.select for part in parts(column)):
            is_sum = isinstance(part, AggregateOf) and part.function in ("Sum", "Avg", "Median")
            if isinstance(part, AggregateOf) and is_sum and {Kind.TEXT, Kind.BOOL} & set(self._of_collection(part.of)):
                hint = "Count, Max and Min take other kinds"
                yield Problem(f"{part.function} needs numbers", part.span, hint=hint)
            if isinstance(part, Arithmetic) and {self.kind(part.left), self.kind(part.right)} & {Kind.TEXT, Kind.BOOL}:
                hint = "texts and truth values are compared by = and !="
                yield Problem("only numbers and times can be computed with", part.span, hint=hint)
        for key in (*statement.gkeys, *statement.lkeys):
            yield from self._key_kinds(key)
        yield from self._one_kind_each()

    def _compared(self, condition: StagedExpr, role: Role | None) -> Iterator[Problem]:
        for part in parts(condition):
            if not isinstance(part, Compared):
                continue
            sides = [self._kind_in(side, role) for side in (part.left, part.right)]
            if Kind.NULL in sides or not {Kind.TEXT, Kind.BOOL} & set(sides):
                continue
            if sides[0] is not sides[1]:
                yield Problem(f"{sides[0]} is compared with {sides[1]}", part.span, hint="such values are never equal")
            elif part.op not in ("=", "!="):
                hint = "compare them by = or !="
                yield Problem(f"values of kind {sides[0]} have no order in a condition", part.span, hint=hint)

    def _kind_in(self, node: StagedExpr, role: Role | None) -> Kind:
        if role is not None and isinstance(node, AttrOf) and node.name in (None, role.called):
            return self._kind_of(str(role.type), node.attr)
        return self.kind(node)

    def _key_kinds(self, key: object) -> Iterator[Problem]:
        found: dict[Kind, str] = {}
        for entry in key.entries:  # type: ignore[attr-defined]
            for role in self.places.roles:
                if entry.name in (None, role.label, role.type):
                    kind = self._kind_of(str(role.type), entry.attr)
                    found.setdefault(
                        Kind.FLOAT if kind in (Kind.INT, Kind.TIME) else kind, f"{role.called}.{entry.attr}"
                    )
        found.pop(Kind.NULL, None)
        if len(found) > 1:
            (one, first), (other, second) = list(found.items())[:2]
            detail = f"{first} is {one}, {second} is {other}"
            yield Problem("the attributes of a key are of different kinds", key.span, detail, "such values never meet")  # type: ignore[attr-defined]

    def _one_kind_each(self) -> Iterator[Problem]:
        """An attribute has one kind in all that a statement reads: its values stand in one column."""
        found: dict[str, tuple[Kind, int, str]] = {}
        for type in sorted(self.places.types):
            for attr in sorted(self.read(type)):
                field = self.schema.field(type, attr)
                if field is None or field.kind is Kind.NULL:
                    continue
                kind, scale, other = found.setdefault(attr, (field.kind, field.scale, type))
                if (kind, scale) != (field.kind, field.scale):
                    message = f"{attr} is {field.kind} in {type} and {kind} in {other}"
                    hint = f"give it another name where it is selected: ... as {type.lower()}_{attr}"
                    yield Problem(message, self.statement.span, "the statement reads both", hint)

    # --- lengths, columns ---

    def lengths(self) -> Iterator[Problem]:
        """Lengths of time with a unit need times with a unit; what At and sst need is there."""
        for part in parts(self.statement):
            if isinstance(part, Duration) and part.unit is not None and self.schema.unit is None:
                yield Problem(
                    "a length of time with a unit needs times with a unit", part.span,
                    "the times of these events are plain numbers",
                    'write the bare number of ticks, or say how long one is: time_unit="s" (--time-unit s)',
                )  # fmt: skip
            if isinstance(part, TimeOf) and part.which == "sst":
                yield from self._bounded(part)
        for place in self.places.operators:
            call = place.node
            if isinstance(call, OperatorCall) and call.operator == "At" and self.schema.unit is None:
                yield Problem("At needs times with a unit", call.span, hint='say what they are: time_unit="s"')

    def _bounded(self, asked: TimeOf) -> Iterator[Problem]:
        """sst is asked of an operand whose events last as long as somebody has said, at most."""
        type = self._type_of(asked.name)
        if type is None:
            hint = "name an operand: start-ts and end-ts take a labelled operator, too"
            yield Problem(f"sst is asked of {asked.name}, which is no operand", asked.span, hint=hint)
        elif self._lasting(type) is None:
            hint = f'say how long one may last, schema(..., longest={{"{type}": 10}}), or that all events are points'
            if type in self.schema.matches:
                hint = f"give every operand of {type} a range: then it lasts no longer; or compare end-ts"
            yield Problem(f"nobody says when later {type} may start", asked.span, hint=hint)

    def longest(self) -> dict[str, int]:
        """For each type of which sst is asked, how long its events may last."""
        asked = [part.name for part in parts(self.statement) if isinstance(part, TimeOf) and part.which == "sst"]
        types = [type for name in asked if (type := self._type_of(name)) is not None]
        return {type: lasting for type in sorted({*types}) if (lasting := self._lasting(type)) is not None}

    def _type_of(self, operand: str) -> str | None:
        leaves = [place.node for place in self.places.leaves if place.name == operand]
        return leaves[0].type if leaves and isinstance(leaves[0], LeafOperand) else None

    def _lasting(self, type: str) -> int | None:
        """How long an event of a type may last; None: nobody knows."""
        points = not self.schema.intervals and type not in self.schema.matches
        return self.schema.longest.get(type, 0 if points else None)

    def lasts(self) -> int | None:
        """How long what the statement finds lasts, at most: as far as its windows reach back; None: for ever."""
        calls = [place.node for place in self.places.operators if isinstance(place.node, OperatorCall)]
        if self.places.blocks or self.places.mode == "delayed" or not all(map(_has_constituents, calls)):
            return None
        found = []
        for place in self.places.leaves:
            leaf = place.node
            if not isinstance(leaf, LeafOperand) or place.negated:
                continue
            lasting = self._lasting(leaf.type)
            if leaf.range is None or lasting is None or (leaf.range.unit is not None and self.schema.unit is None):
                return None
            found.append(self._ticks(leaf.range) - 1 + lasting)
        return max(found, default=None)

    def _ticks(self, length: Duration) -> int:
        """A length in ticks; a bare number is in ticks."""
        if length.unit is None or self.schema.unit is None:
            return int(length.amount)
        return int(length.amount * UNITS[length.unit] / UNITS[self.schema.unit])

    def outputs(self) -> Iterator[tuple[OutputColumn, str]]:
        for column in self.statement.select:
            if column.name is not None:
                yield column, column.name
            else:
                assert isinstance(column.expr, AttrOf)
                yield column, str(column.expr.name) if self.places.is_label(column.expr) else column.expr.attr

    def columns(self) -> Iterator[Problem]:
        """Columns that are called like what every result has."""
        for column, name in self.outputs():
            if name in RESULT_COLUMNS or name in OWN:
                hint = f"give it another name: as my_{name}"
                yield Problem(f"every result has a column {name} already", column.span, hint=hint)


def _has_constituents(call: OperatorCall) -> bool:
    """Whether every match of an operator has events that its operands have collected."""
    if call.operator in ("AtLeast", "Nth"):
        return bool(call.count)
    return call.operator in ("And", "Sequence", "Concurrent", "Or", "Unless", ONLY)


def _of_literal(node: Literal) -> Kind:
    match node.value:
        case None:
            return Kind.NULL
        case bool():
            return Kind.BOOL
        case str():
            return Kind.TEXT
        case int():
            return Kind.INT
    return Kind.FLOAT


def _widest(kinds: Iterable[Kind]) -> Kind:
    """One kind for values of several; numbers widen, and what does not go together is taken as it comes first."""
    known = [kind for kind in dict.fromkeys(kinds) if kind is not Kind.NULL]
    if not known:
        return Kind.NULL
    return Kind.FLOAT if len(known) > 1 and all(kind in NUMBERS for kind in known) else known[0]
