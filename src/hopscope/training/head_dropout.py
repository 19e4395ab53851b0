"""Head dropout: heads are dropped from an update at random, so that what is learned does not depend on single ones.

Which heads are dropped is a function of seed and step, as the data are, so a run that was killed resumes alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.problem.counter import derive_seed

HeadScales = Float[Tensor, "model layer head"]
"""The factor on each head's output: 0 where the head is dropped."""


def head_scales(seeds: Sequence[int], step: int, layers: int, heads: int, share: float) -> HeadScales:
    """Factors on heads' outputs in one update: 0 for dropped heads, 1 / (1 - share) for the rest (Srivastava 2014).

        >>> head_scales([7], 0, layers=1, heads=4, share=0.5)
        tensor([[[2., 0., 2., 0.]]])

    Args:
        seeds: one per model.
        step: updates done before this one.
        layers: layers of a model.
        heads: heads per layer.
        share: share of the heads dropped, on average; at least 0 and below 1.
    """
    drawn = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(derive_seed(seed, "head dropout", step))
        drawn.append(torch.rand(layers, heads, generator=generator))
    return (torch.stack(drawn) >= share) / (1 - share)
