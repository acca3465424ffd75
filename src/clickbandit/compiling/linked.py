"""Kernels that are only linked into the code that calls them: neither optimised nor made machine code by themselves.

numba does both for every function that it compiles, which takes most of the time, and again in each function that
calls it. Nobody calls a kernel but compiled code, in which it is optimised with all that is around it.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from clickbandit.compiling.by_reference import KernelLower, by_reference


class LinkedLibrary(JITCodeLibrary):
    """A function's code, for linking alone."""

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Kernels of this package use nothing of their environment, which is for objects of Python."""

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class LinkedLowering(NativeLowering):
    """numba's own, into such a library."""

    _name = "linked_lowering"

    @property
    def lowering_class(self) -> Any:
        return KernelLower

    def run_pass(self, state: Any) -> bool:
        state.library = LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        done = bool(super().run_pass(state))
        described = state["cr"].fndesc
        described.argtypes = by_reference(described.argtypes)  # as callers are to hand them over
        return done
