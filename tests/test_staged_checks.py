"""Every static check of a statement has a case with its message and its hint: here, or in staged_cases/errors.case."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tocsin
from tocsin.errors import QueryError
from tocsin.schema import Field, Kind, Schema
from tocsin.testing.cases import read_cases

ROOT = Path(__file__).parents[1]
FIELDS = {name: Field(name, Kind.TEXT if name in "tu" else Kind.INT) for name in "xktu"}
TYPES = dict.fromkeys("ABCI", FIELDS) | {
    "T": FIELDS | {"k": Field("k", Kind.TEXT)},
    "F": {"x": Field("x", Kind.FLOAT)},
}

WRONG = [  # statement, message, hint
    ("Event And(A as B, B)", "the label B is also the name of an unlabelled role", "choose another label"),
    ("Event And(A, Z)", "there is no event type Z", "declare it in the schema"),
    ("Event Nth(1, A<weight 0>)", "a weight is greater than 0", "left out"),
    ("Event Unless(A)", "Unless has 2 operands, found 1", "put several into And"),
    ("Event Not(A, B) Term T", "Not has 1 operand, found 2", "put several into And"),
    ("Event Every(5)<deferred> Term T", "Every cannot be deferred: it happens at its time", "leave the mode out"),
    ("Event After(A<rows 1>, 5)", "the operand of After takes conditions only", "After(E[rows 1, add], 10)"),
    ("Event A<Max(A.x) > 1>", "an aggregate in a condition on one event", "conditions of terminators"),
    ("Event And(A<B.x > 1>, B)", "the condition of A mentions B", "stand in Where"),
    ("Event And(A, B) Where Max(A.x) > 1", "an aggregate in Where", "a statement of its own"),
    ("Event And(A, B) Where x > 1", "whose attribute is x?", "A.x"),
    ("Event And(A, A) Where A.x > 1", "A means 2 operands", "A as first, A as second"),
    ("Event And(A, B) as P Where P.x > 1", "P is an operator and has no attributes", "start-ts(P)"),
    ("Event A DETECT NFP", "the policy NFP is not built yet", "late events are a matter of order="),
    ("Event A DETECT GUARANTEED TIMEOUT 5", "the policy GUARANTEED TIMEOUT is not built yet", "order="),
    ("Event And(And(A, B)<repeat>, C)", "only the whole pattern can be repeat", "put <repeat> at its end"),
    ("Event And(A, B)<deferred, repeat> Term T", "a deferred pattern cannot be repeat", "leave <deferred> out"),
    ("Event And(A, B)<repeat>", "repeat needs an operand that is consumed", "write A<consume>"),
    ("Event Unless(A, B)<active>", "active needs a negated or counted operand with a range, or sst", "B<range 5>"),
    # keys
    ("Event A GKey *.k (In Rest, Rest)", "a second Rest", "everything that the other ranges leave"),
    ("Event A GKey *.k (In 1, 'a')", "ranges of different kinds", "are numbers, or all are texts"),
    ("Event A GKey A.k, A.x", "the key names A twice", "a second key"),
    ("Event A GKey *.t (In 'a'..'b')", "only numbers have ranges from .. to", "list texts"),
    ("Event A GKey *.k (In 5..1)", "this range is empty", "the smaller value first"),
    ("Event And(A, T) GKey *.k", "the attributes of a key are of different kinds", "never meet"),
    # Select
    ("Select x Event A", "whose attribute is x?", "write the operand before it"),
    ("Select I.x as x Init I Event A", "I bounds the context and needs an aggregate", "Max(I.x)"),
    ("Select P.x as x Event And(A, B) as P", "P is an operator and has no attributes", "end-ts(P)"),
    ("Select Max(Is-Null(x, 0)) as x Event A", "whose attribute is this?", "A.x"),
    ("Select Max(P.x) as x Event And(A, B) as P", "P is an operator and has no attributes", "from its operands"),
    ("Select Group Max(A.x) as x Event AtLeast(2, A)", "A is a set in each match of the group", "Sum(Bag(Count(A.x)))"),
    ("Select Group Sum(Bag(Max(A.x))) as x Event A", "the inner aggregate has only one value", "Max(Set(A.x))"),
    ("Select A.x + 1 Event A", "this column has no name", "as name"),
    ("Select A.x as x Event AtLeast(2, A)", "A is counted and needs an aggregate", "Max(A.x), Count(A)"),
    ("Select B.x as x Event Unless(A, B)", "B is negated, so no match has it", "what the match has"),
    ("Select Tuple Max(Bag(A.x)) as x Event A", "Bag in Select Tuple", "Select Group"),
    ("Select Tuple Sum(Max(A.x)) as x Event A", "an aggregate of an aggregate in tuple mapping", "one match"),
    ("Select Max(T.x) as x Init I Event A Term T", "T closes the context, and the pattern is immediate", "deferred"),
    ("Select A.x as x Event And(A, A)", "A means 2 operands", "A as first, A as second"),
    ("Select Group Sum(Bag(Max(Set(A.x)))) as x Event AtLeast(2, A)", "the inner aggregate runs over an attribute", ""),
    ("Select A.x as eid Event A", "every result has a column eid already", "as my_eid"),
    # kinds
    ("Select Sum(A.t) as s Event A", "Sum needs numbers", "Count, Max and Min"),
    ("Select A.t + 1 as s Event A", "only numbers and times can be computed with", "compared by ="),
    ("Event A Where A.t = A.x", "text is compared with int", "never equal"),
    ("Event A Where A.t < A.u", "values of kind text have no order in a condition", "= or !="),
    ("Select A.x as a Event And(A, F) Where F.x > 1", "x is float in F and int in A", "give it another name"),
    # times
    ("Event A<range 5 min>", "a length of time with a unit needs times with a unit", "bare number of ticks"),
    ('Event At("****/**/**/12:00:00.000")', "At needs times with a unit", 'time_unit="s"'),
    ("Event Unless(A, B) Where sst(B) > end-ts(A)", "nobody says when later B may start", "how long one may last"),
    ("Event And(A, B) as both Where sst(both) > end-ts(A)", "sst is asked of both, which is no operand", "an operand"),
]  # fmt: skip


def problems_of(text: str) -> list[tuple[str, str]]:
    try:
        tocsin.query(text, schema=Schema(TYPES, strict=True)).plans()
    except QueryError as error:
        return [(each.message, each.hint or "") for each in error.problems]
    return []


@pytest.mark.parametrize(("text", "message", "hint"), WRONG)
def test_a_check_says_what_is_wrong_and_what_to_do(text: str, message: str, hint: str) -> None:
    found = problems_of(f"CreateCE X {text}")
    assert any(message == said and hint in advised for said, advised in found), found


def test_every_check_has_a_case() -> None:
    """The messages in the source, with anything where they name something, are all met; each has a hint."""
    met = [message for text, *_ in WRONG for message, _ in problems_of(f"CreateCE X {text}")]
    for case in (each for path in (ROOT / "tests" / "staged_cases").glob("*.case") for each in read_cases(path)):
        try:
            tocsin.query(case.query).plans()
        except QueryError as error:
            met += [each.message for each in error.problems]
    missing, silent = [], []
    for path in sorted((ROOT / "src" / "tocsin" / "plan").glob("*staged*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "Problem":
                continue
            pattern = _pattern(node.args[0])
            if pattern is not None and not any(re.fullmatch(pattern, each) for each in met):
                missing.append(f"{path.name}:{node.lineno} {ast.unparse(node.args[0])}")
            if len(node.args) < 4 and not any(each.arg == "hint" for each in node.keywords):
                silent.append(f"{path.name}:{node.lineno} {ast.unparse(node.args[0])}")
    assert missing == []
    assert silent == []


def _pattern(message: ast.expr) -> str | None:
    """A message of the source as a regular expression; None: it is made elsewhere."""
    if isinstance(message, ast.Constant):
        return re.escape(str(message.value))
    if isinstance(message, ast.JoinedStr):
        return "".join(
            re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".+" for each in message.values
        )
    return None
