"""What a simulation leaves: regret and clicks by run and window of steps."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.intervals import Interval, mean_interval
from clickbandit.queries import AGAINST, Against
from clickbandit.simulation.outcome import LOSING, TAIL, last_tenth
from clickbandit.wording import counted

if TYPE_CHECKING:
    from clickbandit.extras import pa
    from clickbandit.report.charts import Chart

COLUMNS = {
    "policy": "string",
    "model": "string",
    "query": "string",
    "run": "int32",
    "step": "int64",
    "regret": "float64",
    "clicks": "float64",
}
"""The columns of results and their Arrow types: one row for each run and window of steps."""


@dataclass(frozen=True)
class Summary:
    """A trace in a few numbers; intervals are over runs, at 95%."""

    policy: str
    model: str
    query: str
    runs: int
    steps: int
    regret: Interval
    """Expected regret over all steps."""
    last_regret: Interval
    """Expected regret a step in the last window."""
    tail: float
    """The 90th percentile of the regret over all steps."""
    losing: float
    """The share of runs with a regret above 0.001 a step in the last tenth of their steps."""
    clicks: Interval
    """Clicks a step."""
    final_lists: list[list[int]]
    """For each run, the list that the policy would show if it stopped exploring."""
    steps_per_second: float
    """On one core."""
    against: Against
    """The list that regret is against."""
    settled: list[int | None]
    """For each run, its last step if it ended early because its list was settled."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, for JSON."""
        intervals = {
            name: value._asdict() for name, value in vars(self).items() if isinstance(value, Interval)
        }
        return {**asdict(self), **intervals}

    def __str__(self) -> str:
        lists = sorted({str(ranking) for ranking in self.final_lists}, key=self._count, reverse=True)
        return "\n".join(
            [
                f"{self.policy} on {self.model}{' of ' + self.query if self.query else ''}: "
                f"{counted(self.runs, 'run')} of {self.steps:,} steps, {self.steps_per_second:,.0f} steps per second",
                f"regret    {self._spelled(self.regret, ',.1f')}, against {AGAINST[self.against]}",
                f"  tail    90th percentile {self.tail:,.1f}; {self.losing:.0%} of runs still losing clicks at the end",
                f"  at end  {self._spelled(self.last_regret, '.3g', ' per step')}",
                f"clicks    {self._spelled(self.clicks, '.4f', ' per step')}",
                *(
                    f"list      {ranking} in {self._count(ranking)} of {counted(self.runs, 'run')}"
                    for ranking in lists
                ),
            ]
        )

    def _spelled(self, interval: Interval, form: str, unit: str = "") -> str:
        """A mean with its interval, which a single run does not have."""
        mean, low, high = (format(value, form) for value in interval)
        return f"{mean}{unit}" if self.runs == 1 else f"{mean}{unit} ({low} to {high})"

    def _count(self, ranking: str) -> int:
        return sum(str(other) == ranking for other in self.final_lists)


@dataclass(frozen=True, repr=False)
class Trace:
    """The runs of one policy against one click model."""

    policy: str
    model: str
    query: str
    runs: IntArray
    """The number of each run that finished."""
    steps: IntArray
    """The last step of each window."""
    regret: FloatArray
    """By run and window: the expected regret a step, the reward of the list that it is against less that of the list
    shown."""
    clicks: FloatArray
    """By run and window: clicks a step."""
    final_lists: list[list[int]]
    """By run: the list that the policy would show if it stopped exploring."""
    seconds: float
    """Time on a core, over all runs."""
    against: Against = "clicks"
    """The list that regret is against."""
    settled: Sequence[int | None] = ()
    """By run: its last step, if it ended early because its list was settled; the rest is as its last tenth was."""

    @property
    def window_sizes(self) -> IntArray:
        """How many steps each window has."""
        return np.diff(self.steps, prepend=0)

    @property
    def cumulative_regret(self) -> FloatArray:
        """By run and window: the expected regret of all steps to the window's end."""
        return np.cumsum(self.regret * self.window_sizes, axis=1)

    def summary(self) -> Summary:
        """The trace in a few numbers."""
        steps = int(self.steps[-1])
        late = last_tenth(self.steps)
        late_steps = self.window_sizes[late].sum()
        least = 0.0 if self.against == "clicks" else -math.inf
        regret = self.cumulative_regret[:, -1]
        taken = sum(self.settled[i] or steps if self.settled else steps for i in range(len(self.runs)))
        return Summary(
            policy=self.policy,
            model=self.model,
            query=self.query,
            runs=len(self.runs),
            steps=steps,
            regret=mean_interval(regret, least),
            last_regret=mean_interval(self.regret[:, -1], least),
            tail=float(np.quantile(regret, TAIL)),
            losing=float((self.regret[:, late] @ self.window_sizes[late] > LOSING * late_steps).mean()),
            clicks=mean_interval(self.clicks @ self.window_sizes / steps),
            final_lists=self.final_lists,
            steps_per_second=taken / max(self.seconds, 1e-9),
            against=self.against,
            settled=[*self.settled],
        )

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        regret = self.cumulative_regret[:, -1].mean()
        of = f" of {self.query}" if self.query else ""
        size = f"{counted(len(self.runs), 'run')} of {self.steps[-1]:,} steps"
        return f"<Trace of {self.policy} on {self.model}{of}: {size}, regret {regret:,.1f}>"

    def to_table(self) -> "pa.Table":
        """One row for each run and window, as an Arrow table."""
        from clickbandit.extras import pa

        n_runs, n_windows = self.regret.shape
        n = n_runs * n_windows
        return pa.table(
            [
                pa.repeat(self.policy, n),
                pa.repeat(self.model, n),
                pa.repeat(self.query, n),
                np.repeat(self.runs, n_windows).astype(np.int32),
                np.tile(self.steps, n_runs),
                self.regret.ravel(),
                self.clicks.ravel(),
            ],
            schema=pa.schema(COLUMNS.items()),
        )

    def plot(self) -> "Chart":
        """A chart of the regret a step, which shows in a notebook and saves as SVG, PNG, PDF or HTML."""
        from clickbandit.report.charts import regret_chart

        return regret_chart(self.to_table())
