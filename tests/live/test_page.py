"""The page in a real browser: Debian's Chromium, driven by Playwright. It speaks with the service and nobody else."""

# ruff: noqa: RUF001 (the page has dashes)

import contextlib
import os
import re
import signal
import subprocess
import sys

import pytest

from clickbandit.errors import InputError
from clickbandit.live import AsyncRanker, algorithm
from clickbandit.live.demo import run_demo
from clickbandit.live.http import stream
from clickbandit.live.http.auth import Keys
from live.conftest import specialise_plainly
from live.serving import serve
from pages import AXE, check

KEY = "correct-horse-battery"
ITEMS = ["Ada", "Bob", "Cleo", "Dan", "Eve"]


class Window:
    """A page, and what went wrong in it."""

    def __init__(self, page, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.set_default_timeout(30_000)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda sent: sent.url.startswith(url) or self.foreign.append(sent.url))

    def _said(self, message) -> None:
        # a service that was stopped is no mistake of the page, but the browser says it there
        if message.type in ("error", "warning") and "net::ERR_" not in message.text:
            self.errors.append(message.text)

    def open(self, view: str = "#/") -> None:
        self.page.goto(f"{self.url}/{view}")
        self.page.locator("main h1").wait_for()

    def button(self, name: str):
        return self.page.get_by_role("button", name=name, exact=True)

    def see(self, text: str, within: str = "main") -> None:
        """Wait until this is to be read."""
        self.page.locator(within).get_by_text(text).first.wait_for()

    def rows(self, caption: str) -> list[list[str]]:
        """The cells of a table."""
        found = self.page.get_by_role("table", name=caption, exact=True).locator("tbody tr").all()
        return [[cell.strip() for cell in row.locator("th, td").all_inner_texts()] for row in found]

    def fits(self) -> bool:
        """Whether nothing is wider than the screen."""
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def window(chromium):
    """Opens windows on services; at the end nothing may have gone wrong in them."""
    opened = []

    def open_(url: str, **settings) -> Window:
        context = chromium.new_context(**{"viewport": {"width": 1300, "height": 900}, **settings})
        opened.append((context, Window(context.new_page(), url)))
        return opened[-1][1]

    yield open_
    for context, _ in opened:
        context.close()
    for _, one in opened:
        assert (one.errors, one.foreign) == ([], [])


@pytest.fixture
def ranker(folder, monkeypatch):
    monkeypatch.setattr(algorithm, "specialise", specialise_plainly)
    monkeypatch.setattr(stream, "_MIN_INTERVAL", 0.1)  # nobody looks for long here

    def make(**settings):
        return AsyncRanker(
            f"sqlite:///{folder}/clicks.db",
            **{"policy": "batchrank", "positions": 3, "horizon": 10, **settings},
        )

    return make


def learn(served, query: str, attracts: str, n: int) -> None:
    """Impressions whose items with these first letters are clicked."""
    for _ in range(n):
        shown = served.rank(query, ITEMS)
        names = [item["id"] for item in shown["items"]]
        served.events(*({"id": shown["id"], "item": name} for name in names if name[0] in attracts))
        assert served.post(f"/v1/impressions/{shown['id']}/settle").status == 200


# --- views --------------------------------------------------------------------------------------------------


