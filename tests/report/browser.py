"""A browser without network, to look at pages with."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=10000",
    "--window-size=1200,2400",
    "--proxy-server=127.0.0.1:1",
]


def drawn(path: Path, then: str = "") -> str:
    """The page as the browser has it once its scripts have run, and then this one more script."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser: install chromium")
    page = path
    if then:
        page = path.with_name(f"then-{path.name}")
        page.write_text(
            path.read_text() + f"<script>window.addEventListener('load', () => {{ {then} }})</script>"
        )
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *_QUIET, f"--user-data-dir={profile}", "--dump-dom", page.resolve().as_uri()]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
