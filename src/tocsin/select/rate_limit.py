"""A rate limit: of the matches of a key, at most so many within a stretch of time.

tocsin.query(text).around(RateLimit(2, 60_000_000, key=("user",)))    at most two alarms a minute for each user
"""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.engine.operator import Operator, Setting
from tocsin.errors import TocsinError
from tocsin.plan.block import Plan
from tocsin.select.per_key import PerKey, key_values

State = list[int]  # when the kept matches end that still count, in order


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Keep a match if fewer than `most` kept matches of its key end in the `within` ticks up to its own end.

    key  attributes that all events of a match have in common: some of those in `WHERE [...]` or PARTITION BY
    """

    most: int
    within: int
    key: tuple[str, ...]

    def __call__(self, inner: Operator, setting: Setting) -> Operator:
        """Stand around the operator of a query."""
        self.check(setting.plan)
        key = key_values(self.key)
        return PerKey(inner, self, key, setting.plan, setting.functions, at_once=setting.corrects)

    def check(self, plan: Plan) -> None:
        """Refuse a key by which the matches of a query are not kept apart: a shard would see some of them only."""
        keys = [set(attrs) for _, attrs in plan.key]
        common = set.intersection(*keys) if keys else set()
        if self.most < 1 or self.within < 1 or not self.key or not set(self.key) <= common:
            known = ", ".join(sorted(common)) or "none"
            raise TocsinError(
                f"a rate limit of {self.most} in {self.within} ticks by ({', '.join(self.key)}) does not fit the query",
                detail=f"both numbers are at least 1, and the key is among those of the query: {known}",
                hint="give the query that key: WHERE [attr], or PARTITION BY attr",
            )

    # --- the rule ---

    def begin(self) -> State:
        return []

    def step(self, state: State, start: int, end: int) -> tuple[State, bool]:
        del start
        recent = [each for each in state if each > end - self.within]
        return ([*recent, end], True) if len(recent) < self.most else (recent, False)

    def forget(self, state: State, until: int) -> State:
        return [each for each in state if each > until + 1 - self.within]
