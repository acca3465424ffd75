"""What is made before the runs of a folder can be planned, such as the counts of a log: kept there until they are.

Each file is named after all that it was made from, so that only the same is ever used again, and is there in full or
not at all. The names begin with a dot, as a folder with nothing else in it is still an empty one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clickbandit.experiments.folder import LOCK, locked, refuse_other, refuse_strange
from clickbandit.experiments.manifest import MANIFEST, read_manifest
from clickbandit.experiments.plan import hash_of
from clickbandit.experiments.results import QUERIES
from clickbandit.queries import Query, load_queries

_BEFORE = ".before-"


class Prepared:
    """The files of a folder that has no plan yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str, made_from: Any) -> Path:
        """Where a file is kept that was made from this, and from nothing else."""
        return self.folder / f"{_BEFORE}{hash_of(repr(made_from))[:16]}-{name}"

    def keep(self, path: Path, name: str) -> None:
        """Give a file that is there to the results, under this name."""
        with suppress(FileNotFoundError):
            os.replace(path, self.folder / name)

    def discard(self) -> None:
        """Remove all of it, also what a process that was killed had begun."""
        for path in self.folder.glob(f"*{_BEFORE}*"):
            path.unlink()

    @classmethod
    @contextmanager
    def open(cls, folder: Path, *, restart: bool) -> Iterator["Prepared"]:
        """Make a folder one's own until its runs are planned. If nothing is kept in a new one, it is removed again."""
        refuse_strange(folder)
        prepared, is_new = cls(folder), not folder.exists()
        with locked(folder):
            if restart:
                prepared.discard()
            try:
                yield prepared
            finally:
                if is_new and {path.name for path in folder.iterdir()} == {LOCK}:
                    (folder / LOCK).unlink()
                    folder.rmdir()


def queries_begun_with(folder: Path, input: dict[str, Any]) -> list[Query] | None:
    """The queries of a folder of results, which must have been learned from this; None if there are no results."""
    if not (folder / MANIFEST).exists() or not (folder / QUERIES).exists():
        return None
    refuse_other(folder, {"input": input}, {"input": read_manifest(folder)["settings"].get("input")})
    return load_queries(folder / QUERIES)
