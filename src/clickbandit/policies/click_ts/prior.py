"""What ClickTS makes of a prior: eleven ways to take it, each as probable as the clicks make it.

A prior expects the attraction kappa_d of item d, and is worth s examinations. How attractive a query's items are on the
whole is not known, so there are five levels f. The rows, with means mu_d and strengths:

    trust, by level   mu_d = min(0.95, f kappa_d), strength s_d / f; an item is an exception with probability epsilon
    flat, by level    mu_d = f times the mean of kappa, strength 1 / mu
    none              mu_d = 0.5, strength 2

An exception's attraction is Gamma(3, b), b = 3 / max_d mu_d: single items may be as good as the best, wherever they
stand. With c_d clicks at m_d exposures an item says of a row, with attractions integrated out and but for what all rows
share,

    u_d = lgamma(s mu + c) - lgamma(s mu) - s mu log(1 + m / s) - c log(s + m)

and z_d, with (3, b) for (s mu, s), if it is an exception; so the weight of a row is its prior probability times the
product of (1 - epsilon) e^u + epsilon e^z over the items. It depends on counts alone. A prior that clicks contradict
loses its weight, where one of a fixed strength would hold for as many impressions as it is worth.

After n lists, of those that are remembered (`memory` and `restart` let n shrink with the counts), epsilon is
0.003 max(1, n / 500), at most 0.03. That is no belief but thrift: who looks for exceptions pays at once, and earns it
back over the lists to come, of which a query that was asked a thousand times has many more than one that was asked ten
times.

Of examination a prior tells log e with an error, cell by cell; it is kept as what items that left have taught
(`items`).
"""

import math
from collections.abc import Sequence

import numpy as np

from clickbandit.compiling.kernel import FloatArray, kernel, slow_path
from clickbandit.policies.click_ts.state import State
from clickbandit.priors import Prior

LEVELS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)
"""f: how attractive the items are on the whole, against what the prior says."""
LEVEL_PRIOR = (0.05, 0.1, 0.2, 0.45, 0.2)
N_LEVELS = 5
N_ROWS = 2 * N_LEVELS + 1
TRUST, FLAT, NONE = 0.985, 0.012, 0.003
"""How probably the prior is right but for its level, says nothing but the level, and not even that. A few clicks
outweigh these, and until then a list that is drawn from the last two costs half of its clicks where the order is
good."""
EXCEPTION, MAX_EXCEPTION, RISE = 0.003, 0.03, 500
"""epsilon, how probably an item is an exception where the prior is right: at first, at most, and from how many lists on
it rises."""
EXCEPTION_SHAPE = 3.0
"""Of the gamma distribution of an exception's attraction: few of them are bad, so that looking for them soon ends."""
HIGHEST_MEAN, LOWEST_MEAN = 0.95, 1e-3

# --- the first state ----------------------------------------------------------------------------------------


def prime(state: State, prior: Prior) -> State:
    """Expect what the prior says; before the first click it is likeliest right as it stands."""
    n_items = prior.n_items
    by_level = np.array(LEVEL_PRIOR)
    expected = np.clip(prior.attraction, LOWEST_MEAN, HIGHEST_MEAN)
    strength = np.array(prior.strength)
    state = state._replace(
        shape=strength * expected,
        rate=strength.copy(),
        attraction=expected.copy(),
        expected=expected,
        strength=strength,
        weight=np.concatenate([TRUST * by_level, FLAT * by_level, [NONE]]),
        slab=np.full((N_LEVELS, n_items), EXCEPTION),
    )
    return _see(state, prior) if len(prior.examination) > 1 else state


def _see(state: State, prior: Prior) -> State:
    """Take over what the prior knows of examination, where cells of a position are told apart."""
    precision, slope = np.zeros(len(state.x)), np.zeros(len(state.x))
    for k in range(1, min(len(state.look), len(prior.examination))):
        for r, (examined, error) in enumerate(
            zip(prior.examination[k], prior.examination_error[k], strict=True)
        ):
            told = state.share[k] / error**2  # where cells share, of what belongs to this one
            precision[state.cell[k, r] - 1] += told
            slope[state.cell[k, r] - 1] -= told * math.log(examined)
    own = np.diag(state.factor) ** 2
    return state._replace(
        x=(own * state.x - slope) / (own + precision),
        factor=np.diag(np.sqrt(own + precision)),
        gone_slope=slope,
        gone_precision=np.diag(precision),
    )


def expect(state: State, expected: Sequence[tuple[float, float]]) -> State:
    """What new items are expected to be, where anything is expected of the others."""
    if len(state.weight) > 0:
        for item, (attraction, strength) in enumerate(expected, len(state.expected) - len(expected)):
            mean = min(max(attraction, LOWEST_MEAN), HIGHEST_MEAN)
            state.expected[item], state.strength[item] = mean, strength
            state.shape[item], state.rate[item] = strength * mean, strength
            state.clicked[item], state.unclicked[item] = strength * mean, strength * (1 - mean)
            state.attraction[item] = mean
    return state


