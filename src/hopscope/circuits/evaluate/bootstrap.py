"""Bootstrap intervals of means over sequences: one resampling serves any number of measurements."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from torch import Tensor

Interval = tuple[float, float]

_RESAMPLES = 2000


def intervals(values: Float[Tensor, "measurement sequence"], seed: int, level: float = 0.95) -> list[Interval]:
    """Percentile intervals of the mean of each row: those of `scipy.stats.bootstrap`.

    Rows share their resamples, so pass differences to get intervals of differences. `level` is how often such an
    interval should contain the mean over all possible sequences.
    """
    if not len(values):
        return []
    means = values.double().cpu().numpy() @ _drawn(values.shape[1], seed) / values.shape[1]
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2), axis=1).tolist()
    return list(zip(low, high, strict=True))


@lru_cache(maxsize=4)  # a certificate measures hundreds of losses on a few sets of sequences
def _drawn(sequences: int, seed: int) -> npt.NDArray[np.float64]:
    """How often each resample draws each sequence: (sequence, resample)."""
    random, often = np.random.default_rng(seed), np.empty((sequences, _RESAMPLES))
    for index in range(_RESAMPLES):
        often[:, index] = np.bincount(random.integers(0, sequences, sequences), minlength=sequences)
    return often
