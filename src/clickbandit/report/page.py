"""What pages are made of: one look for all of them, in light and dark, on a wide screen and on a phone.

A page is one HTML file that needs no network: texts, tables and figures, of which each chart carries its own
specification. What comes from elsewhere is escaped here, and nowhere else: `Html` is text that is HTML already.
"""

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from clickbandit import style
from clickbandit.extras import vlc
from clickbandit.report.charts import LIVE
from clickbandit.report.styles import Look
from clickbandit.style import COLOURS

_NUMBER = re.compile(r"([+-]?\d(?!.*[A-Za-z]{3}).*|-|)")
"""What a column of numbers has in its cells: "12", "+0.3 to +0.5", "6 of 6", but not "2 moved"."""
CONFIG = {
    **LIVE,
    "background": None,
    "font": 'system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif',
    "view": {"stroke": None},
    "title": {"anchor": "start", "fontSize": 14, "fontWeight": 600},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "domain": False},
    "axisX": {"tickCount": 5},
    "legend": {"disable": True},
    "line": {"strokeWidth": 2},
    "point": {"size": 40},
    "text": {"fontSize": 12},
}
"""Of charts on a page; their colours in the dark are those of the style sheet."""


class Html(str):
    """Text that is HTML already."""


def escaped(value: object) -> Html:
    """Any text as it may stand in a page."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def element(name: str, *parts: object, **attributes: str) -> Html:
    """An element with these parts in it; of its attributes, `class_` stands for class.

    >>> element("p", "1 < 2 ", element("b", "yes"), class_="note")
    '<p class="note">1 &lt; 2 <b>yes</b></p>'
    """
    given = "".join(
        f' {key.strip("_").replace("_", "-")}="{html.escape(value)}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{given}>{''.join(map(escaped, parts))}</{name}>")


def table(rows: Sequence[Mapping[str, object]]) -> Html:
    """Rows with the same keys; numbers, and texts that begin with one, stand to the right."""
    if not rows:
        return Html()

    def is_number(name: str) -> bool:
        values = [str(row[name]) for row in rows if not isinstance(row[name], Html)]
        return bool(values) and all(_NUMBER.fullmatch(value) for value in values)

    side = {name: {"class_": "number"} if is_number(name) else {} for name in rows[0]}
    head = element("tr", *(element("th", name, **side[name]) for name in rows[0]))
    body = [
        element("tr", *(element("td", _shown(value), **side[name]) for name, value in row.items()))
        for row in rows
    ]
    return element(
        "div", element("table", element("thead", head), element("tbody", *body)), class_="wide", tabindex="0"
    )


def _shown(value: object) -> object:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def settings_table(settings: Mapping[str, Any]) -> Html:
    """Settings as a table; settings in settings have lines of their own."""
    return table([{"setting": name, "value": value} for name, value in _flat(settings)])


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Settings in settings as lines of their own, lists as texts."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}: ")
        elif isinstance(value, (list, tuple)):
            yield f"{above}{name}", ", ".join(map(str, value)) or "none"
        elif isinstance(value, bool):
            yield f"{above}{name}", "yes" if value else "no"
        else:
            yield f"{above}{name}", f"{value:,}" if type(value) is int else str(value)


def sample(look: Look) -> Html:
    """A short line as a policy's lines look in charts."""
    dash = " ".join(map(str, look.dash))
    return Html(
        f'<svg class="sample" viewBox="0 0 30 10" aria-hidden="true"><line x1="0" x2="30" y1="5" y2="5" '
        f'stroke="{look.colour}" stroke-width="2.5" stroke-dasharray="{dash}"/></svg>'
    )


def policy_cell(policy: str, look: Mapping[str, Look]) -> Html:
    """A policy in a table: how its lines look and its name, as in legends, and its name on the command line."""
    spelled = element("small", element("code", policy))
    return element("span", sample(look[policy]), element("span", look[policy].name, spelled), class_="policy")


def figure(
    charts: Mapping[str, Mapping[str, Any]],
    caption: object,
    *,
    look: Mapping[str, Look] | None = None,
    height: int = 260,
    across: int = 2,
    switch: bool = False,
) -> Html:
    """Charts, that many side by side where there is room; the policies of `look` can be hidden."""
    keys = [
        element(
            "button",
            sample(one),
            one.name,
            type="button",
            class_="key",
            aria_pressed="true",
            data_name=one.name,
        )
        for one in (look or {}).values()
    ]
    if switch:
        keys.append(element("button", "linear scale", type="button", class_="scale"))
    panels = [_chart(name, panel, height) for name, panel in charts.items()]
    tools = element("div", *keys, class_="tools") if keys else ""
    return element(
        "figure",
        tools,
        element("div", *panels, class_="panels", style=f"--across: {across}; --height: {height}px"),
        element("figcaption", caption),
    )


def _chart(name: str, panel: Mapping[str, Any], height: int) -> Html:
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        **panel,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
    }
    text = json.dumps(spec, separators=(",", ":"), allow_nan=False)
    script = Html(
        text.replace("<", "\\u003c")
    )  # in JSON the same, and nothing in it can end the script element
    return element(
        "div", element("div"), element("script", script, type="application/json"), class_="chart", id=name
    )


def write_page(path: Path, title: str, parts: Iterable[object]) -> None:
    """Write a page that needs no network."""
    body = "\n".join(map(escaped, parts))
    path.write_text(
        f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{style.base()}{_text("page.css")}{_dark_colours()}</style></head><body>
<main>
<h1>{html.escape(title)}</h1>
{body}
</main>
<noscript>Charts need JavaScript, which is in this page and loads nothing.</noscript>
<script>{_vega()}</script>
<script>{_text("page.js")}</script>
</body></html>
""",
        encoding="utf-8",
    )


@cache
def _vega() -> str:
    """The libraries that draw charts, which takes a second or two to bundle."""
    return str(vlc.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


@cache
def _text(name: str) -> str:
    return resources.files("clickbandit.report").joinpath(name).read_text(encoding="utf-8")


def _dark_colours() -> str:
    """Rules that give the policies' colours their counterparts on a dark page."""
    rules = "".join(
        f'svg [{kind}="{light}"] {{ {kind}: {dark}; }}\n'
        for light, dark in COLOURS.values()
        for kind in ("stroke", "fill")
    )
    return f"@media (prefers-color-scheme: dark) {{\n{rules}}}\n"
