"""A log such as a search engine keeps: invented from a seed, with the parameters that real logs show.

Queries come with frequencies 1, 1/2, 1/3, .. (Zipf). For each, the engine knows a pool of documents and shows ten in
an order that differs between sessions: its usual ranking puts what is relevant up, not without errors, and its other
rankings are that one shaken up. So good documents stand high more often, and most stand at every position.

Some users read from the top and stop after a click that satisfies them (cascade behaviour); the others look at each
position with a probability of its own. No model that is fitted to the log is therefore quite true, as with real logs.
The constants are such that the position-based model, fitted to the log, learns what it learns from Yandex's log: the
examination of positions `EXAMINATION`, and of the ten most attractive documents of a frequent query the mean
attractions `ATTRACTION`, with a spread over queries of about half of that. Its scale is free, as only products of
attraction and examination are observed; what settles it is the most attractive document of all, here as there.
"""

from collections.abc import Callable
from os import PathLike

import numpy as np

from clickbandit.click_models.dcm import DependentClickModel
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError
from clickbandit.logs.synthetic.generate import Traffic, write_sessions
from clickbandit.queries import Query

EXAMINATION = (1.00, 0.96, 0.76, 0.59, 0.46, 0.39, 0.33, 0.28, 0.26, 0.27)
"""What the position-based model learns from real logs, and about what it learns from this one."""
ATTRACTION = (0.47, 0.24, 0.21, 0.18, 0.16, 0.15, 0.13, 0.12, 0.10, 0.07)
"""Likewise: of the ten most attractive documents of the sixty most frequent queries, on average."""

POSITIONS = len(EXAMINATION)
RANKINGS = 60
"""How many different lists a query has."""

_CASCADE_SHARE, _TERMINATION = 0.3, 0.33  # users who read from the top; how often a click is their last
_OTHERS_EXAMINE = (1.0, 1.0, 0.765, 0.55, 0.395, 0.315, 0.245, 0.185, 0.17, 0.205)
"""What is left for the other users, so that all together examine positions as `EXAMINATION` says."""
_POOL = (
    *(0.43, 0.23, 0.20, 0.175, 0.157, 0.142, 0.125, 0.11),
    *(0.09, 0.062, 0.045, 0.035, 0.03, 0.025, 0.02, 0.02),
)
"""The mean attraction of a query's documents: below `ATTRACTION`, since a fit's best are also its luckiest."""
# relative to the mean: first document, others, each by itself
_FIRST_SPREAD, _OTHER_SPREAD, _NOISE = 0.53, 0.55, 0.15
_SITE = 0.99  # the most frequent query is the name of a site, which stands first in its pool
_ERROR, _SHAKE = 0.3, 0.5  # of the engine's ranking by logarithm of attraction: always, and from list to list


def write_realistic_log(
    path: str | PathLike[str],
    *,
    seed: int = 0,
    sessions: int = 400_000,
    queries: int = 300,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write a log of that many sessions and queries, in Yandex's format for relevance prediction.

    The file is complete or not written at all; its name may end in .gz or .zst. The same seed gives the same
    file. `progress` is called with how many more sessions were written.
    """
    if sessions < 1 or queries < 1:
        raise InputError(f"expected at least 1 session and 1 query, found {sessions} and {queries}")
    rng = np.random.default_rng(seed)
    attraction = _attraction(queries, rng)
    shown = [_rankings(pool, rng) for pool in attraction]
    numbers = iter(map(str, rng.permutation(queries + attraction.size).tolist()))
    entries = [Query(next(numbers), [next(numbers) for _ in pool]) for pool in attraction]
    users = [_users(pool.tolist()) for pool in attraction]
    traffic = [Traffic(*entry) for entry in zip(entries, users, shown, strict=True)]
    write_sessions(traffic, path, sessions=sessions, rng=rng, progress=progress)


def _attraction(queries: int, rng: np.random.Generator) -> FloatArray:
    """The attraction of each query's documents, a row for each query."""
    mean = np.array(_POOL)
    # some queries have many good documents
    easy = rng.gamma(_OTHER_SPREAD**-2, _OTHER_SPREAD**2, (queries, 1))
    attraction = mean * easy * rng.lognormal(0, _NOISE, (queries, len(mean)))
    pseudo = (1 - mean[0]) / mean[0] / _FIRST_SPREAD**2 - 1  # a beta distribution with this mean and spread
    attraction[:, 0] = rng.beta(mean[0] * pseudo, (1 - mean[0]) * pseudo, queries)
    attraction[0, 0] = _SITE
    return np.clip(attraction, 0.005, _SITE)


def _rankings(attraction: FloatArray, rng: np.random.Generator) -> IntArray:
    """The lists of a query: first the usual one, then others that are less and less often shown."""
    usual = np.log(attraction) + rng.normal(0, _ERROR, len(attraction))
    scores = usual + rng.gumbel(0, _SHAKE, (RANKINGS, len(attraction)))
    scores[0] = usual
    return np.argsort(-scores, axis=1)[:, :POSITIONS].copy()


def _users(attraction: list[float]) -> MixtureModel:
    cascade = DependentClickModel(attraction, [_TERMINATION] * POSITIONS)
    others = PositionBasedModel(attraction, _OTHERS_EXAMINE)
    return MixtureModel([_CASCADE_SHARE, 1 - _CASCADE_SHARE], [cascade, others])
