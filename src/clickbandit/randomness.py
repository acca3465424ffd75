"""Random streams: one of its own for each run of a policy, simulated or live, whatever else is run."""

import hashlib
import json
from functools import lru_cache

import numpy as np

STREAMS = 2
"""Raised whenever a change makes the same seed give other runs, so that older runs are not continued."""


def generators(
    seed: int, query: str, model: str, policy: str, run: int
) -> tuple[np.random.Generator, np.random.Generator]:
    """The policy's and the users' generators: streams of their own for each run, whatever else is run.

    All policies meet the same users, as these do not depend on the policy: luck with users is no advantage, and cancels
    out of the difference between two policies.
    """
    policy_seed = _seed(0, seed, query, model, policy, run)
    users_seed = _seed(0, seed, query, model, run)
    # SFC64 is the quickest of NumPy's generators here, and compiled steps draw as it does (compiling/generator.py)
    return np.random.Generator(np.random.SFC64(policy_seed)), np.random.Generator(np.random.SFC64(users_seed))


def circumstances(seed: int, query: str, model: str, run: int) -> np.random.Generator:
    """The generator of what is settled before the first step of a run: how its items are numbered, and what its users
    change to. That, too, is the same for all policies."""
    return np.random.default_rng(_seed(1, seed, query, model, run))


@lru_cache(maxsize=256, typed=True)
def _seed(child: int, *name: int | str) -> np.random.SeedSequence:
    """A seed of this name, by a hash that is the same on every machine: one child of its sequence, as `spawn` gives."""
    root = int.from_bytes(hashlib.sha256(json.dumps(name).encode()).digest(), "little")
    return np.random.SeedSequence(root, spawn_key=(child,))
