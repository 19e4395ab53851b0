"""Bootstrap intervals of means over sequences: one resampling serves any number of measurements."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from torch import Tensor

Interval = tuple[float, float]


def intervals(values: Float[Tensor, "measurement sequence"], seed: int, level: float = 0.95) -> list[Interval]:
    """Percentile intervals of the mean of each row.

    Rows share their resamples, so pass differences to get intervals of differences.

    Args:
        values: one number for each sequence, for any number of measurements.
        seed: the seed of the resampling.
        level: how often such an interval should contain the mean over all possible sequences.
    """
    from scipy.stats import bootstrap

    if not len(values):
        return []
    found = bootstrap(
        (values.double().cpu().numpy(),), np.mean, axis=-1, confidence_level=level, n_resamples=2000, batch=100,
        method="percentile", vectorized=True, rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    low, high = np.atleast_1d(found.low).tolist(), np.atleast_1d(found.high).tolist()
    return list(zip(low, high, strict=True))
