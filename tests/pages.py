"""A real browser for tests of pages, and axe-core, which finds what some people could not use."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

AXE = Path(os.environ.get("CLICKBANDIT_AXE", "node_modules")) / "axe-core/axe.min.js"


def missing(what: str) -> None:
    (pytest.fail if os.environ.get("CLICKBANDIT_NO_SKIPS") else pytest.skip)(what)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright import sync_api as api

    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        missing("no browser: install Debian's package chromium")
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=quiet)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.is_file():
        missing("axe-core is not there: npm install axe-core, and name its node_modules in CLICKBANDIT_AXE")
    return AXE.read_text(encoding="utf-8")


def check(page: Any, axe: str) -> list[str]:
    """What axe-core finds."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        f"{entry['id']}: {entry['help']}: {[node['html'][:200] for node in entry['nodes'][:3]]}"
        for entry in found
    ]
