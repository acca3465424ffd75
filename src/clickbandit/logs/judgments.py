"""Relevance judgments from clicks, for tools that learn or measure rankings: how relevant each item of a query is.

An item's relevance is its attraction by a click model, times its satisfaction where the model has one: the chance that
it is what a user who looks at it wants. It is shrunk towards what is usual where it stands (`posterior`, of the DBN
`relevance`), so that few clicks do not outrank many. Grades divide what lies between 0 and the relevance of the best
items into equal parts; an item that nobody clicked has the lowest. Items that too few users looked at are not judged,
however often they were shown.
"""

import csv
import json
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

import numpy as np

from clickbandit.click_models.fitting import sums
from clickbandit.errors import InputError
from clickbandit.extras import pa
from clickbandit.logs.audit import best_model
from clickbandit.logs.counts import Counts
from clickbandit.logs.posterior import fit_posterior
from clickbandit.logs.relevance import Relevance, dbn_relevance
from clickbandit.registry import suggestion

_BEST = 0.99
"""The quantile of relevance that has the highest grade: a single item does not set the scale."""
JUDGES = ("DBN", "PBM")


def judging_model(counts: Counts) -> str:
    """The click model to judge by: the one of DBN and PBM that fits the log better."""
    return best_model(counts, JUDGES)


def judgments(
    counts: Counts, model: str | None = None, *, grades: tuple[int, int] = (0, 4), min_impressions: int = 20
) -> pa.Table:
    """Every query and item that enough users looked at, with its grade, its relevance, the standard error of that and
    its impressions. Without a model that of `judging_model`.

    >>> from clickbandit.logs import count_log
    >>> import pandas
    >>> lists, clicks = ["a b"] * 500 + ["b a"] * 500, ["0 1"] * 200 + ["0 0"] * 300 + ["1 0"] * 400 + ["0 0"] * 100
    >>> log = pandas.DataFrame({"query": ["q"] * 1000, "list": lists, "clicks": clicks})
    >>> judgments(count_log(log), "PBM").select(["item", "grade"]).to_pylist()
    [{'item': 'a', 'grade': 0}, {'item': 'b', 'grade': 4}]
    """
    low, high = grades
    if not 0 <= low < high:
        raise InputError(f"expected grades such as 0-4, found {low}-{high}")
    cells = counts.by_position
    clicked = sums(cells.pair, cells.clicked, counts.n_pairs)
    if not clicked.any():
        raise InputError(
            "nothing can be judged without clicks, and there are none: check that the right column is read (--columns)"
        )
    model = model or judging_model(counts)
    relevance, error, looked = dbn_relevance(counts) if model == "DBN" else _relevances(counts, model)
    enough = looked >= min_impressions
    if not enough.any():
        raise InputError(
            f"no item was looked at {min_impressions:,} times, the most is {looked.max():,.0f}: lower --min-impressions"
        )
    best = max(float(np.quantile(relevance[enough], _BEST)), 1e-12)
    share = np.where(clicked > 0, relevance / best, 0.0)
    grade = low + np.minimum((share * (high - low + 1)).astype(np.int64), high - low)
    table = counts.pairs
    columns = {"grade": grade, "relevance": relevance, "error": error, "impressions": counts.impressions}
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table.filter(pa.array(enough))


def _relevances(counts: Counts, model: str) -> Relevance:
    """By another model than the DBN; those that have no examination by position take all users for lookers."""
    known = fit_posterior(counts, model)
    if "attraction" not in known.means:
        raise InputError(
            f"expected a click model with attraction for each item, found {model}: take PBM or DBN"
        )
    a, error = known.means["attraction"], known.errors["attraction"]
    cells, looked = counts.by_position, counts.impressions.astype(np.float64)
    if model == "PBM":
        examination = known.fit.parameters["examination"]
        looked = sums(cells.pair, cells.shown * (examination / examination.max())[cells.position], len(a))
    if "satisfaction" not in known.means:
        return Relevance(a, error, looked)
    s, s_error = known.means["satisfaction"], known.errors["satisfaction"]
    both = np.sqrt((s * error) ** 2 + (a * s_error) ** 2 + (error * s_error) ** 2)
    return Relevance(a * s, both, looked)


# --- files --------------------------------------------------------------------------------------------------


def write_judgments(table: pa.Table, path: Path, kind: str) -> None:
    """Write judgments in the form that a tool reads: one of `KINDS`."""
    if kind not in KINDS:
        raise InputError(f"judgments cannot be written as {kind!r}: {suggestion(kind, KINDS)}")
    with path.open("w", encoding="utf-8", newline="") as file:
        KINDS[kind](table, file)


def _by_query(table: pa.Table) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for query, rows in groupby(table.to_pylist(), key=lambda row: str(row["query"])):
        yield query, list(rows)


def _csv(table: pa.Table, file: TextIO) -> None:
    writer = csv.DictWriter(file, table.column_names)
    writer.writeheader()
    writer.writerows(table.to_pylist())


def _qrels(table: pa.Table, file: TextIO) -> None:
    """TREC's `query 0 document grade`; blanks in names are written as in URLs."""
    for row in table.to_pylist():
        file.write(f"{_unbroken(row['query'])} 0 {_unbroken(row['item'])} {row['grade']}\n")


def _unbroken(name: str) -> str:
    return name if not any(letter.isspace() or letter == "%" for letter in name) else quote(name, safe="")


def _opensearch(table: pa.Table, file: TextIO) -> None:
    """The body of a request that imports judgments into OpenSearch's Search Relevance Workbench."""
    ratings = [
        {"query": query, "ratings": [{"docId": row["item"], "rating": f"{row['grade']:.3f}"} for row in rows]}
        for query, rows in _by_query(table)
    ]
    body = {
        "name": "clickbandit",
        "description": "Relevance judgments from a click model",
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": ratings,
    }
    json.dump(body, file, indent=1, ensure_ascii=False)


def _quepid(table: pa.Table, file: TextIO) -> None:
    writer = csv.writer(file)
    writer.writerow(["query", "docid", "rating"])
    writer.writerows([row["query"], row["item"], row["grade"]] for row in table.to_pylist())


def _letor(table: pa.Table, file: TextIO) -> None:
    """Lines of svmlight without features, to which a ranker's own are added; the comment names query and document."""
    for number, (query, rows) in enumerate(_by_query(table), start=1):
        for row in rows:
            names = json.dumps({"query": query, "docid": row["item"]}, ensure_ascii=False)
            file.write(f"{row['grade']} qid:{number} # {names}\n")


KINDS: dict[str, Callable[[pa.Table, TextIO], None]] = {
    "csv": _csv,
    "qrels": _qrels,
    "opensearch": _opensearch,
    "quepid": _quepid,
    "letor": _letor,
}
