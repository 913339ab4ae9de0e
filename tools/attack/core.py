"""What a surface is, and the trial of one input: an answer, one TocsinError, or a finding."""

from __future__ import annotations

import base64
import json
import os
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from tocsin.errors import TocsinError

Input: TypeAlias = dict[str, Any]  # JSON values and bytes, so that it can be kept in a file

ANSWER, REFUSED = "answer", "refused"  # as it should be
DIFFERENT, RAISED, DIED, HUNG = "different", "raised", "died", "hung"  # findings
FINE = (ANSWER, REFUSED)


class WrongAnswerError(Exception):
    """An input was answered, and the answer is not the right one."""


@dataclass(frozen=True, slots=True)
class Surface:
    """One way in.

    `make` draws an input. `judge` gives it to Tocsin: it returns if the answer is right, lets a TocsinError pass, and
    raises WrongAnswerError if the answer is wrong. `share` says how many inputs it gets beside the others, `seconds`
    how much CPU time one input may take.
    """

    name: str
    make: Callable[[Random], Input]
    judge: Callable[[Input], None]
    share: float = 1.0
    seconds: int = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an input: one of the words above, and for findings what happened and where."""

    word: str
    problem: str = ""
    place: str = ""

    @property
    def fine(self) -> bool:
        return self.word in FINE

    @property
    def kind(self) -> str:
        """What findings that are alike have in common."""
        return f"{self.word} {self.place or self.problem[:60]}"


def drawn(surface: Surface, seed: int, number: int) -> Input:
    """Make the input that has this number; the same on every machine."""
    return surface.make(Random(f"{seed} {surface.name} {number}"))  # noqa: S311 - not for secrets


def attempt(surface: Surface, given: Input) -> Outcome:
    """Give one input to Tocsin."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            surface.judge(given)
    except TocsinError as error:
        return Outcome(REFUSED) if str(error).strip() else Outcome(RAISED, "an error without a word", place_of(error))
    except WrongAnswerError as wrong:
        return Outcome(DIFFERENT, str(wrong), str(wrong).split(":")[0][:60])
    except BaseException as error:  # noqa: BLE001 - whatever comes is what we look for
        said = f"{type(error).__name__}: {error}"[:500]
        return Outcome(RAISED, said, f"{type(error).__name__} in {place_of(error)}")
    return Outcome(ANSWER)


def place_of(error: BaseException) -> str:
    """Return the last place in Tocsin that an exception passed, or else the last one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}tocsin{os.sep}" in frame.filename] or frames
    if not own:
        return "nowhere"
    return f"{own[-1].filename.rpartition(f'{os.sep}tocsin{os.sep}')[2]}:{own[-1].name}"


# --- inputs as text ------------------------------------------------------------------------------------------------


def as_text(given: Any, *, indent: int | None = None) -> str:
    """Write an input as JSON; bytes are marked."""
    return json.dumps(given, default=lambda raw: {"base64": base64.b64encode(raw).decode()}, indent=indent)


def from_text(text: str) -> Any:
    """Read what `as_text` wrote."""
    return json.loads(text, object_hook=_bytes)


def _bytes(found: dict[str, Any]) -> Any:
    return base64.b64decode(found["base64"]) if found.keys() == {"base64"} else found
