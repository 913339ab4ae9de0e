"""Tails: the inner part of a nest, found once for an event and used again for every later event that meets it.

In `ISEQ[..., end(c) < start(d)](A a, B b, C c, D d)` each d meets all the c of a window, and what stands beside a c
does not depend on d. So where nothing but the window relates the inner leaves (a, b) to those outside (d), the bindings
of the inner leaves with one event of the leaf between (c) are kept in a ring, MEM, and found by a word of that event.

A tail is what the stored events say now, in order of time: an event at an inner leaf lets go of the tails that it can
change, and all go where the order is not kept, or memory moves. So a tail is never saved, and may go at any time.
"""

from __future__ import annotations

from tocsin.engine.codegen.layout import Layout
from tocsin.engine.codegen.levels import Levels
from tocsin.engine.codegen.row_words import key_at
from tocsin.engine.codegen.snippets import in_column, least, most
from tocsin.engine.codegen.source import SourceText
from tocsin.plan.block import Point

HEAD = 2  # words of an entry before its events: its first start and last end


class Tails:
    """Writes the function `remember`, which finds the tail of an event, and the loops of the nest that use tails."""

    def __init__(self, layout: Layout, source: SourceText, levels: Levels) -> None:
        self.layout, self.source, self.levels = layout, source, levels
        self.emit, self.lines = source.emit, source.lines

    @property
    def level(self) -> int:
        """The level whose events have tails; -1: none has."""
        return self.layout.tail_level

    @property
    def inner(self) -> tuple[int, ...]:
        return self.layout.nest[self.level + 1 :]

    def write_remember(self) -> None:
        """Write `remember(place, key, S)`: it finds the tail of an event; its position in MEM + 1, or -1: no room."""
        if self.level < 0:
            return
        leaf, width = self.layout.nest[self.level], HEAD + len(self.inner)
        word = f"H[i_{leaf} * {self.layout.words} + {self.layout.row_tail}]"
        self.lines("@compiled", f"def remember(i_{leaf}, key, S):")
        self.source.declared.append(("remember", "iiS"))
        with self.source.writer.indented():
            self.source.unpack()
            self.lines(
                "W = T[PARAMS]",
                "size = T[MEM_SIZE]",
                "origin = T[TAILS]",
                "first = origin & (size - 1)",  # a power of two
                "if first == 0:",  # the ring begins anew: what stood there is overwritten
                "    T[TAILS_FROM] = origin",
                "at = first + 1",
                "count = 0",
                f"e_{leaf} = {self.source.word(leaf, 0)}",
                f"s_{leaf} = {self.source.word(leaf, self.layout.row_start)}",
                f"mn_{leaf} = s_{leaf}",
                f"mx_{leaf} = e_{leaf}",
            )
            depth = self.source.writer.depth
            placed = self.levels.plain_predicates(self.layout.root)
            for level in range(self.level + 1, len(self.layout.nest)):
                self._level(level)
                self.source.tests(placed.get(level, []), "continue")
            last = self.layout.nest[-1]
            self.lines(
                f"if at + {width} > size:",
                "    T[TAILS] = origin - first + size",
                "    T[TAILS_FROM] = T[TAILS]",
                "    if first == 0:",  # it alone fills the ring: do not try again
                f"        {word} = -1",
                "    return -1",
                f"MEM[at] = mn_{last}",
                f"MEM[at + 1] = mx_{last}",
                *(f"MEM[at + {HEAD + at}] = {self.source.word(each, 1)}" for at, each in enumerate(self.inner)),
                f"at += {width}",
                "count += 1",
            )
            self.source.writer.depth = depth
            self.lines(
                "MEM[first] = count",
                "T[TAILS] = origin - first + at",
                f"{word} = origin + 1",
                "return origin + 1",
            )
        self.emit("")

    def _level(self, level: int) -> None:
        """Write a loop over the events of an inner leaf that go with those bound before it, from the owner on."""
        leaf, before = self.layout.nest[level], self.layout.nest[level - 1]
        exact = self.layout.nest[self.level : level]
        low, high = self.levels.bounds(self.layout.root, leaf, exact, ())
        low, high = [*low, f"mx_{before} - W"], [*high, f"mn_{before} + W"]
        self.lines(
            f"d_{leaf} = {self.levels.buffer(leaf)}",
            f"i_{leaf}, z_{leaf} = near(H, {self.layout.words}, D[4 * d_{leaf} + 1], D[4 * d_{leaf} + 2],"
            f" {most(low)}, {least(high)})",
        )
        self.source.loop(leaf, f"z_{leaf}")
        self.lines(
            f"e_{leaf} = {self.source.word(leaf, 0)}",
            f"s_{leaf} = {self.source.word(leaf, self.layout.row_start)}",
            f"mn_{leaf} = min(mn_{before}, s_{leaf})",
            f"mx_{leaf} = max(mx_{before}, e_{leaf})",
        )
        tests = [f"mx_{leaf} - mn_{leaf} <= W", *self.levels.exact_tests(self.layout.root, leaf, exact)]
        self.source.test(" and ".join([*tests, *self.levels.distinct(self.layout.root, leaf, exact)]), "continue")

    def begin(self) -> None:
        """Write the test whether tails may be used, which depends on the leaf that is pinned."""
        if self.level >= 0:
            outer = " or ".join(f"a_{leaf} >= 0" for leaf in self.layout.nest[: self.level])
            self.emit(f"shared = T[ORDERED] != 0 and ({outer})")

    def use(self, level: int, mn: str, mx: str) -> None:
        """Write, below the tests of the level, the loop that gives an answer for each entry of the tail."""
        if level != self.level:
            return
        leaf, width = self.layout.nest[level], HEAD + len(self.inner)
        known = self.layout.nest[: level + 1]
        self.emit("if shared:")
        with self.source.writer.indented():
            self.lines(
                f"tail = H[i_{leaf} * {self.layout.words} + {self.layout.row_tail}]",
                "if 0 <= tail <= T[TAILS_FROM]:",
                f"    tail = remember(i_{leaf}, key, S)",
                "if tail > 0:",
            )
            with self.source.writer.indented():
                self.lines(
                    "to = (tail - 1) & (T[MEM_SIZE] - 1)",
                    "left = MEM[to]",
                    f"to -= {width - 1}",
                    "at = T[OUT_N]",
                    "room = T[OUT_SIZE]",
                    "if at + left > room:",
                    "    return False",
                    *(f"v_{each} = {self.source.word(each, 1)}" for each in known),
                    "sign, clock = T[SIGN], T[CLOCK]",
                    "while left > 0:",
                    "    left -= 1",
                    f"    to += {width}",
                    f"    if max({mx}, MEM[to + 1]) - min({mn}, MEM[to]) <= W:",
                    "        OUT[at] = sign",
                    "        OUT[at + room] = clock",
                    *(f"        OUT[{in_column(2 + place)}] = v_{each}" for place, each in enumerate(known)),
                    *(
                        f"        OUT[{in_column(3 + level + place)}] = MEM[to + {HEAD + place}]"
                        for place in range(len(self.inner))
                    ),
                    "        at += 1",
                    "T[OUT_N] = at",
                    "continue",
                )

    def stored(self, leaf: int) -> None:
        """Write what follows when an event was stored at a leaf: it has no tail, and may change the tails of others."""
        if self.level < 0:
            return
        owner = self.layout.nest[self.level]
        if leaf == owner:
            self.emit(f"H[place * {self.layout.words} + {self.layout.row_tail}] = 0")
        if leaf not in self.inner:
            return
        low, _ = self.levels.bounds(self.layout.root, owner, (leaf,), ())
        comes_before = self._comes_before(leaf)
        if not (comes_before or low or owner in self.layout.keys):  # it may change any: they would be many to look at
            self.emit("T[TAILS_FROM] = T[TAILS]")
            return
        self.lines("if not ordered:", "    T[TAILS_FROM] = T[TAILS]")
        if comes_before:
            return
        number = self.layout.number[leaf]
        self.lines("else:", f"    key = {key_at(number)}", f"    d = {self.levels.buffer(owner)}")
        self.lines(f"    e_{leaf} = e", f"    s_{leaf} = s")
        self.lines(f"    since = {most([*low, 'e - T[PARAMS]'])}", "    at = D[4 * d + 2] - 1")
        self.lines(
            f"    while at >= D[4 * d + 1] and H[at * {self.layout.words}] >= since:",
            f"        H[at * {self.layout.words} + {self.layout.row_tail}] = 0",
            "        at -= 1",
        )

    def _comes_before(self, leaf: int) -> bool:
        """Whether the inner leaf ends before another event of its tail: then, in order, a new event changes no tail."""
        others = [other for other in (self.layout.nest[self.level], *self.inner) if other != leaf]
        implies = self.layout.root_order.implies
        return any(implies(Point(leaf, "end"), Point(other, "end"), strict=True) for other in others)
