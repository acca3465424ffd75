"""Who wins a comparison: places by click model, and standings over all of them.

On each click model policies are ranked by their mean regret. Models differ in how much regret there is to have, so
over all of them a policy is measured by how many times the least regret it has on each: **overall** by the geometric
mean of these, and **in the worst case** by the largest. The least regret is that of the best policy which is told
nothing of the users but their clicks.

All policies meet the same users, so two of them are compared by the differences of their runs, and are not
distinguishable where the 95% interval of the mean difference has 0 in it.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from clickbandit.extras import pa
from clickbandit.intervals import Interval, mean_of_strata
from clickbandit.queries import Against, Query, reference_list
from clickbandit.report.statistics import Regrets, paired_difference, totals, units

NEAR_BEST = 0.01
"""A run ends near the best list if it loses no more than this share of the best reward in its last window."""
_TINY = 1e-9  # to divide by where there is no regret at all


class Place(NamedTuple):
    """A policy on a click model."""

    model: str
    policy: str
    rank: int | None
    """None for a yardstick, which learns nothing."""
    regret: Interval
    """Over all steps: the mean over queries, with its 95% interval over runs."""
    times: float
    """How many times the least regret on this model it is; not a number where the least is below 0."""
    near: float
    """The share of runs, on all queries, that end near the best list."""
    runs: int
    tail: float
    """The 90th percentile of the regret, of the runs on all queries."""
    losing: float
    """The share of runs, on all queries, that lose."""
    regrets: Regrets
    more: Interval | None = None
    """How much more regret than the least it is; None for the least itself, and where there are too few runs."""


class Standing(NamedTuple):
    """A policy over all click models."""

    policy: str
    rank: int | None
    """Overall; None for a yardstick, and for what was not run on every model."""
    times: dict[str, float]
    """By model: how many times the least regret."""
    mean: float
    """Their geometric mean."""
    worst: float
    """The largest of them."""
    worst_model: str
    beyond: Interval | None = None
    """Their geometric mean in times that of the best overall, with its 95% interval; None for the best itself, and
    where there are too few runs or no regret."""


def places(
    table: pa.Table,
    queries: Sequence[Query],
    positions: int,
    *,
    against: Against = "clicks",
    yardsticks: Collection[str] = (),
    told: Collection[str] = (),
) -> list[Place]:
    """By model, in the order of the results, and by increasing regret, yardsticks last.

    Policies in `told` know more of the users than their clicks.
    """
    near = _near(table, queries, positions, against)
    found = [
        Place(
            total.model,
            total.policy,
            None,
            total.regret,
            0.0,
            near[total.model, total.policy],
            total.runs,
            total.tail,
            total.losing / len(total.regrets),
            total.regrets,
        )
        for total in totals(table)
    ]
    return placed(found, yardsticks=yardsticks, told=told)


def placed(
    found: Iterable[Place], *, yardsticks: Collection[str] = (), told: Collection[str] = ()
) -> list[Place]:
    """The same places in order, each with its rank and how many times the least regret it is."""
    by_model: dict[str, list[Place]] = {}
    for place in found:
        by_model.setdefault(place.model, []).append(place)
    result = []
    for mine in by_model.values():
        mine.sort(key=lambda place: (place.policy in yardsticks, place.regret.mean))
        learning = [place for place in mine if place.policy not in yardsticks]
        equal = [place for place in learning if place.policy not in told] or learning or mine
        best = min(equal, key=lambda place: place.regret.mean)
        least = max(best.regret.mean, _TINY) if best.regret.mean > -_TINY else math.nan
        for rank, place in enumerate(mine, 1):
            ranked = rank if place in learning else None
            more = None if place is best else paired_difference(place.regrets, best.regrets)
            result.append(place._replace(rank=ranked, times=place.regret.mean / least, more=more))
    return result


def _near(
    table: pa.Table, queries: Sequence[Query], positions: int, against: Against
) -> dict[tuple[str, str], float]:
    """For each model and policy, the share of runs that end near the best list."""
    by_name = {query.query: query for query in queries}
    finished = units(table)
    pairs = zip(finished["model"].to_pylist(), finished["query"].to_pylist(), strict=True)
    # users who drift only change their minds about which item is which, and the best reward stays the same
    best = np.array(
        [reference_list(by_name[query].model(model), positions, against)[1] for model, query in pairs]
    )
    near = (finished["last_regret"].to_numpy() <= NEAR_BEST * best).astype(float)
    shares = finished.append_column("near", pa.array(near))
    shares = shares.group_by(["model", "policy"], use_threads=False).aggregate([("near", "mean")])
    return {(row["model"], row["policy"]): row["near_mean"] for row in shares.to_pylist()}


def standings(found: Sequence[Place]) -> list[Standing]:
    """The policies from the best overall to the worst; then those that were not run on every model, then yardsticks.

    Models on which the least regret is below 0 do not count: there are no multiples of that.
    """
    found = [place for place in found if not math.isnan(place.times)]
    models = dict.fromkeys(place.model for place in found)
    by_policy: dict[str, dict[str, Place]] = {}
    for place in found:
        by_policy.setdefault(place.policy, {})[place.model] = place
    unranked = []
    for policy, mine in by_policy.items():
        times = {model: mine[model].times for model in models if model in mine}
        mean = math.exp(float(np.log(np.maximum(list(times.values()), _TINY)).mean()))
        worst = max(times, key=times.__getitem__)
        unranked.append(Standing(policy, None, times, mean, times[worst], worst))

    def order(standing: Standing) -> tuple[bool, bool, float]:
        yardstick = all(place.rank is None for place in by_policy[standing.policy].values())
        return yardstick, len(standing.times) < len(models), standing.mean

    unranked.sort(key=order)
    best = by_policy[unranked[0].policy] if unranked else {}
    return [
        standing
        if any(order(standing)[:2])
        else standing._replace(rank=rank, beyond=_beyond(by_policy[standing.policy], best))
        for rank, standing in enumerate(unranked, 1)
    ]


def _beyond(one: Mapping[str, Place], best: Mapping[str, Place]) -> Interval | None:
    """How many times another's regret a policy has, in the geometric mean over models.

    The logarithm of a mean moves, to first order, by its values over itself; so by these the interval of a difference
    of logarithms is that of a mean over models and queries.
    """
    if one is best or any(place.regret.mean <= _TINY for place in (*one.values(), *best.values())):
        return None
    strata: dict[tuple[str, str], list[float]] = {}
    logarithms = []
    for model, mine in one.items():
        other = best[model]
        logarithms.append(math.log(mine.regret.mean / other.regret.mean))
        for (query, run), regret in mine.regrets.items():
            if (query, run) in other.regrets:
                change = regret / mine.regret.mean - other.regrets[query, run] / other.regret.mean
                strata.setdefault((model, query), []).append(change)
    if not strata or min(map(len, strata.values())) < 2:
        return None
    mean, moved = float(np.mean(logarithms)), mean_of_strata([*strata.values()])
    return Interval(*(math.exp(mean + bound - moved.mean) for bound in moved))


def best_overall(found: Sequence[Standing]) -> Standing | None:
    """The policy with the least geometric mean, of those that were run on every model."""
    return min(_ranked(found), key=lambda standing: standing.mean, default=None)


def best_in_the_worst_case(found: Sequence[Standing]) -> Standing | None:
    """The one whose worst model is least bad."""
    return min(_ranked(found), key=lambda standing: standing.worst, default=None)


def _ranked(found: Sequence[Standing]) -> list[Standing]:
    return [standing for standing in found if standing.rank is not None]


def verdict(found: Sequence[Standing]) -> list[str]:
    """Who is best, in sentences."""
    overall, safest = best_overall(found), best_in_the_worst_case(found)
    if overall is None or safest is None:
        return []
    equal = [one.policy for one in found if one.beyond and one.beyond.low <= 1 <= one.beyond.high]
    rivals = f"; not distinguishable from {', '.join(equal)}" if equal else ""
    if len(overall.times) == 1:
        return [f"The least regret: {overall.policy}{rivals}"]
    return [
        f"Best overall: {overall.policy}, with {overall.mean:.2f} times the least regret on a model, in the geometric "
        f"mean over {len(overall.times)} models{rivals}",
        f"Best in the worst case: {safest.policy}, with at most {safest.worst:.2f} times the least regret, in "
        f"{safest.worst_model}",
    ]
