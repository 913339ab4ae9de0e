"""How a plan will run: compiled or as plain Python, and what is computed when an event arrives."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.engine import kernels
from tocsin.engine.codegen import Shape, generate
from tocsin.functions import Function, registered
from tocsin.plan.block import Plan
from tocsin.plan.expr import User


def describe(plan: Plan, functions: Mapping[str, Function] | None = None) -> str:
    """Lines to put below `explain(plan)`."""
    functions = registered() if functions is None else functions
    shape = Shape(plan.schema.intervals, eids=True)
    programs = [generate(plan, block, shape, functions, kernels.can_inline) for block in plan.alternatives]
    foreign = {_name(call) for program in programs for call in program.foreign}
    inlined = {name for program in programs for name in program.inlined}
    derived = sum(len(program.derived) for program in programs)
    lines = ["kernel    compiled by Numba" + (f", with {', '.join(sorted(inlined))} inside" if inlined else "")]
    if foreign:
        lines = [f"kernel    plain Python: {', '.join(sorted(foreign))} of several events cannot be compiled"]
    if derived:
        lines.append(
            f"arrival   {derived} {'values are' if derived > 1 else 'value is'} computed when an event arrives"
        )
    return "\n".join(lines)


def _name(call: object) -> str:
    return f"{call.name}()" if isinstance(call, User) else f"{getattr(call, 'op', call)}()"
