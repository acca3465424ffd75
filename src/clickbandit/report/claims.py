"""What the paper claims, beside what was measured: each claim with a figure, and whether it holds.

The claims are those of section 6 of Zoghi et al. (ICML 2017), of its Theorem 1 and of its discussion (section 5.4).
Whether a claim holds is None where these results cannot show it: they are too short, or lack a policy or a click
model. Where the paper says "about" or "few", the constants below say what that is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.compiling.kernel import FloatArray
from clickbandit.experiments.discussion import BOUNDS, ELIMINATION, EXAMINATION, ITEMS
from clickbandit.queries import Query
from clickbandit.report.statistics import Curves, curves, first_of
from clickbandit.theory import regret_bound

PAPER_STEPS = 10_000_000
CROSSING = 2_000_000
"""Where BatchRank passes below CascadeKL-UCB in the PBM; "about" is from half of it to twice as late."""
LARGE = 1e-3
"""A regret a step that says that a run ended with a list that is not the best."""
LARGE_SHARE = 1 / 6
"""Of CascadeKL-UCB's runs in the PBM; "about" is from half of it to twice as many, "few" at most half as many."""
FLAT = 0.75
"""A regret a step that falls as 1/t goes down to 0.44 of what it was from the fifth of the steps before half time to
the last fifth; what keeps more than this share has flattened."""
CONSTANT, LINEAR, QUADRATIC = (-0.25, 0.25), (0.75, 1.25), (1.75, 2.25)
"""Powers with which something grows."""
_TINY = 1e-12  # to divide by where there is no regret at all


class Claim(NamedTuple):
    """A claim and what was found."""

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
    found = _Found(curves(results))
    rules: dict[str, Callable[[], Verdict]] = {
        "CM: CascadeKL-UCB has less regret than BatchRank at every T": lambda: _always_below(
            found.cascade("CM"), found.batchrank("CM")
        ),
        "CM: BatchRank has less regret than RankedExp3 at every T": lambda: _always_below(
            found.batchrank("CM"), found.exp3("CM")
        ),
        "PBM: BatchRank passes below CascadeKL-UCB at about T = 2M": lambda: _crossing(
            found.batchrank("PBM"), found.cascade("PBM")
        ),
        "PBM: CascadeKL-UCB's regret a step flattens above zero": lambda: _flattens(found.cascade("PBM")),
        "PBM: about one run in six of CascadeKL-UCB ends with a regret of 1e-3 a step or more": lambda: (
            _many_large(found.cascade("PBM"))
        ),
        "PBM: few of BatchRank's runs do": lambda: _few_large(found.batchrank("PBM"), found.cascade("PBM")),
        "BatchRank has less regret than RankedExp3 in all experiments": lambda: _below_everywhere(found),
    }
    end = int(pc.max(results["step"]).as_py())
    return [_claim(text, rule, end) for text, rule in rules.items()] + [
        _claim(
            "BatchRank as printed has less regret than Theorem 1 allows",
            lambda: _below_bound(found, queries, positions),
        )
    ]


def discussion_claims(results: pa.Table) -> list[Claim]:
    """The claims of the paper's discussion, on the results of its experiments."""

    def power(prefix: str, policy: str) -> float:
        points = regret_by(results, prefix, policy)
        return growth(list(points), [float(runs.mean()) for runs in points.values()])

    less, more = "examination", "L"
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
    ]


def regret_by(results: pa.Table, prefix: str, policy: str) -> dict[float, FloatArray]:
    """An experiment of the discussion: for each share of users or number of items, the regret of each run."""
    found = curves(results)[policy, "PBM"]
    return {
        float(name.removeprefix(prefix)): found.cumulative[i, :, -1]
        for i, name in enumerate(found.queries)
        if name.startswith(prefix)
    }


def growth(x: Sequence[float], y: Sequence[float]) -> float:
    """The power of x with which y grows: the slope of a line through their logarithms.

    >>> round(growth([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# --- which results a claim is about -------------------------------------------------------------------------


class _Missing(Exception):
    """A policy that a claim is about was not run."""


class _Found:
    """The results of the paper's policies, whatever their further settings."""

    def __init__(self, found: Mapping[tuple[str, str], Curves]) -> None:
        self.found = found

    def batchrank(self, model: str) -> Curves:
        """The version behind the paper's figures; if that was not run, the first there is."""
        return self._first(model, "batchrank:variant=experiment", "batchrank")

    def printed(self, model: str) -> Curves:
        if ("batchrank", model) not in self.found:
            raise _Missing(f"batchrank was not run on {model}")
        return self.found["batchrank", model]

    def cascade(self, model: str) -> Curves:
        return self._first(model, "cascade-kl-ucb")

    def exp3(self, model: str) -> Curves:
        return self._first(model, "ranked-exp3")

    def models(self) -> list[str]:
        return list(dict.fromkeys(model for _, model in self.found))

    def _first(self, model: str, *names: str) -> Curves:
        found = first_of(self.found, model, *names)
        if found is None:
            raise _Missing(f"{names[0].partition(':')[0]} was not run on {model}")
        return found


