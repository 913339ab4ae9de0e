"""Consuming: the operator of a query with a mode, in place of its detector."""

from __future__ import annotations

from tocsin.engine.operator import Setting
from tocsin.order.keyed_process import KeyedProcess
from tocsin.order.settled import Settled
from tocsin.select.consumption import rule_of


def consuming(setting: Setting, *, jit: bool) -> KeyedProcess | Settled:
    """The operator of a mode: settled events one after the other, or every event at once and corrected."""
    del jit
    key = setting.plan.needs
    process = KeyedProcess(rule_of(setting.plan, setting.functions), key, setting)
    return process if setting.corrects else Settled(process, setting.time, setting.reader, key)
