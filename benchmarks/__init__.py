"""Every speed figure that the README states, by one command: `python -m benchmarks`."""
