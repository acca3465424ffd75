"""What ClickTS tells people: attraction and examination with intervals, carry, how sure it is of each item's place, and
the law that users seem to follow.

An interval holds 95 of 100 draws of what may still be true, as `rank` would draw it.
"""

from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, interpreted
from clickbandit.policies.click_ts.algorithm import best
from clickbandit.policies.click_ts.fit import HIGHEST_DRAWN, LOWEST_DRAWN, highest
from clickbandit.policies.click_ts.prior import EXCEPTION_SHAPE, draw_prior
from clickbandit.policies.click_ts.state import State

DRAWS = 400
LEVEL = 0.95
MODEL_MARGIN = 0.25
"""After a click, users still examine some share of what they examine without one. Where that is at most this far from
0 they are nearest to the cascade model, and at most this far from 1 to the position-based model."""


def describe(state: State) -> dict[str, Any]:
    fitted, drawn = _laws(state, state.x[None]), _laws(state, _draws(state))
    observed = state.shown.sum(axis=1) + state.carried.sum(axis=(1, 2))
    attraction = (state.shape + state.clicks) / (state.rate + fitted.exposure[0])
    clicked, unclicked = _priors(state)
    attractions = np.random.default_rng(1).beta(
        clicked + state.clicks, unclicked + np.maximum(0, drawn.exposure - state.clicks)
    )
    items: list[dict[str, Any]] = []
    for item, n in enumerate(observed.tolist()):
        known = {"item": item, "observed": n, "clicks": float(state.clicks[item])}
        known |= _interval(min(float(attraction[item]), 1.0), attractions[:, item], estimated=n > 0)
        if len(state.after) and state.carried[:, :, item].any():
            known["carry"] = float(np.exp(state.x[len(state.cell_clicks) - 1 + item]))
        items.append(known)
    if not state.for_clicks:
        _add_places(state, attractions, items)
    return {"items": items, "users": _users(fitted, drawn)}


def _add_places(state: State, attractions: FloatArray, items: list[dict[str, Any]]) -> None:
    """How probably each item is among the most attractive, and those of the best list just where they stand in it."""
    shown = np.argsort(-attractions, axis=1, kind="stable")[:, : len(state.last)]
    listed = np.bincount(shown.ravel(), minlength=len(items)) / len(shown)
    for known, chance in zip(items, listed.tolist(), strict=True):
        known["in_list"] = chance
    ranking = np.zeros(len(state.last), np.int64)
    best(state, ranking)
    for item, chance in zip(ranking.tolist(), (shown == ranking).mean(axis=0).tolist(), strict=True):
        items[item]["in_place"] = chance


class _Laws(NamedTuple):
    """By law: what follows from it."""

    look: FloatArray
    """By position: its examination with no click above, at most that of the first."""
    exposure: FloatArray
    """By item."""
    kept: FloatArray
    """What is left of the examination after a click, over all displays after one."""


def _draws(state: State) -> FloatArray:
    z = np.random.default_rng(0).standard_normal((DRAWS, len(state.x)))
    deviation = np.linalg.solve(np.tril(state.factor).T, z.T).T
    x = np.clip(state.x + deviation, LOWEST_DRAWN, np.maximum(state.x, HIGHEST_DRAWN))
    if state.for_clicks:
        return x
    fresh, cells = slice(state.n_fresh - 1), slice(len(state.cell_clicks) - 1)
    excess = x[:, fresh] - np.maximum(0, state.x[fresh])
    x[:, cells] -= excess.max(axis=1, initial=0.0, keepdims=True)
    return x


def fitted_exposure(state: State) -> FloatArray:
    """By item: how often it was examined, under the law that was fitted."""
    exposure: FloatArray = _laws(state, state.x[None]).exposure[0]
    return exposure


def _priors(state: State) -> tuple[FloatArray, FloatArray]:
    """By draw and item: the prior that attractions are drawn from, of which there is one where nothing was known."""
    if len(state.weight) == 0:
        return state.clicked, state.unclicked
    rng, drawn = np.random.default_rng(2), []
    trial = state._replace(
        clicked=state.clicked.copy(), unclicked=state.unclicked.copy(), drawn=state.drawn.copy()
    )
    for _ in range(DRAWS):
        interpreted(draw_prior)(trial, rng)
        clicked, unclicked = trial.clicked.copy(), trial.unclicked.copy()
        if trial.drawn[0] >= 0:
            exceptions = rng.random(len(clicked)) < trial.slab[int(trial.drawn[0])]
            clicked[exceptions] = EXCEPTION_SHAPE
            unclicked[exceptions] = max(1.0, trial.drawn[1] - EXCEPTION_SHAPE)
        drawn.append((clicked, unclicked))
    clicks, others = zip(*drawn, strict=True)
    return np.array(clicks), np.array(others)


def _laws(state: State, x: FloatArray) -> _Laws:
    n_cells, later, most = len(state.cell_clicks), slice(state.n_fresh, None), highest(state)
    uncut = np.exp(np.hstack([np.zeros((len(x), 1)), x[:, : n_cells - 1]]))
    cells = np.minimum(most, uncut)
    look = state.share * cells[:, state.cell[:, 0]]
    part = state.share < 1
    look[:, part] += (1 - state.share[part]) * cells[:, state.cell[part, 0] + 1]
    exposure = cells @ state.shown.T
    shown = state.shown[:, later].sum(axis=0)
    after = cells[:, later] @ shown
    without = cells[:, _fresh_cells(state)] @ shown
    if len(state.after):
        looks = np.minimum(most, uncut[:, later, None] * np.exp(x[:, None, n_cells - 1 :]))
        exposure += np.tensordot(looks, state.carried, axes=([1, 2], [1, 2]))
        carried = state.carried.sum(axis=0)
        after += np.tensordot(looks, carried, axes=([1, 2], [0, 1]))
        without += cells[:, _fresh_cells(state)] @ carried.sum(axis=1)
    kept = np.divide(after, without, out=np.full(len(x), np.nan), where=without > 0)
    return _Laws(np.minimum(1, look), exposure, kept)


def _fresh_cells(state: State) -> Any:
    """For each cell after a click the one at the same place without."""
    fresh = np.zeros(len(state.cell_clicks), np.int64)
    for k, row in enumerate(state.cell):
        fresh[row[1 : k + 1]] = row[0]
        if state.share[k] < 1:
            fresh[row[1 : k + 1] + 1] = row[0] + 1
    return fresh[state.n_fresh :]


def _users(fitted: _Laws, drawn: _Laws) -> dict[str, Any]:
    """How users go down the list."""
    told: dict[str, Any] = {
        "examination": [
            {"position": k + 1, **_interval(float(fitted.look[0, k]), drawn.look[:, k])}
            for k in range(fitted.look.shape[1])
        ]
    }
    if not np.isnan(fitted.kept[0]):
        laws = {
            "cascade": drawn.kept <= MODEL_MARGIN,
            "position-based": abs(drawn.kept - 1) <= MODEL_MARGIN,
            "in between": (drawn.kept > MODEL_MARGIN) & (abs(drawn.kept - 1) > MODEL_MARGIN),
        }
        law = max(laws, key=lambda name: laws[name].mean())
        told |= {"law": law, "certainty": float(laws[law].mean())}
        told["after_click"] = _interval(float(fitted.kept[0]), drawn.kept)
    return told


def _interval(estimate: float, draws: FloatArray, estimated: bool = True) -> dict[str, float]:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    if not estimated:
        return {"low": low, "high": high}
    return {"estimate": estimate, "low": min(low, estimate), "high": max(high, estimate)}
