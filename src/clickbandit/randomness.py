"""Random streams: one of its own for each run of a policy, simulated or live, whatever else is run."""

import hashlib
import json

import numpy as np


def generators(
    seed: int, query: str, model: str, policy: str, run: int
) -> tuple[np.random.Generator, np.random.Generator]:
    """The policy's and the users' generators: a stream of their own for each run, whatever else is run."""
    name = json.dumps([seed, query, model, policy, run]).encode()
    entropy = int.from_bytes(hashlib.sha256(name).digest(), "little")
    policy_seed, users_seed = np.random.SeedSequence(entropy).spawn(2)
    # SFC64 is the quickest of NumPy's generators here: a tenth of a step's time less than the default
    return np.random.Generator(np.random.SFC64(policy_seed)), np.random.Generator(np.random.SFC64(users_seed))
