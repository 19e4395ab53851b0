"""The statistics of the benchmark, exact and from the standard library alone."""

from __future__ import annotations

from math import exp, lgamma, log, sqrt
from statistics import NormalDist

from hopscope.errors import InputError


def wilson(successes: float, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion; it does not collapse at 0% or 100% as bootstrap intervals do.

    Args:
        successes: successes; a sum of probabilities too, for exact accuracies (the interval is then too wide, never
            too narrow, since probabilities vary less than draws).
        trials: trials; 0 gives the interval that knows nothing, (0, 1).
        confidence: coverage.
    """
    _check(successes, trials)
    if trials == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate, spread = successes / trials, z * z / trials
    centre = (rate + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(rate * (1 - rate) / trials + spread / (4 * trials))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return low, high


def log_binomial(successes: int, trials: int, rate: float) -> float:
    """The logarithm of the binomial probability of `successes`; `rate` strictly between 0 and 1."""
    ways = lgamma(trials + 1) - lgamma(successes + 1) - lgamma(trials - successes + 1)
    return ways + successes * log(rate) + (trials - successes) * log(1 - rate)


def at_least(successes: int, trials: int, rate: float) -> float:
    """Exact one-sided p-value: the probability of `successes` or more out of `trials` at `rate`."""
    _check(successes, trials)
    if not 0 < rate < 1:
        raise InputError(f"rate must lie strictly between 0 and 1, got {rate}")
    if successes == 0:
        return 1.0
    return min(1.0, sum(exp(log_binomial(k, trials, rate)) for k in range(trials, successes - 1, -1)))


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test for paired answers.

    Args:
        only_first: questions that the first model alone got right.
        only_second: questions that the second model alone got right.
    """
    discordant = only_first + only_second
    _check(only_first, discordant)
    if discordant == 0:
        return 1.0
    return min(1.0, 2 * at_least(max(only_first, only_second), discordant, 0.5))


def _check(successes: float, trials: int) -> None:
    if not 0 <= successes <= trials:
        raise InputError(f"successes must lie in 0..trials, got {successes} of {trials}")
