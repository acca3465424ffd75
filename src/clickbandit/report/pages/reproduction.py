"""The report of a reproduction of the paper's experiments: a page, and its figures for print.

Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvári, Wen: Online Learning to Rank in Stochastic Click Models (ICML 2017),
sections 5.4 and 6.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickbandit.extras import pa
from clickbandit.queries import Query
from clickbandit.report import paper
from clickbandit.report.charts import (
    END_TOOLTIP,
    LEGEND,
    LINES_LEGEND,
    REGRET_TOOLTIP,
    Spec,
    Tooltip,
    by_model,
    live,
)
from clickbandit.report.claims import (
    BOTH,
    CROSSING,
    DISCUSSION,
    LARGE,
    PAPER_STEPS,
    Claim,
    bounds,
    discussion_claims,
    paper_claims,
)
from clickbandit.report.page import Html, element, figure, settings_table, table, write_page
from clickbandit.report.pages.simulation import totals_table
from clickbandit.report.printing import COLUMN, PAGE, save_figure
from clickbandit.report.statistics import LEAPT, Found, a_step, curves
from clickbandit.report.styles import Look, looks, plain
from clickbandit.wording import counted

PAPER_QUERIES, PAPER_RUNS = 60, 10
_PAPER = "Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvári, Wen; ICML 2017"
_TITLE = "Stochastic click models: the paper's experiments, run again"
_ABOUT = {
    "CM": "In the cascade model (CM)",
    "PBM": "In the position-based model (PBM)",
    BOTH: "In both models",
    DISCUSSION: "In the discussion",
}
_MARKS = {
    True: ("✓", "good", "holds"),
    False: ("✗", "bad", "does not hold"),
    None: ("?", "open", "not shown"),
}


@dataclass(frozen=True)
class _Figure:
    """Panels that go both on the page and into print."""

    name: str
    """Of its files."""
    caption: str
    panels: Mapping[str, tuple[Spec, Tooltip]]
    look: Mapping[str, Look] | None = None
    """Of policies that can be hidden."""
    switch: bool = False
    """Whether the scale can be made linear."""
    across: int = 2
    """How many panels stand side by side."""
    inches: float = COLUMN
    legend: Mapping[str, Any] | None = None

    def html(self) -> Html:
        charts = {name: live(panel, tooltip) for name, (panel, tooltip) in self.panels.items()}
        files = (element("a", kind.upper(), href=f"{self.name}.{kind}") for kind in ("svg", "pdf", "png"))
        caption = element("span", f"{self.caption} For print: ", Html(", ".join(files)), ".")
        return figure(charts, caption, look=self.look, across=self.across, switch=self.switch)

    def save(self, folder: Path) -> list[Path]:
        panels = [panel for panel, _ in self.panels.values()]
        across = min(self.across, len(panels))
        inches = self.inches * across / self.across
        return save_figure(folder / self.name, panels, across=across, inches=inches, legend=self.legend)


def write_reproduction(
    folder: Path,
    results: pa.Table,
    queries: Sequence[Query],
    settings: Mapping[str, Any],
    discussion: pa.Table | None = None,
) -> list[Path]:
    """Write the report of these results into a folder: `report.html`, and each figure as SVG, PDF and PNG.

    `settings` stand at the end of the page; "positions" among them is how many items a list shows, 5 if it is not
    there. `discussion` are the results of the experiments of the paper's discussion.
    """
    positions = int(settings.get("positions", 5))
    found = curves(results)
    look = plain(looks(results["policy"].unique().to_pylist()))
    claims = paper_claims(results, queries, positions)
    claims += discussion_claims(discussion) if discussion is not None else []
    parts = [
        _what_was_run(results, queries, positions),
        element("h2", "What the paper claims"),
        *_claims(claims),
        *_limits(results),
        *_three_queries(results, found, look),
        *_all_queries(results, look),
        *_versions(found),
        *_bound(found, queries, positions),
        *(_discussion(discussion) if discussion is not None else ()),
        element("h2", "How it was made"),
        settings_table(settings),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "report.html"
    write_page(page, _TITLE, [part.html() if isinstance(part, _Figure) else part for part in parts])
    figures = [part for part in parts if isinstance(part, _Figure)]
    return [page, *(path for one in figures for path in one.save(folder))]


_Parts = Iterator[Html | _Figure]


# --- the summary --------------------------------------------------------------------------------------------


def _what_was_run(results: pa.Table, queries: Sequence[Query], positions: int) -> Html:
    policies, models, runs = (results[name].unique().to_pylist() for name in ("policy", "model", "run"))
    shown = set(results["query"].unique().to_pylist())
    items = sorted({len(query.items) for query in queries if query.query in shown})
    number = f"{items[0]}" if len(items) == 1 else f"{items[0]} to {items[-1]}"
    steps = max(results["step"].unique().to_pylist())
    names = {"CM": "cascade model (CM)", "PBM": "position-based model (PBM)"}
    text = (
        f"{counted(len(policies), 'policy', 'policies')} in the {' and the '.join(names.get(m, m) for m in models)} of "
        f"{counted(len(shown), 'query', 'queries')}: {number} items for {counted(positions, 'position')}, "
        f"{counted(len(runs), 'run')} of {steps:,} steps each, as in section 6 of "
    )
    return element(
        "p",
        text,
        element("em", "Online Learning to Rank in Stochastic Click Models"),
        f" ({_PAPER}).",
        class_="lead",
    )


def _claims(claims: Sequence[Claim]) -> _Parts:
    n = {holds: sum(claim.holds is holds for claim in claims) for holds in _MARKS}
    text = f"Of {counted(len(claims), 'claim')}, {n[True]} hold here, {n[False]} do not"
    text += f", and {n[None]} cannot be told from these results." if n[None] else "."
    yield element("p", text)
    groups = []
    for about in dict.fromkeys(claim.about for claim in claims):
        entries = [_entry(claim) for claim in claims if claim.about == about]
        groups.append(element("section", element("h3", _ABOUT.get(about, about)), element("ul", *entries)))
    yield element("div", *groups, class_="claims")


def _entry(claim: Claim) -> Html:
    mark, kind, word = _MARKS[claim.holds]
    details = "; ".join(filter(None, [claim.measured, claim.why]))
    return element(
        "li",
        element("span", mark, class_=f"mark {kind}", title=word, role="img", aria_label=word),
        claim.text[0].upper() + claim.text[1:],
        element("span", details, class_="measured"),
    )


def _limits(results: pa.Table) -> _Parts:
    """What results of this size cannot show."""
    steps = max(results["step"].unique().to_pylist())
    runs, queries = (len(results[name].unique()) for name in ("run", "query"))
    limits = []
    if steps < PAPER_STEPS:
        later = "" if steps > CROSSING else f", nor where policies cross, at about {CROSSING:,}"
        limits.append(
            f"Runs end after {steps:,} steps, the paper's after {PAPER_STEPS:,}: "
            f"what policies are left with in the end is not seen{later}."
        )
    if runs < PAPER_RUNS:
        wide = "there are no intervals" if runs == 1 else "intervals are wide"
        limits.append(f"Each was run {counted(runs, 'time')}, not {PAPER_RUNS}: {wide}.")
    if queries < PAPER_QUERIES:
        limits.append(
            f"There {'is' if queries == 1 else 'are'} {counted(queries, 'query', 'queries')}, not {PAPER_QUERIES}: "
            "averages depend on which they are."
        )
    limits.append("The queries are not those of the paper: its claims can be reproduced, its numbers cannot.")
    yield element("h3", "What these results cannot show")
    yield element("ul", *(element("li", limit) for limit in limits))


# --- the sections -------------------------------------------------------------------------------------------


def _all_queries(results: pa.Table, look: Mapping[str, Look]) -> _Parts:
    yield element("h2", "All queries")
    yield _Figure(
        "figure-2",
        "Figure 2. Above, the expected regret per step (the reward of the best list less that of the list shown), "
        "averaged over queries, with 95% intervals over runs. Below, the share of runs on all queries whose regret a "
        f"step in the last window is at least the value on the x axis; the dotted line is at {LARGE:g}, from which on "
        f"the paper takes a run to be left with a list that is not the best. {LEAPT} Drag to move, pinch or scroll "
        "with Ctrl to zoom, double-click to go back; click a policy to hide it.",
        {
            **_with(REGRET_TOOLTIP, paper.averages(results, look)),
            **_with(END_TOOLTIP, paper.ends(results, look)),
        },
        look=look,
        switch=True,
        across=len(results["model"].unique()),
        legend={**LINES_LEGEND, "columns": 2},
    )
    yield totals_table(results, look)


def _three_queries(results: pa.Table, found: Found, look: Mapping[str, Look]) -> _Parts:
    choices = paper.choose(found)
    if not choices:
        return
    yield element("h2", "Three queries" if len(choices) == 3 else "Single queries")
    rules = "; ".join(
        f"({letter}) in the {choice.model}, {choice.rule}"
        for letter, choice in zip("abc", choices, strict=False)
    )
    yield _Figure(
        "figure-1",
        f"Figure 1. The expected regret per step on single queries, with 95% intervals over runs. Queries are chosen "
        f"by rule: {rules}.",
        _with(REGRET_TOOLTIP, paper.three_queries(results, choices, look)),
        look=look,
        switch=True,
        across=3,
        inches=PAGE,
        legend=LINES_LEGEND,
    )


def _versions(found: Found) -> _Parts:
    rows = paper.variant_rows(found)
    if not rows:
        return
    yield element("h2", "Two versions of BatchRank")
    yield element(
        "p",
        "The paper's figures were not run with the algorithm that it prints, but with one that keeps what it has "
        "learned when nothing is decided, and that cuts a batch in more than one place at once.",
    )
    compared = []
    for model, mine in by_model(rows).items():
        experiment, printed = (sum(row[key] for row in mine) / len(mine) for key in ("experiment", "printed"))
        compared.append(
            {
                "model": model,
                "regret, experiment": f"{experiment:,.0f}",
                "regret, printed": f"{printed:,.0f}",
                "times": f"{printed / experiment:.2f}" if experiment else "-",
                "printed has more on": f"{sum(row['printed'] > row['experiment'] for row in mine)} of {len(mine)}",
            }
        )
    yield table(compared)
    yield _Figure(
        "batchrank-versions",
        "The regret over all steps of BatchRank as the paper's figures were run and as it is printed; each point is a "
        "query, averaged over runs.",
        _with(paper.VARIANT_TOOLTIP, paper.variants(rows)),
    )


def _bound(found: Found, queries: Sequence[Query], positions: int) -> _Parts:
    rows = [one._asdict() for one in bounds(found, queries, positions)]
    finite = [row for row in rows if math.isfinite(row["bound"])]
    if not finite:
        return
    yield element("h2", "Theorem 1")
    share = max(row["regret"] / row["bound"] for row in finite)
    telling = sum(row["bound"] < row["most"] for row in finite)
    least = min(row["bound"] / row["most"] for row in finite)
    text = (
        f"The regret of BatchRank as printed is at most {a_step(share)} of what Theorem 1 allows. The bound is about "
        "how regret grows, not about how large it is: "
    )
    text += (
        f"on {telling} of {counted(len(finite), 'problem')} it is below what a policy loses that never gets a click."
        if telling
        else f"it is at least {least:,.0f} times what a policy loses that never gets a click, so it is vacuous at "
        "this size. The claims above test it on two items, where it is not."
    )
    if len(finite) < len(rows):
        text += f" On {len(rows) - len(finite)} more there is none, as two of the items to be told apart are alike."
    yield element("p", text)
    yield _Figure(
        "bound",
        "For each query the bound of Theorem 1 (triangles), all the reward there is in that many steps (squares), and "
        "the regret of BatchRank as printed, averaged over runs (circles).",
        _with(paper.BOUND_TOOLTIP, paper.bounds(finite)),
        legend={**LEGEND, "columns": 2},
    )


def _discussion(results: pa.Table) -> _Parts:
    yield element("h2", "The discussion, shown")
    yield element(
        "p",
        "The paper's discussion says that KL bounds and the elimination of items are needed. First, two items for one "
        "position, which fewer and fewer users examine: with KL bounds the regret should stay as it is, with Hoeffding "
        "bounds grow as one over their share. Then, more and more items: with elimination regret should grow no faster "
        "than their number, without it as its square.",
    )
    yield _Figure(
        "discussion",
        "The regret over all steps of BatchRank as printed and without one of its parts, with 95% intervals over runs.",
        _with(paper.DISCUSSION_TOOLTIP, paper.discussed(results)),
    )


# --- parts --------------------------------------------------------------------------------------------------


def _with(tooltip: Tooltip, panels: Mapping[str, Spec]) -> dict[str, tuple[Spec, Tooltip]]:
    return {name: (panel, tooltip) for name, panel in panels.items()}
