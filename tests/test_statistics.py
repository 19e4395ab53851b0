"""Statistics of package and studies, against values by hand, by counting every case, and from the literature."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from hopscope.benchmark.points import at_least
from hopscope.errors import InputError
from hopscope.statistics import clopper_pearson, fisher, holm, intervals, measured, sign_test, wilson
from studies.tools.inference import fewer, log_rank, rank_correlation_test, ratio_of_means, survival_median, t_interval


def test_shares():
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert clopper_pearson(0, 10)[1] == pytest.approx(1 - 0.025**0.1)
    assert clopper_pearson(10, 10)[0] == pytest.approx(0.025**0.1)


def test_holm():
    """Worked by hand: 4, 3, 2 and 1 times the p-values from the least on, never falling."""
    assert holm([0.04, 0.01, 0.03, 0.005]) == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_fishers_exact_test_of_the_lady_tasting_tea() -> None:
    """Three of four cups told right and one of four said to be so by mistake: 17 of 70 ways are as good."""
    assert fisher(3, 4, 1, 4) == pytest.approx(17 / 70)
    assert fisher(1, 4, 3, 4) == pytest.approx(69 / 70)  # one-sided
    assert fisher(6, 6, 0, 6) == pytest.approx(1 / 924)
    assert fisher(0, 0, 0, 6) == 1.0


@pytest.mark.parametrize("sequences", [2, 7, 48, 256, 2048])
@pytest.mark.parametrize("level", [0.95, 0.5])
def test_bootstrap_intervals_are_scipys(sequences: int, level: float) -> None:
    values = torch.randn(3, sequences, generator=torch.Generator().manual_seed(sequences)).exp().double()
    theirs = bootstrap(
        (values.numpy(),), np.mean, axis=-1, confidence_level=level, n_resamples=2000, batch=100,
        method="percentile", vectorized=True, rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    wanted = np.stack([theirs.low, theirs.high], axis=1)
    np.testing.assert_allclose(intervals(values, 5, level), wanted, rtol=1e-12)
    assert measured(values[0], 5).mean == pytest.approx(float(values[0].mean()), rel=1e-5)
    np.testing.assert_allclose(intervals(values[1:2], 5, level), wanted[1:2], rtol=1e-12)  # alone as among others


@given(st.integers(1, 400), st.data())
def test_wilson_solves_its_equation(trials: int, data: st.DataObject) -> None:
    """The ends are the rates p with (x/n - p)^2 = z^2 p (1 - p) / n."""
    successes = data.draw(st.integers(0, trials))
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    for p in (low, high):
        assert (successes / trials - p) ** 2 == pytest.approx(1.959963984540054**2 * p * (1 - p) / trials, abs=1e-12)
    assert wilson(9.2, 9.9) == (wilson(8, 9)[0], wilson(9, 9)[1])  # 9.2 of 9.9 are 8.4 of 9: down and up


@given(st.integers(1, 60), st.data(), st.sampled_from([Fraction(1, 4), Fraction(1, 16), Fraction(17, 32)]))
def test_binomial_tail_is_exact(trials: int, data: st.DataObject, rate: Fraction) -> None:
    successes = data.draw(st.integers(0, trials))
    tail = sum(comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(successes, trials + 1))
    assert at_least(successes, trials, float(rate)) == pytest.approx(float(tail), rel=1e-10)


@pytest.mark.parametrize(
    ("ups", "downs", "p"), [(0, 0, 1.0), (5, 5, 1.0), (1, 9, 22 / 1024), (0, 6, 2 / 64), (12, 3, 0.03515625)]
)
def test_signs(ups: int, downs: int, p: float) -> None:
    assert sign_test([1] * ups + [-0.5] * downs + [0, 0]) == pytest.approx(p)
    assert sign_test([1] * downs + [-1] * ups) == pytest.approx(p)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5)])
def test_impossible_counts(successes: int, trials: int) -> None:
    with pytest.raises(InputError, match=r"successes must lie in 0\.\.trials"):
        wilson(successes, trials)


def test_the_interval_of_a_mean_of_few():
    """By hand, with 4.3027 of the table for two degrees of freedom."""
    reach = 4.3027 / math.sqrt(3)
    assert t_interval([1, 2, 3]) == pytest.approx((2 - reach, 2 + reach), abs=1e-4)
    assert t_interval([5, 5, 5]) == (5, 5)
    assert t_interval([5]) == (-math.inf, math.inf)


def test_log_rank_of_the_leukemia_data():
    """Freireich et al. 1963: weeks of remission with and without 6-MP, all who left the trial counted as watched to its
    end, which only widens the difference (chi-squared 16.8 in Cox and Oakes 1984)."""
    placebo = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
    treated: list[int | None] = [6, 6, 6, 7, 10, 13, 16, 22, 23, *[None] * 12]
    assert log_rank(placebo, 35, treated, 35) < 1e-4
    assert log_rank(placebo, 35, placebo, 35) == pytest.approx(1)


def test_log_rank_by_every_way_to_deal_the_times_out():
    """Three of six come first: one of twenty ways, and its mirror; chi-squared has 0.02."""
    assert log_rank([1, 2, 3], 10, [4, 5, None], 10) == pytest.approx(2 / 20)
    assert log_rank([1, 1, 1], 10, [None] * 3, 10) == pytest.approx(2 / 20)
    early, late = list(range(1, 11)), list(range(11, 21))
    assert log_rank(early, 30, late, 30) == pytest.approx(2 / math.comb(20, 10))


def test_never_is_no_difference_where_all_never_do():
    assert log_rank([None, None], 10, [None], 20) == 1.0
    assert log_rank([5, 5], 10, [5], 20) == 1.0


def test_seeds_that_never_learn_count_in_the_median():
    assert survival_median([1, 2, 3, None, None], 10)[0] == 3
    assert survival_median([1, 2, None, None, None], 10) == (None, 1, None)
    assert survival_median([120, 160, 120, 120, 120, 140, 160, 160, 140, 160], 999) == (140, 120, 160)  # all have it
    assert survival_median([7] * 6, 10) == (7, 7, 7)
    assert survival_median([7] * 5, 10) == (7, 0, None)  # 1 in 32 that all are early
    assert survival_median([7], 10) == (7, 0, None)
    assert survival_median([None, None], 10) == (None, None, None)
    middle, low, high = survival_median(list(range(1, 42)), 100)
    assert middle == 21
    assert low is not None
    assert high is not None
    assert low < 21 < high


def test_half_is_half_however_it_is_rounded():
    """Seven of fourteen by 140; the product of shares comes out a hair above one half."""
    times = [200, 180, None, 80, None, 20, None, 140, 80, 40, 100, None, 120, None]
    assert survival_median(times, 400)[0] == 140


def test_rank_correlation_of_few_values_counts_every_permutation():
    for n in range(3, 8):
        values = list(range(n))
        both = sum(1 for order in permutations(values) if list(order) in (values, values[::-1]))
        assert rank_correlation_test(values, [2**value for value in values]) == pytest.approx(
            (1, both / math.factorial(n))
        )
    assert rank_correlation_test([1, 2, 3, 4], [1, 0, 3, 2])[0] == pytest.approx(0.6)
    many = list(range(25))
    assert rank_correlation_test(many, [-value for value in many]) == pytest.approx((-1, 2 / 10_001))
    assert rank_correlation_test([1, 2], [1, 2]) == rank_correlation_test([1, 1, 1], [1, 2, 3]) == (0, 1)


def test_fewer_of_few_and_of_ties():
    """All zeros against three that are not: one of the twenty ways to choose three of six."""
    assert fewer([0, 0, 0], [1, 2, 3]) == pytest.approx(1 / 20)
    assert fewer([0, 0, 0], [1, 1, 1]) == pytest.approx(1 / 20)
    assert fewer([1, 1, 1], [0, 0, 0]) == 1
    assert fewer([0, 0], [0, 0]) == fewer([], [1]) == 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_fewer_is_the_share_of_divisions_that_are_as_far(first, second):
    """Of one value as of more, and with ties: by every way to divide them."""

    def rank_sum(chosen: list[int]) -> float:
        return sum((value > other) + (value == other) / 2 for value in chosen for other in [*first, *second])

    own = rank_sum(first)
    ways = [*combinations([*first, *second], len(first))]
    expected = sum(rank_sum(way) <= own + 1e-9 for way in ways) / len(ways)
    assert fewer(first, second) == pytest.approx(expected)


def test_ratios():
    rng = np.random.default_rng(1)
    slow, fast = ([int(value) for value in rng.normal(mean, 20, 40)] for mean in (400, 200))
    ratio, low, high = ratio_of_means(slow, fast, 1000)
    assert ratio == pytest.approx(2, rel=0.05)
    assert low < ratio < high
    assert high - low < 0.2
    assert ratio_of_means([None], [5], 10) == (2.0, 0.0, math.inf)
    assert ratio_of_means([None, None], [5, 5], 10) == (2.0, 2.0, 2.0)


def test_the_interval_of_a_ratio_of_few_has_the_truth_in_it_as_often_as_it_says():
    """A bootstrap's of ten against ten has it in 92 of 100."""
    drawn = np.random.default_rng(0).lognormal(10, 0.5, (1000, 20)).astype(int).tolist()
    found = [ratio_of_means(values[:10], values[10:], 10**9) for values in drawn]
    assert sum(low <= 1 <= high for _, low, high in found) >= 0.935 * len(found)
    skewed = np.random.default_rng(0).lognormal(10, 1, (1000, 20)).astype(int).tolist()
    found = [ratio_of_means(values[:10], values[10:], 10**9) for values in skewed]
    covered = sum(low <= 1 <= high for _, low, high in found) / len(found)
    assert 0.9 <= covered <= 0.93  # too narrow, as its docstring tells
