"""Statistics: intervals of proportions, rank and sign tests, multiple tests, and means with bootstrap intervals.

Distributions, intervals of proportions and rank tests come from SciPy.

>>> import hopscope as hs
>>> hs.statistics.clopper_pearson(0, 20)[0]
0.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from hopscope.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

__all__ = ["clopper_pearson", "fisher", "holm", "measured", "rank_correlation", "sign_test", "wilson"]

Interval = tuple[float, float]

_RESAMPLES = 2000


@cache
def clopper_pearson(successes: int, trials: int) -> tuple[float, float]:
    """Return the exact 95% (Clopper-Pearson) interval of a proportion; (0, 1) if there were no trials.

    Raises:
        InputError: `successes` is negative or exceeds `trials`.
    """
    from scipy.stats import binomtest

    _check_share(successes, trials)
    if not trials:
        return 0.0, 1.0
    interval = binomtest(successes, trials).proportion_ci(0.95, method="exact")
    return float(interval.low), float(interval.high)


def wilson(successes: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval for a proportion; unlike a bootstrap interval, it has a width at 0% and 100%.

    A fractional count, such as a sum of probabilities, is rounded down for the lower limit and up for the upper limit.
    The interval is then too wide rather than too narrow, since probabilities vary less than draws. With less than one
    trial, the interval is (0, 1).

    Raises:
        InputError: `successes` is negative or exceeds `trials`.
    """
    from scipy.stats import binomtest

    _check_share(successes, trials)
    whole = math.floor(trials + 1e-9)
    if whole < 1:
        return 0.0, 1.0
    scaled = min(successes * whole / trials, whole)
    few, many = math.floor(scaled + 1e-9), math.ceil(scaled - 1e-9)
    low = binomtest(few, whole).proportion_ci(confidence, method="wilson").low
    high = binomtest(many, whole).proportion_ci(confidence, method="wilson").high
    return (0.0 if few == 0 else float(low)), (1.0 if many == whole else float(high))


def _check_share(successes: float, trials: float) -> None:
    if not 0 <= successes <= trials + 1e-9:
        raise InputError(f"successes must lie in 0..trials, got {successes} of {trials}")


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values after Holm's correction; compare each with the significance level for all tests together."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected, worst = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = worst
    return corrected


def sign_test(changes: Sequence[float], alternative: Literal["two-sided", "greater"] = "two-sided") -> float:
    """Return the p-value of the exact sign test; its null hypothesis is that rises and falls are equally likely.

    There is one change per subject, and zeros are ignored; `greater` tests whether rises are more likely.
    """
    from scipy.stats import binomtest

    ups, downs = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    return float(binomtest(ups, ups + downs, alternative=alternative).pvalue) if ups + downs else 1.0


def fisher(successes: int, trials: int, others: int, of_others: int) -> float:
    """Return the p-value of Fisher's exact test; the alternative is that `successes / trials` is the larger share."""
    import numpy as np
    from scipy.stats import fisher_exact

    table = np.array([[successes, trials - successes], [others, of_others - others]])
    return float(fisher_exact(table, alternative="greater").pvalue)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 0 if there are fewer than three values or all values of a side are equal."""
    from scipy.stats import spearmanr

    if len(first) < 3 or len({*first}) < 2 or len({*second}) < 2:
        return 0.0
    return float(spearmanr(first, second).statistic)


@dataclass(frozen=True)
class Measured:
    """A mean over sequences that no search used, with its 95% bootstrap interval, both rounded to six digits."""

    mean: float
    interval: Interval

    def __post_init__(self) -> None:
        if self.interval[0] > self.interval[1]:
            raise InputError(f"an interval must have its lower end first, got {self.interval}")


def tidy(value: float) -> float:
    """Return a value rounded to six significant digits, since more would be noise."""
    return float(f"{value:.6g}")


def measured(values: Tensor, seed: int) -> Measured:
    """Return the mean of values [sequence] with its bootstrap interval, whose resamples are drawn from `seed`."""
    ((low, high),) = intervals(values[None], seed)
    return Measured(tidy(float(values.mean())), (tidy(low), tidy(high)))


def intervals(values: Tensor, seed: int, level: float = 0.95) -> list[Interval]:
    """Return a percentile bootstrap interval of the mean of each row of values [measurement, sequence].

    The intervals equal those of `scipy.stats.bootstrap`. All rows share their resamples, so pass differences to get
    intervals of differences. `level` is the confidence level.
    """
    import numpy as np

    if not len(values):
        return []
    low, high = np.quantile(resampled(values, seed), ((1 - level) / 2, (1 + level) / 2), axis=1).tolist()
    return list(zip(low, high, strict=True))


def resampled(values: Tensor, seed: int) -> npt.NDArray[Any]:
    """Return bootstrap means [..., resample] over sequences, the last axis of `values`; all rows share their draws."""
    found: npt.NDArray[Any] = values.double().cpu().numpy() @ _drawn(values.shape[-1], seed) / values.shape[-1]
    return found


@lru_cache(maxsize=4)  # the checks measure hundreds of losses on a few sets of sequences
def _drawn(sequences: int, seed: int) -> npt.NDArray[Any]:
    """Return how often each resample draws each sequence, as an array [sequence, resample]."""
    import numpy as np

    random, often = np.random.default_rng(seed), np.empty((sequences, _RESAMPLES))
    for resample in range(_RESAMPLES):
        often[:, resample] = np.bincount(random.integers(0, sequences, sequences), minlength=sequences)
    return often
