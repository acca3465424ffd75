"""Users whose lists and clicks are all written down, so that one compiled call gives a whole run, list by list.

The same machine code serves users of the CM, the PBM and the SDBN, each by the kernels of their own model: a policy is
compiled once for all of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clickbandit.click_models import cm, pbm, sdbn
from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.contract import Functions
from clickbandit.compiling.kernel import FloatArray, IntArray, slow_path
from clickbandit.queries import best_list

NAMES = ("CM", "PBM", "SDBN")


class Params(NamedTuple):
    """The parameters of all three, empty where a model has none, and what was recorded."""

    model: int
    attraction: FloatArray
    examination: FloatArray
    satisfaction: FloatArray
    shown: IntArray
    clicked: IntArray
    n_recorded: IntArray


@slow_path
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    if params.model == 0:
        cm.click(cm.Params(params.attraction), rng, ranking, clicks)
    elif params.model == 1:
        pbm.click(pbm.Params(params.attraction, params.examination), rng, ranking, clicks)
    else:
        sdbn.click(sdbn.Params(params.attraction, params.satisfaction), rng, ranking, clicks)
    n = params.n_recorded[0]
    if n < len(params.shown):
        for k in range(len(ranking)):
            params.shown[n, k] = ranking[k]
            params.clicked[n, k] = clicks[k]
        params.n_recorded[0] = n + 1


@slow_path
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    if params.model == 0:
        cm.click_probability(cm.Params(params.attraction), ranking, out)
    elif params.model == 1:
        pbm.click_probability(pbm.Params(params.attraction, params.examination), ranking, out)
    else:
        sdbn.click_probability(sdbn.Params(params.attraction, params.satisfaction), ranking, out)


def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    raise NotImplementedError("no loop asks for it")


@slow_path
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    if params.model == 0:
        return cm.log_likelihood(cm.Params(params.attraction), ranking, clicks)
    if params.model == 1:
        return pbm.log_likelihood(pbm.Params(params.attraction, params.examination), ranking, clicks)
    return sdbn.log_likelihood(sdbn.Params(params.attraction, params.satisfaction), ranking, clicks)


class Recorded(ClickModel):
    """Users of another click model, with a record of the first lists that they were shown."""

    functions = Functions(Params, click, click_probability, examination_probability, log_likelihood)

    def __init__(self, users: ClickModel, steps: int = 0, positions: int = 0) -> None:
        shown, clicked = np.zeros((2, steps, positions), np.int64)
        vars(self).update(users=users, attraction=users.attraction, shown=shown, clicked=clicked)
        vars(self).update(n_recorded=np.zeros(1, np.int64))

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["users"], name)

    def __repr__(self) -> str:
        return repr(self.users)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def name(self) -> str:
        return str(self.users.name)

    @property
    def max_positions(self) -> int:
        return int(self.users.max_positions)

    def with_items(self, order: Sequence[int]) -> "Recorded":
        """On the same record."""
        renumbered = Recorded(self.users.with_items(order))
        vars(renumbered).update(shown=self.shown, clicked=self.clicked, n_recorded=self.n_recorded)
        return renumbered

    def best_list(self, n_positions: int) -> list[int]:
        return best_list(self.users, n_positions)[0]

    @property
    def params(self) -> Params:
        names = ("attraction", "examination", "satisfaction")
        values = [np.asarray(getattr(self.users, name, ()), float) for name in names]
        return Params(NAMES.index(self.name), *values, self.shown, self.clicked, self.n_recorded)
