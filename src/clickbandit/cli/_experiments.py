"""What commands share that run an experiment in a folder, stop at any moment, and go on where they were."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from clickbandit.experiments.folder import Folder
    from clickbandit.experiments.plan import Plan

Restart = Annotated[
    bool, typer.Option("--restart", help="Throw away the results in the folder, and start anew.")
]
Threads = Annotated[int | None, typer.Option(help="Threads to run on.", show_default="all cores")]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the Dask scheduler at this address, such as tcp://host:8786.",
        show_default="this machine",
    ),
]
Seed = Annotated[int, typer.Option(help="Another seed gives other runs, the same seed the same.")]


class Experiments:
    """The folders that a command works on."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.folders: list[Folder] = []

    def open(self, path: Path, plan: "Plan", *, restart: bool) -> None:
        """Begin in a folder or go on there; wrong settings are found before anything is written."""
        from clickbandit.experiments.folder import Folder

        _ = plan.problems
        folder = self._stack.enter_context(Folder.open(path, plan, restart=restart))
        self.folders.append(folder)
        if folder.damaged:
            print(f"{folder.damaged:,} damaged results in {path} are run again", file=sys.stderr)

    def run(self, *, threads: int | None, cluster: str | None) -> None:
        """Run what is not finished, and write the tables."""
        from clickbandit.experiments.running import run
        from clickbandit.progress import progress_bar

        done = sum(folder.steps_done for folder in self.folders)
        total = sum(folder.plan.steps for folder in self.folders)
        with progress_bar(total, "simulating", done=done) as advance:
            for folder in self.folders:
                run(folder, threads=threads, cluster=cluster, progress=advance)
        for folder in self.folders:
            folder.finish()


@contextmanager
def stoppable() -> Iterator[Experiments]:
    """Experiments that are closed in the end, and a sentence on how to go on if Ctrl-C ends them."""
    experiments = Experiments(ExitStack())
    try:
        with experiments._stack:
            yield experiments
    except KeyboardInterrupt:
        finished = sum(len(folder.finished) for folder in experiments.folders)
        total = sum(len(folder.plan.units) for folder in experiments.folders)
        what = f"{finished:,} of {total:,} runs are done" if experiments.folders else "nothing was run yet"
        print(f"clickbandit: stopped; {what}, and the same command goes on from there", file=sys.stderr)
        raise typer.Exit(130) from None
