"""A generator of random numbers for compiled code that is called for single lists.

numba takes a `Generator` apart at every call, which takes ten times as long as to make a list. Its addresses are the
same as long as it lives: they are looked up once, and numba's own view of the generator is put together from them.
"""

import ctypes
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import alloca_once, create_struct_proxy, gep_inbounds, get_or_insert_function
from numba.core.typing.templates import signature
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array

from clickbandit.compiling.folder import remembered
from clickbandit.compiling.kernel import IntArray
from clickbandit.compiling.shortcuts import draw_number, shortcuts

_FIELDS = (
    "state_address",
    "state",
    "fnptr_next_uint64",
    "fnptr_next_uint32",
    "fnptr_next_double",
    "bit_generator",
)
"""What numba knows of a bit generator, in the order of the addresses."""
_BITS, _GENERATOR = types.NumPyRandomBitGeneratorType("bit_generator"), numba.typeof(np.random.default_rng(0))
_WORD = ir.IntType(64)
_SHIFTS = 24, 11, 3
"""SFC64's constants."""
_WORDS = 5
"""Of NumPy's SFC64: four of its state, and one for half a word that was drawn and is still to be used."""


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
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        address = make_array(sig.args[0])(context, builder, arguments[0]).data
        bits = create_struct_proxy(_BITS)(context, builder)
        for number, name in enumerate(_FIELDS):
            setattr(bits, name, builder.load(gep_inbounds(builder, address, number)))
        return _generator(context, builder, bits)

    return signature(_GENERATOR, found), generate


def _generator(context: Any, builder: Any, bits: Any) -> Any:
    """A generator of these bits, with no object of Python to look after."""
    generator = create_struct_proxy(_GENERATOR)(context, builder)
    generator.bit_generator = bits._getvalue()
    return generator._getvalue()


_assemble: Any = intrinsic(_assembled)


def _probe() -> bool:
    """Whether numba still draws the same numbers from a generator that was put together."""
    try:
        draw = numba.njit(lambda given: generator_at(given).random())
        rng, same = np.random.Generator(np.random.SFC64(1)), np.random.Generator(np.random.SFC64(1))
        return bool([draw(_addresses(rng)) for _ in range(3)] == same.random(3).tolist())
    except Exception:  # whatever another version of numba does
        return False


# --- draws that are part of the code around them ------------------------------------------------------------


def take(rng: Any) -> Any:
    """A copy of a generator, which must be an SFC64, whose draws are compiled into the code that makes them.

    NumPy's own are calls by address, which the compiler can neither see into nor order; and what they change lies in
    memory, where the copy's is in registers. Give it back before the function returns. Plain Python is given the same.
    """
    return rng


def give_back(rng: Any, taken: Any) -> None:
    """Go on with the generator where its copy is."""


@overload(take, inline="always")
def _take(rng: Any) -> Any:
    def copied(rng: Any) -> Any:
        return _copy(rng)

    def same(rng: Any) -> Any:
        return rng

    return copied if _can_copy() else same


@overload(give_back, inline="always")
def _give_back(rng: Any, taken: Any) -> Any:
    def moved(rng: Any, taken: Any) -> None:
        _move(rng, taken)

    def nothing(rng: Any, taken: Any) -> None:
        pass

    return moved if _can_copy() else nothing


def _can_copy() -> bool:
    return remembered(f"copies-numba-{numba.__version__}-numpy-{np.__version__}", _probe_copy)


def _bits(context: Any, builder: Any, generator: Any) -> Any:
    generator = create_struct_proxy(_GENERATOR)(context, builder, generator)
    return create_struct_proxy(_BITS)(context, builder, generator.bit_generator)


def _copy_state(builder: Any, source: Any, target: Any) -> None:
    source, target = (builder.inttoptr(address, _WORD.as_pointer()) for address in (source, target))
    for i in range(_WORDS):
        builder.store(builder.load(gep_inbounds(builder, source, i)), gep_inbounds(builder, target, i))


def _copied(_context: Any, given: Any) -> Any:
    def generate(context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
        bits = _bits(context, builder, arguments[0])
        copy = builder.ptrtoint(alloca_once(builder, ir.ArrayType(_WORD, _WORDS)), _WORD)
        _copy_state(builder, bits.state, copy)
        bits.state = copy
        bits.fnptr_next_uint64 = builder.ptrtoint(_next_uint64(builder.module), _WORD)
        bits.fnptr_next_double = builder.ptrtoint(_next_double(builder.module), _WORD)
        return _generator(context, builder, bits)

    return signature(_GENERATOR, given), generate


def _moved(_context: Any, target: Any, source: Any) -> Any:
    def generate(context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
        to, state = (_bits(context, builder, generator).state for generator in arguments)
        _copy_state(builder, state, to)
        return context.get_dummy_value()

    return signature(types.void, target, source), generate


_copy: Any = intrinsic(_copied)
_move: Any = intrinsic(_moved)
shortcuts[take] = 1, lambda: _copy if _can_copy() else None
shortcuts[give_back] = 2, lambda: _move if _can_copy() else None


def _function(module: Any, name: str, kind: Any) -> tuple[Any, ir.IRBuilder | None]:
    """A function of the address of a state, and what to write it with unless the module has it."""
    function = get_or_insert_function(module, ir.FunctionType(kind, (_WORD,)), f"clickbandit_sfc64_{name}")
    if function.blocks:
        return function, None
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    return function, ir.IRBuilder(function.append_basic_block())


def _next_uint64(module: Any) -> Any:
    function, builder = _function(module, "next_uint64", _WORD)
    if builder is not None:
        state = builder.inttoptr(function.args[0], _WORD.as_pointer())
        places = [gep_inbounds(builder, state, i) for i in range(4)]
        a, b, c, counter = map(builder.load, places)
        turn, right, left = _SHIFTS
        drawn = builder.add(builder.add(a, b), counter)
        turned = builder.or_(builder.shl(c, _WORD(turn)), builder.lshr(c, _WORD(64 - turn)))
        after = (
            builder.xor(b, builder.lshr(b, _WORD(right))),
            builder.add(c, builder.shl(c, _WORD(left))),
            builder.add(turned, drawn),
            builder.add(counter, _WORD(1)),
        )
        for value, place in zip(after, places, strict=True):
            builder.store(value, place)
        builder.ret(drawn)
    return function


def _next_double(module: Any) -> Any:
    function, builder = _function(module, "next_double", ir.DoubleType())
    if builder is not None:
        word = builder.call(_next_uint64(module), [function.args[0]])
        share = builder.uitofp(builder.lshr(word, _WORD(11)), ir.DoubleType())
        builder.ret(builder.fmul(share, ir.DoubleType()(2.0**-53)))
    return function


def _probe_copy() -> bool:
    """Whether NumPy and numba still draw the same numbers with these, and leave the same state.

    It runs while a kernel is being compiled, without what arrays would need (as `rng.integers` does).
    """
    try:

        @numba.njit
        def draw(rng: Any) -> Any:
            copy = _copy(rng)
            drawn = draw_number(copy), draw_number(copy), draw_number(copy), draw_number(copy)
            _move(rng, copy)
            return drawn

        rng, same = np.random.Generator(np.random.SFC64(1)), np.random.Generator(np.random.SFC64(1))
        rng.integers(10), same.integers(10)  # which leave half a word
        return bool(draw(rng) == tuple(same.random(4)) and rng.bytes(9) == same.bytes(9))
    except Exception:  # whatever another version of numba does
        return False
