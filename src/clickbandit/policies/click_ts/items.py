"""ClickTS where items come and go.

**New items** start from the prior, or where that was of certain items, as one that is like their mean: worth the
examinations that bring one click. Where their number makes the tables too large, cells share from then on (`cells`),
and the carries are let go; that is not undone when items leave.

**An item that leaves** has taught something about positions and about the carry of others, and that stays. Its
clicks stay counted by cell. In place of its term (1 + clicks[d]) log(2 + m[d](x)) of the likelihood there is that
term's quadratic form at today's x, with slope a w and precision a (diag(w) + the cross terms) - a w w^T / (2 + m): so
much as it told with its own attraction unknown, and no more. All that left share one slope and one precision. Its own
carry is from then on taken for known: displays below its clicks count times its s.
"""

from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, interpreted
from clickbandit.policies.click_ts.cells import has_carry
from clickbandit.policies.click_ts.change import foresee
from clickbandit.policies.click_ts.fit import highest
from clickbandit.policies.click_ts.prior import EXCEPTION, N_LEVELS, N_ROWS
from clickbandit.policies.click_ts.state import MAX_GUARDED, PRIOR_CLICKS, PRIOR_EXPOSURE, State, init
from clickbandit.policies.items import with_new_numbers, without_number
from clickbandit.policies.possible import like, unchanged, within

_BY_ITEM = ("shown", "clicks", "attraction", "exposure", "sample", "listed")
_OF_PRIOR = ("shape", "rate", "clicked", "unclicked")
_WATCHED = ("clicks_then", "exposure_then", "slope_then", "surprise", "surprise_variance")
"""By item too, where changes are looked for."""

# --- new items ----------------------------------------------------------------------------------------------


def admit(state: State, n_new: int) -> State:
    n_items, n_positions = len(state.clicks) + n_new, len(state.look)
    if len(state.wins) > 0:
        guarded = n_items <= MAX_GUARDED
        state = state._replace(wins=_padded(state.wins, n_new, (0, 1)) if guarded else np.zeros((0, 0)))
    state = _expecting(state, n_new)
    if len(state.surprise) > 0:
        watched: dict[str, Any] = {name: _padded(getattr(state, name), n_new) for name in _WATCHED}
        state = state._replace(**watched)
    if len(state.after) == 0:
        return _with_rows(state, n_new)
    if has_carry(n_items, n_positions):
        return _with_carries(_with_rows(state, n_new), n_new)
    return _share_cells(state, n_new)


def _with_rows(state: State, n_new: int) -> State:
    grown: dict[str, Any] = {name: _padded(getattr(state, name), n_new) for name in _BY_ITEM}
    grown["attraction"][-n_new:] = state.shape[-n_new:] / state.rate[-n_new:]
    carried = _padded(state.carried, n_new)
    return state._replace(**grown, carried=carried, order=with_new_numbers(state.order, n_new))


def _expecting(state: State, n_new: int) -> State:
    """The priors of the attractions, with those of new items."""
    clicks, exposure = PRIOR_CLICKS, PRIOR_EXPOSURE
    if len(state.weight) > 0:
        exposure = 1 / float(state.expected.mean())
        state = state._replace(
            expected=np.append(state.expected, np.full(n_new, 1 / exposure)),
            strength=np.append(state.strength, np.full(n_new, exposure)),
            slab=np.pad(state.slab, ((0, 0), (0, n_new)), constant_values=EXCEPTION),
        )
    new = (clicks, exposure, clicks, exposure - clicks)
    grown: dict[str, Any] = {
        name: np.append(getattr(state, name), np.full(n_new, value))
        for name, value in zip(_OF_PRIOR, new, strict=True)
    }
    return state._replace(**grown)


