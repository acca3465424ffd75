"""Generators that compiled code is handed by their addresses."""

import numpy as np
import pytest
from numba.extending import overload

from clickbandit.compiling import generator
from clickbandit.compiling.generator import addresses, generator_at, give_back, take
from clickbandit.compiling.kernel import counted_entry_point, entry_point, is_compiled


@counted_entry_point
def draw(random):
    return generator_at(random).random()


needs_compiler = pytest.mark.skipif(not is_compiled(draw), reason="compilation is off (NUMBA_DISABLE_JIT)")


@needs_compiler
@pytest.mark.parametrize("kind", [np.random.SFC64, np.random.PCG64])
def test_the_numbers_are_the_generators(kind):
    """In turn with Python's own draws, and after a state was restored."""
    rng, expected = np.random.Generator(kind(7)), np.random.Generator(kind(7)).random(6).tolist()
    before = rng.bit_generator.state
    found = addresses(rng)
    assert not isinstance(found, np.random.Generator), "numba has changed: every list takes ten times as long"
    for _ in range(2):
        assert [draw(found), rng.random(), draw(found), draw(found), rng.random(), draw(found)] == expected
        rng.bit_generator.state = before


@needs_compiler
def test_where_numba_has_changed_it_is_handed_the_generator(monkeypatch):
    monkeypatch.setattr(generator, "remembered", lambda question, answer: False)
    rng = np.random.default_rng(7)
    assert addresses(rng) is rng
    assert draw(addresses(rng)) == np.random.default_rng(7).random()


@needs_compiler
def test_a_numba_that_draws_other_numbers_is_found_out(monkeypatch):
    assert generator._probe()
    other = np.random.default_rng(8)
    apart = generator._addresses(other)
    monkeypatch.setattr(generator, "_addresses", lambda rng: apart)
    assert not generator._probe()


def test_plain_python_is_handed_generators():
    rng = np.random.default_rng(7)
    assert generator_at(rng) is rng


# --- draws that are part of the code around them ------------------------------------------------------------


@counted_entry_point
def draw_inline(rng):
    taken = take(rng)
    drawn = (
        taken.random(),
        taken.standard_normal(),
        taken.integers(0, 10),
        taken.random(),
        taken.beta(2.0, 3.0),
    )
    give_back(rng, taken)
    return drawn


def draw_plainly(rng):
    return rng.random(), rng.standard_normal(), rng.integers(0, 10), rng.random(), rng.beta(2.0, 3.0)


@needs_compiler
def test_inline_draws_are_the_generators():
    """Whatever is drawn, in turn with Python's own draws, with the same state after."""
    assert generator._probe_copy(), "NumPy or numba has changed: every draw takes five times as long"
    rng, same = np.random.Generator(np.random.SFC64(7)), np.random.Generator(np.random.SFC64(7))
    for _ in range(1000):
        assert draw_inline(rng) == pytest.approx(draw_plainly(same), rel=1e-12)
        assert rng.random() == same.random()
    assert str(rng.bit_generator.state) == str(same.bit_generator.state)


@needs_compiler
def test_copies_are_tried_while_a_kernel_is_compiled(monkeypatch, tmp_path):
    """With an empty cache that is when it is first asked, and what a kernel cannot have cannot be tried there."""
    monkeypatch.setenv("CLICKBANDIT_CACHE", str(tmp_path))
    answers = []

    def ask():
        raise NotImplementedError

    @overload(ask)
    def asked():
        answers.append(generator._probe_copy())
        return lambda: None

    entry_point(lambda: ask())()
    assert answers == [True]


@needs_compiler
@pytest.mark.parametrize("shifts", [(23, 11, 3), (24, 12, 3), (24, 11, 4)])
def test_other_inline_draws_are_found_out(monkeypatch, shifts):
    """Where NumPy draws other numbers or leaves another state, its own functions are called."""
    monkeypatch.setattr(generator, "_SHIFTS", shifts)
    assert not generator._probe_copy()


def test_plain_python_draws_from_the_generator():
    rng = np.random.default_rng(7)
    assert take(rng) is rng
