"""Defaults that the command line shows, apart from the modules that use them: help must not wait for NumPy."""

TIGHTEST_AT = 100_000
"""At how many impressions a confidence sequence is tightest, unless told otherwise."""
STRENGTH = 200.0
"""How many examinations a prior's attractions are worth by default: enough to hold a good order for the first hundred
impressions, while ClickTS still lets go of a wrong one (`python -m benchmarks.tail`)."""
CLICK_MODELS = ("CM", "PBM", "DCM", "SDBN", "DBN", "CCM", "UBM")
"""The click models that are fitted to a log unless others are named."""
