"""ClickTS: draws a whole click model from what may still be true of the users, and shows the list that is best in it.

It is told neither the click model nor the horizon. It believes that item d at position k, given the last click above
it, on item j at position r, is clicked with probability a[d] e[k] if there is none, else a[d] e[k,r] s[j]:
attraction, examination, and how item j lets users go on (carry). The cascade, the position-based and the user
browsing model are of this form, and others nearly. All of it is learned together, so that a position that users
seldom reach is not held against its items; there is no proof yet of its regret.

This project's own; no paper describes it yet.

Choices of ours: a fit or draw that is due is made when the next list is asked for, so that `update` only counts;
before the first fit laws are drawn from the prior, with the first list; a draw is kept for 1 + now // 64 learned lists,
at most 16; tau^2 takes the carries after the Newton step and their variances from H before it; the first search starts
from the most attractive items of the draw; while a draw is kept a search exchanges only neighbours, and items from
outside, which takes half the time and loses no clicks that we could measure; examination is cut off at 1 for
goal=clicks alone (docs/click-ts.md says why); for goal=attraction, where a drawn e[k] is above 1 and its estimate, all
e are lowered by the same.

`state` and `cells` are what it counts, `algorithm` when it learns and what it shows, `fit` the linear algebra, `search`
the list with the most clicks, `prior` what it makes of a prior, `change` whether users have changed, `guard` its tests,
`items` items that come and go, `describe` what it tells people, and `lesson` other queries.
"""

from dataclasses import dataclass
from typing import Literal

from clickbandit.policies.base import Policy
from clickbandit.policies.click_ts.algorithm import best, rank, update
from clickbandit.policies.click_ts.describe import describe
from clickbandit.policies.click_ts.guard import renumber
from clickbandit.policies.click_ts.items import admit, possible, retire
from clickbandit.policies.click_ts.lesson import teach
from clickbandit.policies.click_ts.prior import expect, prime
from clickbandit.policies.click_ts.state import check_memory, init, memo_size
from clickbandit.policies.contract import Algorithm, Live


@dataclass(frozen=True)
class ClickTS(Policy):
    """Thompson sampling in a click model that is learned as it goes.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.3, 0.9, 0.6], examination=[1, 0.5])
    >>> simulate(ClickTS(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[1, 2]]
    """

    paper = "our own"
    title = "ClickTS"
    colour = "vermillion"

    goal: Literal["attraction", "clicks"] = "attraction"
    """The most attractive items first; or the list with the most expected clicks, which where a click can satisfy
    users puts the items that do so last, and is seldom what a search engine wants."""
    memory: int = 0
    """From how many lists it remembers, for users who change; 0: from all."""
    guard: bool = True
    """Whether rare, fair tests of neighbours keep it from staying with a wrong order, where its law of users is wrong
    or an item was unlucky; for goal=attraction, and up to 200 items."""
    restart: bool = True
    """Whether it relearns when clicks on what it shows contradict what it foresaw, as after a change of taste."""

    algorithm = Algorithm(init, memo_size, rank, update, best, prime=prime, any_list=True)
    live = Live(
        describe=describe,
        admit=admit,
        retire=retire,
        renumber=renumber,
        teach=teach,
        expect=expect,
        possible=possible,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self.memory)
