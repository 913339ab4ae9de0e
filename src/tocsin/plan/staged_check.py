"""The static checks of staged statements: each rule is a function that yields what breaks it, with place and hint."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from tocsin.errors import Problem, QueryError
from tocsin.lang.staged_syntax import (
    COUNTING,
    TIMED,
    AggregateOf,
    AttrOf,
    Collection,
    Initiator,
    LeafOperand,
    NestedBlock,
    OperatorCall,
    Quantifier,
    StableTime,
    StagedExpr,
    StagedPattern,
    Statement,
    Terminator,
    TimeOf,
    parts,
)
from tocsin.lang.syntax import Duration
from tocsin.plan.staged_check_keys import key_problems
from tocsin.plan.staged_check_select import select_problems
from tocsin.plan.staged_places import OperandPlace, StatementPlaces, bounds_of, mode_of
from tocsin.schema import Schema

TIME_PATTERN = re.compile(r"(\*{4}|\d{4})/(\*\*|\d\d)/(\*\*|\d\d)/(\*\*|\d\d):(\*\*|\d\d):(\*\*|\d\d)\.(\*{3}|\d{3})")
LIMITS = ((1, 9999), (1, 12), (1, 31), (0, 23), (0, 59), (0, 59), (0, 999))
Found = Iterator[Problem]
BUILT_POLICIES = ("BEST-EFFORT", "GUARANTEED")


def check_statements(statements: Sequence[Statement], schema: Schema | None = None) -> tuple[str, ...]:
    """Check statements that are defined together; raises QueryError with all problems, returns notes."""
    text = statements[0].text if statements else ""
    problems = [*_names(statements), *_cycles(statements)]
    for statement in statements:
        problems += problems_of(statement, schema)
    if problems:
        raise QueryError(problems, text)
    return tuple(note for statement in statements for note in notes_of_statement(statement))


def check_together(statements: Sequence[Statement]) -> None:
    """Refuse statements that share a name or read their own events, whatever else is wrong with each."""
    problems = [*_names(statements), *_cycles(statements)]
    if problems:
        raise QueryError(problems, statements[0].text)


def problems_of(statement: Statement, schema: Schema | None = None) -> list[Problem]:
    """Everything that is wrong with one statement by itself."""
    places = StatementPlaces(statement)
    rules: tuple[Callable[[StatementPlaces], Found], ...] = (
        _labels, _operands, _modes, _options, _sequences, _timed, _counting, _thresholds, _where, _scope, _policy,
    )  # fmt: skip
    found = [problem for rule in rules for problem in rule(places)]
    found += [*key_problems(places), *select_problems(places)]
    return found if schema is None else [*found, *_strict(places, schema)]


# --- several statements ------------------------------------------------------------------------------------------


def _names(statements: Sequence[Statement]) -> Found:
    seen: set[str] = set()
    for statement in statements:
        if statement.name in seen:
            yield Problem(f"a second statement {statement.name}", statement.span, hint="give it another name")
        seen.add(statement.name)


def _cycles(statements: Sequence[Statement]) -> Found:
    """A statement that reads itself, directly or through others."""
    reads = {each.name: StatementPlaces(each).types for each in statements}
    for statement in statements:
        way, waiting = set[str](), [statement.name]
        while waiting:
            for type in reads.get(waiting.pop(), ()):
                if type not in way:
                    way.add(type)
                    waiting.append(type)
        if statement.name in way:
            others = sorted((way & set(reads)) - {statement.name})
            detail = f"it reads {', '.join(others)}, which reads it" if others else "it is an input of itself"
            hint = "inputs of a statement are primitive events and statements below it"
            yield Problem(f"the statement {statement.name} reads its own events", statement.span, detail, hint)
            return


def strata(statements: Sequence[Statement]) -> list[list[int]]:
    """The numbers of the statements by stratum: each reads only primitive events and lower strata."""
    reads = [StatementPlaces(each).types for each in statements]
    names = {each.name for each in statements}
    layers: list[list[int]] = []
    known: set[str] = set()
    left = list(range(len(statements)))
    while left:
        ready = [at for at in left if reads[at] & names <= known]
        layers.append(ready)
        known |= {statements[at].name for at in ready}
        left = [at for at in left if at not in ready]
    return layers


# --- one statement: names ----------------------------------------------------------------------------------------


def _labels(places: StatementPlaces) -> Found:
    statement = places.statement
    bounded: tuple[Statement | NestedBlock, ...] = (statement, *places.blocks)
    operands = [place.node for place in places.places if not isinstance(place.node, NestedBlock)]
    labelled = [*operands, *(role for each in bounded for role in bounds_of(each))]
    labels = [(each.label, each.span) for each in labelled if each.label is not None]
    keys = [key for each in bounded for key in (*each.gkeys, *each.lkeys)]
    labels += [(key.name, key.span) for key in keys if key.name is not None]
    counts = Counter(label for label, _ in labels)
    bare = {str(role.type) for role in places.roles if role.label is None}
    for label, span in labels:
        if counts[label] > 1:
            yield Problem(f"the label {label} is given twice", span, hint="labels are unique in a statement")
        elif label in bare:
            hint = "a role without a label is called by its type; choose another label"
            yield Problem(f"the label {label} is also the name of an unlabelled role", span, hint=hint)


def _strict(places: StatementPlaces, schema: Schema) -> Found:
    for role in places.roles if schema.strict else ():
        if not schema.has_type(str(role.type)):
            yield Problem(f"there is no event type {role.type}", role.span, hint="declare it in the schema")


# --- operands ----------------------------------------------------------------------------------------------------


def _operands(places: StatementPlaces) -> Found:
    for place in places.leaves:
        leaf = place.node
        assert isinstance(leaf, LeafOperand)
        if leaf.rows is not None and leaf.stages is not None:
            yield Problem(f"{leaf.called} has rows and stages", leaf.span, hint="a list has one of the two")
        if leaf.weight is not None and not (place.above and place.above[-1][0].operator in COUNTING):
            yield Problem(f"{leaf.called} has a weight, but nothing counts it", leaf.span, hint="weights are for Nth")
        if leaf.weight is not None and leaf.weight <= 0:
            yield Problem("a weight is greater than 0", leaf.span, hint="an operand that does not count is left out")
    for place in places.operators:
        call = place.node
        assert isinstance(call, OperatorCall)
        wanted = {"Unless": 2, "Not": 1}.get(call.operator)
        if wanted is not None and len(call.operands) != wanted:
            message = f"{call.operator} has {wanted} operand{'s' * (wanted > 1)}, found {len(call.operands)}"
            yield Problem(message, call.span, hint="put several into And(...) or Or(...)")


def _modes(places: StatementPlaces) -> Found:
    for place in places.operators:
        call = place.node
        assert isinstance(call, OperatorCall)
        mode, above = mode_of(call), [outer for outer, _ in place.above]
        if call.operator == "Not" and mode != "deferred":
            hint = "whether nothing came is known only then; leave the mode out"
            yield Problem(f"Not cannot be {mode}: it is decided when its context ends", call.span, hint=hint)
        elif call.operator in TIMED and mode != "immediate":
            yield Problem(
                f"{call.operator} cannot be {mode}: it happens at its time", call.span, hint="leave the mode out"
            )
        elif mode == "delayed" and (above or place.block is not None):
            yield Problem("only the whole pattern can be delayed", call.span, hint="put <delayed> at its end")
        elif mode == "deferred" and any(_closed(outer, at) for outer, at in place.above):
            hint = "give it a statement of its own"
            yield Problem("a deferred operator inside a negation or a count", call.span, hint=hint)
        elif mode == "deferred" and any(mode_of(outer) in ("deferred", "delayed") for outer in above):
            hint = "an immediate pattern runs once more when its context ends: leave the outer mode out"
            yield Problem("a deferred operator inside a deferred or delayed one", call.span, hint=hint)


def _options(places: StatementPlaces) -> Found:
    root = places.statement.pattern
    for place in places.operators:
        call = place.node
        if isinstance(call, OperatorCall) and call.options and call is not root:
            hint = f"put <{call.options[0]}> at its end"
            yield Problem(f"only the whole pattern can be {call.options[0]}", call.span, hint=hint)
    options = places.statement.options
    for each in options:
        if places.mode == "deferred" and each != "distinct":
            hint = "leave <deferred> out, or the option"
            yield Problem(f"a deferred pattern cannot be {each}", root.span, hint=f"it is looked for once: {hint}")
    leaves = [place.node for place in places.leaves if isinstance(place.node, LeafOperand) and not place.negated]
    if "repeat" in options and not any(leaf.consume for leaf in leaves):
        hint = "write A<consume>: looking again finds the same unless events are gone"
        yield Problem("repeat needs an operand that is consumed", root.span, hint=hint)
    asks = any(isinstance(part, TimeOf) and part.which == "sst" for part in parts(places.statement))
    if "active" in options and not asks and not any(_gives_way(place) for place in places.leaves):
        hint = "write for example Unless(A, B<range 5>)<active>: it looks again when B is too old"
        yield Problem("active needs a negated or counted operand with a range, or sst", root.span, hint=hint)


def _gives_way(place: OperandPlace) -> bool:
    """Whether events of a leaf that are too old may make room for a match."""
    has_range = isinstance(place.node, LeafOperand) and place.node.range is not None
    return has_range and place.block is None and (place.negated or place.counted_by is not None)


def _closed(call: OperatorCall, at: int) -> bool:
    return call.operator in ("Not", *COUNTING) or (call.operator == "Unless" and at == 1)


def _sequences(places: StatementPlaces) -> Found:
    for place in places.operators:
        call = place.node
        if isinstance(call, OperatorCall) and call.operator == "Sequence":
            for each in call.operands[:-1]:
                if _is_empty(each):
                    hint = "an operand that binds nothing may stand last, where it ends with the context"
                    yield Problem("an operand without events in a Sequence", each.span, hint=hint)
            for each in call.operands[:-1]:
                if isinstance(each, OperatorCall) and each.operator in ("At", "Every"):
                    hint = "a tick is there in its own stage only: give it a statement of its own"
                    yield Problem("nothing can follow a tick in a Sequence", each.span, hint=hint)


def _is_empty(node: StagedPattern) -> bool:
    """Whether a match of the node may have no events: Not, and what is made of it."""
    if not isinstance(node, OperatorCall):
        return False
    match node.operator:
        case "Not":
            return True
        case "Or":
            return any(map(_is_empty, node.operands))
        case "Unless":
            return _is_empty(node.operands[0])
    return bool(node.operands) and node.operator not in COUNTING and all(map(_is_empty, node.operands))


def _timed(places: StatementPlaces) -> Found:
    for place in places.operators:
        call = place.node
        assert isinstance(call, OperatorCall)
        if call.operator == "At":
            found = TIME_PATTERN.fullmatch(call.pattern or "")
            fields = () if found is None else zip(found.groups(), LIMITS, strict=True)
            if found is None or any(not _fits(field, low, high) for field, (low, high) in fields):
                hint = "write yyyy/mm/dd/hh:mm:ss.mmm with digits or * in each field: ****/**/**/12:00:00.000"
                yield Problem("this is no time pattern", call.span, hint=hint)
        if call.operator == "After":
            yield from _after(call)


def _fits(field: str, low: int, high: int) -> bool:
    return "*" in field or low <= int(field) <= high


def _after(call: OperatorCall) -> Found:
    leaf = call.operands[0]
    if not isinstance(leaf, LeafOperand):
        hint = "give the pattern a statement of its own and write After(Name, 10)"
        yield Problem("After waits for events of one type", leaf.span, hint=hint)
    elif leaf != LeafOperand(leaf.type, leaf.label, leaf.conditions) or leaf.quantifier != Quantifier():
        hint = "how many may be pending is written After(E[rows 1, add], 10)"
        yield Problem("the operand of After takes conditions only", leaf.span, hint=hint)


def _counting(places: StatementPlaces) -> Found:
    """A condition that would compare two operands of one counting operator."""
    for conjunct in places.conjuncts:
        inside: dict[int, set[int]] = {}
        for place in _mentioned(places, conjunct):
            for call, at in place.above:
                if call.operator in COUNTING:
                    inside.setdefault(id(call), set()).add(at)
        if any(len(operands) > 1 for operands in inside.values()):
            hint = "count them in And(A, B) as one operand"
            yield Problem("a condition over two operands that are counted apart", conjunct.span, hint=hint)


# --- conditions --------------------------------------------------------------------------------------------------


def _mentioned(places: StatementPlaces, node: StagedExpr) -> list[OperandPlace]:
    return [place for name, _ in places.mentions(node) for place in places.operands(name)]


def _thresholds(places: StatementPlaces) -> Found:
    bounded: tuple[Statement | NestedBlock, ...] = (places.statement, *places.blocks)
    openers = {id(term): each.inits for each in bounded for term in each.terms}
    for role in places.roles:
        names = {init.called for init in openers.get(id(role), ()) if init.type is not None}
        for condition in role.conditions:
            if isinstance(role, Terminator) and _is_cross(places, role, condition, names):
                yield from _cross(role, condition, names)
            else:
                yield from _own(role, condition)


def _is_cross(places: StatementPlaces, role: Terminator, condition: StagedExpr, openers: set[str]) -> bool:
    names = {name for name, _ in places.mentions(condition)} - {role.called}
    return any(isinstance(part, AggregateOf) for part in parts(condition)) or bool(names & openers)


def _own(role: LeafOperand | Initiator | Terminator, condition: StagedExpr) -> Found:
    for part in parts(condition):
        if isinstance(part, AggregateOf):
            hint = "aggregates stand in Select, and in conditions of terminators"
            yield Problem("an aggregate in a condition on one event", part.span, hint=hint)
        elif isinstance(part, (AttrOf, TimeOf)) and part.name not in (None, role.called):
            hint = "conditions between operands stand in Where"
            yield Problem(f"the condition of {role.called} mentions {part.name}", part.span, hint=hint)


def _cross(role: Terminator, condition: StagedExpr, openers: set[str]) -> Found:
    inside = {id(each) for part in parts(condition) if isinstance(part, AggregateOf) for each in parts(part)}
    for part in parts(condition):
        if isinstance(part, TimeOf) or (isinstance(part, AttrOf) and id(part) not in inside):
            shown = f"Max({part.name or role.called}.{part.attr if isinstance(part, AttrOf) else 'x'})"
            hint = f"several events may open or close a context: write {shown}, or a condition of its own"
            yield Problem("a comparison with initiators needs an aggregate", part.span, hint=hint)
        elif isinstance(part, (AttrOf, Collection)) and isinstance(name := _named(part), str):
            if name == role.called or name in openers:
                continue
            hint = "such a condition compares initiators with the terminator"
            yield Problem(f"{name} is no initiator", part.span, hint=hint)


def _named(part: AttrOf | Collection) -> str | None:
    if isinstance(part, AttrOf):
        return part.name
    return getattr(part.of, "name", None) if not isinstance(part.of, AggregateOf) else None


def _where(places: StatementPlaces) -> Found:
    where = places.statement.where
    for part in parts(where) if where is not None else ():
        if isinstance(part, AggregateOf):
            hint = "give the aggregate a statement of its own and compare its result"
            yield Problem("an aggregate in Where", part.span, hint=hint)
        elif isinstance(part, AttrOf) and part.name is None:
            yield Problem(
                f"whose attribute is {part.attr}?", part.span, hint=f"write the operand before it: A.{part.attr}"
            )
        elif isinstance(part, (AttrOf, TimeOf)):
            yield from _where_name(places, part)


def _where_name(places: StatementPlaces, part: AttrOf | TimeOf) -> Found:
    name = str(part.name)
    found = places.operands(name)
    if len(found) > 1:
        hint = "give the operands labels: A as first, A as second"
        yield Problem(f"{name} means {len(found)} operands", part.span, hint=hint)
    elif found and isinstance(part, AttrOf) and isinstance(found[0].node, OperatorCall):
        hint = f"an operator has times only: start-ts({name}), end-ts({name})"
        yield Problem(f"{name} is an operator and has no attributes", part.span, hint=hint)
    elif not found and (places.initiators(name) or places.terminators(name)):
        hint = "bound the context by conditions of the terminator: T<Max(I.k) = Max(T.k)>"
        yield Problem(f"Where mentions {name}, which bounds the context", part.span, hint=hint)
    elif not found:
        known = sorted({str(role.called) for role in places.roles})
        yield Problem(f"{name} is no operand", part.span, hint=f"there are {', '.join(known)}")


def _scope(places: StatementPlaces) -> Found:
    """What a negation or a count closes off may not be compared with an operand that follows."""
    for conjunct in places.conjuncts:
        mentioned = _mentioned(places, conjunct)
        for place in mentioned:
            for closed, other in product(place.closed_in, mentioned):
                outside = all(call is not closed for call, _ in other.above)
                if outside and other.number > place.number:
                    hint = "move the negated or counted operand behind the one that it is compared with"
                    names = f"{_shown(place)} inside {closed.operator} with {_shown(other)}"
                    yield Problem(f"a condition compares {names}, which follows it", conjunct.span, hint=hint)
                    return


def _shown(place: OperandPlace) -> str:
    return str(place.name)


def _policy(places: StatementPlaces) -> Found:
    policy = places.statement.policy
    if policy is None:
        return
    bounded = policy.timeout is not None or policy.level is not None
    if policy.kind not in BUILT_POLICIES or bounded:
        what = policy.kind + (" TIMEOUT" if policy.timeout is not None else " C-LEVEL" if bounded else "")
        hint = "on ordered input BEST-EFFORT and GUARANTEED are there; late events are a matter of order="
        yield Problem(f"the policy {what} is not built yet", policy.span, hint=hint)


# --- notes -------------------------------------------------------------------------------------------------------


def notes_of_statement(statement: Statement) -> Iterator[str]:
    """What looks strange, though it is not wrong."""
    places = StatementPlaces(statement)
    for place in places.operators:
        call = place.node
        if isinstance(call, OperatorCall) and call.operator == "AtMost" and places.mode == "immediate":
            yield f"{statement.name}: AtMost holds at every stage until there are too many; <deferred> asks once"
    for term in statement.terms:
        if isinstance(term.after, Duration) and (term.which != "each" or term.number is not None):
            what = "a duration closes the context that it is measured from"
            yield f"{statement.name}: {what}; <{term.which}> says nothing"
    if places.mode == "immediate" and not places.is_group and _repeats(places):
        yield (
            f"{statement.name}: matches come again at every later stage; to get each once, consume events, "
            "keep `stages 1`, or ask for what is new: <incremental> behind the pattern"
        )


def _repeats(places: StatementPlaces) -> bool:
    leaves = [place.node for place in places.leaves if isinstance(place.node, LeafOperand) and not place.negated]
    if "incremental" in places.statement.options:
        return False
    timed = any(isinstance(part, StableTime) for part in parts(places.statement.where))
    return len(leaves) > 0 and not timed and not any(leaf.consume or leaf.stages == 1 for leaf in leaves)
