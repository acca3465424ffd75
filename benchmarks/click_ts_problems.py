"""Users to try ClickTS on: those of real queries, hard cases, and some whom its law does not fit."""

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.simulating import queries_file
from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.queries import load_queries

MODELS = ("CM", "PBM", "DCM", "DBN", "CCM", "UBM")
POSITIONS = 5
FLIP = 0.1

Users = Iterator[tuple[str, str, ClickModel, int]]
"""Name of the model, name of the query, its users, and how many positions a list has."""


def real_problems(models: Sequence[str]) -> Users:
    """The shared queries."""
    for model in models:
        for query in load_queries(queries_file()):
            yield model, query.query, query.model(model), POSITIONS


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


def large_problems() -> Users:
    """A thousand items, fifty positions."""
    attraction = (0.1 * 0.995 ** np.arange(1000)).tolist()
    examination = (0.95 ** np.arange(50)).tolist()
    yield "CM", "1,000 items", CascadeModel(attraction), 50
    yield "PBM", "1,000 items", PositionBasedModel(attraction, examination), 50


def wrong_problems() -> Users:
    """Mixtures of populations, users who read from the bottom, skip positions or click at random, on real queries."""
    for query in load_queries(queries_file()):
        cascade, pbm = query.model("CM"), query.model("PBM")
        assert isinstance(cascade, CascadeModel)
        assert isinstance(pbm, PositionBasedModel)
        attraction, n_items = pbm.attraction, len(query.items)
        looks = list(pbm.examination)[:POSITIONS]
        shuffled = np.random.default_rng(n_items).permutation(n_items)
        other = PositionBasedModel([attraction[i] for i in shuffled], looks)
        anywhere = PositionBasedModel([0.5] * n_items, [1.0] * POSITIONS)
        upwards = PositionBasedModel(attraction, looks[::-1])
        skipping = PositionBasedModel(attraction, [1, 0.3, 0.8, 0.2, 0.6][:POSITIONS])
        for name, users in {
            "half cascades, half PBM": MixtureModel([0.5, 0.5], [CascadeModel(attraction), pbm]),
            "two tastes": MixtureModel([0.6, 0.4], [PositionBasedModel(attraction, looks), other]),
            "a third reads upwards": MixtureModel([2 / 3, 1 / 3], [pbm, upwards]),
            "all read upwards": upwards,
            "positions are skipped": skipping,
            "a fifth clicks at random": MixtureModel([0.8, 0.2], [cascade, anywhere]),
        }.items():
            yield name, query.query, users, POSITIONS
