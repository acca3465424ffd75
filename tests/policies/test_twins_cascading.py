"""Cascading and ranked bandits show the lists of their plain twins, step by step, on the same random numbers."""

import math

import pytest

from clickbandit.policies.cascade_ducb import MAX_WEIGHT
from naive.side_by_side import MODELS, cm, compare, pbm

STEPS = 2000
FEEDBACK = ["", ":feedback=last", ":feedback=full"]
PROBLEMS = [
    ("CM, 6 items", 3),
    ("PBM, 5 items", 5),
    ("CM, 6 items", 1),
    ("PBM, 30 items", 7),
    ("PBM, 1 item", 1),
]
CASCADES = ["cascade-ucb1", "cascade-ucb-v", "ts-cascade", "cts"]
RANKED = ["ranked-ucb1", "ranked-kl-ucb"]


# --- CascadeUCB1, CascadeUCB-V, TS-Cascade, CTS -------------------------------------------------------------


@pytest.mark.parametrize(("model", "positions"), PROBLEMS)
@pytest.mark.parametrize("policy", CASCADES)
def test_cascades(policy: str, model: str, positions: int) -> None:
    twin = compare(policy, MODELS[model], positions, steps=STEPS)
    assert twin.t == STEPS
    assert sum(twin.observed.values()) >= STEPS
    if policy == "cts":
        assert twin.ties == 0  # two draws of a continuous law are never the same
    elif positions > 1:
        assert twin.ties > 0


@pytest.mark.parametrize("feedback", FEEDBACK)
@pytest.mark.parametrize("policy", CASCADES)
def test_cascades_learn_from_more_positions(policy: str, feedback: str) -> None:
    twin = compare(policy + feedback, MODELS["PBM, 7 items"], 4, steps=STEPS)
    looks = sum(twin.observed.values()) / STEPS
    assert (looks == 4) == (feedback == ":feedback=full")
    assert (looks < 2.5) == (feedback == "")  # down to the last click there are some three of them


@pytest.mark.parametrize("policy", CASCADES)
@pytest.mark.parametrize("delay", [1, 60])
def test_cascades_with_late_feedback(policy: str, delay: int) -> None:
    """At first nothing is known: with a delay of 60 steps all 30 items were in front before the first click is in."""
    twin = compare(policy, MODELS["CM, 30 items"], 7, steps=STEPS, delay=delay)
    if policy != "cts":
        assert twin.ties >= delay - 30


@pytest.mark.parametrize("policy", ["cascade-ucb1", "cascade-ucb-v", "ts-cascade", "cascade-swucb"])
def test_many_ties(policy: str) -> None:
    """Items that nobody clicks have the same index as soon as they were seen equally often."""
    twin = compare(f"{policy}:feedback=full", cm([0.0] * 6), 4, steps=1500)
    assert twin.ties > 1500 // 4


def test_cascade_ucb_v_with_other_exploration() -> None:
    compare("cascade-ucb-v:exploration=0.3", MODELS["CM, 5 items"], 2, steps=STEPS)


# --- dcmKL-UCB ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("termination", "model", "positions", "delay"),
    [
        ("", "CM, 6 items", 3, 0),
        ("", "PBM, 5 items", 5, 0),
        ("", "PBM, 1 item", 1, 0),
        ("0.3/0.3/0.6/0.1", "PBM, 7 items", 4, 0),
        ("0.1/0.2/0.3/0.4/0.5", "PBM, 5 items", 5, 0),
        ("0.5", "CM, 6 items", 1, 0),
        ("0.2/0.9/0.2/0.9/0.2/0.1/0", "PBM, 30 items", 7, 25),
    ],
)
def test_dcm_kl_ucb(termination: str, model: str, positions: int, delay: int) -> None:
    policy = f"dcm-kl-ucb:termination={termination}" if termination else "dcm-kl-ucb"
    twin = compare(policy, MODELS[model], positions, steps=2000, delay=delay)
    assert positions == 1 or twin.ties > 0
    assert (twin.moved > 1900) == (len(termination) > 3)


