"""A generator of random numbers for compiled code that is called for single lists.

numba takes a `Generator` apart at every call, which takes ten times as long as to make a list. Its addresses are the
same as long as it lives: they are looked up once, and numba's own view of the generator is put together from them.
"""

import ctypes
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.core.cgutils import create_struct_proxy, gep_inbounds
from numba.core.typing.templates import signature
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array

from clickbandit.compiling.folder import remembered
from clickbandit.compiling.kernel import IntArray

_FIELDS = (
    "state_address",
    "state",
    "fnptr_next_uint64",
    "fnptr_next_uint32",
    "fnptr_next_double",
    "bit_generator",
)
"""What numba knows of a bit generator, in the order of the addresses."""


def addresses(rng: np.random.Generator) -> IntArray | np.random.Generator:
    """What `generator_at` makes a generator of, in compiled code; the caller must keep the generator.

    Where numba has changed what it knows of generators, that is the generator itself.
    """
    if not remembered(f"generators-numba-{numba.__version__}-numpy-{np.__version__}", _probe):
        return rng
    return _addresses(rng)


def _addresses(rng: np.random.Generator) -> IntArray:
    known = rng.bit_generator.ctypes
    functions = (known.next_uint64, known.next_uint32, known.next_double)
    found = [
        known.state_address,
        known.state.value,
        *(ctypes.cast(function, ctypes.c_void_p).value for function in functions),
        known.bit_generator.value,
    ]
    return np.array(found, np.int64)


def generator_at(given: Any) -> Any:
    """The generator at these addresses; as plain Python, which is given generators, the same."""
    return given


@overload(generator_at)
def _compiled(given: Any) -> Any:
    def assembled(given: Any) -> Any:
        return _assemble(given)

    def same(given: Any) -> Any:
        return given

    return assembled if isinstance(given, types.Array) else same


def _assembled(_context: Any, found: Any) -> Any:
    whole = numba.typeof(np.random.default_rng(0))

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        address = make_array(sig.args[0])(context, builder, arguments[0]).data
        bits = create_struct_proxy(types.NumPyRandomBitGeneratorType("bit_generator"))(context, builder)
        for number, name in enumerate(_FIELDS):
            setattr(bits, name, builder.load(gep_inbounds(builder, address, number)))
        generator = create_struct_proxy(whole)(context, builder)  # with no object of Python to look after
        generator.bit_generator = bits._getvalue()
        return generator._getvalue()

    return signature(whole, found), generate


_assemble: Any = intrinsic(_assembled)


def _probe() -> bool:
    """Whether numba still draws the same numbers from a generator that was put together."""
    try:
        draw = numba.njit(lambda given: generator_at(given).random())
        rng, same = np.random.Generator(np.random.SFC64(1)), np.random.Generator(np.random.SFC64(1))
        return bool([draw(_addresses(rng)) for _ in range(3)] == same.random(3).tolist())
    except Exception:  # whatever another version of numba does
        return False
