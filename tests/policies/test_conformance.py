"""Every registered policy keeps the contract, and the public check finds those that do not."""

from collections import namedtuple
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clickbandit import Algorithm, CascadeModel, InputError, Policy, PositionBasedModel
from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.policies.contract import Live
from clickbandit.testing import check_policy, policies
from naive.recorded import Recorded

OTHER_SETTINGS = [
    "batchrank:variant=experiment",
    "batchrank:bounds=hoeffding,eliminate=false",
    "cascade-kl-ucb:feedback=last,budget=log t",
    "cascade-kl-ucb:feedback=full",
    "ranked-exp3:mixing=true",
    "cascade-ucb1:feedback=full",
    "cascade-ucb-v:feedback=last,exploration=0.5",
    "ts-cascade:feedback=last",
    "cts:feedback=full",
    "cascade-ducb:discount=0.8",
    "cascade-swucb:window=3",
    "ranked-ucb1:exploration=2",
]


@pytest.mark.parametrize("policy", policy_names())
def test_policy_keeps_the_contract(policy, monkeypatch):
    """On users whose machine code the comparisons with twins have too."""
    usual = policies._model
    monkeypatch.setattr(policies, "_model", lambda n_items: Recorded(usual(n_items)))
    check_policy(parse_policy(policy))


@pytest.mark.parametrize("policy", OTHER_SETTINGS)
def test_policy_keeps_the_contract_with_other_settings(policy):
    """On one problem: what differs with the size was seen with the defaults."""
    check_policy(parse_policy(policy), Recorded(policies._model(5)), 3)


def test_on_a_given_model():
    check_policy(parse_policy("batchrank"), CascadeModel(attraction=[0.5, 0.4, 0.1]), 2)
    users = Recorded(CascadeModel(attraction=[0.5, 0.4, 0.1]))  # whose machine code others have too
    check_policy(parse_policy("dcm-kl-ucb:termination=0.1/0.9"), users, 2)


State = namedtuple("State", ["count"])


def init(n_items, n_positions, *, horizon):
    return State(np.zeros(n_items))


def memo_size(n_items, n_positions):
    return 1


def rank(state: Any, rng, ranking, memo):
    ranking[:] = np.argsort(-state.count, kind="stable")[: len(ranking)]
    memo[0] = 1


def update(state: Any, ranking, clicks, memo):
    state.count[ranking] += clicks


def best(state: Any, ranking):
    ranking[:] = np.arange(len(ranking))


class Honest(Policy):
    """Items by their clicks: each broken policy below changes one thing."""

    algorithm = Algorithm(init, memo_size, rank, update, best)


def changed(algorithm: dict[str, Any], **live: Any) -> Policy:
    """The honest policy with other functions."""
    records = {"algorithm": replace(Honest.algorithm, **algorithm), "live": Live(**live)}
    return type("Changed", (Policy,), records)()


def test_an_honest_policy_passes():
    check_policy(Honest())


def twice(state, rng, ranking, memo):
    ranking[:] = 0
    memo[0] = 1


def outside(state, rng, ranking, memo):
    ranking[:] = np.arange(len(ranking)) + len(state.count)
    memo[0] = 1


def no_memo(state, rng, ranking, memo):
    ranking[:] = np.arange(len(ranking))


def own_randomness(state, rng, ranking, memo):
    ranking[:] = np.random.default_rng().permutation(len(state.count))[: len(ranking)]
    memo[0] = 1


def meddle(state, ranking, clicks, memo):
    clicks[:] = 0


def learning_best(state, ranking):
    ranking[:] = np.arange(len(ranking))
    state.count[0] += 1


def beyond_the_memo(state, rng, ranking, memo):
    rank(state, rng, ranking, memo)
    memo[1] = 1


def forgetful(n_items, n_positions, *, horizon):
    return State([0] * n_items)


@pytest.mark.parametrize(
    ("function", "broken", "message"),
    [
        ("rank", twice, "gave an item twice"),
        ("rank", outside, "must give items from 0"),
        ("rank", no_memo, "must write every entry of the memo"),
        ("rank", beyond_the_memo, "rank failed: IndexError: index 1 is out of bounds"),
        (
            "memo_size",
            lambda n_items, n_positions: -1,
            "memo_size must be a whole number, 0 or more, found -1",
        ),
        ("memo_size", lambda n_items, n_positions: 1.5, "a whole number, 0 or more, found 1.5"),
        ("init", lambda n_items, n_positions: None, "init failed: TypeError"),
        ("rank", own_randomness, "the same seed must give the same lists"),
        ("update", meddle, "must not change the list, clicks or memo"),
        ("best", learning_best, "best must not change the state"),
        ("init", forgetful, "must be an array or a number"),
    ],
)
def test_a_broken_policy_is_found(function, broken, message):
    with pytest.raises(AssertionError, match=message):
        check_policy(changed({function: broken}))


