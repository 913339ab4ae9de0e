"""Select as text: the rows that the matches of a run give, one for each or one for all of them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tocsin.lang.staged_printer import key_range
from tocsin.lang.staged_syntax import (
    AggregateOf,
    AttrOf,
    Collection,
    EventsOf,
    IfNull,
    PartitionKey,
    StableTime,
    TimeOf,
    UnionOf,
    parts,
)
from tocsin.plan.staged_places import key_attribute
from tocsin.schema import Kind
from tocsin.staged.compiled.expressions import (
    EXACT,
    KINDS,
    SMALL,
    Absence,
    Known,
    Value,
    attribute,
    both,
    either,
    limited,
    value,
)
from tocsin.staged.compiled.layout import NotCompiledError, WordLayout
from tocsin.staged.compiled.library import ABSENT, AT, COUNT, END, HEAD, NEXT, SETS, START, TAIL, WHOLE
from tocsin.staged.compiled.running import RunningAggregate
from tocsin.staged.compiled.search import SearchWriter, each_of_set, time_of
from tocsin.staged.compiled.writer import TextWriter
from tocsin.staged.spots import PatternSpot

Pushing = Callable[[Callable[[str], Value]], None]  # pushes the value that an event has, given how attributes are read


@dataclass
class SelectWriter:
    """Writes Select. `closers` writes a loop over the events that close the context (None: it goes on).

    end  when the rows end: later than their stage, where they have waited for the end of the context (delayed)
    """

    layout: WordLayout
    write: TextWriter
    search: SearchWriter
    kinds: Sequence[Kind]
    closers: Callable[[int, Pushing], None] | None = None
    end: str = "now"
    one: bool = False  # an aggregate for one match of a group
    values: str = "V"  # the array of values that are pushed
    spots: dict[str, list[PatternSpot]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.group = self.layout.places.is_group
        self.bindable = set(self.search.constituents(self.layout.root))
        for spot in self.layout.spots:
            if spot.name is not None:
                self.spots.setdefault(spot.name, []).append(spot)

    def rows(self) -> None:
        """Write the rows of the matches in M."""
        write = self.write
        if self.group:
            with write.block("if matched > 0:"):
                self._row(self._start_of_all())
            return
        with write.block("for m in range(matched):"):
            for number in self.layout.places_of:
                write(f"x{number} = {self._in_match(number)}")
            self._members(0)

    def _members(self, at: int) -> None:
        """Write the rows of a match: one for each choice of an event for each operand with `all`."""
        write, every = self.write, self.layout.members
        if at == len(every):
            self._row(self._time(self.layout.root, "start-ts").text)
            return
        x, word = f"x{every[at]}", self.write.fresh("word")
        place = write.fresh("k")
        write(f"{word} = {x}", f"{place} = 0")
        with write.block("while True:"):
            if self.is_delayed:
                with write.block(f"if {word} <= {SETS}:"):
                    write(f"{x} = E[{SETS} - {word} + 1 + {place}]")
            else:
                with write.block(f"if {word} == {WHOLE}:"):
                    write(f"{x} = D[{self.search.list_of(every[at])} + {HEAD}] if {place} == 0 else D[{x} + {NEXT}]")
            self._members(at + 1)
            write(f"{place} += 1")
            if self.is_delayed:
                write(f"is_last = {word} > {SETS} or {place} == E[{SETS} - {word}]")
            else:
                write(f"is_last = {word} != {WHOLE} or D[{x} + {NEXT}] == -1")
            with write.block("if is_last:"):
                write("break")

    @property
    def is_delayed(self) -> bool:
        """Whether the events of matches are copies that stand in no list."""
        return self.end != "now"

    def _row(self, start: str) -> None:
        write, width = self.write, self.layout.row
        values = [value(self.layout, column.expr, self._look_up) for column in self.layout.statement.select]
        with write.block(f"if (P[OUT_N] + 1) * {width} > ON:"):
            write.more("O", "0")
        write(f"o = P[OUT_N] * {width}", "P[OUT_N] += 1", f"O[o] = {self.end}", f"O[o + 1] = {start}", "O[o + 2] = 0")
        write(*(f"O[o + {4 + k}] = D[g + G_KEY + {k}]" for k in range(self.layout.g)))
        for at, (each, kind) in enumerate(zip(values, self.kinds, strict=True)):
            self._column(at, each, kind)

    def _column(self, at: int, given: Known, kind: Kind) -> None:
        write = self.write
        if isinstance(given, Absence) or given.null == "True":
            write(f"O[o + {self.layout.head + at}] = 0", f"O[o + 2] |= {1 << at}")
            return
        if kind is Kind.FLOAT:
            target, given = "OR", limited(self.layout, given, EXACT)
        else:
            target = "O"
            if given.kind == "float" or (given.kind == "text") != (kind is Kind.TEXT):
                raise NotCompiledError("a column of Select is of another kind than its value")
        with write.block(f"if {given.null}:"):
            write(f"O[o + {self.layout.head + at}] = 0", f"O[o + 2] |= {1 << at}")
        with write.block("else:"):
            write(f"{target}[o + {self.layout.head + at}] = {given.text}")

    # --- times of matches ---

    def _start_of_all(self) -> str:
        write, name = self.write, self.write.fresh("t")
        write(f"{name} = 9223372036854775807")
        with write.block("for m in range(matched):"):
            one = self._time(self.layout.root, "start-ts").text
            write(f"{name} = min({name}, {one})")
        return name

    def _word(self, number: int) -> str:
        return self._in_match(number) if self.group else f"x{number}"

    def _in_match(self, number: int) -> str:
        places = self.layout.places_of
        return f"M[m * {len(places)} + {places[number]}]"

    def _time(self, spot: PatternSpot, which: str) -> Value:
        """The start or end of the match at hand (m), at a spot."""
        write, name, start = self.write, self.write.fresh("t"), which == "start-ts"
        nothing = 9223372036854775807 if start else -9223372036854775807
        write(f"{name} = {nothing}")
        pick = "min" if start else "max"
        for number, what in self.search.timed(spot):
            word = self._word(number)
            with write.block(f"if {word} >= 0:"):
                write(f"{name} = {pick}({name}, {time_of(word, what, start=start)})")
            if number in self.search.whole:
                node = write.fresh("y")
                with write.block(f"if {word} == {WHOLE}:"):
                    write(f"{node} = D[{self.search.list_of(number)} + {HEAD}]")
                    with write.block(f"while {node} != -1:"):
                        write(f"{name} = {pick}({name}, {time_of(node, what, start=start)})")
                        write(f"{node} = D[{node} + {NEXT}]")
            if self._has_sets(number):
                node = write.fresh("y")
                with each_of_set(write, word, node):
                    write(f"{name} = {pick}({name}, {time_of(node, what, start=start)})")
        with write.block(f"if {name} == {nothing}:"):
            write(f"{name} = {'D[c + C_OPENED]' if start else 'now'}")
        return Value(name, attr="time")

    def _has_sets(self, number: int) -> bool:
        """Whether a match may have a set of events at a leaf."""
        return number in self.search.sets or (self.is_delayed and number in self.search.whole)

    def _operator_time(self, spot: PatternSpot, which: str) -> Value:
        inside = [each.number for each in spot.all() if each.number in self.layout.places_of]
        absent = both(*(f"{self._word(number)} == {ABSENT}" for number in inside))
        if not self.group:
            return Value(self._time(spot, which).text, absent, attr="time")
        write, name, start = self.write, self.write.fresh("t"), which == "start-ts"
        gone = self.write.fresh("gone")
        write(f"{name} = {9223372036854775807 if start else -9223372036854775807}", f"{gone} = True")
        with write.block("for m in range(matched):"):
            one = self._time(spot, which).text
            write(f"{name} = {'min' if start else 'max'}({name}, {one})", f"{gone} = {gone} and {absent}")
        return Value(name, gone, attr="time")

    # --- names ---

    def _leaves(self, name: str) -> list[int]:
        """The leaves of a name that a match may bind."""
        return [spot.number for spot in self.spots.get(name, ()) if spot.number in self.bindable and spot.leaf]

    def _look_up(self, node: object) -> Known:
        match node:
            case AggregateOf():
                return self._aggregate(node)
            case StableTime():
                return Value("now", attr="time")
            case AttrOf() if self.layout.places.is_label(node):
                return self._label(str(node.name))
            case AttrOf():
                if self.group and (key := self._key(str(node.name), node.attr)) is not None:
                    return key
                newest = self._newest(self._leaves(str(node.name)))
                return self._of_node(newest, node.attr, f"{newest} < 0")
            case TimeOf(which="sst"):
                raise NotCompiledError("sst asks what may still come")
            case TimeOf():
                numbers = [spot for spot in self.spots.get(node.name, ()) if spot.leaf is not None]
                if not numbers:
                    (spot,) = self.spots[node.name]
                    return self._operator_time(spot, node.which)
                newest = self._newest(self._leaves(node.name))
                at = START if node.which == "start-ts" else END
                return Value(f"D[{newest} + {at}]", f"{newest} < 0", attr="time")
        raise NotCompiledError("a column that is not known")

    def _of_node(self, node: str, attr: str, gone: str = "False") -> Value:
        found = attribute(self.layout, attr, f"D[{node} + 7 + {{}}]", f"R[{node} + 7 + {{}}]", f"D[{node} + 6]")
        return Value(found.text, either(gone, found.null), found.kind, found.bits, found.attr)

    def _newest(self, numbers: Sequence[int]) -> str:
        """The name of a variable with the last event of some leaves; negative: there is none."""
        write, name = self.write, self.write.fresh("y")
        write(f"{name} = -1")

        def look() -> None:
            for number in numbers:
                word = self._word(number)
                last = word
                if number in self.search.whole or self._has_sets(number):
                    last = write.fresh("y")
                    write(f"{last} = {word}")
                    with write.block(f"if {word} == {WHOLE}:"):
                        write(f"{last} = D[{self.search.list_of(number)} + {TAIL}]")
                    with write.block(f"if {word} <= {SETS}:"):
                        count = f"E[{SETS} - {word}]"
                        write(f"{last} = E[{SETS} - {word} + {count}] if {count} > 0 else -1")
                with write.block(f"if {last} >= 0 and ({name} < 0 or D[{last} + {AT}] > D[{name} + {AT}]):"):
                    write(f"{name} = {last}")

        if self.group:
            with write.block("for m in range(matched):"):
                look()
        else:
            look()
        return name

    def _keys(self) -> list[tuple[PartitionKey, str]]:
        """The clauses of the partition, each with the text of its word."""
        statement = self.layout.statement
        found = [(key, f"D[g + G_KEY + {at}]") for at, key in enumerate(statement.gkeys)]
        return found + [(key, f"D[lk + {at}]") for at, key in enumerate(statement.lkeys)]

    def _label(self, name: str) -> Value:
        for key, word in self._keys():
            if key.name == name:
                if key.ranges:
                    texts = [each.label or key_range(each, labelled=False) for each in key.ranges]
                    at = [self.layout.text(text) for text in texts]
                    first = int(at[0][2:-1])
                    if [int(each[2:-1]) for each in at] != list(range(first, first + len(at))):
                        raise NotCompiledError("two ranges of a key have one label")
                    return Value(f"C[{first} + {word}]", kind="text")
                return self._of_key(key.entries[0].attr, word)
        raise NotCompiledError("a label of no key")

    def _of_key(self, attr: str, word: str) -> Value:
        found = self.layout.field(attr)
        kind = KINDS[found.kind] if found is not None else "int"
        if kind == "float":
            word = word.replace("D[", "R[", 1)
        return Value(word, kind=kind, attr=attr)

    def _key(self, name: str, attr: str) -> Value | None:
        """The value of the partition for an attribute of a role, of keys without ranges."""
        found = None
        for key, word in self._keys():
            for leaf in self.layout.leaves if not key.ranges else ():
                assert leaf.leaf is not None
                if leaf.leaf.called == name and key_attribute(key, leaf.leaf) == attr:
                    found = self._of_key(attr, word)
        return found

    # --- aggregates ---

    def _aggregate(self, node: AggregateOf) -> Value:
        """Push the values, and compute."""
        write, layout = self.write, self.layout
        collections = list(_collections(node.of))
        kinds, attrs = set[str](), list[str]()
        if any(isinstance(each.of, AggregateOf) for each in collections):
            if self.values == "U":
                raise NotCompiledError("aggregates of aggregates of aggregates")
            self.values = "U"
        array, count = self.values, self.count
        write(f"{count} = 0")
        for each in collections:
            of = each.of
            if isinstance(of, AggregateOf):
                kinds.add(self._of_each_match(of, attrs))
                continue
            if isinstance(of, EventsOf):
                if len(collections) > 1:
                    raise NotCompiledError("a union of events")
                kinds.add("int")
                self._events(of.name, lambda _: self.push(Value("1")))
                continue
            shown = of.of if isinstance(of, IfNull) else of
            attrs.append(shown.attr)

            def push(read: Callable[[str], Value], of: AttrOf | IfNull = of) -> None:
                known = value(layout, of, lambda part: read(part.attr))
                assert isinstance(known, Value)
                kinds.add(known.kind)
                self.push(known)

            self._events(str(shown.name), push)
        if len(kinds) > 1:
            raise NotCompiledError("a union of values of different kinds")
        kind = next(iter(kinds), "int")
        is_set = self.group and not self.one and any(each.mark != "Bag" for each in collections)
        if is_set and not isinstance(collections[0].of, EventsOf):
            write(f"{count} = once({array}, {array}R, {kind == 'float'}, {count})")
        found = self.computed(node.function, kind, attrs)
        self.values = "V"
        return found

    @property
    def count(self) -> str:
        """The variable that says how many values there are."""
        return f"{self.values.lower()}n"

    def _of_each_match(self, node: AggregateOf, attrs: list[str]) -> str:
        """Push an aggregate for each match of a group; the kind of its values."""
        with self.write.block("for m in range(matched):"):
            self.one, self.values = True, "V"
            inner = self._aggregate(node)
            self.one, self.values = False, "U"
            self.push(inner)
        attrs += [part.attr for part in parts(node) if isinstance(part, AttrOf)]
        for attr in attrs:  # an event may stand in many matches, so that a sum is not one over different events
            if inner.kind == "int":
                self.layout.needs_bits(attr, SMALL)
        return inner.kind

    def computed(self, function: str, kind: str, attrs: Sequence[str]) -> Value:
        write, name, layout, vn = self.write, self.write.fresh("a"), self.layout, self.count
        if function == "Count":
            write(f"{name} = {vn}")
            return Value(name, bits=40)
        if kind == "text":
            raise NotCompiledError(f"{function} of texts")
        null, words = self.write.fresh("z"), f"{self.values}R" if kind == "float" else self.values
        if function in ("Sum", "Avg"):
            layout.sums.update(attrs)
        if function == "Median":
            layout.ordinary.update(attrs)
            for attr in attrs:
                layout.needs_bits(attr, EXACT - 1)
        real = kind == "float" or function in ("Avg", "Median")
        write(f"{null} = {vn} == 0", f"{name} = {'0.0' if real else '0'}")
        call = {"Sum": "total_of", "Avg": "total_of", "Max": "greatest", "Min": "least", "Median": "middle"}[function]
        with write.block(f"if {vn} > 0:"):
            write(f"{name} = {call}({words}, {vn})" + (f" / {vn}" if function == "Avg" else ""))
        if real:
            return Value(name, null, "float")
        if function == "Sum":
            return Value(name, null, "int", EXACT)
        return Value(name, null, kind, 63, attrs[0] if len(attrs) == 1 else None)

    def push(self, known: Value) -> None:
        write, array, count = self.write, self.values, self.count
        if known.null == "True":
            return
        with write.block(f"if not {known.null}:"):
            with write.block(f"if {count} == {array}N:"):
                write.more(array, "0")
            write(f"{array + 'R' if known.kind == 'float' else array}[{count}] = {known.text}", f"{count} += 1")

    def _events(self, name: str, push: Pushing) -> None:
        """Push a value for each event of a role, in canonical order."""
        write, numbers = self.write, self._leaves(name)
        if [spot for spot in self.spots.get(name, ()) if spot.leaf is not None]:
            if len(numbers) > 1:
                raise NotCompiledError(f"{name} is the name of several operands")
            for number in numbers:
                self._bound_events(number, push)
            return
        opened = [at for at, init in enumerate(self.layout.inits) if init.type is not None and init.called == name]
        header = "if"
        if opened:
            with write.block(f"if {either(*(f'D[c + C_OPENER] == {at}' for at in opened))}:"):
                self.opening(push)
            header = "elif"
        for at, term in enumerate(self.layout.terms):
            if self.closers is not None and term.type is not None and term.called == name:
                with write.block(f"{header} D[c + C_CLOSED] == {at}:"):
                    self.closers(at, push)
                header = "elif"

    def opening(self, push: Pushing) -> None:
        """Push a value for each event that opened the context."""
        write, node = self.write, self.write.fresh("y")
        write(f"{node} = D[c + C_OPENERS + {HEAD}]")
        with write.block(f"while {node} != -1:"):
            push(lambda attr: self._of_node(node, attr))
            write(f"{node} = D[{node} + {NEXT}]")

    def _bound_events(self, number: int, push: Pushing) -> None:
        """The distinct events of a leaf over the matches: they are marked, and then its list is walked."""
        write = self.write
        if not self.group or self.one:
            self._events_of_word(number, push)
            return
        if self.is_delayed:
            self._distinct_copies(number, push)
            return
        if number in self.search.whole:
            self._whole(number, push)
            return
        node, first = write.fresh("y"), self.search.list_of(number)
        if number in self.layout.sources:
            first = f"loc + {self.layout.lists_at(number, due=True)}"
        walks = "True" if number in self.search.sets else "matched > 1"
        write("P[RUN] += 1", f"{node} = -1")
        with write.block("for m in range(matched):"):
            with write.block(f"if {self._word(number)} >= 0:"):
                write(f"{node} = {self._word(number)}", f"D[{node} + 2] = P[RUN]")
            if number in self.search.sets:
                with each_of_set(write, self._word(number), node):
                    write(f"D[{node} + 2] = P[RUN]")
        with write.block(f"if {node} >= 0 and {walks}:"):
            write(f"{node} = D[{first} + {HEAD}]")
        with write.block(f"while {node} != -1:"):
            with write.block(f"if D[{node} + 2] == P[RUN]:"):
                push(lambda attr: self._of_node(node, attr))
            write(f"{node} = D[{node} + {NEXT}] if {walks} else -1")

    def _events_of_word(self, number: int, push: Pushing) -> None:
        """The events that the match at hand has at a leaf."""
        write, node, word = self.write, self.write.fresh("y"), self._word(number)
        with write.block(f"if {word} >= 0:"):
            write(f"{node} = {word}")
            push(lambda attr: self._of_node(node, attr))
        if number in self.search.whole and not self.is_delayed:
            with write.block(f"if {word} == {WHOLE}:"):
                write(f"{node} = D[{self.search.list_of(number)} + {HEAD}]")
                with write.block(f"while {node} != -1:"):
                    push(lambda attr: self._of_node(node, attr))
                    write(f"{node} = D[{node} + {NEXT}]")
        if self._has_sets(number):
            with each_of_set(write, word, node):
                push(lambda attr: self._of_node(node, attr))

    def _distinct_copies(self, number: int, push: Pushing) -> None:
        """The distinct events of a leaf over matches that have copies of them, each its own."""
        write, first, node, word = self.write, self.write.fresh("first"), self.write.fresh("y"), self._word(number)

        def keep(each: str) -> None:
            with write.block("if en == EN:"):
                write.more("E", "0")
            write(f"E[en] = {each}", "en += 1")

        write(f"{first} = en")
        with write.block("for m in range(matched):"):
            with write.block(f"if {word} >= 0:"):
                keep(word)
            if self._has_sets(number):
                with each_of_set(write, word, node):
                    keep(node)
        rows = write.fresh("rows")
        write(f"{rows} = en - {first}")
        with write.block(f"if en + {rows} + 1 > EN:"):
            write.more("E", f"en + {rows} + 1")
        place = write.fresh("word")
        write(f"gathered(E, D, {first}, {rows}, 1, 0, en)", f"{place} = {SETS} - en")
        with each_of_set(write, place, node):
            push(lambda attr: self._of_node(node, attr))
        write(f"en = {first}")

    def _whole(self, number: int, push: Pushing) -> None:
        """All events of a list, where a match of a group has them."""
        write, node, there = self.write, self.write.fresh("y"), self.write.fresh("there")
        write(f"{there} = False")
        with write.block("for m in range(matched):"):
            write(f"{there} = {there} or {self._word(number)} == {WHOLE}")
        write(f"{node} = D[{self.search.list_of(number)} + {HEAD}] if {there} else -1")
        with write.block(f"while {node} != -1:"):
            push(lambda attr: self._of_node(node, attr))
            write(f"{node} = D[{node} + {NEXT}]")


class RunningSelectWriter(SelectWriter):
    """Writes Select where aggregates go on from stage to stage: each is a word or two of the local partition."""

    def rows(self) -> None:
        assert self.layout.running is not None
        starts = [f"D[loc + L_RUNNING + {at}]" for at in range(len(self.layout.running.leaves))]
        found = starts[0]
        for each in starts[1:]:
            found = f"min({found}, {each})"
        self._row(found)

    def _newest(self, numbers: Sequence[int]) -> str:
        """The last event of its list: every event of it stands in a match."""
        (number,) = numbers
        name = self.write.fresh("y")
        self.write(f"{name} = D[{self.search.list_of(number)} + {TAIL}]")
        return name

    def _aggregate(self, node: AggregateOf) -> Value:
        assert self.layout.running is not None
        each = self.layout.running.found.get(node)
        if each is not None:
            return self._running(each)
        of = node.of.of if isinstance(node.of, Collection) else None
        if isinstance(of, EventsOf) and (numbers := self._leaves(of.name)):
            return Value(f"D[{self.search.list_of(numbers[0])} + {COUNT}]", bits=40)
        return super()._aggregate(node)

    def _running(self, each: RunningAggregate) -> Value:
        layout, attrs, known = self.layout, list[str](), Value("0")
        for of, _ in each.terms:
            before, one = known, value(layout, of, lambda part: attribute(layout, part.attr, "D[{}]", "R[{}]", "0"))
            assert isinstance(one, Value)
            if attrs and before.kind != one.kind:
                raise NotCompiledError("a union of values of different kinds")
            known = one
            attrs.append(of.of.attr if isinstance(of, IfNull) else of.attr)
        count = f"D[loc + L_RUNNING + {each.at}]"
        if each.function == "Count":
            return Value(count, bits=40)
        if known.kind == "text":
            raise NotCompiledError(f"{each.function} of texts")
        total, null = f"{'R' if known.kind == 'float' else 'D'}[loc + L_RUNNING + {each.at + 1}]", f"({count} == 0)"
        if each.function in ("Sum", "Avg"):
            layout.sums.update(attrs)
        if each.function == "Avg":
            return Value(f"({total} / {count})", null, "float")
        if known.kind == "float":
            return Value(total, null, "float")
        if each.function == "Sum":
            return Value(total, null, "int", EXACT)
        return Value(total, null, known.kind, 63, attrs[0] if len(attrs) == 1 else None)


def _collections(of: Collection | UnionOf) -> list[Collection]:
    return [*_collections(of.left), of.right] if isinstance(of, UnionOf) else [of]
