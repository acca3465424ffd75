"""Files of saved counts: Parquet, with a note in its metadata that says what was counted and what was read."""

import json
import os
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

from clickbandit.errors import InputError
from clickbandit.extras import duckdb, pa, pq
from clickbandit.logs.reading import Reading
from clickbandit.logs.tally import Kind, LogDatabase, Tally

_NOTE = b"clickbandit"
_CONTENT: dict[Kind, str] = {
    "lists": """
        SELECT query, any_value(items) AS items, list(clicks ORDER BY clicks) AS clicks,
               list(sessions ORDER BY clicks) AS sessions
        FROM patterns JOIN lists USING (list) GROUP BY list, query ORDER BY list
    """,
    "items": "SELECT query, item, position, impressions, clicks FROM given",
}
"""What is saved of each kind; of lists a row each, with its patterns of clicks and their sessions."""


def write_saved(path: str | PathLike[str], database: LogDatabase, kind: Kind, reading: Reading) -> None:
    """Write counts as Parquet, all or nothing."""
    path = Path(path)
    note = json.dumps({"kind": kind, "reading": reading.as_dict()}).replace("'", "''")
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".clickbandit-") as folder:
            part = Path(folder) / "counts.parquet"
            database.run(f"""
                COPY ({_CONTENT[kind]}) TO '{_quoted(part)}'
                (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{_NOTE.decode()}: '{note}'}})
            """)
            os.replace(part, path)
    except (OSError, duckdb.IOException) as error:
        raise InputError(f"the counts cannot be written to {path}: {error}") from error


def read_saved(path: Path, tally: Tally) -> Reading:
    """Add saved counts to a tally."""
    note = _read_note(path)
    rows = f"read_parquet('{_quoted(path)}')"
    if note["kind"] == "items":
        tally.add_items(rows)
    else:
        tally.add_lists(
            f"(SELECT query, items, unnest(clicks) AS clicks, unnest(sessions) AS sessions FROM {rows})"
        )
    return Reading.from_dict(note["reading"])


def saved_reading(path: Path) -> Reading:
    """What had been read for counts that were saved."""
    return Reading.from_dict(_read_note(path)["reading"])


def is_saved(schema: pa.Schema) -> bool:
    """Whether a Parquet file of this schema holds saved counts."""
    return _NOTE in (schema.metadata or {})


def _read_note(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((pq.read_schema(path).metadata or {})[_NOTE]))
    except OSError as error:
        raise InputError(f"the counts in {path} cannot be read: {error}") from error
    except (KeyError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} is not a file of saved counts: make one with Counts.save") from error


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
