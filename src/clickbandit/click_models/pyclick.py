"""What PyClick counts in an iteration of the DBN and the CCM, to compare with figures that were made with it.

It differs from exact EM (see `dbn` and `ccm`): the chance of no click below a position is taken from the top
of the list, and a session without a click counts as read to its end. Written from formulas, not from its
code. Chuklin, Markov, de Rijke: Click Models for Web Search (2015), chapter 4.
"""

from collections.abc import Callable

import numpy as np

from clickbandit.click_models.em import Step, Values
from clickbandit.click_models.fitting import Endings
from clickbandit.compiling.kernel import FloatArray, entry_point, kernel


@kernel
def _silence(attraction: FloatArray, go_on: float, out: FloatArray) -> None:
    """out[m]: the chance of no click on the first m positions."""
    still = 1.0
    out[0] = 1.0
    for m in range(len(attraction)):
        out[m + 1] = out[m] - still * attraction[m]
        still *= go_on * (1 - attraction[m])


@kernel
def _below(attraction: FloatArray, go_on: float, out: FloatArray) -> None:
    """out[k]: the chance of a click at k or below, given that k is examined."""
    out[len(attraction)] = 0.0
    for k in range(len(attraction) - 1, -1, -1):
        out[k] = attraction[k] + (1 - attraction[k]) * go_on * out[k + 1]


@kernel
def _after(
    attraction: FloatArray, last: int, first: float, go_on: float, silent: FloatArray
) -> tuple[float, float]:
    """How many users went on, and had to decide, at the positions below a last click."""
    num = den = 0.0
    examined = first
    n = len(attraction)
    for k in range(last + 1, n):
        a, t = attraction[k], silent[n - 1 - k]
        kept = go_on * t + 1 - go_on
        z = examined * kept + 1 - examined
        num += examined * go_on * t / z
        den += examined * kept / z
        examined *= go_on * (1 - a) / (1 - a * examined)
    return num, den


def step(count: Callable[..., None], exact: Step, endings: Endings) -> Step:
    """The EM step that counts like PyClick, and reports the exact likelihood."""
    scratch = np.zeros((4, int(np.diff(endings.start).max(initial=0)) + 1))

    def counted(values: Values, num: Values, den: Values) -> float:
        count(values, num, den, endings, scratch)
        unused = tuple(map(np.zeros_like, values))
        return exact(values, unused, unused)

    return counted


@entry_point
def dbn(values: Values, num: Values, den: Values, endings: Endings, scratch: FloatArray) -> None:
    """The DBN's counts; gamma is the one entry of the third parameter."""
    gamma = values[2][0]
    for i in range(len(endings.none)):
        start, end = endings.start[i], endings.start[i + 1]
        pair, last = endings.pair[start:end], endings.last[start:end]
        n = end - start
        a, s, silent, below = scratch[0, :n], scratch[1, :n], scratch[2], scratch[3]
        for k in range(n):
            a[k], s[k] = values[0][pair[k]], values[1][pair[k]]
        _silence(a, gamma, silent)
        _below(a, gamma, below)
        further = 0.0
        for k in range(n):
            further += last[k]
        n_sessions = further + endings.none[i]
        num[2][0] += endings.none[i] * n
        den[2][0] += endings.none[i] * n
        examined = 1.0
        for k in range(n):
            d = pair[k]
            den[0][d] += n_sessions
            above = n_sessions - endings.none[i] - further  # sessions whose last click is above
            num[0][d] += above * (1 - examined) * a[k] / (1 - examined * below[k])
            examined *= gamma * (1 - a[k] * s[k])
            further -= last[k]
            num[2][0] += further
            den[2][0] += further
            if last[k] > 0:
                num[1][d] += last[k] * s[k] / (1 - (1 - s[k]) * gamma * below[k + 1])
                t = silent[n - 1 - k]
                kept = (1 - s[k]) * (gamma * t + 1 - gamma)
                went_on, decided = _after(a, k, gamma * (1 - s[k]), gamma, silent)
                num[2][0] += last[k] * ((1 - s[k]) * gamma * t / (kept + s[k]) + went_on)
                den[2][0] += last[k] * (kept / (kept + s[k]) + decided)
    for d in range(len(endings.clicked)):
        num[0][d] += endings.clicked[d]
        den[1][d] += endings.clicked[d]


@entry_point
def ccm(values: Values, num: Values, den: Values, endings: Endings, scratch: FloatArray) -> None:
    """The CCM's counts; tau1, tau2 and tau3 are the entries of the parameters after attraction."""
    tau1, tau2, tau3 = values[1][0], values[2][0], values[3][0]
    for i in range(len(endings.none)):
        start, end = endings.start[i], endings.start[i + 1]
        pair, last = endings.pair[start:end], endings.last[start:end]
        n = end - start
        a, silent, below = scratch[0, :n], scratch[2], scratch[3]
        for k in range(n):
            a[k] = values[0][pair[k]]
        _silence(a, tau1, silent)
        _below(a, tau1, below)
        further = 0.0
        for k in range(n):
            further += last[k]
        n_sessions = further + endings.none[i]
        num[1][0] += endings.none[i] * n
        den[1][0] += endings.none[i] * n
        examined = 1.0
        for k in range(n):
            d = pair[k]
            den[0][d] += n_sessions
            above = n_sessions - endings.none[i] - further  # sessions whose last click is above
            num[0][d] += above * (1 - examined) * a[k] / (1 - examined * below[k])
            goes_on = (1 - a[k]) * tau2 + a[k] * tau3
            examined *= (1 - a[k]) * tau1 + a[k] * goes_on
            further -= last[k]
            num[1][0] += further  # less the clicks among them: see below
            den[1][0] += further
            if last[k] > 0:
                num[0][d] += last[k] * a[k] / (1 - goes_on * below[k + 1])
                t = silent[n - 1 - k]
                irrelevant, relevant = (1 - a[k]) * (tau2 * t + 1 - tau2), a[k] * (tau3 * t + 1 - tau3)
                share = last[k] / (irrelevant + relevant)
                num[2][0] += share * (1 - a[k]) * tau2 * t
                den[2][0] += share * irrelevant
                num[3][0] += share * a[k] * tau3 * t
                den[3][0] += share * relevant
                went_on, decided = _after(a, k, goes_on, tau1, silent)
                num[1][0] += last[k] * went_on
                den[1][0] += last[k] * decided
    for d in range(len(endings.clicked)):
        share = values[0][d]
        onward = endings.clicked[d] - endings.ended[d]  # clicks that are not the last
        irrelevant = onward * (1 - share) * tau2 / ((1 - share) * tau2 + share * tau3)
        num[0][d] += endings.clicked[d]
        den[0][d] += endings.clicked[d]
        num[1][0] -= onward
        den[1][0] -= onward
        num[2][0] += irrelevant
        den[2][0] += irrelevant
        num[3][0] += onward - irrelevant
        den[3][0] += onward - irrelevant
