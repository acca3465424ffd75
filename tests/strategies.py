"""Click models and queries for property tests."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, get_type_hints

from hypothesis import strategies as st

from clickbandit.click_models.base import RATES, ClickModel, model_class, model_names
from clickbandit.queries import Query

probability = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)


@st.composite
def models(draw: st.DrawFn, name: str, n: int, n_positions: int) -> ClickModel:
    """A model whose fields follow from their types: by item, by position, or rows of growing length."""
    kind = model_class(name)
    hints = get_type_hints(kind)

    def values(field: str) -> st.SearchStrategy[Any]:
        size = n if field in kind.by_item else n_positions
        if hints[field] is float:
            return probability
        if hints[field] == Sequence[float]:
            return st.lists(probability, min_size=size, max_size=size)
        return st.tuples(*(st.lists(probability, min_size=k, max_size=k) for k in range(1, size + 1)))

    return kind(**{field.name: draw(values(field.name)) for field in fields(kind)})


@st.composite
def small_models(draw: st.DrawFn, name: str) -> ClickModel:
    """A model of up to five items, and as many positions."""
    n = draw(st.integers(1, 5))
    return draw(models(name, n, n))


@st.composite
def some_queries(draw: st.DrawFn) -> list[Query]:
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    found = []
    for name in draw(st.lists(text, min_size=1, max_size=3, unique=True)):
        items = draw(st.lists(text, min_size=1, max_size=4, unique=True))
        kinds = draw(st.sets(st.sampled_from([*model_names(), *RATES]), max_size=3))
        n_positions = draw(st.integers(0, 5))
        found.append(Query(name, items, {k: draw(models(k, len(items), n_positions)) for k in sorted(kinds)}))
    return found
