"""The interaction of a policy with users, step by step: a template for `compiling.specialise`."""

from clickbandit.click_models.cm import click, click_probability  # model
from clickbandit.compiling.generator import give_back, take
from clickbandit.compiling.kernel import slow_path
from clickbandit.policies.random import rank, update  # policy
from clickbandit.simulation.memory import Scene


@slow_path
def take_steps(scene: Scene, step: int, steps: int) -> tuple[float, int]:
    """Take `steps` steps; the expected regret and the clicks of these steps.

    `step` matters only where feedback comes late (see `delayed`).
    """
    state, params, _, _, slots, best_reward = scene
    rng, users = take(scene.rng), take(scene.users)
    ranking, clicked, memo = slots.rankings[0], slots.clicks[0], slots.memos[0]
    probability = slots.probability
    regret = 0.0
    n_clicks = 0
    for _ in range(steps):
        rank(state, rng, ranking, memo)
        click(params, users, ranking, clicked)
        click_probability(params, ranking, probability)
        reward = 0.0
        for k in range(len(ranking)):
            reward += probability[k]
            n_clicks += clicked[k]
        regret += best_reward - reward
        update(state, ranking, clicked, memo)
    give_back(scene.rng, rng)
    give_back(scene.users, users)
    return regret, n_clicks
