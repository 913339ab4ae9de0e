"""Two result files side by side: python -m benchmarks.compare OLD.json NEW.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def speeds(path: str) -> dict[tuple[str, str], float]:
    rows = json.loads(Path(path).read_text())["rows"]
    return {(row["workload"], row["arm"]): row["events_per_second"] for row in rows if "error" not in row}


def main(old: str, new: str) -> int:
    before, after = speeds(old), speeds(new)
    print(f"{'workload':10} {'arm':8} {'old':>10} {'new':>10} {'new/old':>8}   (M events/s)")
    for place in before:
        if place in after:
            was, now = before[place] / 1e6, after[place] / 1e6
            print(f"{place[0]:10} {place[1]:8} {was:10.2f} {now:10.2f} {now / was:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
