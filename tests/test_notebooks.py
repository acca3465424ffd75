"""The notebooks run from top to bottom, are kept without outputs, and their pages show them as they are."""

import json
import re

import pytest
from docs import notebooks

import clickbandit
from clickbandit.live import algorithm
from live.conftest import specialise_plainly

SMALL = {
    "live": {"visits": 40, "trial": 20},
    "my-log": {"sessions": 700},
    "my-policy": {"steps": 40, "runs": 2},
    "reproduce": {"sessions": 3_000, "n_queries": 2, "steps": 40, "runs": 2},
}


def test_there_are_four_notebooks_each_with_its_page():
    assert notebooks.names() == sorted(SMALL) == sorted(path.stem for path in notebooks.PAGES.glob("*.md"))


@pytest.mark.parametrize("name", SMALL)
def test_a_notebook_runs_and_draws(name, monkeypatch):
    monkeypatch.setattr(algorithm, "specialise", specialise_plainly)
    monkeypatch.setattr(
        clickbandit, "kernel", lambda function: function
    )  # compiled elsewhere, by the example
    outputs = list(notebooks.execute(name, notebooks.read(name), SMALL[name]))
    assert sum(output.chart is not None for output in outputs) >= 2
    assert any(output.text for output in outputs)


@pytest.mark.parametrize("name", SMALL)
def test_a_notebook_is_kept_without_outputs_and_its_page_is_of_it(name):
    text = (notebooks.NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []
    page = (notebooks.PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert re.findall(r"```python\n(.*?)\n```", page, re.S) == ["".join(cell["source"]) for cell in code]
    figures = re.findall(r"\]\(figures/(.*?)\)", page)
    assert len(figures) >= 2
    assert all((notebooks.PAGES / "figures" / figure).exists() for figure in figures)


def test_a_size_that_a_notebook_does_not_have_is_refused():
    cells = [notebooks.Cell("code", "steps = 1", ("parameters",))]
    with pytest.raises(ValueError, match="must have the parameters"):
        list(notebooks.execute("mine", cells, {"runs": 2}))


def test_an_error_names_its_cell():
    with pytest.raises(ZeroDivisionError) as error:
        list(notebooks.execute("mine", [notebooks.Cell("code", "1 / 0")]))
    assert str(error.traceback[-1].path) == "<mine, cell 0>"
