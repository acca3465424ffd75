"""clickbandit learns the best ranked list from clicks, without knowing how users click.

The public names are imported when they are first used, so that `clickbandit --help` need not wait for numba.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clickbandit.click_models.base import ClickModel as ClickModel
    from clickbandit.click_models.cm import CascadeModel as CascadeModel
    from clickbandit.click_models.mixture import MixtureModel as MixtureModel
    from clickbandit.click_models.pbm import PositionBasedModel as PositionBasedModel
    from clickbandit.errors import InputError as InputError
    from clickbandit.experiments.simulate import simulate as simulate
    from clickbandit.logs.counting import count_log as count_log
    from clickbandit.logs.fitting import fit as fit
    from clickbandit.policies.base import Policy as Policy
    from clickbandit.policies.batchrank import BatchRank as BatchRank
    from clickbandit.policies.bubblerank import BubbleRank as BubbleRank
    from clickbandit.policies.cascade_ducb import CascadeDUCB as CascadeDUCB
    from clickbandit.policies.cascade_kl_ucb import CascadeKLUCB as CascadeKLUCB
    from clickbandit.policies.cascade_swucb import CascadeSWUCB as CascadeSWUCB
    from clickbandit.policies.cascade_ucb1 import CascadeUCB1 as CascadeUCB1
    from clickbandit.policies.cascade_ucb_v import CascadeUCBV as CascadeUCBV
    from clickbandit.policies.cts import CTS as CTS
    from clickbandit.policies.dcm_kl_ucb import DCMKLUCB as DCMKLUCB
    from clickbandit.policies.grab import GRAB as GRAB
    from clickbandit.policies.pbm_pie import PBMPIE as PBMPIE
    from clickbandit.policies.pbm_ts import PBMTS as PBMTS
    from clickbandit.policies.pbm_ucb import PBMUCB as PBMUCB
    from clickbandit.policies.rank1elim import Rank1Elim as Rank1Elim
    from clickbandit.policies.rank1elim_kl import Rank1ElimKL as Rank1ElimKL
    from clickbandit.policies.ranked_exp3 import RankedExp3 as RankedExp3
    from clickbandit.policies.ranked_kl_ucb import RankedKLUCB as RankedKLUCB
    from clickbandit.policies.ranked_ucb1 import RankedUCB1 as RankedUCB1
    from clickbandit.policies.toprank import TopRank as TopRank
    from clickbandit.policies.ts_cascade import TSCascade as TSCascade
    from clickbandit.policies.unirank import UniRank as UniRank
    from clickbandit.queries import Query as Query
    from clickbandit.queries import best_list as best_list
    from clickbandit.queries import load_queries as load_queries
    from clickbandit.queries import save_queries as save_queries
    from clickbandit.simulation.run import Problem as Problem
    from clickbandit.simulation.run import Run as Run

_HOMES = {
    "ClickModel": "click_models.base",
    "MixtureModel": "click_models.mixture",
    "CascadeModel": "click_models.cm",
    "PositionBasedModel": "click_models.pbm",
    "InputError": "errors",
    "count_log": "logs.counting",
    "fit": "logs.fitting",
    "Policy": "policies.base",
    "BatchRank": "policies.batchrank",
    "BubbleRank": "policies.bubblerank",
    "CascadeDUCB": "policies.cascade_ducb",
    "CascadeKLUCB": "policies.cascade_kl_ucb",
    "CascadeSWUCB": "policies.cascade_swucb",
    "CascadeUCB1": "policies.cascade_ucb1",
    "CascadeUCBV": "policies.cascade_ucb_v",
    "CTS": "policies.cts",
    "DCMKLUCB": "policies.dcm_kl_ucb",
    "GRAB": "policies.grab",
    "PBMPIE": "policies.pbm_pie",
    "PBMTS": "policies.pbm_ts",
    "PBMUCB": "policies.pbm_ucb",
    "Rank1Elim": "policies.rank1elim",
    "Rank1ElimKL": "policies.rank1elim_kl",
    "RankedExp3": "policies.ranked_exp3",
    "RankedKLUCB": "policies.ranked_kl_ucb",
    "RankedUCB1": "policies.ranked_ucb1",
    "TopRank": "policies.toprank",
    "TSCascade": "policies.ts_cascade",
    "UniRank": "policies.unirank",
    "Query": "queries",
    "best_list": "queries",
    "load_queries": "queries",
    "save_queries": "queries",
    "Problem": "simulation.run",
    "Run": "simulation.run",
    "simulate": "experiments.simulate",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'clickbandit' has no attribute {name!r}")
    return getattr(importlib.import_module(f"clickbandit.{_HOMES[name]}"), name)
