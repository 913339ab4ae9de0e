"""The child process: it tries inputs one after another, each within its share of CPU time, and says what became of it.

The parent writes a line of JSON for each input (its surface with seed and number, or the input itself) and reads a
line with the outcome. A process that dies on the way has said enough: the parent knows the input.
"""

from __future__ import annotations

import faulthandler
import math
import os
import resource
import sys
import time
from typing import IO, Any

from tools.attack.core import attempt, drawn, from_text
from tools.attack.surfaces import surface

MEMORY = 8 << 30  # bytes of address space: a small input that needs more is a finding


def limit_cpu(seconds: int) -> None:
    """Let the system end this process when it has worked so many more seconds; it does so in compiled code too."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, most))


def answer(asked: dict[str, Any]) -> dict[str, str]:
    """Try one input."""
    chosen = surface(asked["surface"])
    limit_cpu(chosen.seconds)
    given = asked["input"] if "input" in asked else drawn(chosen, asked["seed"], asked["number"])
    outcome = attempt(chosen, given)
    return {"word": outcome.word, "problem": outcome.problem, "place": outcome.place}


def main() -> None:
    import json

    said: IO[str] = os.fdopen(os.dup(1), "w", encoding="utf-8")  # what Tocsin prints goes elsewhere
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        said.write(json.dumps(answer(from_text(line))) + "\n")
        said.flush()


if __name__ == "__main__":
    main()
