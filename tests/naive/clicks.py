"""Click models told as stories of one user, in plain Python.

A story is a function `(model, ranking, coin)`, where `coin(p)` comes up true with probability p. It has one
coin for every latent variable of the model (attraction, examination, satisfaction, relevance, continuation),
and running it through all ways in which the coins may fall gives the law of clicks. `click` says which
numbers a simulated user draws: coins that nobody sees the result of are drawn as one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Coin = Callable[[float], bool]
Positions = list[int]


class Story:
    """What is recorded of a user: the positions examined and clicked, counted from 0."""

    def __init__(self) -> None:
        self.examined: Positions = []
        self.clicked: Positions = []


def cm_story(model: Any, ranking: Sequence[int], coin: Coin) -> Story:
    story = Story()
    for k, item in enumerate(ranking):
        story.examined.append(k)
        if coin(model.attraction[item]):
            story.clicked.append(k)
            return story
    return story


def pbm_story(model: Any, ranking: Sequence[int], coin: Coin) -> Story:
    story = Story()
    for k, item in enumerate(ranking):
        if coin(model.examination[k]):
            story.examined.append(k)
            if coin(model.attraction[item]):
                story.clicked.append(k)
    return story


def dcm_story(model: Any, ranking: Sequence[int], coin: Coin) -> Story:
    story = Story()
    for k, item in enumerate(ranking):
        story.examined.append(k)
        if coin(model.attraction[item]):
            story.clicked.append(k)
            goes_on = coin(1 - model.termination[k])
            if not goes_on:
                return story
    return story


def sdbn_story(model: Any, ranking: Sequence[int], coin: Coin) -> Story:
    story = Story()
    for k, item in enumerate(ranking):
        story.examined.append(k)
        if coin(model.attraction[item]):
            story.clicked.append(k)
            satisfied = coin(model.satisfaction[item])
            if satisfied:
                return story
    return story


def dbn_story(model: Any, ranking: Sequence[int], coin: Coin) -> Story:
    story = Story()
    for k, item in enumerate(ranking):
        story.examined.append(k)
        if coin(model.attraction[item]):
            story.clicked.append(k)
            satisfied = coin(model.satisfaction[item])
            if satisfied:
                return story
        if not coin(model.continuation):
            return story
    return story


def ccm_story(model: Any, ranking: Sequence[int], coin: Coin) -> Story:
    story = Story()
    for k, item in enumerate(ranking):
        story.examined.append(k)
        if coin(model.attraction[item]):
            story.clicked.append(k)
            relevant = coin(model.attraction[item])
            goes_on = coin(model.continue_click_relevant if relevant else model.continue_click_irrelevant)
        else:
            goes_on = coin(model.continue_no_click)
        if not goes_on:
            return story
    return story


def ubm_story(model: Any, ranking: Sequence[int], coin: Coin) -> Story:
    story = Story()
    for k, item in enumerate(ranking):
        row = model.examination[k]
        if coin(row[story.clicked[-1]] if story.clicked else row[-1]):
            story.examined.append(k)
            if coin(model.attraction[item]):
                story.clicked.append(k)
    return story


STORIES = {
    "CM": cm_story,
    "PBM": pbm_story,
    "DCM": dcm_story,
    "SDBN": sdbn_story,
    "DBN": dbn_story,
    "CCM": ccm_story,
    "UBM": ubm_story,
}


# --- the law, by all ways in which the coins may fall -------------------------------------------------------


def outcomes(model: Any, ranking: Sequence[int]) -> Iterator[tuple[float, Story]]:
    """Everything that may happen, each with its probability."""
    if hasattr(model, "models"):
        for share, component in zip(model.shares, model.models, strict=True):
            for probability, story in outcomes(component, ranking):
                yield share * probability, story
        return
    unexplored: list[list[bool]] = [[]]
    while unexplored:
        script = unexplored.pop()
        fallen: list[bool] = []
        probability = 1.0

        def coin(p: float, script: list[bool] = script, fallen: list[bool] = fallen) -> bool:
            nonlocal probability
            if len(fallen) < len(script):
                side = script[len(fallen)]
            else:
                side = True
                unexplored.append([*fallen, False])
            fallen.append(side)
            probability *= p if side else 1 - p
            return side

        story = STORIES[model.name](model, ranking, coin)
        yield probability, story


def law(model: Any, ranking: Sequence[int]) -> tuple[dict[tuple[int, ...], float], list[float], list[float]]:
    """The probability of each click vector, of a click at each position, and of examining each position."""
    vectors: dict[tuple[int, ...], float] = {}
    clicked = [0.0] * len(ranking)
    examined = [0.0] * len(ranking)
    for probability, story in outcomes(model, ranking):
        vector = tuple(int(k in story.clicked) for k in range(len(ranking)))
        vectors[vector] = vectors.get(vector, 0.0) + probability
        for k in story.clicked:
            clicked[k] += probability
        for k in story.examined:
            examined[k] += probability
    return vectors, clicked, examined


# --- one user's clicks, draw by draw ------------------------------------------------------------------------


def click(model: Any, ranking: Sequence[int], rng: np.random.Generator) -> list[int]:
    """One user's clicks from the same draws that the compiled model makes."""

    def coin(p: float) -> bool:
        return rng.random() < p

    clicks = [0] * len(ranking)
    if hasattr(model, "models"):
        draw, *bounds = rng.random(), *np.cumsum(model.shares)[:-1]
        return click(model.models[sum(draw >= bound for bound in bounds)], ranking, rng)
    if model.name == "CM":
        goes_on = np.cumprod([1 - model.attraction[item] for item in ranking])
        k = int((rng.random() < goes_on).sum())
        return [int(position == k) for position in range(len(ranking))]
    for k, item in enumerate(ranking):
        a = model.attraction[item]
        if model.name == "PBM":
            clicks[k] = int(coin(model.examination[k] * a))
        elif model.name == "UBM":
            last = max((p for p in range(k) if clicks[p]), default=k)
            clicks[k] = int(coin(model.examination[k][last] * a))
        else:
            clicks[k] = int(coin(a))
            if _leaves(model, k, item, clicks[k], coin):
                break
    return clicks


def _leaves(model: Any, k: int, item: int, clicked: int, coin: Coin) -> bool:
    a = model.attraction[item]
    match model.name, bool(clicked):
        case "DCM", True:
            return coin(model.termination[k])
        case "SDBN", True:
            return coin(model.satisfaction[item])
        case "DBN", True:
            return not coin(model.continuation * (1 - model.satisfaction[item]))
        case "DBN", False:
            return not coin(model.continuation)
        case "CCM", True:
            return not coin(model.continue_click_irrelevant * (1 - a) + model.continue_click_relevant * a)
        case "CCM", False:
            return not coin(model.continue_no_click)
    return False
