"""What the paper claims, next to what was measured: each claim with a figure, and whether it holds.

The claims are those of section 6 of Zoghi et al. (ICML 2017), of its Theorem 1 and of its discussion (section 5.4).
Whether a claim holds is None where these results cannot show it: they are too short, lack a policy or a click model,
or differ by less than their errors (95% intervals over runs). Where the paper says "about" or "few", the constants
below say what that is.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.experiments.discussion import BOUNDS, ELIMINATION, EXAMINATION, ITEMS, examination_query
from clickbandit.extras import pa, pc
from clickbandit.intervals import Interval, mean_of_strata
from clickbandit.queries import Query, best_list
from clickbandit.report.statistics import Curves, Found, a_step, curves, first_of
from clickbandit.theory import regret_bound
from clickbandit.wording import counted

PAPER_STEPS = 10_000_000
CROSSING = 2_000_000
"""Where BatchRank passes below CascadeKL-UCB in the PBM; "about" is from half of it to twice as late."""
LARGE = 1e-3
"""A regret per step that says that a run ended with a list that is not the best."""
LARGE_SHARE = 1 / 6
"""Of CascadeKL-UCB's runs in the PBM; "about" is from half of it to twice as many."""
MAX_LARGE_SHARE = 1 / 20
"""What "not many" of BatchRank's runs are, at most."""
FLAT = 0.75
"""From the fifth of the steps before half time to the last fifth, a regret per step that falls as 1/t goes down to 0.44
of what it was, and one that falls as the root of that to 0.66; what keeps more than this share has flattened."""
CONSTANT, LINEAR, QUADRATIC = (-0.25, 0.25), (0.75, 1.25), (1.75, 2.25)
"""Powers with which something grows."""
_TINY = 1e-12  # to divide by where there is no regret at all


PRINTED = "batchrank"
"""The policy as the paper prints it."""
BATCHRANK = ("batchrank:variant=experiment", PRINTED)
"""The version behind the paper's figures; if that was not run, the first there is."""
CASCADE, EXP3 = ("cascade-kl-ucb",), ("ranked-exp3",)
_THEOREM = "BatchRank as printed has less regret than Theorem 1 allows"


BOTH, DISCUSSION = "both models", "discussion"


class Claim(NamedTuple):
    """A claim and what was found."""

    about: str
    """The click model that it is about, or one of `BOTH` and `DISCUSSION`."""
    text: str
    measured: str
    holds: bool | None
    """None where these results cannot show it."""
    why: str
    """Why it does not hold or cannot be shown; empty where it holds."""


Verdict = tuple[str, bool | None, str]
"""What was measured, whether the claim holds, and why not."""


def paper_claims(results: pa.Table, queries: Sequence[Query], positions: int) -> list[Claim]:
    """The claims of the paper's experiments and of its theorem; `results` are without those of the discussion."""
    found = curves(results)
    batchrank, cascade, exp3 = (partial(_first_run, found, names) for names in (BATCHRANK, CASCADE, EXP3))
    rules: dict[tuple[str, str], Callable[[], Verdict]] = {
        ("CM", "CascadeKL-UCB has less regret than BatchRank at every T"): lambda: _always_below(
            cascade("CM"), batchrank("CM")
        ),
        ("CM", "BatchRank has less regret than RankedExp3 at every T"): lambda: _always_below(
            batchrank("CM"), exp3("CM")
        ),
        ("PBM", "BatchRank passes below CascadeKL-UCB at about T = 2M"): lambda: _crossing(
            batchrank("PBM"), cascade("PBM")
        ),
        ("PBM", "CascadeKL-UCB's regret per step flattens above zero"): lambda: _flattens(cascade("PBM")),
        ("PBM", "about one run in six of CascadeKL-UCB ends with a regret of 1e-3 a step or more"): lambda: (
            _many_large(cascade("PBM"))
        ),
        ("PBM", "few of BatchRank's runs do"): lambda: _large(
            batchrank("PBM"), 0, MAX_LARGE_SHARE, f"expected at most {MAX_LARGE_SHARE:.0%}"
        ),
        (BOTH, "BatchRank has less regret than RankedExp3 in all experiments"): lambda: _below_everywhere(
            found
        ),
    }
    end = int(pc.max(results["step"]).as_py())
    return [_claim(*names, rule, end) for names, rule in rules.items()] + [
        _claim(
            BOTH,
            f"{_THEOREM} on these queries",
            lambda: _below_bound(_bounds_everywhere(found, queries, positions)),
        )
    ]


