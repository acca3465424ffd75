"""Users behind HTTP, with delays, losses and repeats: the service learns from them as the simulator says it should.

The same on real queries at full length: `python -m benchmarks.population`.
"""

import numpy as np
from benchmarks import population
from benchmarks.lateness import LEARN

from clickbandit import CascadeModel, PositionBasedModel
from naive.recorded import Recorded

RUNS, IMPRESSIONS = 3, 600


def test_a_small_population(folder, monkeypatch):
    settings = {"WINDOW": 1.0, "DELAY": 0.1, "LONGEST_DELAY": 0.4, "MAX_WAITING": 100}
    for name, value in settings.items():
        monkeypatch.setattr(population, name, value)
    models = [
        PositionBasedModel(attraction=[0.1, 0.9, 0.2, 0.6], examination=[1, 0.6]),
        CascadeModel(attraction=[0.1, 0.7, 0.05, 0.4]),
    ]
    kinds = [
        population.Kind(policy, "q", Recorded(model), list("ABCD"), positions=2, horizon=100)
        for policy, model in zip(("batchrank", "toprank"), models, strict=True)
    ]
    outcomes, verdicts = population.run(
        kinds, runs=RUNS, impressions=IMPRESSIONS, compare=IMPRESSIONS, folder=folder
    )
    assert all(verdicts[f"shown {verdict}"] > 100 for verdict in ("accepted", "duplicate"))
    assert all(verdicts[f"void {verdict}"] > 10 for verdict in ("accepted", "late"))
    for kind, regret, late, best, reached in outcomes:
        assert reached, (kind, best)
        assert all((one.events == LEARN).sum() + one.waiting[-1] == IMPRESSIONS - 1 for one in late)
        expected = population.simulated(kind, late)
        drawn = np.random.default_rng(1).choice(expected, (100_000, RUNS)).mean(axis=1)
        low, high = np.quantile(drawn, [0.0005, 0.9995])  # they are not spread evenly about their mean
        room = 0.1 * expected.mean()
        assert low - room < np.mean(regret) < high + room, (kind, regret, late)
