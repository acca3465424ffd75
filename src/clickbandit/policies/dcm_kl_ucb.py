"""dcmKL-UCB: CascadeKL-UCB for users who may go on after a click.

It believes in the dependent click model: the user goes down the list, clicks every attractive item, and after a
click leaves with a probability that depends on the position alone. So the items down to the last click were
examined, and all of them if there was none. Where the probabilities of leaving are known, only their order matters:
the best item belongs where a click most often ends the search, whether or not that is on top. In that model its
regret, counted in satisfied users, is O(log T); without a known order it shows the best items from the top down.

Katariya, Kveton, Szepesvári, Wen: DCM Bandits: Learning to Rank with Multiple Clicks (ICML 2016), Algorithm 1.

Draws of `rank`: as in CascadeKL-UCB. At the first L steps the item in front stands at the top, where it is surely
examined, whatever the probabilities of leaving.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.errors import InputError
from clickbandit.policies import cascade_kl_ucb, cascading
from clickbandit.policies.base import Policy
from clickbandit.policies.cascade_kl_ucb import describe, propensity, update
from clickbandit.policies.cascade_kl_ucb import rank as rank_from_the_top
from clickbandit.policies.cascading import most_clicked, prime
from clickbandit.policies.contract import Algorithm, Live, no_memo
from clickbandit.policies.possible import unchanged

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """As in CascadeKL-UCB, and where the items go."""

    observed: IntArray
    clicks: IntArray
    low: FloatArray
    high: FloatArray
    slope: FloatArray
    at_budget: FloatArray
    order: IntArray
    step: IntArray
    tied: IntArray
    place: IntArray
    """The positions by decreasing probability of leaving after a click: the highest item goes to the first of them."""
    feedback: int
    iterated: float


def init(n_items: int, n_positions: int, *, horizon: int, termination: str = "") -> State:
    leaving = read_termination(termination) or [1.0] * n_positions
    if len(leaving) != n_positions:
        raise InputError(
            f"dcm-kl-ucb: termination must have a probability for each of the {n_positions} positions, "
            f"found {len(leaving)}"
        )
    cascade = cascade_kl_ucb.init(n_items, n_positions, horizon=horizon, feedback="last")
    return State(**cascade._asdict(), place=np.argsort(-np.array(leaving), kind="stable"))


def read_termination(text: str) -> list[float]:
    """The probabilities in a text as 0.6/0.5/0.3, or none.

    >>> read_termination("0.6/0.5/0.3")
    [0.6, 0.5, 0.3]
    """
    try:
        leaving = [float(part) for part in text.split("/")] if text else []
    except ValueError:
        leaving = [-1.0]
    if not all(0 <= probability <= 1 for probability in leaving):
        raise InputError(
            f"dcm-kl-ucb: termination must be probabilities from 0 to 1 with / between them, found {text!r}"
        )
    return leaving


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: Any, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    rank_from_the_top(state, rng, ranking, memo)
    if state.step[0] > len(state.order):
        for k in range(len(ranking)):
            ranking[state.place[k]] = state.order[k]


def best(state: State, ranking: IntArray) -> None:
    """The items with the highest shares of clicks, the highest where users most often leave after a click."""
    highest = np.zeros_like(ranking)
    most_clicked(state.observed, state.clicks, highest)
    ranking[state.place] = highest


def possible(state: State, fresh: State) -> bool:
    return cascading.possible(state, fresh) and unchanged(state, fresh, "place")


@dataclass(frozen=True)
class DCMKLUCB(Policy):
    """Dependent click model bandits with KL bounds.

    >>> str(DCMKLUCB(termination="0.6/0.5/0.3"))
    'dcm-kl-ucb:termination=0.6/0.5/0.3'
    """

    paper = "Katariya et al. 2016"
    title = "dcmKL-UCB"
    colour = "blue dash-dotted"
    algorithm = Algorithm(init, no_memo, rank, update, best, prime=prime)
    leaps = cascade_kl_ucb.MARGINS
    live = Live(
        propensity=propensity,
        describe=describe,
        admit=cascade_kl_ucb.admit,
        retire=cascade_kl_ucb.retire,
        possible=possible,
    )

    termination: str = ""
    """The probability that a user leaves after a click, for each position, as 0.6/0.5/0.3; without it the highest
    item goes to the top."""

    def __post_init__(self) -> None:
        super().__post_init__()
        read_termination(self.termination)