def test_overview_and_search(ranker, window):
    with serve(ranker(holdout=0.5, rewards="click=1")) as served:  # the same, but it is spoken of reward
        for k in range(120):
            items = ITEMS if k % 2 else ["only one"]
            while served.rank(f"query {k:03}", items)["source"] == "holdout":
                pass
        learn(served, "red shoes", "A", 150)
        learn(served, "red shoes", "", 50)
        served.post("/v1/queries/red%20shoes/freeze")
        one = window(served.url)
        one.open()
        one.see("1–50 of 121")
        rows = one.rows("Queries")
        assert len(rows) == 50
        assert rows[0][:3] == ["red shoes", "frozen past horizon", "200"]  # the one with most traffic
        assert re.fullmatch(r"0\.\d{3}", rows[0][3])
        one.see("however often you look", "#holdout + p")
        one.see("reward per impression", "#holdout + p")
        held = []
        one.page.route("**/v1/stream?*offset=50*", lambda route: held.append(route))
        one.button("Next →").click()
        one.page.locator("button:enabled", has_text="← Previous").wait_for()
        one.see("1–50 of 121")  # as long as these are the rows
        held[0].continue_()
        one.see("51–100 of 121")
        one.button("Next →").click()
        one.see("101–121 of 121")
        assert len(one.rows("Queries")) == 21
        assert one.button("Next →").is_disabled()

        search = one.page.get_by_role("searchbox", name="Search queries")
        search.press_sequentially("QUERY 11")
        one.see("10 queries")
        assert sorted(row[0] for row in one.rows("Queries")) == [f"query {k}" for k in range(110, 120)]
        assert one.page.evaluate("document.activeElement.id") == "search"  # and goes on typing
        one.page.get_by_role("button", name=re.compile("^settled")).click()
        one.see("5 queries")
        assert sorted(row[:2] for row in one.rows("Queries")) == [
            [f"query {k}", "settled"] for k in range(110, 120, 2)
        ]
        one.button("query").click()
        one.page.locator("th[aria-sort=ascending]", has_text="query").wait_for()
        one.button("query").click()
        one.page.locator("th[aria-sort=descending]", has_text="query").wait_for()
        one.page.locator("tbody tr:first-child", has_text="query 118").wait_for()

        search.fill("nothing like this")
        one.see("No query matches.")
        search.fill("a/b?c#%")
        served.rank("a/b?c#% <b>", ITEMS)
        one.page.get_by_role("button", name=re.compile("^all")).click()
        one.page.get_by_role("link", name="a/b?c#% <b>").click()
        one.page.locator("main h1", has_text="a/b?c#% <b>").wait_for()


def test_a_query_through_a_split_and_an_elimination(ranker, window):
    with serve(ranker()) as served:
        learn(served, "shoes", "AB", 1)
        learn(served, "hats", "ABC", 1)
        one = window(served.url)
        one.open("#/query/shoes")
        one.see("All items are still being compared with each other.")
        one.see(re.compile(r"At least \d+ impressions to the next decision\."))
        one.see("positions 1–3")
        assert len(one.rows("Items with their estimates and confidence intervals")) == 5
        assert one.rows("Last impressions")[0][3] == "settled"
        learn(served, "shoes", "AB", 80)
        one.see("positions 1–3 split into 1–2, 3", "ol.events")  # while we look
        one.see("Items are divided into batches")
        items = one.rows("Items with their estimates and confidence intervals")
        assert [(row[0], row[1]) for row in items[:2]] == [("1–2", "Ada"), ("1–2", "Bob")]
        assert [row[0] for row in items[2:]] == ["3"] * 3
        one.page.locator("section[aria-labelledby=past] svg rect.batch").nth(2).wait_for(state="attached")
        legend = one.page.locator("section[aria-labelledby=past] .key").all_inner_texts()
        assert [text.strip() for text in legend] == ["batch from position 1", "batch from position 3"]
        assert all(row[-3] == row[-2] != "0" and row[-1] == "100%" for row in items[:2])
        assert all(row[-2:] == ["0", "0%"] for row in items[2:])
        one.see(re.compile(r"counted over the last \d+ settled impressions"))

        learn(served, "hats", "ABC", 300)
        one.open("#/query/hats")
        one.see(re.compile("eliminated: (Dan, Eve|Eve, Dan)"), "ol.events")
        out = one.rows("Eliminated items with the evidence at that moment")
        assert sorted(row[0] for row in out) == ["Dan", "Eve"]
        for _, after, estimate, interval, observations, above in out:
            assert 60 < int(after) < 310
            assert estimate == "0.000"
            assert interval.startswith("0.000–0.")
            assert int(observations) > 30
            assert above == "3"
        assert len(one.rows("Items with their estimates and confidence intervals")) == 3
        assert one.page.locator("section[aria-labelledby=rates] svg.chart").count() == 1
        one.see(re.compile(r"About \d+ clicks? so far"), "section[aria-labelledby=cost]")
        assert one.page.locator("section[aria-labelledby=cost] svg.chart polyline").count() == 2

        one.page.goto(f"{served.url}/#/query/none")
        one.see("there is no query 'none'")
        one.open("#/health")
        one.see("All is well.")
        latency = one.rows("Latency of the last requests to each endpoint")
        assert [row[i] for row in latency if row[0] == "/v1/rank" for i in (0, 3)] == ["/v1/rank", "382"]


