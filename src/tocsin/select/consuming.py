"""Consuming: the operator of a query with a mode, in place of its detector."""

from __future__ import annotations

from tocsin.engine.operator import Setting
from tocsin.order.keyed_process import KeyedProcess
from tocsin.order.settled import Settled, SettledByEnd
from tocsin.plan.block import Plan
from tocsin.plan.expr import Col, Ref, Time, walk
from tocsin.plan.same_event import takers
from tocsin.schema import TYPE
from tocsin.select.consumed_columns import ConsumedColumns
from tocsin.select.consumption import rule_of

MOST_STEPS = 24  # whose bits, with those of their gaps, fit into a word


def consuming(setting: Setting, *, jit: bool) -> KeyedProcess | Settled:
    """The operator of a mode: settled events in loops over columns, or every event at once and corrected."""
    key = setting.plan.needs
    if not setting.corrects and is_columnar(setting.plan):
        return SettledByEnd(ConsumedColumns(setting, jit=jit), setting.time, setting.reader, key)
    process = KeyedProcess(rule_of(setting.plan, setting.functions), key, setting)
    return process if setting.corrects else Settled(process, setting.time, setting.reader, key)


def is_columnar(plan: Plan) -> bool:
    """Whether there is a loop for a mode: no conditions over sets; SEQ in continuous of events without length."""
    consume = plan.consume
    assert consume is not None
    if consume.having or len(consume.steps) > MOST_STEPS:
        return False
    if consume.mode == "continuous" and consume.shape == "seq" and plan.schema.intervals:
        return False
    asked = [
        (var, node) for known in takers(plan).values() for var, tests in known for test in tests for node in walk(test)
    ]
    return not any(
        isinstance(node, Ref)
        or (isinstance(node, Col) and node.attr == TYPE)
        or (isinstance(node, Col | Time) and node.var not in (None, var))  # of another branch: null in this one
        for var, node in asked
    )
