"""Taken from the shelf, never at the till, out of the door: the thefts in a made-up shop."""

from __future__ import annotations

import tocsin
from tocsin.testing.shop import shop

theft = tocsin.query("EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h")

made = shop(things=500, thefts=3)
matches = theft.detect(made.events)
print(matches)
assert {match["s"]["tag"] for match in matches} == set(made.stolen)
