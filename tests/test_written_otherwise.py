"""Files as other programs write them: columns apart by semicolons, times with and without a zone in one column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tocsin
from tocsin.errors import InputError

QUERY = "EVENT SEQ(A a, B b) WHERE [k] WITHIN 5 min SELECT a.k AS k, a.name AS name"
LINES = ["type,time,k,name", "A,2026-03-01T09:00:00,1,one", "B,2026-03-01T09:01:00,1,two"]


def found(path: Path, **options: Any) -> list[tuple[Any, Any]]:
    return [(match["k"], match["name"]) for match in tocsin.query(QUERY).detect(path, jit=False, **options)]


@pytest.mark.parametrize("limit", [None, "1 MB"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_what_stands_between_columns_is_found(delimiter: str, ends: str, limit: str | None, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(ends.join(line.replace(",", delimiter) for line in LINES).encode("utf-8-sig"))
    assert found(path, **({} if limit is None else {"memory_limit": limit})) == [(1, "one")]


def test_a_comma_in_the_first_line_decides(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("\n".join(line.replace("name", "name;x") for line in LINES))
    matches = tocsin.query(QUERY.replace("a.name AS name", "a.`name;x` AS name")).detect(path, jit=False)
    assert [match["name"] for match in matches] == ["one"]
    path.write_text("\n".join(line.replace(",", ";").replace("name", '"a, b";name') for line in LINES[:1]))
    assert found(path) == []


@pytest.mark.parametrize(
    ("times", "says"),
    [
        (("2026-03-01T09:00:00Z", "2026-03-01T09:01:00"), "the time has no zone, and those before have one"),
        (("2026-03-01T09:00:00", "2026-03-01T10:01:00+01:00"), "the time has a zone, and those before have none"),
        (("2026-03-01T09:00:00", "yesterday"), "the time is neither a whole number nor a timestamp"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_times_with_and_without_a_zone_are_told_apart(
    times: tuple[str, str], says: str, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"events.{ending}"
    if ending == "csv":
        path.write_text("type,time,k,name\n" + "".join(f"A,{at},1,one\n" for at in times))
    else:
        path.write_text("".join(f'{{"type": "A", "time": "{at}", "k": 1, "name": "one"}}\n' for at in times))
    with pytest.raises(InputError) as refused:
        found(path)
    assert says in str(refused.value)
    assert f"line {3 if ending == 'csv' else 2}" in str(refused.value)


def test_zones_that_differ_are_one_time_line(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("type,time,k,name\nA,2026-03-01T09:00:00Z,1,one\nB,2026-03-01T10:01:00+01:00,1,two\n")
    assert found(path) == [(1, "one")]
