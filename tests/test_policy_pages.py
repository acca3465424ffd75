"""Every policy has a page that says what it is and when to use it, and what is generated there is up to date."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numba
import numpy as np
import pytest
from docs import build

from clickbandit.policies.base import policy_class, policy_names
from clickbandit.queries import load_queries
from clickbandit.simulation.run import Problem, Run
from naive.recorded import Recorded

RESULTS = json.loads(build.RESULTS.read_text())
MEASURED = [name for name in policy_names() if name != "optimal"]
LINES = [(policy, model) for model in build.models_of(RESULTS) for policy in RESULTS["curves"][model]]
STALE = "run: python -m docs.build --run FOLDER"


def text(name: str) -> str:
    return (build.PAGES / f"{name}.md").read_text()


@pytest.mark.parametrize("name", policy_names())
def test_what_is_generated_is_up_to_date(name: str) -> None:
    assert build.page(name, text(name), RESULTS) == text(name), "run: python -m docs.build"


@pytest.mark.parametrize("name", policy_names())
def test_the_rest_is_written(name: str) -> None:
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |^<!--)", text(name), flags=re.M | re.S))
    assert [heading for heading in sections if heading in build.HEADINGS] == list(build.HEADINGS)
    for heading in build.HEADINGS:
        assert sections[heading].strip(), f"{name}: write what stands under {heading}"


def test_the_results_are_of_these_policies_and_problems() -> None:
    assert RESULTS["conditions"] == build.conditions(), STALE
    for environment in build.ENVIRONMENTS:
        measured = {(place["policy"], place["model"]) for place in RESULTS[environment]}
        assert measured == set(LINES)
    assert all(RESULTS[name] != RESULTS["still"] for name in build.ENVIRONMENTS if name != "still")


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="compilation is off: it would take too long")
@pytest.mark.parametrize(("policy", "model"), LINES)
def test_the_results_are_those_of_the_policies_as_they_are(policy: str, model: str) -> None:
    """The first point of each line is about that of as many runs today.

    Not exactly: users and policies may come to draw other random numbers for the same purpose. By these the mean of so
    many runs differs by 22% (GRAB's in the CM) or less, one standard deviation.
    """
    step, runs = RESULTS["curves"]["steps"][0], build.ENVIRONMENTS["still"][1]
    size: dict[str, int] = {"positions": build.POSITIONS, "horizon": build.STEPS}
    found = []
    for query in load_queries(build.DOCS.parent / "examples" / "queries.json"):
        users = Recorded(query.model(model))
        problem = Problem(policy, users, query=query.query, **size, method="step")
        found += [Run(problem, seed=build.SEED, run=number).advance(step)[0] for number in range(runs)]
    recorded = RESULTS["curves"][model][policy][0]
    assert 0.5 * recorded < np.mean(found) < 1.5 * recorded, STALE


@pytest.mark.parametrize("path", [build.PAGES / "README.md", build.DOCS / "which-policy.md"])
def test_the_index_and_the_guide_are_up_to_date(path: Path) -> None:
    assert build.texts(RESULTS)[path] == path.read_text(), "run: python -m docs.build"


def test_there_is_no_page_of_a_policy_that_is_gone() -> None:
    found = {path.stem for path in build.PAGES.glob("*.md")} - {"README"}
    assert found == set(policy_names())


@pytest.mark.parametrize("name", [*MEASURED, "all-CM", "all-PBM"])
def test_figures_are_of_these_results_small_and_can_be_read_in_the_dark(name: str) -> None:
    svg = (build.FIGURES / f"{name}.svg").read_text()
    assert build.mark(RESULTS) in svg, "run: python -m docs.build"
    assert len(svg.encode()) < 24_000
    root = ElementTree.fromstring(svg)
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert "step" in texts
    assert "prefers-color-scheme:dark" in svg


@pytest.mark.parametrize("path", sorted(build.DOCS.rglob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if "://" not in link:
            assert (path.parent / link.partition("#")[0]).exists(), link


def test_a_stale_page_is_found() -> None:
    page = text("batchrank")
    assert (
        build.page("batchrank", page.replace("| `eliminate` | `true`", "| `eliminate` | `false`"), RESULTS)
        == page
    )
    assert "| `eliminate` | `true` (or `false`) |" in page


def test_settings_of_a_base_class_are_known() -> None:
    assert set(build.field_docs(policy_class("pbm-ucb"))) >= {"examination", "epsilon"}
