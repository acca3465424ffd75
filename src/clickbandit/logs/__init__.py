"""Click logs: reading and counting them, fitting click models to the counts, choosing queries, evaluating
fits."""

from clickbandit.logs.choosing import choose_queries
from clickbandit.logs.counting import count_log
from clickbandit.logs.counts import Counts
from clickbandit.logs.evaluating import Evaluation, evaluate
from clickbandit.logs.fitting import Fit, fit
from clickbandit.logs.generating import generate_log
from clickbandit.logs.reading import Reading
from clickbandit.logs.realistic import write_realistic_log

__all__ = [
    "Counts",
    "Evaluation",
    "Fit",
    "Reading",
    "choose_queries",
    "count_log",
    "evaluate",
    "fit",
    "generate_log",
    "write_realistic_log",
]
