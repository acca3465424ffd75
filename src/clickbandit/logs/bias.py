"""How much less users look at lower positions: the examination curve of the position-based model, with intervals."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from clickbandit.click_models.fitting import sums
from clickbandit.intervals import Interval, interval_of_draws
from clickbandit.logs.counts import Counts
from clickbandit.logs.posterior import fit_posterior

_DRAWS = 2000
_MIN_CLICKS = 30
"""Clicks at a position: with fewer its examination is not drawn from a normal distribution in log-odds."""


@dataclass(frozen=True)
class PositionBias:
    """A position of the lists of a log."""

    position: int
    impressions: int
    rate: float
    """Clicks by impressions, as counted: what stands there and how many look at it, together."""
    examination: Interval
    """How many look at it, of those who look at the first position, by the position-based model."""

    def as_dict(self) -> dict[str, Any]:
        """The position as plain data."""
        return {
            "position": self.position,
            "impressions": self.impressions,
            "click_rate": self.rate,
            "examination": self.examination._asdict(),
        }


def bias(counts: Counts, seed: int = 0) -> list[PositionBias]:
    """The examination of each position relative to the first, which is all that clicks tell.

    >>> from clickbandit.logs import count_log
    >>> import pandas
    >>> lists, clicks = ["a b"] * 900 + ["b a"] * 900, (["1 0"] * 4 + ["0 1"] * 2 + ["0 0"] * 3) * 200
    >>> log = pandas.DataFrame({"query": ["q"] * 1800, "list": lists, "clicks": clicks})
    >>> [round(place.examination.mean, 1) for place in bias(count_log(log))]
    [1.0, 0.5]
    """
    known, rng = fit_posterior(counts, "PBM"), np.random.default_rng(seed)
    drawn = np.array([law.examination for law in known.laws(known.shared_draws(_DRAWS, rng))])
    found = known.fit.parameters["examination"]
    cells, n = counts.by_position, counts.n_positions
    shown, clicked = (sums(cells.position, part, n) for part in (cells.shown, cells.clicked))
    attracted = sums(cells.position, cells.shown * known.means["attraction"][cells.pair], n)
    for k in np.flatnonzero(clicked < _MIN_CLICKS).tolist():  # so many of those who would click there
        drawn[:, k] = rng.beta(clicked[k] + 0.5, max(attracted[k] - clicked[k], 0) + 0.5, _DRAWS)
    places = []
    for k in range(n):
        interval = interval_of_draws(drawn[:, k] / drawn[:, 0])
        examination = interval._replace(mean=float(found[k] / found[0]))
        places.append(PositionBias(k + 1, int(shown[k]), float(clicked[k] / max(shown[k], 1)), examination))
    return places
