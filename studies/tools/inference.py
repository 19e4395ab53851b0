"""Statistics for studies: times until an event, means and ranks of two groups, in numbers and in words."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import cache
from itertools import chain, combinations
from statistics import mean, median
from typing import Any

from hopscope.statistics import clopper_pearson, rank_correlation

_RESAMPLES = 10_000
"""The maximum number of random permutations."""

_WAYS = 200_000
"""The same for `log_rank`. Many of these tests are corrected together, so small p-values must be possible."""

Times = Sequence[int | None]
"""The time of an event for each of several subjects; None if it did not happen before the observation ended."""


def share_in_words(successes: int, trials: int) -> str:
    """Return a proportion with its exact 95% interval in words: `3 of 4 (19% to 99%)`."""
    low, high = clopper_pearson(successes, trials)
    return f"{successes} of {trials} ({low:.0%} to {high:.0%})"


def log_rank(first: Times, until: int, second: Times, other_until: int) -> float:
    """Return the two-sided p-value of the log-rank test that an event has the same rate in both groups.

    The test permutes its scores: over all splits into two groups if there are at most 200,000, otherwise over 200,000
    random splits. The usual chi-squared approximation gives too small p-values for small groups, which matters where
    many tests are corrected together. The p-value is 1 if the event never happened.

    Args:
        first: times of the first group. A subject without the event (None) is censored.
        until: when the observation of the first group ended.
        second: times of the second group.
        other_until: when the observation of the second group ended.
    """
    import numpy as np

    ends = [*(until for _ in first), *(other_until for _ in second)]
    times = np.array([end if time is None else time for time, end in zip((*first, *second), ends, strict=True)])
    happened = np.array([time is not None for time in (*first, *second)])
    moments = np.unique(times[happened])
    at_risk = times[:, None] >= moments
    rates = ((times[:, None] == moments) & happened[:, None]).sum(0) / at_risk.sum(0)
    scores = happened - at_risk @ rates  # observed minus expected events of each subject
    n, all_ways = len(first), math.comb(len(scores), len(first)) <= _WAYS
    if all_ways:
        dealt = scores[_splits(len(scores), n)]
    else:
        dealt = np.random.default_rng(0).permuted(np.tile(scores, (_WAYS, 1)), axis=1)[:, :n]
    as_far = int(np.sum(abs(dealt.sum(1)) >= abs(scores[:n].sum()) - 1e-9))
    return as_far / len(dealt) if all_ways else (as_far + 1) / (len(dealt) + 1)


@cache
def _splits(n: int, of_first: int) -> Any:
    """Return every way to choose `of_first` of `n` subjects, with a row for each way."""
    import numpy as np

    places = chain.from_iterable(combinations(range(n), of_first))
    return np.fromiter(places, np.intp).reshape(-1, of_first)


def survival_median(times: Times, until: int) -> tuple[float | None, float | None, float | None]:
    """Return the Kaplan-Meier median time with a 95% interval (log-log); None for a time after the observation ended.

    If the curve's confidence band does not give an end of the interval, the sign test gives it for six or more times:
    the first time is the lower end (0 for fewer times), and the last time is the upper end if all had the event.
    """
    from scipy.stats import ecdf

    if all(time is None for time in times):
        return None, None, None
    curve: Any = ecdf(_censored(times, until)).sf
    with warnings.catch_warnings():  # a share of 0 or 1 at the ends of the curve has no interval
        warnings.simplefilter("ignore", RuntimeWarning)
        band = curve.confidence_interval(0.95, method="log-log")

    def crossing(values: Any) -> float | None:
        shares = zip(curve.quantiles, values.tolist(), strict=True)
        return next((float(at) for at, share in shares if share <= 0.5 + 1e-9), None)  # one half, up to rounding

    middle, low, high = (crossing(line.probabilities) for line in (curve, band.low, band.high))
    known = [time for time in times if time is not None]
    enough = 0.5 ** len(times) <= 0.025
    if middle is not None and low is None:
        low = float(min(known)) if enough else 0.0
    if high is None and enough and len(known) == len(times):
        high = float(max(known))
    return middle, low, high


def ratio_of_means(first: Times, second: Times, until: int) -> tuple[float, float, float]:
    """Return the ratio of the two groups' mean times (first / second), with the 95% Welch t interval of its logarithm.

    A subject without the event counts with the length of the observation, so the ratio is closer to 1 than the ratio of
    the full times. The interval is 0 to infinity if a group has only one time. For ten lognormal times in each group,
    the interval covers the true ratio in 94 of 100 draws if the standard deviation of the logarithms is 0.5, and in 91
    of 100 draws if it is 1.
    """
    from scipy.stats import sem, t

    both = [[until if time is None else time for time in times] for times in (first, second)]
    ratio = mean(both[0]) / mean(both[1])
    if min(map(len, both)) < 2:
        return ratio, 0.0, math.inf
    variances = [float(sem(times) / mean(times)) ** 2 for times in both]  # of the logarithm of each mean
    variance = sum(variances)
    if not variance:
        return ratio, ratio, ratio
    freedom = variance**2 / sum(variance**2 / (len(times) - 1) for variance, times in zip(variances, both, strict=True))
    reach = float(t.ppf(0.975, freedom)) * math.sqrt(variance)
    return ratio, ratio * math.exp(-reach), ratio * math.exp(reach)


def fewer(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the one-sided p-value of the Mann-Whitney test that the first values tend to be smaller than the second.

    The p-value is by permutation. It is exact, with or without ties, for up to ten thousand possible splits of the
    values; otherwise the test draws ten thousand random splits.
    """
    import numpy as np
    from scipy.stats import PermutationMethod, mannwhitneyu

    if not first or not second or len({*first, *second}) < 2:
        return 1.0
    together = [*first, *second]
    if len(first) == 1:  # scipy permutes two or more
        return sum(value <= first[0] for value in together) / len(together)
    if len(second) == 1:
        return sum(value >= second[0] for value in together) / len(together)
    method = PermutationMethod(n_resamples=_RESAMPLES, rng=np.random.default_rng(0))
    return float(mannwhitneyu(first, second, alternative="less", method=method).pvalue)


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval of a mean by Student's t, which suits few values; unbounded for fewer than two."""
    from scipy.stats import sem, t

    if len(values) < 2:
        return -math.inf, math.inf
    reach = float(t.ppf(0.975, len(values) - 1) * sem(values))
    return mean(values) - reach, mean(values) + reach


