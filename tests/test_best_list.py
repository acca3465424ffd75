"""All lists of a query, and the best of them."""

import itertools
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clickbandit import queries
from clickbandit.click_models.base import ClickModel, model_names
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.dcm import DependentClickModel
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.click_models.ubm import UserBrowsingModel
from clickbandit.errors import InputError
from clickbandit.queries import all_lists, best_list, evaluate, load_queries, n_lists
from strategies import models

# --- all lists ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 24, 1 << 16])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (4, 1), (4, 2), (4, 4), (5, 3)])
def test_each_list_is_there_once_in_lexicographic_order(
    n: int, k: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "_CHUNK", chunk)
    model = CascadeModel([0.1 * (i + 1) for i in range(n)])
    pieces = list(all_lists(model, k))
    assert [len(piece.lists) for piece in pieces[:-1]] == [chunk] * (len(pieces) - 1)
    found = [tuple(row) for piece in pieces for row in piece.lists.tolist()]
    assert found == list(itertools.permutations(range(n), k))
    assert n_lists(model, k) == len(found)
    clicked = np.concatenate([piece.clicked for piece in pieces])
    examined = np.concatenate([piece.examined for piece in pieces])
    assert clicked == pytest.approx(np.array([model.click_probability(shown) for shown in found]))
    assert examined == pytest.approx(np.array([model.examination_probability(shown) for shown in found]))


def test_lists_of_any_layout_are_evaluated() -> None:
    model = CascadeModel([0.5, 0.25, 0.125])
    shown = np.array([[0, 2, 1], [1, 0, 2]]).T[::-1]
    result = evaluate(model, shown)
    assert result.lists.tolist() == [[1, 2], [2, 0], [0, 1]]
    assert result.clicked.tolist() == [model.click_probability(row).tolist() for row in shown]


# --- the best list ------------------------------------------------------------------------------------------


def rewards(model: ClickModel, k: int) -> dict[tuple[int, ...], float]:
    lists = itertools.permutations(range(model.n_items), k)
    return {shown: sum(model.click_probability(shown).tolist()) for shown in lists}


def by_attraction(model: ClickModel, k: int) -> list[int]:
    return sorted(range(model.n_items), key=lambda item: -model.attraction[item])[:k]


@pytest.mark.parametrize("name", [*model_names(), "mixture"])
@given(data=st.data())
@settings(max_examples=30)
def test_the_best_list_is_the_best_of_all(name: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    k = data.draw(st.integers(1, min(n, 4)))
    if name == "mixture":
        kinds = [data.draw(models("CM", n, k)), data.draw(models("DCM", n, k))]
        model: ClickModel = MixtureModel([0.25, 0.75], kinds)
    else:
        model = data.draw(models(name, n, k))
    found, reward = best_list(model, k)
    every = rewards(model, k)
    highest = max(every.values())
    assert reward == pytest.approx(every[tuple(found)], abs=1e-14)
    assert reward >= highest - 1.1e-12
    short = highest - every[tuple(by_attraction(model, k))]
    if short < 0.9e-12:
        assert found == by_attraction(model, k)
    elif short > 1.1e-12:
        assert found != by_attraction(model, k)


@given(data=st.data(), n=st.integers(1, 12))
def test_cm_and_falling_pbm_rank_by_attraction(data: st.DataObject, n: int) -> None:
    model: Any = data.draw(models("PBM", n, n))
    falling = PositionBasedModel(model.attraction, sorted(model.examination, reverse=True))
    for k in range(1, n + 1):
        assert best_list(falling, k)[0] == by_attraction(model, k)
        assert best_list(CascadeModel(model.attraction), k)[0] == by_attraction(model, k)


def test_pbm_shows_the_most_attractive_item_where_most_users_look() -> None:
    model = PositionBasedModel([0.1, 0.9, 0.5, 0.3], examination=[0.5, 1, 0.25])
    found, reward = best_list(model, 3)
    assert found == [2, 1, 3]
    assert reward == pytest.approx(0.5 * 0.5 + 1 * 0.9 + 0.25 * 0.3)


@given(data=st.data())
def test_what_a_model_knows_of_its_best_list_is_right(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    model = data.draw(models(data.draw(st.sampled_from(["CM", "PBM"])), n, n))
    assume(model.max_positions == n)
    known = model.best_list(n)
    assert known is not None
    assert model.reward(known) == pytest.approx(max(rewards(model, n).values()), abs=1e-12)


@pytest.mark.parametrize(("lead", "found"), [(0.0, [0, 1]), (5e-13, [0, 1]), (2e-12, [1, 0])])
def test_a_list_must_beat_the_order_of_attraction_by_more_than_rounding(
    lead: float, found: list[int]
) -> None:
    """Item 0 is as attractive as item 1 or more so, and the second position is looked at a little more."""
    pbm = PositionBasedModel([0.75, 0.25], examination=[0.5, 0.5 + 2 * lead])
    assert best_list(pbm, 2)[0] == found
    ubm = UserBrowsingModel([0.75, 0.25], examination=[[0.5], [0.5 + 2 * lead, 0.5 + 2 * lead]])
    assert best_list(ubm, 2)[0] == found


def test_items_that_are_equally_attractive_keep_their_order() -> None:
    assert best_list(CascadeModel([0.2, 0.5, 0.5, 0.2, 0.2]), 4)[0] == [1, 2, 0, 3]
    assert best_list(DependentClickModel([0.2, 0.5, 0.5, 0.2], [0.5, 0.5, 0.5]), 3)[0] == [1, 2, 0]


def test_the_best_list_may_be_in_any_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_CHUNK", 5)
    for attraction in itertools.permutations([0.7, 0.5, 0.3, 0.1]):
        model = DependentClickModel(attraction, [0.9, 0.1, 0.5])
        found, reward = best_list(model, 3)
        every = rewards(model, 3)
        assert every[tuple(found)] == pytest.approx(max(every.values()))
        assert reward == pytest.approx(max(every.values()))


def test_too_many_lists_are_refused_unless_the_model_knows() -> None:
    attraction = [0.9 - 0.01 * item for item in range(60)]
    for k in (8, 60):
        with pytest.raises(
            InputError, match=f"DCM with 60 items and {k} positions has too many lists to find"
        ):
            best_list(DependentClickModel(attraction, [0.5] * 60), k)
        assert best_list(CascadeModel(attraction), k)[0] == list(range(k))
        assert best_list(PositionBasedModel(attraction, [1.0] * 60), k)[0] == list(range(k))


@pytest.mark.parametrize("k", [0, -1, 4])
def test_positions_must_be_possible(k: int) -> None:
    with pytest.raises(InputError, match=f"found {k}|{k} positions need"):
        best_list(CascadeModel([0.3, 0.2, 0.1]), k)


def test_real_queries_have_a_best_list_under_every_model(shared: Path) -> None:
    """On the first six items, so that plain Python can say what is best."""
    query = load_queries(shared / "queries" / "yandex-10.json")[0]
    for name in query.models:
        model = query.model(name)
        values = {field.name: getattr(model, field.name) for field in fields(model)}
        values.update({field: values[field][:6] for field in type(model).by_item})
        small = type(model)(**values)
        found, reward = best_list(small, 3)
        every = rewards(small, 3)
        assert reward == pytest.approx(max(every.values()), abs=1e-12)
        assert reward == pytest.approx(every[tuple(found)], abs=1e-14)
