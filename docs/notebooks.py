"""Runs the notebooks in `examples` and writes what they show as pages of the site: `python -m docs.notebooks`.

A notebook is kept without outputs. Its cells are run here one after the other, without Jupyter: what is printed, and
the chart or the value that a cell ends with, is its output. A cell with the tag `parameters` says how large everything
is; the tests run notebooks with smaller numbers.
"""

import argparse
import ast
import contextlib
import io
import json
import linecache
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from docs.figures import draw

from clickbandit.report.charts import Chart

PROJECT = Path(__file__).parents[1]
NOTEBOOKS, PAGES = PROJECT / "examples", PROJECT / "docs" / "notebooks"
ABOUT = "*This page shows the notebook [{name}]({path}), run by `python -m docs.notebooks`.*"


class Cell(NamedTuple):
    """A cell of a notebook."""

    kind: str
    text: str
    tags: tuple[str, ...] = ()


class Output(NamedTuple):
    """What a cell showed."""

    text: str
    chart: dict[str, Any] | None


def names() -> list[str]:
    """All notebooks."""
    return sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def read(name: str) -> list[Cell]:
    """The cells of a notebook."""
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [
        Cell(cell["cell_type"], "".join(cell["source"]), tuple(cell["metadata"].get("tags", ())))
        for cell in notebook["cells"]
    ]


def execute(name: str, cells: Iterable[Cell], sizes: Mapping[str, int] | None = None) -> Iterator[Output]:
    """Run a notebook from top to bottom, with other parameters if they are given; what each of its code cells shows."""
    program = ModuleType("__main__")  # as in Jupyter, where it has no file
    space = vars(program)
    for number, cell in enumerate(cells):
        if cell.kind != "code":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed, _main(program):
            shown = _run(cell.text, f"<{name}, cell {number}>", space)
        if "parameters" in cell.tags and sizes:
            unknown = set(sizes) - set(space)
            if unknown:
                raise ValueError(f"{name} must have the parameters {unknown}: name those that it has")
            space |= sizes
        chart = shown.spec if isinstance(shown, Chart) else None
        text = printed.getvalue() + ("" if shown is None or chart else f"{shown!r}\n")
        yield Output(text, chart)


@contextlib.contextmanager
def _main(program: ModuleType) -> Iterator[None]:
    """Whoever looks for the program that is run finds this one."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = program
    try:
        yield
    finally:
        sys.modules["__main__"] = before


def _run(text: str, place: str, space: dict[str, Any]) -> object:
    """Run a cell; the value of the expression that it ends with, if it does."""
    lines = text.splitlines(keepends=True)
    linecache.cache[place] = len(text), None, lines, place  # for whoever looks for a function's text
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, place, "exec"), space)
    return eval(compile(ast.Expression(last.value), place, "eval"), space) if last else None


def page(name: str, cells: Iterable[Cell], outputs: Iterator[Output]) -> tuple[str, dict[str, str]]:
    """A notebook with what its cells showed, as Markdown, and its figures by their names."""
    parts, figures = [], {}
    for cell in cells:
        if cell.kind == "markdown":
            parts.append(_moved(cell.text))
            if len(parts) == 1:
                parts.append(ABOUT.format(name=f"{name}.ipynb", path=f"../../examples/{name}.ipynb"))
            continue
        parts.append(f"```python\n{cell.text}\n```")
        output = next(outputs)
        if output.text.strip():
            folder = re.compile(re.escape(tempfile.gettempdir()) + r"/\w+/")  # another name each time
            text = "\n".join(folder.sub("", line).rstrip() for line in output.text.strip("\n").splitlines())
            parts.append(f"```text\n{text}\n```")
        if output.chart:
            figure = f"{name}-{len(figures) + 1}.svg"
            config = {"legend": {}, **output.chart.get("config", {})}
            figures[figure] = draw({**output.chart, "config": config})
            title = (
                next(line for line in reversed(parts) if line.startswith("#")).splitlines()[0].lstrip("# ")
            )
            parts.append(f"![{title}](figures/{figure})")
    return "\n\n".join(parts) + "\n", figures


def _moved(text: str) -> str:
    """Links of a notebook, as its page has them."""
    return text.replace("](my_policy.py)", "](../../examples/my_policy.py)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.notebooks", description="Run the notebooks.")
    parser.add_argument("name", nargs="*", help=f"of {', '.join(names())}; all if none is given")
    os.environ["COLUMNS"] = "100"
    (PAGES / "figures").mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().name or names():
        cells = read(name)
        text, figures = page(name, cells, execute(name, cells))
        (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
        for figure, svg in figures.items():
            (PAGES / "figures" / figure).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
