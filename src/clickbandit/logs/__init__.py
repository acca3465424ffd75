"""Click logs: read and count them, fit click models to the counts, select queries, evaluate the fits."""

from clickbandit.extras import duckdb  # noqa: F401  (first: who lacks the extra is told of this one)
from clickbandit.logs.audit import Audit, Evidence, Finding, audit
from clickbandit.logs.count import count_log
from clickbandit.logs.counts import Counts
from clickbandit.logs.evaluate import Evaluation, evaluate
from clickbandit.logs.fit import Doubt, Fit, doubts, fit
from clickbandit.logs.reading import Reading
from clickbandit.logs.select import choose_queries
from clickbandit.logs.synthetic import generate_log, write_realistic_log

__all__ = [
    "Audit",
    "Counts",
    "Doubt",
    "Evaluation",
    "Evidence",
    "Finding",
    "Fit",
    "Reading",
    "audit",
    "choose_queries",
    "count_log",
    "doubts",
    "evaluate",
    "fit",
    "generate_log",
    "write_realistic_log",
]
