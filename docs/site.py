"""Builds the documentation's site from the Markdown that there is: `python -m docs.site`, and `--out FOLDER`.

Pages are all Markdown files of `docs` and of the project's folder, and those that `docs.reference` makes from the code.
A new file is found by itself and is a how-to guide unless PLACES says otherwise. Dead links are refused.
"""

import argparse
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from docs import reference

PROJECT = Path(__file__).parents[1]
HOME, DOCS = "index.md", "docs"
SECTIONS = ("Tutorials", "How-to guides", "Reference", "Explanation", "Benchmarks", "Project")
PLACES = {
    "reproducing.md": "Tutorials",
    "fitting.md": "Tutorials",
    "page.md": "Tutorials",
    "notebooks/": "Tutorials",
    "formats.md": "Reference",
    "reference/": "Reference",
    "policies/": "Reference",
    "click-models/": "Reference",
    "paper.md": "Explanation",
    "click-ts.md": "Explanation",
    "decisions/": "Explanation",
    "speed.md": "Benchmarks",
    "scale.md": "Benchmarks",
    "reliability.md": "Benchmarks",
    "project/": "Project",
}
"""The section of pages, and of all pages in a folder, that are no how-to guides."""
FOLDERS = {
    "notebooks": "Notebooks",
    "policies": "Policies",
    "click-models": "Click models",
    "decisions": "Decisions",
}
PICTURE = "![Regret of all policies over time in the position-based model](policies/figures/all-PBM.svg)"
ASSETS = ("*.svg", "site.css", "site.js", "iframe-worker.js")
NAMED = {
    'data-md-component="search" role="dialog"': r'\g<0> aria-label="Search"',
    r'<nav class="md-nav" aria-label="[^"]*">': '<nav class="md-nav" role="none">',
    r'aria-labelledby="\w+_label"( aria-expanded="\w+">\s*<label [^>]*>\s*<span [^>]*></span>\s*(.*?)\s*</label>)': (
        r'aria-label="\2"\1'
    ),
    r"<th( [^>]*)?></th>": r"<td\1></td>",
}
"""What the theme leaves without a name for those who do not see it, or calls a landmark though it is a part of one, as
patterns, and what is written instead."""
_LINK = re.compile(r"(?P<mark>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
_ANCHOR = re.compile(r'<a href="(?!https?:)[^"]*">(.*?)</a>')
_CODE = re.compile(r"(^```.*?^```)", re.S | re.M)


def written() -> dict[str, Path]:
    """The path on the site of every Markdown file of the project."""
    found = {}
    for path in sorted((PROJECT / DOCS).rglob("*.md")):
        name = path.relative_to(PROJECT / DOCS).as_posix()
        found[name.replace("README.md", HOME)] = path
    for path in sorted(PROJECT.glob("*.md")):
        found[HOME if path.name == "README.md" else f"project/{path.name.lower()}"] = path
    return found


def prepare(folder: Path) -> dict[str, str]:
    """Write all pages and what they show into a folder; the texts of the pages, by their path."""
    sources = written()
    places = {path.resolve(): name for name, path in sources.items()}
    pages = {
        name: linked(path.read_text(encoding="utf-8"), name, path, places) for name, path in sources.items()
    }
    first, commands, rest = pages[HOME].split("```", 2)
    pages[HOME] = f"{first}```{commands}```\n\n{PICTURE}{rest}"
    pages |= reference.pages()
    about = "Each runs from top to bottom in a minute or two; the files are in `examples`."
    pages["notebooks/index.md"] = contents("Notebooks", about, "notebooks/", pages)
    pages["decisions/index.md"] = contents("Decisions", "Why things are as they are.", "decisions/", pages)
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for path in (PROJECT / DOCS / name for kind in ASSETS for name in (PROJECT / DOCS).rglob(kind)):
        copy = folder / path.relative_to(PROJECT / DOCS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (folder / "llms.txt").write_text(summary(pages), encoding="utf-8")
    return pages


def linked(text: str, name: str, path: Path, places: dict[Path, str]) -> str:
    """A page with links to where things are on the site; of code, which is not on it, the text remains."""

    def move(found: re.Match[str]) -> str:
        target, _, anchor = found["target"].partition("#")
        if not target or re.match(r"\w+:", target):
            return found[0]
        there = (path.parent / target).resolve()
        if there.is_dir():
            place = f"{there.name}/{HOME}"
        elif there in places:
            place = places[there]
        elif there.suffix == ".svg":
            place = there.relative_to(PROJECT / DOCS).as_posix()
        elif there.exists():
            return found["text"]
        else:
            raise ValueError(f"{path.relative_to(PROJECT)} must link to what exists, found {found['target']}")
        relative = os.path.relpath(place, Path(name).parent)
        return f"{found['mark']}[{found['text']}]({relative}{'#' + anchor if anchor else ''})"

    pieces = _CODE.split(_ANCHOR.sub(r"\1", text))
    moved = "".join(piece if i % 2 else _LINK.sub(move, piece) for i, piece in enumerate(pieces))
    return re.sub(r"<(table|tr|td)\b", r'<\1 markdown="block"', moved)


def title_of(text: str) -> str:
    """A page's first heading."""
    return text.lstrip().partition("\n")[0].lstrip("# ").strip()


def first_sentence(text: str) -> str:
    """The first paragraph of prose, as far as its first full stop."""
    for paragraph in re.split(r"\n\s*\n", text)[1:]:
        if paragraph and paragraph[0] not in "#|`!<-":
            plain = _LINK.sub(lambda found: found["text"], " ".join(paragraph.split()))
            return re.split(r"(?<=[.:]) ", plain)[0]
    return ""


def contents(title: str, about: str, folder: str, pages: dict[str, str]) -> str:
    """A page that lists those of a folder."""
    rows = [
        f"- [{title_of(text)}]({name.removeprefix(folder)})"
        for name, text in sorted(pages.items())
        if name.startswith(folder)
    ]
    return "\n".join([f"# {title}", "", about, "", *rows, ""])


def section_of(name: str) -> str:
    return next((section for place, section in PLACES.items() if name.startswith(place)), "How-to guides")


def navigation(pages: dict[str, str]) -> list[Any]:
    """All pages in their sections; those of a folder that FOLDERS names are below it."""
    sections: dict[str, list[Any]] = {section: [] for section in SECTIONS}
    for name, text in sorted(pages.items()):
        folder, _, rest = name.rpartition("/")
        if name == HOME or (folder in FOLDERS and rest != HOME):
            continue
        below = [one for one in sorted(pages) if one.startswith(f"{folder}/") and one != name]
        entry = {FOLDERS[folder]: [name, *below]} if folder in FOLDERS else {title_of(text): name}
        sections[section_of(name)].append(entry)
    return [{"Home": HOME}, *({section: entries} for section, entries in sections.items())]


def summary(pages: dict[str, str]) -> str:
    """`llms.txt`: what the site has, for programs that read it."""
    text = ["# clickbandit", f"> {first_sentence(pages[HOME])}"]
    for section in SECTIONS:
        names = [name for name in sorted(pages) if name != HOME and section_of(name) == section]
        rows = [f"- [{title_of(pages[name])}]({name}): {first_sentence(pages[name])}" for name in names]
        text.append("\n".join([f"## {section}", "", *rows]))
    return "\n\n".join(text) + "\n"


def build(out: Path) -> dict[str, str]:
    """Build the site into a folder; the texts of its pages. Where there is anything to warn of, there is no site."""
    from mkdocs.commands.build import build as run
    from mkdocs.config import load_config

    told = _Warnings()
    logging.getLogger("mkdocs").addHandler(told)
    with tempfile.TemporaryDirectory() as scratch:
        pages = prepare(Path(scratch))
        config = load_config(
            str(PROJECT / "mkdocs.yml"), docs_dir=scratch, site_dir=str(out), nav=navigation(pages)
        )
        config.plugins.on_startup(command="build", dirty=False)
        run(config)
    logging.getLogger("mkdocs").removeHandler(told)
    if told.messages:
        raise ValueError("the site must be built without warnings, found:\n" + "\n".join(told.messages))
    (out / "404.html").unlink()  # its links begin at the server's root, where this site need not be
    for path in out.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for found, better in NAMED.items():
            text = re.sub(found, better, text)
        path.write_text(text, encoding="utf-8")
    for name, text in pages.items():  # Markdown beside its page, for programs that llms.txt leads there
        (out / name).write_text(text, encoding="utf-8")
    return pages


class _Warnings(logging.Handler):
    """Keeps what is warned of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m docs.site", description="Build the documentation's site."
    )
    parser.add_argument("--out", type=Path, default=PROJECT / "site", help="folder, replaced if it exists")
    out = parser.parse_args().out
    print(f"written: {len(build(out))} pages, {out / 'index.html'}")


if __name__ == "__main__":
    sys.exit(main())
