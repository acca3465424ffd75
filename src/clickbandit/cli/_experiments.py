"""What the commands share that run an experiment: their options, and that they can be stopped and resumed."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickbandit.cli._shared import (
    Positions,
    at_least_1,
    known_models,
    policy_list,
    queries_named,
    told_if_stopped,
    whole_number,
)
from clickbandit.defaults import STRENGTH
from clickbandit.stopping import watch

if TYPE_CHECKING:
    from clickbandit.experiments.comparison import Field
    from clickbandit.experiments.folder import Folder
    from clickbandit.experiments.plan import Plan

Runs = Annotated[str, typer.Option(metavar="N", help="Runs of each policy on each click model.")]
OneQuery = Annotated[list[str] | None, typer.Option(help="Only this query, repeatable.", show_default="all")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same runs.")]


def policies_option(default: str) -> Any:
    """The option that names policies, with what is taken if it is left out."""
    told = (
        "Policy with settings, as name:key=value,key=value, or your own as file.py:Class; 'all' for all of the "
        "library. Repeatable, or comma-separated."
    )
    return typer.Option("--policy", "--policies", help=told, show_default=default)


def models_option(default: str) -> Any:
    """The option that names click models, with what is taken if it is left out."""
    told = "Click model; repeatable, or comma-separated."
    return typer.Option("--model", "--models", help=told, show_default=default)


@dataclass(frozen=True)
class RunOptions:
    """What is run: options of the commands that choose policies and users."""

    queries: Annotated[
        Path, typer.Option(help="File with the queries and their click models.", metavar="FILE")
    ]
    policy: Annotated[list[str] | None, policies_option("all")] = None
    model: Annotated[list[str] | None, models_option("all that every query has")] = None
    query: OneQuery = None
    positions: Positions = 5
    steps: Annotated[str, typer.Option(metavar="N", help="Steps of each run, such as 1e6.")] = "1e6"
    runs: Runs = "5"
    horizon: Annotated[
        str | None,
        typer.Option(metavar="N", help="Steps that policies are tuned for.", show_default="--steps"),
    ] = None
    delay: Annotated[str, typer.Option(metavar="N", help="Steps by which feedback is late.")] = "0"
    drift: Annotated[
        str | None,
        typer.Option(
            metavar="N,N",
            help="Steps after which the items are shuffled, so that users prefer other items from then on.",
        ),
    ] = None
    flip: Annotated[float, typer.Option(help="Share of clicks, and of missing clicks, that are flipped.")] = (
        0.0
    )
    method: Annotated[
        str,
        typer.Option(
            help="Take steps one by one (step), many at once (leap), or whichever is faster (auto)."
        ),
    ] = "auto"
    against: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="The list that regret is measured against: the one with the most expected clicks (clicks), or the "
            "items by decreasing attraction (attraction).",
        ),
    ] = "clicks"
    until_settled: Annotated[
        bool,
        typer.Option(
            "--until-settled",
            help="End a run once its list has stayed the same for a fifth of all steps; the remaining steps count like "
            "its last tenth.",
        ),
    ] = False
    prior: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="What policies that can use a prior start from: the order of the items in the file (given-order), "
            "their scores (scores), the click models of another file, or nothing (none).",
        ),
    ] = "none"
    prior_strength: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="How many examinations of each item the prior is worth.",
            show_default=f"{STRENGTH:g}",
        ),
    ] = None
    max_loss: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="The share of the clicks of the file's own order that policies may lose, such as 0.02.",
            show_default="no budget",
        ),
    ] = None
    seed: Seed = 1


@dataclass(frozen=True)
class EngineOptions:
    """Where and how runs are made: options of all commands that make any."""

    restart: Annotated[
        bool, typer.Option("--restart", help="Discard the results of earlier runs and start over.")
    ] = False
    threads: Annotated[
        str | None, typer.Option(metavar="N", help="Threads to run on.", show_default="all cores")
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Run on the Dask scheduler at this address, such as tcp://host:8786.",
            show_default="this machine",
        ),
    ] = None


COMPILING = (
    "A policy is compiled when it first meets a click model, which takes three to twenty-five seconds;\n"
    "the machine code is kept, and later runs start at once."
)


def counted(option: str, text: str) -> int:
    """The number that an option gives, at least 1."""
    return at_least_1(option, whole_number(text))


def maybe_counted(option: str, text: str | int | None) -> int | None:
    """The same of an option that may be left out."""
    return None if text is None else counted(option, str(text))


def planned(
    given: RunOptions, kind: str, policies: Sequence[str], models: Sequence[str] = ()
) -> "tuple[Field, Plan]":
    """Who meets whom, and the runs, by the options of a command, its default policies and its default models."""
    from clickbandit.experiments.comparison import choose, plan_comparison, within_budget
    from clickbandit.experiments.plan import Conditions
    from clickbandit.experiments.priors import read_source
    from clickbandit.queries import load_queries

    everything = load_queries(given.queries)
    conditions = Conditions(
        steps=counted("--steps", given.steps),
        runs=counted("--runs", given.runs),
        positions=given.positions,
        seed=given.seed,
        horizon=whole_number(given.horizon) if given.horizon else None,
        delay=whole_number(given.delay),
        drift=[whole_number(step) for step in given.drift.split(",")] if given.drift else [],
        flip=given.flip,
        method=given.method,  # type: ignore[arg-type]  # checked there
        against=given.against,  # type: ignore[arg-type]
        until_settled=given.until_settled,
        prior=read_source(given.prior, given.prior_strength, everything),
    )
    queries = queries_named(everything, given.query)
    usual = [name for name in models if all(name in query.models for query in queries)]
    chosen = known_models(given.model) or usual or None
    field = choose(queries, policy_list(given.policy or policies), chosen)
    if given.max_loss is not None:
        field = within_budget(field, given.max_loss)
    return field, plan_comparison(queries, field, conditions, input=given.queries.name, kind=kind)


class Experiments:
    """The folders that a command works on."""

    def __init__(self, stack: ExitStack, engine: EngineOptions) -> None:
        self._stack = stack
        self._threads, self._cluster = maybe_counted("--threads", engine.threads), engine.cluster
        self.restart = engine.restart
        self.folders: list[Folder] = []
        self.before = "nothing was run yet, and the same command starts again"
        """What is kept and how to go on before a folder is opened, as it may stand in a sentence."""

    def open(self, path: Path, plan: "Plan") -> "Folder":
        """Begin in a folder or resume there; wrong settings are found before anything is written."""
        from clickbandit.experiments.folder import Folder

        _ = plan.problems
        folder = self._stack.enter_context(Folder.open(path, plan, restart=self.restart))
        self.folders.append(folder)
        if folder.damaged:
            print(f"{folder.damaged:,} damaged results in {path} will be run again", file=sys.stderr)
        return folder

    def kept(self, resumable: bool) -> str:
        """What is finished and how to go on, as it may stand in a sentence."""
        if not self.folders:
            return self.before
        finished = sum(len(folder.finished) for folder in self.folders)
        total = sum(len(folder.plan.units) for folder in self.folders)
        how = "the same command" if resumable else "with --out the same command"
        how += " without --restart" if self.restart else ""
        return f"{finished:,} of {total:,} runs are done, and {how} resumes from there"

    def run(self) -> None:
        """Run what is not finished, and write the tables."""
        from clickbandit.experiments.run import run
        from clickbandit.progress import progress_bar

        done = sum(folder.steps_done for folder in self.folders)
        total = sum(folder.plan.steps for folder in self.folders)
        if done < total and sys.stderr.isatty():
            print(COMPILING, file=sys.stderr)
        with progress_bar(total, "simulating", done=done) as advance:
            for folder in self.folders:
                run(folder, threads=self._threads, cluster=self._cluster, progress=advance)
        for folder in self.folders:
            folder.finish()


def say_what_is_run(field: "Field", plan: "Plan", where: Path | None) -> None:
    """How many runs of what, and what is left out."""
    print(f"{describe_units(plan)}{f', in {where}' if where else ''}")
    for note in field.notes:
        print(note)


def describe_units(plan: "Plan") -> str:
    """How many runs of what."""
    policies, models = (
        list(dict.fromkeys(getattr(unit, name) for unit in plan.units)) for name in ("policy", "model")
    )
    return (
        f"{len(policies)} policies on {', '.join(models)} of {len(plan.queries):,} queries: "
        f"{len(plan.units):,} runs of {plan.units[0].steps:,} steps"
    )


@contextmanager
def stoppable(engine: EngineOptions, *, resumable: bool = True) -> Iterator[Experiments]:
    """Experiments that are closed in the end, and a sentence on how to resume if Ctrl-C ends them."""
    experiments = Experiments(ExitStack(), engine)
    watch.sentence = lambda: f"stopped; {experiments.kept(resumable)}"
    with told_if_stopped(), experiments._stack:
        yield experiments
