"""The look that reports and the live page share: a base style sheet, and colours and dashes that all can tell apart."""

from importlib import resources

COLOURS = {
    "vermillion": ("#D55E00", "#F4611A"),
    "blue": ("#0072B2", "#4C86FB"),
    "gray": ("#8C8C8C", "#8A8A8A"),
    "green": ("#1A5200", "#98E67F"),
    "purple": ("#86126F", "#DE4ABD"),
    "clay": ("#B26350", "#C67A5C"),
    "lilac": ("#8787FF", "#EDBCFF"),
    "black": ("#1A1A1A", "#F2F2F2"),
}
"""Each colour on white and on a dark page. Readers with any kind of colour blindness can tell them apart, and
they stand out from either ground by a contrast of 3 at least."""
DASHES = {"solid": (1, 0), "dashed": (6, 3), "dotted": (2, 2), "dash-dotted": (9, 3, 2, 3)}
"""Dash patterns of lines. Solid is not the empty pattern, which a scale does not take."""


def base() -> str:
    """The style sheet that every page begins with; each colour is a variable, such as --blue."""
    text = resources.files(__name__).joinpath("base.css").read_text(encoding="utf-8")
    light, dark = (
        "".join(f" --{name}: {pair[ground]};" for name, pair in COLOURS.items()) for ground in (0, 1)
    )
    return f"{text}:root {{{light} }}\n@media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n"
