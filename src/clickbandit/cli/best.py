"""The command that says what a store has learned: the best list of every query."""

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from clickbandit.cli._shared import app
from clickbandit.wording import counted

_ROWS = 50
"""That people are shown."""


@app.command()
def best(
    store: Annotated[
        str, typer.Option(metavar="URL", help="The store of a ranker, which may be served meanwhile.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print every query as a line of JSON.")] = False,
) -> None:
    """Print the best list of every query of a store, and how sure its policy is of it.

    For example: clickbandit best --store sqlite:///clicks.db --json > best.jsonl
    """
    from clickbandit.live.algorithm import Algorithms
    from clickbandit.live.best import best_included, best_lists
    from clickbandit.live.stores import open_reader
    from clickbandit.live.stores.reading import Listing
    from clickbandit.live.views import page
    from clickbandit.terminal import print_table

    reader, algorithms, missing = open_reader(store), Algorithms(), 0
    try:
        if as_json:
            for one in best_lists(reader, algorithms):
                missing += one.best is None
                print(json.dumps(asdict(one), ensure_ascii=False, default=lambda time: time.isoformat()))
        else:
            found = page(reader, Listing(sort="impressions", descending=True, limit=_ROWS))
            shown = [best_included(reader, one, algorithms) for one in found.queries]
            missing = sum(one.best is None for one in shown)
            print_table(
                [
                    {
                        "query": one.query,
                        "best list": "-" if one.best is None else ", ".join(one.best) or "none yet",
                        "sure": "-" if one.certainty is None else f"{one.certainty:.0%}",
                        "state": one.state,
                        "learned": f"{one.learned:,}",
                        "policy": one.policy,
                    }
                    for one in shown
                ]
            )
            if found.total != len(shown):
                print(
                    f"These are the {len(shown)} queries with most impressions of {found.total:,}: --json has all."
                )
            if not shown:
                print("The store has no queries yet.")
    finally:
        reader.close()
    if missing:
        print(
            f"clickbandit: what was learned about {counted(missing, 'query', 'queries')} cannot be loaded",
            file=sys.stderr,
        )
        raise typer.Exit(1)
