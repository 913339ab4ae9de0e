"""A surface that misbehaves in every way, to test this tool itself; it stands in no list."""

from __future__ import annotations

import os
import signal
from random import Random

from tocsin.errors import TocsinError
from tools.attack.core import Input, Surface, WrongAnswerError

DEEDS = ("answer", "refuse", "differ", "raise", "die", "spin")


def make(random: Random) -> Input:
    """Draw a deed, and items of which only one matters."""
    return {"deed": random.choice(DEEDS), "items": ["noise"] * random.randint(0, 8) + ["matter"] + ["noise"]}


def judge(given: Input) -> None:
    """Do the deed, if the item that matters is there."""
    if "matter" not in given["items"]:
        return
    match given["deed"]:
        case "refuse":
            raise TocsinError("refused")
        case "differ":
            raise WrongAnswerError("one and other: 1 against 2")
        case "raise":
            raise KeyError(given["deed"])
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "spin":
            while True:
                pass


SURFACE = Surface("practice", make, judge, seconds=1)
