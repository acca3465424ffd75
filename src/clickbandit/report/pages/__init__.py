"""Whole reports: a page for each kind of experiment, and its figures for print."""
