"""The statistics of the benchmark, all of them scipy's."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

import numpy as np
from scipy import stats

from hopscope.errors import InputError


def wilson(successes: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion; it does not collapse at 0% or 100% as bootstrap intervals do.

    Expected numbers (exact mode) are rounded outwards: such an interval is too wide, never too narrow, since
    probabilities vary less than draws. Below one trial there is nothing to know: (0, 1).
    """
    _check(successes, trials)
    whole = floor(trials + 1e-9)
    if whole < 1:
        return 0.0, 1.0
    scaled = min(successes * whole / trials, whole)
    few, many = floor(scaled + 1e-9), ceil(scaled - 1e-9)
    low = stats.binomtest(few, whole).proportion_ci(confidence, method="wilson").low
    high = stats.binomtest(many, whole).proportion_ci(confidence, method="wilson").high
    return (0.0 if few == 0 else float(low)), (1.0 if many == whole else float(high))


def at_least(successes: float, trials: float, rate: float) -> float:
    """Exact one-sided p-value: the probability of `successes` or more out of `trials` at `rate`.

    Of expected numbers, successes are rounded down and trials up, which is cautious.
    """
    _check(successes, trials)
    if not 0 < rate < 1:
        raise InputError(f"rate must lie strictly between 0 and 1, got {rate}")
    right, whole = floor(successes + 1e-9), ceil(trials - 1e-9)
    return float(stats.binomtest(right, whole, rate, alternative="greater").pvalue) if whole else 1.0


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test, from the questions that one model alone got right."""
    discordant = only_first + only_second
    _check(only_first, discordant)
    return float(stats.binomtest(only_first, discordant).pvalue) if discordant else 1.0


def paired_interval(
    differences: Sequence[float], weights: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Bootstrap interval (percentiles, seeded) for the weighted mean of paired differences, each in -1..1.

    Where all differences are equal a bootstrap knows no spread; then Wilson's interval at none of n says how many
    questions might tell the two apart unseen.
    """
    if np.ptp(differences) == 0:
        unseen = wilson(0, sum(weights), confidence)[1]
        return max(-1.0, differences[0] - unseen), min(1.0, differences[0] + unseen)
    found = stats.bootstrap(
        (np.asarray(differences), np.asarray(weights)),
        lambda values, shares, axis=-1: (values * shares).sum(axis) / shares.sum(axis),
        confidence_level=confidence, method="percentile", paired=True, vectorized=True, batch=1000,
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return float(found.low), float(found.high)


def uniform(counts: Sequence[int]) -> float:
    """p-value of Pearson's chi-square test that counts come from equal chances."""
    return float(stats.chisquare(counts).pvalue)


def _check(successes: float, trials: float) -> None:
    if not 0 <= successes <= trials + 1e-9:
        raise InputError(f"successes must lie in 0..trials, got {successes} of {trials}")
