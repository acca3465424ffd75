"""Every click model keeps the contract, follows its definition, and explains wrong parameters."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickbandit.click_models.base import ClickModel, model_class, model_names
from clickbandit.click_models.ccm import ClickChainModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.dbn import DynamicBayesianModel
from clickbandit.click_models.dcm import DependentClickModel
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.click_models.sdbn import SimplifiedDynamicBayesianModel
from clickbandit.click_models.ubm import UserBrowsingModel
from clickbandit.errors import InputError
from clickbandit.testing import check_click_model
from naive import clicks as naive

probability = st.sampled_from([0.0, 1.0]) | st.sampled_from([0.2, 0.5, 0.7, 0.9]) | st.floats(0, 1)
n_items_of_small_models = st.sampled_from([4, 3, 4, 2, 1])


@st.composite
def models(draw: st.DrawFn, name: str, n_items: int | None = None) -> ClickModel:
    """A model whose fields follow from their types, so that a new model is tested without a line here."""
    n = n_items or draw(n_items_of_small_models)
    many = st.lists(probability, min_size=n, max_size=n)
    rows = st.tuples(*(st.lists(probability, min_size=k, max_size=k) for k in range(1, n + 1)))
    shapes: dict[Any, st.SearchStrategy[Any]] = {
        float: probability,
        Sequence[float]: many,
        Sequence[Sequence[float]]: rows,
    }
    kind = model_class(name)
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    return kind(**{field: draw(shapes[hints[field]]) for field in names})


@st.composite
def mixtures(draw: st.DrawFn, names: Sequence[str]) -> MixtureModel:
    n = draw(n_items_of_small_models)
    weights = [draw(st.sampled_from([0, 1, 1, 2, 5])) for _ in names]
    weights[0] += sum(weights) == 0
    shares = [weight / sum(weights) for weight in weights]
    return MixtureModel(shares, [draw(models(name, n)) for name in names])


MIXTURES = [("CM", "PBM"), ("CM", "SDBN"), ("UBM", "DBN", "DBN")]
"""With PBM and SDBN, whose parameters look alike, and with a model that is in twice."""
every_model = pytest.mark.parametrize(
    "strategy",
    [models(name) for name in model_names()] + [mixtures(names) for names in MIXTURES],
    ids=model_names() + ["+".join(names) for names in MIXTURES],
)


@st.composite
def lists_of(draw: st.DrawFn, model: ClickModel) -> list[int]:
    order = draw(st.permutations(range(model.n_items)))
    return order[: max(1, model.max_positions - draw(st.sampled_from([0, 0, 1, 2])))]


# --- the contract and the definition ------------------------------------------------------------------------


@every_model
@given(data=st.data())
@settings(max_examples=6)
def test_keeps_the_contract(strategy: st.SearchStrategy[ClickModel], data: st.DataObject) -> None:
    check_click_model(data.draw(strategy))


@every_model
@given(data=st.data())
@settings(max_examples=40)
def test_law_is_that_of_the_user_described(
    strategy: st.SearchStrategy[ClickModel], data: st.DataObject
) -> None:
    model = data.draw(strategy)
    ranking = data.draw(lists_of(model))
    vectors, clicked, examined = naive.law(model, ranking)
    assert model.click_probability(ranking) == pytest.approx(clicked, abs=1e-12)
    assert model.examination_probability(ranking) == pytest.approx(examined, abs=1e-12)
    for vector in itertools.product((0, 1), repeat=len(ranking)):
        found = math.exp(model.log_likelihood(ranking, vector))
        assert found == pytest.approx(vectors.get(vector, 0.0), rel=1e-9, abs=1e-14)


@every_model
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_clicks_are_those_of_the_twin(
    strategy: st.SearchStrategy[ClickModel], data: st.DataObject, seed: int
) -> None:
    model = data.draw(strategy)
    ranking = data.draw(lists_of(model))
    ours, twins = np.random.default_rng(seed), np.random.default_rng(seed)
    for _ in range(20):
        assert model.click(ranking, ours).tolist() == naive.click(model, ranking, twins)
    assert ours.bit_generator.state == twins.bit_generator.state


LONG = [0.3, 0.7, 0.1, 0.5, 0.9, 0.2, 0.6, 0.4]
ONE_OF_EACH = [
    CascadeModel(LONG),
    PositionBasedModel(LONG, LONG[::-1]),
    DependentClickModel(LONG, LONG[::-1]),
    SimplifiedDynamicBayesianModel(LONG, LONG[::-1]),
    DynamicBayesianModel(LONG, LONG[::-1], 0.8),
    ClickChainModel(LONG, 0.9, 0.8, 0.3),
    UserBrowsingModel(LONG, [LONG[:k] for k in range(1, 9)]),
]
ONE_OF_EACH.append(MixtureModel([0.1, 0.2, 0.3, 0.4], [ONE_OF_EACH[i] for i in (0, 2, 5, 2)]))


@pytest.mark.parametrize("model", ONE_OF_EACH, ids=lambda model: model.name)
def test_longer_lists_keep_the_contract(model: ClickModel) -> None:
    check_click_model(model, positions=8)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (CascadeModel, []),
        (PositionBasedModel, [[1] * 1000]),
        (DependentClickModel, [[1] * 1000]),
        (SimplifiedDynamicBayesianModel, [[1] * 1000]),
        (DynamicBayesianModel, [[1] * 1000, 1]),
        (ClickChainModel, [1, 0, 0]),
        (UserBrowsingModel, [[[1] * k for k in range(1, 1001)]]),
    ],
)
def test_what_is_very_unlikely_is_still_possible(kind: Any, parameters: list[Any]) -> None:
    model = kind([0.9] * 1000, *parameters)
    for users in (model, MixtureModel([0.5, 0.5], [model, model])):
        found = users.log_likelihood(range(1000), [0] * 1000)
        assert found == pytest.approx(1000 * math.log(0.1))


def test_every_model_is_tried_with_a_longer_list() -> None:
    assert {model.name for model in ONE_OF_EACH} >= set(model_names())


# --- by hand ------------------------------------------------------------------------------------------------

A = [0.5, 0.4]


@pytest.mark.parametrize(
    ("model", "examined", "neither", "first", "second", "both"),
    [
        (CascadeModel(A), 0.5, 0.5 * 0.6, 0.5, 0.5 * 0.4, 0),
        (PositionBasedModel(A, [0.8, 0.5]), 0.5, 0.6 * 0.8, 0.4 * 0.8, 0.6 * 0.2, 0.4 * 0.2),
        (DependentClickModel(A, [0.2, 0.9]), 0.9, 0.5 * 0.6, 0.5 * 0.2 + 0.4 * 0.6, 0.5 * 0.4, 0.4 * 0.4),
        (
            SimplifiedDynamicBayesianModel(A, [0.2, 0.9]),
            0.9,
            0.5 * 0.6,
            0.5 * 0.2 + 0.4 * 0.6,
            0.5 * 0.4,
            0.4 * 0.4,
        ),
        (
            DynamicBayesianModel(A, [0.2, 0.9], 0.5),
            0.5 * 0.5 + 0.5 * 0.4,
            0.5 * (0.5 + 0.5 * 0.6),
            0.5 * (0.6 + 0.4 * 0.6),
            0.5 * 0.5 * 0.4,
            0.5 * 0.4 * 0.4,
        ),
        (
            ClickChainModel(A, 0.5, 0.6, 0.2),
            0.5 * 0.5 + 0.5 * 0.4,
            0.5 * (0.5 + 0.5 * 0.6),
            0.5 * (0.6 + 0.4 * 0.6),
            0.5 * 0.5 * 0.4,
            0.5 * 0.4 * 0.4,
        ),
        (
            UserBrowsingModel(A, [[0.8], [0.9, 0.5]]),
            0.4 * 0.9 + 0.6 * 0.5,
            0.6 * 0.8,
            0.4 * (1 - 0.36),
            0.6 * 0.2,
            0.4 * 0.36,
        ),
        (
            MixtureModel([0.75, 0.25], [CascadeModel(A), PositionBasedModel([1, 0], [1, 1])]),
            0.75 * 0.5 + 0.25,
            0.75 * 0.3,
            0.75 * 0.5 + 0.25,
            0.75 * 0.2,
            0,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ClickModel) else "",
)
def test_two_positions_by_hand(
    model: ClickModel, examined: float, neither: float, first: float, second: float, both: float
) -> None:
    found = [math.exp(model.log_likelihood([0, 1], clicks)) for clicks in ([0, 0], [1, 0], [0, 1], [1, 1])]
    assert found == pytest.approx([neither, first, second, both])
    assert model.examination_probability([0, 1])[1] == pytest.approx(examined)
    assert model.click_probability([0, 1]) == pytest.approx([first + both, second + both])


def test_user_browsing_model_reads_its_rows_as_documented() -> None:
    model = UserBrowsingModel([1, 1, 1], [[1], [0, 1], [0.25, 0.5, 0.75]])
    assert model.log_likelihood([0, 1, 2], [1, 0, 1]) == pytest.approx(math.log(0.25))
    never_first = UserBrowsingModel([1, 1, 1], [[0], [0.5, 1], [0.25, 0.5, 0.75]])
    assert never_first.log_likelihood([0, 1, 2], [0, 1, 1]) == pytest.approx(math.log(0.5))
    neither = UserBrowsingModel([1, 1, 1], [[0], [0.5, 0], [0.25, 0.5, 0.75]])
    assert neither.log_likelihood([0, 1, 2], [0, 0, 1]) == pytest.approx(math.log(0.75))


def test_values_by_position_may_be_more_than_are_shown() -> None:
    rows = [[0.5], [0.2, 0.3], [0.1, 0.1, 0.1]]
    assert UserBrowsingModel(A, rows).reward([1, 0]) == UserBrowsingModel(A, rows[:2]).reward([1, 0])
    short, long = DependentClickModel(A, [0.5, 0.2]), DependentClickModel(A, [0.5, 0.2, 0.1])
    assert long.reward([1, 0]) == short.reward([1, 0])


# --- wrong parameters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SimplifiedDynamicBayesianModel(A, [0.1]),
            "SDBN: satisfaction must have a value for each of the 2 items, found 1",
        ),
        (
            lambda: DynamicBayesianModel(A, [0.1] * 3, 0.5),
            "DBN: satisfaction must have a value for each of the 2 items, found 3",
        ),
        (
            lambda: DynamicBayesianModel(A, A, [0.5, 0.5]),  # type: ignore[arg-type]
            "DBN: continuation must be a probability between 0 and 1, found (0.5, 0.5)",
        ),
        (
            lambda: DependentClickModel(A, 0.5),  # type: ignore[arg-type]
            "DCM: termination must be a list of probabilities, found 0.5",
        ),
        (
            lambda: ClickChainModel(A, 0.5, 1.5, 0.5),
            "CCM: continue_click_irrelevant must hold probabilities between 0 and 1, found 1.5",
        ),
        (
            lambda: UserBrowsingModel(A, [[0.5], [0.5]]),
            "UBM: examination must have 2 values in row 2 (one for each position above with the last click, "
            "and one for none), found 1",
        ),
        (
            lambda: UserBrowsingModel(A, A),  # type: ignore[list-item]
            "UBM: examination must be a list of probabilities, found 0.5",
        ),
        (
            lambda: CascadeModel([math.nan]),
            "CM: attraction must hold probabilities between 0 and 1, found nan",
        ),
        (lambda: CascadeModel([]), "CM: attraction must have at least one item"),
        (
            lambda: DependentClickModel(A, [0.5]).click_probability([0, 1]),
            "DCM: 2 positions need as many values by position, but there are only 1",
        ),
        (
            lambda: MixtureModel([0.5, 0.6], [CascadeModel(A), CascadeModel(A)]),
            "the shares of a mixture must be at least 0 and sum to 1, found [0.5, 0.6]",
        ),
        (
            lambda: MixtureModel([1], [CascadeModel(A), CascadeModel(A)]),
            "a mixture needs at least one model and a share for each, found 2 models and 1 shares",
        ),
        (
            lambda: MixtureModel([0.5, 0.5], [CascadeModel(A), CascadeModel([1])]),
            "the models of a mixture must know the same items, found CM with 2, CM with 1",
        ),
        (
            lambda: MixtureModel(
                [0.5, 0.5], [CascadeModel(A), DependentClickModel(A, [1])]
            ).click_probability([0, 1]),
            "0.5*CM+0.5*DCM: 2 positions need as many values by position, but there are only 1",
        ),
    ],
)
def test_wrong_parameters_are_explained(make: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message


def test_numbers_of_numpy_are_plain_numbers_afterwards() -> None:
    model = DynamicBayesianModel(np.array(A), np.array(A), np.float32(0.5))  # type: ignore[arg-type]
    assert model == DynamicBayesianModel(A, A, 0.5)
