"""What one query's ClickTS tells of the page that it stands on, for other queries to start from."""

import math

import numpy as np

from clickbandit.compiling.kernel import FloatArray
from clickbandit.policies.click_ts.describe import fitted_exposure
from clickbandit.policies.click_ts.state import FRESH_VARIANCE, LATER_VARIANCE, LOG_EXAMINATION, State
from clickbandit.priors import Lesson


def teach(state: State) -> Lesson:
    """Clicks and examinations by item, and by cell what clicks told of log examination beyond what was known before.

    Where cells share, positions are not told apart, and examination is left out.
    """
    lesson = Lesson(state.clicks.tolist(), fitted_exposure(state).tolist())
    n_positions = len(state.look)
    if len(state.after) == 0 or n_positions == 1 or state.learned[0] < 1:
        return lesson
    mean, precision = _told(state)
    rows: list[list[float]] = [[0.0]]
    certain: list[list[float]] = [[math.inf]]
    for k in range(1, n_positions):
        cells = [state.cell[k, r] - 1 for r in range(k + 1)]
        rows.append(mean[cells].tolist())
        certain.append(precision[cells].tolist())
    return lesson._replace(log_examination=rows, precision=certain)


def _told(state: State) -> tuple[FloatArray, FloatArray]:
    """By cell: the mean and the precision of what clicks alone say, each cell for itself."""
    n_free = len(state.cell_clicks) - 1
    factor = np.tril(state.factor)
    inverse = np.linalg.solve(factor, np.eye(len(factor)))
    variance = (inverse**2).sum(axis=0)[:n_free]
    before = np.full(n_free, 1 / LATER_VARIANCE)
    before[: state.n_fresh - 1] = 1 / FRESH_VARIANCE
    expected = before * LOG_EXAMINATION
    if len(state.gone_slope) > 0:
        before = before + np.diag(state.gone_precision)[:n_free]
        expected = expected - state.gone_slope[:n_free]
    told = np.maximum(0, 1 / variance - before)
    mean = np.divide(state.x[:n_free] / variance - expected, told, out=np.zeros(n_free), where=told > 1e-6)
    return np.clip(mean, -8, 1), np.where(told > 1e-6, told, 0.0)
