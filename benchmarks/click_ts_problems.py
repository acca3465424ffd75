"""Users to try ClickTS on beyond those of real queries: hard cases, and some whom its law does not fit."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.queries import load_queries

MODELS = ("CM", "PBM", "DCM", "DBN", "CCM", "UBM")
FLIP = 0.1

Users = Iterator[tuple[str, str, ClickModel, int]]


def hard_problems() -> Users:
    """Many items, tiny attractions, near ties, steep and flat examination, as many positions as items."""
    spread = np.linspace(0.6, 0.05, 10).tolist()
    usual, flat, steep = 0.8 ** np.arange(10), 0.98 ** np.arange(10), 0.4 ** np.arange(10)
    many = (0.5 * 0.93 ** np.arange(50)).tolist()
    cases = {
        "50 items": (many, usual, 5),
        "tiny attractions": ([0.02 * 0.8**i for i in range(10)], usual, 5),
        "near ties": (np.linspace(0.215, 0.2, 10).tolist(), usual, 5),
        "K = L = 10": (spread, usual, 10),
    }
    for name, (attraction, examination, positions) in cases.items():
        yield f"{name}, CM", name, CascadeModel(attraction), positions
        yield f"{name}, PBM", name, PositionBasedModel(attraction, examination.tolist()), positions
    for name, examination in (("steep examination", steep), ("flat examination", flat)):
        yield f"{name}, PBM", name, PositionBasedModel(spread, examination.tolist()), 5


def wrong_problems(queries: Path, positions: int) -> Users:
    """Mixtures of populations, users who read from the bottom, skip positions or click at random, on real queries."""
    for query in load_queries(queries):
        cascade, pbm = query.model("CM"), query.model("PBM")
        assert isinstance(cascade, CascadeModel)
        assert isinstance(pbm, PositionBasedModel)
        attraction, n_items = pbm.attraction, len(query.items)
        looks = list(pbm.examination)[:positions]
        shuffled = np.random.default_rng(n_items).permutation(n_items)
        other = PositionBasedModel([attraction[i] for i in shuffled], looks)
        anywhere = PositionBasedModel([0.5] * n_items, [1.0] * positions)
        upwards = PositionBasedModel(attraction, looks[::-1])
        skipping = PositionBasedModel(attraction, [1, 0.3, 0.8, 0.2, 0.6][:positions])
        for name, users in {
            "half cascades, half PBM": MixtureModel([0.5, 0.5], [CascadeModel(attraction), pbm]),
            "two tastes": MixtureModel([0.6, 0.4], [PositionBasedModel(attraction, looks), other]),
            "a third reads upwards": MixtureModel([2 / 3, 1 / 3], [pbm, upwards]),
            "all read upwards": upwards,
            "positions are skipped": skipping,
            "a fifth clicks at random": MixtureModel([0.8, 0.2], [cascade, anywhere]),
        }.items():
            yield name, query.query, users, positions
