"""Compile kernels in half the time, for tests: LLVM inlines what it must, drops what is unused, and does no more.

Drawn queries have kernels of their own, which run for milliseconds: of their compile time LLVM's passes and its
instruction selection take half. Numba's own lowest level, `NUMBA_OPT=0`, is no help: it leaves names of unused
functions in the code, and Numba then refuses to keep it on disk. Long runs compile kernels as users get them.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import CPUCodegen, JITCPUCodegen


def switch_on() -> None:
    """Have Numba compile so from now on, in this process; what it has compiled before stays."""
    JITCPUCodegen._customize_tm_options = _target_options
    CPUCodegen._module_pass_manager = _module_passes
    CPUCodegen._function_pass_manager = _function_passes


_users_target_options = JITCPUCodegen._customize_tm_options


def _target_options(self: Any, options: dict[str, Any]) -> None:
    _users_target_options(self, options)
    options["opt"] = 0


def _module_passes(self: Any, cost: str = "full", **_: Any) -> tuple[Any, Any]:
    """Numba runs two managers over each module: the cheap one does all, the full one nothing."""
    passes = llvm.create_new_module_pass_manager()
    if cost == "cheap":
        passes.add_always_inliner_pass()
        _tidy(passes)
        passes.add_aggressive_dce_pass()
        passes.add_global_dead_code_eliminate_pass()
    return passes, _builder(self)


def _function_passes(self: Any, **_: Any) -> tuple[Any, Any]:
    """What is unused goes here, too: drafts (`engine/drafts.py`) are seen by no other pass before they are kept."""
    passes = llvm.create_new_function_pass_manager()
    _tidy(passes)
    passes.add_aggressive_dce_pass()
    return passes, _builder(self)


def _tidy(passes: Any) -> None:
    """Registers in place of memory, and fewer blocks: less to select instructions for."""
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()


def _builder(codegen: Any) -> Any:
    return codegen._pass_builder(opt=0, loop_vectorize=False, slp_vectorize=False)