def discussion_claims(results: pa.Table) -> list[Claim]:
    """The claims of the paper's discussion, on the results of its experiments."""

    def power(prefix: str, policy: str) -> float:
        points = regret_by(results, prefix, policy)
        return growth(list(points), [float(runs.mean()) for runs in points.values()])

    less, more = "examination", "L"
    of_examination = results.filter(pc.starts_with(results["query"], EXAMINATION))
    two_items = [examination_query(share) for share in regret_by(results, EXAMINATION, BOUNDS[0])]
    return [
        _grows(
            "KL bounds: users who examine less do not raise the regret",
            less,
            -power(EXAMINATION, BOUNDS[0]),
            CONSTANT,
        ),
        _grows(
            "Hoeffding bounds: they raise it as 1 / examination", less, -power(EXAMINATION, BOUNDS[1]), LINEAR
        ),
        _grows(
            "With elimination regret is at most linear in L",
            more,
            power(ITEMS, ELIMINATION[0]),
            (-1.0, LINEAR[1]),
        ),
        _grows("Without elimination it is quadratic in L", more, power(ITEMS, ELIMINATION[1]), QUADRATIC),
        _claim(
            DISCUSSION,
            f"{_THEOREM} on two items, where the bound is small",
            lambda: _below_bound(bounds(curves(of_examination), two_items, positions=1)),
        ),
    ]


def regret_by(results: pa.Table, prefix: str, policy: str) -> dict[float, FloatArray]:
    """An experiment of the discussion: for each share of users or number of items, the regret of each run."""
    found = curves(results)[policy, "PBM"]
    return {
        float(name.removeprefix(prefix)): found.cumulative[i, :, -1]
        for i, name in enumerate(found.queries)
        if name.startswith(prefix)
    }


class Bound(NamedTuple):
    """The regret of BatchRank as printed on a query, next to what Theorem 1 allows."""

    model: str
    query: str
    regret: float
    """Over all steps, averaged over runs."""
    bound: float
    most: float
    """All that can be lost: the reward of the best list at every step."""
    assumed: bool
    """Whether the click model keeps the assumptions of the theorem."""


def bounds(found: Found, queries: Sequence[Query], positions: int) -> list[Bound]:
    """For each model and query on which BatchRank was run as it is printed."""
    by_name, rows = {query.query: query for query in queries}, []
    for (policy, model), mine in found.items():
        if policy == PRINTED:
            steps = int(mine.steps[-1])
            for query, regret in zip(mine.queries, mine.cumulative[:, :, -1].mean(axis=1), strict=True):
                users = by_name[query].model(model)
                bound, most = regret_bound(users, positions, steps), steps * best_list(users, positions)[1]
                assumed = _keeps_assumptions(users, positions)
                rows.append(Bound(model, query, float(regret), bound, most, assumed))
    return rows


