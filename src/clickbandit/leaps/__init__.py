"""Many steps at once, exact in distribution."""
