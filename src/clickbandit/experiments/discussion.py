"""The two claims of the paper's discussion as experiments on small invented problems.

**KL bounds are needed.** Two items, one position, which a share of all users examines. The fewer do, the more
observations it takes to tell the items apart, and the less each costs: with KL bounds these cancel out, with
Hoeffding's the regret grows as one over the share. The shares are quarters of each other because the stages of
BatchRank quadruple: anything between would show where a stage happens to end.

**Elimination is needed.** Items whose attraction falls in equal steps, in the paper's own example of a position-based
model: nearly all look at the first position, nearly none at the others. With elimination the regret grows no faster
than the number of items; without, all of them are shown until the best one is found, and it grows as its square.
(If users do look at the last position, without elimination the regret even grows with every step: a batch of a single
position can never be split.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.experiments.plan import Conditions, Plan, Unit, grid
from clickbandit.queries import Query
from clickbandit.simulation.run import Method

EXAMINATION = "examination "
"""The queries of the first experiment are named by this and the share of users who examine the position."""
ITEMS = "items "
"""Those of the second by this and the number of items."""
BOUNDS = ("batchrank", "batchrank:bounds=hoeffding")
ELIMINATION = ("batchrank", "batchrank:eliminate=false")
_SECOND_EXAMINED = 0.001  # how many look at the second position


@dataclass(frozen=True)
class Discussion:
    """How large the problems are."""

    steps: int
    runs: int
    shares: Sequence[float]
    items: Sequence[int]
    gap: float
    """By how much the attraction falls from each item to the next."""
    method: Method


SMALL_DISCUSSION = Discussion(
    steps=1_000_000, runs=10, shares=(1, 1 / 4, 1 / 16), items=(3, 4, 6, 8, 10), gap=0.08, method="step"
)
LARGE_DISCUSSION = Discussion(
    steps=16_000_000,
    runs=10,
    shares=(1, 1 / 4, 1 / 16, 1 / 64),
    items=(4, 6, 8, 12, 16, 20),
    gap=0.04,
    method="auto",
)


def examination_queries(discussion: Discussion) -> list[Query]:
    """For each share of users that examine the only position: two items."""
    return [examination_query(share) for share in discussion.shares]


def examination_query(share: float) -> Query:
    return _query(f"{EXAMINATION}{share:g}", PositionBasedModel([0.6, 0.2], [share]))


def items_queries(discussion: Discussion) -> list[Query]:
    """For each number of items: attractions that fall in equal steps, and two positions."""
    return [
        _query(
            f"{ITEMS}{n}",
            PositionBasedModel([0.9 - discussion.gap * item for item in range(n)], [1, _SECOND_EXAMINED]),
        )
        for n in discussion.items
    ]


def _query(name: str, users: PositionBasedModel) -> Query:
    return Query(name, [str(item) for item in range(1, users.n_items + 1)], {"PBM": users})


def plan_discussion(discussion: Discussion, *, seed: int) -> Plan:
    """Both experiments."""
    examination, items = examination_queries(discussion), items_queries(discussion)
    units: list[Unit] = []
    for policies, queries, positions in ((BOUNDS, examination, 1), (ELIMINATION, items, 2)):
        conditions = Conditions(discussion.steps, discussion.runs, positions, seed, method=discussion.method)
        units += grid(policies, queries, ["PBM"], conditions)
    return Plan([*examination, *items], units, {"discussion": "of the paper, section 5.4", "seed": seed})
