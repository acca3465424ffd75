"""Screenshots of every page that the project makes: `python -m docs.gallery`, in a minute or two.

Runs what makes the pages, small, and pictures each on a wide screen and on a phone, light and dark, by Debian's
Chromium. The folder (`--out`) has a picture for each, and `index.html`, which shows them all: look at them
before a release.
"""

import argparse
import html
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
SCREENS = {
    "wide": {"viewport": {"width": 1920, "height": 1080}},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True},
}
SCHEMES = ("light", "dark")
QUERIES = str(PROJECT / "examples" / "queries.json")
POLICIES = "batchrank,cascade-kl-ucb,click-ts,random"
COMMANDS = {
    "reproduction": "reproduce --steps 5e4 --runs 3 --top-queries 6 --out reproduction",
    "comparison": f"compare --queries {QUERIES} --policies {POLICIES} --steps 2e4 --runs 3 --out comparison",
    "log": f"generate {QUERIES} --model PBM --sessions 2e4 --out log.tsv.gz",
    "audit": "audit log.tsv.gz --models PBM --page audit.html",
}
REPORTS = {
    "reproduction": "reproduction/report.html",
    "comparison": "comparison/report.html",
    "audit": "audit.html",
}
SITE = ("index.html", "policies/click-ts.html", "reference/cli.html", "notebooks/live.html")
KINDS = ("report", "live", "site")


class Camera:
    """Takes pictures of addresses."""

    def __init__(self, browser: Any, out: Path) -> None:
        self._browser = browser
        self._out = out
        self.taken: dict[str, list[str]] = {}

    def take(self, name: str, url: str, wait: str = "h1", seconds: float = 0.5) -> None:
        """Pictures of a page, once this is in it and so much time has passed."""
        for screen, settings in SCREENS.items():
            for scheme in SCHEMES:
                with self._browser.new_context(**settings, color_scheme=scheme) as context:
                    page = context.new_page()
                    page.goto(url)
                    page.locator(wait).first.wait_for()
                    page.wait_for_timeout(1000 * seconds)
                    file = f"{name}-{screen}-{scheme}.png"
                    page.screenshot(path=self._out / file, full_page=True)
                    self.taken.setdefault(name, []).append(file)
        print(f"{name}: {len(self.taken[name])} pictures", flush=True)

    def index(self) -> None:
        """A page that shows all of them."""
        parts = ["<!doctype html><meta charset='utf-8'><title>Gallery</title><style>img{width:24%}</style>"]
        for name, files in self.taken.items():
            shown = "".join(f"<a href='{file}'><img src='{file}' alt='{file}'></a>" for file in files)
            parts.append(f"<h2>{html.escape(name)}</h2>{shown}")
        (self._out / "index.html").write_text("\n".join(parts), encoding="utf-8")


def reports(camera: Camera, folder: Path) -> None:
    """What the commands write."""
    for words in COMMANDS.values():
        command = [sys.executable, "-m", "clickbandit", *words.split()]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for name, path in REPORTS.items():
        camera.take(name, (folder / path).as_uri(), "body", 1.5)


@contextmanager
def demo() -> Iterator[str]:
    """The address of a demo, which ends with the block."""
    command = [
        sys.executable,
        "-m",
        "clickbandit",
        "demo",
        "--port",
        "0",
        "--no-browser",
        "--versus",
        "batchrank",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
        finally:
            process.terminate()


def live(camera: Camera, seconds: float) -> None:
    """The service's page, after some time of learning."""
    import time

    with demo() as url:
        time.sleep(seconds)
        for name, view in (("demo", "demo"), ("overview", ""), ("health", "health")):
            camera.take(name, f"{url}/#/{view}", "main h1", 2)
        for name, query in (
            ("query-click-ts", "red running shoes"),
            ("query-batchrank", "red running shoes (batchrank)"),
        ):
            camera.take(name, f"{url}/#/query/{query}", "main h1", 2)


def site(camera: Camera, folder: Path) -> None:
    """Some pages of the documentation."""
    from docs.site import build

    build(folder / "site")
    for path in SITE:
        camera.take(f"site-{Path(path).stem}", (folder / "site" / path).as_uri())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m docs.gallery",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("gallery"), help="folder (%(default)s)")
    parser.add_argument("--only", choices=KINDS, action="append", help="some of the pages, repeatable")
    parser.add_argument(
        "--learn", type=float, default=20, help="seconds of learning before the live page (%(default)s)"
    )
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    options.out.mkdir(parents=True, exist_ok=True)
    chosen = options.only or KINDS
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as scratch:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        camera = Camera(browser, options.out)
        if "report" in chosen:
            reports(camera, Path(scratch))
        if "live" in chosen:
            live(camera, options.learn)
        if "site" in chosen:
            site(camera, Path(scratch))
        camera.index()
        browser.close()
    print(f"written: {options.out / 'index.html'}")


if __name__ == "__main__":
    main()