def wrong_propensity(state, ranking, memo, out):
    out[:] = 0.5


def meddling_propensity(state, ranking, memo, out):
    out[:] = 1
    state.count[:] += 1


def wrong_groups(state):
    """Claims that each position is fixed."""
    entries = [{"item": item} for item in range(len(state.count))]
    groups = [{"first": k + 1, "last": k + 1, "items": [k]} for k in range(3)]
    return {"items": entries, "groups": groups, "settled": True}


def wrong_keys(state):
    return {"items": [{"item": item, "estimate": None} for item in range(len(state.count))]}


def admit(state, n_new):
    return State(np.append(state.count, np.zeros(n_new)))


def retire(state, item):
    return State(np.delete(state.count, item))


def forgetful_retire(state, item):
    return State(np.append(np.delete(state.count, item), state.count.max() + 1))  # it is the last one now


def retire_to_another_type(state, item):
    return State(np.delete(state.count, item).astype(np.int64))


def careless_void(state, ranking, memo):
    state.count[ranking] += 0


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"propensity": wrong_propensity}, "0.5"),
        ({"propensity": meddling_propensity}, "must change nothing but `out`"),
        ({"describe": wrong_groups}, "where only"),
        ({"describe": wrong_keys}, "estimate: None"),
        ({"admit": admit, "retire": forgetful_retire}, "possible must be true of every state"),
        ({"admit": admit, "retire": retire_to_another_type}, "must keep the types"),
        ({"admit": admit, "retire": retire, "void": careless_void}, "must not look at an item that is gone"),
    ],
)
def test_a_broken_optional_function_is_found(functions, message):
    live = {name: function for name, function in functions.items() if name != "void"}
    policy = changed({name: functions[name] for name in functions if name == "void"}, **live)
    with pytest.raises(AssertionError, match=message):
        check_policy(
            policy, PositionBasedModel(attraction=[0.1, 0.2, 0.9, 0.8, 0.7], examination=[1, 0.6, 0.5]), 3
        )


TOPRANK: Any = parse_policy("toprank").leaps


def absorb_nothing(state, observed, clicked, together):
    pass


def keep(state, prior):
    return state


def to_floats(state, prior):
    return State((-np.argsort(prior.order)).astype(np.float32))


@pytest.mark.parametrize(
    ("prime", "message"),
    [(keep, "of the prior's first items"), (to_floats, "must keep the types of the state")],
)
def test_a_broken_prime_is_found(prime, message):
    model = PositionBasedModel(attraction=[0.1, 0.2, 0.9, 0.8, 0.7], examination=[1, 0.6, 0.5])
    with pytest.raises(AssertionError, match=message):
        check_policy(changed({"prime": prime}), model, 3)


@pytest.mark.parametrize(
    ("policy", "leaps", "message"),
    [
        ("toprank", replace(TOPRANK, in_pairs=False), "a run by leaps failed: IndexError: index 0 is out of"),
        (
            "toprank",
            parse_policy("batchrank").leaps,
            "a run by leaps failed: AttributeError: 'State' object has",
        ),
        (
            "toprank",
            replace(TOPRANK, absorb=absorb_nothing),
            "runs of 300 steps by leaps had .* regret on average",
        ),
    ],
)
def test_broken_leaps_are_found(policy, leaps, message):
    broken = type("Broken", (type(parse_policy(policy)),), {"leaps": leaps})
    with pytest.raises(AssertionError, match=message):
        check_policy(broken(), PositionBasedModel(attraction=[0.9, 0.5, 0.2], examination=[1, 0.8]), 2)


def test_items_may_come_and_go():
    check_policy(changed({}, admit=admit, retire=retire))


def test_hidden_state_is_found():
    """Two rankers at once would mix what they learn."""
    hidden = np.zeros(100)

    def rank(state, rng, ranking, memo):
        ranking[:] = np.argsort(-hidden[: len(state.count)], kind="stable")[: len(ranking)]
        memo[0] = 1

    def update(state, ranking, clicks, memo):
        hidden[ranking] += clicks

    with pytest.raises(AssertionError, match="outside its state"):
        check_policy(changed({"rank": rank, "update": update}))


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ("leaps", r"Mistaken: leaps must be Leaps\(...\) or Margins\(...\), found 3$"),
        ("live", r"Mistaken: live must be Live\(...\), found 3$"),
        ("algorithm", r"Mistaken: algorithm must be Algorithm\(...\), found 3$"),
    ],
)
def test_what_is_no_record_of_functions_is_refused(record, sentence):
    with pytest.raises(InputError, match=sentence):
        type("Mistaken", (Honest,), {record: 3})()


def test_a_policy_without_its_functions_is_refused():
    with pytest.raises(InputError, match=r"Nothing: its class must name its functions, as in algorithm = "):
        type("Nothing", (Policy,), {})()
