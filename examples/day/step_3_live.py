"""The same events through a pipe: out of order, some too late, interrupted in the middle and gone on with."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import data

import tocsin

data.write()
RULE = "EVENT SEQ(Cancelled c, !Departed d) WHERE [tail] WITHIN 6 h"
lines = (data.FOLDER / "flights.jsonl").read_text().splitlines()
draw = random.Random(3)
order = sorted(range(len(lines)), key=lambda at: at + draw.randrange(8))  # a few places out of order
shuffled = [lines[at] for at in order]
late = [line for line in lines if json.loads(line)["type"] == "Departed"][:3]  # from the first morning, at the very end

for name in ("alarm.state", "late.jsonl"):
    (data.FOLDER / name).unlink(missing_ok=True)
command = [sys.executable, "-m", "tocsin", "run", RULE, "--input", "-", "--order", "conservative(6 h)"]
command += ["--state", str(data.FOLDER / "alarm.state"), "--late", str(data.FOLDER / "late.jsonl"), "--no-jit"]
end = json.dumps({"heartbeat": "2027-01-01T00:00:00"})  # nothing older comes any more: what waits is answered

half = len(lines) // 2
alarms = []
for part in (shuffled[:half], [*shuffled[half:], *late, end]):
    done = subprocess.run(command, input="\n".join(part) + "\n", capture_output=True, text=True, check=True)
    alarms += [json.loads(line) for line in done.stdout.splitlines()]
    print(done.stderr.strip().splitlines()[-1])

from_file = tocsin.query(RULE).detect(data.FOLDER / "flights.parquet")
kept = (data.FOLDER / "late.jsonl").read_text().splitlines()
print(f"{len(alarms)} alarms live, {len(from_file)} from the file; {len(kept)} rows came too late")
assert sorted(alarm["c"]["tail"] for alarm in alarms) == sorted(match["c"]["tail"] for match in from_file)
assert len(alarms) > 0 and kept == late
