"""The studies' statistics, against values by hand and from the literature."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hopscope.studies.statistics import clopper_pearson, holm, log_rank, ratio_of_means, survival_median, t_interval


def test_shares():
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert clopper_pearson(0, 10)[1] == pytest.approx(1 - 0.025**0.1)
    assert clopper_pearson(10, 10)[0] == pytest.approx(0.025**0.1)


def test_the_interval_of_a_mean_of_few():
    """By hand, with 4.3027 of the table for two degrees of freedom."""
    reach = 4.3027 / math.sqrt(3)
    assert t_interval([1, 2, 3]) == pytest.approx((2 - reach, 2 + reach), abs=1e-4)
    assert t_interval([5, 5, 5]) == (5, 5)
    assert t_interval([5]) == (-math.inf, math.inf)


def test_holm():
    """Worked by hand: 4, 3, 2 and 1 times the p-values from the least on, never falling."""
    assert holm([0.04, 0.01, 0.03, 0.005]) == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_log_rank_of_the_leukemia_data():
    """Freireich et al. 1963: weeks of remission with and without 6-MP, all who left the trial counted as watched to its
    end, which only widens the difference (chi-squared 16.8 in Cox and Oakes 1984)."""
    placebo = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
    treated: list[int | None] = [6, 6, 6, 7, 10, 13, 16, 22, 23, *[None] * 12]
    assert log_rank(placebo, 35, treated, 35) < 1e-4
    assert log_rank(placebo, 35, placebo, 35) == pytest.approx(1)


def test_never_is_no_difference_where_all_never_do():
    assert log_rank([None, None], 10, [None], 20) == 1.0
    assert log_rank([5, 5], 10, [5], 20) == 1.0


def test_the_censored_count_in_the_median():
    assert survival_median([1, 2, 3, None, None], 10)[0] == 3
    assert survival_median([1, 2, None, None, None], 10) == (None, 1, None)
    assert survival_median([None, None], 10) == (None, None, None)
    middle, low, high = survival_median(list(range(1, 42)), 100)
    assert middle == 21
    assert low is not None
    assert high is not None
    assert low < 21 < high


def test_ratios():
    rng = np.random.default_rng(1)
    slow, fast = ([int(value) for value in rng.normal(mean, 20, 40)] for mean in (400, 200))
    ratio, low, high = ratio_of_means(slow, fast, 1000)
    assert ratio == pytest.approx(2, rel=0.05)
    assert low < ratio < high
    assert high - low < 0.2
    assert ratio_of_means([None], [5], 10) == (2.0, 0.0, math.inf)
    assert ratio_of_means([None, None], [5, 5], 10) == (2.0, 2.0, 2.0)