def _claim(text: str, rule: Callable[[], Verdict], steps: int = PAPER_STEPS) -> Claim:
    """What a rule comes to; results of fewer steps than the paper's cannot contradict it."""
    try:
        measured, holds, why = rule()
    except _Missing as missing:
        return Claim(text, "", None, str(missing))
    if holds is False and steps < PAPER_STEPS:
        return Claim(text, measured, None, f"{why}; the paper's is at T = {_steps(PAPER_STEPS)}")
    return Claim(text, measured, holds, why)


# --- rules --------------------------------------------------------------------------------------------------


def _always_below(low: Curves, high: Curves) -> Verdict:
    mine, other = low.cumulative.mean(axis=(0, 1)), high.cumulative.mean(axis=(0, 1))
    below = mine < other
    at_end = f"{mine[-1]:,.0f} against {other[-1]:,.0f} at T = {_steps(low.steps[-1])}"
    measured = f"at {below.sum()} of {len(below)} points in time; {at_end}"
    why = "" if below.all() else f"not at T = {', '.join(map(_steps, low.steps[~below][:3]))}"
    return measured, bool(below.all()), why


def _crossing(late: Curves, early: Curves) -> Verdict:
    """From when on the regret a step, averaged over queries and runs, is less in every window."""
    above = np.flatnonzero(late.mean >= early.mean)
    crossing = int(late.steps[above[-1]]) if len(above) else 0
    end = int(late.steps[-1])
    if crossing == end:
        measured = f"not by T = {_steps(end)}: {late.mean[-1]:.1e} against {early.mean[-1]:.1e} a step"
    else:
        measured = f"at T = {_steps(crossing)}"
    if end < 2 * CROSSING:
        return (
            measured,
            None,
            f"T = {_steps(end)} is too short: it takes {_steps(2 * CROSSING)} steps to tell",
        )
    holds = CROSSING / 2 <= crossing <= 2 * CROSSING and crossing < end
    return measured, holds, "" if holds else f"expected {_steps(CROSSING // 2)} to {_steps(2 * CROSSING)}"


def _flattens(policy: Curves) -> Verdict:
    share = policy.steps / policy.steps[-1]
    before = float(policy.mean[(share > 0.3) & (share <= 0.5)].mean())
    last = float(policy.mean[share > 0.8].mean())
    measured = f"{before:.1e} a step before T / 2, {last:.1e} in the last fifth"
    holds = last >= FLAT * before > 0
    return measured, holds, "" if holds else f"it keeps falling, to {last / max(before, _TINY):.0%}"


def _many_large(policy: Curves) -> Verdict:
    low, high = LARGE_SHARE / 2, 2 * LARGE_SHARE
    return _large(policy, low, high, f"expected {low:.0%} to {high:.0%}")


def _few_large(policy: Curves, other: Curves) -> Verdict:
    most = _large_share(other) / 2
    return _large(policy, 0, most, f"expected at most {most:.1%}, half of CascadeKL-UCB's")


def _large(policy: Curves, low: float, high: float, expected: str) -> Verdict:
    """Whether the share of runs that end with a large regret a step is between these."""
    share, end = _large_share(policy), int(policy.steps[-1])
    measured = f"{share:.1%} of {policy.regret[:, :, -1].size:,} runs"
    if end < PAPER_STEPS:
        return measured, None, f"the paper's is at T = {_steps(PAPER_STEPS)}, this at {_steps(end)}"
    return measured, low <= share <= high, "" if low <= share <= high else expected


def _below_everywhere(found: _Found) -> Verdict:
    mine, other = (
        np.concatenate([of(model).cumulative[:, :, -1].mean(axis=1) for model in found.models()])
        for of in (found.batchrank, found.exp3)
    )
    lost = int((mine >= other).sum())
    measured = f"in {len(mine) - lost:,} of {len(mine):,}; {(mine / np.maximum(other, _TINY)).max():.0%} of it at most"
    return measured, lost == 0, "" if lost == 0 else f"more in {lost:,}"


def _below_bound(found: _Found, queries: Sequence[Query], positions: int) -> Verdict:
    """The theorem is about models that keep its assumptions: the CM, and the PBM if examination never increases."""
    shares = []
    by_name = {query.query: query for query in queries}
    for model in found.models():
        printed = found.printed(model)
        for query, regret in zip(printed.queries, printed.cumulative[:, :, -1].mean(axis=1), strict=True):
            users = by_name[query].model(model)
            bound = regret_bound(users, positions, int(printed.steps[-1]))
            if np.isfinite(bound) and _keeps_assumptions(users, positions):
                shares.append(float(regret) / bound)
    if not shares:
        return "", None, "no click model here keeps the assumptions of the theorem"
    worst = max(*shares, _TINY)
    measured = f"the bound is at least {1 / worst:,.0f} times the regret, in {len(shares):,} experiments"
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
