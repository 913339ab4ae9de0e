"""From syntax to blocks: names, kinds and scopes are settled here, and every mistake gets its place and a hint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TypeAlias

from tocsin.errors import Problem, QueryError
from tocsin.events import TIME_LIMIT
from tocsin.functions import Function, registered
from tocsin.lang import syntax
from tocsin.lang.derived_syntax import Intervals
from tocsin.lang.printer import print_pattern, print_query
from tocsin.lang.staged_syntax import Statement
from tocsin.lang.syntax import Duration, OpenWindow, Query, Span, conjuncts
from tocsin.plan.bind_after_match import ClauseBinder, shows_nothing
from tocsin.plan.bind_consumption import Consuming, consuming
from tocsin.plan.bind_continuity import with_continuity
from tocsin.plan.bind_counting import counted, over_matches
from tocsin.plan.bind_under import bind_under, notes_on, under_constraints, with_traces
from tocsin.plan.block import Block, Output, Plan
from tocsin.plan.check import check_declarations, check_pattern, check_types, hidden_variables, types_named, types_read
from tocsin.plan.closure import Conditions, taken_apart
from tocsin.plan.draft import Draft, Drafter
from tocsin.plan.early import check_blocks, check_early, check_sources
from tocsin.plan.groups import with_first_members
from tocsin.plan.kinds import KindError, field_of, is_list, ticks
from tocsin.plan.marks import around_leaves, with_strategy
from tocsin.plan.names import clash, resolve
from tocsin.plan.optional import ways_of_absence
from tocsin.plan.outputs import check_step, check_variables, outputs_of, variables_of
from tocsin.plan.pattern_tree import Part, Site, Woven, outer_members, parts, sites
from tocsin.plan.problems import Problems
from tocsin.plan.rewrite import blocks_below
from tocsin.plan.staged_places import StatementPlaces
from tocsin.plan.timeouts import beginnings, check_clauses, check_timeout
from tocsin.plan.typer import unknown_attribute, variables
from tocsin.plan.until import check_until
from tocsin.plan.where import Context, check_mentions, filled, impossible
from tocsin.schema import Field, Kind, Schema

MOST_STEPS = 80  # leaves of one alternative, negated ones included
MOST_LEVELS = 90  # of those, and of CASEs that stand in one another, which count twice


AnyQuery: TypeAlias = Query | Statement | Intervals


def bind(query: Query, schema: Schema, functions: Mapping[str, Function] | None = None) -> Plan:
    """The plan of a query over a schema; a QueryError that lists every problem found."""
    functions = registered() if functions is None else functions
    problems = Problems(query.text)
    under, whole = bind_under(query, schema, functions, problems), schema
    problems.raise_any()
    query, schema = with_traces(query, schema, under)
    full = with_strategy(resolve(query, schema, problems), problems)
    check_types(full.pattern, schema, problems)
    sound = len(problems.found)
    if query.timeout:
        check_clauses(query, problems)
    if query.early:
        check_early(query, problems)
    uses = consuming(replace(full, strategy=query.strategy), problems)
    full = with_continuity(full if uses is None else uses.plain, problems)
    check_pattern(full, problems)
    full = with_first_members(full)
    conditions = taken_apart(conjuncts(full.where), full.partition)
    tree = parts(full.pattern, _mergeable(schema, conditions))
    declared = list(sites(tree))
    check_declarations(declared, problems)
    if len(problems.found) > sound:
        problems.raise_any()  # the shape is wrong: what would follow from it is noise
    around = dict(around_leaves(full.pattern))
    absent = ways_of_absence(full.pattern)
    context = Context(schema, functions, _by_variable(declared), conditions, problems, around, absent)
    return under_constraints(_plan(full, tree, context, uses), under, notes_on(under, whole))


def _plan(query: Query, tree: Part, context: Context, uses: Consuming | None) -> Plan:
    schema, problems = context.schema, context.problems
    within = _window(query, tree, schema, problems)
    drafter = Drafter(schema, within, problems, absorbed=tree if isinstance(tree, Woven) else None)
    roots = drafter.alternatives(tree)
    exceeds = None if query.between is None else at_least(query.between, schema)
    if exceeds is not None and uses is None:  # a mode asks that by itself
        for root in roots:
            root.longer_than(exceeds)
    check_mentions(context)
    check_until(context.sites, problems)
    _check_same(context)
    blocks = [block for root in roots if (block := filled(root, context)) is not None]
    if query.timeout and check_timeout(query, problems):
        blocks = (blocks or [impossible(roots[0])]) + _timeouts(query, drafter, context)
    found, seen = variables_of(context.sites, hidden_variables(query.pattern), schema, outer_members(tree))
    if uses is not None:
        found, seen = uses.with_sets(found, seen)
    counts = over_matches(query, {variable.name for variable in found if variable.repeated})
    outputs: tuple[Output, ...] = ()
    if not counts:
        outputs = outputs_of(query.select, found, seen, context.sites, context.functions, schema, problems)
    check_step(query, found, outputs, problems)
    if not query.select:
        check_variables(query.pattern, found, problems)
    key = tuple(dict.fromkeys(attr for attr, _ in context.conditions.same))
    clauses = ClauseBinder(query, key, found, seen, context.sites, context.functions, schema, problems, count=counts)
    after = clauses.bound()
    if counts and after is not None:
        after, outputs = counted(clauses, after)
    consume = None if uses is None else uses.bound(seen, schema, context.functions, problems, exceeds)
    if query.early:
        check_blocks(query, blocks, problems, counts=counts)
    _check_size(query, blocks, problems)
    problems.raise_any()
    return Plan(
        query.name,
        tuple(blocks) or (impossible(roots[0]),),
        within,
        found,
        outputs,
        schema,
        needs=key,
        mentions=tuple(types_named(query.pattern)),
        fingerprint=fingerprint(query if uses is None else uses.written),
        notes=tuple(dict.fromkeys(_notes(query, roots, blocks, context))),
        title=query.name or "",
        hidden=query.hidden,
        after=after,
        consume=consume,
        early=query.early,
    )


def _timeouts(query: Query, drafter: Drafter, context: Context) -> list[Block]:
    """The alternatives that find beginnings which a step did not extend."""
    blocks: list[Block] = []
    for beginning in beginnings(query):
        pattern = beginning.query.pattern
        conditions = taken_apart(conjuncts(beginning.query.where), query.partition)
        tree = parts(pattern, _mergeable(context.schema, conditions))
        mine = replace(
            context, sites=_by_variable(list(sites(tree))), conditions=conditions, around=dict(around_leaves(pattern))
        )
        check_mentions(mine)
        found = [block for root in drafter.alternatives(tree) if (block := filled(root, mine)) is not None]
        blocks += [replace(block, missing=beginning.step) for block in found]
    return blocks


def _check_size(query: Query, blocks: list[Block], problems: Problems) -> None:
    """Generated code nests a loop for each step and two ifs for a CASE, and Python reads a hundred levels."""
    most = max((sum(len(each.leaves) for each in blocks_below(block)) for block in blocks), default=0)
    if most > MOST_STEPS:
        problems.add(
            f"the pattern has {most} steps, more than {MOST_STEPS}",
            query.pattern.span,
            hint="name a part of it with QUERY, and use that name as an event type",
        )
    nested = _case_depth(query)
    if most + 2 * nested > MOST_LEVELS:
        problems.add(
            f"CASE inside CASE, {nested} levels deep, is too much for a pattern of {most} steps",
            None if query.where is None else query.where.span,
            hint="write one CASE with more branches: they are tried one after the other",
        )


def _case_depth(node: object) -> int:
    return isinstance(node, syntax.CaseWhen) + max(map(_case_depth, syntax.children(node)), default=0)


def fingerprint(named_query: Query) -> str:
    """32 hex digits that identify what is detected: the canonical text without name, SELECT and choice of matches."""
    plain = replace(
        named_query, name=None, hidden=False, select=(), skip=None, distinct=None, limit=None, group=(), every=None
    )
    if plain.consume is not None and plain.consume.mode == "unrestricted":  # as without it
        plain = replace(plain, consume=None)
    text = print_query(plain)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _mergeable(schema: Schema, conditions: Conditions) -> Callable[[tuple[syntax.Leaf, ...]], bool]:
    """Tell whether the leaves of an OR can be one union leaf.

    Each predicate must be about its own leaf, and each `[attr]` must have one kind in all of them.
    No written equality may mention them: other than `[attr]` it would also hold for a variable that is not bound.
    """
    written = {side.vars[0] for equality in conditions.equalities for side in (equality.left, equality.right)}

    def mergeable(leaves: tuple[syntax.Leaf, ...]) -> bool:
        if conditions.same and written & {leaf.var for leaf in leaves}:
            return False
        for attr, _ in conditions.same:
            fields = [schema.field(leaf.type, attr) for leaf in leaves]
            if len({(field.kind, field.scale) for field in fields if field}) > 1:
                return False
            if any(field is None or field.kind is Kind.NULL for field in fields):
                return False
        return all(leaf.where is None or variables(leaf.where) <= {leaf.var} for leaf in leaves)

    return mergeable


def _by_variable(declared: list[Site]) -> dict[str, list[Site]]:
    found: dict[str, list[Site]] = {}
    for site in declared:
        found.setdefault(site.var, []).append(site)
    return found


def _window(query: Query, tree: Part, schema: Schema, problems: Problems) -> int | None:
    """WITHIN in ticks; an ISEQ that is the whole pattern may give it too, then the smaller holds."""
    given = [query.within, tree.within if isinstance(tree, Woven) else None]
    lengths = [_ticks(duration, schema, problems) for duration in given if duration is not None]
    if query.between is not None:
        lengths.append(_below(query.between, schema, problems))
    return min((length for length in lengths if length is not None), default=None)


def _ticks(duration: Duration, schema: Schema, problems: Problems) -> int | None:
    try:
        length = ticks(duration, schema)
    except KindError as error:
        problems.add(error.message, duration.span, detail=error.detail, hint=error.hint)
        return None
    if length <= 0:
        problems.add("the window must be longer than nothing", duration.span, hint="WITHIN 10, WITHIN 12 h")
        return None
    if length >= TIME_LIMIT:
        problems.add("the window is too long", duration.span, hint=f"it must be below {TIME_LIMIT} ticks")
        return None
    return length


def _below(window: OpenWindow, schema: Schema, problems: Problems) -> int | None:
    """The longest length that is below the upper end of a window with strict ends."""
    more, less = at_least(window, schema), _ticks(window.less, schema, problems)
    if more is not None and less is not None and more + 1 >= less:
        problems.add("no length lies between the two ends of this window", window.span, hint="WITHIN (1 s, 5 s)")
        return None
    return None if less is None else less - 1


def at_least(window: OpenWindow, schema: Schema) -> int | None:
    """The length that a match must exceed, in ticks; None if that cannot be said."""
    try:
        return ticks(window.more, schema)
    except KindError:
        return None


def _check_same(context: Context) -> None:
    for attr, span in context.conditions.same:
        types = {site.leaf.type for declared in context.sites.values() for site in declared}
        if attr in context.schema.clashes:
            clash(attr, None, span, context.problems)
        elif all(context.schema.field(type, attr) is None for type in types):
            unknown_attribute(attr, context.schema, (), span, context.problems)


# --- notes: not wrong, but probably not meant -----------------------------------------------------------------------


def _notes(query: Query, roots: list[Draft], blocks: list[Block], context: Context) -> list[str]:
    notes = list(context.problems.notes)
    for root in roots:
        for draft in root.tree():
            if draft.sought is not None:
                continue
            if any(not context.schema.has_type(leaf.type) for spot in draft.leaves for leaf in spot.leaves):
                continue  # that was noted already
            if draft.dead is not None and draft.parent is not None and draft.parent.dead is None:
                notes.append(f"the negated part over {_shown(draft)} never rejects anything: {draft.dead}")
            elif draft.dead is not None and draft.parent is None:
                several = f"the alternative over {_shown(draft)} can never match: " if len(roots) > 1 else ""
                notes.append(several + draft.dead)
    if not blocks:
        notes.append("this query can never match")
    notes += _without_attribute(context)
    notes += [note for root in roots for note in _always_violated(root, context)]
    ends_with = query.pattern.items[-1] if isinstance(query.pattern, syntax.Seq) else None
    unbounded = query.within is None and query.between is None
    if unbounded and isinstance(ends_with, syntax.Not) and ends_with.lasting is None:
        notes.append("without WITHIN the negation is decided only at the end of the stream")
    return notes


def _shown(draft: Draft) -> str:
    return ", ".join(print_pattern(leaf) for spot in draft.leaves for leaf in spot.leaves)


def _without_attribute(context: Context) -> list[str]:
    """`[attr]` over a type that has no such attribute: its events are not seen."""
    found = []
    for attr, _ in context.conditions.same:
        for site in (site for declared in context.sites.values() for site in declared):
            field = context.schema.field(site.leaf.type, attr)
            if field is not None and field.kind is Kind.NULL and not context.schema.open_fields:
                type = site.leaf.type or "ANY"
                found.append(f"{type} has no attribute {attr}, so [{attr}] lets no {type} be {site.var}")
    return found


def _always_violated(root: Draft, context: Context) -> list[str]:
    """`AND(A a, !A x)`: a itself is an A in the scope, so nothing can match."""
    notes = []
    for draft in root.tree():
        for child, _ in draft.forbidden:
            leaves = [leaf for spot in child.leaves for leaf in spot.leaves]
            plain = len(leaves) == 1 and leaves[0].where is None and leaves[0].repeat is None
            if not plain or child.forbidden or child.dead or _mentioned(str(leaves[0].var), context):
                continue
            types = {leaf.type for spot, id in draft.leaves.items() if id in child.beside for leaf in spot.leaves}
            if leaves[0].type in types:
                notes.append(
                    f"AND with !{leaves[0].type} {leaves[0].var} can never match: the {leaves[0].type} that the match "
                    f"holds is itself a violation (write `{leaves[0].var} <> ...` to mean another one)"
                )
    return notes


def _mentioned(var: str, context: Context) -> bool:
    conditions = context.conditions
    return bool(conditions.same) or any(var in variables(conjunct) for conjunct in conditions.conjuncts)


# --- several queries ----------------------------------------------------------------------------------------------


def schema_of(plan: Plan) -> dict[str, Field]:
    """The attributes that the matches of a query have as events: its SELECT columns."""
    return {output.name: field_of(output.name, output.expr) for output in plan.outputs if not is_list(output.expr)}


def bind_all(
    queries: Sequence[AnyQuery], schema: Schema, functions: Mapping[str, Function] | None = None
) -> tuple[Plan, ...]:
    """The plans of a file; the name of an earlier query or statement is an event type for the later ones.

    Of several queries, one without a name is called by its place: `query 1`, `query 2`.
    """
    derived: dict[str, Mapping[str, Field]] = {}
    lists: dict[str, dict[str, str]] = {}  # columns of each query that no expression can read
    lasting: dict[str, int] = {}  # how long the events of a statement last, at most, where that is known
    titles = {place: f"query {place + 1}" for place, query in enumerate(queries) if query.name is None}
    taken = dict.fromkeys(titles.values(), "what a query without a name is called")
    taken |= dict.fromkeys(schema.types, "an event type")
    broken: set[str] = set()
    unreadable: dict[str, tuple[str, str]] = {}  # queries that no other can read: why, and what to do instead
    plans: list[Plan] = []
    errors: list[QueryError] = []
    if statements := [each for each in queries if isinstance(each, Statement)]:
        from tocsin.plan.staged_check import check_together

        check_together(statements)
    for number, query in enumerate(queries):
        reads = read_by(query)
        later = {name for other in queries[number:] for name in (other.name, *labels_of(other)) if name is not None}
        try:
            _check_names(query, later - schema.types.keys() - derived.keys(), taken)
            if reads.keys() & broken:
                continue
            _refuse_unreadable(query, reads, unreadable)
            _refuse_two_names(query, reads, [each for each in queries[:number] if isinstance(each, Intervals)])
            extended = _extended(schema, derived, lists, lasting, reads)
            plan = _bound(query, extended, functions)
            if plan.early and isinstance(query, Query):
                check_sources(query, reads.keys() & derived.keys())
        except QueryError as error:
            errors.append(error)
            broken |= {query.name} if query.name else set()
            continue
        finally:
            if query.name is not None:
                taken.setdefault(query.name, "a query above")
            taken |= {label: "a label above" for label in labels_of(query) if label not in taken}
        title = titles.get(number, plan.title) if len(queries) > 1 else plan.title
        plans.append(replace(plan, title=title, notes=plan.notes + _unread(query, queries[number + 1 :])))
        if query.name is not None:
            derived |= dict.fromkeys(plan.emits, schema_of(plan))
            lists[query.name] = {each.name: "lists" for each in plan.outputs if is_list(each.expr)}
            if plan.staged is not None and plan.staged.lasts is not None:
                lasting[query.name] = plan.staged.lasts
            if (why := _why_unreadable(query, plan)) is not None:
                unreadable[query.name] = why
    if errors:
        raise QueryError([problem for error in errors if error.text == errors[0].text for problem in error.problems],
                         errors[0].text)  # fmt: skip
    return tuple(plans)


def _bound(query: AnyQuery, schema: Schema, functions: Mapping[str, Function] | None) -> Plan:
    match query:
        case Statement():
            from tocsin.plan.bind_staged import bind_statement  # late: most files have none

            return bind_statement(query, schema)
        case Intervals():
            from tocsin.plan.bind_derived import bind_intervals

            return bind_intervals(query, schema, functions)
    return bind(query, schema, functions)


def labels_of(query: AnyQuery) -> tuple[str, ...]:
    """The event types of its matches beside its name."""
    return query.labels if isinstance(query, Intervals) else ()


def read_by(query: AnyQuery) -> dict[str, Span | None]:
    """The types that a query or a statement mentions, each with its first place."""
    if isinstance(query, Statement):
        return {str(role.type): role.span for role in reversed(StatementPlaces(query).roles)}
    if isinstance(query, Intervals):
        return {each.type: each.span for each in reversed((*query.readings, *query.ends))}
    constrained = () if query.under is None else query.under.constraints
    named = {type: None for each in constrained for type in (*each.types, *(each.alphabet or each.ends))}
    return named | types_read(query.pattern)


def _unread(query: AnyQuery, later: Sequence[AnyQuery]) -> tuple[str, ...]:
    """A hidden query that no later one reads does nothing."""
    emitted = {query.name, *labels_of(query)}
    if not query.hidden or any(emitted & read_by(other).keys() for other in later):
        return ()
    return (f"query {query.name} is HIDDEN and no later query reads it, so nobody sees its matches",)


def _extended(
    schema: Schema,
    derived: Mapping[str, Mapping[str, Field]],
    lists: Mapping[str, Mapping[str, str]],
    lasting: Mapping[str, int],
    reads: Collection[str],
) -> Schema:
    """The schema with the matches of earlier queries; they are intervals, and beside them every eid is a text."""
    if not derived:
        return schema
    mine = {name: fields for name, fields in derived.items() if name in reads}  # others may have x of another kind
    made = {attr: kind for name, several in lists.items() if name in reads for attr, kind in several.items()}
    unreadable = {**schema.unreadable, **made}
    types = {**schema.types, **mine}
    points = {} if schema.intervals else dict.fromkeys(schema.types, 0)
    longest = {**points, **schema.longest, **lasting}
    matches = schema.matches | derived.keys()
    schema = replace(schema, types=types, matches=matches, unreadable=unreadable, longest=longest)
    return replace(schema, intervals=True, eid=Kind.TEXT) if derived.keys() & set(reads) else schema


def _why_unreadable(query: AnyQuery, plan: Plan) -> tuple[str, str] | None:
    """Why no other query can read the answers of one, and what to do instead: not all of them are events."""
    if plan.counts is not None:
        return (
            "counts its matches",
            f"give {query.name} no aggregates in SELECT, and count in another query that reads it",
        )
    hidden = {variable.name for variable in plan.variables if variable.hidden}
    if isinstance(query, Query) and shows_nothing(query.pattern, hidden):
        return "has matches that show no event, and so have no time", "leave a variable out of EXISTS"
    return None


def _refuse_unreadable(
    query: AnyQuery, reads: Mapping[str, Span | None], unreadable: Mapping[str, tuple[str, str]]
) -> None:
    for type, span in reads.items():
        if type in unreadable:
            why, hint = unreadable[type]
            raise QueryError([Problem(f"{type} {why}, so no query can read them", span, None, hint)], query.text)


def _refuse_two_names(query: AnyQuery, reads: Mapping[str, Span | None], above: Iterable[Intervals]) -> None:
    """One interval is one event: a query reads it by its label or by the name of its definition."""
    for each in above:
        label = next((label for label in each.labels if label in reads), None)
        if each.name in reads and label is not None:
            hint = f"read {label} alone, or {each.name} with a condition on its label"
            message = f"{label} and {each.name} are the same intervals, which would be two events here"
            raise QueryError([Problem(message, reads[label], None, hint)], query.text)


def _check_names(query: AnyQuery, later: set[str], taken: Mapping[str, str]) -> None:
    """Refuse to read what comes later, and a name that means something else: `taken` says what."""
    problems = []
    for type, span in read_by(query).items():
        if type in later:
            what = "its own matches" if type == query.name else f"the query {type}, which comes later"
            problems.append(Problem(f"the query reads {what}", span, None, "a query can read queries above it"))
    problems += [
        Problem(f"{name} is already {taken[name]}", query.span, None, "give it another name")
        for name in (query.name, *labels_of(query))
        if name is not None and name in taken
    ]
    if problems:
        raise QueryError(problems, query.text)