def _with_carries(state: State, n_new: int) -> State:
    """Carries from the prior, 1 until the next draw."""
    looks = np.minimum(highest(state), state.examination[state.n_fresh :])
    factor = _padded(state.factor, n_new, (0, 1))
    new = np.arange(len(state.x), len(factor))
    factor[new, new] = state.carry_variance[0] ** -0.5
    gone = n_new if len(state.gone_slope) else 0
    return state._replace(
        carried=_padded(state.carried, n_new, (2,)),
        after=_padded(state.after, n_new),
        x=_padded(state.x, n_new),
        factor=factor,
        gone_slope=_padded(state.gone_slope, gone),
        gone_precision=_padded(state.gone_precision, gone, (0, 1)),
        look_after=np.hstack([state.look_after, np.repeat(looks[:, None], n_new, axis=1)]),
        carry=np.append(state.carry, np.ones(n_new)),
        slope=_padded(state.slope, n_new),
        step=_padded(state.step, n_new),
        slope_then=_padded(state.slope_then, n_new, (1,)),
    )


def _padded(array: FloatArray, n: int, axes: tuple[int, ...] = (0,)) -> FloatArray:
    """An array with n zeros behind along some axes."""
    return np.pad(array, [(0, n if axis in axes else 0) for axis in range(array.ndim)])


def _share_cells(state: State, n_new: int) -> State:
    """The same counts in the large form."""
    n_items, n_positions = len(state.clicks), len(state.look)
    goal = "clicks" if state.for_clicks else "attraction"
    restart = len(state.surprise) > 0
    large = init(n_items + n_new, n_positions, horizon=0, goal=goal, memory=state.memory, restart=restart)
    shares = np.zeros((len(state.cell_clicks), len(large.cell_clicks)))
    for k in range(n_positions):
        for r in range(k + 1):
            before, now = state.cell[k, r], large.cell[k, r]
            shares[before, now] = large.share[k]
            if large.share[k] < 1:
                shares[before, now + 1] = 1 - large.share[k]
    shown = state.shown.copy()
    shown[:, state.n_fresh :] += state.carried.sum(axis=2)
    large.shown[:n_items] = shown @ shares
    large.clicks[:n_items] = state.clicks
    large.cell_clicks[:] = state.cell_clicks @ shares
    large.learned[:] = large.next_fit[:] = state.learned
    large.attraction[:n_items] = state.attraction
    large.attraction[n_items:] = state.shape[n_items:] / state.rate[n_items:]
    large.order[:] = with_new_numbers(state.order, n_new)
    large.last[:] = state.last
    weight = (1 + shown.sum(axis=0))[:, None] * shares
    known = weight.sum(axis=0) > 0
    examination = (
        np.exp(np.append(0, state.x[: len(shares) - 1])) @ weight[:, known] / weight[:, known].sum(axis=0)
    )
    large.x[known[1:]] = np.log(examination[1:])
    kept: dict[str, Any] = {
        name: getattr(state, name)
        for name in ("wins", "budget", *_OF_PRIOR, "expected", "strength", "weight", "slab", "drawn")
    }
    large = large._replace(**kept)
    interpreted(foresee)(large)
    if len(state.gone_slope) == 0:
        return large
    n_free, parts = len(shares) - 1, shares[1:, 1:]
    return large._replace(
        gone_slope=state.gone_slope[:n_free] @ parts,
        gone_precision=parts.T @ state.gone_precision[:n_free, :n_free] @ parts,
    )


# --- items that leave ---------------------------------------------------------------------------------------


def retire(state: State, item: int) -> State:
    taught = _taught(state, item)
    watched = _WATCHED if len(state.surprise) > 0 else ()
    expected = ("expected", "strength") if len(state.weight) else ()
    names = (*_BY_ITEM, "carried", *_OF_PRIOR, *expected, *watched)
    kept = {name: np.delete(getattr(state, name), item, axis=0) for name in names}
    last = state.last - (state.last > item)
    if item in state.last:
        last[:] = -1
    wins = state.wins
    if len(wins) > 0:
        wins = np.delete(np.delete(wins, item, axis=0), item, axis=1)
    state = state._replace(
        **kept,
        order=without_number(state.order, item),
        last=last,
        wins=wins,
        slab=np.delete(state.slab, item, axis=1) if len(state.weight) else state.slab,
        gone_slope=taught.slope,
        gone_precision=taught.precision,
    )
    return state if len(state.after) == 0 else _without_carry(state, item)


class _Taught(NamedTuple):
    """What items that left taught: the cost slope x + x^T precision x / 2 of parameters x."""

    slope: FloatArray
    precision: FloatArray


