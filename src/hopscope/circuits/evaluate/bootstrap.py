"""Means over sequences with their bootstrap intervals: one resampling serves any number of measurements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from torch import Tensor

from hopscope.errors import InputError

Interval = tuple[float, float]

_RESAMPLES = 2000


@dataclass(frozen=True)
class Measured:
    """A mean over sequences that no search saw, with its 95% interval by the bootstrap; six digits of each."""

    mean: float
    interval: Interval

    def __post_init__(self) -> None:
        if self.interval[0] > self.interval[1]:
            raise InputError(f"an interval must be its lowest and highest number, got {self.interval}")


def tidy(value: float) -> float:
    """A value rounded to six digits: more would be noise."""
    return float(f"{value:.6g}")


def measured(values: Float[Tensor, " sequence"], seed: int) -> Measured:
    """The mean of values by sequence, with its interval from `seed`."""
    ((low, high),) = intervals(values[None], seed)
    return Measured(tidy(float(values.mean())), (tidy(low), tidy(high)))


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


@lru_cache(maxsize=4)  # the checks measure hundreds of losses on a few sets of sequences
def _drawn(sequences: int, seed: int) -> npt.NDArray[np.float64]:
    """How often each resample draws each sequence: (sequence, resample)."""
    random, often = np.random.default_rng(seed), np.empty((sequences, _RESAMPLES))
    for resample in range(_RESAMPLES):
        often[:, resample] = np.bincount(random.integers(0, sequences, sequences), minlength=sequences)
    return often
