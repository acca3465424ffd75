"""A pass of the compiler: for `array[i]` it does not ask whether i is negative, to count from the end then.

Kernels spent a tenth to a fifth of their time on that question. The kernels of this package count from the end by
constants only (`array[-1]`), which are left alone. With NUMBA_BOUNDSCHECK=1 numba raises an IndexError where one does
otherwise.
"""

from typing import Any

from numba.core import ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions, find_const, get_definition, guard
from numba.core.typing.templates import signature
from numba.extending import intrinsic


@intrinsic
def unsigned(_context: Any, index: types.Type) -> Any:
    """The same index as a number without a sign, which cannot count from the end."""

    def generate(context: Any, builder: Any, types: Any, arguments: Any) -> Any:
        return context.cast(builder, arguments[0], types.args[0], types.return_type)

    return signature(unsigned_type(index), index), generate


def unsigned_type(index: Any) -> Any:
    if isinstance(index, types.Integer):
        return types.uintp
    if isinstance(index, types.UniTuple | types.Tuple):
        return types.Tuple([unsigned_type(part) for part in index.types])
    return index  # a slice


def has_constant(function: Any, index: ir.Var) -> bool:
    """Whether an index is a constant, or has one among several, as in `array[-1, i]`."""
    made = guard(get_definition, function, index)
    parts = made.items if isinstance(made, ir.Expr) and made.op == "build_tuple" else [index]
    return any(guard(find_const, function, part) is not None for part in parts)


@register_pass(mutates_CFG=False, analysis_only=False)
class IndexFromStart(FunctionPass):
    """Makes each index that is no constant unsigned."""

    _name = "index_from_start"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            statements, block.body = block.body, []
            for statement in statements:
                use: Any = statement.value if isinstance(statement, ir.Assign) else statement
                indexes = isinstance(use, ir.SetItem) or (isinstance(use, ir.Expr) and use.op == "getitem")
                if indexes and not has_constant(state.func_ir, use.index):
                    function, index = block.scope.make_temp(use.loc), block.scope.make_temp(use.loc)
                    block.append(ir.Assign(ir.Global("unsigned", unsigned, use.loc), function, use.loc))
                    block.append(ir.Assign(ir.Expr.call(function, [use.index], (), use.loc), index, use.loc))
                    use.index = index
                block.append(statement)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True
