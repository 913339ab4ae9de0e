"""Steps that may be absent, negated, marked and repeated ones, related by equalities through one another, in every way.

Drawn by chance (tests/test_engine.py) an optional and a negated step are hardly ever compared, and an answer was wrong
for long: where a third step relates them.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.drawn import in_chunks
from tests.effort import examples, is_long
from tocsin.lang.parser import parse
from tocsin.lang.printer import print_query
from tocsin.lang.syntax import Leaf, Maybe, Not, walk
from tocsin.testing.agree import COMPILED, PLAIN, Bench, Trial
from tocsin.testing.draw_related import related_pair
from tocsin.testing.harness import Limit
from tocsin.testing.modes import EVERY, Mode
from tocsin.testing.oracle import matches
from tocsin.testing.strategies import SCHEMA

TRIALS = (
    *PLAIN,
    Trial("spilled", Mode("aggressive", batch=1, limit=Limit(300), late=True), shuffle=20),
    Trial("spilled, held, restart", Mode("conservative", batch=2, limit=Limit(300), restart=EVERY), shuffle=21),
    Trial("chosen by itself, restart", Mode("auto", batch=2, restart=EVERY, promises=24), shuffle=24),
)


@pytest.mark.filterwarnings("ignore:the memory limit")
@in_chunks(20)
def test_steps_related_through_others_mean_the_same_in_every_mode(chunk: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(chunk * 25, chunk * 25 + 25):
        random = Random(f"related {seed}")
        query, events = related_pair(random)
        assert parse(print_query(query)) == query
        trials = [TRIALS[0], *random.sample(TRIALS[1:], 4 if is_long() else 2)]
        found = Bench(query, SCHEMA).disagreement(events, trials)
        assert found is None, f"seed {seed}: {query}\n{events}\n{found}"
        seen["answers"] += bool(matches(query, events))
        absent = any(isinstance(node, Maybe) or (isinstance(node, Leaf) and node.optional) for node in walk(query))
        seen["both"] += absent and any(isinstance(node, Not) for node in walk(query))
    assert min(seen["answers"], seen["both"]) > 0, seen


@pytest.mark.jit
@pytest.mark.long
def test_compiled_kernels_relate_them_alike() -> None:
    for seed in range(examples(60)):
        query, events = related_pair(Random(f"compiled {seed}"))
        found = Bench(query, SCHEMA).disagreement(events, COMPILED)
        assert found is None, f"seed {seed}: {query}\n{events}\n{found}"
