"""The number of layers that a chain of retrieval steps needs: information flow, exact depths, witness transformers.

>>> import hopscope as hs
>>> hs.theory.depths(5).causal
4
>>> hs.theory.best_order(4)
(1, 2, 4, 3)
>>> path = hs.theory.AttentionPath.parse("L1.H1 >x1 -> x0>", hs.RetrievalProblem(hops=1).roles)
>>> hs.theory.deliver(1, [path]).delivered
False
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hopscope.problem.paths import AttentionPath
from hopscope.theory.attention_schedule import shortest_schedule
from hopscope.theory.depth import best_order, depths, minimum_of_hop, minimum_paths
from hopscope.theory.information_flow import min_layers
from hopscope.theory.path_flow import deliver

if TYPE_CHECKING:
    from hopscope.theory.witness import build_witness as build_witness

__all__ = [
    "AttentionPath",
    "best_order",
    "build_witness",
    "deliver",
    "depths",
    "min_layers",
    "minimum_of_hop",
    "minimum_paths",
    "shortest_schedule",
]


def __getattr__(name: str) -> Any:
    if name != "build_witness":
        raise AttributeError(f"module 'hopscope.theory' has no attribute {name!r}")
    from hopscope.theory.witness import build_witness  # imported late because it loads torch

    return build_witness


def __dir__() -> list[str]:
    return __all__
