"""The command that says what other lists, or another policy, would have earned."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickbandit.cli._logs import LogCommand, TableOptions
from clickbandit.cli._shared import Json, app, with_options
from clickbandit.errors import InputError
from clickbandit.wording import counted

if TYPE_CHECKING:
    from clickbandit.logs import Counts


@app.command(cls=LogCommand)
@with_options
def value(
    *,
    decisions: Annotated[
        list[str],
        typer.Argument(
            help="Files written by clickbandit export or --archive; with --click-log, a click log."
        ),
    ],
    lists: Annotated[
        Path | None,
        typer.Option(
            help='The lists to value: JSON such as {"red shoes": ["B", "A", "C"]}.', show_default="none"
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Or a policy that learns, such as cts: it is replayed along the log.", show_default="none"
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="The click model of dm and cascade-dr.")] = "PBM",
    click_log: Annotated[
        bool,
        typer.Option(
            "--click-log", help="The files have no propensities: print only the click model's prediction."
        ),
    ] = False,
    reading: TableOptions,
    as_json: Json = False,
) -> None:
    """Estimate what other lists would have earned, from exported decisions.

    For example: clickbandit value decisions.parquet --lists new.json
    """
    from clickbandit.value import read_decisions, replay, value_of_lists

    if (lists is None) == (policy is None):
        raise InputError(
            "expected either --lists or --policy, found " + ("neither" if lists is None else "both")
        )
    if click_log:
        if lists is None:
            raise InputError("a policy cannot be run along a click log: give --lists")
        _print_prediction(reading.count(decisions), _read_lists(lists), model, as_json)
        return
    if reading.is_given:
        raise InputError(
            "--format, --columns and what goes with them are for a click log: give --click-log too"
        )
    log = read_decisions(*decisions)
    if policy is not None:
        found = replay(log, policy)
        if as_json:
            print(json.dumps(found.as_dict(), indent=1))
            return
        print(
            f"{found.policy} would have earned {found.value:.4f} {found.unit} per list, 95% interval {found.low:.4f} "
            f"to {found.high:.4f}, over the first {found.met:,} of its own; the log has {counted(found.lists, 'list')}"
        )
        return
    assert lists is not None
    valued = value_of_lists(log, _read_lists(lists), model=model)
    if as_json:
        print(json.dumps(valued.as_dict(), indent=1))
        return
    _print_valuation(valued, log.estimated)


def _read_lists(path: Path) -> dict[str, list[str]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"the lists in {path} cannot be read: {error}") from None
    if not isinstance(found, dict) or not all(
        isinstance(items, list) and all(isinstance(item, str) for item in items) for items in found.values()
    ):
        raise InputError(
            f'{path} must have a list of items for each query, as in {{"red shoes": ["B", "A"]}}'
        )
    return found


def _print_valuation(valued: Any, estimated: bool) -> None:
    from clickbandit.terminal import print_table

    shown = valued.shown
    print(
        f"{valued.lists:,} lists were shown, with {shown.value:.4f} {valued.unit} each ({shown.low:.4f} to "
        f"{shown.high:.4f}); {valued.left_out:,} others are left out. In their place the new lists would have earned:"
    )
    rows = [
        {
            "estimator": one.estimator,
            f"{valued.unit} per list": _number(one.value),
            "95% low": _number(one.low),
            "high": _number(one.high),
            "worth": f"{one.effective:,.0f}",
            "support": f"{one.support:.2f}",
            "right for": one.refused or one.right_for,
        }
        for one in valued.estimates
    ]
    print_table(rows)
    print(f"dm: a fitted {valued.model} says {valued.predicted:.4f}, which is as right as the model is.")
    if estimated:
        print("Propensities were estimated by draws; the intervals do not include their error.")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _print_prediction(counts: "Counts", lists: dict[str, list[str]], model: str, as_json: bool) -> None:
    """What a click model says that is fitted to a log without propensities."""
    from clickbandit.logs import fit

    found = fit(counts, model)
    unknown = next((query for query in lists if query not in found.queries), None)
    if unknown is not None:
        raise InputError(f"expected lists for queries of the log, found {unknown!r}, which is not in it")
    said = {
        query: float(found.model(query, items).click_probability(range(len(items))).sum())
        for query, items in lists.items()
    }
    if as_json:
        print(json.dumps({"model": model, "predicted": said}, indent=1))
        return
    for query, clicks in said.items():
        print(f"{query}: {clicks:.4f} clicks")
    print(f"This is the prediction of a fitted {model}, not a measurement: the log has no propensities.")
