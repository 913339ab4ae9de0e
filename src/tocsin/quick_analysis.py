"""Numba's own analyses of a kernel with the same results in less time: for compilers in processes of their own.

Nothing of a user runs there, so that Numba may be given other functions for some of its own; tests have it in their own
process. Of the time that a small kernel needs most is Numba's Python, not LLVM. Three places took a third of it:

- which variables live where is computed anew by each of nine passes, though only those that write deletions read it,
  and with sets of all names for each block, where a bit for each name does;
- what `a + b` means is looked up among all overloads of `+`, for each of them anew, though there are few kinds of
  arguments;
- flags are compared by building a dict of all of them.

`tests/test_quick_analysis.py` holds each against what Numba itself computes.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import analysis, ir, postproc, targetconfig, transforms, types

TESTED = ("0.68.",)  # the releases of Numba whose functions these stand for
Names = set[str]
Blocks = dict[int, Any]

numbas_post_process = postproc.PostProcessor.run
numbas_call_type = types.Function.get_call_type


def switch_on() -> None:
    """Have Numba analyse so from now on, in this process."""
    for owner, name, ours in OURS:
        setattr(owner, name, ours)


def switch_on_if_tested() -> None:
    """Have Numba analyse so if its release is one that the tests were run with."""
    import numba

    if numba.__version__.startswith(TESTED):
        switch_on()


def switch_off() -> None:
    """Have Numba analyse as it does for users."""
    for (owner, name, _), users in zip(OURS, USERS, strict=True):
        setattr(owner, name, users)


# --- variables -----------------------------------------------------------------------------------------------------


def list_vars(self: Any, value: Any) -> list[Any]:  # noqa: ARG001 - Numba calls it as a method
    """The variables in a value, in order; `self` is not asked."""
    found: list[Any] = []
    _collect(value, found)
    return found


def _collect(value: Any, found: list[Any]) -> None:
    kind = type(value)
    if kind is ir.Var:
        found.append(value)
    elif kind is dict:
        for each in value.values():
            _collect(each, found)
    elif kind is list or kind is tuple:
        for each in value:
            _collect(each, found)
    elif isinstance(value, ir.Inst):
        found += value.list_vars()  # type: ignore[no-untyped-call]


def live_map(cfg: Any, blocks: Blocks, uses: dict[int, Names], defs: dict[int, Names]) -> dict[int, Names]:
    """The variables that must be alive at the entry of each block: the same fixed points, with a bit for each name."""
    order = list(cfg.topo_order())
    names = sorted(set().union(*uses.values()))  # only what is used somewhere can be alive
    bit = {name: 1 << number for number, name in enumerate(names)}

    def bits(some: Names) -> int:
        return sum(bit[name] for name in some if name in bit)

    used, defined = ({at: bits(of[at]) for at in order} for of in (uses, defs))
    after = {at: [block for block, _ in cfg.successors(at)] for at in order}
    before = {at: [block for block, _ in cfg.predecessors(at)] for at in order}
    reaching = dict.fromkeys(order, 0)
    alive = dict(used)
    changed = True
    while changed:
        changed = False
        for at in order:
            reaching[at] |= used[at] | defined[at]
            for block in after[at]:
                if reaching[at] & ~reaching[block]:
                    reaching[block] |= reaching[at]
                    changed = True
    changed = True
    while changed:
        changed = False
        for at in reversed(order):
            for block in before[at]:
                more = alive[at] & reaching[block] & ~defined[block] & ~alive[block]
                if more:
                    alive[block] |= more
                    changed = True
    return {at: _named(alive[at], names) if at in alive else set(uses[at]) for at in blocks}


def _named(bits: int, names: list[str]) -> Names:
    found = set()
    while bits:
        lowest = bits & -bits
        found.add(names[lowest.bit_length() - 1])
        bits ^= lowest
    return found


def post_process(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """What lives where is computed when it is asked for; what Numba notes at once only generators and objects read."""
    if self.func_ir.is_generator:
        numbas_post_process(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)  # type: ignore[no-untyped-call]
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)  # type: ignore[no-untyped-call]
    self.func_ir.generator_info = None
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


# --- types ---------------------------------------------------------------------------------------------------------

SIMPLE = (types.Integer, types.Boolean, types.Float, types.Array, types.CPointer)
_known: dict[Any, Any] = {}


def call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """What a builtin means for numbers, arrays and addresses depends on nothing but their types: look it up once."""
    if kws or not all(isinstance(arg, SIMPLE) for arg in args) or not _is_builtin(self.typing_key):
        return numbas_call_type(self, context, args, kws)
    key = (id(context), id(self), args)
    found = _known.get(key)
    if found is None:
        signature = numbas_call_type(self, context, args, kws)
        found = _known[key] = (signature, context, self)  # which keeps their ids from being given to others
    return found[0]


def _is_builtin(function: Any) -> bool:
    return getattr(operator, getattr(function, "__name__", ""), None) is function or function in (bool, int, float)


def same_flags(self: Any, other: Any) -> Any:
    """Flags are the same if those that were set are; else perhaps one was set to what it is anyway."""
    if self is other:
        return True
    if not isinstance(other, targetconfig.TargetConfig):
        return NotImplemented
    return self._values == other._values or self.values() == other.values()  # type: ignore[no-untyped-call]


def hash_of_flags(self: Any) -> int:
    """Numba hashes the names of the flags, which are the same for all flags of a kind."""
    return hash(type(self))


OURS: tuple[tuple[Any, str, Any], ...] = (
    (ir.Inst, "_rec_list_vars", list_vars),
    (analysis, "compute_live_map", live_map),
    (postproc.PostProcessor, "run", post_process),
    (types.Function, "get_call_type", call_type),
    (targetconfig.TargetConfig, "__eq__", same_flags),
    (targetconfig.TargetConfig, "__hash__", hash_of_flags),
)
USERS = tuple(getattr(owner, name) for owner, name, _ in OURS)
