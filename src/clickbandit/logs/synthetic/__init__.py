"""Synthetic logs: of users who click by given click models, or invented whole."""

from clickbandit.logs.synthetic.generate import generate_log
from clickbandit.logs.synthetic.realistic import write_realistic_log

__all__ = ["generate_log", "write_realistic_log"]
