"""Results as tables in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from clickbandit.extras import pa
from clickbandit.intervals import Interval
from clickbandit.queries import AGAINST, Against
from clickbandit.report.claims import Claim
from clickbandit.report.statistics import Total, a_step, beyond_the_least, distinguishable, totals, units
from clickbandit.simulation.outcome import LOSING
from clickbandit.terminal import print_table, say
from clickbandit.wording import counted


def print_results(table: pa.Table, ns_a_step: Mapping[tuple[str, str], float] | None = None) -> None:
    """The results of a simulation, and what a step took."""
    rows = total_rows(totals(table))
    if ns_a_step:
        rows = [row | {"ns/step": f"{ns_a_step[row['model'], row['policy']]:,.1f}"} for row in rows]
    print_table(rows, keys=2)


def total_rows(found: Sequence[Total]) -> list[dict[str, str]]:
    """Totals as rows of a table: means over queries, with 95% intervals over runs."""
    more = beyond_the_least(found)
    return [
        {
            "model": total.model,
            "policy": total.policy,
            "regret": f"{total.regret.mean:,.0f}",
            "95% interval": span(total.regret) if total.runs > 1 else "-",
            MORE: difference_text(more[total.model, total.policy]),
            TAIL_NAME: f"{total.tail:,.0f}",
            "losing": f"{total.losing / len(total.regrets):.0%}",
            "last regret/step": a_step(total.last_regret.mean),
            "clicks/step": f"{total.clicks.mean:.4f}",
        }
        for total in found
    ]


def results_as_data(table: pa.Table) -> list[dict[str, Any]]:
    """The same numbers as data, for JSON."""
    found = totals(table)
    more = beyond_the_least(found)
    return [
        {
            "model": total.model,
            "policy": total.policy,
            "runs": total.runs,
            "regret": total.regret._asdict(),
            "more_than_the_least": difference._asdict()
            if (difference := more[total.model, total.policy])
            else None,
            "tail": float(total.tail),
            "losing": total.losing / len(total.regrets),
            "last_regret": total.last_regret._asdict(),
            "clicks": total.clicks._asdict(),
        }
        for total in found
    ]


MORE, TAIL_NAME = "more than the least", "90th percentile"


def notes(against: Against = "clicks", settled: Sequence[int] = (), runs: int = 0) -> list[str]:
    """What readers of tables must know, in sentences: what regret is against, what columns mean that do not say so
    themselves, and how many of all runs ended early because their list was settled, after how many steps."""
    told = [
        f"Regret is against {AGAINST[against]}, in clicks",
        f'"{MORE.capitalize()}": 95% interval of the difference from the lowest regret, on the same users',
        f'"Losing": share of runs with a regret above {LOSING:g} a step in the last tenth of their steps',
    ]
    if settled:
        told.append(
            f"{len(settled):,} of {counted(runs, 'run')} ended early, when their list was settled, after "
            f"{sum(settled) / len(settled):,.0f} steps in the mean: the rest counts as their last tenth did"
        )
    return told


def noted(results: pa.Table, settings: Mapping[str, Any]) -> tuple[Against, Sequence[int], int]:
    """What `notes` needs, of a simulation."""
    return settings.get("against", "clicks"), settings.get("settled", ()), units(results).num_rows


def print_notes(against: Against = "clicks", settled: Sequence[int] = (), runs: int = 0) -> None:
    """The same below a table."""
    for note in notes(against, settled, runs):
        say(note)


def difference_text(difference: Interval | None) -> str:
    """A difference of regrets by its interval.

    >>> difference_text(Interval(50.0, 20.4, 79.6)), difference_text(Interval(5.0, -2.0, 12.0)), difference_text(None)
    ('20 to 80', 'not distinguishable', '-')
    """
    if difference is None:
        return "-"
    return span(difference) if distinguishable(difference) else "not distinguishable"


def print_claims(claims: Sequence[Claim]) -> None:
    """What the paper claims, what was measured, and whether the claim holds."""
    print_table(
        [
            {
                "about": claim.about,
                "the paper says": claim.text,
                "measured here": claim.measured or "-",
                "holds": {True: "yes", False: f"no: {claim.why}", None: f"not shown: {claim.why}"}[
                    claim.holds
                ],
            }
            for claim in claims
        ]
    )


def span(interval: Interval) -> str:
    """An interval of large numbers.

    >>> span(Interval(1500.0, 1000.4, 1999.6))
    '1,000 to 2,000'
    """
    return f"{interval.low:,.0f} to {interval.high:,.0f}"