def _censored(times: Times, until: int) -> Any:
    from scipy.stats import CensoredData

    return CensoredData(
        uncensored=[time for time in times if time is not None], right=[until for time in times if time is None]
    )


def spread_in_words(values: Sequence[float]) -> str:
    """Return the median, minimum and maximum in words: `9 (6 to 14)`; `-` if there are no values."""
    return f"{median(values):.3g} ({min(values):.3g} to {max(values):.3g})" if values else "-"


def rank_correlation_test(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Return Spearman's rank correlation and its two-sided p-value; 0 and 1 for fewer than three or constant values.

    The p-value is by permutation: exact for up to seven values, otherwise from ten thousand random draws and therefore
    at least 0.0002. A p-value by Student's t would be far too small for few or tied values.
    """
    import numpy as np
    from scipy.stats import permutation_test, rankdata

    correlation = rank_correlation(first, second)
    if not correlation:
        return 0.0, 1.0
    ranks, others = rankdata(first), rankdata(second) - (len(second) + 1) / 2
    by_permutation = permutation_test(  # the correlation is a multiple of this statistic
        (ranks,), lambda some, axis: (some * others).sum(axis), permutation_type="pairings", vectorized=True,
        n_resamples=_RESAMPLES, rng=np.random.default_rng(0),
    )  # fmt: skip
    return correlation, float(by_permutation.pvalue)