# --- GLRT-CascadeKL-UCB -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "model", "positions", "delay", "restarts"),
    [
        ("", "CM, 6 items", 3, 0, False),
        ("", "PBM, 1 item", 1, 0, False),
        ("", "PBM, 30 items", 7, 25, True),
        (":feedback=last,false_alarm=0.9,exploration=0.02", "PBM, 6 items", 3, 25, True),
        (":feedback=last,false_alarm=0.9,exploration=0.02", "PBM, 30 items", 7, 25, True),
    ],
)
def test_glrt_cascade_kl_ucb(settings: str, model: str, positions: int, delay: int, restarts: bool) -> None:
    """What is no cascade can look like a change: an item is clicked less the lower it stands."""
    twin = compare(f"glrt-cascade-kl-ucb{settings}", MODELS[model], positions, steps=4000, delay=delay)
    assert (twin.restarts > 0) == restarts
    if not restarts:
        assert max(length for blocks in twin.blocks.values() for length, _ in blocks) >= 256


# --- CascadeDUCB and CascadeSWUCB ---------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "positions"), PROBLEMS)
def test_cascade_ducb(model: str, positions: int) -> None:
    twin = compare("cascade-ducb", MODELS[model], positions, steps=STEPS)
    # what is discounted adds up to at most 1 / (1 - g) lists
    assert sum(twin.observed.values()) < positions * 4 * 1000**0.5 + 1


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_cascade_ducb_that_forgets_quickly(feedback: str) -> None:
    """In these steps the kernel's weights leave their range three times, and start from 1 again.

    The items are clicked so often that no two have the same history for so long that the rest is rounded away.
    """
    settings = f"{feedback},discount=0.9" if feedback else ":discount=0.9"
    twin = compare(f"cascade-ducb{settings}", MODELS["PBM, 5 items"], 3, steps=8000)
    assert 8000 * math.log(1 / 0.9) > 3 * math.log(MAX_WEIGHT)
    assert sum(twin.observed.values()) < 31


@pytest.mark.parametrize("delay", [1, 60])
def test_cascade_ducb_with_late_feedback(delay: int) -> None:
    twin = compare("cascade-ducb:exploration=0.05", MODELS["PBM, 7 items"], 4, steps=STEPS, delay=delay)
    assert twin.late == STEPS - delay
    assert twin.ties >= delay - 7


@pytest.mark.parametrize(("model", "positions"), PROBLEMS)
def test_cascade_swucb(model: str, positions: int) -> None:
    """The horizon of 1000 steps gives a window of 167 lists."""
    twin = compare("cascade-swucb", MODELS[model], positions, steps=1000)
    assert twin.window == 167
    assert twin.forgotten == 1000 - 1 - 167  # the last list is made before another one leaves


@pytest.mark.parametrize("feedback", FEEDBACK)
@pytest.mark.parametrize("window", [1, 2, 40])
def test_cascade_swucb_with_a_short_window(feedback: str, window: int) -> None:
    settings = f"{feedback},window={window}" if feedback else f":window={window}"
    twin = compare(f"cascade-swucb{settings}", MODELS["PBM, 7 items"], 4, steps=1000)
    assert twin.forgotten == 1000 - 1 - window
    assert twin.ties > 0


@pytest.mark.parametrize(("delay", "ignored"), [(1, 0), (49, 0), (50, 1), (70, 1)])
def test_cascade_swucb_with_late_feedback(delay: int, ignored: int) -> None:
    """Feedback that is older than the window of 50 lists is ignored, and all of it is with a delay of 50 steps."""
    twin = compare("cascade-swucb:window=50", MODELS["PBM, 7 items"], 4, steps=1000, delay=delay)
    assert twin.ignored == ignored * (1000 - delay)
    assert twin.forgotten == (1 - ignored) * (1000 - 1 - 50)


# --- RankedUCB1 and RankedKL-UCB ----------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "positions"), PROBLEMS)
@pytest.mark.parametrize("policy", RANKED)
def test_ranked(policy: str, model: str, positions: int) -> None:
    twin = compare(policy, MODELS[model], positions, steps=1000)
    assert model == "PBM, 1 item" or twin.ties > 0
    assert positions == 1 or twin.replaced > 100


@pytest.mark.parametrize("policy", RANKED)
def test_ranked_with_late_feedback(policy: str) -> None:
    twin = compare(policy, pbm([0.9, 0.5, 0.1, 0.05]), 3, steps=1000, delay=50)
    assert twin.ties > 3 * 50
    assert twin.replaced > 100


def test_ranked_ucb1_with_other_exploration() -> None:
    compare("ranked-ucb1:exploration=2", MODELS["PBM, 7 items"], 4, steps=2000)
    twin = compare("ranked-ucb1:exploration=0", MODELS["PBM, 7 items"], 4, steps=2000)
    assert twin.ties > 0
