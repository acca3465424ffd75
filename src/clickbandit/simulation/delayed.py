"""As `loop`, with feedback that comes some steps late."""

from clickbandit.click_models.cm import click, click_probability  # model
from clickbandit.compiling.generator import give_back, take
from clickbandit.compiling.kernel import slow_path
from clickbandit.policies.random import rank, update  # policy
from clickbandit.simulation.memory import Scene


@slow_path
def take_steps(scene: Scene, step: int, steps: int) -> tuple[float, int]:
    """Take `steps` steps after the first `step`; the expected regret and the clicks of these steps.

    With n + 1 slots, what the users of step t clicked is learned just before step t + n + 1.
    """
    state, params, _, _, slots, best_reward = scene
    rng, users = take(scene.rng), take(scene.users)
    rankings, clicks, memos, probability = slots
    n_slots = len(rankings)
    slot = step % n_slots
    regret = 0.0
    clicked = 0
    for t in range(step, step + steps):
        ranking = rankings[slot]
        rank(state, rng, ranking, memos[slot])
        click(params, users, ranking, clicks[slot])
        click_probability(params, ranking, probability)
        reward = 0.0
        for k in range(len(ranking)):
            reward += probability[k]
            clicked += clicks[slot, k]
        regret += best_reward - reward
        slot = slot + 1 if slot + 1 < n_slots else 0
        if t + 1 >= n_slots:
            update(state, rankings[slot], clicks[slot], memos[slot])
    give_back(scene.rng, rng)
    give_back(scene.users, users)
    return regret, clicked
