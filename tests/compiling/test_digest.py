"""What names machine code: whatever would make other code gives another name."""

import pytest

from clickbandit.compiling.digest import digest_function

SOURCE = """
from typing import NamedTuple

import numpy as np

from clickbandit.compiling.kernel import kernel

SIZE = np.int64(5)
TABLE = np.array([1, 2, 3, 4])


class Given(NamedTuple):
    one: float
    other: float


@kernel
def function(given: Given) -> float:
    return given.one + SIZE + TABLE[0]
"""


def digest(source: str) -> str:
    scope = {"__name__": "made"}
    exec(source, scope)
    return digest_function(scope["function"])


@pytest.mark.parametrize(
    ("found", "edited"),
    [
        ("    one: float\n    other: float", "    other: float\n    one: float"),
        ("np.int64(5)", "np.int64(7)"),
        ("[1, 2, 3, 4]", "[[1, 2], [3, 4]]"),
        ("np.array([1, 2, 3, 4])", "np.array([1, 2, 3, 4]).view(np.float64)"),
    ],
    ids=["fields of a tuple", "a number of NumPy's", "a shape", "a type"],
)
def test_an_edit_gives_another_name(found, edited):
    assert found in SOURCE
    assert digest(SOURCE) == digest(SOURCE)
    assert digest(SOURCE) != digest(SOURCE.replace(found, edited))
