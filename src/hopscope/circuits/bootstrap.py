"""Intervals of means over sequences, by the bootstrap: one resampling serves any number of measurements."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

Interval = tuple[float, float]

_RESAMPLES = 2000


def intervals(values: Float[Tensor, "measurement sequence"], seed: int, level: float = 0.95) -> list[Interval]:
    """Percentile intervals of the mean of each row.

    Rows share their resamples, so that intervals of differences may be had by passing differences.

    Args:
        values: one number a sequence, for any number of measurements.
        seed: of the resampling.
        level: how often such an interval should hold the mean of all sequences there could be.
    """
    sequences = values.shape[-1]
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(sequences, (_RESAMPLES, sequences), generator=generator)
    counts = torch.zeros(_RESAMPLES, sequences, dtype=torch.float64)
    counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))
    means = values.double().cpu() @ counts.T / sequences
    edges = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = means.quantile(edges, dim=1).tolist()
    return list(zip(low, high, strict=True))
