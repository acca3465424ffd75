"""The front door: all public names are shown, can be imported, and are loaded only when they are used."""

import pydoc
import subprocess
import sys
from typing import Any

import pytest

import clickbandit
from clickbandit.click_models.base import RATES, model_class, model_names
from clickbandit.policies.base import policy_class, policy_names


def test_all_public_names_are_shown_and_there() -> None:
    assert set(dir(clickbandit)) - {"live", "logs", "testing", "theory", "value"} == set(clickbandit.__all__)
    assert all(getattr(clickbandit, name) is not None for name in clickbandit.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Batchrank'"):
        clickbandit.Batchrank  # noqa: B018


def test_packages_need_no_import_of_their_own() -> None:
    """In a process of its own, as whoever imports one makes it an attribute."""
    script = (
        "import clickbandit; print(clickbandit.theory.regret_bound.__name__, clickbandit.testing.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "regret_bound clickbandit.testing\n"


def test_a_star_imports_them_all() -> None:
    names: dict[str, Any] = {}
    exec("from clickbandit import *", names)
    assert set(clickbandit.__all__) <= set(names)
    assert names["__version__"] == clickbandit.__version__


def test_every_policy_and_click_model_is_among_them() -> None:
    classes = [*map(policy_class, policy_names()), *map(model_class, [*model_names(), *RATES])]
    assert {kind.__name__ for kind in classes} <= set(dir(clickbandit))


def test_to_see_the_names_does_not_wait_for_numba() -> None:
    script = "import sys, clickbandit; dir(clickbandit); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_help_explains_the_settings_of_a_policy_and_the_parameters_of_a_click_model() -> None:
    policy, model = pydoc.render_doc(clickbandit.PBMUCB), pydoc.render_doc(clickbandit.PositionBasedModel)
    assert "examination\n" in policy  # of its family
    assert "as 1/0.8/0.5; empty: that of the simulated users" in policy
    assert "The probability that each position is examined." in model
