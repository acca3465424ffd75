"""What stands in for an optional function that a policy leaves out."""

import math
from typing import Any

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel


@kernel
def void(state: Any, ranking: IntArray, memo: FloatArray) -> None:
    """Feedback that never comes changes nothing."""


@kernel
def propensity(state: Any, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """Not known."""
    for k in range(len(out)):
        out[k] = math.nan