def growth(x: Sequence[float], y: Sequence[float]) -> float:
    """The power of x with which y grows: the slope of a line through their logarithms.

    >>> round(growth([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# --- which results a claim is about -------------------------------------------------------------------------


class _Missing(Exception):
    """A policy that a claim is about was not run."""


def _first_run(found: Found, names: Sequence[str], model: str) -> Curves:
    """The results of the first of these policies that was run on a click model, whatever its further settings."""
    mine = first_of(found, model, *names)
    if mine is None:
        raise _Missing(f"{names[0].partition(':')[0]} was not run on {model}")
    return mine


def _models(found: Found) -> list[str]:
    return list(dict.fromkeys(model for _, model in found))


def _bounds_everywhere(found: Found, queries: Sequence[Query], positions: int) -> list[Bound]:
    for model in _models(found):
        if (PRINTED, model) not in found:
            raise _Missing(f"{PRINTED} was not run on {model}")
    return bounds(found, queries, positions)


def _claim(about: str, text: str, rule: Callable[[], Verdict], steps: int = PAPER_STEPS) -> Claim:
    """The verdict of a rule; results of fewer steps than the paper's cannot contradict it."""
    try:
        measured, holds, why = rule()
    except _Missing as missing:
        return Claim(about, text, "", None, str(missing))
    if holds is False and steps < PAPER_STEPS:
        return Claim(about, text, measured, None, f"{why}; the paper's is at T = {_steps(PAPER_STEPS)}")
    return Claim(about, text, measured, holds, why)


# --- rules --------------------------------------------------------------------------------------------------


def _always_below(low: Curves, high: Curves) -> Verdict:
    mine, other = low.cumulative.mean(axis=(0, 1)), high.cumulative.mean(axis=(0, 1))
    more = _more(low.cumulative, high.cumulative)
    above, below = np.array([of.low >= 0 for of in more]), np.array([of.high < 0 for of in more])
    at_end = f"{mine[-1]:,.0f} against {other[-1]:,.0f} at T = {_steps(low.steps[-1])}"
    measured = f"at {below.sum()} of {len(below)} points in time; {at_end}"
    if above.any():
        return measured, False, f"not at T = {_first(low.steps[above])}"
    if not below.all():
        return measured, None, f"not distinguishable at T = {_first(low.steps[~below])}"
    return measured, True, ""


def _crossing(late: Curves, early: Curves) -> Verdict:
    """When the regret per step passes below: from the last window in which it is clearly above, to the last in
    which it is not clearly below."""
    more, end = _more(late.regret, early.regret), int(late.steps[-1])
    above, unsure = ([of.low >= 0 for of in more], [of.high >= 0 for of in more])
    first, last = (int(max(late.steps[windows], default=0)) for windows in (above, unsure))
    if first == end:
        measured = (
            f"not by T = {_steps(end)}: {a_step(late.mean[-1])} against {a_step(early.mean[-1])} a step"
        )
    else:
        measured = f"at T = {_steps(first)}" + (f" to {_steps(last)}" if last > first else "")
    if end < 2 * CROSSING:
        return (
            measured,
            None,
            f"T = {_steps(end)} is too short: it takes {_steps(2 * CROSSING)} steps to tell",
        )
    expected = f"expected {_steps(CROSSING // 2)} to {_steps(2 * CROSSING)}"
    if first > 2 * CROSSING or last < CROSSING / 2:
        return measured, False, expected
    if first < CROSSING / 2 or last > 2 * CROSSING:
        return measured, None, f"{expected}: these runs are too few to tell"
    return measured, True, ""


def _flattens(policy: Curves) -> Verdict:
    """The share that is kept, with the error of a ratio to first order."""
    time = policy.steps / policy.steps[-1]
    before = policy.regret[:, :, (time > 0.3) & (time <= 0.5)].mean(axis=2)
    last = policy.regret[:, :, time > 0.8].mean(axis=2)
    measured = f"{a_step(before.mean())} a step before T / 2, {a_step(last.mean())} in the last fifth"
    if before.mean() == 0:
        return measured, False, "there is no regret"
    kept = float(last.mean() / before.mean())
    moved = mean_of_strata((last - kept * before) / before.mean())
    if kept + moved.high < FLAT:
        return measured, False, f"it keeps falling, to {kept:.0%}"
    if kept + moved.low < FLAT:
        return (
            measured,
            None,
            f"{kept + moved.low:.0%} to {kept + moved.high:.0%} are left: too few runs to tell",
        )
    return measured, True, ""