def test_the_keyboard_alone_is_enough(ranker, window):
    """From the overview to a query, and there to freezing it, by Tab, Enter and Escape."""
    with serve(ranker()) as served:
        learn(served, "shoes", "AB", 1)
        one = window(served.url)
        one.open()
        one.see("1 query")
        press = one.page.keyboard.press

        def tab_to(name: str) -> None:
            for _ in range(40):
                press("Tab")
                if one.page.evaluate("document.activeElement.textContent").strip() == name:
                    return
            raise AssertionError(f"Tab does not lead to {name}")

        tab_to("shoes")
        press("Enter")
        one.see("All items are still being compared")
        for key in ("Escape", "Enter"):
            tab_to("Freeze")
            press("Enter")
            assert one.page.evaluate("document.activeElement.id") == "no"
            if key == "Enter":
                press("Tab")
            press(key)
        one.see("frozen")
        tab_to("Unfreeze")


def test_what_click_ts_learned(ranker, window):
    """How users look, what each item attracts, and how sure it is of their places."""
    with serve(ranker()) as served:
        served.post("/v1/queries/shoes/reset", {"policy": "click-ts"})
        one = window(served.url)
        learn(served, "shoes", "AB", 1)
        one.open("#/query/shoes")
        one.see("Every impression can change what it shows.")
        learn(served, "shoes", "AB", 59)
        one.see("60", "dl.facts")
        shown = one.page.locator("ol.list li").all_inner_texts()
        assert all(re.search(r"belongs here: (over )?\d+%$", line) for line in shown)
        one.see("The policy is", "section[aria-labelledby=users]")
        curve = one.page.locator("section[aria-labelledby=users] svg.chart")
        assert curve.locator("circle").count() == 3
        label = curve.get_attribute("aria-label")
        assert re.fullmatch(
            r".*: position 1 100% \(100% to 100%\)(, position \d \d+% \(\d+% to \d+%\)){2}", label
        )
        items = one.rows("Items with their estimates and confidence intervals")
        assert {items[0][0], items[1][0]} == {"Ada", "Bob"}
        belongs = [row[5] for row in items]
        assert belongs[:2] == ["over 99%"] * 2
        assert all(re.fullmatch(r"(under )?\d+%", share) for share in belongs[2:])
        assert one.page.locator("#batches").count() == 0


def test_freeze_unfreeze_and_reset_ask_first_and_need_the_key(ranker, window):
    with serve(ranker(), keys=Keys([KEY])) as served:
        key = {"authorization": f"Bearer {KEY}"}
        body = {"query": "shoes", "items": ITEMS}
        assert (
            served.post("/v1/queries/shoes/reset", {"policy": "toprank", "window": "5m"}, **key).status == 200
        )
        for _ in range(3):
            assert served.post("/v1/rank", body, **key).status == 200
        one = window(served.url)
        one.page.goto(f"{served.url}/#/query/shoes")
        dialog = one.page.get_by_role("dialog")
        dialog.get_by_label("API key").fill("wrong-horse-battery")
        one.button("Use it").click()
        one.see("That key was refused.", "dialog")
        dialog.get_by_label("API key").fill(KEY)
        dialog.get_by_label("API key").press("Enter")
        one.page.locator("main h1").wait_for()

        one.button("Freeze").click()
        one.button("Cancel").click()
        one.button("Freeze").click()
        assert (
            one.page.evaluate("document.activeElement.textContent") == "Cancel"
        )  # a slip of the finger does nothing
        dialog.get_by_role("button", name="Freeze").click()
        one.button("Unfreeze").wait_for()
        one.see("The list as shown")
        assert served.get("/v1/queries/shoes", **key).json["summary"]["frozen"]
        one.button("Unfreeze").click()
        dialog.get_by_role("button", name="Unfreeze").click()
        one.button("Freeze").wait_for()

        one.button("Reset …").click()
        one.page.keyboard.press("Escape")
        assert served.get("/v1/queries/shoes", **key).json["generation"] == 1
        one.button("Reset …").click()
        dialog.get_by_role("button", name="Reset").click()
        one.see("2 times")
        detail = served.get("/v1/queries/shoes", **key).json
        assert detail["generation"] == 2
        assert (detail["summary"]["policy"], detail["summary"]["window"]) == ("toprank", 300)  # as it was
        refused = [text for text in one.errors if "401" in text]
        assert len(refused) == 2  # the browser's own words for a page without a key, and with a wrong one
        one.errors = [text for text in one.errors if text not in refused]


