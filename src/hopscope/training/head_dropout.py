"""Heads that are left out of an update at random, so that what is learned does not hang on single ones.

A function of seed and step, as the data are: a run that was killed goes on with the same heads left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.problem.counter import derive_seed

HeadScales = Float[Tensor, "model layer head"]
"""What each head's output is multiplied by: 0 where it is left out."""


def head_scales(seeds: Sequence[int], step: int, layers: int, heads: int, share: float) -> HeadScales:
    """The heads of each model that take part in an update, scaled up to make up for the others (Srivastava 2014).

        >>> head_scales([7], 0, layers=1, heads=4, share=0.5)
        tensor([[[2., 0., 2., 0.]]])

    Args:
        seeds: one a model.
        step: of the update.
        layers: of a model.
        heads: of a layer.
        share: of the heads to leave out, on average; at least 0 and below 1.
    """
    drawn = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(derive_seed(seed, "head dropout", step))
        drawn.append(torch.rand(layers, heads, generator=generator))
    return (torch.stack(drawn) >= share) / (1 - share)