# --- the rows -----------------------------------------------------------------------------------------------


@kernel
def mean_of(state: State, row: int, item: int, average: float) -> float:
    """mu_d of a row; `average` is the mean of kappa."""
    if row < N_LEVELS:
        return min(HIGHEST_MEAN, LEVELS[row] * float(state.expected[item]))
    if row < 2 * N_LEVELS:
        return min(HIGHEST_MEAN, LEVELS[row - N_LEVELS] * average)
    return 0.5


@kernel
def strength_of(state: State, row: int, item: int, mean: float) -> float:
    if row < N_LEVELS:
        return float(state.strength[item]) / LEVELS[row]
    return 1 / mean if row < 2 * N_LEVELS else 2.0


@kernel
def average_of(values: FloatArray) -> float:
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


@kernel
def exception_rate(state: State, row: int) -> float:
    """b = 3 / max_d mu_d of a row that trusts the prior."""
    highest = 0.0
    for item in range(len(state.expected)):
        highest = max(highest, mean_of(state, row, item, 0.0))
    return EXCEPTION_SHAPE / highest


@kernel
def exception_share(state: State) -> float:
    """epsilon, by how many of the lists that were learned from are remembered."""
    return min(MAX_EXCEPTION, EXCEPTION * max(1.0, float(state.learned[0]) / RISE))


@kernel
def evidence(shape: float, rate: float, clicks: float, exposure: float) -> float:
    """What an item's clicks say of Gamma(shape, rate), as a logarithm and but for what all rows share."""
    return (
        math.lgamma(shape + clicks)
        - math.lgamma(shape)
        - shape * math.log(1 + exposure / rate)
        - clicks * math.log(rate + exposure)
    )


# --- fit ----------------------------------------------------------------------------------------------------


@slow_path
def weigh(state: State) -> None:
    """How probable each row is, and each exception, by the clicks and exposures of this fit; the likeliest row is what
    the next fit starts from."""
    average, likeliest = average_of(state.expected), 0
    for row in range(len(state.weight)):
        state.weight[row] = log_weight(state, row, average)
        if state.weight[row] > state.weight[likeliest]:
            likeliest = row
    highest, total = state.weight[likeliest], 0.0
    for row in range(len(state.weight)):
        state.weight[row] = math.exp(state.weight[row] - highest)
        total += state.weight[row]
    for row in range(len(state.weight)):
        state.weight[row] /= total
    for item in range(len(state.expected)):
        mean = mean_of(state, likeliest, item, average)
        state.rate[item] = strength_of(state, likeliest, item, mean)
        state.shape[item] = state.rate[item] * mean
        if likeliest < N_LEVELS and state.slab[likeliest, item] > 0.5:
            state.shape[item], state.rate[item] = EXCEPTION_SHAPE, exception_rate(state, likeliest)


@slow_path
def log_weight(state: State, row: int, average: float) -> float:
    """The logarithm of a row's weight, and its exceptions on the way."""
    level = LEVEL_PRIOR[row % N_LEVELS]
    if row >= 2 * N_LEVELS:
        total = math.log(NONE)
    else:
        total = math.log(level * (TRUST if row < N_LEVELS else FLAT))
    rate = exception_rate(state, row) if row < N_LEVELS else 1.0
    share = exception_share(state)
    for item in range(len(state.expected)):
        clicks, exposure = state.clicks[item], state.exposure[item]
        mean = mean_of(state, row, item, average)
        strength = strength_of(state, row, item, mean)
        usual = evidence(strength * mean, strength, clicks, exposure)
        if row < N_LEVELS:
            more = evidence(EXCEPTION_SHAPE, rate, clicks, exposure) - usual
            odds = share / (1 - share) * math.exp(min(more, 500.0))
            state.slab[row, item] = odds / (1 + odds)
            usual += math.log((1 - share) * (1 + odds))
        total += usual
    return float(total)


# --- draw ---------------------------------------------------------------------------------------------------


@slow_path
def draw_prior(state: State, rng: np.random.Generator) -> None:
    """Draw a row. Where it trusts the prior, `rank` draws for each list and item whether that is an exception: were
    these kept as long as the row is, an item would seldom be looked at, and then many times over."""
    left, row = rng.random(), 0
    while row < len(state.weight) - 1 and left >= state.weight[row]:
        left -= state.weight[row]
        row += 1
    average = average_of(state.expected)
    state.drawn[0] = row if row < N_LEVELS else -1
    state.drawn[1] = exception_rate(state, row) if row < N_LEVELS else 1.0
    for item in range(len(state.expected)):
        mean = mean_of(state, row, item, average)
        strength = strength_of(state, row, item, mean)
        state.clicked[item], state.unclicked[item] = strength * mean, strength * (1 - mean)
