"""Tuples are handed to kernels by reference.

numba hands over each number of each array of a tuple as an argument of its own, hundreds for a policy's state, and
takes the tuple apart and puts it together again at every call. That took most of the time to compile. Tuples never
change, so an address says the same; and an item is read from there, without the rest of the tuple.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import alloca_once_value
from numba.core.datamodel.models import DataModel
from numba.core.ir import Expr
from numba.core.lowering import Lower
from numba.extending import register_model

_BYTE, _ADDRESS = ir.IntType(8), ir.LiteralStructType(()).as_pointer()


class ByReference(types.Type):
    """How a tuple is handed over, for numba to look up."""

    def __init__(self, kind: types.BaseTuple) -> None:
        self.kind = kind
        super().__init__(f"ByReference({kind})")


@register_model(ByReference)
class _Model(DataModel):
    """The same value as the tuple's; as an argument, its address."""

    def __init__(self, manager: Any, given: ByReference) -> None:
        super().__init__(manager, given)
        self._tuple = manager.lookup(given.kind)

    def get_value_type(self) -> Any:
        return self._tuple.get_value_type()

    def get_argument_type(self) -> Any:
        return _ADDRESS

    def as_argument(self, builder: Any, value: Any) -> Any:
        if isinstance(value, _Loaded):
            return value.address
        return builder.bitcast(alloca_once_value(builder, value), _ADDRESS)

    def from_argument(self, builder: Any, value: Any) -> Any:
        return _Loaded.at(builder, value, self.get_value_type())


class _Loaded(ir.LoadInstr):  # type: ignore[misc]  # llvmlite is not typed
    """A tuple that is at an address for as long as the function runs that loads it.

    It is left out of the code where the address alone is used.
    """

    address: Any

    @classmethod
    def at(cls, builder: Any, address: Any, kind: Any) -> "_Loaded":
        loaded = cls(builder.block, builder.bitcast(address, kind.as_pointer()))
        loaded.address = address
        builder._insert(loaded)
        return loaded


def by_reference(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types of a kernel's arguments as they are handed over."""
    return tuple(ByReference(kind) if isinstance(kind, types.BaseNamedTuple) else kind for kind in kinds)


class KernelLower(Lower):
    """numba's own, for functions that are given tuples by reference, and count no references to arrays."""

    def lower(self) -> None:
        self._address: dict[str, Any] = {}
        self._items: dict[tuple[int, int], Any] = {}
        plain, self.fndesc.argtypes = self.fndesc.argtypes, by_reference(self.fndesc.argtypes)
        super().lower()
        self.fndesc.argtypes = plain

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        result = self.function.args[0]  # an address that nothing else has, and nothing keeps, as these
        for argument in self.call_conv.get_arguments(self.function):
            if argument.type == _ADDRESS:
                for attribute in (*result.attributes, "readonly"):
                    set.add(argument.attributes, attribute)  # llvmlite does not know all that LLVM does

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if isinstance(value, _Loaded) and len(self.func_ir._definitions[name]) == 1:
            self._address[name] = value.address
        else:
            super().storevar(value, name, argidx=argidx)

    def loadvar(self, name: str) -> Any:
        if name in self._address:
            return _Loaded.at(
                self.builder, self._address[name], self.context.get_value_type(self.typeof(name))
            )
        return super().loadvar(name)

    def delvar(self, name: str) -> None:
        """Nothing is counted, and nothing to be cleared."""

    def lower_expr(self, resty: Any, expr: Expr) -> Any:
        if expr.op in ("getattr", "static_getitem") and expr.value.name in self._address:
            kind = self.typeof(expr.value.name)
            index = kind.fields.index(expr.attr) if expr.op == "getattr" else expr.index
            if isinstance(index, int):
                return self._load_item(self._address[expr.value.name], kind, index, resty)
        return super().lower_expr(resty, expr)

    def post_lower(self) -> None:
        super().post_lower()
        every = [instruction for block in self.function.blocks for instruction in block.instructions]
        used = {id(operand) for instruction in every for operand in instruction.operands}
        used |= {id(value) for phi in every if isinstance(phi, ir.PhiInstr) for value, _ in phi.incomings}
        for block in self.function.blocks:
            block.instructions = [
                one for one in block.instructions if id(one) in used or not isinstance(one, _Loaded)
            ]

    def _load_item(self, address: Any, kind: Any, index: int, wanted: Any) -> Any:
        """Loaded where the function begins, once: tuples do not change."""
        item = kind.types[index]
        if (id(address), index) not in self._items:
            of_item = self.context.get_value_type(item)
            offset = ir.IntType(64)(_offset(self.context, kind, index))
            builder = self.builder
            with builder.goto_entry_block():
                place = builder.gep(builder.bitcast(address, _BYTE.as_pointer()), [offset], inbounds=True)
                if isinstance(item, types.BaseTuple):
                    loaded = _Loaded.at(builder, builder.bitcast(place, _ADDRESS), of_item)
                else:
                    loaded = builder.load(builder.bitcast(place, of_item.as_pointer()))
            self._items[id(address), index] = loaded
        return self.context.cast(self.builder, self._items[id(address), index], item, wanted)


_layouts: dict[Any, tuple[int, int]] = {}
"""Bytes of a type and what they are aligned to: LLVM takes its time to say."""


def _offset(context: Any, kind: Any, index: int) -> int:
    """How many bytes into a tuple an item is."""
    offset = 0
    for number, item in enumerate(kind.types[: index + 1]):
        if item not in _layouts:
            value = context.get_value_type(item)
            _layouts[item] = context.get_abi_sizeof(value), context.get_abi_alignment(value)
        size, alignment = _layouts[item]
        offset = -(-offset // alignment) * alignment + size * (number < index)
    return offset
