"""Constraints in words: what `check` and `explain` say of a query under them, and the automaton drawn as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tocsin.constraint.automaton import Dfa
from tocsin.constraint.letters import Letters
from tocsin.constraint.reasoning import Flag, Reasoning, bounded, reason_about
from tocsin.lang.constraint_printer import print_constraint
from tocsin.plan.block import Plan

MOST_DRAWN = 40  # states of an automaton that is drawn


def with_verdict(plan: Plan) -> Plan:
    """The plan with notes on what its constraints say before any event."""
    if plan.under is None:
        return plan
    known = reason_about(plan)
    notes = list(plan.notes)
    if known.silent is not None:
        notes.append(f"constraints give this query no verdicts: {known.silent}")
    elif known.flags[0] & Flag.UNSAT:
        notes.append(f"under its constraints this query can never match{_missing(plan)}")
    elif known.flags[0] & Flag.SAT:
        notes.append("under its constraints every trace holds a match")
    if plan.under.starts and not bounded(plan):
        notes.append(_unbounded(plan))
    if plan.under.key and not plan.under.divides:
        notes.append(
            f"traces by {', '.join(plan.under.key)} are kept until the end of the stream, 8 to 24 bytes each: "
            "ENDS or TIMEOUT would end them"
        )
    return replace(plan, notes=tuple(notes))


def _unbounded(plan: Plan) -> str:
    assert plan.under is not None
    types = [type for type in plan.under.starts if type not in plan.schema.longest]
    return (
        f"verdicts come with the end of the stream: nobody knows before which {' and '.join(types)} have begun; "
        "say in the schema how long one lasts at most (longest=)"
    )


def _missing(plan: Plan) -> str:
    """The first step that no word of the constraints reaches, for a query of one SEQ."""
    for block in plan.alternatives[:1]:
        for count in range(1, len(block.leaves) + 1):
            kept = {leaf.id for leaf in block.leaves[:count]}
            part = replace(
                block, leaves=block.leaves[:count], predicates=(), forbidden=(), nest=(),
                order=tuple(each for each in block.order if {each.left.leaf, each.right.leaf} <= kept),
                scopes=tuple((id, scope) for id, scope in block.scopes if id in kept),
            )  # fmt: skip
            shorter = replace(plan, alternatives=(part,), within=None)
            try:
                if reason_about(shorter).flags[0] & Flag.UNSAT:
                    return f": no trace reaches its step {block.leaves[count - 1].alts[0].var}"
            except Exception:  # noqa: BLE001 - a part of a pattern need not be one
                return ""
    return ""


def drawn(plan: Plan) -> str:
    """What constraints say of a plan, and their automata as text."""
    if plan.under is None:
        return ""
    known = reason_about(plan)
    lines = [f"under     {print_constraint(each.written)}" for each in plan.under.constraints]
    lines += list(_said(plan, known))
    for each, dfa in zip(plan.under.constraints, known.automata, strict=False):  # others pair starts and ends
        lines.append(f"  {each.name}: {len(dfa)} states")
        lines += [f"    {line}" for line in picture(dfa, known.letters)]
    return "\n".join(lines)


def _said(plan: Plan, known: Reasoning) -> Iterator[str]:
    assert plan.under is not None
    if known.silent is not None:
        yield f"  no verdicts: {known.silent}"
        return
    yield f"  with the query {len(known)} states, before any event {known.static}"
    if plan.under.checked or not bounded(plan):
        yield f"  {'checked' if plan.under.checked else 'trusted'}: nothing is released early"
    else:
        yield "  trusted: closed traces are released"
    if plan.under.starts and not bounded(plan):
        yield f"  {_unbounded(plan)}"
    if not known.exact:
        yield f"  no `expected` rows: {'; '.join(known.left_out)}"


def picture(dfa: Dfa, letters: Letters) -> Iterator[str]:
    """An automaton, a line for each state: `(1) -A-> 1, -B-> 2`; double brackets where a trace may end."""
    for state, moves in enumerate(dfa.moves[:MOST_DRAWN]):
        name = f"(({state}))" if state in dfa.accepting else f"({state})"
        targets: dict[int, list[str]] = {}
        for letter, target in moves.items():
            targets.setdefault(target, []).append(letters.all[letter].shown)
        arrows = ", ".join(f"-{'|'.join(labels)}-> {target}" for target, labels in targets.items())
        yield f"{name} {arrows}".rstrip()
    if len(dfa) > MOST_DRAWN:
        yield f"... and {len(dfa) - MOST_DRAWN} more"
