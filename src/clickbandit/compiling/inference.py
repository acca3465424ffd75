"""What a call of one of numba's own functions gives is found out once for the same types.

numba asks every rule that it has for an operator, dozens of them, each time that the operator is used, and writes an
error message for each that does not fit. That took a quarter of the time to compile.
"""

from typing import Any

from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NopythonTypeInference
from numba.core.types import Dispatcher, unliteral
from numba.core.types.functions import BaseFunction
from numba.core.typing.context import Context

_found: dict[Any, Any] = {}


class _Context(Context):
    """numba's own, with what it knows: equal to it, so that numba compiles `min` or `rng.random` once for either."""

    __slots__ = ("_hash",)

    def __init__(self, context: Context) -> None:
        self.__dict__ = context.__dict__
        self._hash = hash(context)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and self.__dict__ is other.__dict__

    def __hash__(self) -> int:
        return self._hash

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        function = self._lookup_global(func) or func
        if isinstance(function, Dispatcher):  # a kernel: for a constant it is the same code as for a number
            args = tuple(map(unliteral, args))
        if kws or not isinstance(function, BaseFunction):
            return super().resolve_function_type(func, args, kws)
        key = function, args  # a function that gets further rules is another one
        found = _found.get(key) or super().resolve_function_type(func, args, kws)
        if found is not None:
            _found[key] = found
        return found


@register_pass(mutates_CFG=True, analysis_only=False)
class RememberingInference(NopythonTypeInference):
    """numba's own, which remembers."""

    _name = "remembering_inference"

    def run_pass(self, state: Any) -> bool:
        context = state.typingctx
        state.typingctx = _Context(context)
        try:
            return bool(super().run_pass(state))
        finally:
            state.typingctx = context
