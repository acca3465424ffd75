"""Experiments: what to run as data, running it on threads or a Dask cluster, and results on disk."""
