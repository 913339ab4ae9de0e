"""Damage: bytes that are flipped, cut, doubled and moved; texts that lose, gain and exchange words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

WORD = re.compile(r"\w+|\s+|[^\w\s]")
ODD = (
    "\x00", "\ufeff", "\u2028", "\u200b", "\ud800", "é", "e\u0301", "ﬁ", "İ", "😀", "٣", "\\", "`", "``", '"', "'",
    "''", "--", "/*", ";", "\r", "\t", "%s", "{0}", "$(x)", "9" * 19, str(2**63), str(-(2**63)), "1e400", "1e-400",
    "0x10", "1_000", ".5", "5.", "NaN", "-0.0", "null", "true", "(", ")", "((((", "[", "]", ",", "+", "!", "=", "<>",
    "a" * 5000,
)  # fmt: skip


def damaged(random: Random, raw: bytes, *, most: int = 3) -> bytes:
    """Change bytes in a few places, or cut the end off."""
    found = bytearray(raw)
    for _ in range(random.randint(1, most)):
        if not found:
            return bytes(random.randbytes(random.randint(0, 8)))
        at = random.randrange(len(found))
        length = min(random.choice((1, 1, 2, 4, 8, 64)), len(found) - at)
        match random.randrange(8):
            case 0 | 1:
                found[at] ^= 1 << random.randrange(8)
            case 2:
                found[at : at + length] = random.randbytes(length)
            case 3:
                found[at : at + length] = random.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * length
            case 4:
                del found[at : at + length]
            case 5:
                found[at:at] = found[at : at + length]
            case 6:
                del found[at:]
            case 7:
                other = random.randrange(len(found))
                found[at : at + length] = found[other : other + length]
    return bytes(found)


def garbled(random: Random, text: str, words: Sequence[str] = (), *, most: int = 3) -> str:
    """Leave out, double, exchange and replace words of a text; `words` are those that may take their place."""
    pieces = WORD.findall(text)
    for _ in range(random.randint(1, most)):
        at = random.randrange(len(pieces) + 1)
        match random.randrange(6):
            case 0:
                del pieces[at : at + random.choice((1, 1, 2, 5))]
            case 1 if pieces:
                pieces.insert(at, random.choice(pieces))
            case 2 if pieces:
                pieces[at : at + 1] = [random.choice(pieces)]
            case 3:
                pieces.insert(at, random.choice(ODD))
            case 4 if words:
                pieces[at : at + 1] = [" ", random.choice(words), " "]
            case _:
                pieces[at : at + 1] = [random.choice(ODD)]
    return "".join(pieces)
