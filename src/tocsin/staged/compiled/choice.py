"""Which body a statement runs in: plain Python answers until its function is compiled, which another process does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock

from tocsin.compilers import Compilation, compilers, compiles_first
from tocsin.lang.staged_syntax import Statement
from tocsin.plan.block import Plan
from tocsin.schema import Field, Kind
from tocsin.staged.compiled import bodies
from tocsin.staged.compiled.bodies import Body
from tocsin.staged.compiled.layout import NotCompiledError
from tocsin.staged.compiled.program import StageFunction, program_of
from tocsin.staged.event_columns import fields_read

AT_ONCE = 512  # events that plain Python takes before it is asked again whether the function is there
WORTH = 1024  # events that are worth compiling for
MANY, LOADING = 1 << 12, 3.0  # of so many, we wait so many seconds for what need only be loaded


@dataclass(slots=True)
class _Asked:
    """What this process has done with a function, in all places together."""

    events: int = 0
    compilation: Compilation[Body] | None = None


_asked: dict[str, _Asked] = {}
_lock = Lock()


class BodyChoice:
    """The function of a statement; `program` is None, with the reason, if it is not compiled."""

    def __init__(
        self, statement: Statement, fields: Mapping[str, Field], unit: str | None, kinds: Sequence[Kind],
        longest: Mapping[str, int], *, jit: bool,
    ) -> None:  # fmt: skip
        self.program: StageFunction | None = None
        self.reason: str | None = None
        self._now = False
        self._asked_for = (statement, fields, unit, kinds, longest)
        self._jit = jit
        if jit:
            self._write()
        else:
            self.reason = "asked for by jit=False"

    def _write(self) -> None:
        try:
            self.program, self.reason = program_of(*self._asked_for), None
        except NotCompiledError as problem:
            self.reason = str(problem)

    def at_once(self) -> bool:
        """Have the function from the first event on, also as text that Python runs; False: there is none."""
        if self.program is None:
            self._write()
        self._now = True
        return self.program is not None

    def body(self, events: int) -> Body | None:
        """The compiled function, for so many events; None: not yet, or never."""
        if self.program is None:
            return None
        source = self.program.source
        if self._now:
            return bodies.compiled(source) if self._jit else bodies.plain(source)
        asked = _asked.setdefault(source, _Asked())
        asked.events += min(events, AT_ONCE)
        if asked.compilation is None:
            if asked.events < WORTH and events < WORTH:
                return None
            if compiles_first():
                return bodies.compiled(source)
            with _lock:
                work = None if _is_on_disk(source) else (bodies.compile_to_disk, (source,))
                asked.compilation = compilers().ask(source, work, partial(bodies.compiled, source))
        if events >= MANY and asked.compilation.work is None:
            asked.compilation.wait(LOADING)
        return asked.compilation.found if asked.compilation.is_done else None


@cache
def _is_on_disk(source: str) -> bool:
    return bodies.is_on_disk(source)


def body_of(plan: Plan) -> str:
    """A line that says what a statement runs in."""
    assert plan.staged is not None
    kinds = [output.expr.kind for output in plan.outputs]
    fields = fields_read(plan.staged, plan.schema)
    form, unit = plan.staged, plan.schema.unit
    reason = BodyChoice(form.statement, fields, unit, kinds, dict(form.longest), jit=True).reason
    return f"body      plain Python, because {reason}" if reason else "body      compiled: one function for its stages"
