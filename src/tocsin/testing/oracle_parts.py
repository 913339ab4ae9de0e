"""A query taken apart for the oracle: alternatives, scopes, and which predicate belongs to which part.

A *block* is a pattern without the insides of its negations: the root is one, every negated part is another. An OR is
opened into alternatives, each a block without OR. Sections 2 to 6 of docs/semantics.md, nothing shared with the binder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations, product
from typing import Any, TypeAlias

from tocsin.events import ANY
from tocsin.lang.syntax import (
    AGGREGATES,
    And,
    Attr,
    Binary,
    Call,
    Duration,
    Endpoint,
    Exists,
    Expr,
    Iseq,
    Leaf,
    Marked,
    Name,
    Not,
    Or,
    Pattern,
    Query,
    Rel,
    Repeat,
    Same,
    Seq,
    conjuncts,
    items_of,
    leaves_of,
    may_be_absent,
    named,
    walk,
)
from tocsin.testing.oracle_absence import Pause, check_lasting, lengths_before, pauses
from tocsin.testing.oracle_expr import OWN, UndefinedError, bare_variables, set_variables, stepped_variables, variables
from tocsin.testing.oracle_marks import (
    Decided,
    Look,
    Sides,
    check_marks,
    counts_for,
    is_repetition,
    looked_for,
    sides_of,
)
from tocsin.testing.oracle_members import Headed, first_place, from_left, heads, repetition_in, steps_of
from tocsin.testing.oracle_optional import NoEvent, check_optional, gone, there

Key: TypeAlias = tuple[str, str]  # (variable, attribute)


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One conjunct of WHERE, or an equality that the written ones imply.

    `kin` are the variables that equalities relate to both its sides. A `soft` one comes from `[attr]`, which ranges
    over the variables that the match binds: it says nothing where a variable is unbound.
    """

    expr: Expr
    kin: frozenset[str] = frozenset()
    written: bool = True
    soft: bool = False

    @property
    def variables(self) -> frozenset[str]:
        return variables(self.expr)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a negation or a repetition stands: after the ends of `left` and before the starts of `right`.

    None: no neighbour in its block bounds it on that side. `gap` is equal for negations that share one gap of a SEQ.
    """

    item: Pattern
    left: frozenset[str] | None
    right: frozenset[str] | None
    under_and: bool
    gap: tuple[int, ...]
    delays: tuple[Duration, ...] = ()  # of each FOR between `left` and here
    marked: Decided | None = None  # the mark before a repetition


@dataclass(frozen=True, slots=True)
class Repetition:
    place: Surroundings
    membership: tuple[Expr, ...]  # asked of each event by itself

    @property
    def head(self) -> str | None:
        """The variable of its first member, where that is a leaf of its own."""
        inner = None if self.place.marked is None else self.place.marked.pattern
        return inner.head if isinstance(inner, Headed) else None

    @property
    def leaf(self) -> Leaf:
        assert isinstance(self.place.item, Leaf)
        return self.place.item

    @property
    def var(self) -> str:
        return var_of(self.leaf)


@dataclass(frozen=True, slots=True)
class Negation:
    place: Surroundings
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class MarkedGap:
    """A mark of a block: the gap that it looks at, and for FIRST and LAST what it looks for there."""

    place: Surroundings
    looks: tuple[Look, ...]

    @property
    def marked(self) -> Decided:
        assert isinstance(self.place.item, Decided)
        return self.place.item


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative of the root or of a negated part."""

    pattern: Pattern
    fixed: frozenset[str]
    repetitions: tuple[Repetition, ...]  # each after those that bound it
    predicates: tuple[Expr, ...]  # asked once, when everything is bound
    negations: tuple[Negation, ...]
    marks: tuple[MarkedGap, ...]
    pauses: tuple[Pause, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        return self.fixed | {repetition.var for repetition in self.repetitions}

    @property
    def hidden(self) -> frozenset[str]:
        return frozenset(var for node in within_block(self.pattern) if isinstance(node, Exists) for var in node.vars)


@dataclass(frozen=True, slots=True)
class Above:
    """What the blocks around a negated part have bound; and what stands around each variable of the query."""

    fixed: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    sides: Mapping[str, Sides] = field(default_factory=dict, compare=False)


def take_apart(query: Query) -> tuple[Alternative, ...]:
    """The alternatives of a query in which every leaf and every mention is named."""
    check_mentions(query)
    check_marks(query.pattern)
    check_lasting(query.pattern)
    check_optional(query.pattern)
    check_until(query.pattern)
    around = Above(sides=dict(sides_of(query.pattern)))
    return blocks(query.pattern, closed(query), around, windowed=query.within is not None or query.between is not None)


def check_until(pattern: Pattern) -> None:
    """UNTIL ends a repetition, and asks single events."""
    for leaf in leaves_of(pattern):
        if leaf.until is not None:
            if leaf.repeat is None:
                raise UndefinedError("UNTIL stands behind a repetition only")
            if any(isinstance(node, Call) and node.function in AGGREGATES for node in walk(leaf.until)):
                raise UndefinedError("UNTIL cannot use an aggregate")


def blocks(pattern: Pattern, given: tuple[Conjunct, ...], above: Above, *, windowed: bool) -> tuple[Alternative, ...]:
    """One block for each alternative of a root or a negated pattern, with its share of the given conjuncts."""
    parted = negated_variables(pattern)
    return tuple(block(chosen, parted, given, above, windowed=windowed) for chosen in alternatives(pattern))


def block(
    chosen: Pattern,
    parted: frozenset[str],
    given: tuple[Conjunct, ...],
    above: Above,
    *,
    windowed: bool,
) -> Alternative:
    places = tuple(places_in(chosen, None, None, under_and=False, path=()))
    repeated = [place for place in places if isinstance(place.item, Leaf)]
    check_declarations(chosen, above)
    check_repetitions(chosen, repeated, windowed=windowed)
    leaves = tuple(node for node in within_block(chosen) if isinstance(node, Leaf))
    sets = variables_of(leaf for leaf in leaves if leaf.repeat is not None)
    fixed = variables_of(leaves) - sets
    own = Above(above.fixed | fixed, above.repeated | sets, above.sides)
    skipped = frozenset[str]().union(*(node.without for node in within_block(chosen) if isinstance(node, ChosenSeq)))
    mine, below = shared_out(given, places, parted - variables_of(leaves), skipped, own)
    at_leaves = tuple(Conjunct(expr) for leaf in leaves for expr in conjuncts(leaf.where))
    optional = tuple(place for place in places if isinstance(place.item, NoEvent))
    asked, inside = shared_out(at_leaves, optional, frozenset(), frozenset(), own)
    mine += asked
    for place, more in inside.items():
        below[place] += more
    predicates, membership = by_member(mine, sets, own, above)
    return Alternative(
        chosen,
        fixed,
        tuple(Repetition(place, tuple(membership[var_of(place.item)])) for place in in_turn(repeated)),
        predicates,
        tuple(
            Negation(place, blocks(place.item.pattern, below[place], own, windowed=False))
            for place in places
            if isinstance(place.item, Not)
        ),
        tuple(
            MarkedGap(place, tuple(looks(place.item, mine, own))) for place in places if isinstance(place.item, Decided)
        ),
        tuple(pauses(chosen, ends, starts)),
    )


def looks(marked: Decided, mine: Sequence[Conjunct], own: Above) -> Iterator[Look]:
    """What a FIRST or LAST looks for: events for which the leaf and the conjuncts that count are TRUE."""
    for leaf in looked_for(marked):
        asked = [Conjunct(expr) for expr in conjuncts(leaf.where)]
        for conjunct in mine:
            if conjunct not in asked and counts_for(marked, leaf, conjunct.variables, own.sides[var_of(leaf)]):
                asked.append(conjunct)
        members = [conjunct for conjunct in asked if bare_variables(conjunct.expr) & own.repeated]
        if any(conjunct.written for conjunct in members):
            raise UndefinedError(f"{marked.mark} cannot use a conjunct over single members of a repetition")
        yield Look(leaf, tuple(conjunct.expr for conjunct in asked if conjunct not in members))


# --- names -------------------------------------------------------------------------------------------------------


def with_names(query: Query) -> Query:
    """The query with a variable at every leaf, and every mention spelt as that variable.

    An unnamed leaf is called by its type; of several of one type, A1 is the first and A2 the second.
    """
    full = named(query)
    written, called = leaves_of(query.pattern), leaves_of(full.pattern)
    spelt: dict[str, str] = {}
    for kind in {leaf.type for leaf in written if leaf.var is None}:
        given = [var_of(new) for old, new in zip(written, called, strict=True) if old.type == kind and old.var is None]
        type = kind or "ANY"
        given = list(dict.fromkeys(given))  # branches of an OR share a name
        spelt |= {
            f"{type}{number}": var
            for number, var in enumerate(given, 1)
            if f"{type}{number}" not in variables_of(called)
        }
        if len(given) > 1:
            spelt[type] = AMBIGUOUS
    return respelt(full, {name: var for name, var in spelt.items() if name not in {leaf.var for leaf in written}})  # type: ignore[no-any-return]


def with_own(query: Query, attributes: frozenset[str]) -> Query:
    """The query with start(x) for `x.time`, end(x) for `x.end` and so on, where the events have no such attribute."""

    def owned(node: Any) -> Any:
        match node:
            case tuple():
                return tuple(map(owned, node))
            case Attr(var, name) if name in OWN and name not in attributes:
                return Call(OWN[name], (Name(var),))
        if not hasattr(node, "__dataclass_fields__"):
            return node
        return replace(node, **{part.name: owned(getattr(node, part.name)) for part in fields(node)})

    return replace(query, pattern=owned(query.pattern), where=owned(query.where))


AMBIGUOUS = ""


def respelt(node: Any, spelt: Mapping[str, str]) -> Any:
    """Return the syntax tree with every mention of a variable replaced by its name in `spelt`."""
    match node:
        case tuple():
            return tuple(respelt(member, spelt) for member in node)
        case Attr(var) | Endpoint(var):
            return replace(node, var=mentioned(var, spelt))
        case Name(name):
            return replace(node, name=mentioned(name, spelt))
        case Exists(hidden, pattern):
            return replace(node, vars=tuple(mentioned(v, spelt) for v in hidden), pattern=respelt(pattern, spelt))
    if not hasattr(node, "__dataclass_fields__"):
        return node
    return replace(node, **{part.name: respelt(getattr(node, part.name), spelt) for part in fields(node)})


def mentioned(name: str, spelt: Mapping[str, str]) -> str:
    if spelt.get(name, name) == AMBIGUOUS:
        raise UndefinedError(f"{name} could mean several leaves", hint=f"write {name}1, {name}2, or name them")
    return spelt.get(name, name)


# --- alternatives --------------------------------------------------------------------------------------------------


def alternatives(pattern: Pattern, *, behind: bool = False) -> Iterator[Pattern]:
    """Every way to choose one branch of each OR; the insides of negations keep theirs.

    `behind`: something positive of the block stands to its left.
    """
    match pattern:
        case Or(items):
            if any(isinstance(item, Not) for item in items):
                raise UndefinedError("a negation cannot stand directly under OR")
            for item in items:
                yield from alternatives(item, behind=behind)
        case Seq(items) | And(items) if all(isinstance(item, Not) for item in items):
            raise UndefinedError("SEQ and AND need at least one positive item")
        case Seq(items):
            yield from (ChosenSeq(chosen, without=without) for chosen, without in sequences(items, behind))
        case And(items):
            for chosen in product(*(tuple(alternatives(item, behind=behind)) for item in items)):
                yield replace(pattern, items=chosen)
        case Exists(_, inner):
            yield from (replace(pattern, pattern=chosen) for chosen in alternatives(inner, behind=behind))
        case Rel(_, left, _):
            yield from (replace(pattern, left=chosen) for chosen in alternatives(left, behind=behind))
        case Marked(mark, inner, of) if is_repetition(inner):
            held = inner if behind or mark == "LAST" else first_place(inner)
            yield Decided(mark, held, of, whole=held)
        case Marked(mark, inner, of):
            yield from (Decided(mark, chosen, of, whole=inner) for chosen in alternatives(inner, behind=behind))
        case Not(Not()):
            raise UndefinedError("a negation of a negation", hint="negate a SEQ that holds the inner negation")
        case _:
            yield pattern


@dataclass(frozen=True, slots=True)
class ChosenSeq(Seq):
    """A SEQ of which every choice is made; `without`: the variables of its MAYBE items that are absent."""

    without: frozenset[str] = frozenset()


def sequences(items: tuple[Pattern, ...], behind: bool) -> Iterator[tuple[tuple[Pattern, ...], frozenset[str]]]:
    """The ways to choose for all items of a SEQ, one after the other, with the variables of absent MAYBE items."""
    if not items:
        yield (), frozenset()
    for way in ways(items[0], behind) if items else ():
        own = variables_of(leaves_of(items[0])) if not way else frozenset()
        now = behind or any(not isinstance(part, Not) for part in way)
        yield from (((*way, *more), own | without) for more, without in sequences(items[1:], now))


def ways(item: Pattern, behind: bool) -> Iterator[tuple[Pattern, ...]]:
    """The ways in which an item stands in its SEQ; one that may be absent also is."""
    if may_be_absent(item):
        yield from ((chosen,) for chosen in alternatives(there(item), behind=behind))
        yield gone(item, behind)
    else:
        yield from ((chosen,) for chosen in alternatives(item, behind=behind))


def within_block(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and everything below it that is not inside a negation."""
    yield pattern
    if not isinstance(pattern, Not):
        for item in items_of(pattern):
            yield from within_block(item)


def var_of(leaf: Pattern) -> str:
    assert isinstance(leaf, Leaf)
    assert leaf.var is not None, "named() gives every leaf a variable"
    return leaf.var


def variables_of(leaves: Iterable[Leaf]) -> frozenset[str]:
    return frozenset(var_of(leaf) for leaf in leaves)


def negated_variables(pattern: Pattern) -> frozenset[str]:
    """Variables declared inside the negations of a block, at any depth and in any branch."""
    negations = (node for node in within_block(pattern) if isinstance(node, Not))
    return frozenset().union(*(variables_of(leaves_of(node)) for node in negations))


# --- scopes: docs/semantics.md, 4 ----------------------------------------------------------------------------------


def places_in(
    pattern: Pattern,
    left: frozenset[str] | None,
    right: frozenset[str] | None,
    *,
    under_and: bool,
    path: tuple[int, ...],
    delays: tuple[Duration, ...] = (),
    beyond: frozenset[str] | None = None,
) -> Iterator[Surroundings]:
    """Negations and repetitions with their scopes, when the pattern itself has the scope between left and right.

    `beyond` is the next step to the right that is no repetition found from its left: it ends the gap of such ones.
    """
    match pattern:
        case Decided() if repetition_in(pattern) is not None:
            yield gathering(pattern, left, beyond if from_left(pattern) else right, path, delays)
        case Not() | Leaf(repeat=Repeat()):
            yield Surroundings(pattern, left, right, under_and, path, delays)
        case Seq(items):
            for index, item in enumerate(items):
                before = [other for other in items[:index] if not isinstance(other, Not)]
                after = [other for other in items[index + 1 :] if not isinstance(other, Not)]
                low = ends(before[-1]) if before else left
                high = starts(after[0]) if after else right
                here = (*path, len(before)) if isinstance(item, Not) else (*path, index, 0)
                steps = [step for other in items[index + 1 :] for step in steps_of(other) if not from_left(step)]
                far = starts(steps[0]) if steps else beyond
                step = right is not None or not isinstance(item, Not) or bool(after)
                waits = lengths_before(items, index, delays, behind=step) if low is not None else ()
                yield from places_in(item, low, high, under_and=False, path=here, delays=waits, beyond=far)
                if isinstance(item, Decided) and repetition_in(item) is None:
                    yield mark_place(item, low, high, here, waits)
        case And(items):
            for index, item in enumerate(items):
                here = (*path, index, 0)
                yield from places_in(item, left, right, under_and=True, path=here, delays=delays, beyond=beyond)
        case Exists(_, inner) | Rel(_, inner, _) | Marked(_, inner):
            yield from places_in(inner, left, right, under_and=under_and, path=path, delays=delays, beyond=beyond)


def gathering(
    item: Decided,
    low: frozenset[str] | None,
    high: frozenset[str] | None,
    path: tuple[int, ...],
    delays: tuple[Duration, ...],
) -> Surroundings:
    """The gap of a repetition with a mark: behind its first member, where that is a leaf of its own."""
    if isinstance(item.pattern, Headed):
        low, delays = frozenset((item.pattern.head,)), ()
    leaf = repetition_in(item)
    assert leaf is not None
    return Surroundings(leaf, low, high, False, path, delays, item)


def mark_place(
    item: Decided,
    low: frozenset[str] | None,
    high: frozenset[str] | None,
    path: tuple[int, ...],
    delays: tuple[Duration, ...],
) -> Surroundings:
    """The gap that a mark looks at: before its item, or behind it for LAST."""
    if item.mark == "LAST":
        return Surroundings(item, ends(item), high, False, path)
    if item.mark == "NEXT" and low is None:
        raise UndefinedError("NEXT has nothing before it", hint="it says that nothing comes between two steps")
    return Surroundings(item, low, starts(item), False, path, delays)


def starts(pattern: Pattern) -> frozenset[str]:
    """The variables whose events decide where a positive part starts."""
    return ends_of(pattern, first=True)


def ends(pattern: Pattern) -> frozenset[str]:
    """The variables whose events decide where a positive part ends."""
    return ends_of(pattern, first=False)


def ends_of(pattern: Pattern, *, first: bool) -> frozenset[str]:
    if isinstance(pattern, Leaf):
        return frozenset((var_of(pattern),))
    positive = [item for item in items_of(pattern) if not isinstance(item, Not)]
    if isinstance(pattern, Seq):  # its items are ordered: only the outermost one decides
        positive = positive[:1] if first else positive[-1:]
    return frozenset().union(*(ends_of(item, first=first) for item in positive))


def in_turn(places: list[Surroundings]) -> list[Surroundings]:
    """Repetitions in an order in which each stands after those that bound it."""
    done: list[Surroundings] = []
    waiting = list(places)
    while waiting:
        open_ = {var_of(place.item) for place in waiting}
        ready = [place for place in waiting if not open_ & ((place.left or frozenset()) | (place.right or frozenset()))]
        if not ready:
            raise UndefinedError("two repetitions bound each other", hint="put a plain event between them")
        done += ready
        waiting = [place for place in waiting if place not in ready]
    return done


def check_repetitions(chosen: Pattern, repeated: list[Surroundings], *, windowed: bool) -> None:
    """What a repetition may not be (docs/semantics.md, 6)."""
    for node in within_block(chosen):
        if isinstance(node, (Iseq, Rel)) and any(leaf.repeat for leaf in leaves_of(node)):
            raise UndefinedError("a repetition cannot stand inside ISEQ or REL")
    reaching = [place for place in repeated if place.left is None or place.right is None]
    circular = [place for place in reaching if place.marked is None or not from_left(place.marked)]
    if windowed and len(reaching) > 1 and circular:
        raise UndefinedError("two repetitions reach the bounds of the window", hint="put a plain event at one end")
    for one, other in combinations(repeated, 2):
        types = {one.item.type, other.item.type}  # type: ignore[union-attr]
        if (len(types) == 1 or ANY in types) and not separated(chosen, var_of(one.item), var_of(other.item)):
            raise UndefinedError("two repetitions of one type are not separated", hint="order them with SEQ")


def separated(pattern: Pattern, one: str, other: str) -> bool:
    """Whether two variables stand in different items of one SEQ."""
    for item in items_of(pattern):
        held = variables_of(leaves_of(item))
        if one in held and other in held:
            return separated(item, one, other)
    return isinstance(pattern, Seq)


# --- predicates: docs/semantics.md, 5 ------------------------------------------------------------------------------


def closed(query: Query) -> tuple[Conjunct, ...]:
    """The conjuncts of WHERE with the equalities among attributes closed transitively; `[attr]` opened."""
    written = [expr for expr in conjuncts(query.where) if not isinstance(expr, Same)]
    equal = {frozenset(pair) for expr in written if (pair := equality(expr))}
    everyone = sorted(variables_of(leaves_of(query.pattern)) | heads(query.pattern))
    same = {
        frozenset(((one, attr), (other, attr)))
        for attr in key_attributes(query)
        for one, other in combinations(everyone, 2)
    }
    hard, full = classes(equal), classes(equal | same)
    result = []
    for expr in written:
        pair = equality(expr)
        kin = frozenset(var for group in full if pair and pair[0] in group for var, _ in group)
        result.append(Conjunct(expr, kin))
    for group in full:
        kin = frozenset(var for var, _ in group)
        for one, other in combinations(sorted(group), 2):
            if frozenset((one, other)) not in equal:
                soft = not any(one in related and other in related for related in hard)
                expr = Binary("=", Attr(*one), Attr(*other))
                result.append(Conjunct(expr, kin, written=False, soft=soft))
    return tuple(result)


def key_attributes(query: Query) -> tuple[str, ...]:
    """The attributes of `[attr]` and PARTITION BY: the key of the query."""
    same = (attr for expr in conjuncts(query.where) if isinstance(expr, Same) for attr in expr.attrs)
    return tuple(dict.fromkeys((*same, *query.partition)))


def equality(expr: Expr) -> tuple[Key, Key] | None:
    """The two sides of `x.a = y.b`."""
    match expr:
        case Binary("=", Attr(x, a), Attr(y, b)) if (x, a) != (y, b):
            return (x, a), (y, b)
    return None


def classes(pairs: Iterable[frozenset[Key]]) -> list[frozenset[Key]]:
    """The sets of keys that a set of equalities relates."""
    groups: list[frozenset[Key]] = []
    for pair in pairs:
        touching = [group for group in groups if group & pair]
        groups = [group for group in groups if not group & pair] + [pair.union(*touching)]
    return groups


def shared_out(
    given: tuple[Conjunct, ...],
    places: tuple[Surroundings, ...],
    parted: frozenset[str],
    skipped: frozenset[str],
    own: Above,
) -> tuple[tuple[Conjunct, ...], dict[Surroundings, tuple[Conjunct, ...]]]:
    """The given conjuncts split into those of this block and those that move into one of its negated parts.

    `parted` are variables of negated parts in branches that were not chosen: their conjuncts moved away with them.
    `skipped` are variables of MAYBE items that are absent: conjuncts over them are dropped, unless they moved.
    """
    inside = {place: variables_of(leaves_of(place.item)) for place in places if isinstance(place.item, Not)}
    mine: list[Conjunct] = []
    below: dict[Surroundings, tuple[Conjunct, ...]] = dict.fromkeys(inside, ())
    known = (own.fixed | own.repeated).union(*inside.values())
    for conjunct in given:
        parts = [place for place in inside if asked_of(place, conjunct) & inside[place]]
        if conjunct.soft and not conjunct.variables <= known:
            continue
        if any(is_absent_set(place) and stepped_variables(conjunct.expr) & inside[place] for place in inside):
            continue
        if len(parts) > 1:
            if all(isinstance(place.item, NoEvent) for place in parts):
                continue
            if not conjunct.kin & (own.fixed | skipped):  # where the third one is null, nothing of the class is TRUE
                raise UndefinedError(
                    "a predicate relates variables of two negated parts",
                    hint="relate each of them to a variable outside them",
                )
        elif parts:
            below[parts[0]] += (conjunct,)
        elif not conjunct.variables & (parted - known) and not conjunct.variables & skipped:
            mine.append(conjunct)
    return tuple(mine), below


def asked_of(place: Surroundings, conjunct: Conjunct) -> frozenset[str]:
    """The variables by which a conjunct belongs to a negated part; of an absent set it is asked once, by aggregates."""
    return bare_variables(conjunct.expr) if is_absent_set(place) else conjunct.variables


def is_absent_set(place: Surroundings) -> bool:
    return isinstance(place.item, NoEvent) and place.item.is_set


def by_member(
    mine: tuple[Conjunct, ...], repeated: frozenset[str], own: Above, above: Above
) -> tuple[tuple[Expr, ...], dict[str, list[Expr]]]:
    """The conjuncts of a block split into those asked once and those that decide membership of a repetition."""
    once: list[Expr] = []
    membership: dict[str, list[Expr]] = {var: [] for var in repeated}
    for conjunct in mine:
        if stepped_variables(conjunct.expr) & own.fixed:
            raise UndefinedError("prev needs a repeated variable")
        of_members = bare_variables(conjunct.expr) & own.repeated
        beside_a_set = bool(of_members) and bool(set_variables(conjunct.expr) & repeated)
        if len(of_members) > 1 or of_members & above.repeated or beside_a_set:
            if conjunct.written or not conjunct.kin & own.fixed:
                raise UndefinedError(
                    "a conjunct relates a repeated variable to an aggregate or to another repeated one"
                )
        elif of_members and not stepped_variables(conjunct.expr):
            membership[next(iter(of_members))].append(conjunct.expr)
        else:
            once.append(conjunct.expr)
    return tuple(once), membership


def check_declarations(chosen: Pattern, above: Above) -> None:
    """In one alternative a variable is declared once."""
    names = sorted(above.fixed | above.repeated)
    for node in within_block(chosen):
        if isinstance(node, (Leaf, Not)):
            names += variables_of(leaves_of(node))  # below a negation branches of an OR may share a name
    for name in names:
        if names.count(name) > 1:
            raise UndefinedError(f"{name} is declared twice", hint="give each leaf its own variable")


def check_mentions(query: Query) -> None:
    """Every variable exists, and nothing looks into a negated part from outside."""
    declared = variables_of(leaves_of(query.pattern))
    for expr in conjuncts(query.where):
        require(variables(expr), declared, "is not declared")
        if not isinstance(expr, Same) and any(isinstance(node, Same) for node in walk(expr)):
            raise UndefinedError("[attr] can only stand by itself among the conjuncts of WHERE")
    visible = variables_of(node for node in within_block(query.pattern) if isinstance(node, Leaf))
    hidden = {var for node in within_block(query.pattern) if isinstance(node, Exists) for var in node.vars}
    for item in query.select:
        require(variables(item.expr), visible - hidden, "is negated, hidden or not declared, and SELECT mentions it")
    check_leaves(query.pattern, frozenset())


def check_leaves(pattern: Pattern, outer: frozenset[str]) -> None:
    """A leaf predicate sees its own block and the blocks around it, never a deeper or a sibling negated part."""
    nodes = list(within_block(pattern))
    visible = outer | variables_of(node for node in nodes if isinstance(node, Leaf))
    for node in nodes:
        if isinstance(node, Leaf):
            for expr in conjuncts(node.where):
                require(variables(expr), visible, "is negated or not declared, and the predicate of a leaf mentions it")
        if isinstance(node, Exists):
            require(frozenset(node.vars), visible - outer, "is not bound below its EXISTS")
        if isinstance(node, Not):
            check_leaves(node.pattern, visible)


def require(mentioned: frozenset[str], allowed: frozenset[str] | set[str], problem: str) -> None:
    for var in sorted(mentioned - allowed):
        raise UndefinedError(f"{var} {problem}")
