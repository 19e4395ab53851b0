"""The two scales of everything: `laptop`, in minutes on two cores, and `paper`, the exact recipes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hopscope.experiments.depth import DepthStudy
from hopscope.training import recipes


@dataclass(frozen=True)
class Preset:
    """What `hopscope reproduce` runs.

    Attributes:
        name: of the preset; findings' scales begin with it.
        summary: in words, for the report.
        depth: training by depth (Section 7).
    """

    name: str
    summary: str
    depth: DepthStudy


LAPTOP = Preset(
    name="laptop",
    summary="small transformers, D = 3, minutes on two cores",
    depth=DepthStudy(
        scale="laptop",
        recipe=recipes.LAPTOP,
        layers=(1, 2, 3, 4),
        hops=3,
        plain_hops=3,
        seeds=(0, 1),
        plain_seeds=(0,),
        seeds_at_minimum=(0, 1, 2),
        followed=4,
    ),
)

PAPER = Preset(
    name="paper",
    summary="the exact recipes of the paper; days on a CPU, made for a GPU",
    depth=DepthStudy(
        scale="paper",
        recipe=recipes.SWEEP,
        layers=tuple(range(1, 9)),
        hops=5,
        plain_hops=3,
        seeds=tuple(range(8)),
        plain_seeds=tuple(range(8)),
    ),
)

BY_NAME: Mapping[str, Preset] = {preset.name: preset for preset in (LAPTOP, PAPER)}
"""What the command line calls them."""