def test_a_lost_connection_is_said_and_comes_back(ranker, window):
    with contextlib.ExitStack() as first:
        served = first.enter_context(serve(ranker()))
        served.rank("shoes", ITEMS)
        one = window(served.url)
        one.open()
        one.see("Live", "#connection")
        first.close()
        one.see("Connection lost at", "#connection")
        assert one.rows("Queries")[0][0] == "shoes"  # what was seen last stays
    with serve(ranker(), port=served.port) as again:
        again.rank("hats", ITEMS)
        one.see("Live", "#connection")
        one.page.get_by_role("link", name="hats").wait_for()


# --- for everyone -------------------------------------------------------------------------------------------


def test_phones_dark_pages_and_screen_readers(ranker, window, axe):
    with serve(ranker(holdout=0.3)) as served:
        learn(served, "shoes", "AB", 100)
        learn(served, "hats", "ABC", 250)
        served.post("/v1/queries/socks/reset", {"policy": "click-ts"})
        learn(served, "socks", "AB", 30)
        long = "a-name-without-any-space-" * 8
        served.rank(long, [f"{item}-without-any-space" * 5 for item in ITEMS])
        views = ["#/", "#/health", *(f"#/query/{name}" for name in ("shoes", "hats", "socks", long))]
        for scheme in ("light", "dark"):
            one = window(
                served.url, viewport={"width": 390, "height": 800}, color_scheme=scheme, bypass_csp=True
            )
            for view in views:
                one.open(view)
                assert one.fits(), view
                assert check(one.page, axe) == [], (view, scheme)
            one.button("Freeze").click()
            assert check(one.page, axe) == []


# --- the demo -----------------------------------------------------------------------------------------------


def test_the_demo(window, tmp_path):
    """Lists get better, a batch splits, the panel works, and nothing is left of it."""
    options = "demo --port 0 --no-browser --versus toprank"
    command = [sys.executable, "-m", "clickbandit", *options.split()]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            first = process.stdout.readline()
            assert first.startswith("clickbandit demo: starting with click-ts and toprank; the first time")
            url = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
            one = window(url, bypass_csp=True)
            one.page.goto(url)
            one.see("A shop with simulated people")
            one.page.get_by_label("Speed").fill("600")
            one.page.get_by_label("Click model").select_option("PBM")
            one.see("600 people a second")
            one.page.locator("td .state.splitting").first.wait_for(timeout=120_000)
            rows = one.rows("The best list known for each query")
            assert len(rows) == 20
            assert all(len(row) == 4 for row in rows)
            lost = one.page.locator("section[aria-labelledby=losses]")
            assert lost.locator("svg.chart polyline").count() == 2
            assert re.search(r"click-ts [\d,]+ toprank [\d,]+", " ".join(lost.inner_text().split()))
            if AXE.is_file():
                assert check(one.page, AXE.read_text(encoding="utf-8")) == []
            one.page.get_by_role("link", name="red running shoes (toprank): what is known").click()
            one.see("toprank", "dl.facts")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("versus", "wrong"),
    [("toprank:", "another policy"), ("toprnk", "did you mean toprank?"), ("optimal", "told")],
)
def test_the_demo_needs_another_policy_to_compare_with(versus, wrong):
    with pytest.raises(InputError, match=wrong):
        run_demo(policy="toprank", versus=versus, port=0, browser=False)