def _taught(state: State, item: int) -> _Taught:
    """What all items that left taught, with one more."""
    n_cells = len(state.cell_clicks)
    examination = np.exp(np.append(0, state.x[: n_cells - 1]))
    carry = np.exp(state.x[n_cells - 1 :])
    cross = (
        state.carried[item] * examination[state.n_fresh :, None] * carry
        if len(carry)
        else state.carried[item]
    )
    w = np.append(state.shown[item] * examination, cross.sum(axis=0))
    if len(carry):
        w[state.n_fresh : n_cells] += cross.sum(axis=1)
    exposure = state.rate[item] + w[:n_cells].sum()
    attraction = (state.shape[item] + state.clicks[item]) / exposure
    w = w[1:]
    precision = np.diag(w) - np.outer(w, w) / exposure
    if len(carry):
        later, carries = slice(state.n_fresh - 1, n_cells - 1), slice(n_cells - 1, None)
        precision[later, carries] += cross
        precision[carries, later] += cross.T
    slope, precision = attraction * (w - precision @ state.x), attraction * precision
    if len(state.gone_slope):
        slope, precision = slope + state.gone_slope, precision + state.gone_precision
    return _Taught(slope, precision)


def _without_carry(state: State, item: int) -> State:
    """Take an item's carry for known."""
    p = len(state.cell_clicks) - 1 + item
    state.shown[:, state.n_fresh :] += state.carried[:, :, item] * np.exp(state.x[p])
    return state._replace(
        carried=np.delete(state.carried, item, axis=2),
        after=np.delete(state.after, item),
        x=np.delete(state.x, p),
        factor=_without_row(state.factor, p),
        gone_slope=np.delete(state.gone_slope + state.gone_precision[:, p] * state.x[p], p),
        gone_precision=np.delete(np.delete(state.gone_precision, p, axis=0), p, axis=1),
        look_after=np.delete(state.look_after, item, axis=1),
        carry=np.delete(state.carry, item),
        slope=np.delete(state.slope, p),
        step=np.delete(state.step, p),
        slope_then=np.delete(state.slope_then, p, axis=1),
    )


def _without_row(factor: FloatArray, p: int) -> FloatArray:
    """The Cholesky factor without a parameter, by QR: unlike a new factorisation it cannot fail by rounding."""
    rows = np.delete(np.tril(factor), p, axis=0)
    upper = np.asarray(np.linalg.qr(rows.T, mode="r"), np.float64)
    return (upper * np.sign(np.diag(upper))[:, None]).T.copy()


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    """As a fresh one of its form: few items may share cells since there were more, which then had no guard either."""
    n_items, n_free = len(fresh.clicks), len(state.x)
    gone = len(state.gone_slope)
    if gone not in (0, n_free):
        return False
    if len(state.after) < len(fresh.after):
        fresh = _sharing(fresh)
    wins = state.wins if len(state.wins) == 0 else fresh.wins
    fresh = fresh._replace(wins=wins, gone_slope=np.zeros(gone), gone_precision=np.zeros((gone, gone)))
    if len(state.weight) > 0:  # it started from a prior
        told = {"expected": n_items, "strength": n_items, "weight": N_ROWS, "slab": (N_LEVELS, n_items)}
        fresh = fresh._replace(**{name: np.zeros(shape) for name, shape in told.items()})
    lists = state.last
    return (
        like(state, fresh)
        and within(state.drawn[:1], -1, N_LEVELS if len(state.weight) else 0)
        and unchanged(state, fresh, "cell", "share")
        and (within(lists, -1, 0) or (within(lists, 0, n_items) and len(set(lists.tolist())) == len(lists)))
    )


def _sharing(fresh: State) -> State:
    """A fresh state of as many items in the large form."""
    n_items, n_positions = len(fresh.clicks), len(fresh.look)
    many = n_items
    while has_carry(many, n_positions):
        many += 1
    large = init(
        many, n_positions, horizon=0, goal="clicks" if fresh.for_clicks else "attraction", memory=fresh.memory
    )
    kept: dict[str, Any] = {
        name: getattr(large, name)[:n_items]
        for name in (*_BY_ITEM, *_OF_PRIOR, *_WATCHED, "carried", "order")
        if len(getattr(large, name)) == many
    }
    return large._replace(**kept, wins=fresh.wins)
