"""Every policy has a page that says what it is and when to use it, and what is generated is up to date."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numba
import numpy as np
import pytest
from docs import build, results

from clickbandit.queries import load_queries
from clickbandit.simulation.run import Problem, Run
from naive.recorded import Recorded

NAMES = results.built_in()
EVERYONE = results.load()
LINES = [(row["policy"], row["model"], row["curve"][0]) for row in results.rows(EVERYONE)]
FIGURES = build.figures(EVERYONE)
TEXTS = build.texts(EVERYONE)
STALE = "run: python -m docs.build"


def text(name: str) -> str:
    return (build.PAGES / f"{name}.md").read_text()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_what_is_generated_is_up_to_date(path: Path) -> None:
    assert path.exists(), STALE
    assert path.read_text() == TEXTS[path], STALE


@pytest.mark.parametrize("name", NAMES)
def test_the_rest_is_written(name: str) -> None:
    """All sections are written by hand, or none of them and the module's docstring says what the policy does."""
    by_hand = text(name).partition(build.BEGIN)[0]
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", by_hand, flags=re.M | re.S))
    assert [heading for heading in sections if heading in build.HEADINGS] == list(
        build.HEADINGS if sections else ()
    )
    for heading in sections:
        assert sections[heading].strip(), f"{name}: write what stands under {heading}"
    assert len(build.paragraphs(build.policy_class(name))) > 1, (
        f"{name}: its module's docstring must say what it does"
    )


@pytest.mark.parametrize("name", EVERYONE)
def test_the_results_are_of_these_policies_and_problems(name: str) -> None:
    mine = EVERYONE[name]
    assert mine["conditions"] == results.conditions(), f"{STALE} --run {name}"
    assert {row["policy"] for row in mine["rows"]} == set(results.variants(name)), f"{STALE} --run {name}"
    for row in mine["rows"]:
        found = [row[environment]["regret"] for environment in results.ENVIRONMENTS]
        assert all(other != found[0] for other in found[1:])


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="compilation is off: it would take too long")
@pytest.mark.parametrize(("policy", "model", "recorded"), LINES)
def test_the_results_are_those_of_the_policies_as_they_are(policy: str, model: str, recorded: float) -> None:
    """The first point of each curve is about that of as many runs today.

    Not exactly: users and policies may come to draw other random numbers for the same purpose. Because of these the
    mean of that many runs has a standard deviation of at most 22% (GRAB's in the CM).
    """
    name = policy.partition(":")[0]
    step, runs = EVERYONE[name]["steps"][0], results.ENVIRONMENTS["still"][1]
    size: dict[str, int] = {"positions": results.POSITIONS, "horizon": results.STEPS}
    found = []
    for query in load_queries(results.QUERIES):
        problem = Problem(policy, Recorded(query.model(model)), query=query.query, **size, method="step")
        found += [Run(problem, seed=results.SEED, run=number).advance(step)[0] for number in range(runs)]
    assert 0.5 * recorded < np.mean(found) < 1.5 * recorded, f"{STALE} --run {name}"


def test_no_page_result_or_figure_is_of_a_policy_that_is_gone() -> None:
    assert {path.stem for path in build.PAGES.glob("*.md")} - {"README"} == set(NAMES)
    assert {path.stem for path in results.RESULTS.glob("*.json")} == set(EVERYONE)
    assert set(build.FIGURES.glob("*.svg")) == set(FIGURES)


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_figures_are_of_these_results_small_and_can_be_read_in_the_dark(path: Path) -> None:
    svg = path.read_text()
    assert build.mark(FIGURES[path]) in svg, STALE
    assert len(svg.encode()) < 24_000
    root = ElementTree.fromstring(svg)
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert "step" in texts
    assert "prefers-color-scheme:dark" in svg


def test_a_policy_changes_no_others_page_or_figure() -> None:
    """Those that every figure has in grey apart."""
    fewer = {name: mine for name, mine in EVERYONE.items() if name != "cts"}
    assert build.page("toprank", text("toprank"), fewer) == text("toprank")
    assert build.figures(fewer)[build.FIGURES / "toprank.svg"] == FIGURES[build.FIGURES / "toprank.svg"]


def test_a_policy_that_is_not_measured_has_a_page_without_measurements() -> None:
    page = build.page("cts", "", {})
    assert page.startswith("# CTS\n\n<!-- generated")
    assert re.findall("^## (.*)$", page, flags=re.M) == ["Idea", "Paper", "Settings"]


@pytest.mark.parametrize("path", sorted(build.DOCS.rglob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if "://" not in link:
            assert (path.parent / link.partition("#")[0]).exists(), link


def test_a_stale_page_is_found() -> None:
    page = text("batchrank")
    assert "| `eliminate` | `true` (or `false`) |" in page
    stale = page.replace("| `eliminate` | `true`", "| `eliminate` | `false`")
    assert build.page("batchrank", stale, EVERYONE) == page


def test_public_names_come_from_the_classes() -> None:
    listed = build.STUB.read_text()
    gone = "from clickbandit.policies.gone import Gone as Gone\n"
    line = "from clickbandit.policies.cts import CTS as CTS\n"
    assert line in listed
    assert build.stub(listed.replace(line, gone)) == listed


def test_code_of_a_page_is_that_of_the_files() -> None:
    page = text("batchrank")
    stale = page.replace("def display_batch(", "def show_batch(")
    assert stale != page
    assert build.page("batchrank", stale, EVERYONE) == page
    with pytest.raises(
        ValueError, match=r"examples/my_policy.py must define nothing, which a page of the docs shows"
    ):
        build.source("examples/my_policy.py:nothing")


def test_settings_of_a_base_class_are_known() -> None:
    assert set(build.field_docs(build.policy_class("pbm-ucb"))) >= {"examination", "epsilon"}
