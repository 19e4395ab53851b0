"""How many layers a chain of look-ups needs, and why: information flow, exact depths, hand-built transformers.

The names below load on first use.

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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopscope.problem.paths import AttentionPath as AttentionPath
    from hopscope.theory.delivery import deliver as deliver
    from hopscope.theory.depth import best_order as best_order
    from hopscope.theory.depth import depths as depths
    from hopscope.theory.depth import minimum_of_hop as minimum_of_hop
    from hopscope.theory.depth import minimum_paths as minimum_paths
    from hopscope.theory.information_flow import minimum_layers as minimum_layers
    from hopscope.theory.schedule import shortest_schedule as shortest_schedule
    from hopscope.theory.witness import build_witness as build_witness

_HOMES = {
    "AttentionPath": "hopscope.problem.paths",
    "best_order": "hopscope.theory.depth",
    "build_witness": "hopscope.theory.witness",
    "deliver": "hopscope.theory.delivery",
    "depths": "hopscope.theory.depth",
    "minimum_layers": "hopscope.theory.information_flow",
    "minimum_of_hop": "hopscope.theory.depth",
    "minimum_paths": "hopscope.theory.depth",
    "shortest_schedule": "hopscope.theory.schedule",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hopscope.theory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