def _more(one: FloatArray, other: FloatArray) -> list[Interval]:
    """How much more one policy has than another in each window, from the runs that both have: there they met the same
    users."""
    runs = min(one.shape[1], other.shape[1])
    if runs < 2:
        raise _Missing("a single run says nothing of its error")
    difference = one[:, :runs] - other[:, :runs]
    return [mean_of_strata(difference[:, :, window]) for window in range(difference.shape[2])]


def _first(steps: IntArray) -> str:
    return ", ".join(map(_steps, steps[:3]))


def _many_large(policy: Curves) -> Verdict:
    low, high = LARGE_SHARE / 2, 2 * LARGE_SHARE
    return _large(policy, low, high, f"expected {low:.0%} to {high:.0%}")


def _large(policy: Curves, low: float, high: float, expected: str) -> Verdict:
    """Whether the share of runs that end with a large regret per step is between these."""
    share, end = _large_share(policy), int(policy.steps[-1])
    measured = f"{share:.1%} of {counted(policy.regret[:, :, -1].size, 'run')}"
    if end < PAPER_STEPS:
        return measured, None, f"the paper's is at T = {_steps(PAPER_STEPS)}, this at {_steps(end)}"
    return measured, low <= share <= high, "" if low <= share <= high else expected


def _below_everywhere(found: Found) -> Verdict:
    mine, other = (
        np.concatenate(
            [_first_run(found, names, model).cumulative[:, :, -1].mean(axis=1) for model in _models(found)]
        )
        for names in (BATCHRANK, EXP3)
    )
    lost = int((mine >= other).sum())
    measured = f"in {len(mine) - lost:,} of {len(mine):,}; {(mine / np.maximum(other, _TINY)).max():.0%} of it at most"
    return measured, lost == 0, "" if lost == 0 else f"more in {lost:,}"


def _below_bound(bounds: Sequence[Bound]) -> Verdict:
    """The theorem is about models that keep its assumptions. Where it allows more than can be lost, it says nothing."""
    assumed = [one for one in bounds if one.assumed and np.isfinite(one.bound)]
    binding = [one for one in assumed if one.bound < one.most]
    if not assumed:
        return "", None, "no click model here keeps the assumptions of the theorem"
    if not binding:
        least = min(one.bound / one.most for one in assumed)
        measured = (
            f"the bound is at least {least:,.0f} times all that can be lost, in "
            f"{counted(len(assumed), 'experiment')}"
        )
        return measured, None, "it says nothing at this size"
    worst = max(one.regret / one.bound for one in binding)
    measured = (
        f"{worst:.1%} of the bound at most, where that is less than all that can be lost: in {len(binding):,} of "
        f"{counted(len(assumed), 'experiment')}"
    )
    return measured, worst <= 1, "" if worst <= 1 else "more than the bound"


def _keeps_assumptions(users: ClickModel, positions: int) -> bool:
    if isinstance(users, PositionBasedModel):
        return bool((np.diff(users.examination[:positions]) <= 0).all())
    return isinstance(users, CascadeModel)


def _grows(text: str, what: str, power: float, expected: tuple[float, float]) -> Claim:
    low, high = expected
    base = f"1 / {what}" if what == "examination" else what
    holds = low <= power <= high
    return Claim(
        DISCUSSION,
        text,
        f"it grows as {base} to the power {power:.2f}",
        holds,
        "" if holds else f"expected {low} to {high}",
    )


def _large_share(policy: Curves) -> float:
    return float((policy.regret[:, :, -1] >= LARGE).mean())


def _steps(number: int) -> str:
    """A number of steps as the paper writes it.

    >>> _steps(2_500_000), _steps(100_000), _steps(50)
    ('2.5M', '100k', '50')
    """
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.4g}{letter}"
    return str(number)
