"""The report of a comparison: who is best, policies by click models, regret over time, and leaderboards."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clickbandit.experiments.comparison import YARDSTICKS
from clickbandit.experiments.results import Results
from clickbandit.queries import AGAINST, Against
from clickbandit.report.charts import Row, by_model
from clickbandit.report.many import (
    heat,
    heat_panel,
    label_width,
    live_totals,
    times_text,
    total_curves,
    totals_panel,
)
from clickbandit.report.page import (
    Html,
    element,
    figure,
    policy_cell,
    settings_table,
    table,
    write_page,
)
from clickbandit.report.printing import PAGE, save_figure
from clickbandit.report.standings import NEAR_BEST, Place, Standing, places, standings, verdict
from clickbandit.report.statistics import LEAPT
from clickbandit.report.styles import Look, looks, plain
from clickbandit.report.tables import (
    MORE,
    TAIL_NAME,
    difference_text,
    notes,
    print_notes,
    results_as_data,
    span,
)
from clickbandit.terminal import print_table, say
from clickbandit.wording import counted

_TITLE = "clickbandit: a comparison of policies"
_HEIGHT = 440
_PRINTED_SIZE, _PRINTED_ROW = 8.5, 11  # of labels in print, in pixels


def print_comparison(results: Results) -> None:
    """Leaderboards and who is best, in the terminal."""
    settings = results.manifest["settings"]
    found = _places(results)
    overall = standings(found)
    for model in _models(found):
        print(f"\n{model}")
        print_table(
            leaderboard([place for place in found if place.model == model], results.ns_a_step, settings),
            keys=2,
        )
    print_notes(*_noted(results))
    if settings["leaping"]:
        print("* leaps: many steps are taken at once where nothing can change")
    if settings["told more"]:
        print("† is told more of the users than their clicks")
    if len(_models(found)) > 1 and overall:
        print("\nOver all click models, in times the least regret on each")
        print_table(
            _standing_rows(overall, lambda times: "-" if times is None else times_text(times)), keys=2
        )
    for sentence in verdict(overall):
        say(sentence)


def comparison_as_data(results: Results) -> dict[str, Any]:
    """The same as data, for JSON."""
    overall = standings(_places(results))
    ranks = [
        {
            "policy": one.policy,
            "rank": one.rank,
            "times_the_least": one.mean if math.isfinite(one.mean) else None,
            "worst": one.worst if math.isfinite(one.worst) else None,
            "worst_model": one.worst_model,
        }
        for one in overall
    ]
    return {
        "results": results_as_data(results.table),
        "overall": ranks,
        "verdict": list(verdict(overall)),
    }


def write_comparison(folder: Path, results: Results) -> list[Path]:
    """Write the report of these results into a folder: `report.html`, and each figure as SVG, PDF and PNG."""
    settings = results.manifest["settings"]
    look = plain(looks(results.table["policy"].unique().to_pylist()))
    found = _places(results)
    overall = standings(found)
    curves = by_model(total_curves(results.table))
    in_order = {model: curves[model] for model in _models(found)}
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "report.html"
    write_page(
        page,
        _TITLE,
        [
            _what_was_run(results),
            *_verdict(overall, look, settings),
            *(_heat_map(overall, look) if overall else ()),
            element("h2", "Regret over time"),
            _curves(in_order, look),
            element("h2", "Leaderboards"),
            *_leaderboards(found, look, results),
            element("h2", "How it was made"),
            settings_table({**settings, "versions": results.manifest["versions"]}),
        ],
    )
    height = max(150, _PRINTED_ROW * len(look))
    printed = {
        model: totals_panel(rows, look, model, height=height, size=_PRINTED_SIZE)
        for model, rows in in_order.items()
    }
    written = save_figure(
        folder / "regret",
        list(printed.values()),
        across=min(2, len(printed)),
        inches=PAGE,
        height=height,
        labels=label_width(look, _PRINTED_SIZE),
    )
    if overall:
        size = {"inches": PAGE, "height": 16 * len(overall)}
        written += save_figure(folder / "heat-map", [heat_panel(overall, look)], across=1, **size)
    return [page, *written]


_Parts = Iterator[Html]


def _places(results: Results) -> list[Place]:
    settings = results.manifest["settings"]
    return places(
        results.table,
        results.queries,
        settings["positions"],
        against=settings.get("against", "clicks"),
        yardsticks=YARDSTICKS,
        told=settings["told more"],
    )


def _noted(results: Results) -> tuple[Against, Sequence[int], int]:
    """What regret is against, and how many runs ended early, of all."""
    runs = results.manifest["units"]["number"] if results.settled else 0
    return results.manifest["settings"].get("against", "clicks"), results.settled, runs


def _models(found: Sequence[Place]) -> list[str]:
    return list(dict.fromkeys(place.model for place in found))


# --- the summary --------------------------------------------------------------------------------------------


def _what_was_run(results: Results) -> Html:
    settings, queries = results.manifest["settings"], results.queries
    policies, models, runs = (results.table[name].unique().to_pylist() for name in ("policy", "model", "run"))
    items = sorted({len(query.items) for query in queries})
    number = f"{items[0]}" if len(items) == 1 else f"{items[0]} to {items[-1]}"
    text = (
        f"{counted(len(policies), 'policy', 'policies')} on {counted(len(models), 'click model')} "
        f"({', '.join(models)}) of {counted(len(queries), 'query', 'queries')}: {number} items for "
        f"{counted(settings['positions'], 'position')}, {counted(len(runs), 'run')} of {settings['steps']:,} steps. "
        f"Regret is against {AGAINST[_noted(results)[0]]}."
    )
    return element("p", text, *(f" {sentence}." for sentence in environment(settings)), class_="lead")


def environment(settings: Mapping[str, Any]) -> list[str]:
    """In sentences, what makes these users harder to learn from than those of the click model."""
    told = []
    if settings.get("drift"):
        told.append(
            f"The users' taste changes after step {', '.join(f'{step:,}' for step in settings['drift'])}"
        )
    if settings.get("delay"):
        told.append(f"Feedback is {counted(settings['delay'], 'step')} late")
    if settings.get("flip"):
        told.append(
            f"Of what is seen, {settings['flip']:.2%} is inverted: clicks are missing, and there are false ones"
        )
    return told


def _verdict(overall: Sequence[Standing], look: Mapping[str, Look], settings: Mapping[str, Any]) -> _Parts:
    sentences = verdict([standing._replace(policy=look[standing.policy].name) for standing in overall])
    yield element("ul", *(element("li", f"{sentence}.") for sentence in sentences), class_="verdict")
    if settings["left out"]:
        yield element("p", f"Left out: {'; '.join(settings['left out'])}.", class_="note")


# --- the sections -------------------------------------------------------------------------------------------


def _heat_map(overall: Sequence[Standing], look: Mapping[str, Look]) -> _Parts:
    rows = [{**row, "policy": policy_cell(row["policy"], look)} for row in _standing_rows(overall, _cell)]
    yield element("h2", "Policies by click models")
    yield element("div", table(rows), class_="heat")
    text = (
        "How many times the least regret on each click model, which is that of the best policy that is told nothing of "
        "the users but their clicks."
    )
    if len(rows[0]) > 3:
        text += (
            " Overall is the geometric mean over the models, the worst case the largest; the rank is by the former. "
            "What was not run on every model has neither."
        )
    yield element("p", text, " For print: ", Html(_files("heat-map")), ".", class_="note")


def _standing_rows(overall: Sequence[Standing], shown: Callable[[float | None], str]) -> list[dict[str, str]]:
    """The standings as rows of a table; over a single model there is nothing to sum up."""
    models = list(dict.fromkeys(model for standing in overall for model in standing.times))
    rows = []
    for standing in overall:
        numbers = {model: standing.times.get(model) for model in models}
        if len(models) > 1:
            everywhere = len(standing.times) == len(models)
            numbers["overall"] = standing.mean if everywhere else None
            numbers["worst case"] = standing.worst if everywhere else None
        cells = {name: shown(times) for name, times in numbers.items()}
        rows.append({"rank": _rank(standing.rank), "policy": standing.policy, **cells})
    return rows


def _cell(times: float | None) -> Html:
    """A number of the heat map."""
    if times is None:
        return element("span", "-")
    return element("span", times_text(times), class_="hot", style=f"--heat: {heat(times):.2f}")


def _rank(rank: int | None) -> str:
    return "-" if rank is None else str(rank)


def _files(name: str) -> str:
    return ", ".join(element("a", kind.upper(), href=f"{name}.{kind}") for kind in ("svg", "pdf", "png"))


def _curves(rows_by_model: Mapping[str, Sequence[Row]], look: Mapping[str, Look]) -> Html:
    panels = {
        f"regret-{model}": live_totals(totals_panel(rows, look, model, height=_HEIGHT))
        for model, rows in rows_by_model.items()
    }
    caption = element(
        "span",
        f"The expected regret of all steps so far, averaged over queries. {LEAPT} Point at a line or at a name to see "
        "it alone, click a name to hide it. For print: ",
        Html(_files("regret")),
        ".",
    )
    return figure(panels, caption, look=look, height=_HEIGHT)


def _leaderboards(found: Sequence[Place], look: Mapping[str, Look], results: Results) -> _Parts:
    settings, noted = results.manifest["settings"], _noted(results)
    yield element(
        "p",
        "Regret is over all steps, averaged over queries, with 95% intervals over runs. ",
        *(f"{note}. " for note in notes(*noted)),
    )
    yield element(
        "p",
        f"A run ends near the best list if it loses at most {NEAR_BEST:.0%} of the best reward in its last window. "
        "The time per step is that on one core of the machine that ran it, and differs each time; policies that leap "
        "(*) take many steps at once where nothing can change. Policies marked † are told more about the users "
        "than clicks.",
    )
    for number, model in enumerate(_models(found)):
        mine = [place for place in found if place.model == model]
        best = ", ".join(look[place.policy].name for place in mine[:3])
        rows = []
        for row, place in zip(leaderboard(mine, results.ns_a_step, settings), mine, strict=True):
            name = element("span", policy_cell(place.policy, look), _marks(place.policy, settings))
            rows.append({**row, "policy": name})
        opened = {"open": "open"} if number == 0 else {}
        summary = element("summary", element("b", model), f": {best}{', ...' if len(mine) > 3 else ''}")
        yield element("details", summary, table(rows), **opened)


def _marks(policy: str, settings: Mapping[str, Any]) -> str:
    return "†" * (policy in settings["told more"])


def leaderboard(
    found: Sequence[Place], ns_a_step: Mapping[tuple[str, str], float], settings: Mapping[str, Any]
) -> list[dict[str, str]]:
    """The places on a model as rows of a table, in the terminal and on the page."""
    return [
        {
            "rank": _rank(place.rank),
            "policy": place.policy + _marks(place.policy, settings),
            "regret": f"{place.regret.mean:,.0f}",
            "95% interval": span(place.regret) if place.runs > 1 else "-",
            MORE: difference_text(place.more),
            "times the least": times_text(place.times),
            TAIL_NAME: f"{place.tail:,.0f}",
            "losing": f"{place.losing:.0%}",
            "near the best list": f"{place.near:.0%}",
            "ns per step": _ns(ns_a_step[place.model, place.policy])
            + "*" * (place.policy in settings["leaping"]),
        }
        for place in found
    ]


def _ns(time: float) -> str:
    return f"{time:,.0f}" if time >= 9.5 else f"{time:.2g}"
