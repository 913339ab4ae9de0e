"""What `check` and `explain` tell of rules before they run: keys, windows, memory, and what a sample shows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tocsin
from tocsin.plan.durations import as_duration
from tocsin.run import overview

BACK = "QUERY back EVENT SEQ(Sent s, !Back b) WHERE [case] WITHIN 14 d"
PAIRS = "QUERY pairs EVENT SEQ(Sent s, Back b)"


@pytest.mark.parametrize(
    ("ticks", "unit", "said"),
    [
        (43_200_000_000, "us", "12 h"),
        (1_209_600_000_000, "us", "14 d"),
        (90, "s", "1 min 30 s"),
        (1500, "us", "1500 ticks"),
        (2000, "us", "2 ms"),
        (299_999_999, "us", "just under 5 min"),
        (1, None, "1 tick"),
        (0, "us", "0 ticks"),
        (0, "s", "0 s"),
        (-90, "min", "-1 h 30 min"),
    ],
)
def test_durations_are_said_in_units(ticks: int, unit: str | None, said: str) -> None:
    assert as_duration(ticks, unit) == said


def test_every_rule_has_a_line() -> None:
    lines = tocsin.query(f"{BACK}; {PAIRS}; EVENT A a WHERE a.x = 1; EVENT SEQ(A a, B b) WHERE a.i = b.j WITHIN 9")
    assert [" ".join(line.split()) for line in lines.overview().splitlines()] == [
        "back key case window 14 d memory bounded by the window",
        "pairs no key no window memory grows with the stream",
        "query 3 no key no window memory none: each event is judged alone",
        "query 4 key i, j window 9 ticks memory bounded by the window",
    ]


def events(count: int) -> pa.Table:
    return pa.table(
        {
            "type": ["Sent", "Back"] * (count // 2),
            "time": list(range(count)),
            "case": [at // 2 for at in range(count)],
        }
    )


def test_a_sample_shows_how_many_matches_there_will_be() -> None:
    text = tocsin.query("QUERY pairs EVENT SEQ(Sent s, Back b) WHERE [case]").explain(events(1000))
    assert text.splitlines()[-1] == "sample    all 1,000 rows: 1,000 are read, matches: 500"


def test_traces_of_constraints_are_part_of_the_memory() -> None:
    rules = "CONSTRAINT c PARTITION BY k AS (A | B)*{}; EVENT SEQ(A a, B b) WHERE [k] WITHIN 5 UNDER c"
    assert tocsin.query(rules.format("")).overview().endswith("by the window, and 8 to 24 bytes for each trace")


def test_a_forgotten_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "SAMPLE", 400)
    text = tocsin.query(f"{PAIRS}; EVENT Sent a").explain(events(1000))
    assert "the first 400 of 1,000 rows: 400 are read, matches: 20,100 of pairs, 200 of query 2" in text
    assert "estimate  all 1,000 rows at this rate: about 1,000 are read, matches: about 51,000" in text
    assert "note      pairs has no key" in text
    assert "query 2 has no key" not in text
    monkeypatch.setattr(overview, "MOST", 500)
    text = tocsin.query(PAIRS).explain(events(1000))
    assert "matches: more than 500" in text


def test_without_events_nothing_is_measured() -> None:
    assert "sample" not in tocsin.query(PAIRS).explain()
    assert "sample" not in tocsin.query(PAIRS).explain(events(0))
    assert "sample" not in tocsin.query(PAIRS).explain({"Sent": {}, "Back": {}})


def test_check_tells_of_rows_that_cannot_be_used(tmp_path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("type,time,case\nSent,1,7\nSent,soon,7\n,3,7\nBack,4,x\nBack,later,7\n")
    notes, _ = tocsin.query(BACK).examine(path, time_unit="s")
    (said,) = [note for note in notes if "cannot be used" in note]
    assert said == (
        "3 rows cannot be used: a run ends at them, or leaves them out (--bad-rows skip); the first is"
        f" {path}, line 3: the time is neither a whole number nor a timestamp"
    )
    rows = [{"type": "Sent", "time": 1, "case": 7}, {"type": "Sent", "time": None, "case": 7}]
    assert [note for note in tocsin.query(BACK).check(rows, time_unit="s") if "cannot be used" in note]
    assert not [note for note in tocsin.query(BACK).check(rows[:1], time_unit="s") if "cannot be used" in note]
