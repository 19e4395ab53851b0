"""Statistics, against values by hand, by counting every case, and from the literature."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from hopscope.benchmark.points import at_least
from hopscope.errors import InputError
from hopscope.statistics import clopper_pearson, fisher, holm, intervals, sign_test, wilson


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


def test_bootstrap_intervals_hold_what_they_say() -> None:
    """95% intervals of 200 samples hold the true mean about 95 times in 100, and shrink with the square root."""
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(200, 100, generator=generator).exp()
    truth = float(torch.tensor(0.5).exp())
    found = intervals(samples, seed=3)
    hold = sum(low <= truth <= high for low, high in found)
    assert 170 <= hold <= 198
    wide = sum(high - low for low, high in found) / 200
    narrow = sum(h - low for low, h in intervals(torch.randn(200, 400, generator=generator).exp(), seed=3)) / 200
    assert 1.6 < wide / narrow < 2.5
    assert intervals(samples, seed=3) == found
    constant = intervals(torch.full((1, 10), 0.25), seed=0)
    assert constant == [(pytest.approx(0.25), pytest.approx(0.25))]


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
    np.testing.assert_allclose(intervals(values[1:2], 5, level), wanted[1:2], rtol=1e-12)  # alone as among others


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, Wilson's score
        (0, 20, 0.0, 0.1611),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_wilson_reference_values(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 400), st.data())
def test_wilson_solves_its_equation(trials: int, data: st.DataObject) -> None:
    """The ends are the rates p with (x/n - p)^2 = z^2 p (1 - p) / n."""
    successes = data.draw(st.integers(0, trials))
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    for p in (low, high):
        assert (successes / trials - p) ** 2 == pytest.approx(1.959963984540054**2 * p * (1 - p) / trials, abs=1e-12)


def test_above_chance_needs_142_of_500() -> None:
    assert at_least(142, 500, 0.25) <= 0.05 < at_least(141, 500, 0.25)


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
