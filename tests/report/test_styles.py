"""Every policy has a look of its own, the same everywhere, that all readers can tell from the others."""

import itertools

import numpy as np
import pytest

from clickbandit.errors import InputError
from clickbandit.policies.base import Policy, policy_names
from clickbandit.report.styles import DASHES, PALETTE, looks, policy_name
from clickbandit.style import COLOURS

PAPER = ["batchrank", "batchrank:variant=experiment", "cascade-kl-ucb", "ranked-exp3"]
FIELD = [
    *("toprank", "bubblerank", "unirank", "grab", "rank1elim", "rank1elim-kl", "random", "optimal"),
    *("cascade-ucb1", "cascade-ucb-v", "ts-cascade", "cts", "dcm-kl-ucb", "cascade-ducb", "cascade-swucb"),
    *("ranked-ucb1", "ranked-kl-ucb", "pbm-ucb", "pbm-ts", "pbm-pie"),
]
GROUNDS = ("#FFFFFF", "#16191D")  # of a light and of a dark page

# How colours look to readers who lack a kind of cone, in linear RGB (Machado, Oliveira, Fernandes 2009).
READERS = {
    "usual": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}


def test_policies_differ_from_each_other() -> None:
    policies = list(dict.fromkeys([*PAPER, *FIELD, *policy_names()]))
    found = looks(policies)
    assert list(found) == policies
    assert len({(one.colour, one.dash) for one in found.values()}) == len(policies)


def test_a_policy_of_the_library_looks_the_same_in_any_company() -> None:
    everyone = looks(["mine.py:Greedy", "other.py:Greedy", *PAPER, *FIELD])
    for policy in (*PAPER, *FIELD):
        assert looks([policy])[policy] == everyone[policy]
    assert looks(["mine.py:Greedy"])["mine.py:Greedy"] == looks(["mine.py:Greedy", *PAPER])["mine.py:Greedy"]


def test_the_papers_three_are_red_blue_and_gray_and_variants_keep_the_colour() -> None:
    found = looks([*PAPER, "cascade-kl-ucb:feedback=last", "batchrank:bounds=hoeffding"])
    assert [one.colour for one in found.values()] == [
        "#D55E00",
        "#D55E00",
        "#0072B2",
        "#8C8C8C",
        "#0072B2",
        "#D55E00",
    ]
    assert len({(one.colour, one.dash) for one in found.values()}) == len(found)
    assert (
        found["cascade-kl-ucb"].dash
        == looks(["cascade-kl-ucb:feedback=last"])["cascade-kl-ucb:feedback=last"].dash
    )


def test_a_class_without_a_look_takes_its_name_and_a_wrong_colour_is_refused() -> None:
    assert type("Plain", (Policy,), {}).title == "Plain"
    with pytest.raises(InputError, match=r"Wrong: colour must be one of vermillion, .*, found 'red dotted'"):
        type("Wrong", (Policy,), {"colour": "red dotted"})
    with pytest.raises(InputError, match="found 'blue wavy'"):
        type("Wrong", (Policy,), {"colour": "blue wavy"})


def test_there_are_looks_for_more_policies_than_there_are_looks() -> None:
    n_looks = len(PALETTE) * len(DASHES)
    found = looks([f"mine.py:Policy{i}" for i in range(n_looks + 5)])
    assert len({(one.colour, one.dash) for one in found.values()}) == n_looks


def test_names_are_those_of_papers_and_settings_are_in_words() -> None:
    names = {
        "batchrank": "BatchRank (printed)",
        "batchrank:bounds=hoeffding": "BatchRank (Hoeffding)",
        "cascade-kl-ucb:feedback=last,budget=log t": "CascadeKL-UCB (last click, log t)",
        "brand-new": "brand-new",
        "mine.py:Greedy:epsilon=0.1": "mine.py:Greedy:epsilon=0.1",
    }
    assert {policy: policy_name(policy) for policy in names} == names


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_stand_out_from_the_ground(theme: int) -> None:
    ground = _luminance(GROUNDS[theme])
    for pair in COLOURS.values():
        low, high = sorted([_luminance(pair[theme]), ground])
        assert (high + 0.05) / (low + 0.05) >= 3


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("theme", [0, 1])
def test_readers_with_any_kind_of_colour_blindness_can_tell_colours_apart(theme: int, reader: str) -> None:
    seen = [_lab(np.array(READERS[reader]) @ _linear(pair[theme])) for pair in COLOURS.values()]
    least = min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2))
    assert least > 17


def _linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _luminance(colour: str) -> float:
    return float(_linear(colour) @ [0.2126, 0.7152, 0.0722])


def _lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB under daylight (D65), in which distances are about what the eye sees."""
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
