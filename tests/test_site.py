"""The documentation's site: it is built without a warning, every page is in it, and it is read without a network."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("material", reason="the site needs mkdocs-material: pip install -e '.[dev]'")

from docs import site

from clickbandit.click_models.base import model_names
from pages import check


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    return folder, site.build(folder)


class Links(HTMLParser):
    """Where a page's links lead, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.add(found.get("id") or "")
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "link") and (target := found.get("src") or found.get("href")):
            self.loaded.append(target)


def test_every_link_leads_somewhere_and_nothing_is_fetched_from_elsewhere(built):
    folder, _ = built
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    assert len(pages) > 60
    dead = []
    for path, page in pages.items():
        assert [target for target in page.loaded if urlsplit(target).netloc] == []
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(there)
            if not there.exists() or (known and unquote(parts.fragment) not in known.anchors | {""}):
                dead.append(f"{path.relative_to(folder)}: {link}")
    assert dead == []


def test_every_page_is_in_the_navigation_and_in_llms_txt(built):
    folder, pages = built
    home = set(Links((folder / "index.html").read_text(encoding="utf-8")).links)
    listed = (folder / "llms.txt").read_text(encoding="utf-8")
    for name in pages:
        assert name.replace(".md", ".html") in home
        assert name == site.HOME or f"]({name})" in listed
        assert (folder / name).read_text(encoding="utf-8") == pages[name]


def test_search_needs_no_server(built):
    folder, pages = built
    index = (folder / "search" / "search_index.js").read_text(encoding="utf-8")
    places = {entry["location"].partition("#")[0] for entry in json.loads(index.partition("=")[2])["docs"]}
    assert {name.replace(".md", ".html") for name in pages} <= places


def test_the_reference_has_every_command_model_and_request(built):
    from typer.main import get_command

    from clickbandit.cli import app

    _, pages = built
    commands = set(re.findall(r"^## (\w+)$", pages["reference/cli.md"], re.M))
    assert commands == set(get_command(app).commands)
    assert {f"click-models/{name.lower()}.md" for name in model_names()} <= set(pages)
    assert "## POST /v1/rank" in pages["reference/http.md"]
    assert "Takes ." not in pages["reference/http.md"]
    assert "{formats}" not in pages["reference/cli.md"]
    assert "create table impressions" in pages["reference/store.md"].lower()
    assert "### simulate" in pages["reference/api.md"]


def test_dead_links_are_refused(tmp_path):
    page = site.PROJECT / "docs" / "live.md"
    with pytest.raises(ValueError, match=re.escape("docs/live.md must link to what exists, found gone.md")):
        site.linked("[there](gone.md)", "live.md", page, {})
    kept = site.linked("[code](../src/clickbandit/queries.py)", "live.md", page, {})
    assert kept == "code"
    moved = site.linked(
        "[log](../CHANGELOG.md#a)", "a/b.md", page, {Path(site.PROJECT, "CHANGELOG.md"): "c.md"}
    )
    assert moved == "[log](../c.md#a)"


def test_axe_finds_nothing(built, chromium, axe):
    folder, _ = built
    kinds = ("index", "policies/batchrank", "which-policy", "live")
    found = {}
    for scheme, width in (("light", 1300), ("dark", 390)):
        with chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
            page = context.new_page()
            for name in kinds:
                page.goto((folder / f"{name}.html").as_uri())
                found[name, scheme] = check(page, axe)
    assert found == {key: [] for key in found}
