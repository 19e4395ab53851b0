"""The statistics of the benchmark, all of them scipy's."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

import numpy as np

from hopscope.errors import InputError
from hopscope.statistics import check_successes, wilson


def at_least(successes: float, trials: float, rate: float) -> float:
    """Exact one-sided p-value: the probability of `successes` or more out of `trials` at `rate`.

    Of expected numbers, successes are rounded down and trials up, which is cautious.
    """
    from scipy.stats import binomtest

    check_successes(successes, trials)
    if not 0 < rate < 1:
        raise InputError(f"rate must lie strictly between 0 and 1, got {rate}")
    right, whole = floor(successes + 1e-9), ceil(trials - 1e-9)
    return float(binomtest(right, whole, rate, alternative="greater").pvalue) if whole else 1.0


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test, from the questions that one model alone got right."""
    from scipy.stats import binomtest

    discordant = only_first + only_second
    check_successes(only_first, discordant)
    return float(binomtest(only_first, discordant).pvalue) if discordant else 1.0


def paired_interval(
    differences: Sequence[float], weights: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Bootstrap interval (percentiles, seeded) for the weighted mean of paired differences, each in -1..1.

    Where all differences are equal a bootstrap shows no spread. Then Wilson's interval at none of n says how many
    questions that tell the two apart might have gone unseen.
    """
    from scipy.stats import bootstrap

    if np.ptp(differences) == 0:
        unseen = wilson(0, sum(weights), confidence)[1]
        return max(-1.0, differences[0] - unseen), min(1.0, differences[0] + unseen)
    found = bootstrap(
        (np.asarray(differences), np.asarray(weights)),
        lambda values, shares, axis=-1: (values * shares).sum(axis) / shares.sum(axis),
        confidence_level=confidence, method="percentile", paired=True, vectorized=True, batch=1000,
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return float(found.low), float(found.high)


def uniform(counts: Sequence[int]) -> float:
    """p-value of Pearson's chi-square test that counts come from equal chances."""
    from scipy.stats import chisquare

    return float(chisquare(counts).pvalue)
