"""A threshold is changed in the middle of a stream: what was seen before the change counts under the new rule."""

from __future__ import annotations

import data

import tocsin

RULE = (
    "QUERY late_again EVENT SEQ(Departed a, Departed b) WHERE [tail] AND a.delay >= {0} AND b.delay >= {0} WITHIN 12 h"
)
rows = data.flights()
half = len(rows) // 2
before = tocsin.query(RULE.format(60)).stream()
found = [match for row in rows[:half] for match in before.push(row)]
after = tocsin.query(RULE.format(90)).stream(state=before.save(), carry_over=True)
later = [match for row in rows[half:] for match in after.push(row)]

whole = tocsin.query(RULE.format(90)).detect(rows)
expected = [match for match in whole if match["end"] > rows[half - 1]["time"]]
print(f"{len(found)} under the old rule, {len(later)} under the new one, of {len(whole)} in the whole history")
assert sorted(match["match_id"] for match in later) == sorted(match["match_id"] for match in expected)
assert len(found) > 0 and len(later) > 0
