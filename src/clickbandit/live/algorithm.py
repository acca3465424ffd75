"""A policy, ready to run live: its functions, compiled once when the ranker starts."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from clickbandit.compiling.generator import addresses
from clickbandit.compiling.kernel import is_compiled
from clickbandit.compiling.specialise import specialise
from clickbandit.errors import InputError
from clickbandit.live.kernels import unknown
from clickbandit.policies.base import Policy, parse_policy
from clickbandit.policies.possible import impossible
from clickbandit.priors import Prior

_TRIAL_HORIZON = 1000


class LiveAlgorithm:
    """What a learner calls: the kernels of a policy, and the optional functions that it has."""

    def __init__(self, policy: Policy, known: dict[Any, Any]) -> None:
        """`known` has the machine code of policies that differ in their settings alone."""
        needs = [name for name in policy.needs if name != "order"]
        if needs:
            settable = all(hasattr(policy, name) for name in needs)
            raise InputError(
                f"{policy.name} must be told the users' {', '.join(needs)}, which only a simulation knows: "
                f"{'give it as a setting' if settable else 'choose another policy'}"
            )
        self.policy = policy
        self.name = str(policy)
        algorithm, live = policy.algorithm, policy.live
        propensity, prefix = live.propensity or unknown, live.prefix or unknown
        kernels = known.get((algorithm, propensity, prefix))
        if kernels is None:
            functions = (algorithm.void, propensity, prefix)
            kernels = known[algorithm, propensity, prefix] = specialise(
                "clickbandit.live.kernels",
                compiled=policy.compiled and all(map(is_compiled, functions)),
                sources=[algorithm.init],
                policy=vars(algorithm),
                chances={"propensity": propensity, "prefix": prefix},
            )
        self.serve, self.learn, self.give_back = kernels.serve, kernels.learn, kernels.give_back
        self.random = addresses if is_compiled(kernels.serve) else lambda rng: rng
        """What `serve` takes for a generator, which must be kept as long."""
        self.states_chances = live.propensity is not None
        self.states_prefix = live.prefix is not None
        self.memo_size, self.best = algorithm.memo_size, algorithm.best
        self.describe, self.renumber = live.describe, live.renumber
        self.admit, self.retire = live.admit, live.retire
        self.teach, self.expect = live.teach, live.expect
        self.learns_any = algorithm.learns_any_list

    def start(self, n_items: int, n_positions: int, horizon: int, prior: Prior | None = None) -> Any:
        """The state before the first list."""
        told: dict[str, Any] = {"order": range(n_items)} if "order" in self.policy.needs else {}
        return self.policy.start(n_items, n_positions, horizon=horizon, prior=prior, **told)

    @lru_cache(1000)  # noqa: B019  # an algorithm lives as long as the process
    def size(self, n_items: int, n_positions: int, horizon: int) -> int:
        """How many bytes the state of a query takes."""
        state = self.start(n_items, n_positions, horizon)
        return sum(value.nbytes for value in state if isinstance(value, np.ndarray))

    def restore(self, values: Sequence[Any], n_items: int, n_positions: int, horizon: int) -> Any:
        """A state of these values, if it can be one: kernels do not check bounds, and would crash the process."""
        fresh = self.start(n_items, n_positions, horizon)
        if len(values) != len(fresh):
            raise InputError(f"{self.name}: its state has {len(fresh)} fields now, found {len(values)}")
        state = type(fresh)(*values)
        wrong = impossible(self.policy, state, fresh, n_positions)
        if wrong is not None:
            raise ValueError(wrong)
        return state

    @cached_property
    def divides(self) -> bool:
        """Whether it ever groups items, eliminates any or settles: histories and rules depend on it."""
        told = self.describe(self.start(3, 2, _TRIAL_HORIZON)) if self.describe is not None else {}
        return bool({"groups", "settled"} & told.keys()) or any(
            "eliminated" in entry for entry in told.get("items", ())
        )

    def warm_up(self) -> None:
        """Compile, or load what was compiled, and say in one sentence if the policy cannot run."""
        try:
            state = self.start(3, 2, _TRIAL_HORIZON)
            rng = np.random.Generator(np.random.SFC64(0))
            ranking, clicks = np.zeros(2, np.int64), np.zeros(2, np.int64)
            memo, chances, whole = np.zeros(self.memo_size(3, 2)), np.zeros(2), np.zeros(2)
            random = self.random(rng)
            self.serve(state, random, ranking, memo, chances, whole)
            self.give_back(state, ranking, memo)
            self.serve(state, random, ranking, memo, chances, whole)
            self.learn(state, ranking, clicks, memo)
            self.best(state, ranking)
        except NumbaError as error:
            raise InputError(f"{self.name}: it cannot be compiled: {error}") from error
        except Exception as error:
            raise InputError(f"{self.name}: it cannot run: {type(error).__name__}: {error}") from error


class Algorithms:
    """Every policy in use, by its spelling."""

    def __init__(self) -> None:
        self._known: dict[str, LiveAlgorithm] = {}
        self._kernels: dict[Any, Any] = {}

    def add(self, policy: Policy | str) -> LiveAlgorithm:
        """A policy that is ready to run; compiled now if it was not."""
        if isinstance(policy, str):
            if policy in self._known:
                return self._known[policy]
            policy = parse_policy(policy)
        name = str(policy)
        if name not in self._known:
            algorithm = LiveAlgorithm(policy, self._kernels)
            algorithm.warm_up()
            self._known[name] = algorithm
        return self._known[name]
