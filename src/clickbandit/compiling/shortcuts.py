"""A pass of the compiler: `min`, `max`, `int` and `rng.random` are instructions of the code that uses them.

numba compiles each as a function of its own, several times over for different options, with all that a function has.
Here they mean what they mean in Python, to the last bit.
"""

from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

from llvmlite import ir as llvm
from numba.core import ir, types
from numba.core.cgutils import create_struct_proxy
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions, get_definition, guard
from numba.core.typing.templates import signature
from numba.extending import intrinsic

_NUMBERS = (types.Integer, types.Float, types.Boolean)
_KINDS = (BuiltinFunctionType, FunctionType, type)
_BITS = types.NumPyRandomBitGeneratorType("bit_generator")


def _chosen(sign: str) -> Any:
    """Of two numbers the second if it compares so with the first, else the first: as Python's `min` and `max`."""

    def choose(typing: Any, first: Any, second: Any) -> Any:
        kind = typing.unify_types(types.unliteral(first), types.unliteral(second))
        if not isinstance(kind, _NUMBERS):
            return None

        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            a, b = (context.cast(builder, *given, kind) for given in zip(arguments, sig.args, strict=True))
            if isinstance(kind, types.Float):
                second = builder.fcmp_ordered(sign, b, a)
            else:
                second = (builder.icmp_signed if getattr(kind, "signed", False) else builder.icmp_unsigned)(
                    sign, b, a
                )
            return builder.select(second, b, a)

        return signature(kind, first, second), generate

    return intrinsic(choose)


def _whole(_typing: Any, number: Any) -> Any:
    if not isinstance(types.unliteral(number), _NUMBERS):
        return None
    kind = types.unliteral(number) if isinstance(number, types.Integer) else types.int64

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return context.cast(builder, arguments[0], sig.args[0], kind)

    return signature(kind, number), generate


def _draw(_typing: Any, rng: Any) -> Any:
    if not isinstance(rng, types.NumPyRandomGeneratorType):
        return None

    def generate(context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
        generator = create_struct_proxy(rng)(context, builder, arguments[0])
        bits = create_struct_proxy(_BITS)(context, builder, generator.bit_generator)
        kind = llvm.FunctionType(llvm.DoubleType(), (bits.state.type,))
        return builder.call(builder.inttoptr(bits.fnptr_next_double, kind.as_pointer()), [bits.state])

    return signature(types.float64, rng), generate


draw_number: Any = intrinsic(_draw)
_FIXED: dict[Any, Any] = {min: _chosen("<"), max: _chosen(">"), int: intrinsic(_whole)}
shortcuts: dict[Any, tuple[int, Callable[[], Any]]] = {
    function: (n, partial(_FIXED.get, function)) for function, n in ((min, 2), (max, 2), (int, 1))
}
"""For a function: how many arguments it has here, and what stands for it, if anything does; others may be entered."""


@register_pass(mutates_CFG=False, analysis_only=False)
class Shortcuts(FunctionPass):
    """Puts these instructions in the place of calls."""

    _name = "shortcuts"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        function, gone = state.func_ir, set()
        for block in function.blocks.values():
            statements, block.body = block.body, []
            for statement in statements:
                call = statement.value if isinstance(statement, ir.Assign) else None
                if isinstance(call, ir.Expr) and call.op == "call" and not (call.kws or call.vararg):
                    called = guard(get_definition, function, call.func)
                    shortcut, arguments = _shortcut(called, call.args)
                    if shortcut is not None:
                        gone.add(call.func.name)
                        call.func, call.args = block.scope.make_temp(call.loc), arguments
                        stands = ir.Global("shortcut", shortcut, call.loc)
                        block.append(ir.Assign(stands, call.func, call.loc))
                block.append(statement)
        for block in function.blocks.values():
            block.body = [
                one for one in block.body if not (isinstance(one, ir.Assign) and one.target.name in gone)
            ]
        function._definitions = build_definitions(function.blocks)
        return bool(gone)


def _shortcut(called: Any, arguments: Any) -> tuple[Any, Any]:
    """What stands for a call, and its arguments; None if nothing does."""
    if isinstance(called, (ir.Global, ir.FreeVar)):
        n, find = shortcuts.get(called.value, (-1, None)) if isinstance(called.value, _KINDS) else (-1, None)
        return (find(), arguments) if find and len(arguments) == n else (None, ())
    if isinstance(called, ir.Expr) and called.op == "getattr" and called.attr == "random" and not arguments:
        return draw_number, [called.value]
    return None, ()
